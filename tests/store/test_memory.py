"""What surfaces meant: learnt, counted once, forgotten, asked without some documents."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from kglink.errors import UnknownNameError, UsageError
from kglink.records import (
    CORRECTIONS,
    NIL,
    NO_MENTION,
    Alias,
    Document,
    Entity,
    EntityId,
    Mention,
)
from kglink.store import Store
from kglink.store.kinds import Kind
from kglink.store.likeness import SourceWords
from kglink.store.memory import Learnt, Unmarked, meanings
from kglink.store.occurrences import Meaning
from store_support import Stopped, broken_off, entity, job

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
        opened.ingest(job("x"), [entity("a"), entity("b")])
        opened.ingest(job("y"), [entity("c")])
        yield opened


def learn(store: Store, name: str, documents: Iterable[Document], *kbs: str) -> int:
    """Add documents as a source that links to some KBs, and learn from it; its surfaces."""
    store.ingest(job(name, links_to=kbs or ("x",)), documents)
    store.learn({name: ""})
    return store.memory_sources()[name]


def marks(*surfaces: str) -> Unmarked:
    """Finds the places of these words that are not annotated."""

    def places(document: Document) -> Iterator[tuple[int, int]]:
        for found in re.finditer("|".join(surfaces), document.text):
            if not any(one.start <= found.start() < one.end for one in document.mentions):
                yield found.span()

    return lambda source, split, known: places


def told(store: Store, *keys: str) -> dict[tuple[str, EntityId], float]:
    found: Counter[tuple[str, EntityId]] = Counter()
    for one in chain.from_iterable(store.meanings(keys).values()):
        found[one.folded, one.entity] += one.times  # type: ignore[assignment]  # parts of mentions
    return dict(found)


def test_each_mention_counts_once_for_each_kb_that_it_has_an_answer_in() -> None:
    found = {
        (one.key, one.folded, one.entity): one.times
        for mention in ONE.mentions
        for one in meanings(ONE.text, mention, ["x", "y"])
    }
    assert found == {
        ("tumor", "tumours", A): 1, ("tumor", "tumours", EntityId("y", "")): 1,
        ("tumor", "tumor", A): 0.5, ("tumor", "tumor", B): 0.5, ("tumor", "tumor", C): 1,
        ("pain", "pain", NIL): 1,
    }  # fmt: skip
    assert not list(meanings("x", Mention(0, 1, "x", (EntityId("", "unknown"),))))


def test_a_capital_that_begins_a_sentence_says_nothing() -> None:
    def small(text: str, surface: str, start: int = 0) -> list[float]:
        place = Mention(start, start + len(surface), surface, (A,))
        return [one.small for one in meanings(text, place, times=10)]

    text = "Tumor cells. The Tumor of a tumor. (Tumor) the Tumor."
    assert [small(text, "Tumor", at) for at in (0, 17, 36)] == [[10], [0], [10]]
    assert small(text, "tumor", 28) == [10]
    assert small(text, "the Tumor", 43) == [0]
    assert small("Élan vital", "Élan vital") == [10]
    assert small("Iron Age", "Iron Age") == [0]
    assert small("SEEN: NO TUMOR", "TUMOR", 9) == [10]


def test_learning_again_takes_the_place_of_what_was_there(store: Store) -> None:
    assert learn(store, "notes", [ONE, TWO]) == 3
    assert learn(store, "notes", [ONE, TWO]) == 3
    assert store.learnt() == [Learnt("notes", "", 1, 3)]
    assert told(store, "tumor")["tumours", B] == 1
    assert learn(store, "notes", [TWO]) == 1
    assert store.learnt() == [Learnt("notes", "", 2, 1)]
    assert told(store, "tumor", "pain") == {("tumours", B): 1}


def test_sources_add_up_and_are_forgotten_alone(store: Store) -> None:
    learn(store, "notes", [ONE])
    learn(store, "mails", [TWO, document("3", ("tumours", (A,)))])
    assert told(store, "tumor")["tumours", A] == 2
    store.learn({}, forgotten=["notes"])
    assert told(store, "tumor") == {("tumours", A): 1, ("tumours", B): 1}
    with pytest.raises(UnknownNameError, match="notes"):
        store.learn({}, forgotten=["notes"])


def words(subject: str, count: int) -> list[str]:
    """Words that no other subject has."""
    return [subject + chr(97 + at // 26) + chr(97 + at % 26) for at in range(count)]


def test_the_weight_of_a_source_by_hand() -> None:
    ponds, novels = words("pond", 100), words("novel", 100)
    found = SourceWords({"ponds": dict.fromkeys(ponds, 1), "novels": dict.fromkeys(novels, 1)})
    # Each word is .005 of all words. Of the 50 that the text has each counts .2 * 50 / 100 = .1.
    pond = 50 * 0.1 * math.log((1 / 0.005 + 1000) / (100 + 1000))
    novel = 50 * 0.1 * math.log(1000 / (100 + 1000))
    assert round(math.exp(novel - pond), 2) == 0.40
    assert found.likeness(" ".join(ponds[:50] * 2)) == (("ponds", 1.0), ("novels", 0.4))
    assert found.likeness(ponds[0]) == (("ponds", 1.0), ("novels", 1.0))  # too few words
    assert found.likeness("No such word.") == (("ponds", 1.0), ("novels", 1.0))
    assert SourceWords({}).likeness("pond") == ()


def test_texts_are_compared_with_the_documents_of_each_source(store: Store) -> None:
    own = {"notes": "tumours " + " ".join(words("pond", 90) * 20)}
    own["mails"] = "tumours " + " ".join(words("novel", 90) * 20)
    learn(store, "notes", [Document("1", own["notes"], (Mention(0, 7, "tumours", (A,)),))])
    assert store.likeness([own["notes"]]) == [()]  # one source alone
    learn(store, "mails", [Document("2", own["mails"], (Mention(0, 7, "tumours", (A,)),))])
    notes, mails = map(dict, store.likeness(own.values()))
    assert notes == {"notes": 1, "mails": 0}
    assert mails == {"notes": 0, "mails": 1}
    # What a document says leaves the source that it is like.
    again = Document("3", own["notes"], (Mention(0, 7, "tumours", (A,)),))
    left = store.memory_without([again]).meanings(["tumor"])["tumor"]
    assert [(one.source, one.times) for one in left] == [("mails", 1.0)]
    store.learn({}, forgotten=["mails"])
    assert store.likeness([own["notes"]]) == [()]


def test_kinds_of_things_that_documents_leave_unmarked(store: Store) -> None:
    genes = [
        Entity(f"g{at}", f"{name} Gene", aliases=(Alias(name),)) for at, name in enumerate("PQR")
    ]
    store.ingest(job("genes", fingerprint="1"), [*genes, Entity("d", "Common Cold")])
    store.ingest(job("others"), [Entity("o", "P Gene")])
    gold = EntityId("genes", "g0")
    one = Document("1", "cold, P, Q, R, R", (Mention(6, 7, "P", (gold,)),))
    store.ingest(job("notes", links_to=("genes",)), [one])
    store.learn({"notes": ""}, marks("cold", "P", "Q", "R"))
    gene, cold, of_another_kb = store.kinds(
        [("genes", "Any other GENE"), ("genes", "Common Cold"), ("others", "P Gene")]
    )
    assert gene == [Kind("notes", 1, 3)]
    assert (cold, of_another_kb) == ((), ())  # "cold" is no name of the KB
    assert store.memory_without([one]).kinds([("genes", "x gene")]) == [gene]
    store.learn({}, forgotten=["notes"])
    assert store.kinds([("genes", "x gene")]) == [()]


def test_an_unfinished_kb_has_no_kinds(store: Store) -> None:
    genes = [entity("p", "P Gene"), entity("q", "Q Gene")]
    with contextlib.suppress(Stopped):
        store.ingest(job("genes", batch_size=1), broken_off(genes, 1))
    one = Document("1", "P Gene, tumour", (Mention(8, 14, "tumour", (A,)),))
    store.ingest(job(CORRECTIONS, links_to=("x",)), [one])
    store.learn({CORRECTIONS: ""}, marks("P Gene"))
    assert store.kinds([("genes", "Q Gene")]) == [()]
    store.ingest(job("genes", batch_size=1), genes)
    store.learn({CORRECTIONS: ""}, marks("P Gene"))
    assert store.kinds([("genes", "Q Gene")]) == [[Kind(CORRECTIONS, 0, 10)]]


def test_documents_that_are_judged_are_no_part_of_what_is_asked(store: Store) -> None:
    learn(store, "notes", [ONE, TWO])
    part = store.memory_without([ONE])
    found = {(one.folded, one.entity): one.times for one in part.meanings(["tumor"])["tumor"]}
    assert found == {("tumours", B): 1}
    assert part.meanings(["pain"]) == {"pain": []}
    assert store.meanings(["nothing of it"]) == {}


def test_documents_that_are_in_two_sources_count_once(store: Store) -> None:
    mails = [ONE, TWO, document("3", ("tumours", (A,)))]
    for name, records in (("notes", [ONE, TWO]), ("mails", mails), ("more", [TWO])):
        learn(store, name, records)
    assert store.memory_sources() == {"mails": 3, "more": 1, "notes": 3}
    once = told(store, "tumor")
    assert (once["tumours", B], once["tumours", A]) == (1, 2)
    # What one source tells no longer, another does.
    store.learn({}, forgotten=["mails"])
    assert told(store, "tumor")["tumours", B] == 1
    assert told(store, "tumor")["tumours", A] == 1
    # The same text twice in one source: each of its places counts once.
    again, other = (document(name, ("tumours", (A,))) for name in ("4", "5"))
    learn(store, "mails", [again, other])
    assert told(store, "tumor")["tumours", A] == 2


def test_documents_that_nobody_learnt_from_take_nothing_from_memory(store: Store) -> None:
    learn(store, "notes", [ONE, TWO])
    before = told(store, "tumor")
    other = replace(document("9", ("tumours", (A,)), ("tumor", (B,))), split="dev")
    assert store.memory_without([other]) is store
    # Nor do those of another split than the one that was learnt.
    cold = replace(document("8", ("cold", (A,))), split="train")
    learn(store, "parts", [cold, other])
    assert store.memory_without([other]) is store
    assert store.memory_without([cold]) is not store
    assert told(store, "tumor") == before


def test_what_meant_something_in_another_kb_alone_is_forgotten_with_the_rest(store: Store) -> None:
    learn(store, "notes", [ONE, TWO], "x", "y")
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
    learn(store, "notes", [document("odd", *((name, (A,)) for name in names)), *many])
    assert store.memory_sources()["notes"] == 5000 + len(names)
    assert told(store, "4999 name") == {("name 4999", A): 1}


def test_words_that_are_no_mention_are_remembered_as_such(store: Store) -> None:
    state = store.memory_state()
    bare = Document("3", "a severe tumor")
    store.ingest(job("notes", links_to=("x",)), [ONE, bare])
    store.learn({"notes": ""}, marks("severe", "tumor"))
    assert told(store, "severe", "tumor")["severe", NO_MENTION] == 1
    assert told(store, "tumor")["tumor", NO_MENTION] == 1
    assert store.memory_state() != state
    assert store.memory_sources() == {"notes": 3}
    surfaces = [(one.folded, one.surface) for one in store.all_meanings()]
    assert ("tumours", "Tumours") in surfaces
    assert [one for one, _ in surfaces] == sorted(one for one, _ in surfaces)
    # Another record of the same text marks the place.
    store.ingest(
        job("mails", links_to=("x",)), [replace(bare, mentions=(Mention(9, 14, "tumor", (A,)),))]
    )
    store.learn({"mails": ""}, marks("severe", "tumor"))
    assert ("tumor", NO_MENTION) not in told(store, "tumor")


def test_the_words_that_are_known_are_those_of_all_sources(store: Store) -> None:
    """What is asked where words are no mention; a source that was removed is still known."""
    asked: dict[str, set[str]] = {}

    def unmarked(source: str, split: str | None, known: Callable[[], Iterator[Meaning]]) -> None:
        asked[source] = {one.folded for one in known()}

    learn(store, "notes", [ONE])
    store.ingest(job("mails", links_to=("x",)), [document("3", ("cold", (B,)))])
    store.remove_kb("notes")
    store.learn({"mails": ""}, unmarked)
    assert asked == {"mails": {"tumours", "tumor", "pain", "cold"}}
    assert [one.source for one in store.learnt()] == ["mails", "notes"]
    assert told(store, "tumor")["tumours", A] == 1


def test_what_another_process_learns_meanwhile_is_not_lost(store: Store) -> None:
    for name in ("notes", "mails"):
        store.ingest(job(name, links_to=("x",)), [document(name, (name, (A,)))])

    def unmarked(source: str, split: str | None, known: Callable[[], Iterator[Meaning]]) -> None:
        if "mails" not in store.memory_sources():
            store.learn({"mails": ""})

    store.learn({"notes": ""}, unmarked)
    assert store.memory_sources() == {"mails": 1, "notes": 1}
    assert told(store, "note", "mail")["mails", A] == 1


def test_learning_that_is_stopped_leaves_memory_as_it_was(store: Store) -> None:
    learn(store, "notes", [ONE])
    before = [*store.all_meanings()]

    def stop(source: str, split: str | None, known: Callable[[], Iterator[Meaning]]) -> None:
        raise InterruptedError

    store.ingest(job("mails", links_to=("x",)), [TWO])
    with pytest.raises(InterruptedError):
        store.learn({"mails": ""}, stop)
    store.ingest(job("mails", links_to=("x",)), [document("4", ("cold", None))])
    with pytest.raises(UsageError, match="'mails' says of no mention what it means"):
        store.learn({"mails": ""})
    assert [*store.all_meanings()] == before
    assert store.memory_sources() == {"notes": 3}


def test_the_split_that_was_named_is_counted_again(store: Store) -> None:
    parts = [replace(ONE, split="dev"), replace(TWO, split="train")]
    store.ingest(job("notes", links_to=("x",)), parts)
    store.ingest(job("mails", links_to=("x",)), [document("4", ("cold", (A,)))])
    store.learn({"notes": "dev"})
    store.learn({"mails": ""})
    assert store.memory_sources() == {"mails": 1, "notes": 3}
    store.learn({"notes": ""})  # train, which there is
    assert store.memory_sources() == {"mails": 1, "notes": 1}


KILLED = """
import os, sys
from kglink.store import Store
with Store.open(sys.argv[1]) as store:
    store.learn({"mails": ""}, lambda *_, **__: os.kill(os.getpid(), 9))
"""


def test_a_kill_while_it_learns_leaves_what_was_known(store: Store, tmp_path: Path) -> None:
    learn(store, "notes", [ONE])
    store.ingest(job("mails", links_to=("x",)), [TWO])
    before = [*store.all_meanings()]
    url = f"sqlite:///{tmp_path / 'kglink.db'}"
    assert subprocess.run([sys.executable, "-c", KILLED, url], check=False).returncode == -9
    assert [*store.all_meanings()] == before
    store.learn({"mails": ""})
    assert set(store.memory_sources()) == {"mails", "notes"}


@pytest.mark.slow
def test_a_million_distinct_surfaces_take_little_memory(tmp_path: Path) -> None:
    """They are added up and sorted on disk, of which caches hold 64 MiB each, three at most."""
    child = Path(__file__).parent.parent / "support" / "memory_child.py"
    ran = subprocess.run(
        [sys.executable, child, f"sqlite:///{tmp_path / 'kglink.db'}", "1000000"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after, learnt, told, told_all = json.loads(ran.stdout)
    assert (learnt, told, told_all) == (1_000_000, ["all"], 1_000_000)
    assert after - before < 300
