"""The plots of a report, from its JSON: curves, bars, reliability, confusion, maps."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kglink_cli.report_page.drawing import (
    COLOURS,
    DASHES,
    Anchor,
    Box,
    Dot,
    Drawing,
    Line,
    Point,
    Words,
    cut,
    width_of,
)
from kglink_cli.report_page.tables import evaluated, pools_of

WIDTH = 640.0
#: The place of the plot within its drawing.
_LEFT, _RIGHT, _BOTTOM = 58.0, 16.0, 46.0


class Series(NamedTuple):
    """Points of one line, with their intervals where they have some."""

    name: str
    points: Sequence[Point]
    intervals: Sequence[Point] = ()


class Bar(NamedTuple):
    """A share with its interval, of how many."""

    share: float
    interval: Point | None
    of: int


def line_chart(
    name: str,
    title: str,
    axes: tuple[str, str],
    series: Sequence[Series],
    *,
    shares: bool,
    logarithmic: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> Drawing:
    """Lines over numbers; ``shares`` are from 0 to 1, ``marks`` are lines with words across."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    low, high = (_share_floor(ys), 1.0) if shares else (0.0, max(ys, default=1.0) * 1.06 or 1.0)
    first, last = (min(xs, default=1.0) if logarithmic else 0.0), max(xs, default=1.0)
    scale: Callable[[float], float] = math.log2 if logarithmic else float
    reach = (scale(last) - scale(first)) or 1.0
    drawing, top = _begin(name, title, [one.name for one in series], 300.0)
    bottom = drawing.height - _BOTTOM

    def place(x: float, y: float) -> Point:
        across = _LEFT + (WIDTH - _LEFT - _RIGHT) * (scale(x) - scale(first)) / reach
        return across, bottom - (bottom - top) * (y - low) / (high - low)

    for tick in _ticks(low, high):
        y = place(first, tick)[1]
        drawing.items.append(Line([(_LEFT, y), (WIDTH - _RIGHT, y)], "line"))
        drawing.items.append(Words(_LEFT - 8, y + 4, f"{tick:g}", "end", "soft"))
    stops = [2.0**power for power in range(30)] if logarithmic else _ticks(first, last)
    for tick in (one for one in stops if first <= one <= last):
        x = place(tick, low)[0]
        drawing.items.append(Line([(x, bottom), (x, bottom + 5)], "soft"))
        drawing.items.append(Words(x, bottom + 19, f"{tick:,.6g}", "middle", "soft"))
    for at, text in marks:
        x = place(at, low)[0]
        drawing.items.append(Line([(x, top), (x, bottom)], "soft", 1, "2 3"))
        anchor: Anchor = "end" if x > WIDTH * 0.85 else "start"
        beside = -4 if anchor == "end" else 4
        drawing.items.append(Words(x + beside, top + 12, cut(text, 24), anchor, "soft", 11))
    for at, one in enumerate(series):
        colour, dash = f"c{at % COLOURS}", DASHES[at % len(DASHES)]
        aside = 3.0 * (at - (len(series) - 1) / 2)  # intervals side by side, not one on the other
        for (x, _), around in zip(one.points, one.intervals, strict=False):
            ends = [place(x, max(low, end)) for end in around]
            drawing.items.append(Line([(across + aside, y) for across, y in ends], colour, 1))
        drawing.items.append(Line([place(*point) for point in one.points], colour, 2, dash))
        if len(one.points) <= 40:
            drawing.items += [
                Dot(*place(x, y), 3, colour, f"{one.name}: {y:.3f} at {x:g}") for x, y in one.points
            ]
    _label(drawing, axes, top)
    return drawing


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
        drawing.items.append(Line([(x, top), (x, bottom)], "line"))
        drawing.items.append(Words(x, bottom + 16, f"{tick:g}", "middle", "soft"))
    y = top + gap / 2
    for label, bars in groups:
        middle = y + each * len(series) / 2 + 4
        drawing.items.append(Words(left - 8, middle, cut(label, 34), "end"))
        for at, bar in enumerate(bars):
            if bar is not None:
                _bar(drawing, bar, f"{label}, {series[at]}", (y + at * each, each), across, at)
        y += each * len(series) + gap
    drawing.items.append(Words((left + right) / 2, bottom + 36, axis, "middle", "soft"))
    drawing.height = bottom + 46
    return drawing


def _bar(
    drawing: Drawing, bar: Bar, label: str, place: Point, across: Callable[[float], float], at: int
) -> None:
    y, each = place
    told = f"{bar.share:.3f} of {bar.of:,}"
    width = max(across(bar.share) - across(0), 0.5)
    drawing.items.append(
        Box(across(0), y + 1, width, each - 2, f"c{at % COLOURS}", title=f"{label}: {told}")
    )
    end = bar.share
    if bar.interval is not None:
        ends = [(across(one), y + each / 2) for one in bar.interval]
        drawing.items.append(Line(ends, "ink", 1.5))
        end = max(end, bar.interval[1])
    drawing.items.append(Words(across(end) + 6, y + each / 2 + 4, told, "start", "soft", 11))


def reliability(
    name: str, title: str, curves: Sequence[tuple[str, Sequence[dict[str, Any]]]]
) -> Drawing:
    """Confidence against the share of right answers; a dot is the larger the more answers."""
    drawing, top = _begin(name, title, [one for one, _ in curves] if len(curves) > 1 else (), 430.0)
    bottom = drawing.height - _BOTTOM
    side = bottom - top
    left = (WIDTH - side) / 2

    def place(x: float, y: float) -> Point:
        return left + side * x, bottom - side * y

    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        (x, _), (_, y) = place(tick, 0), place(0, tick)
        drawing.items.append(Line([(left, y), (left + side, y)], "line"))
        drawing.items.append(Words(left - 8, y + 4, f"{tick:g}", "end", "soft"))
        drawing.items.append(Words(x, bottom + 19, f"{tick:g}", "middle", "soft"))
    drawing.items.append(Line([place(0, 0), place(1, 1)], "soft", 1.5, "4 4"))
    drawing.items.append(Words(*place(0.3, 0.22), "as sure as right", "start", "soft", 11))
    for at, (label, bins) in enumerate(curves):
        known = [one for one in bins if one["answers"]]
        most = max((one["answers"] for one in known), default=1)
        points = [place(one["confidence"], one["right"]) for one in known]
        colour = f"c{at % COLOURS}"
        drawing.items.append(Line(points, colour, 1.5, DASHES[at % len(DASHES)]))
        for one, point in zip(known, points, strict=True):
            told = (
                f"{label}: {one['answers']:,} answers, {one['confidence']:.2f} sure, "
                f"{one['right']:.2f} right"
            )
            radius = 3 + 9 * math.sqrt(one["answers"] / most)
            drawing.items.append(Dot(*point, round(radius, 1), colour, told))
    drawing.items.append(
        Words(WIDTH / 2, bottom + 38, "confidence (a larger dot: more answers)", "middle", "soft")
    )
    drawing.items.append(
        Words(left - 40, (top + bottom) / 2, "share of right answers", "middle", "soft",
              turned=True)
    )  # fmt: skip
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
        x = left + wide * (at + 0.5)
        drawing.items.append(Words(x, top - 8, cut(answer, int(wide / 7)), "middle"))
    middle = left + wide * len(answers) / 2
    drawing.items.append(Words(middle, top - 28, "KB of the answer", "middle", "soft"))
    drawing.items.append(Words(left - 10, top - 8, "KB of the gold", "end", "soft"))
    for row, gold in enumerate(golds):
        y = top + cell * row
        drawing.items.append(Words(left - 10, y + cell / 2 + 4, cut(gold, 20), "end"))
        whole = sum(one["mentions"] for one in cells if one["gold"] == gold)
        for at, answer in enumerate(answers):
            one = counts.get((gold, answer), {"mentions": 0, "right": 0})
            count, right = one["mentions"], one["right"]
            colour = "c0" if gold == answer else "c3"
            told = f"{gold} answered as {answer}: {count:,}, {right:,} right"
            box = left + wide * at + 1, y + 1, wide - 2, cell - 2
            shade = 0.06 + 0.5 * count / whole if count else 0.02
            drawing.items.append(Box(*box, colour, shade, told))
            x = left + wide * (at + 0.5)
            drawing.items.append(Words(x, y + cell / 2 + 4, f"{count:,}", "middle"))
    drawing.height = top + cell * len(golds) + 14
    return drawing


def _begin(name: str, title: str, legend: Sequence[str], height: float) -> tuple[Drawing, float]:
    """A drawing with its title and its legend; returns where the plot begins."""
    drawing = Drawing(name, title, ", ".join(legend), WIDTH, height)
    drawing.items.append(Words(0, 16, title, "start", "ink", 14, bold=True))
    x, y = 0.0, 38.0
    for at, one in enumerate(legend):
        shown = cut(one, 40)
        width = 30 + width_of(shown)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 20
        colour, dash = f"c{at % COLOURS}", DASHES[at % len(DASHES)]
        drawing.items.append(Line([(x, y - 4), (x + 18, y - 4)], colour, 3, dash))
        drawing.items.append(Words(x + 23, y, shown))
        x += width + 8
    top = y + 16 if legend else 30.0
    drawing.height = height + top - 30
    return drawing, top


def _label(drawing: Drawing, axes: tuple[str, str], top: float) -> None:
    bottom = drawing.height - _BOTTOM
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    drawing.items.append(Words(middle, bottom + 38, axes[0], "middle", "soft"))
    drawing.items.append(Words(14, (top + bottom) / 2, axes[1], "middle", "soft", turned=True))


def _share_floor(values: Sequence[float]) -> float:
    """Where an axis of shares begins: at 0, or where all are high, at a round value below."""
    least = min(values, default=0.0)
    return 0.0 if least < 0.5 else math.floor(least * 10 - 0.5) / 10


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers between two."""
    step = 10 ** math.floor(math.log10((high - low) / 5 or 1.0))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 6:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


Shape = Mapping[str, Any]
#: Types of entities, and dots of a drawn map.
MOST_DOMAINS = 12
MOST_DOTS = 3000


def plots_of(report: Shape) -> list[Drawing]:
    """All plots for which there are figures, in the order of the page."""
    return [*_recall(report), *_bars(report), *_reliability(report), *_thresholds(report),
            *_training(report), *_maps(report), *_confusions(report)]  # fmt: skip


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
    told = [{pool: _bar_of_plots(figures, around, count) for pool, figures, around, count
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
        (
            f"{kb}: {kind or '[none]'}",
            [_bar_of_plots(one.get((kb, kind)), {}, None) for one in domains],
        )
        for kb, kind in largest[:MOST_DOMAINS]
    ]
    if groups:
        title = f"Right at first, by type of the gold ({len(groups)} of {len(largest)} types)"
        yield bar_chart("domains", title, axis + ", within its KB", groups, names)


def _bar_of_plots(figures: Shape | None, around: Shape, count: int | None) -> Bar | None:
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


def _thresholds(report: Shape) -> Iterator[Drawing]:
    """What each threshold of links keeps, where all mentions are annotated."""
    judged = [
        (run["name"], run["end_to_end"]["metrics"]["joint"]["operating_points"])
        for run in report["runs"]
        if run["end_to_end"] and run["end_to_end"]["metrics"]["joint"]["operating_points"]
    ]
    several = len(judged) > 1
    told = {"right": "right links", "wrong": "wrong links"}
    if not several:
        told = {"links": "links kept", "wrong": "wrong", "right": "right"}
    series = [
        Series(
            f"{name}: {words}" if several else words,
            [(one["threshold"], one[key]) for one in points],
        )
        for name, points in judged
        for key, words in told.items()
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
