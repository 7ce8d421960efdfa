"""What is kept of the searches for overlaps, and the state that tells of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from kglink.records import CodeMapping, Entity, EntityId, Overlap, OverlapRun
from kglink.store import Store
from store_support import Stopped, broken_off, entity, job

pytest_plugins = ["store_fixtures"]

RUN = OverlapRun("doid", "hp", "paper", "f00d", 10, 2, 1, 3, "2026-01-02T03:04:05+00:00")
LEFT, RIGHT = EntityId("doid", "D:1"), EntityId("hp", "H:1")
PAIR = Overlap(LEFT, RIGHT, 0.9)


@pytest.fixture
def filled(store: Store) -> Store:
    """Three KBs."""
    for kb in ("doid", "hp", "wiki"):
        store.ingest(job(kb), entities(kb))
    return store


def entities(kb: str, title: str = "One") -> list[Entity]:
    """The two entities of a KB."""
    letter = kb[0].upper()
    return [entity(f"{letter}:1", title), entity(f"{letter}:2")]


def _run_of(left: str, right: str, _: int) -> OverlapRun:
    return replace(RUN, left=left, right=right)


# ------------------------------------------------------------------------------------------ runs
def test_the_last_run_of_each_pair_is_kept(filled: Store) -> None:
    assert filled.overlap_runs() == []
    filled.save_overlaps("doid", "hp", [PAIR], lambda _: RUN)
    other = replace(RUN, right="wiki", method="names")
    filled.save_overlaps("doid", "wiki", [], lambda _: other)
    again = replace(RUN, settings_fingerprint="beef", kept=1)
    filled.save_overlaps("doid", "hp", [PAIR], lambda _: again)
    assert filled.overlap_runs() == [again, other]
    filled.save_overlaps("doid", "hp", [])  # nobody says how: the last one is not made true by it
    assert filled.overlap_runs() == [again, other]


def test_a_run_can_be_made_of_what_was_found(filled: Store) -> None:
    seen = 0

    def found() -> Iterator[Overlap]:
        nonlocal seen
        for number in (1, 2):
            seen += 5
            yield replace(PAIR, right=EntityId("hp", f"H:{number}"))

    def made(kept: int) -> OverlapRun:
        return replace(RUN, candidates=seen, kept=kept)

    assert filled.save_overlaps("doid", "hp", found(), run=made) == 2
    assert filled.overlap_runs() == [replace(RUN, candidates=10, kept=2)]


def test_a_search_that_says_that_its_run_is_worth_nothing(filled: Store) -> None:
    filled.save_overlaps("doid", "hp", [PAIR], lambda _: RUN)
    filled.save_overlaps("hp", "doid", [PAIR], lambda kept: None)
    assert filled.overlap_runs() == []


def test_a_broken_off_save_keeps_the_last_run(filled: Store) -> None:
    filled.save_overlaps("doid", "hp", [PAIR], lambda _: RUN)
    state = filled.overlap_state()
    with pytest.raises(Stopped):
        filled.save_overlaps("doid", "hp", broken_off([PAIR], 1), lambda _: replace(RUN, kept=7))
    assert filled.overlap_runs() == [RUN]
    assert (list(filled.overlaps()), filled.overlap_state()) == ([PAIR], state)


def test_a_kb_that_goes_takes_its_runs_along(filled: Store) -> None:
    for left, right in (("doid", "hp"), ("hp", "wiki"), ("doid", "wiki")):
        filled.save_overlaps(left, right, [], partial(_run_of, left, right))
    filled.remove_kb("hp")
    assert filled.overlap_runs() == [replace(RUN, right="wiki")]


# ----------------------------------------------------------------------------------------- state
CHANGES: dict[str, Callable[[Store], object]] = {
    "a search": lambda store: store.save_overlaps("doid", "hp", [PAIR]),
    "a search that finds nothing": lambda store: store.save_overlaps("hp", "wiki", []),
    "a verdict": lambda store: store.set_verdict(LEFT, RIGHT, "wrong"),
    "a verdict taken back": lambda store: store.set_verdict(LEFT, RIGHT, None),
    "mappings": lambda store: store.ingest(
        job("pairs"), [CodeMapping("D:2", "H:2", verdict="correct")]
    ),
    "an update of a KB": lambda store: store.ingest(
        job("hp", fingerprint="2"), [entity("H:2", "Two")]
    ),
    "the removal of a KB": lambda store: store.remove_kb("doid"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_state_changes_with_the_overlaps(filled: Store, change: str) -> None:
    filled.save_overlaps("doid", "hp", [PAIR])
    states = [filled.overlap_state()]
    for _ in range(1 if "KB" in change or change == "mappings" else 3):
        CHANGES[change](filled)
        states.append(filled.overlap_state())
    assert len(set(states)) == len(states)


def test_the_removal_of_mappings_changes_the_state(filled: Store) -> None:
    CHANGES["mappings"](filled)
    state = filled.overlap_state()
    filled.remove_kb("pairs")
    assert filled.overlap_state() != state


def test_the_state_stays_where_no_overlap_changes(filled: Store) -> None:
    filled.save_overlaps("doid", "hp", [PAIR], lambda _: RUN)
    state = filled.overlap_state()
    assert list(filled.overlaps()) == [PAIR]
    assert filled.counterparts([LEFT]) == {LEFT: (RIGHT,)}
    filled.ingest(job("doid", fingerprint="2"), entities("doid"))  # nothing new
    filled.ingest(job("wiki", fingerprint="2"), entities("wiki", "New"))  # a KB without overlaps
    filled.ingest(job("more"), entities("more"))
    assert filled.overlap_state() == state


def test_stores_that_are_filled_alike_have_states_of_their_own(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A workspace that is made anew is not taken for the one before."""
    other = Store.open(f"sqlite:///{tmp_path_factory.mktemp('other') / 'kglink.db'}")
    with other:
        assert other.overlap_state() != store.overlap_state()
