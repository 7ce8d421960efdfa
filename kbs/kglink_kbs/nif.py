"""NIF 2.1, which GERBIL reads and writes: annotated texts read as RDF, and written in Turtle.

A text is a `nif:Context`, a mention a `nif:Phrase` with its place in code points. What it means is
named by the entity's web address, or ``urn:kglink:entity:KB:KEY`` where it has none
(`itsrdf:taIdentRef`); of an answer KB and key stand there too (`taSource`, `taIdent`). NIL is
``urn:kglink:nil:``, and the id of its cluster. A mention of unknown meaning has no name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TextIO
from urllib.parse import quote, unquote

from pydantic import Field

from kglink.errors import SourceError, UsageError
from kglink.plugins import PluginSettings
from kglink.records import Document, Entity, EntityId, LinkedDocument, Mention, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.annotations import character_offsets, checked_span, in_order
from kglink_kbs.rdf import RDF, Resource, Syntax, place_of, syntax_of
from kglink_kbs.values import BadValue, exact_text, good_ones, offset_number, probability

NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
ITSRDF = "http://www.w3.org/2005/11/its/rdf#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = "".join(
    f"@prefix {name}: <{iri}> .\n" for name, iri in (("itsrdf", ITSRDF), ("nif", NIF), ("xsd", XSD))
)
_TEXT, _ENTITY, _NIL = (f"urn:kglink:{kind}:" for kind in ("text", "entity", "nil"))
#: What GERBIL's annotators call that which no knowledge base has.
_NOT_IN_WIKI = "http://aksw.org/notInWiki/"
#: The end of the name of a text, as NIF has it: its characters.
_WHOLE = re.compile(r"#(?:offset_0_|char=0,)\d*$")

_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\x7f\ud800-\udfff]')
#: The name of a text that is an IRI as it stands.
_ADDRESS = re.compile(r"https?://[^\x00-\x20<>\"{}|^`\\#\ud800-\udfff]+")
#: What an IRI cannot hold.
_NO_IRI = re.compile('[\x00-\x20<>"{}|^`\\\\\ud800-\udfff]')

HINT = (
    "NIF as `kglink link --format nif` writes it: a nif:Context with nif:isString for each text, "
    "a nif:Phrase with nif:beginIndex, nif:endIndex and itsrdf:taIdentRef for each mention."
)
FIELDS = {
    f"{RDF}type": "type",
    f"{NIF}isString": "text",
    f"{NIF}referenceContext": "context",
    f"{NIF}beginIndex": "start",
    f"{NIF}endIndex": "end",
    f"{NIF}anchorOf": "anchor",
    f"{ITSRDF}taIdentRef": "means",
    f"{ITSRDF}taConfidence": "confidence",
    f"{ITSRDF}taSource": "taSource",
    f"{ITSRDF}taIdent": "taIdent",
}


class NifSettings(PluginSettings):
    """Settings of ``kglink/nif``."""

    syntax: Syntax = "auto"
    """The syntax of the file; `auto`: by its content."""
    max_mb: int = Field(256, gt=0)
    """The largest file, unpacked, that is read whole (any syntax but N-Triples)."""


class NifAdapter:
    """Reads a document from each context, and writes documents."""

    def __init__(self, settings: NifSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the documents in the order of the names of their contexts."""
        texts, phrases = self._parts(source, problems)
        ids: set[str] = set()
        for name in sorted(texts):
            id_ = _WHOLE.sub("", name)
            id_ = unquote(id_.removeprefix(_TEXT)) if id_.startswith(_TEXT) else id_
            id_ = name if id_ in ids else id_
            ids.add(id_)
            make = partial(_mention, texts[name])
            found = good_ones(sorted(phrases.pop(name, ())), make, problems, hint=HINT)
            yield Document(id_, texts[name], in_order(found))
        for place, _ in (one for of_context in phrases.values() for one in of_context):
            problems.refuse("in no nif:referenceContext with a text", place, HINT)

    def write(
        self,
        records: Iterable[Record],
        out: TextIO,
        entities: Callable[[Iterable[EntityId]], Mapping[EntityId, Entity]],
    ) -> None:
        """Write documents with their golds, each of which is right."""
        out.write(PREFIXES)
        for document in records:
            if isinstance(document, Document):
                golds = {gold for mention in document.mentions for gold in mention.gold or ()}
                phrases = gold_phrases(document, entities(golds))
                out.write(nif_text(document.id, document.text, phrases))

    def _parts(
        self, source: Source, problems: Problems
    ) -> tuple[dict[str, str], dict[str, list[tuple[str, Resource]]]]:
        """The texts by the names of their contexts, and the phrases of each with their places."""
        try:
            from kglink_kbs.rdf_reading import resources_of
        except ImportError as error:
            raise UsageError(
                f"{source.label} is NIF, which is read with rdflib",
                hint="pip install 'kglink[rdf]'",
            ) from error
        source.check_text()
        chosen = self._settings.syntax
        syntax = chosen if chosen != "auto" else syntax_of(source.head)
        texts: dict[str, str] = {}
        phrases: dict[str, list[tuple[str, Resource]]] = {}
        for resources in resources_of(
            source,
            problems,
            "turtle" if syntax == "auto" else syntax,
            fields=FIELDS,
            max_bytes=self._settings.max_mb * 2**20,
        ):
            for name, resource in resources.items():
                place = place_of(source, name)
                try:
                    if "text" in resource:
                        texts[name] = exact_text(_one(resource, "text"), "the text")
                    elif "means" in resource or f"{NIF}Phrase" in _all(resource, "type"):
                        phrases.setdefault(_one(resource, "context"), []).append((place, resource))
                except BadValue as bad:
                    problems.report(bad.at(place, HINT))
        if not texts and not problems.total:
            raise SourceError(f"no context in {source.label} has a nif:isString", hint=HINT)
        return texts, phrases


class NifExporter:
    """Writes each text and its mentions as soon as they come; a text without an id has its number.

    Halves of surrogate pairs, which no file can hold, become U+FFFD; every offset stays.
    """

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the prefixes, then a block for each text."""
        out.write(PREFIXES)
        for at, document in enumerate(documents, 1):
            name = document.id or f"document {at}"
            out.write(nif_text(name, document.text, linked_phrases(document)))
            out.flush()


def sniff(head: SourceHead) -> float:
    """Sure of RDF that names NIF."""
    return 0.98 if NIF.encode() in head.head and syntax_of(head) != "auto" else 0.0


# ------------------------------------------------------------------------------------ reading
def _mention(text: str, resource: Resource) -> Mention:
    start, end = (offset_number(_one(resource, name), name) for name in ("start", "end"))
    span = start, end
    offsets = character_offsets(text, span, "characters")
    hint = "Offsets count characters (Unicode code points), not bytes or UTF-16 units."
    place = checked_span(text, offsets, span, _one(resource, "anchor") or None, hint)
    confidence = probability(_one(resource, "confidence"), "the confidence")
    kb, key = _one(resource, "taSource"), _one(resource, "taIdent")
    iris = sorted(_all(resource, "means"))
    cluster = next(filter(None, map(_nil, iris)), "")
    named = [_entity(one) for one in iris if _nil(one) is None]
    if kb and key:
        named = [EntityId(kb, key)]
    best = tuple(sorted({one for one in named if one.kb} or set(named)))
    gold = best if iris or named else None
    return Mention(*place, gold, confidence=confidence, cluster=cluster)


def _entity(iri: str) -> EntityId:
    """The entity that one of our own IRIs names; another's stands for itself."""
    kb, colon, key = iri.removeprefix(_ENTITY).partition(":")
    own = iri.startswith(_ENTITY) and colon
    return EntityId(unquote(kb), unquote(key)) if own else EntityId("", iri)


def _nil(iri: str) -> str | None:
    """The cluster of a NIL, empty where none is told; None: it is an entity."""
    if iri.startswith(_NOT_IN_WIKI):
        return ""
    return unquote(iri.removeprefix(_NIL)) if iri.startswith(_NIL) else None


def _all(resource: Resource, field: str) -> list[str]:
    return list(dict.fromkeys(value.text for value in resource.get(field, ())))


def _one(resource: Resource, field: str) -> str:
    """The only value; empty where there is none."""
    values = _all(resource, field)
    if len(values) > 1:
        raise BadValue(f"more than one {field}", HINT)
    return values[0] if values else ""


# ------------------------------------------------------------------------------------ writing
class Phrase(NamedTuple):
    """A mention; ``iris`` say what it means, any of them; ``entity`` which of ours that is."""

    start: int
    end: int
    iris: Sequence[str] = ()
    confidence: float | None = None
    entity: EntityId | None = None


def linked_phrases(document: LinkedDocument) -> Iterator[Phrase]:
    """The mentions that were found, in reading order."""
    for link in sorted(document.links, key=lambda one: (one.start, one.end)):
        one = link.chosen
        iri = entity_iri(one.id, one.url) if one else _NIL + quote(_sound(link.cluster), safe="")
        yield Phrase(link.start, link.end, (iri,), link.confidence, one.id if one else None)


def gold_phrases(document: Document, known: Mapping[EntityId, Entity]) -> Iterator[Phrase]:
    """The annotated mentions; each gold is right."""
    for mention in document.mentions:
        iris: Iterable[str] = ()
        if mention.gold is not None:
            iris = dict.fromkeys(
                entity_iri(gold, known[gold].url if gold in known else "") for gold in mention.gold
            ) or (_NIL,)
        yield Phrase(mention.start, mention.end, tuple(iris))


def entity_iri(entity: EntityId, url: str = "") -> str:
    """The name of an entity."""
    if url.startswith(("http://", "https://")):
        return _NO_IRI.sub(lambda found: quote(_sound(found[0]), safe=""), url)
    kb, key = (quote(_sound(part), safe="") for part in entity)
    return f"{_ENTITY}{kb}:{key}"


def nif_text(name: str, text: str, phrases: Iterable[Phrase]) -> str:
    """The Turtle of one text, to stand below `PREFIXES`; one that is an address keeps it."""
    own = name if _ADDRESS.fullmatch(name) else f"{_TEXT}{quote(_sound(name), safe='')}"
    base = f"{own}#offset_"
    context = f"<{base}0_{len(text)}>"
    parts = [
        f"{context} a nif:Context, nif:OffsetBasedString ;\n"
        f"  nif:isString {_literal(text)} ;\n{_place(0, len(text))} .\n"
    ]
    times = Counter[tuple[int, int]]()
    for phrase in phrases:
        place = phrase.start, phrase.end
        times[place] += 1
        which = f"_{times[place]}" if times[place] > 1 else ""  # annotated more than once
        iri = f"{base}{phrase.start}_{phrase.end}_mention{which}"
        lines = [
            f"<{iri}> a nif:Phrase, nif:OffsetBasedString",
            f"  nif:referenceContext {context}",
            f"  nif:anchorOf {_literal(text[phrase.start : phrase.end])}",
            _place(phrase.start, phrase.end),
        ]
        if phrase.iris:
            lines.append("  itsrdf:taIdentRef " + ", ".join(f"<{iri}>" for iri in phrase.iris))
        if phrase.entity is not None:
            kb, key = map(_literal, phrase.entity)
            lines.append(f"  itsrdf:taSource {kb} ;\n  itsrdf:taIdent {key}")
        if phrase.confidence is not None:
            lines.append(f'  itsrdf:taConfidence "{phrase.confidence:.6f}"^^xsd:double')
        parts.append(" ;\n".join(lines) + " .\n")
    return "\n" + "".join(parts)


def _place(start: int, end: int) -> str:
    return (
        f'  nif:beginIndex "{start}"^^xsd:nonNegativeInteger ;\n'
        f'  nif:endIndex "{end}"^^xsd:nonNegativeInteger'
    )


def _literal(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return _ESCAPED.get(match[0]) or f"\\u{ord(match[0]):04X}"

    return '"' + _TO_ESCAPE.sub(escaped, _sound(text)) + '"'


def _sound(text: str) -> str:
    """The text with a stand-in for halves of characters, which no file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
