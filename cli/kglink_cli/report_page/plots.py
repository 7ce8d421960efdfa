"""The plots of a report, from its JSON."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from kglink_cli.report_page.charts import (
    WIDTH,
    Bar,
    Series,
    bar_chart,
    confusion,
    line_chart,
    reliability,
)
from kglink_cli.report_page.drawing import COLOURS, Dot, Drawing, Line, Words
from kglink_cli.report_page.tables import evaluated, pools_of

Shape = Mapping[str, Any]
#: Types of entities, and dots of a drawn map.
MOST_DOMAINS = 12
MOST_DOTS = 3000


def plots_of(report: Shape) -> list[Drawing]:
    """All plots for which there are figures, in the order of the page."""
    return [*_recall(report), *_bars(report), *_reliability(report), *_training(report),
            *_maps(report), *_confusions(report)]  # fmt: skip


def _recall(report: Shape) -> Iterator[Drawing]:
    runs = evaluated(report)
    series = []
    for run in runs:
        for pool, figures, around, _ in pools_of(run["retrieval"]):
            if len(runs) > 1 and pool != "[joint]":
                continue
            ks = [name for name in figures if name.startswith("R@")]
            points = [(float(name[2:]), figures[name]) for name in ks]
            ends = [tuple(around[name]) for name in ks]
            series.append(Series(run["name"] if len(runs) > 1 else pool, points, ends))
    if series:
        title = "A right entity among the first k: recall, with 95% intervals"
        if len(runs) > 1:
            title = "A right entity among the first k of all KBs: recall, with 95% intervals"
        axes = "k, candidates looked at", "share of mentions"
        yield line_chart("recall", title, axes, series, shares=True, logarithmic=True)


def _bars(report: Shape) -> Iterator[Drawing]:
    runs = evaluated(report)
    if not runs:
        return
    names = [run["name"] for run in runs]
    told = [{pool: _bar(figures, around, count) for pool, figures, around, count
             in pools_of(run["retrieval"])} for run in runs]  # fmt: skip
    pools = list(dict.fromkeys(pool for one in told for pool in one))
    groups = [(pool, [one.get(pool) for one in told]) for pool in pools]
    axis = "share of mentions with a right entity first (R@1)"
    yield bar_chart("kbs", "Right at first, by knowledge base", axis, groups, names)
    domains = [
        {(kb, kind): one for kb, kinds in run["retrieval"].get("domains", {}).items()
         for kind, one in kinds.items()} for run in runs
    ]  # fmt: skip
    typed = {kb for kb, kind in domains[0] if kind}
    largest = sorted(
        (place for place in domains[0] if place[0] in typed),
        key=lambda place: (-domains[0][place]["mentions"], place),
    )
    groups = [
        (f"{kb}: {kind or '[none]'}", [_bar(one.get((kb, kind)), {}, None) for one in domains])
        for kb, kind in largest[:MOST_DOMAINS]
    ]
    if groups:
        title = f"Right at first, by type of the gold ({len(groups)} of {len(largest)} types)"
        yield bar_chart("domains", title, axis + ", within its KB", groups, names)


def _bar(figures: Shape | None, around: Shape, count: int | None) -> Bar | None:
    if not figures:
        return None
    interval = tuple(around["R@1"]) if around.get("R@1") else None
    return Bar(figures["R@1"], interval, figures["mentions"] if count is None else count)


def _reliability(report: Shape) -> Iterator[Drawing]:
    curves = [
        (run["name"], run["end_to_end"]["metrics"]["joint"]["calibration"]["bins"])
        for run in report["runs"]
        if run["end_to_end"] and run["end_to_end"]["metrics"]["joint"]["calibration"]["answers"]
    ]
    if curves:
        title = "Reliability: are answers right as often as they say?"
        yield reliability("reliability", title, curves)


def _training(report: Shape) -> Iterator[Drawing]:
    several = len(report["runs"]) > 1
    losses, recalls, marks = [], [], []
    for run in report["runs"]:
        own = f"{run['name']}: " if several else ""
        for stage, points in run["losses"].items():
            losses.append(Series(f"{own}{stage}", points))
            if points and not several:
                marks.append((float(points[0][0]), f"stage {stage}"))
        for k in run["epochs"][0]["mean"] if run["epochs"] else ():
            if several and k != "R@1":
                continue
            at = {line["total"]: line["mean"][k] for line in run["epochs"]}
            recalls.append(Series(f"{own}{k}", [(float(x), y) for x, y in at.items()]))
    if any(one.points for one in losses):
        axes = "training step", "loss"
        title = "Training: the loss of each stage"
        yield line_chart("loss", title, axes, losses, shares=False, marks=marks)
    if recalls:
        axes = "training step", "recall, mean over KBs"
        title = "Training: recall of the mentions held back, after each epoch"
        yield line_chart("epochs", title, axes, recalls, shares=True)


def _confusions(report: Shape) -> Iterator[Drawing]:
    kbs = [one["name"] for one in report["kbs"]]
    for run in report["runs"]:
        if run["errors"]:
            title = f"{run['name']}: which KB answered for which"
            yield confusion(f"confusion-{run['name']}", title, run["errors"]["confusion"], kbs)


def _maps(report: Shape) -> Iterator[Drawing]:
    """A still of each map; the page has one to walk in."""
    for run in report["runs"]:
        for side in ("before", "after"):
            if run["map"] and run["map"][side]:
                yield _map(run, side)


def _map(run: Shape, side: str) -> Drawing:
    shape, size = run["map"], 560.0
    title = f"{run['name']}: the joint space {side} fine-tuning"
    drawing = Drawing(f"map-{side}-{run['name']}", title, shape["method"], WIDTH, size + 60)
    points = array("h", base64.b64decode(shape[side]["points"]))
    pairs = array("I", base64.b64decode(shape["pairs"]))

    def place(at: int) -> tuple[float, float]:
        half = size / 2
        x, y = points[2 * at], points[2 * at + 1]
        return WIDTH / 2 + half * x / 32767, 50 + half - half * y / 32767

    drawing.items.append(Words(0, 16, title, "start", "ink", 14, bold=True))
    at, x = 0, 0.0
    step = max(1, -(-shape["shown"] // MOST_DOTS))
    drawing.items += [
        Line([place(pairs[one]), place(pairs[one + 1])], "line", 1)
        for one in range(0, min(len(pairs), 2 * MOST_DOTS), 2)
    ]
    for kb, (name, count) in enumerate(zip(shape["kbs"], shape["counts"], strict=True)):
        drawing.items += [Dot(x + 5, 34, 4, f"c{kb % COLOURS}"), Words(x + 14, 38, name)]
        x += 30 + 7 * len(name)
        drawing.items += [
            Dot(*place(one), 2, f"c{kb % COLOURS}") for one in range(at, at + count, step)
        ]
        at += count
    return drawing
