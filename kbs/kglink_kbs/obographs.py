"""Ontologies in the OBO Graphs format: one JSON object with all nodes and edges in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Set
from functools import partial
from typing import Any

from kglink.records import Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.json_stream import JsonWalk
from kglink_kbs.ontology import (
    SCOPES,
    OntologySettings,
    OwnPrefixes,
    Term,
    curie,
    entity_of,
    local_name,
    ontology_name,
    successors,
    survey,
)
from kglink_kbs.rdf import OBO, OIO
from kglink_kbs.values import BadValue, described, good_ones, list_of, object_of, objects_of

_NAMESPACE = f"{OIO}hasOBONamespace"
_ALTERNATIVE_ID = f"{OIO}hasAlternativeId"
_REPLACED_BY, _CONSIDER = f"{OBO}IAO_0100001", f"{OIO}consider"
#: The scope of a synonym by its predicate.
_SCOPES = {f"has{scope.title()}Synonym": scope for scope in SCOPES}

_ID_STEM = re.compile(rb'"id"\s*:\s*"([^"\\]*[_#/:][0-9]{0,3})?')
_NOTES = {
    "graph": re.compile(rb'"id"\s*:\s*"([^"\\]+\.(?:owl|json|obo|ttl|ofn|rdf))"'),
    "namespace": re.compile(rb'#default-namespace"\s*,\s*"val"\s*:\s*"([^"\\]*)"'),
}
_HINT = "An OBO graph cannot be read past its first fault; fetch or write the file again."
_START = re.compile(rb'\s*\{\s*"(?:graphs|nodes|edges|id|meta|@context)"\s*:', re.DOTALL)
_GRAPHS = re.compile(rb'"graphs"\s*:\s*\[')
_LISTS = re.compile(rb'"(?:nodes|edges)"\s*:\s*\[')
_NODE = re.compile(rb'"(?:lbl|meta)"\s*:')


class ObographsAdapter:
    """Reads one entity from each live node of all graphs in a file."""

    def __init__(self, settings: OntologySettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        prefixes, notes = survey(source, b'"id"', _ID_STEM, _NOTES)
        own = OwnPrefixes(self._settings.prefix, ontology_name(notes.get("graph", "")), prefixes)
        default_namespace = notes.get("namespace", "")
        parents = _parents(source, own, problems)
        found = False
        nodes = ((source.where(line), node) for line, node in _listed(source, "nodes"))
        make = partial(self._records, own, parents, default_namespace)
        for records in good_ones(nodes, lambda node: list(make(node)), problems):
            found = found or any(isinstance(one, Entity) for one in records)
            yield from records
        if not found and not problems.total:
            raise own.nothing_found(source)

    def _records(
        self,
        own: OwnPrefixes,
        parents: Mapping[str, list[str]],
        default_namespace: str,
        node: object,
    ) -> Iterator[Record]:
        """The entity of a live node; of an obsolete one what took its place."""
        fields = object_of(node, "a node")
        key = fields.get("id")
        if not isinstance(key, str) or not key.strip():
            raise BadValue("a node without an id")
        meta = object_of(fields.get("meta"), "meta")
        name = curie(key)
        label = fields.get("lbl")
        if isinstance(label, str):
            label = label.strip()
        if name not in own:
            return
        if meta.get("deprecated") in (True, "true"):
            targets = {_REPLACED_BY: list[str](), _CONSIDER: list[str]()}
            for value in objects_of(meta, "basicPropertyValues"):
                if (pred := _text(value, "pred")) in targets and "val" in value:
                    targets[pred].append(curie(_text(value, "val").strip()))
            yield from successors(name, targets[_REPLACED_BY], targets[_CONSIDER])
            return
        if not label:
            return
        term = _term(name, key, fields, meta)
        term.parents = parents.get(name, [])
        yield entity_of(term, self._settings, default_namespace)


def _term(name: str, address: str, fields: dict[str, Any], meta: dict[str, Any]) -> Term:
    term = Term(name, fields["lbl"], url=address if "://" in address else "")
    term.definition = object_of(meta.get("definition"), "the definition").get("val")
    for synonym in objects_of(meta, "synonyms"):
        scope = _SCOPES.get(local_name(_text(synonym, "pred")), "related")
        term.synonyms.append((scope, synonym.get("val")))
    term.xrefs = [curie(_text(xref, "val").strip()) for xref in objects_of(meta, "xrefs")]
    for value in objects_of(meta, "basicPropertyValues"):
        pred = _text(value, "pred")
        if "val" not in value:
            continue
        if pred == _NAMESPACE:
            term.namespace = term.namespace or _text(value, "val")
        elif pred == _ALTERNATIVE_ID:
            term.alt_ids.append(curie(_text(value, "val").strip()))
        elif pred.endswith("exactMatch"):
            term.xrefs.append(curie(_text(value, "val").strip()))
    subsets = list_of(meta.get("subsets"), "subsets")
    term.subsets = [local_name(subset) for subset in subsets if isinstance(subset, str)]
    return term


def _parents(source: Source, own: OwnPrefixes, problems: Problems) -> dict[str, list[str]]:
    """The parents of each node by the ``is_a`` edges of all graphs, which follow on the nodes."""
    parents: dict[str, list[str]] = {}
    for line, value in _listed(source, "edges"):
        try:
            edge = object_of(value, "an edge")
            if edge.get("pred") != "is_a":
                continue
            child, parent = (curie(_text(edge, name)) for name in ("sub", "obj"))
        except BadValue as bad:
            problems.report(bad.at(source.where(line)))
            continue
        if child in own:
            parents.setdefault(child, []).append(sys.intern(parent))
    return parents


def _listed(source: Source, name: str) -> Iterator[tuple[int, object]]:
    """The nodes or edges of every graph, each with the line on which it begins."""
    with source.open_text() as stream:
        walk = JsonWalk(source, stream, _HINT)
        if walk.sign() != "{":
            raise walk.broken("an object is wanted")
        yield from _of_object(walk, name, {name, "graphs"})
        walk.end()


def _of_object(walk: JsonWalk, name: str, lists: Set[str]) -> Iterator[tuple[int, object]]:
    """The items of the list ``name`` in one graph, or in all graphs of a file."""
    for member in walk.members():
        if member not in lists or walk.sign() != "[":
            walk.skip()
            continue
        for _ in walk.items():
            if member == name:
                yield walk.line, walk.value()
            elif walk.sign() == "{":
                yield from _of_object(walk, name, {name})
            else:
                walk.skip()


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise BadValue(f"{name} is {described(value)}, not a text")
    return value


def sniff(head: SourceHead) -> float:
    """Sure of an object that holds graphs, and in them lists of nodes or edges."""
    data = head.head.removeprefix(b"\xef\xbb\xbf")
    if not _START.match(data) or not _LISTS.search(data):
        return 0.0
    return 0.95 if _GRAPHS.search(data) else 0.7 if _NODE.search(data) else 0.0
