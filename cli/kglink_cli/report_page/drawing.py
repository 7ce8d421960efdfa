"""A drawing of lines, boxes, dots and words: as SVG, which follows light and dark, and as PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, BinaryIO, Literal

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
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"


class Drawing:
    """What is drawn, in its order; ``title`` and ``summary`` say it in words."""

    def __init__(self, name: str, title: str, summary: str, width: float, height: float) -> None:
        self.name = name
        self.title = title
        self.summary = summary
        self.width = width
        self.height = height
        self._svg: list[str] = []
        #: Each paints an item into matplotlib's axes, in its order.
        self._painters: list[Callable[[Any, int], object]] = []

    def line(
        self, points: Sequence[Point], colour: str = "ink", width: float = 1.0, dash: str = ""
    ) -> None:
        """Draw a line through points."""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._svg.append(
            f'<polyline points="{places}" fill="none" class="s-{colour}"'
            f' stroke-width="{width:g}" stroke-linejoin="round"{dashes}/>'
        )
        xs, ys = zip(*points, strict=True) if points else ((), ())
        style: Any = (0, tuple(map(float, dash.split()))) if dash else "solid"
        self._painters.append(
            lambda axes, order: axes.plot(
                xs, ys, color=LIGHT[colour], lw=width * 0.72, ls=style, zorder=order
            )
        )

    def box(
        self, place: Point, size: Point, colour: str, opacity: float = 1.0, title: str = ""
    ) -> None:
        """Draw a filled rectangle; ``title`` is shown under the pointer."""
        shade = f' fill-opacity="{opacity:.3f}"' if opacity < 1 else ""
        self._svg.append(
            f'<rect x="{place[0]:.1f}" y="{place[1]:.1f}" width="{size[0]:.1f}"'
            f' height="{size[1]:.1f}" class="f-{colour}"{shade}>{_title(title)}</rect>'
        )

        def paint(axes: Any, order: int) -> None:
            from matplotlib.patches import Rectangle

            style: Any = {"color": LIGHT[colour], "alpha": opacity, "lw": 0, "zorder": order}
            axes.add_patch(Rectangle(place, *size, **style))

        self._painters.append(paint)

    def dot(self, place: Point, radius: float, colour: str, title: str = "") -> None:
        """Draw a filled circle; ``title`` is shown under the pointer."""
        self._svg.append(
            f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}"'
            f' class="f-{colour}">{_title(title)}</circle>'
        )

        def paint(axes: Any, order: int) -> None:
            from matplotlib.patches import Circle

            axes.add_patch(Circle(place, radius, color=LIGHT[colour], lw=0, zorder=order))

        self._painters.append(paint)

    def words(
        self, x: float, y: float, text: str, anchor: Anchor = "start", colour: str = "ink",
        size: float = 12.0, *, bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        """Draw a line of text whose baseline is at ``y``."""
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        weight = ' font-weight="600"' if bold else ""
        self._svg.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            f' font-size="{size:g}" class="f-{colour}"{weight}{turn}>{text_of(text)}</text>'
        )
        side = {"start": "left", "middle": "center", "end": "right"}[anchor]
        self._painters.append(
            lambda axes, order: axes.text(
                x, y, printable_line(text), color=LIGHT[colour], fontsize=size * 0.72, ha=side,
                va="baseline", rotation=90 if turned else 0, rotation_mode="anchor",
                fontweight="bold" if bold else "normal", parse_math=False, zorder=order,
            )
        )  # fmt: skip

    def svg(self, *, alone: bool) -> str:
        """SVG for a page that has the colours, or ``alone``, for a file."""
        size = f'{self.width:g}" height="{self.height:g}"'
        own = f' xmlns="http://www.w3.org/2000/svg" width="{size}' if alone else ""
        parts = [
            f'<svg class="plot" role="img" viewBox="0 0 {self.width:g} {self.height:g}"'
            f' aria-label="{text_of(self.title)}. {text_of(self.summary)}"{own}>\n'
            f"<title>{text_of(self.title)}</title>"
        ]
        if alone:
            page = f'width="{self.width:.1f}" height="{self.height:.1f}" class="f-page"'
            parts += [f"<style>{colours()}</style>", f'<rect x="0.0" y="0.0" {page}></rect>']
        return "\n".join([*parts, *self._svg, "</svg>\n"])

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
        for order, paint in enumerate(self._painters):
            paint(axes, order)
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
    line = printable_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def text_of(text: str) -> str:
    """Any text, shown as it is and never read as HTML."""
    return escape(printable_line(text), quote=True)


def _title(text: str) -> str:
    return f"<title>{text_of(text)}</title>" if text else ""
