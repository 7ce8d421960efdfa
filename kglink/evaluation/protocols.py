"""How the tables of the papers are made: `protocols.toml`, one protocol of it by its name.

A protocol says what is trained, on which data, and what is judged: everything between the figures
that a paper prints (`reference_figures`) and a run of `kglink reproduce`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from kglink.errors import UnknownNameError
from kglink.evaluation.reference_figures import ReferenceTable, reference_figures

#: Metrics of overlaps, not of mentions.
OF_OVERLAPS = ("MRR", "ACS")
_DEVIATION = " ±"
_TARGET = "{target}"

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
}


@dataclass(frozen=True, slots=True)
class SourceOfKBs:
    """What KBs are added from, as `kglink add-kb` is told; ``{kb}`` is the name of the KB."""

    names: tuple[str, ...]
    path: str
    adapter: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    links_to: tuple[str, ...] = ()
    split: str = ""
    split_random: Mapping[str, str] = field(default_factory=dict)
    """How many mentions of a KB are drawn for train, dev and test."""
    bad_records: bool = False
    """Whether the files are known to have bad records, which are left out and counted."""


class Part(NamedTuple):
    """What figures are of: mentions of documents, searched in some KBs, or overlaps."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    documents: str = ""
    """How the ids of the documents begin."""
    gold: str = ""
    """The KB that a gold of each mention is of; empty: any."""


class Training(NamedTuple):
    """What a recipe is told to learn from."""

    source_kbs: tuple[str, ...]
    target_kbs: tuple[str, ...]
    docs: tuple[str, ...]


class Column(NamedTuple):
    """A column of a table: `test R@64`."""

    name: str
    part: str
    metric: str

    @property
    def is_of_overlaps(self) -> bool:
        """Whether the figure is one of overlaps."""
        return self.metric in OF_OVERLAPS


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, and what trains it."""

    name: str
    recipe: str = ""
    sources: str = ""
    untrained: bool = False
    """Whether the model is judged as it comes."""
    evidence: str = "vectors"
    """What finds candidates, as the setting `link.evidence` has it."""
    not_run: str = ""
    """Why the row is not run; empty where it is."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Data of a protocol: the KBs, and what is learnt from and judged of them."""

    name: str
    title: str
    shape: str
    """How the folder must look."""
    needs: tuple[str, ...]
    """Files that it must have; ``{kb}`` stands for each KB."""
    kbs: tuple[SourceOfKBs, ...]
    source_kbs: str = ""
    target_kbs: str = ""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    """What the names of rows say."""
    docs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    judged: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def training(self, part: str, sources: str) -> Training:
        """What the model of a column learns from: one for each target, where that is learnt."""
        if target := self.targets.get(part):
            if sources == "S":
                return Training((self.source,), (), tuple(self.docs["source"]))
            docs = dict.fromkeys((*self.docs["source"], *_named(self.docs["target"], target)))
            return Training((self.source,), (target,), tuple(docs))
        source_kbs, target_kbs = self._kbs_of(self.source_kbs), self._kbs_of(self.target_kbs)
        return Training(source_kbs, target_kbs, (*source_kbs, *target_kbs))

    def parts_of(self, column: Column, row: Row) -> list[Part]:
        """What a figure is of; several are judged one after the other, each in its own KB."""
        if target := self.targets.get(column.part):
            kbs = (self.source, target)
            if column.is_of_overlaps:
                return [Part((), "", kbs)]
            side = row.name.rpartition(", ")[2]
            judged = _named(self.judged[side], target)
            return [Part(judged, "test", kbs, gold=target if side == "target" else self.source)]
        told = self.parts.get(column.part) or self._part_with(column.part)
        each = self._kbs_of(told.get("of", column.part)) or (column.part,)
        return [Part((kb,), told["split"], (kb,), told.get("documents", "")) for kb in each]

    def mentions(self, part: str) -> int:
        """How many mentions the paper has of a part; 0: nobody says so."""
        return int(self.parts.get(part, {}).get("mentions", 0))

    def _part_with(self, kb: str) -> Mapping[str, Any]:
        return next(one for one in self.parts.values() if kb in one.get("kbs", ()))

    def _kbs_of(self, part: str) -> tuple[str, ...]:
        return tuple(self.parts.get(part, {}).get("kbs", ()))


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
    reranked: bool = False
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
        metrics = {one.metric for one in self.columns}
        known = (
            told
            for begin, told in MEANINGS.items()
            if any(one.startswith(begin) for one in metrics)
        )
        return (*self.data.rows, *known)

    def row(self, name: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    def baseline_of(self, row: str) -> str:
        """The baseline that a row is tested against: the one it shares most of its name with."""
        words = set(row.split(", "))
        return max(self.baselines, key=lambda one: (one == row, len(words & set(one.split(", ")))))

    def paper(self, row: Row, column: Column) -> tuple[float, float]:
        """The paper's figure and its deviation over seeds; not a number where it has none."""
        found = [one for one in self.table.rows if one.name == row.name]
        return tuple(  # type: ignore[return-value]  # two
            self.table.figure(found[0], name) if found and name in self.table.columns else math.nan
            for name in (column.name, column.name + _DEVIATION)
        )

    @property
    def scale(self) -> float:
        """What a share is multiplied with: four of the papers print percent."""
        figures = (value for row in self.table.rows for value in row.figures)
        return 100.0 if any(value > 1 for value in figures) else 1.0


def list_protocols() -> list[Protocol]:
    """All protocols, paper by paper."""
    return list(_protocols().values())


def find_protocol(name: str) -> Protocol:
    """The protocol of a name, such as `amh/table-2`."""
    found = _protocols().get(name)
    if found is None:
        more = (
            ""
            if name not in reference_figures()
            else (f"Nothing makes {name} yet: its rows have no recipe, or its data no layout. ")
        )
        raise UnknownNameError(
            "protocol", name, list(_protocols()), hint=f"{more}`kglink reproduce` lists them."
        )
    return found


@cache
def _protocols() -> MappingProxyType[str, Protocol]:
    file = resources.files("kglink.evaluation") / "protocols.toml"
    told = tomllib.loads(file.read_text("utf-8"))
    layouts = {name: _layout(name, values) for name, values in told.pop("data").items()}
    return MappingProxyType(
        {name: _protocol(name, values, layouts) for name, values in told.items()}
    )


def _layout(name: str, values: dict[str, Any]) -> Layout:
    kbs = tuple(SourceOfKBs(**_tuples(one)) for one in values.pop("kbs"))
    return Layout(name=name, kbs=kbs, **_tuples(values))


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}


def _named(docs: Sequence[str], target: str) -> tuple[str, ...]:
    return tuple(one.replace(_TARGET, target) for one in docs)


def _protocol(name: str, values: dict[str, Any], layouts: Mapping[str, Layout]) -> Protocol:
    table = reference_figures()[values.get("of", name)]
    return Protocol(
        name=name,
        table=table,
        data=layouts[values["data"]],
        columns=tuple(_columns(values.get("columns", table.columns), values)),
        rows=tuple(_rows(table, values)),
        baselines=tuple(values["baselines"]),
        average=values.get("average", "micro"),
        reranked=values.get("reranked", False),
        adapted=tuple(values.get("adapted", ())),
    )


def _columns(names: Sequence[str], values: Mapping[str, Any]) -> Iterator[Column]:
    for name in names:
        part, _, metric = name.rpartition(" ")
        if name.endswith(_DEVIATION) or metric == "epoch":
            continue  # of seeds it is computed; how fast others' machines were is no figure
        if "metric" in values:
            part, metric = name, values["metric"]
        yield Column(name, part or values["part"], metric)


def _rows(table: ReferenceTable, values: Mapping[str, Any]) -> Iterator[Row]:
    if "rows" in values:
        for side in values.get("sides", [""]):
            for told in values["rows"]:
                yield Row(**{**told, "name": f"{told['name']}, {side}" if side else told["name"]})
        return
    untrained = values.get("untrained", {})
    only = values.get("only", "")
    for row in table.rows:
        if row.name in untrained:
            yield Row(row.name, untrained=True, **untrained[row.name])
        elif not row.name.startswith(only):
            yield Row(row.name, not_run=f"is of other data than {values['data']}")
        elif row.by:
            yield Row(row.name, not_run=f"figures of {row.by}")
        elif row.reranked or not row.recipe:
            yield Row(row.name, not_run="`kglink reproduce` trains nothing for it")
        else:
            yield Row(row.name, row.recipe)
