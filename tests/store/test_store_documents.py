"""Documents, their mentions, and the entities that their golds mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kglink.errors import RecordError
from kglink.records import Document, EntityId, Mention
from kglink.store import Store
from store_support import entity, job

pytest_plugins = ["store_fixtures"]

TEXT = "A 👩‍🚀 met\r\nÉmile."
EMILE = TEXT.index("Émile")


def mention(*gold: str | EntityId) -> Mention:
    """A mention of Émile with gold as adapters give it."""
    ids = tuple(EntityId.parse(g) if isinstance(g, str) else g for g in gold)
    return Mention(EMILE, EMILE + 5, "Émile", ids)


def golds(store: Store, kb: str = "docs") -> list[tuple[EntityId, ...] | None]:
    """The golds of all mentions of a KB."""
    return [found.gold for document in store.documents(kb) for found in document.mentions]


@pytest.fixture
def linked(store: Store) -> Store:
    """A store of two KBs with one key in common."""
    store.ingest(job("doid"), [entity("DOID:1"), entity("7"), entity("doid:2")])
    store.ingest(job("hp"), [entity("HP:1"), entity("7")])
    return store


def resolved(store: Store, *documents: Document, **given: Any) -> list[object]:
    """The golds after an ingest, and how many are unresolved."""
    summary = store.ingest(job("docs", **given), documents)
    return [*golds(store), summary.gold_unresolved]


# ------------------------------------------------------------------------------------ round trip
def test_a_document_comes_back_whole(linked: Store) -> None:
    whole = Document(
        id="PMID:1/ü",
        text=TEXT,
        title="A title",
        split="dev",
        mentions=(
            Mention(EMILE, EMILE + 5, "Émile", (EntityId("hp", "HP:1"),), "person", "curated"),
            Mention(2, 5, "👩‍🚀", (), quality="guessed"),
            Mention(0, 1, "A", None),
            Mention(EMILE, EMILE + 5, "Émile", (EntityId("hp", "7"), EntityId("doid", "7"))),
        ),
    )
    summary = linked.ingest(job("docs"), [whole])
    assert list(linked.documents("docs")) == [whole]
    assert (summary.documents, summary.mentions, summary.gold_unresolved) == (1, 4, 0)
    assert str(summary) == "documents +1 ~0 -0 =0"
    info = linked.kb("docs")
    assert (info.entities, info.documents, info.mentions) == (0, 1, 4)


def test_the_mentions_of_an_entity_are_shown_in_their_texts(linked: Store) -> None:
    text = "x" * 90 + TEXT + "y" * 90
    at = 90 + EMILE
    meant = Mention(at, at + 5, "Émile", (EntityId("hp", "7"),))
    linked.ingest(
        job("docs"), [Document("1", text, (meant,)), Document("2", TEXT, (mention("hp:7"),))]
    )
    found = linked.mentions_of(EntityId("hp", "7"), 10)
    assert (found.mentions, found.documents) == (2, 2)
    shown = [(one.document, one.left, one.surface, one.right) for one in found.examples]
    assert shown == [
        ("1", text[at - 60 : at], "Émile", text[at + 5 : at + 65]),
        ("2", TEXT[:EMILE], "Émile", "."),
    ]


def test_documents_are_filtered_by_kb_and_split(store: Store) -> None:
    texts = [Document(f"{n:03}", "text", split="train" if n % 2 else "") for n in range(200)]
    store.ingest(job("b", split="test"), texts)
    store.ingest(job("a"), [Document("x", "text", split="dev")])
    assert [found.id for found in store.documents("b", "train")] == [d.id for d in texts[1::2]]
    assert [found.id for found in store.documents("b", "test")] == [d.id for d in texts[::2]]
    assert [found.id for found in store.documents(split="dev")] == ["x"]
    assert [found.id for found in store.documents()] == [d.id for d in texts] + ["x"]
    assert list(store.documents("a", "train")) == []


def test_an_update_of_documents(store: Store) -> None:
    first = [Document("same", TEXT), Document("changed", TEXT, (mention("x"),)), Document("go", "")]
    store.ingest(job(), [*first, entity("1")])
    second = [Document("same", TEXT), Document("changed", TEXT, (mention(),)), Document("new", "")]
    summary = store.ingest(job(fingerprint="2"), [*second, entity("1")])
    assert str(summary) == "+0 ~0 -0 =1, documents +1 ~1 -1 =1"
    assert golds(store, "kb") == [()]
    assert summary.mentions == 1


def test_a_source_of_one_kind_leaves_the_other_alone(store: Store) -> None:
    store.ingest(job(), [entity("1"), Document("d", TEXT)])
    assert str(store.ingest(job(fingerprint="2"), [Document("e", TEXT)])) == (
        "documents +1 ~0 -1 =0"
    )
    assert str(store.ingest(job(fingerprint="3"), [entity("2")])) == "+1 ~0 -1 =0"
    info = store.kb("kb")
    assert (info.entities, info.documents) == (1, 1)


# ------------------------------------------------------------------------------------------ gold
def test_nil_and_unknown_are_two_things(linked: Store) -> None:
    unsaid = replace(mention(), gold=None)
    document = Document("d", TEXT, (unsaid, mention()))
    assert resolved(linked, document) == [None, (), 0]


@pytest.mark.parametrize(
    ("gold", "links_to", "means"),
    [
        ("doid:7", (), [("doid", "7")]),
        ("7", ("hp",), [("hp", "7")]),
        ("7", ("hp", "doid"), [("doid", "7"), ("hp", "7")]),
        ("DOID:1", ("hp", "doid"), [("doid", "DOID:1")]),
        ("doid:DOID:1", ("hp",), [("doid", "DOID:1")]),
        ("doid:2", ("doid",), None),  # doid is a KB here: this is its key "2"
        ("DOID:1", ("hp",), None),
        ("DOID:1", (), None),
        ("hp:none", ("hp",), None),
        ("none", ("hp",), None),
    ],
)
def test_what_a_gold_means(
    linked: Store, gold: str, links_to: tuple[str, ...], means: list[tuple[str, str]] | None
) -> None:
    found = resolved(linked, Document("d", TEXT, (mention(gold),)), links_to=links_to)
    expected = None if means is None else tuple(EntityId(*name) for name in means)
    assert found == [expected, int(means is None)]


def test_a_partly_resolved_gold_keeps_what_was_found(linked: Store) -> None:
    document = Document("d", TEXT, (mention("none", "hp:7", "hp:7", "hp:none"),))
    assert resolved(linked, document, links_to=("doid",)) == [(EntityId("hp", "7"),), 2]


def test_a_few_golds_that_were_not_found_are_named(linked: Store) -> None:
    missing = ("none", "none", "hp:none", "A title", "HP:9")
    documents = [Document(f"{n}", TEXT, (mention(gold),)) for n, gold in enumerate(missing)]
    summary = linked.ingest(job("docs", links_to=("doid",)), [*documents])
    assert summary.gold_unresolved == 5
    assert summary.unresolved_examples == ("none", "hp:none", "A title")


def test_documents_may_stand_before_the_entities_they_name(store: Store) -> None:
    summary = store.ingest(
        job(batch_size=1), [Document("d", TEXT, (mention("1"),)), entity("1"), entity("2")]
    )
    assert summary.gold_unresolved == 0
    assert golds(store, "kb") == [(EntityId("kb", "1"),)]


def test_more_open_golds_than_a_page(linked: Store) -> None:
    documents = [Document(f"{n:04}", TEXT, (mention("7"), mention(f"no{n}"))) for n in range(1300)]
    *found, unresolved = resolved(linked, *documents, links_to=("hp",))
    assert found == [(EntityId("hp", "7"),), None] * 1300
    assert unresolved == 1300


def test_a_gold_goes_and_comes_back_with_its_entity(linked: Store) -> None:
    linked.ingest(job("docs"), [Document("d", TEXT, (mention("hp:7"),))])
    linked.ingest(job("hp", fingerprint="2"), [entity("HP:1")])
    assert golds(linked) == [None]
    linked.ingest(job("hp", fingerprint="3"), [entity("7")])
    assert golds(linked) == [(EntityId("hp", "7"),)]
    linked.remove_kb("hp")
    assert golds(linked) == [None]


def test_reading_the_documents_again_finds_entities_that_came_later(linked: Store) -> None:
    document = Document("d", TEXT, (mention("HP:9"),))
    assert resolved(linked, document, links_to=("hp",)) == [None, 1]
    linked.ingest(job("hp", fingerprint="2"), [entity("HP:9")])
    assert resolved(linked, document, links_to=("hp",)) == [(EntityId("hp", "HP:9"),), 0]


def test_documents_read_again_mean_what_they_would_if_they_were_new(linked: Store) -> None:
    document, other = Document("d", TEXT, (mention("7"),)), Document("e", TEXT, (mention("HP:1"),))
    seven = [EntityId("doid", "7"), EntityId("hp", "7")]

    def again(*links_to: str) -> list[object]:
        return resolved(linked, document, other, links_to=links_to)

    assert again("hp") == [(seven[1],), (EntityId("hp", "HP:1"),), 0]
    assert again("doid", "hp") == [tuple(seven), (EntityId("hp", "HP:1"),), 0]
    assert linked.kb("docs").revision == 2
    assert again("doid") == [(seven[0],), None, 1]
    linked.ingest(job("doid", fingerprint="2"), [entity("7"), entity("HP:1")])
    assert again("doid", "hp")[1] == (EntityId("doid", "HP:1"), EntityId("hp", "HP:1"))
    assert again("doid", "hp")[2] == 0
    assert linked.kb("docs").revision == 4


# ------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (Document("", TEXT), "without an id"),
        (Document("x" * 513, TEXT), "more than 512"),
        (Document("d", "\ud800"), "surrogate"),
        (Document("d", "a\0b"), "NUL"),
        (Document("d", TEXT, (Mention(0, 99, TEXT),)), "outside"),
        (Document("d", TEXT, (Mention(3, 3, ""),)), "outside"),
        (Document("d", TEXT, (Mention(-1, 1, "A"),)), "outside"),
        (Document("d", TEXT, (Mention(0, 1, "B"),)), "do not hold its surface"),
    ],
)
def test_a_bad_document_stops_or_is_skipped(store: Store, bad: Document, what: str) -> None:
    good = Document("good", TEXT)
    with pytest.raises(RecordError, match="record 2 .*" + what):
        store.ingest(job(), [good, bad])
    assert store.kbs() == []
    assert store.ingest(job(on_error="skip"), [good, bad]).documents == 1


def test_a_repeated_document_names_both_records(store: Store) -> None:
    texts = [Document("d", "one"), Document("e", "two"), Document("d", "three")]
    with pytest.raises(RecordError, match=r"record 3 \('d'\).*\n.*Record 1 "):
        store.ingest(job(batch_size=2), texts)
    assert store.ingest(job(on_error="skip", batch_size=2), texts).documents == 2
    assert [found.text for found in store.documents()] == ["one", "two"]


def test_an_entity_and_a_document_may_share_a_name(store: Store) -> None:
    assert store.ingest(job(), [entity("1"), Document("1", TEXT)]).documents == 1
