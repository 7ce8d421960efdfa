"""A tokenizer.json that is made to take endless time or memory is refused before it is loaded."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kglink.errors import ModelError

#: What a tokenizer may consist of; published ones stay far below, but for the vocabulary.
LIMITS: Mapping[str, int] = {
    "tokens": 1 << 20,  # words of the vocabulary and added tokens; XLM-V has 901,629
    "growth": 16,  # characters that normalising may make of one
    "parts": 1024,  # normalizers, splitters and pieces of a frame, nested ones included
    "frame": 256,  # tokens around a text
    "padding": 1 << 16,  # tokens to which a short text is filled up
    "word": 1000,  # characters of a word that is cut: the time grows with their square
    "pattern": 4096,  # characters of a pattern
    "affix": 64,  # characters that mark a piece within a word, or at its end
}
_PUBLISHED = "Take the file of the model's publisher."
#: Bytes that the usual normalisation (NFKC) may make of one character.
_NFKC_BYTES = 64
#: Of a pattern: what could hide a group from `_explodes`, or make it call itself.
_OPAQUE = re.compile(r"\(\?#|\(\?[a-zA-Z]*x|\\[gkQ]")
_AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")
#: Repetitions in a row; published patterns have three.
_REPEATS = 5
#: A group that repeats or chooses, and such a one that is repeated: {1} and {0,1} repeat nothing.
_RISKY = "\0"
_REPEATED = re.compile(rf"{_RISKY}\?*([*+]|\{{(?!([01]?,)?[01]\}}))")


def check_tokenizer(path: Path, value: Any, limits: Mapping[str, int] = LIMITS) -> None:
    """Refuse a tokenizer that is made to explode: its vocabulary, patterns, growth, frame."""
    if not isinstance(value, dict):
        return  # its library says what is wrong
    steps = [value.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")]
    parts = [part for step in steps for part in _objects(step)]
    model = value.get("model")
    padding = value.get("padding")
    # A second table finds texts in what the first one made: they grow by both.
    tables = sum("precompiled_charsmap" in part for part in parts)
    found = {
        "tokens": _size(value.get("added_tokens")) + _size(_get(model, "vocab")),
        "parts": len(parts),
        "growth": math.prod(map(_growth, parts)) * (_NFKC_BYTES * tables if tables > 1 else 1),
        "frame": sum(_frame(part) for part in parts),
        "padding": max(
            _number(_get(_get(padding, "strategy"), "Fixed")),
            _number(_get(padding, "pad_to_multiple_of")),
        ),
        "word": _number(_get(model, "max_input_chars_per_word")),
        "pattern": max((_length(_get(part.get("pattern"), "Regex")) for part in parts), default=0),
        "affix": max(_length(_get(model, key)) for key in _AFFIXES),
    }
    for name, count in found.items():
        most = limits[name]
        if count > most:
            raise ModelError(
                f"{path}: {name} is {min(count, 10**12):,}, and at most {most:,} is read: "
                "such a tokenizer exhausts time or memory",
                hint=_PUBLISHED,
            )
    for part in parts:
        pattern = _get(part.get("pattern"), "Regex")
        if isinstance(pattern, str) and _explodes(pattern):
            raise ModelError(
                f"{path}: the pattern {pattern[:60]!r} can take endless time on a short text",
                hint=_PUBLISHED,
            )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All JSON objects in a value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _size(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


def _growth(part: dict[str, Any]) -> int:
    """How many times as long a text may become by one step."""
    if part.get("type") == "ByteLevel":
        return 2
    if isinstance(charsmap := part.get("precompiled_charsmap"), str):
        return _longest(charsmap) // _NFKC_BYTES + 1
    content, pattern = part.get("content"), part.get("pattern")
    if not isinstance(content, str) or pattern is None:
        return max(1, _length(part.get("prepend")))
    replaced = _get(pattern, "String")
    if isinstance(replaced, str) and replaced:
        return max(1, -(-len(content) // len(replaced)))
    return 1 + len(content)  # a pattern may match nothing, between any two characters


def _longest(charsmap: str) -> int:
    """The longest text that a table of SentencePiece puts in the place of a character."""
    try:
        raw = base64.b64decode(charsmap)
    except (binascii.Error, ValueError):
        return 0  # its library says what is wrong
    return max(map(len, raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")), default=0)


def _frame(part: dict[str, Any]) -> int:
    """The tokens that a template puts around a text; endless where it repeats the text."""
    if not all(isinstance(part.get(key, []), list) for key in ("single", "pair")):
        return 0  # its library says what is wrong
    total, special = 0, part.get("special_tokens")
    for key in ("single", "pair"):
        pieces = [one for one in part.get(key) or () if isinstance(one, dict)]
        texts = [_get(one["Sequence"], "id") for one in pieces if "Sequence" in one]
        if len(texts) > len({str(one) for one in texts}):
            return 1 << 40
        for one in pieces:
            named = _get(one.get("SpecialToken"), "id")
            if isinstance(named, str):
                total += _size(_get(_get(special, named), "ids"))
    return total


def _explodes(pattern: str) -> bool:
    """Whether a repeated group repeats or chooses within (2^n steps), or many repeat in a row."""
    if _OPAQUE.search(pattern):
        return True
    text, before = re.sub(r"\\.", "a", pattern, flags=re.DOTALL), ""
    while text != before:  # classes of signs, which may stand in each other
        text, before = re.sub(r"\[[^\[\]]*\]", "a", text), text
    before = ""
    while text != before:  # groups, from the innermost
        if _REPEATED.search(text):
            return True
        text, before = re.sub(r"\(\??([^()]*)\)", _reduced, text), text
    return _repeats(text) > _REPEATS


def _reduced(group: re.Match[str]) -> str:
    """What a group counts as in the one around it."""
    return _RISKY * max(_repeats(group[1]), "?" in group[1] or "|" in group[1]) or "a"


def _repeats(pattern: str) -> int:
    """The repetitions in a row: matching may take as many powers of a text's length."""
    return max(len(re.findall(rf"[*+{{{_RISKY}]", branch)) for branch in pattern.split("|"))
