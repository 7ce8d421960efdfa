"""Vocabularies in each syntax of RDF, reading them, and a network that is not there."""

from __future__ import annotations

import socket

import pytest

from kb_checks import read_bytes
from kglink.records import Alias, Entity
from kglink.sources import Problems
from kglink_kbs.skos import SkosAdapter, SkosSettings

EX = "http://x.example/"


def refuse_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def adapter(**settings: object) -> SkosAdapter:
    return SkosAdapter(SkosSettings.model_validate(settings))


def read(
    data: str | bytes, problems: Problems | None = None, /, **settings: object
) -> list[Entity]:
    return read_bytes(adapter(**settings), data, problems, name="thesaurus.rdf")


RDF_XML = (
    '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#">'
)


def rdf_xml(inner: str) -> str:
    """A concept, called one, with ``inner`` in it."""
    label = "<skos:prefLabel>one</skos:prefLabel>"
    return f'{RDF_XML}<skos:Concept rdf:about="{EX}1">{label}{inner}</skos:Concept></rdf:RDF>'


TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix x: <http://x.example/> .

x:fruits a skos:ConceptScheme ; skos:prefLabel "Fruits"@en .
x:apple a skos:Concept, x:Pome ;
  skos:prefLabel "apple"@en, "Apfel"@de, "pomme"@fr ;
  skos:altLabel "Malus  fruit"@en-GB, "Gravensteiner"@de, "M. domestica" ;
  skos:hiddenLabel "aple"@en ;
  skos:definition "A \\"pome\\".\\nIt is round."@en, "Ein Kernobst."@de ;
  skos:notation "A1" ;
  skos:exactMatch <http://purl.obolibrary.org/obo/FOODON_00002473> ;
  skos:closeMatch <http://y.example/malus> ;
  skos:broader x:fruit ;
  skos:inScheme x:fruits .
x:fruit a skos:Concept ; skos:prefLabel "fruit"@en ; skos:scopeNote "To eat."@en
  ; skos:notation "A" .
x:old a skos:Concept ; skos:prefLabel "old"@en ; owl:deprecated true .
x:birne a skos:Concept ; skos:prefLabel "Birne"@de .
"""
XML = """\
<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY x "http://x.example/"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    xmlns:skos="http://www.w3.org/2004/02/skos/core#" xmlns:owl="http://www.w3.org/2002/07/owl#"
    xmlns:x="http://x.example/">
  <owl:Ontology rdf:about="&x;"><owl:imports rdf:resource="http://y.example/other.owl"/></owl:Ontology>
  <skos:Concept rdf:about="&x;apple">
    <rdf:type rdf:resource="&x;Pome"/>
    <skos:prefLabel xml:lang="en">apple</skos:prefLabel>
    <skos:prefLabel xml:lang="de">Apfel</skos:prefLabel>
    <skos:altLabel xml:lang="en-GB">Malus  fruit</skos:altLabel>
    <skos:altLabel xml:lang="de">Gravensteiner</skos:altLabel>
    <skos:altLabel>M. domestica</skos:altLabel>
    <skos:hiddenLabel xml:lang="en">aple</skos:hiddenLabel>
    <skos:definition xml:lang="en">A "pome".
It is round.</skos:definition>
    <skos:notation>A1</skos:notation>
    <skos:exactMatch rdf:resource="http://purl.obolibrary.org/obo/FOODON_00002473"/>
    <skos:closeMatch rdf:resource="http://y.example/malus"/>
    <skos:broader rdf:resource="&x;fruit"/>
  </skos:Concept>
  <skos:Concept rdf:about="&x;fruit">
    <skos:prefLabel xml:lang="en">fruit</skos:prefLabel>
    <skos:scopeNote xml:lang="en">To eat.</skos:scopeNote>
    <skos:notation>A</skos:notation>
  </skos:Concept>
  <skos:Concept rdf:about="&x;old">
    <skos:prefLabel xml:lang="en">old</skos:prefLabel>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
  </skos:Concept>
</rdf:RDF>
"""
S = "<http://www.w3.org/2004/02/skos/core#"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NTRIPLES = f"""\
# a comment
<{EX}apple> {A} {S}Concept> .
<{EX}apple> {A} <{EX}Pome> .
<{EX}apple> {S}prefLabel> "apple"@en .
<{EX}apple> {S}prefLabel> "Apfel"@de .
<{EX}apple> {S}altLabel> "Malus  fruit"@en-GB .
<{EX}apple> {S}altLabel> "Gravensteiner"@de .
<{EX}apple> {S}altLabel> "M. domestica" .
<{EX}apple> {S}hiddenLabel> "aple"@en . # misspelt
<{EX}apple> {S}definition> "A \\"pome\\".\\nIt is \\u0072ound."@en .
<{EX}apple> {S}notation> "A1"^^<http://www.w3.org/2001/XMLSchema#string> .
<{EX}apple> {S}exactMatch> <http://purl.obolibrary.org/obo/FOODON_00002473> .
<{EX}apple> {S}closeMatch> <http://y.example/malus> .
<{EX}apple> {S}broader> <{EX}fruit> .

<{EX}fruit> {S}prefLabel> "fruit"@en .
<{EX}fruit> {S}scopeNote> "To eat."@en .
<{EX}fruit> {S}notation> "A" .
<{EX}old> {S}prefLabel> "old"@en .
<{EX}old> <http://www.w3.org/2002/07/owl#deprecated> "true" .
_:b1 {S}prefLabel> "nobody"@en .
"""
JSON_LD = """\
{"@context": {"skos": "http://www.w3.org/2004/02/skos/core#", "x": "http://x.example/",
  "owl": "http://www.w3.org/2002/07/owl#",
  "exactMatch": {"@id": "skos:exactMatch", "@type": "@id"}},
 "@graph": [
  {"@id": "x:apple", "@type": ["skos:Concept", "x:Pome"],
   "skos:prefLabel": [{"@value": "apple", "@language": "en"},
     {"@value": "Apfel", "@language": "de"}],
   "skos:altLabel": [{"@value": "Malus  fruit", "@language": "en-GB"},
     {"@value": "Gravensteiner", "@language": "de"}, "M. domestica"],
   "skos:hiddenLabel": {"@value": "aple", "@language": "en"},
   "skos:definition": {"@value": "A \\"pome\\".\\nIt is round.", "@language": "en"},
   "skos:notation": "A1", "exactMatch": "http://purl.obolibrary.org/obo/FOODON_00002473",
   "skos:closeMatch": {"@id": "http://y.example/malus"}, "skos:broader": {"@id": "x:fruit"}},
  {"@id": "x:fruit", "@type": "skos:Concept", "skos:notation": "A",
   "skos:prefLabel": {"@value": "fruit", "@language": "en"},
   "skos:scopeNote": {"@value": "To eat.", "@language": "en"}},
  {"@id": "x:old", "skos:prefLabel": {"@value": "old", "@language": "en"}, "owl:deprecated": true}]}
"""
SYNTAXES = {"turtle": TURTLE, "xml": XML, "ntriples": NTRIPLES, "json-ld": JSON_LD}
EXPECTED = [
    Entity(
        key=f"{EX}apple",
        title="apple",
        description='A "pome".\nIt is round.',
        type="Pome",
        url=f"{EX}apple",
        language="en",
        aliases=(
            Alias("Malus fruit", "synonym"),
            Alias("M. domestica", "synonym"),
            Alias("aple", "alias"),
        ),
        xrefs=("FOODON:00002473",),
        parents=(f"{EX}fruit",),
    ),
    Entity(f"{EX}fruit", "fruit", "To eat.", url=f"{EX}fruit", language="en"),
]
