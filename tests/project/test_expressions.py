"""No regular expression takes longer than about linear time, whatever text it meets.

All expressions of all modules are found by walking the modules. Each is attacked with long texts
made of itself: what stands before one of its repetitions, then what it repeats, many times.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# What Python's own parser makes of an expression; these modules have no types.
PARSER: Any = importlib.import_module("re._parser")
COMPILER: Any = importlib.import_module("re._compiler")
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
GROUPS = ("SUBPATTERN", "ATOMIC_GROUP")
MANY = 100

PACKAGES = ("kglink", "kglink_kbs", "kglink_plugins", "kglink_cli", "kglink_papers", "kglink_doors")
#: Where the caller bounds what an expression meets: at most so many characters.
BOUNDED = {
    "kglink.text.codes._IRI": 256,
    "kglink_kbs.mediawiki.languages.INFOBOX": 100,
    "kglink_plugins.detectors.capitals._BEGINS_SENTENCE": 20,
    "kglink.text.sentences._BEFORE": 60,
}
#: Called by another name, with `fullmatch` alone.
WHOLE = {"kglink_kbs.ontology._CODED"}
SHORT, LONG = 2_000, 8_000
#: Computing time in seconds from which growth is looked at; a linear search of 2,000 characters
#: takes a twentieth of it.
SLOW = 0.003
#: What seems slow is measured so often: a busy machine is slow for a while.
_RUNS = 5
#: Four times the text may take so many times as long; 16 is quadratic.
MOST_GROWTH = 9
COMMON = " \n\tabA0.-_,;:'\"<>[]{}()|=#/\\&\x01\xa0"


def sources() -> dict[str, str]:
    """By name the text of every module."""
    return {
        found.name: Path(spec.origin).read_text(encoding="utf-8")
        for name in PACKAGES
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")
        if (spec := importlib.util.find_spec(found.name)) and spec.origin
    }


def expressions(value: object) -> Iterator[re.Pattern[Any]]:
    """The expressions in a value: itself, or those in a list or a table of them."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | Mapping):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from expressions(one)


class Found(NamedTuple):
    """An expression, where it stands, and the methods that are called of it."""

    name: str
    expression: re.Pattern[Any]
    used: set[str]

    @property
    def begins_anywhere(self) -> bool:
        return self.name not in WHOLE and not (self.used and self.used <= {"match", "fullmatch"})


def found_expressions() -> list[Found]:
    """Every expression of every module, and those that stand in a call."""
    found: dict[re.Pattern[Any], Found] = {}
    texts = sources()
    everything = "\n".join(texts.values())
    for module, text in texts.items():
        if "re.compile(" in text:
            for name, value in vars(importlib.import_module(module)).items():
                for one in expressions(value):
                    if re.search(rf"^{name}\b.*=", text, re.MULTILINE):
                        known = found.setdefault(one, Found(f"{module}.{name}", one, set()))
                        # The name of a private one may be that of another in another module.
                        used_in = text if name.startswith("_") else everything
                        known.used.update(re.findall(rf"\b{name}(?:\[\w+\])?\.(\w+)\(", used_in))
        for call in ast.walk(ast.parse(text)):
            match call:
                case ast.Call(
                    ast.Attribute(ast.Name("re"), method), [ast.Constant(pattern), *_]
                ) if method != "compile":
                    one = re.compile(pattern)
                    place = f"{module}:{call.lineno}"
                    found.setdefault(one, Found(place, one, set())).used.add(method)
    return list(found.values())


# ------------------------------------------------------------------------------------ attacks
def sample(tree: Any, pick: int) -> str:
    """A text that a part of an expression matches; ``pick`` chooses among its ways."""
    return "".join(_sampled(str(kind), value, pick) for kind, value in tree)


def _sampled(kind: str, value: Any, pick: int) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind in ("NOT_LITERAL", "ANY", "IN"):
        fit = fitting(kind, value)
        return fit[pick % len(fit)]
    if kind in REPEATS:
        least, most, body = value
        return str(sample(body, pick) * max(least, min(most, pick % 2)))
    parts = inner(kind, value)
    return sample(parts[pick % len(parts)], pick) if parts else ""


def inner(kind: str, value: Any) -> list[Any]:
    """The parts of a group."""
    if kind == "BRANCH":
        return list(value[1])
    return [value[-1] if kind == "SUBPATTERN" else value] if kind in GROUPS else []


def fitting(kind: str, value: Any) -> list[str]:
    """Characters that one place of an expression takes."""
    tree = PARSER.SubPattern(PARSER.State(), [(getattr(PARSER, kind), value)])
    one = COMPILER.compile(tree, re.UNICODE)
    named = [chr(each) for what, each in value if str(what) == "LITERAL"] if kind == "IN" else []
    return [sign for sign in (*named, *COMMON) if one.match(sign)] or ["\x02"]


def repeated(tree: Any, before: str, pick: int) -> Iterator[tuple[str, Any]]:
    """What may come many times in an expression, each with what stands before it."""
    for place, (kind, value) in enumerate(tree):
        start = before + sample(tree[:place], pick)
        parts = inner(str(kind), value)
        if str(kind) in REPEATS:
            parts = [value[2]]
            if value[1] >= MANY:
                yield start, value[2]
        elif str(kind).startswith("ASSERT"):
            parts = [value[1]]
        for part in parts:
            yield from repeated(part, start, pick)


def attacks(expression: re.Pattern[Any]) -> set[tuple[str, str]]:
    """Beginnings, and what is to be repeated behind them."""
    tree = PARSER.parse(expression.pattern, expression.flags)
    pumped = {
        (before, sample(body, way))
        for pick in range(3)
        for before, body in repeated(tree, "", pick)
        for way in range(6)
    }
    whole = [sample(tree, pick) for pick in range(4)]
    starts = {("", one[:cut]) for one in whole for cut in (1, 2, 3, 4, len(one))}
    return {(before, pump) for before, pump in pumped | starts if pump}


def seconds(search: Callable[[Any], object], text: str, *, binary: bool) -> float:
    given = text.encode("utf-8", "replace") if binary else text
    began = time.thread_time()  # threads that other tests left behind may work too
    search(given)
    return time.thread_time() - began


def searches(found: Found) -> list[Callable[[Any], object]]:
    one = found.expression
    if found.begins_anywhere:
        return [lambda text: sum(1 for _ in one.finditer(text))]
    return [one.match, one.fullmatch]


def attacked(found: Found) -> str:
    """The attack for which an expression takes too long; empty: none."""
    binary = isinstance(found.expression.pattern, bytes)
    longest = BOUNDED.get(found.name, 2 * LONG)
    for (before, pump), search in (
        (attack, search) for attack in attacks(found.expression) for search in searches(found)
    ):

        def taken(size: int, before: str = before, pump: str = pump, search: Any = search) -> float:
            text = before + pump * (size // len(pump) + 1) + "\x01"
            return seconds(search, text[:longest], binary=binary)

        def least(size: int, taken: Callable[[int], float] = taken) -> float:
            return min(taken(size) for _ in range(_RUNS))

        # From short to long: one that grows exponentially must not be asked for a long text.
        slow = next(
            (
                size
                for size in (12 * len(pump), 20 * len(pump), 200, 600, SHORT)
                if taken(size) > SLOW
            ),
            0,
        )
        if not slow or least(slow) <= SLOW:
            continue
        if slow < SHORT or least(LONG) > MOST_GROWTH * least(SHORT):
            return f"{found.name} {found.expression.pattern!r}: {before!r} + {pump!r} * n"
    return ""


@pytest.mark.parametrize(
    ("pattern", "slow"),
    [
        (r"(?:<!--.{0,2000}?-->\s*)*<html", True),
        (r"(?:a+)+$", True),
        (r"\s+$", True),
        (r"(?<!\s)\s++$", False),
        (r"a.*b.*c", True),
        (r"[a-z]+", False),
    ],
)
def test_a_slow_expression_is_known_when_seen(pattern: str, slow: bool) -> None:
    one = re.compile(pattern, re.DOTALL)
    assert bool(attacked(Found("", one, {"search"}))) is slow


def test_an_expression_that_begins_in_one_place_is_read_once() -> None:
    one = re.compile(r"(?><!--.{0,2000}?-->\s*)*+<html", re.DOTALL)
    assert not attacked(Found("", one, {"match"}))


def test_no_expression_takes_longer_than_linear_time() -> None:
    found = found_expressions()
    assert len(found) > 200
    assert not [told for one in found if (told := attacked(one))]
    names = {one.name for one in found}
    assert names >= {*BOUNDED, *WHOLE}
