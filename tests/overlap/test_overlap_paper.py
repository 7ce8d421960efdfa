"""The paper's method: its counts, its settings, and how a search differs from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kglink.config import OverlapSection
from kglink.overlap.search import find_overlaps
from kglink.overlap.weigh import differences
from kglink.store import Store
from overlap_kbs import copied_store, filled_store, kept, tools

ALL_NAMES = ("title", "alias", "synonym", "redirect", "anchor")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    with copied_store(filled, tmp_path) as store:
        yield store


def test_the_paper_compares_titles(store: Store) -> None:
    report = find_overlaps(tools(store, method="paper"), "wiki", "world")
    assert report.candidates == 4
    assert set(kept(store)) == {("W1", "1"), ("W2", "2")}


def test_a_search_says_how_it_differs_from_the_paper() -> None:
    default = OverlapSection(method="paper")
    assert differences(default) == [
        "encoder minilm, and the paper's is RoBERTa-large (Sentence-BERT): overlap.model"
    ]
    other = OverlapSection(
        threshold=0.6, names="folded", name_kinds=("title", "alias"), one_to_one=True
    )
    assert [text.split()[0] for text in differences(other)] == [
        *("encoder", "threshold", "names", "names", "one")
    ]


def test_the_paper_keeps_same_names_with_alike_descriptions(store: Store) -> None:
    """By hand: five pairs share a name; cos 30 and cos 59 are above .5, cos 61 is not.

    W4 has no description: the texts of both are compared, which the encoder puts at 90 and 0.
    """
    report = find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "wiki", "world")
    assert (report.candidates, report.kept) == (5, 3)
    assert (report.by_name, report.by_meaning_only) == (3, 0)
    assert list(kept(store)) == [("W1", "1"), ("W1", "6"), ("W2", "2")]
    dalek = kept(store)["W1", "1"]
    assert dalek.evidence == {"shared_names": 1, "description": round(math.cos(math.pi / 6), 4)}
    assert report.notes == (
        "1 of 5 pairs lack a description: their titles, types and other names were compared "
        "instead",
    )


@pytest.mark.parametrize(
    ("settings", "candidates", "pairs"),
    [
        ({"threshold": 0.48}, 5, {("W1", "1"), ("W1", "6"), ("W2", "2"), ("W3", "3")}),
        ({"threshold": 0.98}, 5, {("W1", "6")}),
        ({"threshold": 1.0}, 5, set()),
        ({"strip_disambiguator": False}, 4, {("W1", "1"), ("W1", "6")}),
        ({"name_kinds": ("title",)}, 4, {("W1", "1"), ("W2", "2")}),
        ({"names": "caseless"}, 6, {("W1", "1"), ("W1", "5"), ("W1", "6"), ("W2", "2")}),
    ],
)
def test_the_settings_of_the_paper(
    store: Store, settings: dict[str, Any], candidates: int, pairs: set[tuple[str, str]]
) -> None:
    report = find_overlaps(
        tools(store, method="paper", **{"name_kinds": ALL_NAMES, **settings}), "wiki", "world"
    )
    assert (report.candidates, set(kept(store))) == (candidates, pairs)


def test_either_order_of_the_kbs_finds_the_same(store: Store) -> None:
    find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "wiki", "world")
    before = kept(store)
    report = find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "world", "wiki")
    assert (report.left, report.right) == ("world", "wiki")
    assert kept(store) == before


def test_names_alone_read_no_description(store: Store) -> None:
    report = find_overlaps(tools(store, method="names", threshold=0.99), "wiki", "world")
    assert (report.candidates, report.kept, report.notes) == (5, 5, ())
    assert kept(store)["W3", "3"].evidence == {"shared_names": 1}


def test_one_to_one_keeps_no_entity_twice(store: Store) -> None:
    report = find_overlaps(
        tools(store, method="paper", name_kinds=ALL_NAMES, one_to_one=True), "wiki", "world"
    )
    assert report.kept == 2
    assert list(kept(store)) == [("W1", "6"), ("W2", "2")]


def test_a_name_that_too_many_bear_is_reported(store: Store) -> None:
    report = find_overlaps(tools(store, method="names", max_name_pairs=1), "wiki", "world")
    assert report.candidates == 3
    assert "'dalek'" in report.notes[0]
