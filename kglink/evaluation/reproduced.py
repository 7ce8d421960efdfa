"""The cells of a reproduced table: means over seeds, intervals, tests against a baseline.

The value of a mention, or of an overlap, is its mean over the seeds. Intervals and tests are over
mentions: a difference that they find is one on other mentions of the kind, with these models. The
standard deviation is over seeds: what another seed would have given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.errors import UsageError
from kglink.evaluation.measures.retrieval import hit, reciprocal
from kglink.evaluation.protocols import Average, Column, Protocol, Row
from kglink.evaluation.rankings import Rank
from kglink.evaluation.significance import RandomizationTest, group_interval, randomization_test

FloatArray = npt.NDArray[np.float64]
#: The values of one seed, a list for each part that is judged on its own.
Values = Sequence[FloatArray]


class Judged(NamedTuple):
    """Values of every mention of a cell: seed by seed, part by part."""

    seeds: Mapping[int, Values]


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of the table, in the paper's unit."""

    items: int
    """Mentions, or overlaps."""
    mean: float
    deviation: float | None
    """Over seeds; None of one seed."""
    interval: tuple[float, float]
    paper: float | None
    baseline: str
    """The row that the figure is tested against; empty: none."""
    test: RandomizationTest | None = None
    significant: bool = False

    def as_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "items": self.items,
            "mean": self.mean,
            "deviation": self.deviation,
            "interval": list(self.interval),
            "paper": self.paper,
            "baseline": self.baseline or None,
            "test": self.test.as_json() if self.test else None,
            "significant": self.significant,
        }


@dataclass(frozen=True, slots=True)
class ReproducedTable:
    """Our figures in the rows and columns of the paper."""

    protocol: Protocol
    seeds: Mapping[str, tuple[int, ...]]
    """Of each row that was run."""
    cells: Mapping[tuple[str, str], Cell]
    comparisons: int
    """How many tests share the level of .05."""

    def as_json(self) -> dict[str, Any]:
        """Rows, columns and cells as plain values."""
        columns = self.protocol.columns
        return {
            "columns": [one.name for one in columns],
            "unit": "percent" if self.protocol.scale > 1 else "share",
            "average": self.protocol.average,
            "baselines": list(self.protocol.baselines),
            "comparisons": self.comparisons,
            "rows": [
                {
                    "name": row.name,
                    "recipe": row.recipe or None,
                    "untrained": row.untrained,
                    "not_run": row.not_run or None,
                    "seeds": list(self.seeds.get(row.name, ())),
                    "paper": [_known(self.protocol.paper(row, one)[0]) for one in columns],
                    "paper_deviations": [
                        _known(self.protocol.paper(row, one)[1]) for one in columns
                    ],
                    "cells": [
                        cell.as_json() if (cell := self.cells.get((row.name, one.name))) else None
                        for one in columns
                    ],
                }
                for row in self.protocol.rows
            ],
        }


def table_of(
    protocol: Protocol, judged: Mapping[tuple[str, str], Judged], *, seed: int = 0
) -> ReproducedTable:
    """The table of what was judged: values by row and column."""
    pairs = [
        place
        for place in judged
        if (against := protocol.baseline_of(place[0])) != place[0] and (against, place[1]) in judged
    ]
    seeds = {row: tuple(sorted(one.seeds)) for (row, _), one in judged.items()}
    columns = {one.name: one for one in protocol.columns}
    cells = {}
    for row, column in judged:
        told = protocol.row(row), columns[column]
        other = judged[protocol.baseline_of(row), column] if (row, column) in pairs else None
        cells[row, column] = _cell(
            protocol, *told, judged[row, column], other, comparisons=len(pairs), seed=seed
        )
    return ReproducedTable(protocol, seeds, cells, max(len(pairs), 1))


def value_of(metric: str) -> tuple[str, Callable[[Rank], float]]:
    """The value of a mention from its rank, and which: as retrieved (`ranks`) or `reranked`."""
    if metric.startswith("R@"):
        k = int(metric[2:])
        return "ranks", lambda rank: hit(rank, k)
    if metric == "AP@1":
        return "reranked", lambda rank: hit(rank, 1)
    within = int(metric.removeprefix("MAP@"))
    return "reranked", lambda rank: reciprocal(rank, within=within)


def _cell(
    protocol: Protocol,
    row: Row,
    column: Column,
    judged: Judged,
    baseline: Judged | None,
    *,
    comparisons: int,
    seed: int,
) -> Cell:
    scale = protocol.scale
    parts = _over_seeds(judged)
    each = [_average(values, protocol.average) * scale for values in judged.seeds.values()]
    low, high = group_interval(_groups(parts, protocol.average))
    test = None
    if baseline is not None:
        ours, theirs = (_weighted(one, protocol.average) for one in (parts, _over_seeds(baseline)))
        if len(ours) != len(theirs):
            raise UsageError(
                f"{row.name} and {protocol.baseline_of(row.name)} were judged on other mentions",
                hint="The KBs changed between the two: run both rows again in a new workspace.",
            )
        test = randomization_test(ours * scale, theirs * scale, seed=seed)
    return Cell(
        items=sum(map(len, parts)),
        mean=statistics.mean(each),
        deviation=statistics.stdev(each) if len(each) > 1 else None,
        interval=(low * scale, high * scale),
        paper=_known(protocol.paper(row, column)[0]),
        baseline=protocol.baseline_of(row.name) if test else "",
        test=test,
        significant=test.is_significant(comparisons=comparisons) if test else False,
    )


def _over_seeds(judged: Judged) -> list[FloatArray]:
    """The mean over seeds of each mention, part by part."""
    return [np.mean(np.stack(part), axis=0) for part in zip(*judged.seeds.values(), strict=True)]


def _average(parts: Values, average: Average) -> float:
    if average == "macro":
        return statistics.mean(float(part.mean()) for part in parts)
    return float(np.concatenate(parts).mean())


def _weighted(parts: Values, average: Average) -> FloatArray:
    """Values whose plain mean is the figure."""
    if average == "micro":
        return np.concatenate(parts)
    whole = sum(map(len, parts))
    return np.concatenate([part * whole / (len(parts) * len(part)) for part in parts])


def _groups(parts: Values, average: Average) -> Iterator[FloatArray]:
    """What is drawn from together."""
    yield from parts if average == "macro" else (np.concatenate(parts),)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
