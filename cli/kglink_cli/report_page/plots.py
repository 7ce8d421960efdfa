"""The plots of a report, from its JSON: curves, bars, reliability, confusion, maps."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kglink_cli.report_page.drawing import COLOURS, Anchor, Drawing, Point, cut, width_of
from kglink_cli.report_page.tables import Shape, evaluated, pools_of

WIDTH = 640.0
#: The place of the plot within its drawing.
_LEFT, _RIGHT, _BOTTOM = 58.0, 16.0, 46.0
#: Lines of one colour differ in their dashes.
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
#: Types of entities, and dots of a drawn map.
MOST_DOMAINS = 12
MOST_DOTS = 3000

Place = Callable[[float, float], Point]


class Series(NamedTuple):
    """Points of one line, with their intervals where they have some."""

    name: str
    points: Sequence[Point]
    intervals: Sequence[Point] = ()
    dots: Sequence[tuple[float, str]] = ()
    """The radius of each point's dot, and what it says, where that is not the same for all."""


class Bar(NamedTuple):
    """A share with its interval, of how many."""

    share: float
    interval: Point | None
    of: int


# ------------------------------------------------------------------------- kinds of charts
def line_chart(
    name: str,
    title: str,
    axes: tuple[str, str],
    series: Sequence[Series],
    *,
    shares: bool = True,
    logarithmic: bool = False,
    marks: Sequence[tuple[float, str]] = (),
    diagonal: str = "",
) -> Drawing:
    """Lines over numbers; ``shares`` are from 0 to 1, ``marks`` are lines with words across.

    A ``diagonal`` with these words makes a square: shares over shares.
    """
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    ends = [end for one in series for around in one.intervals for end in around]
    legend = [one.name for one in series if one.name]
    low, high = 0.0, 1.0 if shares else max(ys, default=1.0) * 1.06 or 1.0
    first, last = (min(xs, default=1.0) if logarithmic else 0.0), max(xs, default=1.0)
    drawing, top = _begin(name, title, legend, 430.0 if diagonal else 300.0)
    left, right, bottom = _LEFT, WIDTH - _RIGHT, drawing.height - _BOTTOM
    if diagonal:
        last, left, right = 1.0, (WIDTH - bottom + top) / 2, (WIDTH + bottom - top) / 2
    elif shares and (least := min([*ys, *ends], default=0.0)) >= 0.5:  # from a round value
        low = math.floor(least * 10 - 0.5) / 10
    scale: Callable[[float], float] = math.log2 if logarithmic else float
    reach = (scale(last) - scale(first)) or 1.0

    def place(x: float, y: float) -> Point:
        across = left + (right - left) * (scale(x) - scale(first)) / reach
        return across, bottom - (bottom - top) * (y - low) / (high - low)

    for tick in _ticks(low, high):
        y = place(first, tick)[1]
        drawing.line([(left, y), (right, y)], "line")
        drawing.words(left - 8, y + 4, f"{tick:g}", "end", "soft")
    stops = [2.0**power for power in range(30)] if logarithmic else _ticks(first, last)
    for tick in (one for one in stops if first <= one <= last):
        x = place(tick, low)[0]
        drawing.line([(x, bottom), (x, bottom + 5)], "soft")
        drawing.words(x, bottom + 19, f"{tick:,.6g}", "middle", "soft")
    for at, text in marks:
        x = place(at, low)[0]
        drawing.line([(x, top), (x, bottom)], "soft", 1, "2 3")
        anchor: Anchor = "end" if x > WIDTH * 0.85 else "start"
        beside = -4 if anchor == "end" else 4
        drawing.words(x + beside, top + 12, cut(text, 24), anchor, "soft", 11)
    if diagonal:
        drawing.line([place(0, 0), place(1, 1)], "soft", 1.5, "4 4")
        drawing.words(*place(0.3, 0.22), diagonal, "start", "soft", 11)
    for at, one in enumerate(series):
        aside = 3.0 * (at - (len(series) - 1) / 2)  # intervals side by side, not one on the other
        for (x, _), around in zip(one.points, one.intervals, strict=False):
            reached = [place(x, end) for end in around]
            drawing.line([(across + aside, y) for across, y in reached], _style(at)[0], 1)
        _draw_series(drawing, one, place, *_style(at))
    drawing.words((left + right) / 2, bottom + 38, axes[0], "middle", "soft")
    drawing.words(left - 44, (top + bottom) / 2, axes[1], "middle", "soft", turned=True)
    return drawing


def _draw_series(drawing: Drawing, series: Series, place: Place, colour: str, dash: str) -> None:
    drawing.line([place(*point) for point in series.points], colour, 2, dash)
    few = series.points if len(series.points) <= 40 else ()
    dots = series.dots or [(3, f"{series.name}: {y:.3f} at {x:g}") for x, y in few]
    for point, (radius, words) in zip(series.points, dots, strict=False):
        drawing.dot(place(*point), radius, colour, words)


def bar_chart(
    name: str, title: str, axis: str, groups: Sequence[tuple[str, Sequence[Bar | None]]],
    series: Sequence[str],
) -> Drawing:  # fmt: skip
    """Bars from 0 to 1, a group for each row, a colour for each series."""
    each, gap = (22.0 if len(series) == 1 else 15.0), 12.0
    height = len(groups) * (each * len(series) + gap)
    drawing, top = _begin(name, title, series if len(series) > 1 else (), height + 96)
    left = min(230.0, max((width_of(cut(one, 34)) for one, _ in groups), default=0) + 20)
    right = WIDTH - 120

    def across(share: float) -> float:
        return left + (right - left) * share

    bottom = top + height
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = across(tick)
        drawing.line([(x, top), (x, bottom)], "line")
        drawing.words(x, bottom + 16, f"{tick:g}", "middle", "soft")
    y = top + gap / 2
    for label, bars in groups:
        drawing.words(left - 8, y + each * len(series) / 2 + 4, cut(label, 34), "end")
        for at, bar in enumerate(bars):
            if bar is not None:
                shown, middle = f"{bar.share:.3f} of {bar.of:,}", y + each * (at + 0.5)
                size = max(across(bar.share) - across(0), 0.5), each - 2
                title = f"{label}, {series[at]}: {shown}"
                drawing.box((across(0), y + each * at + 1), size, _style(at)[0], title=title)
                end = bar.share
                if bar.interval is not None:
                    drawing.line([(across(one), middle) for one in bar.interval], "ink", 1.5)
                    end = max(end, bar.interval[1])
                drawing.words(across(end) + 6, middle + 4, shown, "start", "soft", 11)
        y += each * len(series) + gap
    drawing.words((left + right) / 2, bottom + 36, axis, "middle", "soft")
    drawing.height = bottom + 46
    return drawing


def confusion(
    name: str, title: str, cells: Sequence[dict[str, Any]], kbs: Sequence[str]
) -> Drawing:
    """How many mentions of each KB were answered by each: the darker the larger the row's share."""
    golds, answers = (
        [*(kb for kb in kbs if kb in found), *sorted(found - set(kbs))]
        for found in ({one["gold"] for one in cells}, {one["answer"] for one in cells})
    )
    left, cell = 170.0, 34.0
    wide = min(110.0, (WIDTH - left - 20) / max(len(answers), 1))
    drawing, top = _begin(name, title, (), 120 + cell * len(golds))
    top += 46
    counts = {(one["gold"], one["answer"]): one for one in cells}
    for at, answer in enumerate(answers):
        drawing.words(left + wide * (at + 0.5), top - 8, cut(answer, int(wide / 7)), "middle")
    middle = left + wide * len(answers) / 2
    drawing.words(middle, top - 28, "KB of the answer", "middle", "soft")
    drawing.words(left - 10, top - 8, "KB of the gold", "end", "soft")
    for row, gold in enumerate(golds):
        y = top + cell * row
        drawing.words(left - 10, y + cell / 2 + 4, cut(gold, 20), "end")
        whole = sum(one["mentions"] for one in cells if one["gold"] == gold)
        for at, answer in enumerate(answers):
            one = counts.get((gold, answer), {"mentions": 0, "right": 0})
            count, x = one["mentions"], left + wide * at
            shade = 0.06 + 0.5 * count / whole if count else 0.02
            words = f"{gold} answered as {answer}: {count:,}, {one['right']:,} right"
            colour = "c0" if gold == answer else "c3"
            drawing.box((x + 1, y + 1), (wide - 2, cell - 2), colour, shade, words)
            drawing.words(x + wide / 2, y + cell / 2 + 4, f"{count:,}", "middle")
    drawing.height = top + cell * len(golds) + 14
    return drawing


def _begin(name: str, title: str, legend: Sequence[str], height: float) -> tuple[Drawing, float]:
    """A drawing with its title and its legend; returns where the plot begins."""
    drawing = Drawing(name, title, ", ".join(legend), WIDTH, height)
    drawing.words(0, 16, title, "start", "ink", 14, bold=True)
    x, y = 0.0, 38.0
    for at, one in enumerate(legend):
        words = cut(one, 40)
        width = 30 + width_of(words)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 20
        colour, dash = _style(at)
        drawing.line([(x, y - 4), (x + 18, y - 4)], colour, 3, dash)
        drawing.words(x + 23, y, words)
        x += width + 8
    top = y + 16 if legend else 30.0
    drawing.height = height + top - 30
    return drawing, top


def _style(at: int) -> tuple[str, str]:
    """The colour and the dashes of a series."""
    return f"c{at % COLOURS}", _DASHES[at % len(_DASHES)]


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers between two."""
    step = 10 ** math.floor(math.log10((high - low) / 5 or 1.0))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 6:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


# ------------------------------------------------------------------------- those of a report
def plots_of(report: Shape) -> Iterator[Drawing]:
    """All plots for which there are figures, in the order of the page."""
    yield from _recall(report)
    yield from _bars(report)
    judged = [run for run in report["runs"] if run["end_to_end"]]
    joints = [(run["name"], run["end_to_end"]["metrics"]["joint"]) for run in judged]
    yield from _reliability(joints)
    yield from _thresholds(joints)
    yield from _training(report)
    for run in report["runs"]:  # a still of each map; the page has one to walk in
        for side in ("before", "after"):
            if run["map"] and run["map"][side]:
                yield _map(run, side)
    kbs = [one["name"] for one in report["kbs"]]
    for run in report["runs"]:
        if run["errors"]:
            title = f"{run['name']}: which KB answered for which"
            yield confusion(f"confusion-{run['name']}", title, run["errors"]["confusion"], kbs)


def _recall(report: Shape) -> Iterator[Drawing]:
    runs = evaluated(report)
    several = len(runs) > 1
    series = []
    for run in runs:
        for pool, figures, around, _ in pools_of(run["retrieval"]):
            if several and pool != "[joint]":
                continue
            ks = [name for name in figures if name.startswith("R@")]
            points = [(float(name[2:]), figures[name]) for name in ks]
            ends = [tuple(around[name]) for name in ks]
            series.append(Series(run["name"] if several else pool, points, ends))
    if series:
        of = " of all KBs" * several
        title = f"A right entity among the first k{of}: recall, with 95% intervals"
        axes = "k, candidates looked at", "share of mentions"
        yield line_chart("recall", title, axes, series, logarithmic=True)


def _bars(report: Shape) -> Iterator[Drawing]:
    runs = evaluated(report)
    if not runs:
        return

    def bar(figures: Shape | None, around: Shape, count: int | None) -> Bar | None:
        if not figures:
            return None
        interval = tuple(around["R@1"]) if around.get("R@1") else None
        return Bar(figures["R@1"], interval, figures["mentions"] if count is None else count)

    names = [run["name"] for run in runs]
    by_pool = [{one[0]: bar(*one[1:]) for one in pools_of(run["retrieval"])} for run in runs]
    pools = dict.fromkeys(pool for one in by_pool for pool in one)
    groups = [(pool, [one.get(pool) for one in by_pool]) for pool in pools]
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
        (f"{kb}: {kind or '[none]'}", [bar(one.get((kb, kind)), {}, None) for one in domains])
        for kb, kind in largest[:MOST_DOMAINS]
    ]
    if groups:
        title = f"Right at first, by type of the gold ({len(groups)} of {len(largest)} types)"
        yield bar_chart("domains", title, axis + ", within its KB", groups, names)


def _reliability(joints: Sequence[tuple[str, Shape]]) -> Iterator[Drawing]:
    """Confidence against the share of right answers; a dot is the larger the more answers."""
    known = [(name, one["calibration"]) for name, one in joints if one["calibration"]["answers"]]
    series = []
    for name, calibration in known:
        bins = [one for one in calibration["bins"] if one["answers"]]
        most = max(one["answers"] for one in bins)
        dots = [
            (
                round(3 + 9 * math.sqrt(one["answers"] / most), 1),
                f"{name}: {one['answers']:,} answers, {one['confidence']:.2f} sure, "
                f"{one['right']:.2f} right",
            )
            for one in bins
        ]
        points = [(one["confidence"], one["right"]) for one in bins]
        series.append(Series(name if len(known) > 1 else "", points, dots=dots))
    if series:
        title = "Reliability: are answers right as often as they say?"
        axes = "confidence (a larger dot: more answers)", "share of right answers"
        yield line_chart("reliability", title, axes, series, diagonal="as sure as right")


def _thresholds(joints: Sequence[tuple[str, Shape]]) -> Iterator[Drawing]:
    judged = [(name, one["operating_points"]) for name, one in joints if one["operating_points"]]
    several = len(judged) > 1
    lines = {"links": "links kept", "wrong": "wrong", "right": "right"}
    if several:
        lines = {"right": "right links", "wrong": "wrong links"}
    series = [
        Series(
            f"{name}: {words}" if several else words, [(at["threshold"], at[key]) for at in points]
        )
        for name, points in judged
        for key, words in lines.items()
    ]
    if series:
        title = "What a threshold keeps: links in 1,000 texts, right and wrong"
        axes = "threshold: least probability of a link", "links in 1,000 texts"
        yield line_chart("thresholds", title, axes, series, shares=False)


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
        yield line_chart("epochs", title, axes, recalls)


def _map(run: Shape, side: str) -> Drawing:
    shape, half = run["map"], 280.0
    title = f"{run['name']}: the joint space {side} fine-tuning"
    drawing = Drawing(f"map-{side}-{run['name']}", title, shape["method"], WIDTH, 2 * half + 60)
    points = array("h", base64.b64decode(shape[side]["points"]))
    pairs = array("I", base64.b64decode(shape["pairs"]))

    def place(at: int) -> Point:
        x, y = points[2 * at], points[2 * at + 1]
        return WIDTH / 2 + half * x / 32767, 50 + half - half * y / 32767

    drawing.words(0, 16, title, "start", "ink", 14, bold=True)
    for one in range(0, min(len(pairs), 2 * MOST_DOTS), 2):
        drawing.line([place(pairs[one]), place(pairs[one + 1])], "line", 1)
    at, x = 0, 0.0
    step = max(1, -(-shape["shown"] // MOST_DOTS))
    for kb, (name, count) in enumerate(zip(shape["kbs"], shape["counts"], strict=True)):
        drawing.dot((x + 5, 34), 4, _style(kb)[0])
        drawing.words(x + 14, 38, name)
        x += 30 + 7 * len(name)
        for one in range(at, at + count, step):
            drawing.dot(place(one), 2, _style(kb)[0])
        at += count
    return drawing
