"""Lists are matched with the KBs of a store, and their verdicts are taken in."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.overlap.exchange.matching import compare_overlaps, import_verdicts, match_list
from kglink.overlap.exchange.write import write_sssom
from kglink.records import Verdict
from kglink.store import Store
from overlap_lists import ABOUT, known, listed, matched, name, pair
from store_support import entity, job


# --------------------------------------------------------------------------------- matching
def test_ids_are_looked_up_in_both_kbs_and_both_directions() -> None:
    store = known(
        "doid:DOID:1", "doid:DOID:2", "mesh:D000001", "mesh:x:y", "doid:same", "mesh:same"
    )
    found = match_list(
        listed(
            "DOID:1\tMESH:D000001\n"
            "x:y\tDOID:2\n"
            "same\tsame\n"
            "DOID:1\tDOID:2\n"
            "DOID:9\tD000009\n"
            "DOID:9\tx:y\n"
        ),
        store.get_entities,
        "doid",
        "mesh",
    )
    assert set(found.verdicts) == {
        (name("doid:DOID:1"), name("mesh:D000001")),
        (name("doid:DOID:2"), name("mesh:x:y")),
        (name("doid:same"), name("mesh:same")),
    }
    assert (found.rows, found.unmatched, found.one_kb, found.unknown) == (6, 3, 1, 2)
    assert found.examples == ["DOID:9 (list.tsv, line 5)", "D000009 (list.tsv, line 5)"]


def test_a_list_in_many_batches(tmp_path: Path) -> None:
    numbers = range(1300)
    store = known(*(f"a:{number}" for number in numbers), *(f"b:{number}" for number in numbers))
    text = "".join(f"b:{number}\ta:{number}\n" for number in numbers)
    found = match_list(listed(text), store.get_entities, "a", "b")
    assert set(found.verdicts) == {(name(f"a:{n}"), name(f"b:{n}")) for n in numbers}


# ---------------------------------------------------------------------- taking lists in
@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'kglink.db'}") as opened:
        for kb in ("a", "b"):
            opened.ingest(job(kb), [entity(str(number)) for number in range(1, 8)])
        opened.save_overlaps("a", "b", [pair(f"a:{n}", f"b:{n}") for n in range(1, 6)])
        yield opened


def said(store: Store) -> dict[str, tuple[Verdict, str]]:
    return {
        f"{one.left.key} {one.right.key}": (one.verdict, one.source)
        for one in store.overlaps("a", "b")
        if one.verdict
    }


def test_a_review_stands_against_a_list_and_a_list_does_not_against_the_next(store: Store) -> None:
    store.set_verdict(name("a:1"), name("b:1"), "wrong")
    store.set_verdict(name("a:2"), name("b:2"), "correct")
    store.set_verdict(name("a:3"), name("b:3"), "wrong", "import")
    given_ = matched([("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("6", "7")], [("5", "5")])
    report = import_verdicts(given_, store)
    assert (report.set, report.agreed, report.conflicts) == (4, 1, 1)
    assert report.examples == ("a:1 b:1: wrong here, correct there",)
    assert said(store) == {
        "1 1": ("wrong", "review"),
        "2 2": ("correct", "review"),
        "3 3": ("correct", "import"),
        "4 4": ("correct", "import"),
        "5 5": ("wrong", "import"),
        "6 7": ("correct", "import"),
    }
    again = import_verdicts(given_, store)
    assert (again.set, again.agreed, again.conflicts) == (0, 5, 1)


def test_importing_does_not_change_what_was_found(store: Store) -> None:
    given_ = matched([("1", "1"), ("6", "6")], [("2", "2")])
    before = compare_overlaps(store.overlaps("a", "b"), given_)
    import_verdicts(given_, store)
    assert compare_overlaps(store.overlaps("a", "b"), given_) == before


def test_verdicts_go_from_one_workspace_to_another(store: Store, tmp_path: Path) -> None:
    store.set_verdicts(
        [
            (name("a:1"), name("b:1"), "correct"),
            (name("a:2"), name("b:2"), "wrong"),
            (name("a:3"), name("b:3"), "unclear"),
            (name("a:6"), name("b:7"), "correct"),
        ]
    )
    out = io.StringIO()
    write_sssom(store.overlaps(), store.get_entities, out, ABOUT)
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for kb in ("x", "y"):  # the same KBs under other names
            other.ingest(job(kb), [entity(str(number)) for number in range(1, 8)])
        found = match_list(listed(out.getvalue()), other.get_entities, "x", "y")
        import_verdicts(found, other)
        verdicts = {(one.left.key, one.right.key): one.verdict for one in other.overlaps("x", "y")}
    assert verdicts == {("1", "1"): "correct", ("2", "2"): "wrong", ("6", "7"): "correct"}
    assert found.left_out == Counter({"proposals of kglink that nobody judged": 3})
