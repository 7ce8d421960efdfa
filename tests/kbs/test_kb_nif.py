"""The adapter ``kglink/nif``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_checks import claimants
from kglink.errors import RecordError
from kglink.records import Document, Entity, EntityId, Mention
from kglink.sources import Problems, Source
from kglink.testing import KBAdapterContract
from kglink.workspace import Workspace
from kglink_kbs.nif import NIF, PREFIXES, NifAdapter, NifSettings, gold_phrases, nif_text

#: A sentence of the OKE challenge of 2015, as its training set has it.
OKE = """@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix itsrdf: <http://www.w3.org/2005/11/its/rdf#> .
@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .

<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/sentence-1#char=0,146>
        a                     nif:RFC5147String , nif:String , nif:Context ;
        nif:beginIndex        "0"^^xsd:nonNegativeInteger ;
        nif:endIndex          "146"^^xsd:nonNegativeInteger ;
        nif:isString          "Florence May Harding studied at a school in Sydney, and with \
Douglas Robert Dundas , but in effect had no formal training in either botany or art."@en .

<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/sentence-1#char=0,20>
        a                     nif:RFC5147String , nif:String ;
        nif:anchorOf          "Florence May Harding"@en ;
        nif:beginIndex        "0"^^xsd:nonNegativeInteger ;
        nif:endIndex          "20"^^xsd:nonNegativeInteger ;
        nif:referenceContext  \
<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/sentence-1#char=0,146> ;
        itsrdf:taIdentRef     \
<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/Florence_May_Harding> .

<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/sentence-1#char=44,50>
        a                     nif:RFC5147String , nif:String ;
        nif:anchorOf          "Sydney"@en ;
        nif:beginIndex        "44"^^xsd:nonNegativeInteger ;
        nif:endIndex          "50"^^xsd:nonNegativeInteger ;
        nif:referenceContext  \
<http://www.ontologydesignpatterns.org/data/oke-challenge/task-1/sentence-1#char=0,146> ;
        itsrdf:taIdentRef     <http://dbpedia.org/resource/Sydney> .

<http://dbpedia.org/resource/Sydney>
        a              owl:Individual , <http://dbpedia.org/ontology/City> ;
        rdfs:label     "Sydney"@en .
"""
_TASK = "http://www.ontologydesignpatterns.org/data/oke-challenge/task-1"
TEXT = (
    "Florence May Harding studied at a school in Sydney, and with Douglas Robert Dundas , but in "
    "effect had no formal training in either botany or art."
)
SYDNEY = EntityId("", "http://dbpedia.org/resource/Sydney")


class TestNif(KBAdapterContract):
    plugin = "kglink/nif"
    source_name = "corpus.ttl"
    source_text = OKE
    expected = (
        Document(
            f"{_TASK}/sentence-1",
            TEXT,
            (
                Mention(
                    *(0, 20, "Florence May Harding"),
                    (EntityId("", f"{_TASK}/Florence_May_Harding"),),
                ),
                Mention(44, 50, "Sydney", (SYDNEY,)),
            ),
        ),
    )
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        OKE.replace('"50"', '"500"'),
        OKE.replace('"Sydney"@en ;\n        nif', '"Perth"@en ;\n        nif'),
        OKE[: OKE.index("nif:isString")],
        OKE.replace("isString", "isText"),
    )


def test_the_file_is_taken_for_no_thesaurus(tmp_path: Path) -> None:
    path = tmp_path / "oke.ttl"
    path.write_text(OKE, "utf-8")
    with Source.open_path(path) as source:
        assert claimants(source.head)[0] == "kglink/nif"


def test_a_bad_phrase_is_passed_over_and_counted() -> None:
    problems = Problems("skip")
    bad = OKE.replace('"50"', '"49"')
    with Source.from_bytes(bad.encode(), name="oke.ttl") as source:
        (document,) = NifAdapter(NifSettings()).read(source, problems)
    assert isinstance(document, Document)
    assert [one.surface for one in document.mentions] == ["Florence May Harding"]
    assert problems.total == 1
    with (
        pytest.raises(RecordError, match=r"'Sydney' is given, 'Sydne' stands at 44\.\.49"),
        Source.from_bytes(bad.encode(), name="oke.ttl") as source,
    ):
        list(NifAdapter(NifSettings()).read(source, Problems("stop")))


def test_n_triples_say_the_same() -> None:
    lines = [
        f'<urn:x#char=0,3> <{NIF}isString> "Ada" .',
        f"<urn:x#char=0,2> <{NIF}referenceContext> <urn:x#char=0,3> .",
        f'<urn:x#char=0,2> <{NIF}beginIndex> "0" .',
        f'<urn:x#char=0,2> <{NIF}endIndex> "2" .',
        f"<urn:x#char=0,2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{NIF}Phrase> .",
    ]
    with Source.from_bytes("\n".join(lines).encode(), name="x.nt") as source:
        found = list(NifAdapter(NifSettings()).read(source, Problems("stop")))
    assert found == [Document("urn:x", "Ada", (Mention(0, 2, "Ad"),))]


def test_golds_are_found_by_the_address_of_an_entity(tmp_path: Path) -> None:
    path = tmp_path / "oke.ttl"
    path.write_text(OKE, "utf-8")
    with Workspace.open(tmp_path / "workspace", create=True) as workspace:
        workspace.add_kb("cities", [Entity("Q3130", "Sydney", url=SYDNEY.key)])
        added = workspace.add_kb("oke", path, links_to="cities")
        (document,) = workspace.store.documents("oke")
        golds = [one.gold for one in document.mentions]
    assert added.adapter == "kglink/nif"
    assert golds == [None, (EntityId("cities", "Q3130"),)]
    assert added.summary.gold_unresolved == 1


def test_a_place_that_is_annotated_twice_is_written_twice(tmp_path: Path) -> None:
    hera = EntityId("gods", "G2")
    golds = (hera,), (), None
    mentions = tuple(Mention(0, 4, "Hera", gold) for gold in golds)
    written = PREFIXES + nif_text("1", "Hera met.", gold_phrases(Document("1", "", mentions), {}))
    with Source.from_bytes(written.encode(), name="x.ttl") as source:
        (document,) = NifAdapter(NifSettings()).read(source, Problems("stop"))
    assert isinstance(document, Document)
    assert sorted(map(str, (one.gold for one in document.mentions))) == sorted(map(str, golds))


@pytest.mark.parametrize("name", ["http://ex.org/a%20b?c=1", "http://ex.org/a b", "a/b%20c", "#"])
def test_a_text_keeps_its_name(name: str) -> None:
    written = PREFIXES + nif_text(name, "A heron.", ())
    with Source.from_bytes(written.encode(), name="a.ttl") as source:
        (found,) = NifAdapter(NifSettings(syntax="turtle")).read(source, Problems("stop"))
    assert isinstance(found, Document)
    assert found.id == name
    assert (f"<{name}#offset_0_8>" in written) == (name == "http://ex.org/a%20b?c=1")
