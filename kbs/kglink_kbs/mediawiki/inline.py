"""Writes out the few templates whose content is part of the sentence."""

from __future__ import annotations

import re

#: Where the text of a template stands among its unnamed values, from 1.
_SHOWN = {
    "abbr": 1,
    "angbr": 1,
    "as of": 1,
    "big": 1,
    "circa": 1,
    "em": 1,
    "gloss": 1,
    "ill": 1,
    "interlanguage link": 1,
    "lang": 2,
    "langue": 2,
    "lien": 1,
    "mono": 1,
    "nobr": 1,
    "nobold": 1,
    "nowrap": 1,
    "nihongo": 1,
    "script": 2,
    "small": 1,
    "smaller": 1,
    "strong": 1,
    "sub": 1,
    "sup": 1,
    "transl": 2,
    "transliteration": 2,
    "title": 1,
    "tooltip": 1,
    "tq": 1,
    "unité": 1,
    "val": 1,
}
_WORDS = {"as of": "as of ", "circa": "c. ", "unité": ""}
_MEASURES = frozenset({"convert", "cvt"})
_ALL = "|".join(sorted((*_SHOWN, *_MEASURES, "lang-[a-z]{2,3}"), key=len, reverse=True))
_CALL = re.compile(rf"\{{\{{\s*+({_ALL})\s*+\|([^{{}}]*+)\}}\}}", re.IGNORECASE)
_BAR = re.compile(r"\|(?![^\[\]]*+\]\])")
_NAMED = re.compile(r"\s*+[A-Za-z][\w -]*+=")


def written_out(text: str) -> str:
    """``text`` with templates such as ``{{nowrap|...}}`` and ``{{convert|5|km}}`` written out."""
    return _CALL.sub(_content, text)


def _content(call: re.Match[str]) -> str:
    name = call[1].lower()
    values = [value.strip() for value in _BAR.split(call[2]) if not _NAMED.match(value)]
    if name in _MEASURES:
        return _measure(values)
    place = _SHOWN.get(name, 1)
    shown = values[place - 1] if len(values) >= place else ""
    return _WORDS.get(name, "") + shown if shown else ""


def _measure(values: list[str]) -> str:
    """``5 km`` of ``5|km|mi``, ``5 to 10 km`` of ``5|to|10|km``."""
    if len(values) >= 4 and values[1] in {"to", "and", "or", "-", "–", "by", "x"}:
        return " ".join(values[:4])
    return " ".join(values[:2])
