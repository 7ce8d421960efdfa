"""All evidence becomes one probability for each pair, in two passes and through a third KB."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kglink.overlap import scratch
from kglink.overlap.search import find_overlaps
from kglink.plugins import EntityPair, PairedKBs
from kglink.records import Entity, EntityId, Overlap
from kglink.store import Store
from overlap_kbs import EVIDENCE, WITH_NEAR, Neighbour, add, copied_store, filled_store, kept, tools


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    with copied_store(filled, tmp_path) as store:
        yield store


def probability(odds: float) -> float:
    return round(1 / (1 + math.exp(-odds)), 4)


def meant(cosine: float) -> dict[str, float]:
    """The values of two descriptions that are alike."""
    return {"description": cosine, "descriptions_differ": 0}


@pytest.mark.parametrize("batch", [2, 4096])
def test_all_evidence_becomes_one_probability(
    store: Store, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "BATCH", batch)
    evidence = {**EVIDENCE, "near": Neighbour}
    report = find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    assert (report.candidates, report.kept) == (7, 7)
    found = kept(store)
    assert found["W1", "5"].probability == probability(-3 + 1 + 3 + 4)
    assert found["W1", "6"].evidence == {"title": 0, "name": 1, **meant(0.9848)}
    assert found["W5", "4"].evidence == {"title": 0, "name": 0, **meant(1), "near": 1}
    assert found["W5", "4"].probability == probability(-3 + 4 + 2)
    assert found["W4", "4"].probability == probability(-3 + 1 + 3 + 0.5)
    # A title without its bracket is a name to the folded join and to the evidence.
    assert (found["W2", "2"].evidence["title"], found["W2", "2"].evidence["name"]) == (0, 1)
    assert (report.by_name, report.by_meaning_only) == (6, 1)
    assert report.proposed_by == {"names": 6, "near": 2}
    assert report.model == "default"


def test_the_threshold_is_a_probability(store: Store) -> None:
    find_overlaps(tools(store, threshold=0.985), "wiki", "world")
    assert set(kept(store)) == {("W1", "1"), ("W1", "5")}


class Rival:
    """Of the second pass: the best probability of another pair of the left entity."""

    second_pass = True

    def __init__(self) -> None:
        self.seen_while_proposing: list[object] = []

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        self.seen_while_proposing = [kbs.probability("W1", "1"), *kbs.partners("left", "W1")]
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        assert self.seen_while_proposing == [None]
        return [self.rival(kbs, pair) for pair in pairs]

    def rival(self, kbs: PairedKBs, pair: EntityPair) -> Mapping[str, float]:
        mine = kbs.partners("left", pair.left.key)
        assert kbs.probability(pair.left.key, pair.right.key) == mine[pair.right.key]
        assert pair.left.key in kbs.partners("right", pair.right.key)
        others = [value for key, value in mine.items() if key != pair.right.key]
        return {"rival": max(others)} if others else {}


@pytest.mark.parametrize("batch", [1, 4096])
def test_the_second_pass_sees_what_the_first_one_found(
    store: Store, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "BATCH", batch)
    find_overlaps(tools(store, model=WITH_NEAR, threshold=0.0), "wiki", "world")
    first = kept(store)
    evidence = {**EVIDENCE, "rival": Rival}
    find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    second = kept(store)
    best = first["W1", "5"].probability
    assert second["W1", "1"].evidence["rival"] == best
    odds = WITH_NEAR.log_odds({**first["W1", "1"].evidence, "rival": best})
    assert second["W1", "1"].probability == probability(odds)
    assert second["W3", "3"] == first["W3", "3"]


class Through:
    """Proposes what a third KB says."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from ((left, right) for left, right, _, _ in kbs.overlaps_through())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        said = {(left, right): p for left, right, _, p in kbs.overlaps_through()}
        return [{"near": said.get((pair.left.key, pair.right.key), 0.0)} for pair in pairs]


def test_a_third_kb_joins_two(store: Store) -> None:
    add(store, "a_third", [Entity("t", "Something"), Entity("u", "Else")])
    t, u = EntityId("a_third", "t"), EntityId("a_third", "u")
    w5, w3 = EntityId("wiki", "W5"), EntityId("wiki", "W3")
    store.save_overlaps("a_third", "wiki", [Overlap(t, w5, 0.9), Overlap(u, w3, 0.8)])
    to_world = [Overlap(t, EntityId("world", "6"), 0.5), Overlap(u, EntityId("world", "5"), 0.7)]
    store.save_overlaps("a_third", "world", to_world)
    store.set_verdict(u, EntityId("world", "5"), "wrong")
    evidence = {"through": Through}
    report = find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    assert report.candidates == 2
    assert {pair: one.evidence["near"] for pair, one in kept(store).items()} == {
        ("W5", "6"): 0.45,
        ("W3", "5"): 0.0,
    }
