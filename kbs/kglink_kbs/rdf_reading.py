"""Reads RDF into `Resources`: N-Triples line by line, the other syntaxes with rdflib.

Nothing is fetched: neither contexts of JSON-LD nor entities of XML nor imported ontologies. Of
every file only the predicates that we read are kept, in a store of our own.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.sax import SAXException
from xml.sax.expatreader import ExpatParser
from xml.sax.handler import ContentHandler, feature_namespaces

from rdflib import Graph, URIRef
from rdflib.exceptions import Error as RdflibError
from rdflib.namespace import RDF
from rdflib.plugins.parsers.jsonld import to_rdf
from rdflib.plugins.parsers.notation3 import RDFSink, SinkParser
from rdflib.plugins.parsers.rdfxml import RDFXMLHandler
from rdflib.store import Store
from rdflib.term import BNode, Literal

from kglink.errors import SourceError
from kglink.sources import Problems, Source
from kglink_kbs.guarded_xml import refuse_long_namespaces
from kglink_kbs.rdf import Resources, Syntax, Value
from kglink_kbs.values import described

if TYPE_CHECKING:
    from pyexpat import XMLParserType

    from rdflib.graph import _TripleType


#: What rdflib's parsers end with on a broken text: each has its own error, and beyond it they
#: fail with whatever their code stumbles over.
_FAULTS = (
    RdflibError,
    SAXException,
    SyntaxError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Relative addresses need one to be relative to; what begins with it stays relative.
_BASE = "https://source.invalid/"
_READ = 2**20
_LONGEST_IRI = 10_000

_TRIPLE = re.compile(
    # No blank label holds < or >; were they let in, a line of labels would be matched in n^2 ways.
    r"\s*(?:<([^<>\s]*)>|(_:[^\s<>]++))\s*<([^<>\s]*)>\s*"
    r"(?:<([^<>\s]*)>|(_:[^\s<>.]++(?:\.++[^\s<>.]++)*+)|"
    r'"([^"\\]*(?:\\.[^"\\]*)*)"(?:@([A-Za-z][A-Za-z0-9-]*)|\^\^<[^<>\s]*>)?)'
    r"\s*\.\s*(?:#.*)?"
)
_XML_PLACE = re.compile(r"\S*?:(\d+):-?\d+: (.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def resources_of(
    source: Source,
    problems: Problems,
    syntax: Syntax,
    *,
    max_bytes: int,
    fields: Mapping[str, str],
    grouped: bool = False,
) -> Iterator[Resources]:
    """What is said about the resources: of all at once, or of one after the other.

    ``fields`` are the predicates that are read, each with the field that it fills.
    """
    if syntax == "ntriples":
        yield from _ntriples(source, problems, fields, grouped=grouped)
        return
    store = _Kept(fields)
    graph = _Sink(store=store, bind_namespaces="none")
    with _quiet():
        try:
            match syntax:
                case "xml":
                    handler = LinearHandler(graph)
                    parser = GuardedParser(handler, source.label)
                    handler.setDocumentLocator(parser)
                    with source.open() as stream:  # which names its encoding itself
                        for piece in _pieces(stream, source, max_bytes):
                            parser.feed(piece)
                    parser.close()
                case "json-ld":
                    data = json.loads(_whole(source, max_bytes).decode("utf-8-sig"))
                    to_rdf(_checked(data, source), graph, base=_BASE, version=1.1)
                case _:
                    turtle = SinkParser(RDFSink(graph), baseURI=_BASE, turtle=True)
                    turtle.loadBuf(_whole(source, max_bytes))
        except _FAULTS as error:
            raise SourceError(
                f"{source.label} is not valid {_NAMES[syntax]}: {_reason(error)}",
                hint="It cannot be read past its first fault. `riot --validate FILE` (Apache "
                "Jena) says more; as N-Triples, single lines can be skipped.",
            ) from error
    yield store.resources


_NAMES = {"xml": "RDF/XML", "json-ld": "JSON-LD", "turtle": "Turtle"}


class _Kept(Store):
    """Keeps of every triple that it is given what we read, and nothing of the others."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__()
        self._fields = fields
        self.resources: Resources = {}

    def add(self, triple: _TripleType, context: Any, quoted: bool = False) -> None:
        """Keep ``triple`` if its predicate is one of ours."""
        subject, predicate, object_ = triple
        # A long prefix stands before each name again.
        if isinstance(subject, str) and len(subject) > _LONGEST_IRI:
            raise ValueError(f"an IRI of {len(subject):,} characters")
        field = self._fields.get(str(predicate))
        if field is None or not isinstance(subject, (URIRef, BNode)):
            return
        if isinstance(object_, Literal):
            value = Value(str(object_), (object_.language or "").lower())
        else:
            value = Value(_name(object_), is_text=False)
        self.resources.setdefault(_name(subject), {}).setdefault(field, []).append(value)


class _Sink(Graph):
    """A graph that forgets prefixes: only those who write RDF need them, and thousands are slow."""

    def bind(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def _name(term: object) -> str:
    return f"_:{term}" if isinstance(term, BNode) else str(term).removeprefix(_BASE)


# --------------------------------------------------------------------------- whole documents
def _whole(source: Source, max_bytes: int) -> bytes:
    """The text of a source that is not larger than ``max_bytes``, in UTF-8, its lines as XML's."""
    with source.open_text() as stream:
        return b"".join(_pieces(stream, source, max_bytes)).replace(b"\r\n", b"\n")


def _pieces(stream: BinaryIO, source: Source, max_bytes: int) -> Iterator[bytes]:
    size = 0
    while piece := stream.read(_READ):
        size += len(piece)
        if size > max_bytes:
            raise SourceError(
                f"{source.label} is larger than {max_bytes:,} bytes unpacked, and its syntax "
                "of RDF cannot be read piece by piece",
                hint="Write it as N-Triples, which has no limit: riot --stream=ntriples FILE; "
                "or raise the limit: --set max_mb=...",
            )
        yield piece


def _checked(data: object, source: Source) -> object:
    """What a file of JSON-LD holds, unless it takes its context from elsewhere."""
    if not isinstance(data, dict | list):
        raise TypeError(f"found {described(data)} where an object or a list is wanted")
    if remote := next(_remote_contexts(data), ""):
        raise SourceError(
            f"{source.label} takes its context from {remote[:200]!r}, and kglink fetches nothing",
            hint="Write the context into the file, or convert it: riot --output=ttl FILE",
        )
    return data


def _remote_contexts(data: object) -> Iterator[str]:
    """The contexts that are not in the document; any depth, without recursion."""
    stack = [data]
    while stack:
        match stack.pop():
            case dict() as fields:
                context = fields.get("@context")
                parts = context if isinstance(context, list) else [context]
                yield from (part for part in parts if isinstance(part, str))
                if isinstance(fields.get("@import"), str):
                    yield fields["@import"]
                stack.extend(fields.values())
            case list() as items:
                stack.extend(items)
            case _:
                pass


def _reason(error: BaseException) -> str:
    """One line of what rdflib says."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is no UTF-8"
    if isinstance(error, IndexError):  # of the Turtle parser, which looks past the end
        return "it ends in the middle of a statement"
    if found := _XML_PLACE.match(str(error)):
        return f"line {found[1]}: {' '.join(found[2].split())[:200]}"
    lines = str(getattr(error, "_why", "") or error).split("\n")
    text = " ".join(" ".join(lines).split())[:200] or type(error).__name__
    line = getattr(error, "lines", None)
    return f"line {line + 1}: {text}" if isinstance(line, int) else text


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence rdflib, which logs a traceback for each literal that does not fit its datatype."""
    logger = logging.getLogger("rdflib.term")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


# -------------------------------------------------------------------------------- N-Triples
def _ntriples(
    source: Source, problems: Problems, fields: Mapping[str, str], *, grouped: bool
) -> Iterator[Resources]:
    resources: Resources = {}
    predicates = frozenset(f"<{iri}>".encode() for iri in fields)
    for number, start, line in source.byte_lines(problems):
        if not _is_wanted(line, predicates):
            continue
        try:
            triple = _triple(line.decode("utf-8"), fields)
        except UnicodeDecodeError as error:
            problems.report(source.not_utf8(source.where(number), line, start, error))
            continue
        if not triple:
            form = 'A line of N-Triples is <subject> <predicate> <object> . or "text"@en .'
            problems.refuse("not a triple", source.where(number), form)
            continue
        subject, field, value = triple
        if grouped and resources and subject not in resources:
            yield resources
            resources = {}
        if field:
            resources.setdefault(subject, {}).setdefault(field, []).append(value)
    yield resources


def _is_wanted(line: bytes, predicates: frozenset[bytes]) -> bool:
    """False of blank lines, comments, and what is plainly a triple that we do not read."""
    parts = line.split(None, 2)
    if len(parts) < 3:
        return bool(parts) and not parts[0].startswith(b"#")
    if parts[1] in predicates:
        return True
    triple = parts[0].startswith((b"<", b"_:")) and parts[1][:1] == b"<" and parts[1][-1:] == b">"
    triple = triple and b"><" not in parts[1]  # the object may stand right behind it
    return not (triple and parts[2].rstrip().endswith(b".")) and not parts[0].startswith(b"#")


def _triple(line: str, fields: Mapping[str, str]) -> tuple[str, str, Value] | None:
    """Subject, field (empty of other predicates) and object of a line."""
    found = _TRIPLE.fullmatch(line)
    if not found:
        return None
    iri, blank, predicate, object_iri, object_blank, text, language = found.groups()
    field = fields.get(_unescaped(predicate), "")
    if text is not None:
        value = Value(_unescaped(text), (language or "").lower())
    else:
        value = Value(object_blank or _unescaped(object_iri), is_text=False)
    return blank or _unescaped(iri), field, value


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def sign(found: re.Match[str]) -> str:
        short, long, sign = found.groups()
        code = 0 if sign else int(short or long, 16)
        return _ESCAPED.get(sign, sign) if sign else chr(code) if code <= 0x10FFFF else "\ufffd"

    def joined(halves: re.Match[str]) -> str:
        return halves[0].encode("utf-16-le", errors="surrogatepass").decode("utf-16-le")

    # Some programs write a sign beyond U+FFFF as the two halves that Java makes of it.
    return _PAIR.sub(joined, _ESCAPE.sub(sign, text))


#: Ontologies abbreviate addresses by entities (``&owl;``); nothing longer is meant seriously.
MAX_ENTITY = 500


class GuardedParser(ExpatParser):
    """A SAX parser for documents from strangers; give it bytes with ``feed`` and ``close``.

    Entities may stand for short texts, as they do in ontologies. Those that come from another
    file, are long or are built from other entities (a bomb doubles itself in this way) are
    refused.
    """

    def __init__(self, handler: ContentHandler, label: str) -> None:
        self._label = label
        super().__init__()
        self.setFeature(feature_namespaces, True)
        self.setContentHandler(handler)

    def getSystemId(self) -> str:  # noqa: N802 - the name in the interface
        """The address that relative ones are relative to."""
        return _BASE

    def reset(self) -> None:
        """Make a new parser with the guards in place."""
        super().reset()
        parser: XMLParserType = vars(self)["_parser"]
        parser.EntityDeclHandler = self._entity
        refuse_long_namespaces(parser, self._refuse)
        parser.ExternalEntityRefHandler = self._external

    def _refuse(self, what: str) -> SourceError:
        return SourceError(f"{self._label} {what}", hint="Write the file with short addresses.")

    def _entity(self, name: str, is_parameter: bool, value: str | None, *of: str | None) -> None:
        if value is None:  # the arguments are those of expat
            base, system_id, public_id, _ = of
            self._external(name, base, system_id, public_id)
        elif is_parameter or len(value) > MAX_ENTITY or "&" in value or "%" in value:
            raise SourceError(
                f"{self._label}: the XML entity {name!r} is long or made of other entities "
                "(an expansion bomb)",
                hint="Expand it first if you trust the file: xmllint --noent FILE > expanded",
            )

    def _external(
        self, context: str | None, base: str | None, system_id: str | None, public_id: str | None
    ) -> int:
        raise SourceError(
            f"{self._label}: XML asks for another file, {system_id or public_id!r}, and kglink "
            "fetches none",
            hint="Remove the reference from the file's DOCTYPE.",
        )


#: Where one of these ends, a new line begins.
_BLOCKS = frozenset({"p", "br", "div", "li", "tr"})


class _Pieces(list[str]):
    """The text of an element as far as it is read."""


class LinearHandler(RDFXMLHandler):
    """rdflib's handler, but that each text is put together once, at its end.

    rdflib copies the whole text for each piece that expat brings, and there is one before and
    behind every reference, comment and tag. Of an XML literal the text is kept, not the markup.
    """

    def reset(self) -> None:
        """Forget what was read."""
        super().reset()
        self._literal: list[str] = []

    def startPrefixMapping(self, prefix: str | None, namespace: str) -> None:  # noqa: N802 - SAX's
        """Do nothing: rdflib copies all prefixes for each level, to write markup with them."""

    def endPrefixMapping(self, prefix: str | None) -> None:  # noqa: N802 - SAX's name
        """Do nothing."""

    def property_element_char(self, data: str) -> None:
        """Add to the text of a property."""
        current = self.current
        if current.data is not None:
            if not isinstance(current.data, _Pieces):
                current.data = _Pieces([current.data])
            current.data.append(data)

    def property_element_end(self, name: Any, qname: Any) -> None:
        """Put the text of a property together."""
        current = self.current
        if isinstance(current.data, _Pieces):
            current.data = "".join(current.data)
        if isinstance(current.object, Literal) and current.object.datatype == RDF.XMLLiteral:
            current.object = Literal("".join(self._literal))
            self._literal.clear()
        super().property_element_end(name, qname)

    def literal_element_start(self, name: Any, qname: Any, attrs: Any) -> None:
        """Go on with the text of the literal."""
        element = self.next
        element.start = self.literal_element_start
        element.char = self.literal_element_char
        element.end = self.literal_element_end

    def literal_element_char(self, data: str) -> None:
        """Add to the text of the literal."""
        self._literal.append(data)

    def literal_element_end(self, name: Any, qname: Any) -> None:
        """Go on with the text of the literal, on a new line behind a block."""
        if name[1].lower() in _BLOCKS:
            self._literal.append("\n")
