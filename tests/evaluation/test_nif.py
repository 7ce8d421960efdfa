"""NIF: what is written is read back to the character, and files that are wrong are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rdflib import Graph, URIRef

from annotated_texts import ADA, FIRST, TEXTS, read_file
from kglink.errors import KglinkError, SourceError
from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.measures.end_to_end import Answer
from kglink.records import Candidate, Document, Entity, EntityId, Link, LinkedDocument, Mention
from kglink.sources import Problems, Source
from kglink_kbs.nif import (
    ITSRDF,
    NIF,
    PREFIXES,
    NifAdapter,
    NifSettings,
    Phrase,
    entity_iri,
    gold_phrases,
    linked_phrases,
    nif_text,
)

CHARACTERS = some.characters(codec="utf-8", exclude_characters="\0")
WORDS = some.text(CHARACTERS, min_size=1, max_size=8)


@settings(deadline=None)
@given(some.text(CHARACTERS, min_size=1, max_size=30), WORDS, WORDS, WORDS, some.data())
def test_any_text_is_read_back_to_the_character(
    text: str,
    name: str,
    kb: str,
    key: str,
    draws: some.DataObject,
) -> None:
    start = draws.draw(some.integers(0, len(text) - 1))
    end = draws.draw(some.integers(start + 1, len(text)))
    entity = EntityId(kb, key)
    phrases = [
        Phrase(start, end, (entity_iri(entity),), 0.25, entity),
        *([Phrase(0, len(text))] if (start, end) != (0, len(text)) else []),
    ]
    (found,) = read(PREFIXES + nif_text(name, text, phrases))
    assert (found.id, found.text) == (name, text)
    assert list(found.mentions) == sorted(
        (
            Mention(start, end, text[start:end], (entity,), confidence=0.25),
            *([Mention(0, len(text), text)] if (start, end) != (0, len(text)) else []),
        ),
        key=lambda one: (one.start, one.end),
    )


def read(turtle: str) -> list[Document]:
    with Source.from_bytes(turtle.encode(), name="p.ttl") as source:
        records = NifAdapter(NifSettings()).read(source, Problems("stop"))
        return [one for one in records if isinstance(one, Document)]


def test_what_stands_in_a_file() -> None:
    linked = LinkedDocument(
        "1",
        FIRST,
        (
            Link(10, 13, "Bob", (), None, 0.5, cluster="new"),
            Link(0, 3, "Ada", (), Candidate(ADA, "Ada", 1.0, url="https://a.example/a b"), 0.9),
        ),
    )
    graph = Graph().parse(data=PREFIXES + nif_text("1", FIRST, linked_phrases(linked)))
    context = URIRef("urn:kglink:text:1#offset_0_14")
    ada, bob = (URIRef(f"urn:kglink:text:1#offset_{place}_mention") for place in ("0_3", "10_13"))
    assert str(graph.value(context, URIRef(f"{NIF}isString"))) == FIRST
    assert str(graph.value(ada, URIRef(f"{NIF}beginIndex"))) == "0"
    assert graph.value(bob, URIRef(f"{NIF}referenceContext")) == context
    said = {
        name: str(graph.value(ada, URIRef(f"{ITSRDF}{name}")))
        for name in ("taIdentRef", "taSource", "taIdent")
    }
    assert said == {
        "taIdentRef": "https://a.example/a%20b",
        "taSource": "a",
        "taIdent": "1",
    }
    assert float(str(graph.value(ada, URIRef(f"{ITSRDF}taConfidence")))) == 0.9
    assert str(graph.value(bob, URIRef(f"{ITSRDF}taIdentRef"))) == "urn:kglink:nil:new"
    assert graph.value(bob, URIRef(f"{ITSRDF}taIdent")) is None


def test_golds_nil_and_unknown_meanings() -> None:
    mentions = (
        Mention(0, 3, "Ada", (ADA, EntityId("b", "x y"))),
        Mention(4, 7, "met", None),
        Mention(10, 13, "Bob", ()),
    )
    known = {ADA: Entity("1", "Ada", url="https://a.example/1")}
    phrases = list(gold_phrases(Document("1", FIRST, mentions), known))
    assert phrases == [
        Phrase(0, 3, ("https://a.example/1", "urn:kglink:entity:b:x%20y")),
        Phrase(4, 7),
        Phrase(10, 13, ("urn:kglink:nil:",)),
    ]


# ------------------------------------------------------------------------------ as predictions
def written(tmp_path: Path, *blocks: str) -> Path:
    path = tmp_path / "p.ttl"
    path.write_text(PREFIXES + "".join(blocks), "utf-8", newline="")
    return path


def others(*skip: int) -> Iterator[str]:
    """Contexts of the texts but some, in which nothing was found."""
    for at, text in enumerate(TEXTS):
        if at not in skip:
            yield nif_text(text.id, text.text, [])


def ours(*phrases: Phrase) -> list[str]:
    return [nif_text("another name", FIRST, phrases), *others(0)]


def test_answers_are_read_by_the_text(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        *ours(
            Phrase(0, 3, ("http://nobody.example/ada", "https://a.example/1"), 0.5),
            Phrase(4, 7, ("urn:kglink:nil:new",)),
            Phrase(8, 9, ("http://aksw.org/notInWiki/wave",)),
            Phrase(10, 13, ("https://nowhere.example/",), None, EntityId("b", "7")),
        ),
    )
    assert read_file(path) == [
        [
            Answer(0, 3, ADA, 0.5),
            Answer(4, 7, None, cluster="new"),
            Answer(8, 9, None),
            Answer(10, 13, EntityId("b", "7")),
        ],
        [],
        [],
    ]


def test_contexts_of_one_text_are_united(tmp_path: Path) -> None:
    blocks = [
        nif_text("left", FIRST, [Phrase(0, 3, (entity_iri(ADA),))]),
        nif_text("right", FIRST, [Phrase(0, 3), Phrase(10, 13)]),
        *others(0),
    ]
    assert read_file(written(tmp_path, *blocks))[0] == [Answer(0, 3, ADA), Answer(10, 13, None)]


def test_other_tools_turtle_is_read(tmp_path: Path) -> None:
    """As pynif and GERBIL write it: other prefixes, other names, numbers as they come."""
    text = f"""
@prefix n: <{NIF}> .
<http://t.example/1#char=0,9>
  a n:Context, n:RFC5147String ; n:isString '''Ada left.''' .
<http://t.example/1#char=0,3> a n:RFC5147String, n:Phrase ; n:beginIndex 0 ; n:endIndex "3" ;
  n:referenceContext <http://t.example/1#char=0,9> ; n:anchorOf "Ada"@en ;
  <{ITSRDF}taIdentRef> <https://a.example/1> ; <{ITSRDF}taConfidence> 0.75 .
<http://t.example/1#char=4,8> a n:Word ; n:beginIndex 4 ; n:endIndex 8 ;
  n:referenceContext <http://t.example/1#char=0,9> .
"""
    path = written(tmp_path, text, *others(1))
    assert read_file(path)[1] == [Answer(0, 3, ADA, 0.75)]


OWN = entity_iri(ADA)
ONE = "".join(ours(Phrase(0, 3, (OWN,), 0.5)))


@pytest.mark.parametrize(
    ("turtle", "told"),
    [
        (ONE[: len(ONE) // 2], "is not valid Turtle"),
        (ONE[: ONE.index("nif:isString")], "is not valid Turtle"),
        ("[" * 5000, "is not valid Turtle"),
        ("<a> <b> <c> .", "no context in"),
        ("".join(others(0)), "1 of 3 texts are not in it: '1'"),
        (ONE.replace("Nothing.", "Another."), "the text of '3' is another"),
        (ONE.replace("Nothing.", "Another.").replace(":text:3", ":text:x"), "the id 'x', or its"),
        (ONE.replace('"3"^^xsd:', '"99"^^xsd:'), "the span 0..99 does not lie in the text"),
        (ONE.replace('nif:beginIndex "0"', 'nif:beginIndex "-1"'), "start is the text '-1'"),
        (ONE.replace('  nif:endIndex "3"^^xsd:nonNegativeInteger ;\n', ""), "end is the text ''"),
        (
            ONE.replace('anchorOf "Ada"', 'anchorOf "Bob"'),
            "'Bob' is given, 'Ada' stands at 0..3",
        ),
        (ONE.replace("0.500000", "NaN"), "the confidence 'nan' is no number from 0 to 1"),
        (ONE.replace("0.500000", "1.5"), "the confidence '1.5' is no number"),
        (ONE.replace("0.500000", "high"), "the confidence 'high' is no number"),
        (ONE.replace(OWN, "urn:kglink:entity:c:1"), "'c:1' is of 'c', and there is no such KB"),
        (ONE.replace(OWN, "urn:kglink:entity:a:ada"), "no KB has 1 of the entities"),
        (
            ONE.replace(OWN, "http://x.example/"),
            "no entity has the key, code, title or address http://x.example/",
        ),
        (ONE.replace(OWN, "https://b.example/"), "names several entities: a:1, b:1"),
        (ONE.replace("nif:anchorOf", 'nif:endIndex "4" ; nif:anchorOf'), "more than one end"),
        (ONE.replace("referenceContext <", "referenceContext <x"), "in no nif:referenceContext"),
        (ONE.replace('isString "Ada', 'isString "x", "Ada'), "more than one text"),
        (
            ONE + ONE.split("\n", 5)[5].split("\n\n")[0].replace("_mention>", "_again>"),
            "has 2 answers at 0 to 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, turtle: str, told: str) -> None:
    with pytest.raises(KglinkError) as refused:
        read_file(written(tmp_path, turtle))
    assert told in refused.value.message
    assert "p.ttl" in refused.value.message
    assert refused.value.hint


def test_other_encodings_and_packed_files_that_were_cut(tmp_path: Path) -> None:
    path = tmp_path / "p.ttl"
    path.write_bytes((PREFIXES + ONE).encode("utf-16-le"))
    with pytest.raises(SourceError):
        read_file(path)
    path.write_bytes((PREFIXES + ONE).encode().replace("🌊".encode(), b"\xff"))
    with pytest.raises(KglinkError, match="UTF-8"):
        read_file(path)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="empty"):
        read_file(path)


def test_offsets_of_utf_16_are_seen(tmp_path: Path) -> None:
    # The wave counts twice there, so that Bob is said to stand one later.
    shifted = "".join(ours(Phrase(10, 13))).replace('"10"', '"11"').replace('"13"^', '"14"^')
    with pytest.raises(KglinkError, match=r"'Bob' is given, 'ob\.' stands at 11..14"):
        read_file(written(tmp_path, shifted))


def test_a_text_of_two_sources_is_ambiguous(tmp_path: Path) -> None:
    texts = [AnnotatedText(docs, ("1",), "Same.", ()) for docs in ("left", "right")]
    with pytest.raises(KglinkError, match="stands in left and in right"):
        read_file(written(tmp_path, nif_text("1", "Same.", [])), texts)
