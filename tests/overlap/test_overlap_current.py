"""What did not change is not sought again; other KBs, settings, models and evidence are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kglink.overlap.search import find_all_overlaps, find_overlaps
from kglink.plugins import PairedKBs
from kglink.records import Entity
from kglink.store import Store
from overlap_kbs import (
    EVIDENCE,
    WITH_NEAR,
    WORLD,
    TitleAndName,
    add,
    copied_store,
    filled_store,
    tools,
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    with copied_store(filled, tmp_path) as store:
        yield store


def test_what_did_not_change_is_not_sought_again(store: Store) -> None:
    add(store, "zoo", [Entity("z", "Dalek")])
    first = list(find_all_overlaps(tools(store)))
    assert [(one.left, one.right, one.current) for one in first] == [
        ("wiki", "world", False),
        ("wiki", "zoo", False),
        ("world", "zoo", False),
    ]
    again = list(find_all_overlaps(tools(store)))
    assert all(one.current for one in again)
    assert [one.kept for one in again] == [one.kept for one in first]
    assert [one.candidates for one in again] == [one.candidates for one in first]
    assert not any(one.current for one in find_all_overlaps(tools(store), fresh=True))


def test_only_the_changed_kb_is_compared_again(store: Store) -> None:
    add(store, "zoo", [Entity("z", "Dalek")])
    list(find_all_overlaps(tools(store)))
    add(store, "zoo", [Entity("z", "Dalek"), Entity("y", "Skaro")], fingerprint="2")
    again = list(find_all_overlaps(tools(store)))
    assert [one.left + one.right for one in again if one.current] == ["wikiworld"]


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "paper"},
        {"threshold": 0.7},
        {"one_to_one": True},
        {"max_name_pairs": 5},
        {"strip_disambiguator": False},
    ],
)
def test_other_settings_make_a_run_stale(store: Store, changed: dict[str, Any]) -> None:
    list(find_all_overlaps(tools(store)))
    assert not any(one.current for one in find_all_overlaps(tools(store, **changed)))


def test_another_model_and_other_evidence_make_a_run_stale(store: Store) -> None:
    list(find_all_overlaps(tools(store)))
    assert not any(one.current for one in find_all_overlaps(tools(store, model=WITH_NEAR)))
    list(find_all_overlaps(tools(store)))
    fewer = {"names": EVIDENCE["names"]}
    assert not any(one.current for one in find_all_overlaps(tools(store, fewer)))


def test_settings_that_a_method_does_not_read_change_nothing(store: Store) -> None:
    list(find_all_overlaps(tools(store, method="names")))
    again = find_all_overlaps(tools(store, method="names", threshold=0.9))
    assert all(one.current for one in again)


def test_a_kb_that_is_replaced_while_it_is_searched_is_searched_again(store: Store) -> None:
    """Its new revision is none that it ever had."""
    find_overlaps(tools(store), "wiki", "world")

    class Replacing(TitleAndName):
        def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
            yield from super().propose(kbs)
            store.remove_kb("world")
            add(store, "world", WORLD[:2])

    evidence = EVIDENCE | {"names": Replacing}
    report = find_overlaps(tools(store, evidence), "wiki", "world")
    assert store.kb("world").revision == 2
    assert any(note.startswith("world has changed while it was searched") for note in report.notes)
    assert store.overlap_runs() == []
    (again,) = find_all_overlaps(tools(store))
    assert not again.current
    (again,) = find_all_overlaps(tools(store))
    assert again.current
