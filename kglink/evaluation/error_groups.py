"""Why mentions are answered wrongly, counted in all and by group."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kglink.records import EntityId

#: What can be wrong with an answer; the first that holds is the reason.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "not detected": "no answer overlaps the mention",
        "other ends": "an answer overlaps the mention, but has other ends",
        "NIL mistaken": "an entity was answered where none is right, or none though a right one "
        "was a candidate",
        "counterpart": "the same thing in another KB was answered",
        "not retrieved": "no right entity is among the candidates",
        "outranked": "a right entity is among the candidates, and another one was answered",
    }
)
#: In the place of a KB: no entity, and no answer; the brackets keep them apart from KBs.
NIL_ROW, NOTHING = "[NIL]", "[nothing]"
#: The first count of each group of frequency and ambiguity.
_TIMES = (0, 1, 2, 10, 100)
_BEARERS = (0, 1, 2, 3, 10)


class Facts(NamedTuple):
    """What a mention is counted by."""

    reason: str | None
    golds: tuple[tuple[EntityId, str], ...]
    """Each with its type; nothing: NIL."""
    answer: str | None
    """The KB of the answer; None: NIL, or nothing."""
    is_found: bool
    bearers: int
    seen: bool | None
    times_learnt: int | None


class ErrorSummary:
    """How many mentions are right, and how many are wrong for each reason, in all and by group.

    ``groups`` are ``kb``, ``type``, ``ambiguity`` (how many entities bear the surface), and where
    it is known what was learnt from, ``frequency`` (how many mentions that were learnt from mean
    the gold) and ``surfaces`` (seen or unseen). A mention with golds in two KBs counts in both.
    """

    def __init__(self, kbs: Sequence[str] = (), learnt_from: Sequence[str] = ()) -> None:
        self.kbs = tuple(kbs)
        self.learnt_from = tuple(learnt_from)
        self.all: Counter[str | None] = Counter()
        self._groups: dict[str, dict[str, Counter[str | None]]] = {}
        self._confusion: Counter[tuple[str, str]] = Counter()
        self._right: Counter[tuple[str, str]] = Counter()
        self._typed: set[str] = set()

    def add(self, facts: Facts) -> None:
        """Count a mention."""
        self.all[facts.reason] += 1
        self._typed |= {gold.kb for gold, kind in facts.golds if kind}
        for name, group in _groups(facts):
            self._groups.setdefault(name, {}).setdefault(group, Counter())[facts.reason] += 1
        pair = _confused(facts, self.kbs)
        self._confusion[pair] += 1
        self._right[pair] += facts.reason is None

    @property
    def mentions(self) -> int:
        """How many there are."""
        return self.all.total()

    def groups(self) -> dict[str, dict[str, Counter[str | None]]]:
        """The counts of each group: types by their size, other groups in their own order.

        A KB none of whose golds has a type has no group of types.
        """
        orders: dict[str, Callable[[str], Any]] = {
            "kb": self._place_of_kb,
            "type": lambda group: (-self._groups["type"][group].total(), group),
            "frequency": _first_number,
            "ambiguity": _first_number,
            "surfaces": str,
        }
        found = {
            name: {
                group: self._groups[name][group] for group in sorted(self._groups[name], key=key)
            }
            for name, key in orders.items()
            if name in self._groups and (name != "type" or self._typed)
        }
        for kb in found.get("kb", {}).keys() - self._typed:
            found.get("type", {}).pop(f"{kb}: [none]", None)
        return found

    def as_json(self) -> dict[str, Any]:
        """In the shape of ``kglink eval --errors --json``."""
        return {
            **_counts(self.all),
            "learnt_from": list(self.learnt_from),
            "groups": {
                name: [{"group": group, **_counts(counts)} for group, counts in groups.items()]
                for name, groups in self.groups().items()
            },
            "confusion": [
                {"gold": gold, "answer": answer, "mentions": count, "right": self._right[pair]}
                for pair, count in sorted(self._confusion.items())
                for gold, answer in (pair,)
            ],
        }

    def _place_of_kb(self, name: str) -> tuple[int, str]:
        return (self.kbs.index(name) if name in self.kbs else len(self.kbs)), name


def _counts(counts: Counter[str | None]) -> dict[str, Any]:
    return {
        "mentions": counts.total(),
        "right": counts[None],
        "reasons": {reason: counts[reason] for reason in REASONS},
    }


def _groups(facts: Facts) -> Iterator[tuple[str, str]]:
    """The groups that a mention is of, each once."""
    kbs = dict.fromkeys(gold.kb for gold, _ in facts.golds) or (NIL_ROW,)
    yield from (("kb", kb) for kb in kbs)
    types = dict.fromkeys(f"{gold.kb}: {kind or '[none]'}" for gold, kind in facts.golds)
    yield from (("type", kind) for kind in types or (NIL_ROW,))
    yield "ambiguity", _range(facts.bearers, _BEARERS)
    if facts.times_learnt is not None and facts.golds:
        yield "frequency", _range(facts.times_learnt, _TIMES)
    if facts.seen is not None:
        yield "surfaces", "seen" if facts.seen else "unseen"


def _range(count: int, starts: Sequence[int]) -> str:
    """The name of the group of a count: ``2-9``, ``10+``."""
    at = bisect_right(starts, count) - 1
    if at + 1 == len(starts):
        return f"{starts[at]}+"
    last = starts[at + 1] - 1
    return f"{starts[at]}-{last}" if last > starts[at] else f"{starts[at]}"


def _first_number(group: str) -> int:
    return int(group.rstrip("+").partition("-")[0])


def _confused(facts: Facts, kbs: Sequence[str]) -> tuple[str, str]:
    """The KB of the gold and that of the answer; of several golds one in the answer's KB."""
    golds = sorted({gold.kb for gold, _ in facts.golds}, key=lambda kb: (kb not in kbs, kb))
    gold = facts.answer if facts.answer in golds else golds[0] if golds else NIL_ROW
    return str(gold), facts.answer or (NIL_ROW if facts.is_found else NOTHING)
