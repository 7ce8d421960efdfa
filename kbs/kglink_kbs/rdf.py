"""What is read of RDF: the predicates, the types, and the shape in which they are kept."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kglink.sources import Source, SourceHead

Syntax = Literal["auto", "turtle", "xml", "ntriples", "json-ld"]

_XML = re.compile(rb"(?:<\?xml\b|<!DOCTYPE\s+rdf:RDF\b|<!--|<(?:\w+:)?RDF\b)")
_RDF_ELEMENT = re.compile(rb"<(?:\w+:)?RDF\b")
_TURTLE = re.compile(rb"^[ \t]*(?:@?prefix\s+[^\s:]*:\s*<|@?base\s+<)", re.M | re.I)
_TURTLE_NAME = re.compile(r"\.ttl\b", re.I)
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
        return "xml" if _RDF_ELEMENT.search(data) and RDF.encode() in data else "auto"
    lines = [line for line in data.split(b"\n")[: -1 or None] if _says(line)]
    lines = lines or [line for line in data.split(b"\n") if _says(line)]
    if _TURTLE.search(data):
        return "turtle"
    triples = sum(bool(_TRIPLE.fullmatch(line)) for line in lines)
    if 2 * triples > len(lines):  # some may be broken
        return "ntriples"
    # Turtle without prefixes is known by its name alone.
    return "turtle" if _TURTLE_NAME.search(head.name) and start in (b"<", b"_") else "auto"


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
OBO = "http://purl.obolibrary.org/obo/"
OIO = "http://www.geneontology.org/formats/oboInOwl#"


class Value(NamedTuple):
    """The object of a triple: a text in a language, or the name of another resource."""

    text: str
    language: str = ""
    is_text: bool = True


#: The values of a resource by field.
Resource = dict[str, list[Value]]
#: Resources by their address; blank ones are named ``_:...``.
Resources = dict[str, Resource]

#: The predicates that fill each field; all others are passed over.
_PREDICATES = {
    "label": (f"{SKOS}prefLabel", f"{SKOSXL}prefLabel"),
    "name": (f"{RDFS}label",),
    "alt": (
        *(f"{SKOS}altLabel", f"{SKOSXL}altLabel"),
        *(f"{OIO}has{scope}Synonym" for scope in ("Exact", "Broad", "Narrow", "Related")),
    ),
    "hidden": (f"{SKOS}hiddenLabel", f"{SKOSXL}hiddenLabel"),
    "definition": (f"{SKOS}definition", f"{OBO}IAO_0000115"),
    "note": (f"{SKOS}scopeNote", "http://purl.org/dc/terms/description"),
    "comment": (f"{RDFS}comment",),
    "exact": (*(f"{SKOS}exactMatch", f"{OWL}sameAs", f"{OIO}hasDbXref", f"{OIO}hasAlternativeId"),),
    "close": (f"{SKOS}closeMatch",),
    "broader": (f"{SKOS}broader", f"{RDFS}subClassOf"),
    "notation": (f"{SKOS}notation",),
    "deprecated": (f"{OWL}deprecated",),
    "replaced_by": (f"{OBO}IAO_0100001",),
    "consider": (f"{OIO}consider",),
    "namespace": (f"{OIO}hasOBONamespace",),
    "default_namespace": (f"{OIO}default-namespace",),
    "type": (f"{RDF}type",),
    "form": (f"{SKOSXL}literalForm", f"{RDF}value"),
}
FIELDS = {predicate: field for field, named in _PREDICATES.items() for predicate in named}

#: A resource of these types with an ``rdfs:label`` is an entity, as one with a prefLabel is.
CLASS_TYPES = frozenset({f"{SKOS}Concept", f"{OWL}Class", f"{RDFS}Class"})
#: These carry labels too, and are no entities.
NO_CONCEPT_TYPES = frozenset(
    {f"{SKOS}{kind}" for kind in ("ConceptScheme", "Collection", "OrderedCollection")}
    | {f"{SKOSXL}Label", f"{OWL}Ontology"}
)
#: These say nothing about what kind of thing an entity is.
PLAIN_TYPES = CLASS_TYPES | {f"{OWL}NamedIndividual", f"{OWL}Thing", f"{RDFS}Resource"}
#: One of these stands in the beginning of nearly every thesaurus and ontology.
RDF_MARKS = tuple(name.encode() for name in (SKOS, SKOSXL, OWL, RDFS))
