"""The section of a page that holds a paper's table, made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kglink_cli.report_page.charts import Bar, bar_chart
from kglink_cli.report_page.drawing import Drawing
from kglink_cli.report_page.markup import list_of, note_of, table_of, text_of
from kglink_cli.reproduced_tables import best_of, marks, tables_of

Shape = Mapping[str, Any]


def reproduced(shape: Shape) -> str:
    """What came of it in sentences, how to read it, charts, tables, and what differs."""
    body = f"<p>{text_of(shape['title'])}.</p>"
    if shape["adapted"]:
        body += note_of(
            f"{shape['protocol']} is adapted to other data and models: compare which rows are "
            "better, not how large the figures are."
        )
    body += _sentences(best_of(shape))
    body += "<h3>How to read it</h3>" + _sentences(shape["meanings"])
    ours, cells, *papers = tables_of(shape)
    body += table_of(ours._replace(title="Our figures", below=[marks(shape)]), one=False)
    body += "".join(f"<figure>{one.svg(alone=False)}</figure>" for one in charts_of(shape))
    body += (
        f"<details><summary>{text_of(cells.title)}</summary>{table_of(cells, one=False)}</details>"
    )
    body += "".join(table_of(one, one=False) for one in papers)
    if differs := shape["differs"]:
        told = "".join(f"<li>{text_of(one)}</li>" for one in differs)
        body += f"<h3>What differs from the paper</h3><ul>{told}</ul>"
    body += "<h3>The runs behind the rows</h3>" + list_of(_rows_by_run(shape["runs"]))
    missing = [row for row in shape["rows"] if row["not_run"]]
    if missing:
        why = {row["name"]: row["not_run"] for row in missing}
        body += "<h3>Rows that are not run</h3>" + list_of(why)
    return body


def charts_of(shape: Shape) -> Iterator[Drawing]:
    """A chart for each column: a bar for each row, with its interval and its mark."""
    scale = 100 if shape["unit"] == "percent" else 1
    for at, column in enumerate(shape["columns"]):
        groups = [
            (
                row["name"] + " *" * cell["significant"],
                [
                    Bar(
                        cell["mean"] / scale,
                        (cell["interval"][0] / scale, cell["interval"][1] / scale),
                        cell["items"],
                    )
                ],
            )
            for row in shape["rows"]
            if (cell := row["cells"][at])
        ]
        title = f"{column}: the mean over seeds, with 95% intervals over mentions"
        yield bar_chart(f"reproduced-{at}", title, column, groups, [column])


def _rows_by_run(runs: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Each run with the rows that it is of."""
    found: dict[str, list[str]] = {}
    for row, names in runs.items():
        for name in names:
            found.setdefault(name, []).append(row)
    return {name: "; ".join(rows) for name, rows in found.items()}


def _sentences(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{text_of(one)}</p>" for one in sentences)
