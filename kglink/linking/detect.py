"""The mentions of a text: what a detector proposes, judged by what the text and memory say.

To the detector's spans are added the abbreviations of what it found, wherever they stand in the
text: "myotonic dystrophy (DM) ... DM". And words are left out that memory knows as no mention: in
documents that were learnt from whole they stood more often without an annotation than with one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kglink.linking.evidence import Memory
from kglink.plugins import Detector
from kglink.records import NO_MENTION, Span
from kglink.text.abbreviations import long_forms
from kglink.text.fold import fold
from kglink.text.name_words import name_key


def find_mentions(text: str, detector: Detector, memory: Memory | None) -> list[Span]:
    """The spans of a text's mentions in reading order; they do not overlap."""
    spans = [*detector.detect(text)]
    spans = _without_overlaps([*_short_forms(text, spans), *spans])
    return _likely(text, spans, memory) if memory is not None and spans else spans


def _short_forms(text: str, spans: Sequence[Span]) -> list[Span]:
    """All places of abbreviations whose long form ends in, or is, a mention that was found."""
    found = {fold(text[span.start : span.end]): span.score for span in spans}
    short: dict[str, float] = {}
    for abbreviation, long in long_forms(text).items():
        words = fold(long).split(" ")
        ends = (" ".join(words[at:]) for at in range(len(words)))
        score = next((found[end] for end in ends if end in found), None)
        if score is not None:
            short[abbreviation] = score
    if not short:
        return []
    names = "|".join(sorted(map(re.escape, short), key=len, reverse=True))
    return [
        Span(place.start(), place.end(), short[place[1]])
        for place in re.finditer(rf"(?<!\w)({names})(?:s)?(?!\w)", text)
    ]


def _without_overlaps(spans: Sequence[Span]) -> list[Span]:
    """Of spans that overlap the longest stays; of equally long ones the first."""
    kept: list[Span] = []
    taken: set[int] = set()
    for span in sorted(spans, key=lambda one: (one.start - one.end, one.start)):
        places = range(span.start, span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(span)
    return sorted(kept, key=lambda one: one.start)


def _likely(text: str, spans: Sequence[Span], memory: Memory) -> list[Span]:
    """The spans that memory does not know as no mention."""
    folded = [fold(text[span.start : span.end]) for span in spans]
    meanings = memory.meanings(name_key(name) for name in set(folded))
    kept = []
    for span, name in zip(spans, folded, strict=True):
        told = [one for one in meanings.get(name_key(name), ()) if one.folded == name]
        never = sum(one.times for one in told if one.entity == NO_MENTION)
        if never <= max(sum(one.times for one in told) - never, 1):
            kept.append(span)
    return kept
