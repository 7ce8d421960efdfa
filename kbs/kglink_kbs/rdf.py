"""What is read of RDF: the predicates, the types, and the shape in which they are kept."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kglink.sources import Source, SourceHead

Syntax = Literal["auto", "turtle", "xml", "ntriples", "json-ld"]

_XML = re.compile(rb"(?:<\?xml\b|<!DOCTYPE\s+rdf:RDF\b|<!--|<rdf:RDF\b)")
_RDF_ELEMENT = re.compile(rb"<(?:\w+:)?RDF\b")
_RDF_NAMESPACE = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TURTLE = re.compile(
    rb"^[ \t]*(?:@prefix\s+[^\s:]*:\s*<|@base\s+<)|^[ \t]*(?:PREFIX\s+[^\s:]*:\s*<|BASE\s+<)", re.M
)
_TRIPLE = re.compile(
    rb"\s*(?:<[^<>\s]*>|_:[^\s<>]++)[ \t]*<[^<>\s]*>[ \t]*"
    rb'(?:<[^<>\s]*>|_:[^\s<>]+|"[^"\\]*(?:\\.[^"\\]*)*"\S*)'
    rb"[ \t]*\.\s*(?:#.*)?"
)
_JSON_LD = re.compile(rb'"@(?:context|graph|id)"\s*:')


def syntax_of(head: SourceHead) -> Syntax:
    """The syntax of a source that begins so; ``auto`` where it is none of RDF."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    start = data.lstrip()[:1]
    if b"\0" in data:
        return "auto"
    if start in (b"{", b"["):
        return "json-ld" if _JSON_LD.search(data) else "auto"
    if _XML.match(data.lstrip()):
        return "xml" if _RDF_ELEMENT.search(data) and _RDF_NAMESPACE in data else "auto"
    lines = [line for line in data.split(b"\n")[: -1 or None] if _says(line)]
    lines = lines or [line for line in data.split(b"\n") if _says(line)]
    if _TURTLE.search(data):
        return "turtle"
    triples = sum(bool(_TRIPLE.fullmatch(line)) for line in lines)
    return "ntriples" if 2 * triples > len(lines) else "auto"  # some may be broken


def _says(line: bytes) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(b"#")


def place_of(source: Source, name: str) -> str:
    """How messages name a resource of a file."""
    return f"{source.label}, <{name if name.isprintable() else repr(name)}>"


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
SKOSXL = "http://www.w3.org/2008/05/skos-xl#"
_OIO = "http://www.geneontology.org/formats/oboInOwl#"


class Value(NamedTuple):
    """The object of a triple: a text in a language, or the name of another resource."""

    text: str
    language: str = ""
    is_text: bool = True


#: The values of a resource by field.
Resource = dict[str, list[Value]]
#: Resources by their address; blank ones are named ``_:...``.
Resources = dict[str, Resource]

#: The field that each predicate fills; all other predicates are passed over.
FIELDS = {
    f"{SKOS}prefLabel": "label",
    f"{SKOSXL}prefLabel": "label",
    f"{RDFS}label": "name",
    f"{SKOS}altLabel": "alt",
    f"{SKOSXL}altLabel": "alt",
    f"{_OIO}hasExactSynonym": "alt",
    f"{_OIO}hasBroadSynonym": "alt",
    f"{_OIO}hasNarrowSynonym": "alt",
    f"{_OIO}hasRelatedSynonym": "alt",
    f"{SKOS}hiddenLabel": "hidden",
    f"{SKOSXL}hiddenLabel": "hidden",
    f"{SKOS}definition": "definition",
    "http://purl.obolibrary.org/obo/IAO_0000115": "definition",
    f"{SKOS}scopeNote": "note",
    "http://purl.org/dc/terms/description": "note",
    f"{RDFS}comment": "note",
    f"{SKOS}exactMatch": "exact",
    f"{OWL}sameAs": "exact",
    f"{_OIO}hasDbXref": "exact",
    f"{_OIO}hasAlternativeId": "exact",
    f"{SKOS}closeMatch": "close",
    f"{SKOS}broader": "broader",
    f"{RDFS}subClassOf": "broader",
    f"{SKOS}notation": "notation",
    f"{OWL}deprecated": "deprecated",
    f"{RDF}type": "type",
    f"{SKOSXL}literalForm": "form",
    f"{RDF}value": "form",
}

#: A resource of these types with an ``rdfs:label`` is an entity, as one with a prefLabel is.
CLASS_TYPES = frozenset({f"{SKOS}Concept", f"{OWL}Class", f"{RDFS}Class"})
#: These carry labels too, and are no entities.
NO_CONCEPT_TYPES = frozenset(
    {
        f"{SKOS}ConceptScheme",
        f"{SKOS}Collection",
        f"{SKOS}OrderedCollection",
        f"{SKOSXL}Label",
        f"{OWL}Ontology",
    }
)
#: These say nothing about what kind of thing an entity is.
PLAIN_TYPES = CLASS_TYPES | {f"{OWL}NamedIndividual", f"{OWL}Thing", f"{RDFS}Resource"}
#: One of these stands in the beginning of nearly every thesaurus and ontology.
RDF_MARKS = tuple(name.encode() for name in (SKOS, SKOSXL, OWL, RDFS))
