"""Mentions of what no KB has, put together by their names."""

from __future__ import annotations

import time

import numpy as np
import pytest

from kglink.linking.discovery import (
    Discovery,
    discoveries,
    sentence_of,
    unknown_mentions,
    whole_names,
)
from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink.text.fold import fold

HARBOUR = EntityId("places", "harbour")


def encode(names: list[str]) -> np.ndarray:
    """A vector by the letters of a name: names of the same words are near."""
    vectors = np.zeros((len(names), 26), np.float32)
    for at, name in enumerate(names):
        for letter in name:
            if letter.isalpha() and letter.isascii():
                vectors[at, ord(letter) - ord("a")] += 1
    return vectors


def linked(name: str, text: str, *surfaces: str, confidence: float = 0.9) -> LinkedDocument:
    near = Candidate(HARBOUR, "Harbour", 0.2, type="place")
    links = []
    for surface in surfaces:
        start = text.index(surface)
        end = start + len(surface)
        links.append(Link(start, end, surface, (near,), None, confidence))
    return LinkedDocument(name, text, tuple(links))


def found(*documents: LinkedDocument, known: dict[str, str] | None = None) -> list[Discovery]:
    unknown = [one for document in documents for one in unknown_mentions(document, 0.5)]
    return discoveries(unknown, encode, known or {})


ONE = linked("1", "Alwyn Teague came. Then Teague left.", "Alwyn Teague")
TEXT = "The Bay Boat Society (BBS) sails. A BBS boat is here."


def test_short_forms_and_last_names_are_of_the_whole_name() -> None:
    first = linked("1", "Alwyn Teague came, and Mr. Orr. Later Teague left.", "Alwyn Teague")
    teague = Link(38, 44, "Teague", (), None, 0.7)
    both = LinkedDocument("1", first.text, (*first.links, teague))
    boats = linked("2", TEXT, "Bay Boat Society", "BBS")
    elsewhere = linked("3", "No BBS today, said Teague.", "BBS", "Teague")
    one, other = found(both, boats, elsewhere)
    assert (one.title, one.mentions, one.documents) == ("Alwyn Teague", 3, 2)
    assert one.names == ("Alwyn Teague", "Teague")
    assert one.confidence == pytest.approx((0.9 + 0.7 + 0.9) / 3)
    assert (other.title, set(other.names)) == ("Bay Boat Society", {"Bay Boat Society", "BBS"})
    assert [example.sentence for example in one.examples] == [
        "Alwyn Teague came, and Mr. Orr.",
        "Later Teague left.",
        "No BBS today, said Teague.",
    ]
    assert one.type == "place"
    assert one.nearest == ((HARBOUR, "Harbour"),)


def test_only_what_no_kb_has_more_probably_than_not_is_found() -> None:
    assert found(linked("1", "Alwyn Teague came.", "Alwyn Teague", confidence=0.49)) == []
    assert found() == []
    (single,) = found(linked("1", "Alwyn Teague came.", "Alwyn Teague"))
    assert single.mentions == 1


def test_a_common_noun_is_not_the_last_word_of_a_name() -> None:
    assert whole_names(["cancer", "breast cancer"]) == {}
    assert whole_names(["Teague", "Alwyn Teague", "Owen Teague"]) == {}
    assert whole_names(["Teague", "Alwyn Teague"]) == {"Teague": "Alwyn Teague"}


def test_an_id_stays_while_a_name_does() -> None:
    (before,) = found(linked("1", "Alwyn Teague came.", "Alwyn Teague"))
    ids = {fold(name): before.id for name in before.names}
    texts = [f"Dr Alwyn Teague saw {number}." for number in range(3)]
    more = [linked(str(at), text, "Dr Alwyn Teague") for at, text in enumerate(texts)]
    (after,) = found(linked("9", "Alwyn Teague came.", "Alwyn Teague"), *more, known=ids)
    assert after.title == "Dr Alwyn Teague"
    assert after.id == before.id
    (again,) = found(linked("9", "Alwyn Teague came.", "Alwyn Teague"))
    assert again.id == before.id, "made of the title, on every machine"


def test_two_things_have_two_ids() -> None:
    short = linked("1", "CRPC came.", "CRPC")
    long = linked("2", "The Carrick Roads Passage Company came.", "Carrick Roads Passage Company")
    (both,) = found(linked("0", TEXT, "Bay Boat Society", "BBS"))
    known = {fold(name): both.id for name in ("CRPC", "Carrick Roads Passage Company")}
    ids = [one.id for one in found(short, long, known=known)]
    assert len({*ids}) == 2
    # Also where the id that the name makes is the other's.
    (made,) = found(long)
    known = {"crpc": made.id, fold("Carrick Roads Passage Company"): made.id}
    assert len({one.id for one in found(short, short, long, known=known)}) == 2


def test_names_of_a_directory_are_put_together_in_time_with_their_number() -> None:
    names = [f"Anna{number} Orr{number}" for number in range(20_000)]
    began = time.process_time()
    assert whole_names({*names, "Orr7"}) == {"Orr7": "Anna7 Orr7"}
    assert time.process_time() - began < 2


def test_the_order_of_texts_changes_nothing() -> None:
    texts = [linked("1", TEXT, "Bay Boat Society"), linked("2", "No Orr came.", "Orr"), ONE]
    assert found(*texts) == found(*reversed(texts))


def test_a_sentence_is_that_of_the_mention() -> None:
    text = 'He said so. "Alwyn Teague is here!" Then 3.5 metres of rope\nand more.'
    start = text.index("Alwyn")
    assert sentence_of(text, start, start + 5) == '"Alwyn Teague is here!'
    start = text.index("rope")
    assert sentence_of(text, start, start + 4) == "Then 3.5 metres of rope"
    long = "word " * 500
    assert len(sentence_of(long, 1000, 1004)) <= 300


def test_a_text_without_ends_of_sentences_is_read_near_its_mentions() -> None:
    text = "Zogul of blah, " * 200_000
    began = time.process_time()
    for start in range(0, 15 * 2_000, 15):
        assert sentence_of(text, start, start + 5).count("Zogul") >= 10
    assert time.process_time() - began < 5
