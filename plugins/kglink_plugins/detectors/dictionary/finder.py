"""The search itself: matches of a text, and which of them stay where they overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kglink.plugins import Names
from kglink.records import Span
from kglink.text.fold import Folded, fold, fold_with_map
from kglink.text.words import cuts_initials, in_one_line, non_overlapping
from kglink_plugins.detectors.dictionary.borders import Borders, borders_of
from kglink_plugins.detectors.dictionary.cache import open_lexicon
from kglink_plugins.detectors.dictionary.compiled import ARTICLE, Lexicon, guard_of, is_text
from kglink_plugins.detectors.dictionary.guard import EDGED, NEVER, Guard, Verdict, in_context
from kglink_plugins.plugin import DictionarySettings

#: Characters of text that are folded at once: few enough for the processor's cache.
PIECE = 1 << 17
#: Characters that are folded at once at most, where one word is longer than a piece.
MOST = 2 * PIECE
#: Signs that a name may have around the part of it that folding keeps (``.NET``, ``Yahoo!``).
_EDGE_SIGNS = 3
#: Whether something still has a name that was compiled; None: something has each.
Has = Callable[[str], bool] | None


class Match(NamedTuple):
    """An alias found in a text; ``size`` is the number of its folded characters."""

    start: int
    end: int
    size: int
    frequency: int
    score: float


class _Piece(NamedTuple):
    """A part of the text, folded; matches begin in ``[first, stop)`` of the folded text."""

    offset: int
    folded: Folded
    borders: Borders
    first: int
    stop: int


class _Known(NamedTuple):
    """What holds of a surface wherever it stands."""

    shape: int
    frequency: int
    verdict: Verdict


def dictionary_detector(settings: DictionarySettings, names: Names) -> DictionaryDetector:
    """Open the compiled aliases of ``names``, compiling them where that was not done yet."""
    return DictionaryDetector(open_lexicon(names, settings), guard_of(settings))


class DictionaryDetector:
    """Finds the aliases of a lexicon; safe to use from several threads."""

    def __init__(
        self, lexicon: Lexicon, guard: Guard, piece: int = PIECE, most: int = MOST, has: Has = None
    ) -> None:
        self._lexicon, self._has = lexicon, has
        self._guard = guard
        self._piece = piece
        self._most = most

    def detect(self, text: str) -> list[Span]:
        """The mentions in reading order; where some overlap, the longest stays."""
        if not len(self._lexicon.shapes):
            return []
        known: dict[str, _Known] = {}
        matches: list[Match] = []
        for piece in self._pieces(text):
            matches.extend(self._matches(text, piece, known))
        kept = non_overlapping(matches, longest_first)
        return [Span(match.start, match.end, match.score) for match in kept]

    def refuses(self, surface: str) -> bool:
        """Whether settings that somebody chose forbid to take a surface for the name it bears."""
        if not self._guard.is_strict:
            return False
        key = fold(surface)
        if key not in self._lexicon.keys:
            return self._guard.has_function_words_alone(key)
        return self._known(key, surface, self._written(surface)).verdict == NEVER

    def _pieces(self, text: str) -> Iterator[_Piece]:
        """Cut the text; each piece is long enough for every match that begins before its stop."""
        offset, size, first = 0, self._piece, 0
        while offset < len(text):
            folded = fold_with_map(text[offset : offset + size])
            borders = borders_of(folded)
            if first and folded.text and _separates(text[offset : offset + int(folded.starts[0])]):
                first = 0
            if offset + size >= len(text):
                yield _Piece(offset, folded, borders, first, len(folded.text))
                return
            limit = self._limit(folded)
            begins = np.flatnonzero(borders.word[: limit + 1])
            if limit and begins.size and (stop := int(begins[-1])):
                yield _Piece(offset, folded, borders, first, stop)
                offset, size, first = offset + int(folded.starts[stop]), self._piece, 0
                continue
            # One word, or nothing that folding keeps, fills the whole piece.
            if size < self._most:
                size *= 2
                continue
            if limit and folded.starts[limit]:
                yield _Piece(offset, folded, borders, first, limit)
                # Nothing begins where a word is cut.
                offset, first = offset + int(folded.starts[limit]), int(folded.text[limit] != " ")
            else:  # hardly anything that folding keeps: no name goes across that many signs
                kept = int(folded.ends[-1]) if folded.text else 0
                ended = _separates(text[offset + kept : offset + size])
                if folded.text and not ended:  # its last character may go on behind the cut
                    borders.end[np.searchsorted(folded.starts, folded.starts[-1]) + 1 :] = False
                yield _Piece(offset, folded, borders, first, len(folded.text))
                if ended or folded.text:
                    first = int(not ended)
                offset += size
            size = self._piece

    def _limit(self, folded: Folded) -> int:
        """The last place from which on the longest alias still fits; 0 if none.

        The last visible character does not count: the text behind the cut may belong to it.
        """
        if not folded.text:
            return 0
        last = int(np.searchsorted(folded.starts, folded.starts[-1]))
        return max(0, last - self._lexicon.longest - 1)

    def _matches(self, text: str, piece: _Piece, known: dict[str, _Known]) -> Iterator[Match]:
        offset, folded, borders, first, stop = piece
        begins = np.flatnonzero(borders.begin[first:stop]) + first
        # Reading one number from a memory view is several times faster than from an array.
        starts, ends = folded.starts.data, folded.ends.data
        may_end = borders.end.data
        letters, reach = folded.text, self._lexicon.longest
        prefixes = self._lexicon.keys.prefixes
        for begin in begins.tolist():
            for key in prefixes(letters[begin : begin + reach]):
                end = begin + len(key)
                if may_end[end]:
                    span = offset + starts[begin], offset + ends[end - 1]
                    match = self._judged(text, *span, key, known)
                    if match is not None:
                        yield match

    def _judged(
        self, text: str, start: int, end: int, key: str, known: dict[str, _Known]
    ) -> Match | None:
        if cuts_initials(text, start) or cuts_initials(text, end):
            return None
        if self._has and not self._has(key):  # a longer name that is gone hides none within it
            return None
        surface = text[start:end]
        facts = known.get(surface)
        if facts is None:
            facts = known[surface] = self._known(key, surface, self._written(surface))
        if facts.shape & EDGED:
            start, end = self._with_signs(text, start, end)
            facts = self._known(key, text[start:end], self._written(text[start:end]))
        score = in_context(facts.verdict, text, start, end)
        return Match(start, end, len(key), facts.frequency, score) if score else None

    def _known(self, key: str, surface: str, exact: bool) -> _Known:
        row = self._lexicon.keys.key_id(key)
        shape = int(self._lexicon.shapes[row])
        article = None if exact else ARTICLE.match(surface)
        is_marked = article is not None and not surface[article.end()].isalnum()
        if is_marked and key.partition(" ")[2] in self._lexicon.keys:  # the "United States"
            verdict = NEVER
        else:
            verdict = self._guard.verdict(key, shape, surface, exact=exact)
        return _Known(shape, int(self._lexicon.counts[row]), verdict)

    def _written(self, surface: str) -> bool:
        return self._is_name(surface) or self._is_name(in_one_line(surface))

    def _is_name(self, surface: str) -> bool:
        return is_text(surface) and surface in self._lexicon.surfaces

    def _with_signs(self, text: str, start: int, end: int) -> tuple[int, int]:
        """The widest span that is an alias as written, signs around it included; else the same."""
        lefts = _signs(text[max(0, start - _EDGE_SIGNS) : start][::-1])
        rights = _signs(text[end : end + _EDGE_SIGNS])
        spans = [
            (start - left, end + right) for left in range(lefts + 1) for right in range(rights + 1)
        ]
        spans.sort(key=lambda span: (span[0] - span[1], span[0]))
        return next((span for span in spans if self._is_name(text[slice(*span)])), (start, end))


def _separates(text: str) -> bool:
    """Whether words before and after ``text`` are two, as folding sees it."""
    return " " in fold(f"a{text}a")


def longest_first(match: Match) -> tuple[int, int, int, int]:
    """Where matches overlap the longest stays, then the most frequent, then the leftmost."""
    return -match.size, -match.frequency, match.start, match.end


def _signs(text: str) -> int:
    """How many characters at the beginning of ``text`` are neither letters nor white space."""
    for count, character in enumerate(text):
        if character.isalnum() or character.isspace():
            return count
    return len(text)
