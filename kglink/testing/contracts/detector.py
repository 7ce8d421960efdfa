"""The contract of detectors: spans that hold for every text, the same each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from kglink.plugins import NameRow, ReadingDetector
from kglink.records import Span
from kglink.testing.contracts.base import NASTY_TEXTS, PluginContract
from kglink.text.fold import fold


class SampleNames:
    """A few names as a linker hands them to a detector."""

    def __init__(self, surfaces: Sequence[str], cache_dir: Path | None = None) -> None:
        self._rows = tuple(NameRow(surface, fold(surface), "people", 1) for surface in surfaces)
        self.fingerprint = hashlib.sha256("\n".join(surfaces).encode()).hexdigest()
        self.cache_dir = cache_dir

    def __iter__(self) -> Iterator[NameRow]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class DetectorContract(PluginContract):
    """Spans lie within the text, in reading order, with probabilities, and are repeatable."""

    kind = "detector"
    surfaces: Sequence[str] = (
        "Ada",
        "Bob",
        "Lantern Bay",
        "Bay",
        "Zoë",
        "Straße",
        "日本語",
        "हिन्दी",
        "éclair",
    )
    """The names that it is made with."""
    finds: Sequence[tuple[str, Sequence[str]]] = ()
    """Texts and the surfaces that must be found in them, in reading order.

    What is found inside of a longer span does not count.
    """
    texts: Sequence[str] = NASTY_TEXTS
    """The texts on which the promises are checked."""

    def test_spans_hold_for_every_text(self) -> None:
        for surfaces in (self.surfaces, ()):
            detector = self.make(SampleNames(surfaces))
            for text in self.texts:
                _check_spans(text, detector.detect(text))

    def test_finds_what_it_should(self) -> None:
        detector = self.make(SampleNames(self.surfaces))
        for text, wanted in self.finds:
            found = [text[span.start : span.end] for span in _outermost(detector.detect(text))]
            assert found == list(wanted), f"in {text!r}"

    def test_answers_do_not_depend_on_earlier_ones(self) -> None:
        detector = self.make(SampleNames(self.surfaces))
        first = [detector.detect(text) for text in self.texts]
        again = [detector.detect(text) for text in reversed(self.texts)]
        assert first == again[::-1]
        fresh = self.make(SampleNames(self.surfaces))
        assert first == [fresh.detect(text) for text in self.texts]

    def test_texts_together_are_as_each_alone(self) -> None:
        detector = self.make(SampleNames(self.surfaces))
        if isinstance(detector, ReadingDetector):
            alone = [detector.detect(text) for text in self.texts]
            assert detector.detect_all(self.texts) == alone

    def test_order_of_the_names_changes_nothing(self) -> None:
        forward = self.make(SampleNames(self.surfaces))
        backward = self.make(SampleNames(self.surfaces[::-1]))
        for text in self.texts:
            assert forward.detect(text) == backward.detect(text), f"in {text!r}"

    def test_answers_the_same_from_its_cache(self, tmp_path: Path) -> None:
        uncached = self.make(SampleNames(self.surfaces))
        for _ in range(2):  # writes the cache, then reads it
            cached = self.make(SampleNames(self.surfaces, tmp_path))
            for text in self.texts:
                assert cached.detect(text) == uncached.detect(text), f"in {text!r}"
        other = self.make(SampleNames(["Xyzzy"], tmp_path))
        assert other.detect("Ada") == self.make(SampleNames(["Xyzzy"])).detect("Ada"), (
            "a cache of other names was used"
        )


def _check_spans(text: str, spans: object) -> None:
    assert isinstance(spans, list)
    for span in spans:
        assert isinstance(span, Span)
        assert 0 <= span.start < span.end <= len(text), f"{span} in {text!r}"
        assert 0 <= span.score <= 1, f"{span}: the score is no probability"
    for left, right in pairwise(spans):
        places = (left.start, left.end), (right.start, right.end)
        assert places[0] < places[1], f"{left} and {right} are the same, or out of order"


def _outermost(spans: Sequence[Span]) -> list[Span]:
    """The spans that lie in no other."""
    return [
        one
        for one in spans
        if not any(
            other != one and other.start <= one.start and one.end <= other.end for other in spans
        )
    ]
