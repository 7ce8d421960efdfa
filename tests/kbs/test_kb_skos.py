"""The adapter ``kglink/skos``: every syntax says the same, of vocabularies and of ontologies."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Kglink
from pydantic import ValidationError

from kb_checks import claimants, head_of
from kglink.errors import RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.obo import OboAdapter
from kglink_kbs.ontology import OntologySettings
from kglink_kbs.rdf import syntax_of
from kglink_kbs.skos import SkosSettings, sniff
from skos_texts import (
    EX,
    EXPECTED,
    JSON_LD,
    NTRIPLES,
    RDF_XML,
    SYNTAXES,
    TURTLE,
    XML,
    S,
    adapter,
    read,
    refuse_network,
)

LONG = f"""\
@prefix skos: {S}> .
<{EX}1> skos:prefLabel "one" ; skos:definition '''Line one.
Line two.''' .
"""
SPELT = [("color", "US"), ("colour", "GB")]
_BROKEN_TURTLE = TURTLE.replace('"apple"@en', '"apple@en')


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""
    refuse_network(monkeypatch)


class TestContract(KBAdapterContract):
    plugin = "kglink/skos"
    source_text = TURTLE
    source_name = "fruit.ttl"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "@prefix x: <http://x.example/> .\n",
        _BROKEN_TURTLE,
        XML[:-20],
        JSON_LD[:-20],
        NTRIPLES.replace('"apple"@en .', '"apple@en .'),
        NTRIPLES.replace("apple> ", "apple "),
        TURTLE.replace('"apple"@en', '"app\\u0000le"@en'),
    )


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_every_syntax_says_the_same(syntax: str) -> None:
    text = SYNTAXES[syntax]
    assert syntax_of(head_of(text)) == syntax
    assert sniff(head_of(text)) == 0.9
    assert claimants(head_of(text)) == ["kglink/skos"]
    assert read(text) == EXPECTED
    assert read(text, syntax=syntax) == EXPECTED
    assert read(b"\xef\xbb\xbf" + text.encode()) == EXPECTED
    assert read(text.replace("\n", "\r\n")) == EXPECTED


def test_a_text_over_two_lines_is_the_same_with_the_line_ends_of_windows() -> None:
    assert read(LONG.replace("\n", "\r\n")) == read(LONG)
    assert read(LONG)[0].description == "Line one.\nLine two."


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_languages_in_their_order(syntax: str) -> None:
    german = read(SYNTAXES[syntax], languages="de, en")
    assert [(e.title, e.language) for e in german[:2]] == [("Apfel", "de"), ("fruit", "en")]
    assert [alias.surface for alias in german[0].aliases] == [
        *("apple", "Gravensteiner", "Malus fruit", "M. domestica", "aple"),
    ]
    with pytest.raises(SourceError, match="no concept with a label in sv") as caught:
        read(SYNTAXES[syntax], languages="sv")
    assert "en (2), de (" in caught.value.hint


def test_of_the_english_of_two_countries_the_same_is_the_title_in_any_order() -> None:
    labels = [f'<{EX}c> {S}prefLabel> "{word}"@en-{land} .' for word, land in SPELT]
    titles = [read("\n".join(lines))[0].title for lines in (labels, labels[::-1])]
    assert titles == ["colour", "colour"]


def test_a_definition_follows_the_languages() -> None:
    assert read(TURTLE, languages="de")[0].description == "Ein Kernobst."
    assert [entity.title for entity in read(TURTLE, languages="de")] == ["Apfel", "Birne"]


def test_concepts_without_a_label_in_the_languages_are_told(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "fruit.ttl").write_text(TURTLE, encoding="utf-8")
    told = kglink("add-kb", "obst", tmp_path / "fruit.ttl", "--set", "languages=de").err
    assert "1 x concept without a label in de (--set languages=A,B)" in " ".join(told.split())


def test_keys() -> None:
    assert [entity.key for entity in read(TURTLE, key="local")] == ["apple", "fruit"]
    assert [entity.key for entity in read(TURTLE, key="notation")] == ["A1", "A"]
    without = TURTLE.replace('; skos:notation "A" .', ".")
    with pytest.raises(RecordError, match="a concept without a notation key") as caught:
        read(without, key="notation")
    assert caught.value.where == f"thesaurus.rdf, <{EX}fruit>"
    problems = Problems("skip")
    assert [entity.key for entity in read(without, problems, key="notation")] == ["A1"]
    assert problems.total == 1


def test_the_keys_of_parents_are_those_of_concepts() -> None:
    more = TURTLE.replace("broader x:fruit", "broader x:fruit, <http://y.example/food#F7>, x:fruit")
    assert read(more)[0].parents == (f"{EX}fruit", "http://y.example/food#F7")
    assert read(more, key="local")[0].parents == ("fruit", "F7")
    assert read(more, key="notation")[0].parents == ("A",)  # the other's notation is not known


def test_the_superclasses_of_a_class_are_its_parents() -> None:
    text = """\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix obo: <http://purl.obolibrary.org/obo/> .
obo:DOID_1 a owl:Class ; rdfs:label "one" ;
  rdfs:subClassOf obo:DOID_4, owl:Thing, "DOID_5", [ a owl:Restriction ] .
"""
    assert read(text) == [
        Entity("DOID:1", "one", url="http://purl.obolibrary.org/obo/DOID_1", parents=("DOID:4",))
    ]


def test_mappings_and_prefixes() -> None:
    assert read(TURTLE, matches="close")[0].xrefs == ("FOODON:00002473", "http://y.example/malus")
    assert read(TURTLE, matches="none")[0].xrefs == ()
    assert [e.title for e in read(TURTLE, prefix=f"Y:, {EX}fr")] == ["fruit"]
    with pytest.raises(SourceError, match="holds no concept"):
        read(TURTLE, prefix="Y:")


OWL = """\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix obo: <http://purl.obolibrary.org/obo/> .
@prefix oio: <http://www.geneontology.org/formats/oboInOwl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<http://purl.obolibrary.org/obo/x.owl> a owl:Ontology ; rdfs:label "X" .
obo:X_1 a owl:Class ; rdfs:label "one" ; obo:IAO_0000115 "The first." ; rdfs:comment "no" ;
  oio:hasExactSynonym "single" ; oio:hasDbXref "MESH:D1" ; oio:hasAlternativeId "X:0" ;
  rdfs:subClassOf [ a owl:Restriction ; owl:onProperty obo:R_1 ; owl:someValuesFrom obo:X_2 ] .
obo:X_2 a owl:Class ; rdfs:label "two" ; owl:deprecated "true"^^xsd:boolean .
obo:R_1 a owl:ObjectProperty ; rdfs:label "related to" .
"""


def test_an_ontology_in_owl() -> None:
    assert read(OWL) == [
        Entity(
            key="X:1",
            title="one",
            description="The first.",
            url="http://purl.obolibrary.org/obo/X_1",
            aliases=(Alias("single", "synonym"),),
            xrefs=("MESH:D1", "X:0"),
        )
    ]


OF_TERMS = """\
obo:x.owl oio:default-namespace "plain" .
obo:X_3 a owl:Class ; rdfs:label "three" ; rdfs:comment "Checked by us." ;
  oio:hasOBONamespace "odd" ; rdfs:subClassOf obo:X_1 .
obo:X_1 oio:hasOBONamespace "plain" .
obo:X_2 obo:IAO_0100001 obo:X_1 ; oio:consider "X:3" .
<http://y.example/Y> a owl:Class ; rdfs:label "else" ; rdfs:comment "Seen." .
"""
OBO = """\
default-namespace: plain

[Term]
id: X:1
name: one
def: "The first." []
synonym: "single" EXACT []
xref: MESH:D1
alt_id: X:0
namespace: plain

[Term]
id: X:2
name: two
is_obsolete: true
replaced_by: X:1
consider: X:3

[Term]
id: X:3
name: three
comment: Checked by us.
namespace: odd
is_a: X:1
"""


def test_an_ontology_says_the_same_in_owl_and_in_obo() -> None:
    with Source.from_bytes(OBO.encode()) as source:
        terms = list(OboAdapter(OntologySettings()).read(source, Problems()))
    with Source.from_bytes((OWL + OF_TERMS).encode()) as source:
        *classes, other = adapter().read(source, Problems())
    assert sorted(classes, key=repr) == sorted(terms, key=repr)
    assert isinstance(other, Entity)
    assert other.description == "Seen."


def test_labels_and_definitions_that_are_resources_of_their_own() -> None:
    text = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
<http://x.example/1> a skos:Concept ; xl:prefLabel <http://x.example/l1> ;
  xl:altLabel [ xl:literalForm "uno"@en ] ; skos:definition [ rdf:value "The first."@en ] .
<http://x.example/l1> a xl:Label ; xl:literalForm "one"@en .
"""
    (entity,) = read(text)
    assert (entity.title, entity.description) == ("one", "The first.")
    assert entity.aliases == (Alias("uno", "synonym"),)


@pytest.mark.parametrize("value", ["", " , ", "en;de"])
def test_languages_that_are_none(value: str) -> None:
    if value == "en;de":
        with pytest.raises(SourceError, match="no concept with a label"):
            read(TURTLE, languages=value)
    else:
        with pytest.raises(ValidationError, match="names no language"):
            SkosSettings(languages=value)


def test_a_literal_that_does_not_fit_its_type_is_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = TURTLE.replace('skos:notation "A1"', 'skos:notation "A1"^^xsd:integer')
    assert read(odd, key="notation")[0].key == "A1"
    assert not caplog.records


@pytest.mark.parametrize(
    "data",
    [
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<one> a skos:Concept ; skos:prefLabel "one" ; skos:exactMatch <#two>, </three> .',
        '{"@id": "one", "http://www.w3.org/2004/02/skos/core#prefLabel": "one",'
        ' "http://www.w3.org/2004/02/skos/core#exactMatch": [{"@id": "#two"}, {"@id": "/three"}]}',
        f'{RDF_XML}<skos:Concept rdf:about="one"><skos:prefLabel>one</skos:prefLabel>'
        '<skos:exactMatch rdf:resource="#two"/><skos:exactMatch rdf:resource="/three"/>'
        "</skos:Concept></rdf:RDF>",
    ],
    ids=["turtle", "json-ld", "xml"],
)
def test_relative_addresses_without_a_base_stay_relative(data: str) -> None:
    assert read(data) == [Entity("one", "one", xrefs=("#two", "three"))]


def test_the_very_language_comes_before_its_variants() -> None:
    data = TURTLE.replace('"apple"@en,', '"aeppel"@en-GB, "apple"@en,')
    apple = read(data)[0]
    assert (apple.title, apple.language) == ("apple", "en")
    assert Alias("aeppel", "synonym") in apple.aliases


def test_sniffing() -> None:
    assert sniff(head_of("PREFIX x: <http://x.example/>\nx:a x:b x:c .\n")) == 0.6
    for other in (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">',
        "<?xml version='1.0'?><html/>",
        '{"id": 1, "title": "a"}',
        "id,title\n<a>,b\n",
        "prefix of a sentence: yes.",
        "[Term]\nid: X:1\n",
    ):
        assert sniff(head_of(other)) == 0


@pytest.mark.parametrize(
    ("name", "text", "syntax"),
    [
        ("a", f"prefix skos: <{EX}>\nskos:a a skos:b .", "turtle"),
        ("a", f"PREFIX skos: <{EX}>\nskos:a a skos:b .", "turtle"),
        ("a.ttl", f"<{EX}a> a <{EX}b> ; <{EX}c> 1 .", "turtle"),
        ("a.txt", f"<{EX}a> a <{EX}b> ; <{EX}c> 1 .", "auto"),
        ("a", '<RDF xmlns="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>', "xml"),
    ],
)
def test_less_usual_beginnings_are_known(name: str, text: str, syntax: str) -> None:
    with Source.from_bytes(text.encode(), name=name) as source:
        assert syntax_of(source.head) == syntax


def test_concepts_of_two_thesauri_keep_their_addresses() -> None:
    lines = (f'<{EX}{one}/Concept_001> {S}prefLabel> "{one}"@en .' for one in ("fruit", "metal"))
    keys = [one.key for one in read("\n".join(lines), syntax="ntriples")]
    assert keys == [f"{EX}fruit/Concept_001", f"{EX}metal/Concept_001"]


@pytest.mark.parametrize("syntax", ["turtle", "json-ld"])
def test_another_encoding_is_read_where_it_is_named(syntax: str) -> None:
    data = SYNTAXES[syntax].replace("apple", "\u00e4pple").encode("cp1252")
    with pytest.raises(SourceError, match="UTF-8"):
        read(data)
    limits = SourceLimits(encoding="cp1252")
    with Source.from_bytes(data, name="a", limits=limits) as source:
        found = [one for one in adapter().read(source, Problems()) if isinstance(one, Entity)]
    assert "\u00e4pple" in {one.title for one in found}
