"""Long texts in overlapping pieces, and the spans of the pieces as spans of the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kglink.models.tag_spans import without_overlaps
from kglink.records import Span

_WORD = re.compile(r"\w{1,64}|[^\w\s]")


class Piece(NamedTuple):
    """``text[start:stop]`` is read; the spans in it that begin in ``[first, last)`` count."""

    start: int
    stop: int
    first: int
    last: int


def pieces_of(text: str, most: int, overlap: int) -> Iterator[Piece]:
    """Pieces of at most ``most`` words and signs; neighbours have ``overlap`` of them in common.

    A span counts in the piece in whose middle it begins, so none is lost or cut at a border.
    """
    words = [found.start() for found in _WORD.finditer(text)]
    step = most - overlap
    for at in range(0, max(len(words) - overlap, 1), step):
        start = words[at] if at else 0
        stop = words[at + most] if at + most < len(words) else len(text)
        first = words[at + overlap // 2] if at else 0
        last = words[at + step + overlap // 2] if stop < len(text) else len(text)
        yield Piece(start, stop, first, last)


def spans_of_pieces(
    text: str, most: int, overlap: int, find: Callable[[str], Iterable[Span]]
) -> list[Span]:
    """The spans that ``find`` sees in the pieces of a text; of those that overlap the surest."""
    found: list[Span] = []
    for piece in pieces_of(text, most, overlap):
        for span in find(text[piece.start : piece.stop]):
            start, end = trimmed(text, piece.start + span.start, piece.start + span.end)
            if start < end and piece.first <= start < piece.last:
                found.append(Span(start, end, span.score))
    return without_overlaps(found)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends."""
    surface = text[start:end]
    start += len(surface) - len(surface.lstrip())
    return start, start + len(surface.strip())
