"""Thesauri and ontologies as RDF: SKOS concepts and OWL classes, in any usual syntax."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

from pydantic import Field, field_validator

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.ontology import curie, local_name, successors
from kglink_kbs.rdf import (
    CLASS_TYPES,
    FIELDS,
    NO_CONCEPT_TYPES,
    OBO,
    OWL,
    PLAIN_TYPES,
    RDF_MARKS,
    Resource,
    Resources,
    Syntax,
    place_of,
    syntax_of,
)
from kglink_kbs.values import BadValue, good_ones, key_text, listed, one_line, plain_text


class SkosSettings(PluginSettings):
    """Settings of ``kglink/skos``."""

    languages: str = "en"
    """Languages of the labels and definitions, the best first, separated by commas; `en` takes
    `en-GB` too, behind `en`, and texts without a language always count."""
    key: Literal["iri", "local", "notation"] = "iri"
    """The key: the `iri` (DOID:4 in OBO ontologies), the part after its last / or # (`local`), or
    the `notation`."""
    prefix: str = ""
    """Beginnings of the ids to read (DOID:, http://.../), separated by commas; empty: all."""
    matches: Literal["exact", "close", "none"] = "exact"
    """Which mappings are xrefs: `exact` ones, `close` ones too, or `none`."""
    syntax: Syntax = "auto"
    """The syntax of the file; `auto`: by its content."""
    grouped: bool = False
    """N-Triples only: all lines about a concept stand together (as `sort` leaves them), so that one
    concept at a time is held in memory."""
    max_mb: int = Field(1024, gt=0)
    """The largest file, unpacked, that is read whole (any syntax but N-Triples)."""

    @field_validator("languages")
    @classmethod
    def _some(cls, value: str) -> str:
        if not listed(value):
            raise ValueError("names no language")
        return value.lower()


class SkosAdapter:
    """Reads one entity from each concept or class that has a label."""

    def __init__(self, settings: SkosSettings) -> None:
        from kglink_kbs.rdf_reading import resources_of  # needs rdflib, an extra

        self._resources_of = resources_of
        self._settings = settings
        self._languages = listed(settings.languages)
        self._prefixes = tuple(listed(settings.prefix))
        self._seen: Counter[str] = Counter()
        self._default: set[str] | None = None

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in the order of their first mention."""
        source.check_text()
        settings = self._settings
        syntax = settings.syntax if settings.syntax != "auto" else syntax_of(source.head)
        if syntax == "auto":
            source.open().close()  # a folder is refused as one
            raise SourceError(
                f"{source.label} is in no syntax of RDF that is known",
                hint="Turtle, RDF/XML, N-Triples and JSON-LD are read: --set syntax=...",
            )
        batches = self._resources_of(
            source,
            problems,
            syntax,
            fields=FIELDS,
            grouped=settings.grouped,
            max_bytes=settings.max_mb * 2**20,
        )
        named = (
            (place_of(source, iri), (iri, resource, resources))
            for resources in batches
            for iri, resource in resources.items()
        )
        self._seen.clear()
        self._default = None
        records = good_ones(
            named,
            lambda one: self._records(*one),
            problems,
            nothing=lambda: self._nothing_found(source),
        )
        return chain.from_iterable(records)

    def _records(
        self, iri: str, resource: Resource, resources: Resources
    ) -> Sequence[Record] | None:
        """The entity; of a deprecated resource what took its place; None where there is neither."""
        if all(value.text not in ("true", "1") for value in resource.get("deprecated", ())):
            entity = self._entity(iri, resource, resources)
            return None if entity is None else (entity,)
        named = (resource.get(field, ()) for field in ("replaced_by", "consider"))
        after = ([curie(value.text) for value in values] for values in named)
        name = curie(iri)
        is_wanted = self._settings.key == "iri" and name.startswith(self._prefixes or "")
        return (tuple(successors(name, *after)) if is_wanted else ()) or None

    def _entity(self, iri: str, resource: Resource, resources: Resources) -> Entity | None:
        """The entity, or None of a resource that is none or has no label."""
        named = (value.text for value in resource.get("type", ()))
        types = {one for one in named if not one.startswith("_:")}
        is_concept = "label" in resource or (
            "name" in resource and not types.isdisjoint(CLASS_TYPES)
        )
        if iri.startswith("_:") or not is_concept or types & NO_CONCEPT_TYPES:
            return None
        name = curie(iri)
        if self._prefixes and not name.startswith(self._prefixes):
            return None
        titles = self._chosen("label", resource, resources)
        names = self._chosen("name", resource, resources)
        title = next(iter(titles or names), None)
        if title is None:
            return None
        surfaces = [
            *(Alias(text, "synonym") for text, _ in [*titles, *names] if text != title[0]),
            *(Alias(text, "synonym") for text, _ in self._chosen("alt", resource, resources)),
            *(Alias(text, "alias") for text, _ in self._chosen("hidden", resource, resources)),
        ]
        # Comments on the terms of OBO are notes of its curators.
        described = ("definition", "note", *(["comment"] if not iri.startswith(OBO) else []))
        found = (self._chosen(field, resource, resources, one=False) for field in described)
        texts = next(filter(None, found), [])
        key = self._key_of(name, iri, resource)
        if not key:
            raise BadValue(
                f"a concept without a {self._settings.key} key", "--set key=iri always works."
            )
        same = {"exact": ("exact",), "close": ("exact", "close"), "none": ()}
        matches = (one for name in same[self._settings.matches] for one in resource.get(name, ()))
        xrefs = (curie(one_line(value.text, "an xref")) for value in matches)
        return Entity(
            key=key,
            title=title[0],
            description=texts[0][0] if texts else "",
            type=", ".join(sorted(map(local_name, types - PLAIN_TYPES)))
            or self._namespace(resource, resources),
            url=one_line(iri, "the id") if iri.startswith("http") else "",
            language=title[1],
            aliases=tuple(dict.fromkeys(surfaces)),
            xrefs=tuple(xref for xref in dict.fromkeys(xrefs) if xref and xref[:2] != "_:"),
            parents=tuple(self._parents(resource, resources)),
        )

    def _nothing_found(self, source: Source) -> SourceError:
        """The error of a file without a concept that can be read."""
        if self._seen:
            there = ", ".join(f"{name} ({n:,})" for name, n in self._seen.most_common(12))
            return SourceError(
                f"{source.label} holds no concept with a label in {self._settings.languages}",
                hint=f"Its labels are in: {there}. Name some: --set languages=A,B",
            )
        return SourceError(
            f"{source.label} holds no concept",
            hint="Read are SKOS concepts (skos:prefLabel) and OWL classes (rdfs:label) that are "
            "not deprecated"
            + (f" and begin with {self._settings.prefix}." if self._prefixes else "."),
        )

    def _chosen(
        self, name: str, resource: Resource, resources: Resources, *, one: bool = True
    ) -> list[tuple[str, str]]:
        """Texts and languages of a field, those of the best language first."""
        ranked: list[tuple[int, str, str]] = []
        # Of a value that is a resource of its own (SKOS-XL), the text that it holds.
        resolved = (
            [value] if value.is_text else resources.get(value.text, {}).get("form", ())
            for value in resource.get(name, ())
        )
        for value in chain.from_iterable(resolved):
            rank = self._rank(value.language)
            if rank < 0:
                if name in ("label", "name"):
                    self._seen[value.language] += 1
                continue
            text = one_line(value.text, name) if one else plain_text(value.text, name)
            if text:
                ranked.append((rank, text, value.language))
        ranked.sort(key=lambda item: (item[0], item[2]))  # of en-US and en-GB always the same
        return [(text, language) for _, text, language in ranked]

    def _rank(self, language: str) -> int:
        """The place of a language among the chosen ones; -1 where it is none of them."""
        if not language:
            return 2 * len(self._languages)
        for place, wanted in enumerate(self._languages):
            if language == wanted:
                return 2 * place
            if language.startswith(f"{wanted}-"):
                return 2 * place + 1
        return -1

    def _namespace(self, resource: Resource, resources: Resources) -> str:
        """The namespace of a term of OBO, where a file that is read whole has another default."""
        if "namespace" not in resource or self._settings.grouped:
            return ""
        if self._default is None:
            named = (one.get("default_namespace", ()) for one in resources.values())
            self._default = {value.text for value in chain.from_iterable(named)}
        name = one_line(resource["namespace"][0].text, "the type")
        return name if self._default and name not in self._default else ""

    def _key_of(self, name: str, iri: str, resource: Resource) -> str:
        match self._settings.key:
            case "iri":
                return key_text(name, "the id")
            case "local":
                return key_text(local_name(iri), "the id")
            case "notation":
                values = resource.get("notation", ())
                return key_text(values[0].text, "the notation") if values else ""

    def _parents(self, resource: Resource, resources: Resources) -> Iterator[str]:
        """The keys of broader concepts; none of one whose notation is not in sight."""
        values = (value.text for value in resource.get("broader", ()) if not value.is_text)
        for iri in dict.fromkeys(values):
            if iri.startswith("_:") or iri == f"{OWL}Thing":  # nothing with a name of its own
                continue
            if key := self._key_of(curie(iri), iri, resources.get(iri, {})):
                yield key


def sniff(head: SourceHead) -> float:
    """Sure of RDF that names SKOS or OWL, fairly sure of any other."""
    if syntax_of(head) == "auto":
        return 0.0
    return 0.9 if any(mark in head.head for mark in RDF_MARKS) else 0.6
