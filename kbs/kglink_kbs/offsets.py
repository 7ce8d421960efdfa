"""Turns offsets that other programs count in bytes or UTF-16 units into character offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

Unit = Literal["characters", "utf16", "bytes"]


def character_offsets(text: str, offsets: Iterable[int], unit: Unit) -> Mapping[int, int]:
    """The character offset of each offset; those that are none of ``text`` are left out."""
    wanted = sorted({offset for offset in offsets if offset >= 0})
    if unit == "characters":
        return {offset: offset for offset in wanted if offset <= len(text)}
    encoding, width = ("utf-8", 1) if unit == "bytes" else ("utf-16-le", 2)
    data = text.encode(encoding)
    found: dict[int, int] = {}
    done = characters = 0
    for offset in wanted:
        if offset * width > len(data):
            break
        try:
            characters += len(data[done * width : offset * width].decode(encoding))
        except UnicodeDecodeError:  # it cuts a character in two
            continue
        done = offset
        found[offset] = characters
    return found
