"""BioC: texts in passages with annotations, as XML or JSON (PubTator, PMC, BioCreative).

Its DTD counts offsets in bytes, most files count characters. Both are read, by which of them fits
the words that stand beside them; characters are written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TextIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat
from xml.sax.saxutils import escape

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document, EntityId, Link, LinkedDocument, Mention, Record, json_number
from kglink.sources import Problems, Source, SourceHead
from kglink.text.printable import printable_json, writable
from kglink_kbs.annotations import (
    ToldSpan,
    best_unit,
    character_offsets,
    checked_span,
    in_order,
    same_words,
)
from kglink_kbs.guarded_xml import parse_pieces, refuse_entities
from kglink_kbs.json_stream import JsonWalk
from kglink_kbs.pubtator import NoCode, coded_gold
from kglink_kbs.values import (
    BadValue,
    exact_text,
    good_ones,
    key_text,
    listed,
    object_of,
    objects_of,
    offset_number,
    plain_text,
    probability,
    shortened,
)

#: Infons that hold a code in corpora that are published, in lower case.
CODES = "identifier,mesh,omim,ncbi_gene,ncbi gene,ncbi_taxonomy,ncbi taxonomy,chebi,cui,umls"
#: Lists of documents: BioC's own, and that of PubTator 3.
_LISTS = frozenset({"documents", "PubTator3"})
_NODES = frozenset({"passage", "sentence", "annotation", "relation"})
#: What an element takes in memory besides its text.
_ELEMENT = 100
#: No element of BioC is nested as deeply.
_DEEPEST = 300
#: What XML cannot hold, even by its number.
_NOT_IN_XML = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_FIRST_TAG = re.compile(rb"<[A-Za-z][^\s>]*")
_IN_XML = re.compile(rb"<(?:source|passage)[\s>]")
_IN_JSON = re.compile(rb'\s*[\[{].*?"passages"\s*:\s*\[', re.DOTALL)
HINT = (
    "BioC has a <collection> of <document>s, each with <passage>s; in JSON: documents, passages, "
    "annotations with infons and locations."
)

_Fields = dict[str, Any]


class BiocSettings(PluginSettings):
    """Settings of ``kglink/bioc``."""

    types: str = ""
    """Types of annotations to read (the infon `type`), separated by commas; all if empty."""
    codes: str = CODES
    """Infons that hold the code of the entity, separated by commas."""
    no_code: NoCode = "unknown"
    """A mention with the code `-` is `unknown`, or `nil` (no entity is meant) if the documents link
    to a KB of the corpus's own vocabulary."""
    offsets: Literal["auto", "characters", "bytes"] = "auto"
    """What offsets count; `auto`: whatever fits the words of a document."""


class _Part(NamedTuple):
    """A passage or sentence: its text, the offset of that in the file and in the document."""

    text: str
    offset: int
    start: int
    annotations: list[_Fields]

    def span(self, annotation: _Fields) -> tuple[int, int] | None:
        """Where an annotation stands in the text, if it says so, in the unit of the file."""
        with suppress(BadValue):
            if place := _place(annotation):
                return place[0] - self.offset, place[0] - self.offset + place[1]
        return None


class BiocAdapter:
    """Reads a document from each one of a collection; its passages stand below each other."""

    def __init__(self, settings: BiocSettings) -> None:
        self._settings = settings
        self._types = frozenset(listed(settings.types)) - {"all"}
        self._codes = [code.casefold() for code in listed(settings.codes)]
        self._read = frozenset({"type", "nil", "kb", "key", "confidence", "cluster", *self._codes})

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the documents in their order; relations are passed over."""
        is_xml = source.head.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"
        found = _xml_documents(source) if is_xml else _json_documents(source)
        return good_ones(
            ((source.where(line), (fields, source.where(line))) for line, fields in found),
            lambda one: self._document(*one, problems),
            problems,
            nothing=lambda: SourceError(f"{source.label} holds no BioC document", hint=HINT),
        )

    def _document(self, fields: object, place: str, problems: Problems) -> Document:
        given = object_of(fields, "a document")
        name = key_text(given.get("id"), "the id of a document")
        if not name:
            raise BadValue("a document without an id", HINT)
        parts = list(_parts(given, problems))
        spans = [
            ToldSpan(part.text, *span, words)
            for part in parts
            for one in part.annotations
            if isinstance(words := one.get("text"), str) and (span := part.span(one))
        ]
        chosen = self._settings.offsets
        unit = chosen if chosen != "auto" else best_unit(spans, ("characters", "bytes"))
        where, mentions = f"{place}, document {shortened(name)}", list[Mention]()
        for part in parts:
            ends = chain.from_iterable(filter(None, map(part.span, part.annotations)))
            inside = character_offsets(part.text, ends, unit)
            found = {part.offset + at: place for at, place in inside.items()}
            mention = partial(self._mention, part, found, problems)
            annotations = ((where, one) for one in part.annotations)
            mentions += good_ones(annotations, mention, problems, hint=HINT)
        text = "\n".join(part.text for part in parts)
        title = ""
        for passage in objects_of(given, "passages")[:1]:
            kind = str(object_of(passage.get("infons"), "infons").get("type", ""))
            if kind.casefold() in ("title", "front") and isinstance(passage.get("text"), str):
                title = passage["text"].strip()
        return Document(name, text, in_order(mentions), title)

    def _mention(
        self, part: _Part, found: Mapping[int, int], problems: Problems, annotation: _Fields
    ) -> Mention | None:
        infons = {
            name: plain_text(value, f"the infon {key}")
            for key, value in object_of(annotation.get("infons"), "infons").items()
            if (name := key.casefold()) in self._read  # others may be of any kind
        }
        kind = infons.get("type", "")
        if self._types and kind not in self._types:
            return None
        place = _place(annotation)
        if place is None:
            problems.pass_over("annotations at no place, or at several")
            return None
        words = annotation.get("text")
        first, last, surface = checked_span(
            part.text,
            found,
            (place[0], sum(place)),
            words if isinstance(words, str) else None,
            "Offsets count characters or bytes from the beginning of the document; this passage "
            f"begins at {part.offset}.",
            same_words,
        )
        gold: tuple[EntityId, ...] | None = ()
        if infons.get("nil") != "true":
            own = infons.get("kb", ""), infons.get("key", "")  # as kglink writes it
            codes = (infons[one] for one in self._codes if one in infons)
            gold = (EntityId(*own),) if all(own) else coded_gold(codes, self._settings.no_code)
        return Mention(
            part.start + first,
            part.start + last,
            surface,
            gold,
            kind,
            confidence=probability(infons.get("confidence"), "the confidence"),
            cluster=infons.get("cluster", ""),
        )


def sniff(head: SourceHead) -> float:
    """Sure of a collection of documents in XML, and of passages in JSON."""
    tag = _FIRST_TAG.search(head.head)
    is_xml = tag is not None and tag[0] == b"<collection" and _IN_XML.search(head.head)
    is_json = b'"infons"' in head.head and _IN_JSON.match(head.head)
    return 0.95 if is_xml or is_json else 0.0


# ------------------------------------------------------------------------------------ reading
def _parts(document: _Fields, problems: Problems) -> list[_Part]:
    """The texts of a document: those of its passages, or else of the sentences in them.

    Annotations of what has no text itself are those of the last text that begins before them.
    """
    parts: list[_Part] = []
    loose = objects_of(document, "annotations")
    start = 0
    for passage in objects_of(document, "passages"):
        inner = objects_of(passage, "sentences")
        is_whole = passage.get("text") not in (None, "")
        for fields in (passage,) if is_whole else inner:
            if fields.get("text") in (None, ""):
                loose += objects_of(fields, "annotations")
                continue
            text = exact_text(fields["text"], "the text")
            offset = offset_number(fields.get("offset"), "the offset of a passage")
            parts.append(_Part(text, offset, start, [*objects_of(fields, "annotations")]))
            start += len(text) + 1
        for fields in inner if is_whole else (passage,):
            loose += objects_of(fields, "annotations")
    by_offset = sorted(parts, key=lambda one: one.offset)
    offsets = [one.offset for one in by_offset]
    for annotation in loose:
        place = _place(annotation)
        before = bisect_right(offsets, place[0]) if place else 0
        if before:
            by_offset[before - 1].annotations.append(annotation)
        else:
            problems.pass_over("annotations at no place, or at several")
    return parts


def _place(annotation: _Fields) -> tuple[int, int] | None:
    """The offset and length of an annotation, unless it stands nowhere or at several places."""
    places = objects_of(annotation, "locations")
    if len(places) != 1:
        return None
    offset, length = (offset_number(places[0].get(name), name) for name in ("offset", "length"))
    return offset, length


def _json_documents(source: Source) -> Iterator[tuple[int, object]]:
    """The documents of a collection, of a list of them, or one on each line."""
    with source.open_text() as stream:
        walk = JsonWalk(source, stream, HINT)
        while walk.sign():
            yield from _json_values(walk)


def _json_values(walk: JsonWalk) -> Iterator[tuple[int, object]]:
    if walk.sign() == "[":
        for _ in walk.items():
            if walk.sign() != "{":
                raise walk.broken("an object is wanted")
            yield from _json_values(walk)
        return
    line, fields = walk.line, {}
    for member in walk.members():
        if member in _LISTS and walk.sign() == "[":
            for _ in walk.items():
                yield walk.line, walk.value()
        else:
            fields[member] = walk.value()
    if "passages" in fields:
        yield line, fields


def _xml_documents(source: Source) -> Iterator[tuple[int, object]]:
    """The documents of a collection, in the shape that they have in JSON."""

    def refuse(reason: str) -> SourceError:
        return SourceError(f"{source.label} {reason}, which no BioC file does", hint=HINT)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    documents = _Documents(source, parser)
    parser.StartElementHandler = documents.start
    parser.EndElementHandler = documents.end
    parser.CharacterDataHandler = documents.text
    refuse_entities(parser, refuse)
    try:
        with source.open() as stream:
            for _ in parse_pieces(parser, stream, refuse):
                yield from documents.done
                documents.done.clear()
    except (expat.ExpatError, LookupError, ValueError) as error:
        yield from documents.done
        raise SourceError(f"{source.label} is no well-formed XML: {error}", hint=HINT) from error


class _Documents:
    """Puts documents together while the XML goes by; ``done`` has each with its line."""

    def __init__(self, source: Source, parser: expat.XMLParserType) -> None:
        self.done: list[tuple[int, object]] = []
        self._source = source
        self._parser = parser
        self._tree: TreeBuilder | None = None
        self._line = self._size = self._depth = 0

    def start(self, name: str, given: dict[str, str]) -> None:
        """Begin an element."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SourceError(f"{self._source.label} is nested too deeply", hint=HINT)
        if name == "document":
            self._tree, self._line, self._size = TreeBuilder(), self._parser.CurrentLineNumber, 0
        if self._tree:
            self._tree.start(name, given)
            self._grow(_ELEMENT)

    def text(self, text: str) -> None:
        """Go on with the text of an element."""
        if self._tree:
            self._tree.data(text)
            self._grow(len(text))

    def end(self, name: str) -> None:
        """End an element."""
        self._depth -= 1
        if self._tree:
            element = self._tree.end(name)
            if name == "document":
                self.done.append((self._line, _fields_of(element)))
                self._tree = None

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > (most := self._source.limits.max_line_bytes):
            where = self._source.where(self._line)
            raise SourceError(f"{where}: a document of more than {most:,} bytes", hint=HINT)


def _fields_of(element: Element, known: _Fields | None = None) -> _Fields:
    """What an element holds, in the shape that it has in JSON; unknown tags say nothing."""
    fields: _Fields = {"infons": {}} if known is None else known
    for part in element:
        if part.tag in _NODES:
            fields.setdefault(f"{part.tag}s", []).append(_fields_of(part))
        elif part.tag == "location":
            fields.setdefault("locations", []).append(part.attrib)
        elif part.tag == "infon":
            fields["infons"][part.get("key", "")] = "".join(part.itertext())
        elif part.tag in ("id", "text", "offset"):
            fields[part.tag] = "".join(part.itertext())
        else:
            _fields_of(part, fields)
    return fields


# ------------------------------------------------------------------------------------ writing
class BiocWriterSettings(PluginSettings):
    """How BioC is written."""

    syntax: Literal["xml", "json"] = "xml"
    """XML, or the same as JSON."""


class BiocExporter:
    """Writes each text as a document of one passage; offsets count characters.

    A character that XML cannot hold becomes U+FFFD; every offset stays. Where each KB answers for
    itself, an annotation for each that has an entity.
    """

    def __init__(self, settings: BiocWriterSettings) -> None:
        self._is_xml = settings.syntax == "xml"

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the documents as they come."""
        out.write(_XML_BEGIN if self._is_xml else _JSON_BEGIN)
        for at, document in enumerate(documents, 1):
            name = document.id or f"document {at}"
            found = [one for link in document.in_order for one in _infons(link)]
            if self._is_xml:
                out.write(_xml_document(name, document.text, found))
            else:
                fields = _json_document(name, document.text, found)
                out.write(("," if at > 1 else "") + f"\n{printable_json(fields)}")
            out.flush()
        out.write("</collection>\n" if self._is_xml else "\n]}\n")


_XML_BEGIN = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>kglink</source><date></date><key></key>\n"
)
_JSON_BEGIN = '{"source": "kglink", "date": "", "key": "", "infons": {}, "documents": ['
_Annotation = tuple[int, int, dict[str, str]]


def _infons(link: Link) -> Iterator[_Annotation]:
    """A mention once for each entity that is its answer, or once as NIL."""
    answers = [(one.chosen, one.confidence) for one in link.answers if one.chosen]
    for chosen, confidence in answers:
        infons = {"type": chosen.type or "Entity", "identifier": str(chosen.id)}
        infons |= {**chosen.id._asdict(), "name": chosen.title}
        yield link.start, link.end, infons | {"confidence": str(json_number(confidence))}
    if not answers:
        infons = {"type": "Entity", "identifier": "-", "nil": "true", "cluster": link.cluster}
        yield link.start, link.end, infons | {"confidence": str(json_number(link.confidence))}


def _json_document(name: str, text: str, found: list[_Annotation]) -> dict[str, object]:
    annotations = [
        {
            "id": str(at),
            "infons": infons,
            "text": text[start:end],
            "locations": [{"offset": start, "length": end - start}],
        }
        for at, (start, end, infons) in enumerate(found, 1)
    ]
    passage = {"offset": 0, "infons": {}, "text": text, "sentences": []}
    passages = [passage | {"annotations": annotations, "relations": []}]
    return {"id": name, "infons": {}, "passages": passages, "relations": []}


def _xml_document(name: str, text: str, found: list[_Annotation]) -> str:
    begin = f"<document><id>{_xml(name)}</id><passage><offset>0</offset>"
    parts = [f"{begin}<text>{_xml(text)}</text>\n"]
    for at, (start, end, infons) in enumerate(found, 1):
        infon_xml = "".join(f'<infon key="{key}">{_xml(infons[key])}</infon>' for key in infons)
        place = f'<location offset="{start}" length="{end - start}"/>'
        words = f"<text>{_xml(text[start:end])}</text>"
        parts.append(f'<annotation id="{at}">{infon_xml}{place}{words}</annotation>\n')
    return "".join([*parts, "</passage></document>\n"])


def _xml(text: str) -> str:
    """The text for XML; a carriage return by its number, or it would be read as a line feed."""
    sound = _NOT_IN_XML.sub("\ufffd", writable(text))
    return escape(sound, {"\r": "&#13;"})
