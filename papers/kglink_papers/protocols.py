"""The tables of the papers: what each prints, and how it is made.

`reference_figures.toml` holds the figures, `protocols.toml` what is trained and judged, on which
data.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from pydantic.dataclasses import dataclass as read_dataclass

from kglink.errors import UnknownNameError
from kglink_papers.data import READ, Column, Layout

_DEVIATION = " ±"

Average = Literal["micro", "macro"]

#: What a metric says of a column, by how its name begins.
MEANINGS = {
    "R@": "R@k is the share of mentions with a right entity among the first k candidates.",
    "AP@": "AP@1 is the share of mentions whose first candidate is right.",
    "MAP@": "MAP@10 is the mean over mentions of 1 / place of the first right candidate, 0 beyond "
    "the tenth.",
    "MRR": "MRR is the mean over overlaps of 1 / place of the counterpart where all entities are "
    "searched with the target KB's; the entity itself stands first, so that .5 is the most.",
    "ACS": "ACS is the mean cosine of the two entities of an overlap.",
    "accuracy": "accuracy is the share of mentions whose first candidate is right; where the gold "
    "was not found, it is wrong.",
    "normalised": "normalised accuracy leaves out mentions whose gold is not among the candidates.",
    "oracle": "oracle figures are accuracy where the gold is put among the candidates: of the "
    "row's own list (self) in the place of the last, or behind the lists of all rows (union).",
    "linked": "linked accuracy is that of mentions linked by clusters, as validation chose them.",
    "ARI": "ARI is the adjusted Rand index of clusters of mentions, cut as validation chose.",
    "discovery": "discovery ARI is ARI of clusters with entities where a tenth of the golds is "
    "taken out of the KB.",
    "mention R@": "mention R@64 is the share of a mention's like that is among its 64 nearest "
    "mentions.",
    "mentions": "mentions are those of a split.",
    "pairs": "pairs are those of entities with equal titles.",
    "kept pairs": "kept pairs are those whose descriptions have a cosine of .5 or more.",
}


@read_dataclass(frozen=True, slots=True, config=READ)
class Row:
    """A row of a table, and what trains it."""

    name: str
    figures: tuple[float, ...] = ()
    """In the order of the table's columns; not a number where we have none."""
    recipe: str = ""
    """What trains the row; of a reranked row, what retrieves."""
    reranked: bool = False
    """Whether the figures come after a cross-encoder that was trained for the row."""
    reranker: str = ""
    """The recipe of that cross-encoder."""
    by: str = ""
    """Whose figures they are, where the paper trained nothing for the row."""
    sources: str = ""
    untrained: bool = False
    """Whether the model is judged as it comes."""
    found_by: str = "vectors"
    """What finds candidates, as the setting `link.found_by` has it."""
    not_run: str = ""
    """Why the row is not run; empty where it is."""
    part: str = ""
    """What is judged in the place of the column's part."""
    lists: str = ""
    """The file in the data folder whose candidates are read; empty: those that the model finds."""
    teacher: str = ""
    """The recipe of the bi-encoder and the cross-encoder that the row learns from."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values of the recipe that are others in this row."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the space that the row is searched with."""


@read_dataclass(frozen=True, slots=True, config=READ)
class ReferenceTable:
    """A table as a paper prints it."""

    name: str
    source: str
    """Paper and table, as recipes name them: `AMH, Table 2`."""
    title: str
    """What is measured, and how."""
    columns: tuple[str, ...]
    cited: str
    """The column that recipes quote; empty: none."""
    rows: tuple[Row, ...]
    unit: Literal["percent", "share"] = "percent"


@dataclass(frozen=True, slots=True)
class Protocol:
    """How one table is made."""

    name: str
    table: ReferenceTable
    data: Layout
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    baselines: tuple[str, ...]
    average: Average = "micro"
    reranked: int = 0
    """How many candidates a cross-encoder orders anew that nobody trains; 0: none."""
    differs: tuple[str, ...] = ()
    """What differs from the paper in every run."""
    adapted: tuple[str, ...] = ()
    """What differs from the paper where the protocol is adapted to other data."""

    @property
    def title(self) -> str:
        """What the table is of; an adapted one says so."""
        adapted = ", ADAPTED to other data" if self.adapted else ""
        return f"{self.table.source}{adapted}: {self.table.title}"

    @property
    def meanings(self) -> tuple[str, ...]:
        """What rows and figures say, for who did not read the paper."""
        metrics = tuple(one.metric for one in self.columns)
        known = (
            meaning
            for begin, meaning in MEANINGS.items()
            if any(metric.startswith(begin) for metric in metrics)
        )
        return (*self.data.rows, *known)

    def row(self, name: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def rows_to_run(self) -> list[Row]:
        """The rows that can be run."""
        return [row for row in self.rows if not row.not_run]

    def baseline_of(self, row: str) -> str:
        """The baseline that a row is tested against: the one it shares most of its name with."""
        words = set(row.split(", "))
        if not self.baselines:
            return row
        return max(self.baselines, key=lambda one: (one == row, len(words & set(one.split(", ")))))

    def paper(self, row: Row, column: Column) -> tuple[float, float]:
        """The paper's figure and its deviation over seeds; not a number where it has none."""
        printed = {one.name: one.figures for one in self.table.rows}.get(row.name, ())
        figures = dict(zip(self.table.columns, printed, strict=False))  # of such a row, or none
        return figures.get(column.name, math.nan), figures.get(column.name + _DEVIATION, math.nan)

    @property
    def unit(self) -> Literal["percent", "share", "count"]:
        """What its figures are."""
        if all(one.is_count for one in self.columns):
            return "count"
        return self.table.unit

    @property
    def scale(self) -> float:
        """What a share is multiplied with: four of the papers print percent."""
        return 100.0 if self.unit == "percent" else 1.0


@cache
def reference_figures() -> Mapping[str, ReferenceTable]:
    """All tables by name, `blink/table-1` and so on, paper by paper."""
    tables = _read("reference_figures.toml").items()
    return MappingProxyType({name: ReferenceTable(name=name, **table) for name, table in tables})


@cache
def protocols() -> Mapping[str, Protocol]:
    """All protocols by name, paper by paper."""
    tables = _read("protocols.toml")
    layouts = {name: Layout(name=name, **values) for name, values in tables.pop("data").items()}
    found = {}
    for name, values in tables.items():
        table = reference_figures()[values.get("of", name)]
        found[name] = Protocol(
            name=name,
            table=table,
            data=layouts[values["data"]],
            columns=tuple(_columns(values.get("columns", table.columns), values)),
            rows=tuple(_rows(table, values)),
            baselines=tuple(values.get("baselines", ())),
            average=values.get("average", "micro"),
            reranked=values.get("reranked", 0),
            differs=tuple(values.get("differs", ())),
            adapted=tuple(values.get("adapted", ())),
        )
    return MappingProxyType(found)


def find_protocol(name: str) -> Protocol:
    """The protocol of a name, such as `amh/table-2`."""
    known = protocols()
    if name not in known:
        kinds = [one for one in known if one.startswith(f"{name}-")]
        more = f"Its data are of two kinds: {', '.join(kinds)}. " if kinds else ""
        hint = f"{more}`kglink reproduce` lists them."
        raise UnknownNameError("protocol", name, list(known), hint=hint)
    return known[name]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("kglink_papers") / name).read_text("utf-8"))


def _columns(names: Sequence[str], values: Mapping[str, Any]) -> Iterator[Column]:
    for name in names:
        part, _, metric = name.rpartition(" ")
        if name.endswith(_DEVIATION) or metric == "epoch":
            continue  # of seeds it is computed; how fast others' machines were is no figure
        if "metric" in values:
            part, metric = name, values["metric"]
        given = {"part": part or values.get("part", ""), "metric": metric}
        yield Column(name, **given | values.get("figures", {}).get(name, {}))


def _rows(table: ReferenceTable, values: Mapping[str, Any]) -> Iterator[Row]:
    if "rows" in values:
        for side in values.get("sides", [""]):
            for given in values["rows"]:
                name = f"{given['name']}, {side}" if side else given["name"]
                yield Row(**{**given, "name": name})
        return
    run = values.get("run", {})
    every = values.get("every", {})
    for row in table.rows:
        if row.name in run:
            yield replace(row, **every | run[row.name])
        elif not row.name.startswith(values.get("only", "")):
            yield replace(row, recipe="", not_run=f"is of other data than {values['data']}")
        elif row.by:
            yield replace(row, recipe="", not_run=f"figures of {row.by}")
        else:
            yield replace(row, **every)
