"""A table that was made: means over seeds, intervals, tests against a baseline.

The value of a mention, or of an overlap, is its mean over the seeds. Intervals and tests are over
mentions: a difference that they find is one on other mentions of the kind, with these models. The
standard deviation is over seeds: what another seed would have given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from kglink.arrays import DoubleArray
from kglink.errors import UsageError
from kglink.evaluation.measures.retrieval import AP_AT_1, Value, values_of
from kglink.evaluation.significance import RandomizationTest, group_interval, randomization_test
from kglink_papers.protocols import Average, Protocol

#: The values of one seed, a list for each part that is judged on its own.
Values = Sequence[DoubleArray]
#: Values of every mention of a cell: seed by seed, part by part.
Judged = Mapping[int, Values]


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of the table, in the paper's unit."""

    items: int
    """Mentions, or overlaps."""
    mean: float
    deviation: float | None
    """Over seeds; None of one seed."""
    interval: tuple[float, float] | None
    """None where the figure is one of all mentions together, which have no values."""
    paper: float | None
    baseline: str | None
    """The row that the figure is tested against, if any."""
    test: RandomizationTest | None = None
    significant: bool = False


@dataclass(frozen=True, slots=True)
class ReproducedTable:
    """Our figures in the rows and columns of the paper."""

    protocol: Protocol
    seeds: Mapping[str, tuple[int, ...]]
    """Of each row that was run."""
    cells: Mapping[tuple[str, str], Cell]
    comparisons: int
    """Tests in the Bonferroni correction."""
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The runs of each row that was trained."""
    differs: Sequence[str] = ()
    """What differs from the paper."""
    docs: Sequence[str] = ()
    """The documents of the split test that were judged."""

    def as_json(self) -> dict[str, Any]:
        """What ``kglink reproduce --json`` says."""
        protocol = self.protocol
        columns = protocol.columns
        rows = []
        for row in protocol.rows:
            papers = [protocol.paper(row, one) for one in columns]
            cells = [self.cells.get((row.name, one.name)) for one in columns]
            rows.append(
                {
                    "name": row.name,
                    "recipe": row.recipe or None,
                    "untrained": row.untrained,
                    "not_run": row.not_run or None,
                    "seeds": list(self.seeds.get(row.name, ())),
                    "paper": [_known(figure) for figure, _ in papers],
                    "paper_deviations": [_known(deviation) for _, deviation in papers],
                    "cells": [asdict(cell) if cell else None for cell in cells],
                }
            )
        return {
            "protocol": protocol.name,
            "source": protocol.table.source,
            "title": protocol.title,
            "adapted": bool(protocol.adapted),
            "meanings": list(protocol.meanings),
            "differs": list(self.differs),
            "columns": [one.name for one in columns],
            "unit": protocol.unit,
            "average": protocol.average,
            "baselines": list(protocol.baselines),
            "comparisons": self.comparisons,
            "rows": rows,
            "paper": {
                "columns": list(protocol.table.columns),
                "rows": [
                    {"name": row.name, "figures": [_known(one) for one in row.figures]}
                    for row in protocol.table.rows
                ],
            },
            "runs": {row: list(names) for row, names in self.runs.items()},
        }


def table_of(protocol: Protocol, judged: Mapping[tuple[str, str], Judged]) -> ReproducedTable:
    """The table of what was judged: values by row and column."""
    against = {place: (protocol.baseline_of(place[0]), place[1]) for place in judged}
    pairs = {one: other for one, other in against.items() if one != other and other in judged}
    columns = {one.name: one for one in protocol.columns}
    pairs = {one: other for one, other in pairs.items() if not columns[one[1]].is_one_value}
    scale = protocol.scale
    cells = {}
    for place, seeds in judged.items():
        row, column = place
        average: Average = columns[column].average or protocol.average
        alone = columns[column].is_one_value
        parts = _over_seeds(seeds)
        each = [float(_weighted(values, average).mean()) * scale for values in seeds.values()]
        groups = parts if average == "macro" else [np.concatenate(parts)]
        low, high = group_interval(groups)
        baseline, test = pairs.get(place), None
        if baseline:
            ours = _weighted(parts, average)
            theirs = _weighted(_over_seeds(judged[baseline]), average)
            if len(ours) != len(theirs):
                raise UsageError(
                    f"{row} and {baseline[0]} were judged on other mentions",
                    hint="The KBs changed between the two, or a kept file is cut. Delete the "
                    "folder `reproduced` of the workspace and run the same command again.",
                )
            test = randomization_test(ours * scale, theirs * scale)
        cells[place] = Cell(
            items=sum(map(len, parts)),
            mean=statistics.mean(each),
            deviation=statistics.stdev(each) if len(each) > 1 else None,
            interval=None if alone else (low * scale, high * scale),
            paper=_known(protocol.paper(protocol.row(row), columns[column])[0]),
            baseline=baseline[0] if baseline else None,
            test=test,
            significant=test.is_significant(comparisons=len(pairs)) if test else False,
        )
    by_row = {row: tuple(sorted(one)) for (row, _), one in judged.items()}
    return ReproducedTable(protocol, by_row, cells, max(len(pairs), 1))


def value_of(metric: str) -> Value:
    """What a mention counts by its rank; what is no figure of `values_of` is a kind of accuracy."""
    values = values_of([deepest(metric)])
    return values.get(metric, values[AP_AT_1])


def deepest(metric: str) -> int:
    """How many candidates a metric needs."""
    return int(metric[2:]) if metric.startswith("R@") else 0


def _over_seeds(judged: Judged) -> list[DoubleArray]:
    """The mean over seeds of each mention, part by part."""
    return [np.mean(np.stack(part), axis=0) for part in zip(*judged.values(), strict=True)]


def _weighted(parts: Values, average: Average) -> DoubleArray:
    """Values whose plain mean is the figure."""
    if average == "micro":
        return np.concatenate(parts)
    whole = sum(map(len, parts))
    return np.concatenate([part * whole / (len(parts) * len(part)) for part in parts])


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
