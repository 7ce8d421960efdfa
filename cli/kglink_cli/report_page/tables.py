"""The tables of a report, from its JSON: for the page, and for files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from kglink.evaluation.measures.retrieval import SHOWN
from kglink.evaluation.rankings import JSON_KEYS
from kglink_cli.console import Figure, Table
from kglink_cli.evaluation_tables import error_rows

Shape = Mapping[str, Any]
#: The figures of retrieval that tables have.
FIGURES = ("R@1", "R@8", "R@64", *SHOWN)
#: The pools over all KBs, as commands call them.
POOLS = {key: pool for pool, key in JSON_KEYS.items()}


def tables_of(report: Shape) -> dict[str, Table]:
    """All tables for which there are figures, by the names of their files, as the page has them."""
    made = {
        "retrieval": _retrieval(report),
        "seeds": _seeds(report),
        "significance": _significance(report),
        "surfaces": _surfaces(report),
        "answers": _answers(report),
        "training": _training(report),
        "errors": _errors(report),
    }
    return {name: table for name, table in made.items() if table.rows}


def evaluated(report: Shape) -> list[Shape]:
    """The runs whose space could be asked."""
    return [run for run in report["runs"] if run["retrieval"]]


def pools_of(shape: Shape) -> Iterator[tuple[str, Shape, Shape, int]]:
    """The name, figures, intervals and mentions of each pool of an evaluation."""
    metrics, mentions = shape["metrics"], shape["mentions"]
    around = shape.get("intervals", {})  # parts of an evaluation have none
    for kb, figures in metrics["kb"].items():
        yield kb, figures, around.get("kb", {}).get(kb, {}), mentions[kb]
    for key, name in POOLS.items():
        if metrics[key]:
            yield name, metrics[key], around.get(key, {}), mentions[key]


def _retrieval(report: Shape) -> Table:
    rows = [row for run in evaluated(report) for row in _pools(run["retrieval"], run["name"])]
    title = "How often a right entity is among the first k, the mentions' places given"
    below = ("Small: 95% intervals, of R@k and AP@1 Wilson's, of MAP@10 and MRR by bootstrap.",)
    return Table(("run", "pool", "mentions", *FIGURES), rows, 2, title, below)


def _pools(shape: Shape, *words: str) -> Iterator[list[object]]:
    """A row for each pool of an evaluation, behind some words."""
    for pool, figures, around, mentions in pools_of(shape):
        shown = (_figure(figures[one], around.get(one)) for one in FIGURES)
        yield [*words, pool, mentions, *shown]


def _seeds(report: Shape) -> Table:
    """Mean and standard deviation over runs that differ in their seed alone."""
    groups: dict[str, list[Shape]] = {}
    for run in evaluated(report):
        learnt = {name: value for name, value in run["settings"].items() if name != "seed"}
        of = (run[name] for name in ("recipe", "sources", "source_kbs", "target_kbs", "docs"))
        groups.setdefault(json.dumps([learnt, *of], sort_keys=True), []).append(run)
    rows: list[list[object]] = []
    for runs in groups.values():
        if len({run["seed"] for run in runs}) < 2:
            continue
        by_run = [{pool: one for pool, one, *_ in pools_of(run["retrieval"])} for run in runs]
        for pool in by_run[0]:
            values = [[one[pool][name] for one in by_run if pool in one] for name in FIGURES]
            shown = [f"{mean(one):.3f} ± {stdev(one):.3f}" if len(one) > 1 else "-"
                     for one in values]  # fmt: skip
            rows.append([runs[0]["recipe"], len(runs), pool, *shown])
    title = "Over seeds: mean and standard deviation"
    return Table(("recipe", "runs", "pool", *FIGURES), rows, 3, title)


def _significance(report: Shape) -> Table:
    rows: list[list[object]] = []
    runs = evaluated(report)
    for run in runs[1:]:
        for pool, tests in (run["against_first"] or {}).items():
            for figure, test in tests.items():
                numbers = f"{test['difference']:+.3f}", f"{test['p']:.4f}"
                mark = "yes" if test["significant"] else "no"
                shares = Figure(test["right"]), Figure(test["left"])
                rows.append([run["name"], POOLS.get(pool, pool), figure, *shares, *numbers, mark])
    first = runs[0]["name"] if runs else ""
    title = f"Against {first}: paired randomization test at .05 / {max(len(runs) - 1, 1)}"
    columns = ("run", "pool", "figure", first, "run's", "difference", "p", "significant")
    return Table(columns, rows, 3, title)


def _surfaces(report: Shape) -> Table:
    rows = [
        row
        for run in evaluated(report)
        for which in ("seen", "unseen")
        if which in run["retrieval"]
        for row in _pools(run["retrieval"][which], run["name"], which)
    ]
    title = "Surfaces that were seen in training, and others"
    return Table(("run", "surfaces", "pool", "mentions", *FIGURES), rows, 3, title)


def _answers(report: Shape) -> Table:
    rows: list[list[object]] = []
    for run in report["runs"]:
        if not run["end_to_end"]:
            continue
        joint = run["end_to_end"]["metrics"]["joint"]
        for what, match in (
            ("detection", "strict"), ("detection", "overlap"), ("links", "strict"),
            ("links", "weak"),
        ):  # fmt: skip
            one = joint[what][match]
            shown = [_figure(one["micro"][name], one["intervals"][name])
                     for name in ("precision", "recall", "f1")]  # fmt: skip
            rows.append([run["name"], what, match, one["gold"], one["found"], one["right"], *shown])
    title = "What links of raw text are worth: detection and links (GERBIL's InKB)"
    columns = ("run", "what", "match", "mentions", "found", "right", "precision", "recall", "F1")
    below = (
        "Small: 95% intervals by bootstrap over the texts. No precision where annotation is "
        "in part.",
    )
    return Table(columns, rows, 3, title, below)


def _figure(value: float | None, around: Sequence[float] | None) -> object:
    return "-" if value is None else Figure(value, (around[0], around[1]) if around else None)


def _training(report: Shape) -> Table:
    rows: list[list[object]] = []
    ks: tuple[str, ...] = ("R@1", "R@8", "R@64")
    for run in report["runs"]:
        before, after = run["before"] or {}, run["recalls"] or {}
        judged = after or before
        for pool in [*judged.get("kb", {}), *POOLS]:
            one, other = (
                side.get("kb", {}).get(pool) or side.get(pool) or {} for side in (before, after)
            )
            if one or other:
                shown = [Figure(side[k]) if k in side else "-" for k in ks for side in (one, other)]
                count = judged.get("mentions", {}).get(pool, "")
                rows.append([run["name"], POOLS.get(pool, pool), count, *shown])
    columns = [f"{k} {when}" for k in ks for when in ("before", "after")]
    title = "Before and after training: the mentions held back, by vectors alone"
    return Table(("run", "pool", "mentions", *columns), rows, 2, title)


def _errors(report: Shape) -> Table:
    runs = [run for run in report["runs"] if run["errors"]]
    used: list[str] = [
        reason
        for reason in (runs[0]["errors"]["reasons"] if runs else ())
        if any(run["errors"]["reasons"][reason] for run in runs)
    ]
    rows = [[run["name"], *row] for run in runs for row in error_rows(run["errors"], used)]
    title = "Why mentions of raw text are answered wrongly"
    return Table(("run", "by", "group", "mentions", "right", *used), rows, 3, title)
