"""The figures that the papers print: `reference_figures.toml`, one table of it by its name."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """One row of a paper's table."""

    name: str
    figures: tuple[float, ...]
    """In the order of the table's columns; not a number where we have none."""
    recipe: str = ""
    """What trains the row; of a reranked row, what retrieves."""
    reranked: bool = False
    """Whether the figures come after a cross-encoder that was trained for the row."""
    reranker: str = ""
    """The recipe of that cross-encoder."""
    by: str = ""
    """Whose figures they are, where the paper trained nothing for the row."""


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """A table of a paper."""

    name: str
    source: str
    """Paper and table, as recipes name them: `AMH, Table 2`."""
    title: str
    """What is measured, and how."""
    columns: tuple[str, ...]
    cited: str
    """The column that recipes quote; empty: none."""
    rows: tuple[ReferenceRow, ...]

    def row(self, name: str) -> ReferenceRow:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    def figure(self, row: ReferenceRow, column: str) -> float:
        """One figure of a row."""
        return row.figures[self.columns.index(column)]


@cache
def reference_figures() -> MappingProxyType[str, ReferenceTable]:
    """All tables by name, `blink/table-1` and so on, paper by paper."""
    file = resources.files("kglink.evaluation") / "reference_figures.toml"
    return MappingProxyType(
        {
            name: ReferenceTable(
                name=name,
                source=table["source"],
                title=table["title"],
                columns=tuple(table["columns"]),
                cited=table["cited"],
                rows=tuple(
                    ReferenceRow(**{**row, "figures": tuple(map(float, row["figures"]))})
                    for row in table["rows"]
                ),
            )
            for name, table in tomllib.loads(file.read_text("utf-8")).items()
        }
    )
