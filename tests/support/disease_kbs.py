"""The three real ontologies of the disease benchmark as entity JSONL.

A test helper: the ``obo`` and ``obographs`` adapters of a later step read these files themselves.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KB_FILES = {
    "doid": "doid.obographs.json.gz",
    "ncit": "ncit.obographs.json.gz",
    "hp": "hp.obo.gz",
}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def disease_entities(kb: str, disease: Path) -> Iterator[dict[str, Any]]:
    """The live entities of one ontology: not obsolete, labelled, of its own prefix."""
    path = disease / "kb" / KB_FILES[kb]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        read = _obo_terms(lines) if path.name.endswith(".obo.gz") else _obographs(json.load(lines))
        for entity in read:
            if entity["id"].startswith(kb.upper() + ":"):
                yield entity


def write_disease_jsonl(kb: str, disease: Path, target: Path) -> Path:
    """Write one ontology as entity JSONL and return the file's path."""
    with target.open("w", encoding="utf-8") as out:
        for entity in disease_entities(kb, disease):
            out.write(json.dumps(entity, ensure_ascii=False) + "\n")
    return target


def _obographs(graphs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for graph in graphs["graphs"]:
        for node in graph["nodes"]:
            meta = node.get("meta", {})
            if meta.get("deprecated") or not node.get("lbl"):
                continue
            yield {
                "id": node["id"].rsplit("/", 1)[-1].replace("_", ":", 1),
                "title": node["lbl"],
                "description": meta.get("definition", {}).get("val", ""),
                "aliases": [synonym["val"] for synonym in meta.get("synonyms", [])],
                "url": node["id"],
            }


def _obo_terms(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    term: dict[str, Any] = {}
    in_term = False
    for line in map(str.rstrip, lines):
        if line.startswith("["):
            if _live(term):
                yield term
            in_term, term = line == "[Term]", {"aliases": []}
        elif in_term and ": " in line:
            _read_tag(term, *line.split(": ", 1))
    if _live(term):
        yield term


def _live(term: dict[str, Any]) -> bool:
    return bool(term.get("id") and term.get("title") and not term.pop("obsolete", False))


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape.group(1) == "n" else escape.group(1)


def _read_tag(term: dict[str, Any], tag: str, value: str) -> None:
    if tag == "id":
        term["id"] = value
        term["url"] = "http://purl.obolibrary.org/obo/" + value.replace(":", "_")
    elif tag == "name":
        term["title"] = value
    elif tag == "is_obsolete":
        term["obsolete"] = value == "true"
    elif tag in ("def", "synonym") and (quoted := _QUOTED.match(value)):
        text = _ESCAPE.sub(_unescaped, quoted.group(1))
        if tag == "def":
            term["description"] = text
        else:
            term["aliases"].append(text)
