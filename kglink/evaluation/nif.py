"""Annotated texts as NIF 2.1 in Turtle, which GERBIL reads: written, and read with rdflib.

A text is a `nif:Context`, a mention a `nif:Phrase` with its place in code points. What it means is
named by the entity's web address, or ``urn:kglink:entity:KB:KEY`` where it has none
(`itsrdf:taIdentRef`); of an answer KB and key stand there too (`taSource`, `taIdent`). NIL is
``urn:kglink:nil:``, and the id of its cluster. A mention of unknown meaning has no name.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from kglink.errors import UsageError
from kglink.records import Document, Entity, EntityId, LinkedDocument
from kglink.sources import Source, check_text

if TYPE_CHECKING:
    from rdflib import Graph, URIRef

NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
ITSRDF = "http://www.w3.org/2005/11/its/rdf#"
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = "".join(
    f"@prefix {name}: <{iri}> .\n" for name, iri in (("itsrdf", ITSRDF), ("nif", NIF), ("xsd", XSD))
)
_TEXT, _ENTITY, _NIL = (f"urn:kglink:{kind}:" for kind in ("text", "entity", "nil"))
#: What GERBIL's annotators call that which no knowledge base has.
_NOT_IN_WIKI = "http://aksw.org/notInWiki/"
#: What relative names are relative to; nothing is fetched from there.
_BASE = "https://source.invalid/"
#: The largest file, unpacked: Turtle cannot be read piece by piece.
MOST_BYTES = 256 * 2**20

_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\x7f\ud800-\udfff]')
#: What an IRI cannot hold.
_NO_IRI = re.compile('[\x00-\x20<>"{}|^`\\\\\ud800-\udfff]')

HINT = (
    "NIF as `kglink link --format nif` writes it: a nif:Context with nif:isString for each text, "
    "a nif:Phrase with nif:beginIndex, nif:endIndex and itsrdf:taIdentRef for each mention."
)


class Phrase(NamedTuple):
    """A mention; ``iris`` say what it means, any of them; ``entity`` which of ours that is."""

    start: int
    end: int
    iris: tuple[str, ...] = ()
    confidence: float | None = None
    entity: EntityId | None = None


# ------------------------------------------------------------------------------------ writing
def linked_phrases(document: LinkedDocument) -> Iterator[Phrase]:
    """The mentions that were found, in reading order."""
    for link in sorted(document.links, key=lambda one: (one.start, one.end)):
        one = link.chosen
        iri = entity_iri(one.id, one.url) if one else _NIL + quote(_sound(link.cluster), safe="")
        entity = one.id if one else None
        yield Phrase(link.start, link.end, (iri,), link.confidence, entity)


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
        return _NO_IRI.sub(_percent, url)
    kb, key = (quote(_sound(part), safe="") for part in entity)
    return f"{_ENTITY}{kb}:{key}"


def nif_text(name: str, text: str, phrases: Iterable[Phrase]) -> str:
    """The Turtle of one text, to stand below `PREFIXES`."""
    base = f"{_TEXT}{quote(_sound(name), safe='')}#offset_"
    context = f"<{base}0_{len(text)}>"
    parts = [
        f"{context} a nif:Context, nif:OffsetBasedString ;\n"
        f"  nif:isString {_literal(text)} ;\n{_place(0, len(text))} .\n"
    ]
    for phrase in phrases:
        lines = [
            f"<{base}{phrase.start}_{phrase.end}_mention> a nif:Phrase, nif:OffsetBasedString ;",
            f"  nif:referenceContext {context} ;",
            f"  nif:anchorOf {_literal(text[phrase.start : phrase.end])} ;",
            _place(phrase.start, phrase.end),
        ]
        if phrase.iris:
            lines[-1] += " ;"
            lines.append("  itsrdf:taIdentRef " + ", ".join(f"<{iri}>" for iri in phrase.iris))
        if phrase.entity is not None:
            lines[-1] += " ;"
            kb, key = map(_literal, phrase.entity)
            lines.append(f"  itsrdf:taSource {kb} ;\n  itsrdf:taIdent {key}")
        if phrase.confidence is not None:
            lines[-1] += " ;"
            lines.append(f'  itsrdf:taConfidence "{phrase.confidence:.6f}"^^xsd:double')
        parts.append("\n".join(lines) + " .\n")
    return "\n" + "".join(parts)


def _place(start: int, end: int) -> str:
    return (
        f'  nif:beginIndex "{start}"^^xsd:nonNegativeInteger ;\n'
        f'  nif:endIndex "{end}"^^xsd:nonNegativeInteger'
    )


def _literal(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escape, _sound(text)) + '"'


def _escape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _sound(text: str) -> str:
    """The text with a stand-in for halves of characters, which no file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in _sound(match[0]).encode())


# ------------------------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class NifText:
    """A text and its mentions; ``name`` is the IRI of its context."""

    name: str
    text: str
    phrases: list[Phrase] = field(default_factory=list)


def read_nif(path: Path) -> list[NifText]:
    """The texts of a file, in the order of their IRIs; offsets and anchors are checked."""
    graph = _graph(path)
    texts: dict[str, NifText] = {}
    for subject, value in _pairs(graph, f"{NIF}isString"):
        if subject in texts and texts[subject].text != value:
            raise _refused(path, f"the context {subject} has two texts")
        texts[subject] = NifText(subject, value)
    if not texts:
        raise _refused(path, "no context in it has a nif:isString")
    refs = _all(graph, f"{ITSRDF}taIdentRef")
    phrases = {str(one) for one in graph.subjects(None, _node(f"{NIF}Phrase"))} | refs.keys()
    facts = {
        name: _all(graph, iri)
        for name, iri in (
            ("context", f"{NIF}referenceContext"),
            ("start", f"{NIF}beginIndex"),
            ("end", f"{NIF}endIndex"),
            ("anchor", f"{NIF}anchorOf"),
            ("confidence", f"{ITSRDF}taConfidence"),
            ("taSource", f"{ITSRDF}taSource"),
            ("taIdent", f"{ITSRDF}taIdent"),
        )
    }
    for name in phrases:
        one = {fact: _one(path, name, fact, values.get(name, [])) for fact, values in facts.items()}
        text = texts.get(one["context"])
        if text is None:
            raise _refused(path, f"the phrase {name} is in no nif:referenceContext with a text")
        text.phrases.append(_phrase(path, name, text.text, one, refs.get(name, [])))
    for text in texts.values():
        text.phrases.sort(key=lambda one: one[:2])
    return [texts[name] for name in sorted(texts)]


def named_entity(iri: str) -> EntityId | None:
    """The entity that one of our own IRIs names; None: it is another's."""
    kb, colon, key = iri.removeprefix(_ENTITY).partition(":")
    return EntityId(unquote(kb), unquote(key)) if iri.startswith(_ENTITY) and colon else None


def named_nil(iri: str) -> str | None:
    """The cluster of a NIL, empty where none is told; None: it is an entity."""
    if iri.startswith(_NOT_IN_WIKI):
        return ""
    return unquote(iri.removeprefix(_NIL)) if iri.startswith(_NIL) else None


def _phrase(
    path: Path, name: str, text: str, one: Mapping[str, str], iris: Sequence[str]
) -> Phrase:
    places = [one["start"], one["end"]]
    start, end = (int(place) if re.fullmatch("[0-9]{1,12}", place) else -1 for place in places)
    if not 0 <= start < end <= len(text):
        raise _refused(
            path,
            f"the phrase {name}: {places[0] or 'nothing'} to {places[1] or 'nothing'} is not "
            f"inside the text of {len(text):,} characters",
        )
    if one["anchor"] and one["anchor"] != text[start:end]:
        raise UsageError(
            f"cannot read {path}: the phrase {name} is {one['anchor'][:80]!r}, and at {start} to "
            f"{end} stands {text[start:end][:80]!r}",
            hint="Offsets count characters (Unicode code points), not bytes or UTF-16 units.",
        )
    confidence = None
    if one["confidence"]:
        try:
            confidence = float(one["confidence"])
        except ValueError:
            confidence = math.nan
        if not 0 <= confidence <= 1:
            raise _refused(
                path,
                f"the phrase {name}: the confidence {one['confidence'][:80]!r} is no number from "
                "0 to 1",
            )
    said = one["taIdent"] and one["taSource"]
    entity = EntityId(one["taSource"], one["taIdent"]) if said else None
    return Phrase(start, end, tuple(sorted(iris)), confidence, entity)


def _graph(path: Path) -> Graph:
    """All triples of a file; nothing is fetched, and what is no Turtle is refused."""
    try:
        from rdflib import Graph
        from rdflib.exceptions import Error as RdflibError
    except ImportError as error:
        raise UsageError(
            f"{path} is NIF in Turtle, which is read with rdflib",
            hint="pip install 'kglink[rdf]'",
        ) from error
    with Source.open_path(path) as source:
        check_text(source.label, source.head.head, source.file)
        with source.open() as stream:
            raw = stream.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise _refused(path, f"it is larger than {MOST_BYTES:,} bytes unpacked")
    graph = Graph(bind_namespaces="none")
    # rdflib's parser has errors of its own, and beyond them fails with whatever it stumbles over.
    faults = (
        *(RdflibError, SyntaxError, ArithmeticError, AssertionError, AttributeError),
        *(LookupError, RecursionError, TypeError, ValueError),
    )
    with _quiet():
        try:
            graph.parse(data=raw.decode("utf-8"), format="turtle", publicID=_BASE)
        except UnicodeDecodeError as error:
            raise _refused(path, f"its byte {error.start:,} is not UTF-8") from error
        except faults as error:
            first = next((one for one in str(error).splitlines() if one.strip()), type(error))
            raise _refused(path, f"it is not valid Turtle ({str(first)[:160]})") from error
    return graph


def _node(iri: str) -> URIRef:
    from rdflib import URIRef

    return URIRef(iri)


def _pairs(graph: Graph, predicate: str) -> Iterator[tuple[str, str]]:
    return ((str(one), str(value)) for one, value in graph.subject_objects(_node(predicate)))


def _all(graph: Graph, predicate: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for subject, value in _pairs(graph, predicate):
        found.setdefault(subject, []).append(value)
    return found


def _one(path: Path, name: str, fact: str, values: Sequence[str]) -> str:
    """The only value; empty where there is none."""
    if len(values) > 1:
        raise _refused(path, f"the phrase {name} has more than one {fact}")
    return values[0] if values else ""


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"cannot read {path}: {why}", hint=HINT)


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
