"""Proposals: what all detectors find, and the abbreviations of it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.errors import PluginError
from kglink.linking.detect import MOST_PER_THOUSAND, proposals
from kglink.records import Span


class Words:
    """Finds some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def detect(self, text: str) -> list[Span]:
        found = [
            Span(*match.span(), 0.9) for word in self.words for match in re.finditer(word, text)
        ]
        return sorted(found, key=lambda span: span.start)


def surfaces(text: str, detector: Words) -> list[str]:
    return [text[span.start : span.end] for span in proposals(text, {"words": detector})]


def test_short_forms_of_what_was_found_are_mentions_everywhere() -> None:
    text = "Myotonic dystrophy (DM) is rare. DM, DMs and ADM; (DM)."
    assert surfaces(text, Words("Myotonic dystrophy")) == [
        "Myotonic dystrophy", "DM", "DM", "DMs", "DM",
    ]  # fmt: skip
    # A long form that ends in a mention will do; one that nothing was found in will not.
    assert surfaces(text, Words("dystrophy")) == ["dystrophy", "DM", "DM", "DMs", "DM"]
    assert surfaces(text, Words("rare")) == ["rare"]


def test_short_forms_are_no_parts_of_other_names() -> None:
    text = "Parkinson disease (PD): anti-PD-1, PD-L1, PD1, PD-related, non-PD and PDs."
    assert surfaces(text, Words("Parkinson disease")) == [
        "Parkinson disease", "PD", "PD", "PD", "PDs",
    ]  # fmt: skip


def test_proposals_may_overlap_and_none_is_there_twice() -> None:
    text = "Kawasaki disease (K D) and the disease"
    assert surfaces(text, Words("Kawasaki disease", "disease", "disease")) == [
        "Kawasaki disease",
        "disease",
        "K D",
        "disease",
    ]


def test_unbalanced_brackets_are_no_mentions() -> None:
    text = "the tumour (of) skin) and (b [c)]"
    found = surfaces(text, Words(r"tumour \(of\)", r"\(of\) skin\)", r"\(b \[c\)\]"))
    assert found == ["tumour (of)"]


def test_several_detectors_are_united() -> None:
    text = "gout and pain"
    one, other = Words("gout", "pain"), Words("pain")
    alone = {span.start: span.score for span in proposals(text, {"one": one})}
    both = {span.start: span.score for span in proposals(text, {"one": one, "other": other})}
    assert alone == {0: 0.9, 9: 0.9}
    # What both propose is as sure as before; what one does not propose is less so.
    assert both[9] == pytest.approx(0.9)
    assert 0.5 < both[0] < 0.7


class Witness(Words):
    """Says of what it does not propose that it is none."""

    unproposed = 0.01


def test_a_witness_counts_by_the_fourth_root_of_its_odds() -> None:
    text = "gout and pain, ache"

    def scores(witness: Words) -> dict[int, float]:
        names = {"names": Words("gout", "pain"), "witness": witness}
        return {one.start: one.score for one in proposals(text, names)}

    # One that finds nothing does not read such texts.
    assert scores(Witness("itch")) == {0: 0.9, 9: 0.9}
    found = scores(Witness("pain", "ache"))
    # The odds of .9 are 9; those of .01 1 / 99; where the names are silent .12 / .88.
    odds = {0: 9 * (1 / 99) ** 0.25, 9: 9 * 9**0.25, 15: 0.12 / 0.88 * 9**0.25}
    for place, wanted in odds.items():
        assert found[place] == pytest.approx(wanted / (1 + wanted))
    # It is heard beside several detectors too.
    three = {"names": Words("gout"), "other": Words("gout"), "witness": Witness("gout")}
    (alone,) = proposals("gout", three)
    assert alone.score == pytest.approx(9 * 9**0.25 / (1 + 9 * 9**0.25))


def test_a_text_has_no_more_proposals_than_can_be_looked_at() -> None:
    text = "a b " * 2000
    found = proposals(text, {"words": Words("a", "b")})
    assert len(found) == MOST_PER_THOUSAND * 9


@given(st.text(st.sampled_from("aD M()\u0301😀\r\n,ß"), max_size=60))
def test_spans_are_inside(text: str) -> None:
    spans = proposals(text, {"words": Words("D", "aD", "M")})
    places = [(span.start, -span.end) for span in spans]
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert places == sorted(set(places))


class Broken:
    """Gives what a detector should not."""

    def __init__(self, *gives: object) -> None:
        self.gives = gives

    def detect(self, text: str) -> Any:
        if isinstance(self.gives[0], Exception):
            raise self.gives[0]
        return self.gives


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (ZeroDivisionError("oh"), "failed with ZeroDivisionError: oh"),
        ((0, 1), "gave the type tuple"),
        (Span(0, 99), "a text of 3 characters"),
        (Span(2, 2), "a text of 3 characters"),
        (Span(0, 1, 5.0), "a text of 3 characters"),
        (Span(0, 1, float("nan")), "a text of 3 characters"),
        (Span(0.0, 1.0), "failed with TypeError"),  # type: ignore[arg-type]  # what it is about
    ],
)
def test_a_broken_detector_is_named(gives: object, said: str) -> None:
    with pytest.raises(PluginError, match=re.escape(said)) as caught:
        proposals("Owl", {"my/own": Broken(gives)})
    assert "detector 'my/own'" in str(caught.value)


def test_offsets_of_arrays_are_numbers_of_python() -> None:
    places: Any = np.array([0, 3])
    (found,) = proposals("Owl", {"my/own": Broken(Span(*places))})
    assert json.dumps([found.start, found.end]) == "[0, 3]"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("std::bad_alloc"), OSError("gone")])
def test_what_no_detector_is_to_blame_for_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        proposals("Owl", {"my/own": Broken(error)})
    assert caught.value is error
