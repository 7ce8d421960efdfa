"""The context of a mention: as much of its text as an encoder is given to read."""

from __future__ import annotations

from kglink.text.scripts import cuts_word


def mention_window(text: str, start: int, end: int, max_chars: int) -> str:
    """The mention ``text[start:end]`` with what stands around it, at most ``max_chars`` long.

    Both sides get the same room; what one does not need goes to the other. The cuts are between
    words, and the mention itself stays whole even where it is longer than ``max_chars``.
    """
    room = max(0, max_chars - (end - start))
    left = min(start, room // 2)
    right = min(len(text) - end, room - left)
    left = min(start, room - right)
    first, stop = start - left, end + right
    while first < start and (text[first].isspace() or cuts_word(text, first)):
        first += 1
    while stop > end and (text[stop - 1].isspace() or cuts_word(text, stop)):
        stop -= 1
    return text[first:stop]
