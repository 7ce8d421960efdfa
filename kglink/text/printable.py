"""Texts of others as they may be shown: on one line, and without what a terminal would obey."""

from __future__ import annotations

import re

#: Characters that an example in a message has at most.
MOST_SHOWN = 80
#: Control characters of both sets, and marks that turn a line round.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str, most: int = 0) -> str:
    """The text on one line without control characters; cut after ``most`` (0: whole)."""
    shown = " ".join(_CONTROLS.sub(" ", text).split())
    return f"{shown[:most]}..." if most and len(shown) > most else shown
