"""What the readers of ontologies share: ids, the ontology's own prefix, entities of terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import field_validator

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import CONSIDER, REPLACED_BY, Alias, CodeMapping, Entity
from kglink.sources import Source
from kglink.text.codes import code_of
from kglink_kbs.values import key_text, listed, one_line, plain_text

Scope = Literal["exact", "broad", "narrow", "related"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
#: Stands for every prefix in the setting.
ALL_PREFIXES = "*"

_READ = 2**20
#: No id is longer; a piece of the file that is larger holds none that was begun.
_LONGEST_ID = 2**12

_OBO = re.compile(r"https?://purl\.obolibrary\.org/obo/([A-Za-z][A-Za-z0-9.]*)_([^/#?\s]+)")
#: Vocabularies whose addresses elsewhere stand for a prefix: EFO, SWO, Orphanet, SIO.
_CODED = re.compile(
    r"https?://(?:www\.)?(?:ebi\.ac\.uk|orpha\.net|semanticscience\.org)/(?:\w+/)*"
    r"([A-Z][A-Za-z]+)_(\d{3,})"
)
_REGISTERED = re.compile(r"https?://identifiers\.org/([\w.-]+)[/:](\S+)")
_FILE_ENDING = re.compile(r"\.(?:owl|obo|json|ttl|ofn|rdf)$", re.IGNORECASE)


class OntologySettings(PluginSettings):
    """Which terms of an ontology are read, and what of them."""

    prefix: str = ""
    """Prefixes of the ids to read, separated by commas, or `*` for all; if empty, the ontology's
    own: the one that it is named after, else the most frequent."""
    synonyms: str = ",".join(SCOPES)
    """Scopes of the synonyms to read: `exact`, `broad`, `narrow`, `related`."""
    alt_ids: bool = True
    """Whether the ids of terms merged into one are among its xrefs."""
    type: Literal["namespace", "subset", "none"] = "namespace"
    """The type: the term's `namespace` (unless it is the default of the file), its `subset`s, or
    `none`."""

    @field_validator("synonyms")
    @classmethod
    def _known_scopes(cls, value: str) -> str:
        unknown = sorted(set(listed(value.lower())) - set(SCOPES))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(SCOPES)}")
        return value.lower()


@dataclass(slots=True)
class Term:
    """A term as its file has it; values that are not texts are refused by `entity_of`."""

    key: str
    title: object
    definition: object = ""
    url: str = ""
    namespace: str = ""
    synonyms: list[tuple[str, object]] = field(default_factory=list)
    xrefs: list[object] = field(default_factory=list)
    alt_ids: list[object] = field(default_factory=list)
    subsets: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)


def entity_of(term: Term, settings: OntologySettings, default_namespace: str) -> Entity:
    """The entity of ``term``."""
    scopes = listed(settings.synonyms)
    surfaces = (one_line(text, "a synonym") for scope, text in term.synonyms if scope in scopes)
    named = [*term.xrefs, *(term.alt_ids if settings.alt_ids else ())]
    xrefs = (one_line(xref, "an xref") for xref in named)
    parents = (key_text(parent, "a parent") for parent in term.parents)
    types = {
        "namespace": "" if term.namespace == default_namespace else term.namespace,
        "subset": ", ".join(term.subsets),
        "none": "",
    }
    return Entity(
        key=key_text(term.key, "the id"),
        title=one_line(term.title, "the name"),
        description=plain_text(term.definition, "the definition"),
        type=one_line(types[settings.type], "the type"),
        url=one_line(term.url, "the id"),
        aliases=tuple(Alias(text, "synonym") for text in dict.fromkeys(surfaces) if text),
        xrefs=tuple(xref for xref in dict.fromkeys(xrefs) if xref),
        parents=tuple(parent for parent in dict.fromkeys(parents) if parent),
    )


def curie(iri: str) -> str:
    """``PREFIX:CODE`` of an address that is known to stand for one; any other text as it is."""
    if not iri.startswith("http"):
        return iri
    for pattern in (_OBO, _REGISTERED, _CODED):
        if found := pattern.fullmatch(iri):
            return f"{found[1]}:{found[2]}"
    return iri


def prefix_of(key: str) -> str:
    """The prefix of an id: what stands before the colon, or the namespace of an address."""
    if "://" in key:
        return key[: max(key.rfind("/"), key.rfind("#")) + 1]
    prefix, colon, _ = key.partition(":")
    return prefix if colon else ""


def local_name(iri: str) -> str:
    """What stands behind the last ``/`` or ``#``."""
    return iri[max(iri.rfind("/"), iri.rfind("#")) + 1 :]


class OwnPrefixes:
    """Says which ids are of the ontology itself."""

    def __init__(self, setting: str, ontology: str, counts: Counter[str]) -> None:
        self._counts = counts
        self._all = setting.strip() == ALL_PREFIXES
        # The ontology is named after its prefix, else it is the most frequent one.
        named = [one for one in counts if ontology and one.casefold() == ontology.casefold()]
        likely = sorted(named or counts, key=counts.__getitem__, reverse=True)[:1]
        self.chosen = frozenset(listed(setting) or likely)

    def __contains__(self, key: str) -> bool:
        return self._all or prefix_of(key) in self.chosen

    def nothing_found(self, source: Source) -> SourceError:
        """The error of a file without a live term of these prefixes."""
        if self._all or not self._counts:
            return SourceError(
                f"{source.label} holds no term", hint="Terms without a name are not read."
            )
        there = ", ".join(f"{name} ({n:,})" for name, n in self._counts.most_common(8) if name)
        return SourceError(
            f"{source.label} holds no live term with the prefix {', '.join(sorted(self.chosen))}",
            hint=f"Prefixes of its ids: {there or 'none'}. Name some: --set prefix=A,B "
            "(* for all).",
        )


def ontology_name(name: str) -> str:
    """``go`` of ``go/extensions/go-plus``, ``doid`` of ``http://.../obo/doid.owl``."""
    _, slash, within = name.partition("/obo/")
    path = within.partition("/")[0] if slash else name.split("/")[-1 if "://" in name else 0]
    return _FILE_ENDING.sub("", path)


def survey(
    source: Source,
    mark: bytes,
    stem: re.Pattern[bytes],
    notes: Mapping[str, re.Pattern[bytes]] | None = None,
) -> tuple[Counter[str], Mapping[str, str]]:
    """How often each prefix occurs in ``source``, and the first hit of each of ``notes``.

    ``mark`` begins every id, ``stem`` takes the id up to its last sign of separation and three
    digits behind it, so that few differ and all tell their prefix. The text is cut
    into pieces where a mark stands, so that no hit is cut in two.
    """
    stems: Counter[bytes] = Counter()
    found: dict[str, str] = {}
    rest = b""
    with source.open_text() as stream:
        ended = False
        while not ended:
            piece = stream.read(_READ)
            ended = not piece
            data = rest + piece
            cut = len(data) if ended else max(data.rfind(mark), 0)
            if len(data) - cut > _LONGEST_ID:
                cut = len(data) - len(mark)
            stems.update(stem.findall(data, 0, cut))
            for name, pattern in (notes or {}).items():
                if name not in found and (hit := pattern.search(data, 0, cut)):
                    found[name] = hit[1].decode("utf-8", errors="replace")
            rest = data[cut:]
    prefixes: Counter[str] = Counter()
    for begun, count in stems.items():
        key = begun.decode("utf-8", errors="replace")
        # Any sign stands for a code that does not begin with a digit.
        prefixes[prefix_of(curie(key if key[-1:].isdigit() else f"{key}x"))] += count
    return prefixes, found


def successors(
    key: str, replaced_by: Iterable[str], consider: Iterable[str]
) -> Iterator[CodeMapping]:
    """What an obsolete term says took its place, or may be meant instead of it."""
    for predicate, targets in ((REPLACED_BY, replaced_by), (CONSIDER, consider)):
        for target in targets:
            if code_of(key) and code_of(target):
                yield CodeMapping(key, target, predicate)
