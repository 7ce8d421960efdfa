"""Texts that a person has marked: mails to a shop, whose catalogue is beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

Places = dict[tuple[int, int], str]


def marked_texts(path: Path) -> Iterator[tuple[str, Places]]:
    """The texts of a file, and the key of what each marked place means."""
    for marked in path.read_text(encoding="utf-8").split("\n---\n"):
        text, places = "", Places()
        for part in re.split(r"(\[\[.+?\]\])", marked):
            if part.startswith("[["):
                surface, key = part[2:-2].split("|")
                places[len(text), len(text) + len(surface)] = key
                text += surface
            else:
                text += part
        yield text, places
