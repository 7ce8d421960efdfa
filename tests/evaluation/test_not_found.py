"""Mentions whose golds no KB has: NIL where the KBs are about such things, else unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.evaluation.annotated import merged_texts, nil_places, with_nil
from kglink.records import Alias, Document, Entity, EntityId, Mention
from kglink.workspace import Workspace

#: Two diseases of five have codes of the other vocabulary that lead to them.
DISEASES = ("gout", "croup", "rabies", "lupus", "mumps")
CODED = {"gout": "MESH:D006073", "croup": "MESH:D003440"}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(tmp_path / "ws", create=True) as workspace:
        entities = [
            Entity(name, name, xrefs=(CODED[name],) if name in CODED else (), aliases=())
            for name in DISEASES
        ]
        entities.append(Entity("rosacea", "rosacea", aliases=(Alias("acne rosacea"),)))
        workspace.add_kb("diseases", entities)
        yield workspace


def text_of(number: int, mentions: Sequence[tuple[str, str | None, str]]) -> Document:
    """A text of mentions: surface, code (None: nobody said, empty: NIL), type."""
    text, found = "", []
    for surface, code, kind in mentions:
        gold = None if code is None else (EntityId("", code),) if code else ()
        found.append(Mention(len(text), len(text) + len(surface), surface, gold, kind))
        text += f"{surface} and "
    return Document(str(number), text, tuple(found))


def judged(workspace: Workspace, *documents: Document) -> dict[str, str]:
    """What each mention of the documents is taken for."""
    workspace.add_kb("notes", documents, links_to=["diseases"], resolve="xref")
    store = workspace.store
    places = nil_places(store, "notes", ["diseases"])
    return {
        one.surface: "unknown" if one.gold is None else str(one.gold[0]) if one.gold else "NIL"
        for document in with_nil(store.documents("notes"), places)
        for one in document.mentions
    }


def test_a_code_that_no_kb_has_is_nil_where_the_kb_is_about_such_things(
    workspace: Workspace,
) -> None:
    told = judged(
        workspace,
        text_of(1, [("gout", "D006073", "disease"), ("wilting", "D000001", "disease")]),
        text_of(2, [("Rabies", "D011818", "disease"), ("acne  Rosacea", "C535", "disease")]),
        text_of(3, [("cocaine", "D003042", "drug"), ("ache", None, "disease")]),
        text_of(4, [("nonsense", "", "disease")]),
    )
    assert told == {
        "gout": "diseases:gout",
        "wilting": "NIL",
        "Rabies": "unknown",  # an entity bears its words, and no cross-reference leads there
        "acne  Rosacea": "unknown",
        "cocaine": "unknown",  # the KB is not about drugs
        "ache": "unknown",
        "nonsense": "NIL",
    }


def test_an_entity_that_is_gone_is_none_that_a_kb_has(workspace: Workspace) -> None:
    document = text_of(1, [("gout", "D006073", "disease"), ("Kawasaki", "D009080", "disease")])
    workspace.add_entity("diseases", Entity("k", "a syndrome", xrefs=("MESH:D009080",)))
    assert judged(workspace, document)["Kawasaki"] == "diseases:k"
    workspace.remove_entity("diseases:k")
    assert len(nil_places(workspace.store, "notes", ["diseases"])) == 1
    assert judged(workspace, document)["Kawasaki"] == "NIL"


def test_golds_of_which_one_is_found_are_what_was_found(workspace: Workspace) -> None:
    both = Mention(0, 4, "both", (EntityId("", "D003440"), EntityId("", "D000001")))
    assert judged(workspace, Document("1", "both", (both,))) == {"both": "diseases:croup"}


def test_a_place_that_is_annotated_twice_means_what_was_found(workspace: Workspace) -> None:
    """A file gives each code of a mention that means two things a line of its own."""
    golds = ("D006073", "D000001"), ("D000002", "D003440")
    mentions = tuple(
        Mention(0, 4, "both", (EntityId("", code),), "disease") for code in golds[0]
    ) + tuple(Mention(9, 13, "them", (EntityId("", code),), "disease") for code in golds[1])
    documents = [Document("1", "both and them", mentions)]
    told = judged(workspace, *documents)
    assert "NIL" not in told.values()
    store = workspace.store
    places = nil_places(store, "notes", ["diseases"])
    (text,) = merged_texts("notes", with_nil(store.documents("notes"), places))
    assert [[one.key for one in mention.gold or ()] for mention in text.mentions] == [
        ["gout"], ["croup"],
    ]  # fmt: skip
    workspace.build()
    assert workspace.evaluate("notes", split="", ks=(1,)).mentions["diseases"] == 2


def test_where_nothing_is_found_nothing_is_nil(workspace: Workspace) -> None:
    """As of documents that were added with the wrong --resolve, or of other things."""
    told = judged(workspace, text_of(1, [("wilting", "D000001", ""), ("fading", "D000002", "")]))
    assert set(told.values()) == {"unknown"}
    assert nil_places(workspace.store, "notes", []) == frozenset()


def notes(folder: Path) -> Path:
    """Twelve texts, in which every second mention is of something unknown."""
    lines = []
    for number in range(24):
        known = list(CODED)[number % 2]
        text = f"{known} is not the wilting{number} that we saw, and {known} is {known}."
        spans = [(0, len(known), CODED[known]), (text.index("wilting"), text.index(" that"), "D1")]
        mentions = [{"start": a, "end": b, "gold": [code]} for a, b, code in spans]
        lines.append(json.dumps({"id": str(number), "text": text, "mentions": mentions}))
    path = folder / "notes.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_eval_counts_it(workspace: Workspace, kglink: Kglink, tmp_path: Path) -> None:
    """An answer NIL at such a place is right, and one with an entity is not."""
    workspace.add_kb("notes", notes(tmp_path), links_to=["diseases"], resolve="xref")
    answers = [
        {"id": one.id, "text": one.text, "entities": [
            {"start": m.start, "end": m.end, "kb": kb, "key": kb and "gout", "confidence": 0.9}
            for m, kb in zip(one.mentions, ("diseases", None if int(one.id) % 3 else "diseases"),
                             strict=True)
        ]}
        for one in workspace.store.documents("notes")
    ]  # fmt: skip
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, answers)))
    asked = [
        "eval",
        "--docs",
        "notes",
        "--end-to-end",
        "--predictions",
        str(file),
        "--complete",
        "--json",
    ]
    said = json.loads(kglink("--workspace", str(workspace.folder), *asked).out)
    assert (said["annotation"]["nil"], said["annotation"]["unknown"]) == (24, 0)
    nil = said["metrics"]["nil"]["micro"]
    assert (nil["precision"], nil["recall"]) == (1.0, pytest.approx(2 / 3))


@pytest.mark.slow
def test_fit_counts_it(workspace: Workspace, tmp_path: Path) -> None:
    workspace.add_kb("notes", notes(tmp_path), links_to=["diseases"], resolve="xref")
    workspace.build()
    assert workspace.fit("notes").mentions == 48
