"""Figures of overlaps against a list: by hand, and as sets say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.overlap.exchange.matching import ListFigures, compare_overlaps
from kglink.records import Overlap
from overlap_lists import matched, name, pair


def test_figures_by_hand() -> None:
    ours = [
        pair("a:1", "b:1"),  # in the list
        pair("a:2", "b:2"),  # in the list
        pair("a:1", "b:9"),  # of an entity that the list pairs with another
        pair("a:7", "b:7"),  # of entities that the list does not speak of
        pair("a:8", "b:8"),  # that the list calls wrong
        Overlap(name("a:3"), name("b:3"), 1.0, {}, "correct"),  # told, not found
    ]
    figures = compare_overlaps(
        ours, matched([("1", "1"), ("2", "2"), ("3", "3"), ("4", "4")], [("8", "8"), ("9", "9")])
    )
    assert figures == ListFigures(listed=4, ours=5, both=2, ours_known=3, denied=2, denied_found=1)
    assert (figures.precision, figures.recall) == (2 / 5, 2 / 4)
    assert figures.precision_known == 2 / 3
    assert figures.f1 == pytest.approx(2 * 0.4 * 0.5 / 0.9)
    assert figures.f1_known == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    nothing = compare_overlaps([], matched([("1", "1")]))
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, 0.0, 0.0)


PAIRS = st.sets(st.tuples(st.sampled_from("123"), st.sampled_from("xyz")))


@given(ours=PAIRS, theirs=PAIRS)
def test_figures_as_sets_say_them(ours: set[tuple[str, str]], theirs: set[tuple[str, str]]) -> None:
    figures = compare_overlaps(
        [pair(f"a:{left}", f"b:{right}") for left, right in ours], matched(theirs)
    )
    both = ours & theirs
    assert figures.precision == (len(both) / len(ours) if ours else None)
    assert figures.recall == (len(both) / len(theirs) if theirs else None)
    touching = {
        one for one in ours if any(one[0] == left or one[1] == right for left, right in theirs)
    }
    assert figures.precision_known == (len(both) / len(touching) if touching else None)
