"""Mentions of a text: abbreviations of what was found, and words known as no mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kglink.linking.detect import find_mentions
from kglink.linking.evidence import Meaning as AnyMeaning
from kglink.records import NO_MENTION, EntityId, Span
from kglink.store.memory import Meaning
from kglink.text.name_words import name_key


class Words:
    """Finds some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def detect(self, text: str) -> list[Span]:
        found = [
            Span(*match.span(), 0.9) for word in self.words for match in re.finditer(word, text)
        ]
        return sorted(found, key=lambda span: span.start)


class Told:
    """A memory of a few surfaces."""

    def __init__(self, *told: tuple[str, EntityId, float]) -> None:
        self.told = [Meaning(name_key(name), name, one, times, name) for name, one, times in told]

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[AnyMeaning]]:
        return {key: [one for one in self.told if one.key == key] for key in keys}


def surfaces(text: str, detector: Words, memory: Told | None = None) -> list[str]:
    return [text[span.start : span.end] for span in find_mentions(text, detector, memory)]


def test_short_forms_of_what_was_found_are_mentions_everywhere() -> None:
    text = "Myotonic dystrophy (DM) is rare. DM, DMs and ADM; (DM)."
    assert surfaces(text, Words("Myotonic dystrophy")) == [
        "Myotonic dystrophy", "DM", "DM", "DMs", "DM",
    ]  # fmt: skip
    # A long form that ends in a mention will do; one that nothing was found in will not.
    assert surfaces(text, Words("dystrophy")) == ["dystrophy", "DM", "DM", "DMs", "DM"]
    assert surfaces(text, Words("rare")) == ["rare"]


def test_the_longer_of_two_spans_stays() -> None:
    text = "Kawasaki disease (K D) and the disease"
    assert surfaces(text, Words("Kawasaki disease", "disease")) == [
        "Kawasaki disease",
        "K D",
        "disease",
    ]


def test_words_that_were_mostly_no_mention_are_left_out() -> None:
    x = EntityId("x", "1")
    memory = Told(
        ("disease", NO_MENTION, 30), ("disease", x, 3), ("pain", NO_MENTION, 2), ("pain", x, 5)
    )
    memory.told.append(Meaning(name_key("onset"), "onset", NO_MENTION, 1, "onset"))
    words = Words("disease", "pain", "onset", "gout")
    text = "disease and pain, onset of gout"
    assert surfaces(text, words) == ["disease", "pain", "onset", "gout"]
    # Once is no habit: "onset" stays.
    assert surfaces(text, words, memory) == ["pain", "onset", "gout"]


@given(st.text(st.sampled_from("aD M()\u0301😀\r\n,ß"), max_size=60))
def test_spans_are_inside_and_do_not_overlap(text: str) -> None:
    spans = find_mentions(text, Words("D", "aD", "M"), None)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(left.end <= right.start for left, right in pairwise(spans))
