"""Searches name what is wrong or missing: KBs, descriptions, weights, evidence of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kglink.errors import PluginError, UnknownNameError, UsageError
from kglink.overlap.search import find_all_overlaps, find_overlaps
from kglink.plugins import EntityPair, PairedKBs, PairEvidence
from kglink.records import Document, Entity
from kglink.store import Store
from overlap_kbs import EVIDENCE, WITH_NEAR, Neighbour, add, copied_store, filled_store, kept, tools


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    with copied_store(filled, tmp_path) as store:
        yield store


def test_a_kb_with_itself(store: Store) -> None:
    with pytest.raises(UsageError, match="no overlap with itself"):
        find_overlaps(tools(store), "wiki", "wiki")


def test_an_unknown_kb(store: Store) -> None:
    with pytest.raises(UnknownNameError, match="wikki"):
        find_overlaps(tools(store), "wikki", "world")


def test_a_kb_without_entities(store: Store) -> None:
    add(store, "docs", [Document("d", "Dalek")])
    with pytest.raises(UsageError, match="'docs' has no entities"):
        find_overlaps(tools(store), "wiki", "docs")
    assert [one.left + one.right for one in find_all_overlaps(tools(store))] == ["wikiworld"]


def test_entities_without_descriptions_say_what_is_left(store: Store) -> None:
    add(store, "bare", [Entity("b", "Dalek")])
    report = find_overlaps(tools(store), "bare", "wiki")
    assert "no entity of bare has a description" in report.notes
    assert "1 of 1 pairs lack a description: what was left is names" in report.notes
    assert any("vectors of bare are not built" in note for note in report.notes)
    assert report.kept == 1


def test_evidence_that_proposes_nothing_is_told(store: Store) -> None:
    only = {"kglink/description": EVIDENCE["description"]}
    report = find_overlaps(tools(store, only), "wiki", "world")
    assert (report.candidates, report.kept) == (0, 0)
    assert "none of the evidence in use proposed a pair: description" in report.notes


def test_a_value_without_a_weight_is_told(store: Store) -> None:
    report = find_overlaps(tools(store, {**EVIDENCE, "near": Neighbour}), "wiki", "world")
    assert any("no weight for near" in note for note in report.notes)


class Short(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{}]


class NotANumber(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"near": math.nan} for _ in pairs]


class TooMuch(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"near": 9.0} for _ in pairs]


class Numbered(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Any:
        return [{5: 1.0} for _ in pairs]


class NoPass(Neighbour):
    @property
    def second_pass(self) -> bool:  # type: ignore[override]  # as if it were not there
        raise AttributeError("no second_pass")


class Nothing(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Any:
        return [None for _ in pairs]


class Broken(Neighbour):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield "W1", "1"
        raise ValueError("half way")


class Twice(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"name": 1.0} for _ in pairs]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Short, "'bad' weighs 7 pairs and answers for 1"),
        (NotANumber, "'bad' gives 'near' the value nan"),
        (TooMuch, "'bad' gives 'near' the value 9.0"),
        (Numbered, "'bad' gives 5 the value 1.0"),
        (NoPass, "'bad' failed with AttributeError: no second_pass"),
        (Nothing, "'bad' failed with AttributeError"),
        (Broken, "'bad' failed with ValueError: half way"),
        (Twice, "'bad' gives a value 'name', which other evidence gives as well"),
    ],
)
def test_wrong_evidence_is_blamed_and_changes_nothing(
    store: Store, wrong: Callable[[], PairEvidence], message: str
) -> None:
    find_overlaps(tools(store), "wiki", "world")
    before = kept(store)
    with pytest.raises(PluginError, match=message):
        find_overlaps(tools(store, {**EVIDENCE, "bad": wrong}), "wiki", "world")
    assert kept(store) == before


class Strangers(Neighbour):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from [("W1", "1"), ("nobody", "1"), ("W1", "nobody")]


def test_pairs_of_entities_that_are_not_there_are_told(store: Store) -> None:
    report = find_overlaps(tools(store, {"strangers": Strangers}, WITH_NEAR), "wiki", "world")
    assert any(note.startswith("2 pairs name entities that are not in") for note in report.notes)
