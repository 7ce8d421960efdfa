"""Where sentences begin."""

from __future__ import annotations

import re

_ENDS = ".!?:…。！？"
_BEFORE = re.compile(r"[\s\"'“”‘’«»„(\[{*•–—-]*\Z")
#: So many characters before a place are looked at.
_WINDOW = 60


def begins_sentence(text: str, start: int) -> bool:
    """Whether a sentence, a paragraph or the text begins at ``start``."""
    window = text[max(0, start - _WINDOW) : start]
    before = _BEFORE.search(window)
    gap = before[0] if before else ""
    if len(gap) == len(window):
        return True
    return window[len(window) - len(gap) - 1] in _ENDS or (
        gap.replace("\r\n", "\n").replace("\r", "\n").count("\n") > 1
    )
