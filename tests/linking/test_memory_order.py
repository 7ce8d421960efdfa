"""Memory is the same in whatever order sources are learnt, and needs no space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, permutations
from pathlib import Path

import pytest
from conftest import Kglink
from sqlalchemy import select

from kglink.errors import UsageError
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


def test_what_was_learnt_from_a_split_stays_when_the_split_is_gone(workspace: Workspace) -> None:
    (one,) = TEXTS["a"]
    with workspace:
        workspace.add_kb("a", [replace(one, split="dev")])
        workspace.learn("a", split="dev")
        own = rows(workspace)
        workspace.add_kb("a", [replace(one, split="test")])
        workspace.learn("b")
        assert own
        assert [row for row in rows(workspace) if row[4] == "a"] == own
        with pytest.raises(UsageError, match="'a' has no documents in the split 'dev'"):
            workspace.learn("a", split="dev")


def test_what_was_learnt_from_a_source_stays_when_it_is_removed(workspace: Workspace) -> None:
    with workspace:
        workspace.learn(["a", "c"])
        own = [row for row in rows(workspace) if row[4] == "a"]
        workspace.remove_kb("a")
        workspace.learn("b")
        assert [row for row in rows(workspace) if row[4] == "a"] == own
        workspace.forget("a")
        assert {row[4] for row in rows(workspace)} == {"b", "c"}


def test_what_was_learnt_of_entities_stays_when_they_are_removed(workspace: Workspace) -> None:
    """They may come back with the next update, and every correction counts all sources anew."""

    def meant() -> list[Row]:
        return [row for row in rows(workspace) if row[3] != NO_MENTION.key]

    with workspace:
        workspace.learn(SOURCES)
        found = meant()
        workspace.remove_entity("organs:1")
        workspace.learn("b")
        assert meant() == found
        workspace.remove_kb("organs")
        workspace.learn("b")
        assert meant() == found


@pytest.mark.parametrize("counted_anew", [True, False])
def test_documents_that_are_judged_take_off_what_they_say_of_entities_that_have_gone(
    workspace: Workspace, counted_anew: bool
) -> None:
    golds = [(HEART, KIDNEY), (HEART, KIDNEY), (KIDNEY,), (HEART,)]
    with workspace:
        texts = [
            Document(f"{at}", f"Pump {at}", (Mention(0, 4, "Pump", gold),))
            for at, gold in enumerate(golds)
        ]
        workspace.add_kb("notes", texts, links_to="organs")
        workspace.learn("notes")
        workspace.remove_entity("organs:2")
        if counted_anew:
            workspace.learn("notes")
        own = list(workspace.store.documents("notes"))
        left = workspace.store.memory_without(own[:3]).meanings(["pump"])["pump"]
        assert [(one.entity, one.times) for one in left] == [(HEART, 1)]


def test_kglink_learn_names_sources_that_are_not_what_was_counted(
    workspace: Workspace, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workspace:
        workspace.learn(["a", "c"])
        changed(workspace)
        monkeypatch.chdir(workspace.folder)
        removed = kglink("kbs", "remove", "c", "--yes").err
        assert "what was learnt from c stays: `kglink forget c`" in " ".join(removed.split())
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


def annotated(count: int, golds: Sequence[EntityId]) -> list[Document]:
    """Texts with twelve words each, which mean the golds one after the other."""
    meant = cycle(golds)
    words = [f"{letter}alpha" for letter in "bcdfghjklmnp"]
    return [
        document(f"r{number}", f"{number} {' '.join(words)}", **{one: next(meant) for one in words})
        for number in range(count)
    ]


ALL = [EntityId("organs", str(number)) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("golds", "counts"),
    [
        pytest.param([*ALL, *ALL[:2], ALL[1], ALL[0]], False, id="at random"),
        pytest.param([*ALL, ALL[0]], True, id="each word means one thing"),
        pytest.param([HEART], True, id="all words mean one thing"),
    ],
)
def test_a_source_annotated_at_random_counts_nothing(
    workspace: Workspace, kglink: Kglink, golds: list[EntityId], counts: bool
) -> None:
    with workspace:
        workspace.add_kb("more", annotated(60, golds), links_to="organs")
        workspace.learn("a")
        before = rows(workspace)
    said = kglink("-w", workspace.folder, "learn", "more").err
    with workspace:
        told = workspace.store.memory_sources()
        assert told == {"a": 2, "more": 12 if counts else 0}
        assert (rows(workspace) == before) != counts
        assert ("annotated at random" in said) != counts
        words = workspace.store.memory_state()
        workspace.forget("more")
        assert rows(workspace) == before
        assert workspace.store.memory_state() != words


def test_few_mentions_are_believed_though_they_contradict(workspace: Workspace) -> None:
    with workspace:
        workspace.add_kb("few", annotated(2, [*ALL, *ALL[:2], ALL[1], ALL[0]]), links_to="organs")
        workspace.learn("few")
        assert workspace.store.memory_sources() == {"few": 12}


def test_words_that_vary_by_nature_condemn_no_names(workspace: Workspace) -> None:
    texts = [
        document(f"h{at}", f"Name{at} and Other{at} came and then he went",
                 **{f"Name{at}": ALL[at % 3], f"Other{at}": ALL[0], "he": ALL[at % 3]})
        for at in range(40)
    ]  # fmt: skip
    with workspace:
        workspace.add_kb("people", texts, links_to="organs")
        workspace.learn("people")
        assert workspace.store.memory_sources() == {"people": 81}


@pytest.mark.parametrize("marked", [1, 300], ids=["one of them", "all of them"])
def test_many_times_one_abbreviation(workspace: Workspace, marked: int) -> None:
    """One word again and again is one surface, with little to keep of it."""
    text = "HT " * 300
    mentions = [Mention(3 * at, 3 * at + 2, "HT", (HEART,)) for at in range(marked)]
    with workspace:
        texts = (Document(f"{n}", f"{text}{n}", tuple(mentions)) for n in range(20))
        workspace.add_kb("many", texts, links_to="organs")
        workspace.learn("many")
        (row,) = (row for row in rows(workspace) if row[3] == HEART.key)
        assert (row[1], row[5]) == ("ht", 20 * marked)


@pytest.mark.parametrize(
    "text", ["⠁⠃⠉ ⠙⠑⠋", "0101 1101 ::: ###", "𐎀𐎁𐎂 𐎃𐎄", "ʘ ǀ ǁ ǃ", "\u200b\u200d"]
)
def test_texts_of_no_language_are_learnt_and_linked(workspace: Workspace, text: str) -> None:
    with workspace:
        whole = f"{text} heart {text}"
        workspace.add_kb("odd", [document("o", whole, heart=HEART)], links_to="organs")
        workspace.learn("odd")
        assert workspace.store.memory_sources() == {"odd": 1}
        (meaning,) = workspace.store.meanings(["heart"])["heart"]
        assert meaning.entity == HEART
