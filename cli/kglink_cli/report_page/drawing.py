"""A drawing of lines, boxes, dots and words: as SVG, which follows light and dark, and as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import BinaryIO, Literal, NamedTuple

from kglink import shown
from kglink.errors import UsageError
from kglink.text.printable import printable_line

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]

#: Okabe and Ito's colours on a light page, and lighter ones for a dark page.
LIGHT = {
    "page": "#fcfcfa", "ink": "#23262b", "soft": "#5f6670", "line": "#e2e3e0",
    **{f"c{at}": colour for at, colour in enumerate(shown.COLOURS)},
}  # fmt: skip
DARK = {
    "page": "#17191d", "ink": "#e3e5e8", "soft": "#a0a7b1", "line": "#343941",
    "c0": "#4ba3e3", "c1": "#e69f00", "c2": "#2dbd93", "c3": "#f08346", "c4": "#dc8fb8",
    "c5": "#8fd0f5", "c6": "#d9ce4a",
}  # fmt: skip
COLOURS = len(shown.COLOURS)
#: Lines of one colour differ in their dashes.
DASHES = ("", "6 3", "2 3", "8 3 2 3")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"


class Line(NamedTuple):
    """A line through points."""

    points: Sequence[Point]
    colour: str = "ink"
    width: float = 1.0
    dash: str = ""


class Box(NamedTuple):
    """A filled rectangle; ``title`` is shown under the pointer."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1.0
    title: str = ""


class Dot(NamedTuple):
    """A filled circle; ``title`` is shown under the pointer."""

    x: float
    y: float
    radius: float
    colour: str
    title: str = ""


class Words(NamedTuple):
    """A line of text whose baseline is at ``y``."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    colour: str = "ink"
    size: float = 12.0
    bold: bool = False
    turned: bool = False


@dataclass
class Drawing:
    """What is drawn, in its order; ``title`` and ``summary`` say it in words."""

    name: str
    title: str
    summary: str
    width: float
    height: float
    items: list[Line | Box | Dot | Words] = field(default_factory=list)

    def svg(self, *, alone: bool) -> str:
        """SVG for a page that has the colours, or ``alone``, for a file."""
        head = (
            f'<svg class="plot" role="img" viewBox="0 0 {self.width:g} {self.height:g}"'
            f' aria-label="{_text(self.title)}. {_text(self.summary)}"'
        )
        if alone:
            head += (
                f' xmlns="http://www.w3.org/2000/svg" width="{self.width:g}"'
                f' height="{self.height:g}"'
            )
        parts = [f"{head}>\n<title>{_text(self.title)}</title>"]
        if alone:
            whole = Box(0, 0, self.width, self.height, "page")
            parts += [f"<style>{colours()}</style>", _svg(whole)]
        parts += map(_svg, self.items)
        return "\n".join([*parts, "</svg>\n"])

    def write_png(self, path: BinaryIO) -> None:
        """Write a picture; it takes matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise UsageError(
                "PNG needs matplotlib", hint="Install it with: pip install 'kglink[plots]'"
            ) from error
        figure = Figure(figsize=(self.width / 100, self.height / 100), facecolor=LIGHT["page"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for order, item in enumerate(self.items):
            _paint(axes, item, order)
        figure.savefig(path, dpi=200, format="png", metadata={"Software": None})


def colours() -> str:
    """The colours as CSS, for light and dark."""
    names = [f".f-{name} {{ fill: var(--{name}) }} .s-{name} {{ stroke: var(--{name}) }}"
             for name in LIGHT]  # fmt: skip
    light, dark = (
        " ".join(f"--{name}: {value};" for name, value in one.items()) for one in (LIGHT, DARK)
    )
    return (
        f":root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f".plot text {{ font-family: {_FONT} }}\n" + "\n".join(names)
    )


def width_of(text: str, size: float = 12.0) -> float:
    """About how wide a line of text is."""
    return len(text) * size * 0.56


def cut(text: str, most: int) -> str:
    """A text for a plot: one line, not too long."""
    shown = printable_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _text(text: str) -> str:
    return escape(printable_line(text), quote=True)


def _svg(item: Line | Box | Dot | Words) -> str:
    match item:
        case Line():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in item.points)
            dash = f' stroke-dasharray="{item.dash}"' if item.dash else ""
            return (
                f'<polyline points="{points}" fill="none" class="s-{item.colour}"'
                f' stroke-width="{item.width:g}" stroke-linejoin="round"{dash}/>'
            )
        case Box():
            shade = f' fill-opacity="{item.opacity:.3f}"' if item.opacity < 1 else ""
            title = f"<title>{_text(item.title)}</title>" if item.title else ""
            return (
                f'<rect x="{item.x:.1f}" y="{item.y:.1f}" width="{item.width:.1f}"'
                f' height="{item.height:.1f}" class="f-{item.colour}"{shade}>{title}</rect>'
            )
        case Dot():
            title = f"<title>{_text(item.title)}</title>" if item.title else ""
            return (
                f'<circle cx="{item.x:.1f}" cy="{item.y:.1f}" r="{item.radius:g}"'
                f' class="f-{item.colour}">{title}</circle>'
            )
        case Words():
            turn = f' transform="rotate(-90 {item.x:.1f} {item.y:.1f})"' if item.turned else ""
            weight = ' font-weight="600"' if item.bold else ""
            return (
                f'<text x="{item.x:.1f}" y="{item.y:.1f}" text-anchor="{item.anchor}"'
                f' font-size="{item.size:g}" class="f-{item.colour}"{weight}{turn}>'
                f"{_text(item.text)}</text>"
            )


def _paint(axes: object, item: Line | Box | Dot | Words, order: int) -> None:
    """Put an item into matplotlib's axes."""
    from typing import Any, cast

    from matplotlib.patches import Circle, Rectangle

    at = cast("Any", axes)
    colour = LIGHT[item.colour]
    match item:
        case Line():
            xs, ys = zip(*item.points, strict=True) if item.points else ((), ())
            dash: Any = (0, tuple(map(float, item.dash.split()))) if item.dash else "solid"
            at.plot(xs, ys, color=colour, lw=item.width * 0.72, ls=dash, zorder=order)
        case Box():
            place = (item.x, item.y), item.width, item.height
            at.add_patch(Rectangle(*place, color=colour, alpha=item.opacity, lw=0, zorder=order))
        case Dot():
            at.add_patch(Circle((item.x, item.y), item.radius, color=colour, lw=0, zorder=order))
        case Words():
            sides = {"start": "left", "middle": "center", "end": "right"}
            at.text(
                item.x, item.y, printable_line(item.text), color=colour, fontsize=item.size * 0.72,
                ha=sides[item.anchor], va="baseline", rotation=90 if item.turned else 0,
                rotation_mode="anchor", fontweight="bold" if item.bold else "normal",
                parse_math=False, zorder=order,
            )  # fmt: skip
