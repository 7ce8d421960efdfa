"""The places of a text that may be mentions: what all detectors propose, and short forms of it.

To the detectors' spans are added the abbreviations of what they found, wherever they stand in the
text: "myotonic dystrophy (DM) ... DM". Proposals may overlap; `kglink.linking.judge` chooses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index

from kglink.errors import PluginError, errors_of
from kglink.plugins import Detector, ReadingDetector
from kglink.records import Span
from kglink.text.abbreviations import long_forms
from kglink.text.fold import fold

#: Most proposals kept for each thousand characters: the likeliest.
MOST_PER_THOUSAND = 150
#: The score assumed for a detector that does not propose a place, where several propose.
UNPROPOSED = 0.27
#: The same for one that proposes beside a witness, a detector with an attribute ``unproposed``.
_WITNESSED = 0.12
#: Weight of a witness's log odds. It is low: a place that nothing fits is no link, however sure
#: the witness is.
_WITNESS = 0.25
#: Where a short form may begin, and how it ends: "PD-1" is no PD.
_FORM_BEGINS = re.compile(r"(?<!\w)\S")
_FORM_ENDS = re.compile(r"s?(?!\w|[-\u2010\u2011\u2013][^\W_a-z]{0,2}\d)")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def proposals_of(texts: Sequence[str], detectors: Mapping[str, Detector]) -> list[list[Span]]:
    """The `proposals` of each of some texts, which a detector may read together."""
    by_detector = {name: _detected(name, one, texts) for name, one in detectors.items()}
    witnesses = {
        name: log_odds(unproposed)
        for name, detector in detectors.items()
        if (unproposed := getattr(detector, "unproposed", None)) is not None
    }
    return [
        _proposals(text, {name: spans[at] for name, spans in by_detector.items()}, witnesses)
        for at, text in enumerate(texts)
    ]


def _detected(name: str, detector: Detector, texts: Sequence[str]) -> list[list[Span]]:
    """What a detector proposes, which may be a plugin of anybody's."""
    with errors_of(f"detector {name!r}"):
        found = (
            detector.detect_all(texts)
            if isinstance(detector, ReadingDetector)
            else map(detector.detect, texts)
        )
        return [
            [_checked(name, span, text) for span in spans]
            for text, spans in zip(texts, found, strict=True)
        ]


def _checked(name: str, span: Span, text: str) -> Span:
    """A span with offsets that Python counts by: arrays have numbers of their own."""
    if not isinstance(span, Span):
        raise PluginError(
            f"detector {name!r} gave the type {type(span).__name__}",
            hint="A detector gives a Span for each place.",
        )
    if type(span.start) is not int or type(span.end) is not int:
        span = replace(span, start=index(span.start), end=index(span.end))
    if not (0 <= span.start < span.end <= len(text) and 0 <= span.score <= 1):
        raise PluginError(
            f"detector {name!r} gave {span} of a text of {len(text):,} characters",
            hint="A place lies within the text, and its score is a probability.",
        )
    return span


def proposals(text: str, detectors: Mapping[str, Detector]) -> list[Span]:
    """The spans that may be mentions in reading order; some overlap, none is there twice."""
    return proposals_of([text], detectors)[0]


def _proposals(
    text: str, spans_of: Mapping[str, Sequence[Span]], witnesses: Mapping[str, float]
) -> list[Span]:
    """``witnesses``: for each the log odds of a place that it does not propose."""
    found: dict[tuple[int, int], dict[str, Span]] = {}
    for name, proposed in spans_of.items():
        for span in proposed:
            if _is_balanced(text[span.start : span.end]):
                own = found.setdefault((span.start, span.end), {})
                own[name] = max(own.get(name, span), span, key=lambda one: one.score)
    # A witness that proposes nothing does not read such texts.
    heard = {name: odds for name, odds in witnesses.items() if spans_of[name]}
    others = [name for name in spans_of if name not in witnesses]
    spans = [_united(own, others, heard) for own in found.values()]
    best = {(one.start, one.end): one for one in spans}
    for one in _short_forms(text, spans):
        place = one.start, one.end
        best[place] = max(best.get(place, one), one, key=lambda span: span.score)
    most = MOST_PER_THOUSAND * (1 + len(text) // 1000)
    likeliest = sorted(best.values(), key=lambda one: (-one.score, one.start, -one.end))[:most]
    return sorted(likeliest, key=lambda one: (one.start, -one.end))


def _united(
    spans: Mapping[str, Span], others: Sequence[str], witnesses: Mapping[str, float]
) -> Span:
    """Merge all detectors' proposals of one place.

    Log odds: the mean of the other detectors, plus the weighted log odds of each witness.
    """
    best = max(spans.values(), key=lambda one: one.score)
    if len(others) + len(witnesses) == 1:
        return best
    absent = UNPROPOSED if len(others) > 1 else _WITNESSED
    scores = [spans[name].score if name in spans else absent for name in others]
    odds = sum(map(log_odds, scores)) / max(len(others), 1)
    for name, unproposed in witnesses.items():
        odds += _WITNESS * (log_odds(spans[name].score) if name in spans else unproposed)
    name = next((one.name for one in spans.values() if one.name), "")
    return replace(best, score=probability(odds), name=name)


def log_odds(score: float) -> float:
    """The logarithm of the odds of a probability, within what few data can support."""
    inside = min(max(score, 1e-3), 1 - 1e-3)
    return math.log(inside / (1 - inside))


def probability(odds: float) -> float:
    """The probability of some odds, given as their logarithm; it is never 0 or 1."""
    return 1 / (1 + math.exp(-min(max(odds, -30.0), 30.0)))


def _short_forms(text: str, spans: Sequence[Span]) -> list[Span]:
    """All places of abbreviations whose long form ends in, or is, a mention that was found."""
    defined = long_forms(text)
    if not defined:
        return []
    found: dict[str, float] = {}
    for span in spans:
        name = fold(text[span.start : span.end])
        found[name] = max(found.get(name, 0.0), span.score)
    short: dict[str, float] = {}
    for abbreviation, long in defined.items():
        words = fold(long).split(" ")
        ends = (" ".join(words[at:]) for at in range(len(words)))
        score = next((found[end] for end in ends if end in found), None)
        if score is not None:
            short[abbreviation] = score
    if not short:
        return []
    sizes = sorted(set(map(len, short)), reverse=True)
    places: list[Span] = []
    for at in (one.start() for one in _FORM_BEGINS.finditer(text)):
        for size in sizes if not places or at >= places[-1].end else ():
            name = text[at : at + size]
            if name in short and (border := _FORM_ENDS.match(text, at + size)):
                places.append(Span(at, border.end(), short[name]))
                break
    return places


def _is_balanced(surface: str) -> bool:
    """Whether each bracket in it has its other half in it."""
    waiting: list[str] = []
    for sign in surface:
        if sign in _PAIRS:
            waiting.append(_PAIRS[sign])
        elif sign in ")]}" and (not waiting or waiting.pop() != sign):
            return False
    return not waiting
