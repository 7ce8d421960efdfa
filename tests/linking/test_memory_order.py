"""Memory is the same in whatever order sources are learnt, and needs no space."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from conftest import Kglink
from sqlalchemy import select

from kglink.records import NO_MENTION, Document, Entity, EntityId, Mention
from kglink.store.database import Database, Row
from kglink.store.schema import memories
from kglink.workspace import Workspace

HEART, KIDNEY = EntityId("organs", "1"), EntityId("organs", "2")
SOURCES = ("a", "b", "c")


def document(name: str, text: str, **meant: EntityId) -> Document:
    """A text with some of its words annotated, each once."""
    places = ((text.index(word), word, gold) for word, gold in meant.items())
    mentions = (Mention(at, at + len(word), word, (gold,)) for at, word, gold in places)
    return Document(name, text, tuple(mentions))


#: "cardiac" is a word of the heart in the third source alone, and in no name of the KB.
SHARED = document(
    "s", "The kidney and the heart, not the cardiac list.", kidney=KIDNEY, heart=HEART
)
TEXTS = {
    "a": [document("1", "A cardiac list for the kidney and heart.", kidney=KIDNEY, heart=HEART)],
    "b": [SHARED, document("2", "The cardiac ward has one heart, no liver.", heart=HEART)],
    "c": [SHARED, document("3", "Both cardiac and renal pain.", cardiac=HEART, renal=KIDNEY)],
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    opened = Workspace.open(tmp_path / "w", create=True)
    organs = [Entity("1", "Heart", "It beats."), Entity("2", "Kidney"), Entity("3", "Liver")]
    opened.add_kb("organs", organs)
    for name, documents in TEXTS.items():
        opened.add_kb(name, documents, links_to="organs")
    return opened


def rows(workspace: Workspace) -> list[Row]:
    """The whole memory, to the row."""
    db = Database(workspace.store_url)
    found = db.rows(select(memories).order_by(*memories.primary_key.columns))
    db.close()
    return found


def test_the_order_of_sources_changes_nothing(workspace: Workspace) -> None:
    with workspace:
        workspace.learn(SOURCES)
        at_once = rows(workspace)
        counted = {(row[1], row[4]): row[5] for row in at_once if row[3] == NO_MENTION.key}
        assert counted == {("cardiac", "a"): 1, ("cardiac", "b"): 2, ("liver", "b"): 1}
        assert not (workspace.folder / "spaces").exists()
        for order in permutations(SOURCES):
            workspace.forget(SOURCES)
            assert not rows(workspace)
            for name in order:
                workspace.learn(name)
            assert rows(workspace) == at_once
        workspace.forget("c")
        without = rows(workspace)
        workspace.forget(["a", "b"])
        workspace.learn(["a", "b"])
        assert rows(workspace) == without != at_once
        workspace.learn("c")
        assert rows(workspace) == at_once


def changed(workspace: Workspace) -> None:
    workspace.add_kb("a", [document("1", "A cardiac list, and a heart.", heart=HEART)])


def grown(workspace: Workspace) -> None:
    workspace.add_entity("organs", Entity("9", "List"))


@pytest.mark.parametrize("change", [changed, grown])
def test_what_changes_in_between_is_counted_as_it_is(
    workspace: Workspace, change: Callable[[Workspace], None]
) -> None:
    with workspace:
        workspace.learn(["a", "b"])
        change(workspace)
        workspace.learn("c")
        found = rows(workspace)
        workspace.forget(SOURCES)
        workspace.learn(SOURCES)
        assert rows(workspace) == found


def test_what_was_learnt_from_a_source_stays_when_it_is_removed(workspace: Workspace) -> None:
    with workspace:
        workspace.learn(["a", "c"])
        own = [row for row in rows(workspace) if row[4] == "a"]
        workspace.remove_kb("a")
        workspace.learn("b")
        assert [row for row in rows(workspace) if row[4] == "a"] == own
        workspace.forget("a")
        assert {row[4] for row in rows(workspace)} == {"b", "c"}


def test_kglink_learn_names_sources_that_are_not_what_was_counted(
    workspace: Workspace, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workspace:
        workspace.learn(["a", "c"])
        changed(workspace)
        workspace.remove_kb("c")
        monkeypatch.chdir(workspace.folder)
        told = " ".join(kglink("learn").err.split())
    assert "changed a has been updated since it was learnt: kglink learn a" in told
    assert "gone c was removed: what was learnt from it stays as it was counted" in told


def test_a_kb_that_documents_do_not_link_to_changes_nothing_of_what_is_learnt(
    workspace: Workspace,
) -> None:
    with workspace:
        workspace.learn(SOURCES)
        before = rows(workspace)
        assert any(NO_MENTION.key in row for row in before)
        workspace.add_kb("words", [Entity("1", "Ward"), Entity("2", "List"), Entity("3", "pain")])
        workspace.learn(SOURCES)
        assert rows(workspace) == before
