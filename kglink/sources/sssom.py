"""SSSOM tables: mappings between the entities of KBs, with tabs between the columns.

The format: https://mapping-commons.github.io/sssom/. `SssomReader` reads the rows of a table and
the head above them, whoever wrote it; what a row means is for its reader to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kglink.errors import RecordError, SourceError
from kglink.sources import Problems, Source, SourceHead

NEEDED = ("subject_id", "predicate_id", "object_id")
#: Predicates that say that two entities are the same thing.
SAME = ("skos:exactMatch", "owl:sameAs", "owl:equivalentClass", "oboInOwl:hasDbXref")

#: What SSSOM writes where a term has no counterpart.
_NOTHING = re.compile(r"(?:sssom:)?NoTermFound|NoMapping", re.IGNORECASE)
_IRIS = {
    "http://www.w3.org/2004/02/skos/core#": "skos:",
    "http://www.w3.org/2002/07/owl#": "owl:",
    "http://www.geneontology.org/formats/oboInOwl#": "oboInOwl:",
}
_MAPS = frozenset({"curie_map", "prefix_map"})
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class SssomRow:
    """A row, and where it stands; ``denied`` where the predicate is said not to hold."""

    place: str
    subject: str
    predicate: str
    object: str
    denied: bool
    confidence: float
    values: Mapping[str, str]

    @property
    def joins_nothing(self) -> bool:
        """Whether it says that a term has no counterpart."""
        return any(map(_NOTHING.fullmatch, (self.subject, self.object)))


class SssomReader:
    """Reads a table; above it stand plain ``values``, and the ``prefixes`` of its ids.

    Both are whole once the first row, or the end, is reached.
    A bad row is reported to ``problems``; a table without the columns that it needs is refused.
    """

    def __init__(self, source: Source, problems: Problems) -> None:
        self.values: dict[str, str] = {}
        self.prefixes: dict[str, str] = {}
        self._source = source
        self._problems = problems

    def __iter__(self) -> Iterator[SssomRow]:
        columns: dict[str, int] = {}
        map_depth = math.inf
        for line in self._source.lines(self._problems):
            if not line.text.strip():
                continue
            head = "" if columns else unquoted(line.text)  # a spreadsheet quotes it
            if head.startswith("#"):
                map_depth = self._read_head(head[1:], map_depth)
                continue
            place = self._source.where(line.number)
            cells = line.text.split("\t")
            if not columns:
                columns = columns_of(cells, place)
                continue
            try:
                row = _row(cells, columns, place)
            except RecordError as error:
                self._problems.report(error)
                continue
            yield row
        if not columns:
            raise SourceError(
                f"{self._source.label} has no header row",
                hint=f"Its columns are {', '.join(NEEDED)}.",
            )

    def _read_head(self, line: str, map_depth: float) -> float:
        """Take in a line of the head, which is YAML; what is deeper than ``map_depth`` is a prefix.

        Returned is that depth for the next line; infinite where no map is open.
        """
        name, colon, value = line.strip().partition(":")
        name, value = _bare(name), _bare(value)
        depth = len(line) - len(line.lstrip())
        if not colon:
            return map_depth
        if not value:
            return depth if name in _MAPS else math.inf
        if depth > map_depth:
            self.prefixes[name] = value
            return map_depth
        self.values[name] = value
        return math.inf


def first_columns(head: SourceHead) -> set[str]:
    """What the first row of a table says."""
    text = head.head.decode("utf-8-sig", errors="replace")
    rows = (line for line in text.split("\n") if line.strip() and not line.startswith(("#", '"#')))
    return set(map(unquoted, next(rows, "").split("\t")))


def columns_of(header: list[str], place: str) -> dict[str, int]:
    """The place of each column; a header without those that are needed is refused."""
    columns = {unquoted(name): number for number, name in enumerate(header)}
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise SourceError(
            f"{place}: the header has no column {' or '.join(missing)}",
            hint="SSSOM tables are separated by tabs; sssom-py converts other forms of it.",
        )
    if len(columns) < len(header):
        raise SourceError(f"{place}: the header names a column twice", hint="Rename one of them.")
    return columns


def unquoted(cell: str) -> str:
    """What a cell says, without the quotes round it."""
    cell = cell.strip()
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"').strip()
    return cell


def _row(cells: list[str], columns: Mapping[str, int], place: str) -> SssomRow:
    if len(cells) != len(columns):
        raise RecordError(
            f"a row of {len(cells)} cells under a header of {len(columns)}",
            where=place,
            hint="Cells are separated by tabs and hold neither tabs nor line breaks.",
        )
    values = {name: unquoted(cells[at]) for name, at in columns.items()}
    predicate = values["predicate_id"]
    for iri, prefix in _IRIS.items():
        if predicate.startswith(iri):
            predicate = prefix + predicate.removeprefix(iri)
    return SssomRow(
        place=place,
        subject=values["subject_id"],
        predicate=predicate,
        object=values["object_id"],
        denied=values.get("predicate_modifier", "").lower() == "not",
        confidence=_confidence(values.get("confidence", ""), place),
        values=values,
    )


def _confidence(cell: str, place: str) -> float:
    """A row without a confidence is sure of itself."""
    if not cell:
        return 1.0
    shown = repr(cell if len(cell) <= _LONGEST_SHOWN else cell[:_LONGEST_SHOWN] + "...")
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RecordError(f"confidence is {shown}, not a finite number", where=place)
    if not 0 <= value <= 1:
        raise RecordError(f"confidence is {shown}, which does not lie between 0 and 1", where=place)
    return value


def _bare(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
