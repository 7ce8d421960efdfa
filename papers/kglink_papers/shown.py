"""A table that was made, from its JSON: for the terminal, and as the section of a report's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kglink_cli.console import Figure, Table
from kglink_cli.report_page.drawing import Drawing, text_of
from kglink_cli.report_page.page import list_of, note_of, table_of
from kglink_cli.report_page.plots import Bar, bar_chart

Shape = Mapping[str, Any]
#: Columns beside each of which the paper's stands in one table; of more it has a table of its own.
_MOST_BESIDE = 4


def tables_of(shape: Shape) -> Iterator[Table]:
    """Ours in the paper's rows and columns; every figure with its test; else the paper's apart."""
    beside = len(shape["columns"]) <= _MOST_BESIDE and not shape["adapted"]
    yield _table(shape, beside=beside)
    yield _cells(shape)
    if not beside:
        rows = [
            [row["name"], *(_shown(one, shape) for one in row["figures"])]
            for row in shape["paper"]["rows"]
        ]
        of = ", of other data" if shape["adapted"] else ""
        title = f"What {shape['source']} prints{of}"
        yield Table(("row", *shape["paper"]["columns"]), rows, 1, title)


def best_of(shape: Shape) -> Iterator[str]:
    """A sentence for each column and baseline: which row is best, and by how much."""
    for at, column in enumerate(shape["columns"]):
        for baseline in shape["baselines"]:
            cells = [
                (row["name"], cell)
                for row in shape["rows"]
                if (cell := row["cells"][at]) and baseline in (row["name"], cell["baseline"])
            ]
            if len(cells) < 2:
                continue
            name, cell = max(cells, key=lambda one: one[1]["mean"])
            text = f"{column}: the best row is {name} with {_shown(cell['mean'], shape)}"
            if test := cell["test"]:
                text += (
                    f", {_shown(test['difference'], shape)} above {baseline} (p = {test['p']:.4f})"
                )
            marked = [one["test"]["difference"] for _, one in cells if one["significant"]]
            better = sum(difference > 0 for difference in marked)
            yield (
                f"{text}. Of {len(cells) - 1} other rows {better} are better than {baseline} by "
                f"more than chance, and {len(marked) - better} worse."
            )


def _table(shape: Shape, *, beside: bool) -> Table:
    rows: list[list[object]] = []
    for row in shape["rows"]:
        if row["not_run"] and not beside:
            continue
        figures: list[str] = []
        papers = zip(row["paper"], row["paper_deviations"], strict=True)
        for cell, paper in zip(row["cells"], papers, strict=True):
            ours = _with_deviation(cell["mean"], cell["deviation"], shape) if cell else "-"
            figures.append(ours + "*" * bool(cell and cell["significant"]))
            figures += [_with_deviation(*paper, shape)] * beside
        rows.append([row["name"], len(row["seeds"]) or "-", *figures])
    head = [word for one in shape["columns"] for word in ((one, "paper") if beside else (one,))]
    below = [
        "",
        _marks(shape),
        *shape["meanings"],
        *(f"differs: {one}" for one in shape["differs"]),
    ]
    return Table(("row", "seeds", *head), rows, 1, shape["title"], below)


def _marks(shape: Shape) -> str:
    return (
        f"* differs from the baseline ({'; '.join(shape['baselines'])}) by more than chance: "
        f"paired randomization test at {_level(shape)}"
    )


def _level(shape: Shape) -> str:
    return f".05 / {shape['comparisons']}" if shape["comparisons"] > 1 else ".05"


def _cells(shape: Shape) -> Table:
    digits = _digits(shape)
    rows: list[list[object]] = []
    for row in shape["rows"]:
        for column, cell in zip(shape["columns"], row["cells"], strict=True):
            if cell is None:
                continue
            test, paper = cell["test"], cell["paper"]
            rows.append(
                [
                    *(row["name"], column, cell["items"]),
                    Figure(cell["mean"], cell["interval"] and tuple(cell["interval"]), digits),
                    _shown(cell["deviation"], shape),
                    "-" if paper is None else f"{cell['mean'] - paper:+.{digits}f}",
                    f"{test['difference']:+.{digits}f}" if test else "-",
                    f"{test['p']:.4f}" if test else "-",
                    ("yes" if cell["significant"] else "no") if test else "-",
                ]
            )
    columns = (
        *("row", "column", "of", "mean over seeds", "± seeds", "less the paper's"),
        *("less the baseline's", "p", "significant"),
    )
    title = f"Every figure with its 95% interval, and its test at {_level(shape)}"
    return Table(columns, rows, 2, title)


def _with_deviation(figure: float | None, deviation: float | None, shape: Shape) -> str:
    shown = _shown(figure, shape)
    return shown if deviation is None else f"{shown} ± {_shown(deviation, shape)}"


def _shown(value: float | None, shape: Shape) -> str:
    return "-" if value is None else f"{value:.{_digits(shape)}f}"


def _digits(shape: Shape) -> int:
    return {"percent": 2, "share": 4, "count": 0}[shape["unit"]]


# ------------------------------------------------------------------------------- on a page
def section_of(shape: Shape) -> str:
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
    body += table_of(ours._replace(title="Our figures", below=[_marks(shape)]), one=False)
    body += "".join(f"<figure>{one.svg(alone=False)}</figure>" for one in charts_of(shape))
    body += (
        f"<details><summary>{text_of(cells.title)}</summary>{table_of(cells, one=False)}</details>"
    )
    body += "".join(table_of(one, one=False) for one in papers)
    if differs := shape["differs"]:
        items = "".join(f"<li>{text_of(one)}</li>" for one in differs)
        body += f"<h3>What differs from the paper</h3><ul>{items}</ul>"
    by_run: dict[str, list[str]] = {}
    for row, names in shape["runs"].items():
        for name in names:
            by_run.setdefault(name, []).append(row)
    rows_of = {name: "; ".join(rows) for name, rows in by_run.items()}
    body += "<h3>The runs behind the rows</h3>" + list_of(rows_of)
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
            if (cell := row["cells"][at]) and cell["interval"]
        ]
        if not groups:
            continue
        title = f"{column}: the mean over seeds, with 95% intervals over mentions"
        yield bar_chart(f"reproduced-{at}", title, column, groups, [column])


def _sentences(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{text_of(one)}</p>" for one in sentences)
