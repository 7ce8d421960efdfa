"""Verdicts live through searches, are heeded by assignments, and teach the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.errors import UsageError
from kglink.overlap.search import find_overlaps, train
from kglink.records import Entity, EntityId
from kglink.store import Store
from overlap_kbs import MODEL, WIKI, WORLD, add, copied_store, filled_store, kept, tools


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    with copied_store(filled, tmp_path) as store:
        yield store


def judge(store: Store, left: str, right: str, verdict: str) -> None:
    pair = EntityId("wiki", left), EntityId("world", right)
    store.set_verdict(*pair, verdict)  # type: ignore[arg-type] # a text that is one


def test_verdicts_live_through_the_next_search(store: Store) -> None:
    judge(store, "W1", "5", "wrong")
    judge(store, "W4", "6", "correct")
    find_overlaps(tools(store), "wiki", "world")
    found = kept(store)
    assert found["W1", "5"].verdict == "wrong"
    assert found["W4", "6"].verdict == "correct"
    assert found["W1", "1"].verdict is None


def test_a_one_to_one_assignment_heeds_verdicts(store: Store) -> None:
    judge(store, "W1", "5", "wrong")
    judge(store, "W1", "6", "correct")
    find_overlaps(tools(store, one_to_one=True), "wiki", "world")
    fresh = {pair for pair, one in kept(store).items() if one.verdict is None}
    assert fresh == {("W2", "2"), ("W3", "3"), ("W4", "4")}


def test_a_pair_that_is_only_judged_is_not_found(store: Store) -> None:
    judge(store, "W4", "1", "correct")
    report = find_overlaps(tools(store, threshold=-1), "wiki", "world")
    assert kept(store)["W4", "1"].evidence == {}
    assert report.kept == len(kept(store)) - 1


def test_training_learns_from_judged_pairs_that_no_search_found(store: Store) -> None:
    """Everything with a close description is wrong here, everything else right."""
    for number in range(1, 6):
        for other in range(1, 7):
            close = number not in (4,) and other in (1, 4, 5, 6)
            judge(store, f"W{number}", str(other), "wrong" if close else "correct")
    trained = train(tools(store), prior=MODEL)
    assert (trained.correct, trained.wrong, trained.rivals) == (14, 16, 0)
    model = trained.model
    assert model.evidence == ("names", "description")
    assert model.weights["description"].weight < MODEL.weights["description"].weight
    assert model.weights["description"].absent > MODEL.weights["description"].absent
    assert "14 correct and 16 wrong" in model.title


def test_a_list_of_correct_pairs_teaches_by_what_it_does_not_hold(store: Store) -> None:
    more = [Entity(f"x{at}", f"Same {at}", "turned by 0") for at in range(8)]
    add(store, "wiki", [*WIKI, *more], fingerprint="2")
    add(store, "world", [*WORLD, *more, *(entity_like(one) for one in more)], fingerprint="2")
    for at in range(8):
        judge(store, f"x{at}", f"x{at}", "correct")
    trained = train(tools(store), prior=MODEL)
    assert (trained.correct, trained.wrong, trained.rivals) == (8, 0, 8)
    assert trained.model.weights["description"].weight > MODEL.weights["description"].weight


def entity_like(one: Entity) -> Entity:
    return Entity(f"{one.key}'", one.title, "turned by 90")


def test_too_few_verdicts_teach_nothing(store: Store) -> None:
    judge(store, "W1", "1", "correct")
    with pytest.raises(UsageError, match="1 pairs are judged correct and 0 wrong: too few"):
        train(tools(store), prior=MODEL)
