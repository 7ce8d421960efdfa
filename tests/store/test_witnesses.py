"""Which KBs are believed to lack what a mention means: where its codes could have been found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.records import Document, EntityId, Mention
from kglink.store import Store
from kglink.store.document_reader import GoldRow
from kglink.store.witnesses import Witnesses
from store_support import entity, job


def coded(code: str, *kbs: str) -> list[GoldRow]:
    """The golds of a mention with a code that was found in some KBs."""
    return [GoldRow(0, "", code), *(GoldRow(0, kb, code) for kb in kbs)]


def keyed(*kbs: str) -> list[GoldRow]:
    """The golds of a mention that names entities by their keys."""
    return [GoldRow(0, kb, "1") for kb in kbs]


def test_a_kb_in_which_no_code_is_found_lacks_nothing() -> None:
    mentions = [coded(f"MESH:{at}", "x", *["y"] * (at < 4)) for at in range(20)]
    witnesses = Witnesses(["x", "y", "z"], mentions)
    assert witnesses.lacking(coded("MESH:9", "x")) == ["y"]
    assert witnesses.lacking(coded("MESH:0", "x", "y")) == []


def test_a_code_counts_once_and_a_few_are_accidents() -> None:
    often = [coded("MESH:0", "x", "y")] * 50
    seldom = [coded(f"MESH:{at}", "x") for at in range(1, 20)]
    assert Witnesses(["x", "y"], [*often, *seldom]).lacking(coded("MESH:9", "x")) == []


def test_each_vocabulary_and_each_way_to_a_code_is_told_apart() -> None:
    """Codes of OMIM never lead to y, and those of MeSH lead there through x alone."""
    witnesses = Witnesses(
        ["x", "y", "z"],
        [
            *(coded(f"MESH:{at}", "x", *["y"] * (at % 2)) for at in range(10)),
            *(coded(f"MESH:{at}", "z", *["x"] * (at % 2)) for at in range(10, 20)),
            *(coded(f"OMIM:{at}", "x", *["z"] * (at % 2)) for at in range(10)),
        ],
    )
    assert witnesses.lacking(coded("MESH:2", "x")) == ["y", "z"]
    assert witnesses.lacking(coded("MESH:12", "z")) == ["x"]
    assert witnesses.lacking(coded("OMIM:2", "x")) == ["z"]


def test_where_entities_are_named_by_key_every_kb_that_is_named_is_believed() -> None:
    witnesses = Witnesses(["x", "y", "z"], [keyed("x")] * 30 + [keyed("y")])
    assert witnesses.lacking(keyed("x")) == ["y"]
    assert witnesses.lacking([*keyed("x"), GoldRow(1, "", "y:gone")]) == ["y"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'kglink.db'}") as opened:
        opened.ingest(job("x"), [entity(str(at), xrefs=(f"MESH:{at}",)) for at in range(4)])
        opened.ingest(job("y"), [entity(str(at), xrefs=("MESH:0",) * (at == 0)) for at in range(4)])
        opened.ingest(job("z"), [entity(str(at)) for at in range(4)])
        yield opened


def test_memory_does_not_take_what_codes_do_not_lead_to_for_lacking(store: Store) -> None:
    words = ["heart", "kidney", "liver", "brain"]
    documents = [
        Document(word, word, (Mention(0, len(word), word, (EntityId("", f"MESH:{at}"),)),))
        for at, word in enumerate(words)
    ]
    linked = job("notes", links_to=("x", "y", "z"), resolve="xref")
    added = store.ingest(linked, [*documents, Document("none", "no mention")])
    assert (added.golds, added.gold_found) == (4, {"x": 4, "y": 1, "z": 0})
    store.learn({"notes": ""})
    meant = {one.entity for one in store.all_meanings()}
    assert EntityId("y", "") in meant
    assert EntityId("z", "") not in meant


def test_what_is_gone_from_a_kb_is_not_taken_for_lacking(store: Store) -> None:
    both = (EntityId("x", "1"), EntityId("y", "1"))
    documents = [Document("1", "heart", (Mention(0, 5, "heart", both),))]
    store.ingest(job("notes", links_to=("x", "y")), documents)
    store.remove_entities("y", ["1"])
    store.learn({"notes": ""})
    assert {one.entity for one in store.all_meanings()} == set(both)
