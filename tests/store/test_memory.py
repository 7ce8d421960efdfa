"""What surfaces meant: learnt, counted once, forgotten, asked without some documents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.errors import UnknownNameError
from kglink.records import NIL, NO_MENTION, Document, EntityId, Mention
from kglink.store import Store
from kglink.store.memory import meanings
from store_support import entity, job

A, B, C = EntityId("x", "a"), EntityId("x", "b"), EntityId("y", "c")


def document(name: str, *said: tuple[str, tuple[EntityId, ...] | None]) -> Document:
    text = " ".join(surface for surface, _ in said)
    mentions, at = [], 0
    for surface, gold in said:
        mentions.append(Mention(at, at + len(surface), surface, gold))
        at += len(surface) + 1
    return Document(name, text, tuple(mentions))


ONE = document("1", ("Tumours", (A,)), ("tumor", (A, B, C)), ("pain", ()), ("cold", None))
TWO = document("2", ("tumours", (B,)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'kglink.db'}") as opened:
        yield opened


def told(store: Store, *keys: str) -> dict[tuple[str, EntityId], float]:
    found = store.meanings(keys)
    return {(one.folded, one.entity): one.times for key in keys for one in found.get(key, ())}


def test_each_mention_counts_once_for_each_kb_that_it_has_an_answer_in() -> None:
    found = {
        (one.key, one.folded, one.entity): one.times
        for mention in ONE.mentions
        for one in meanings(mention, ["x", "y"])
    }
    assert found == {
        ("tumor", "tumours", A): 1, ("tumor", "tumours", EntityId("y", "")): 1,
        ("tumor", "tumor", A): 0.5, ("tumor", "tumor", B): 0.5, ("tumor", "tumor", C): 1,
        ("pain", "pain", NIL): 1,
    }  # fmt: skip
    assert not list(meanings(Mention(0, 1, "x", (EntityId("", "unknown"),))))


def test_learning_again_takes_the_place_of_what_was_there(store: Store) -> None:
    assert store.learn("notes", [ONE, TWO]) == 3
    assert store.learn("notes", [ONE, TWO]) == 3
    assert store.memory_sources() == {"notes": 3}
    assert told(store, "tumor")["tumours", B] == 1
    assert store.learn("notes", [TWO]) == 1
    assert told(store, "tumor", "pain") == {("tumours", B): 1}


def test_sources_add_up_and_are_forgotten_alone(store: Store) -> None:
    store.learn("notes", [ONE])
    store.learn("mails", [TWO, document("3", ("tumours", (A,)))])
    assert told(store, "tumor")["tumours", A] == 2
    store.forget("notes")
    assert told(store, "tumor") == {("tumours", A): 1, ("tumours", B): 1}
    with pytest.raises(UnknownNameError, match="notes"):
        store.forget("notes")


def test_documents_that_are_judged_are_no_part_of_what_is_asked(store: Store) -> None:
    store.learn("notes", [ONE, TWO])
    part = store.memory_without([ONE])
    found = {(one.folded, one.entity): one.times for one in part.meanings(["tumor"])["tumor"]}
    assert found == {("tumours", B): 1}
    assert part.meanings(["pain"]) == {"pain": []}
    assert store.meanings(["nothing of it"]) == {}


def test_documents_that_are_in_two_sources_count_once(store: Store) -> None:
    store.ingest(job("x"), [entity("a"), entity("b")])
    mails = [ONE, TWO, document("3", ("tumours", (A,)))]
    for name, records in (("notes", [ONE, TWO]), ("mails", mails), ("more", [TWO])):
        store.ingest(job(name, links_to=("x",)), records)
    for name in ("notes", "mails", "more", "mails"):
        store.learn(name, store.documents(name))
    assert store.memory_sources() == {"notes": 3, "mails": 1}
    assert told(store, "tumor")["tumours", B] == 1
    assert told(store, "tumor")["tumours", A] == 2
    # The same text twice in one source: each of its places counts once.
    again = document("4", ("tumours", (A,)))
    store.learn("mails", [again, again, document("5", ("tumours", (A,)))])
    assert told(store, "tumor")["tumours", A] == 2


def test_what_meant_something_in_another_kb_alone_is_forgotten_with_the_rest(store: Store) -> None:
    store.learn("notes", [ONE, TWO], kbs=["x", "y"])
    nothing = EntityId("y", "")
    assert told(store, "tumor")["tumours", nothing] == 2
    assert store.memory_kbs() == {"x": 3, "y": 1}
    found = {
        (one.folded, one.entity): one.times
        for one in store.memory_without([ONE]).meanings(["tumor"])["tumor"]
    }
    assert found == {("tumours", B): 1, ("tumours", nothing): 1}


def test_many_and_hostile_surfaces(store: Store) -> None:
    names = ["'; DROP TABLE memories; --", "\x1b[31m", "\U0001f600", "a" * 10_000, "%", "\u202e"]
    many = [document(str(at), (f"name {at}", (A,))) for at in range(5000)]
    store.learn("notes", [document("odd", *((name, (A,)) for name in names)), *many])
    assert store.memory_sources()["notes"] == 5000 + len(names)
    assert told(store, "4999 name") == {("name 4999", A): 1}


def test_words_that_are_no_mention_are_remembered_as_such(store: Store) -> None:
    state = store.memory_state()
    assert store.learn("notes", [ONE], lambda document: ["severe", "tumor"]) == 3
    assert told(store, "severe", "tumor")["severe", NO_MENTION] == 1
    assert told(store, "tumor")["tumor", NO_MENTION] == 1
    assert store.memory_state() != state
    assert store.memory_sources() == {"notes": 3}
    surfaces = [(one.folded, one.surface) for one in store.all_meanings()]
    assert ("tumours", "Tumours") in surfaces
    assert [one for one, _ in surfaces] == sorted(one for one, _ in surfaces)


KILLED = """
import os, sys
from kglink.store import Store
with Store.open(sys.argv[1]) as store:
    def documents():
        yield from store.documents("mails")
        os.kill(os.getpid(), 9)
    store.learn("notes", documents())
"""


def test_a_kill_while_it_learns_leaves_what_was_known(store: Store, tmp_path: Path) -> None:
    store.ingest(job("x"), [entity("a"), entity("b")])
    store.ingest(job("mails", links_to=("x",)), [TWO])
    store.learn("notes", [ONE])
    before = told(store, "tumor", "pain")
    url = f"sqlite:///{tmp_path / 'kglink.db'}"
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == -9
    assert told(store, "tumor", "pain") == before
    assert store.learn("notes", [TWO]) == 1


@pytest.mark.slow
def test_a_million_distinct_surfaces_take_little_memory(tmp_path: Path) -> None:
    """They are added up and sorted on disk, of which caches hold 64 MiB each, three at most."""
    child = Path(__file__).parent.parent / "support" / "memory_child.py"
    ran = subprocess.run(
        [sys.executable, child, f"sqlite:///{tmp_path / 'kglink.db'}", "1000000"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after, learnt, told, told_all = json.loads(ran.stdout)
    assert (learnt, told, told_all) == (1_000_000, ["surface999999"], 1_000_000)
    assert after - before < 300
