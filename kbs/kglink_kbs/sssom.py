"""SSSOM: mappings between the entities of KBs, as a table with tabs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from kglink.errors import RecordError, SourceError
from kglink.protocols import PluginSettings
from kglink.records import CodeMapping, Record, Verdict
from kglink.sources import Problems, Source, SourceHead
from kglink.text.codes import code_of
from kglink_kbs.values import BadValue, checked, finite_number, shortened

_NEEDED = ("subject_id", "predicate_id", "object_id")
_SAME = "skos:exactMatch,owl:sameAs,owl:equivalentClass,oboInOwl:hasDbXref"
#: What SSSOM writes where a term has no counterpart.
_NOTHING = re.compile(r"(?:sssom:)?NoTermFound|NoMapping", re.IGNORECASE)
_IRIS = {
    "http://www.w3.org/2004/02/skos/core#": "skos:",
    "http://www.w3.org/2002/07/owl#": "owl:",
    "http://www.geneontology.org/formats/oboInOwl#": "oboInOwl:",
}


class SssomSettings(PluginSettings):
    """Settings of ``kglink/sssom``."""

    use: Literal["xrefs", "overlaps"] = Field(
        "xrefs",
        description="What the mappings become: `xrefs`, through which golds are resolved, or "
        "`overlaps` with a verdict.",
    )
    predicates: str = Field(
        _SAME, description="Predicates that say that two are the same, separated by commas."
    )
    min_confidence: float = Field(
        0.0, ge=0, le=1, description="Mappings less confident than this are left out."
    )


class SssomAdapter:
    """Reads the rows of a mapping set; what says nothing of sameness is left out."""

    def __init__(self, settings: SssomSettings) -> None:
        self._settings = settings
        self._predicates = frozenset(map(str.strip, settings.predicates.split(",")))

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield a mapping for each row that joins two codes as the same (or not the same)."""
        columns: dict[str, int] = {}
        for line in source.lines(problems):
            if not line.text.strip() or (line.text.startswith("#") and not columns):
                continue
            cells = line.text.split("\t")
            place = source.where(line.number)
            if not columns:
                columns = _columns(cells, place)
                continue
            try:
                mapping = self._mapping(cells, columns)
            except BadValue as bad:
                problems.report(RecordError(bad.message, where=place, hint=bad.hint))
                continue
            if mapping:
                yield mapping
        if not columns:
            raise SourceError(
                f"{source.label} has no header row", hint=f"Its columns are {', '.join(_NEEDED)}."
            )

    def _mapping(self, cells: list[str], columns: Mapping[str, int]) -> CodeMapping | None:
        if len(cells) != len(columns):
            raise BadValue(
                f"a row of {len(cells)} cells under a header of {len(columns)}",
                "Cells are separated by tabs and hold neither tabs nor line breaks.",
            )
        values = {name: _unquoted(cells[place]) for name, place in columns.items()}
        predicate = _short(values["predicate_id"])
        ends = values["subject_id"], values["object_id"]
        confidence = _confidence(values.get("confidence", ""))
        denied = values.get("predicate_modifier", "").lower() == "not"
        overlaps = self._settings.use == "overlaps"
        if any(map(_NOTHING.fullmatch, ends)) or (denied and not overlaps):
            return None
        if predicate not in self._predicates or confidence < self._settings.min_confidence:
            return None
        for end in ends:
            if not code_of(checked(end, "an id")):
                raise BadValue(
                    f"{shortened(end)} is no code", "Ids are written DOID:1485 or as addresses."
                )
        verdict: Verdict = "wrong" if denied else "correct"
        return CodeMapping(*ends, predicate, confidence, verdict if overlaps else None)


def sniff(head: SourceHead) -> float:
    """Sure of a header with a subject, a predicate and an object."""
    text = head.head.decode("utf-8-sig", errors="ignore")
    rows = (line for line in text.split("\n") if line.strip() and not line.startswith("#"))
    header = next(rows, "").rstrip("\r").split("\t")
    return 0.95 if set(_NEEDED) <= set(map(_unquoted, header)) else 0.0


def _columns(header: list[str], place: str) -> dict[str, int]:
    columns = {_unquoted(name): number for number, name in enumerate(header)}
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise SourceError(
            f"{place}: the header has no column {' or '.join(missing)}",
            hint="SSSOM tables are separated by tabs; sssom-py converts other forms of it.",
        )
    if len(columns) < len(header):
        raise SourceError(f"{place}: the header names a column twice", hint="Rename one of them.")
    return columns


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"').strip()
    return cell


def _short(predicate: str) -> str:
    """``skos:exactMatch`` for an address that means it."""
    for iri, prefix in _IRIS.items():
        if predicate.startswith(iri):
            return prefix + predicate.removeprefix(iri)
    return predicate


def _confidence(cell: str) -> float:
    if not cell:
        return 1.0
    value = finite_number(cell, "confidence")
    if not 0 <= value <= 1:
        raise BadValue(f"confidence is {shortened(cell)}, which does not lie between 0 and 1")
    return value
