"""The curve of a run: a line of JSON for every so many steps and for each evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FILE = "curve.jsonl"
_PICTURE = "curve.png"


class Curve:
    """Lines of ``curve.jsonl``, in the order of the steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / _FILE

    @property
    def picture(self) -> Path:
        """Where `draw` puts its picture."""
        return self._folder / _PICTURE

    def begin(self, total: int = 0) -> None:
        """Forget what lies behind a step: a run that goes on writes those lines again."""
        kept = [line for line in self.lines() if line["total"] <= total] if total else []
        text = "".join(json.dumps(line) + "\n" for line in kept)
        self._path.write_text(text, encoding="utf-8")

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line; ``total`` says how many steps were done."""
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(dict(line)) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """All lines; one that a crash cut short is none."""
        if not self._path.is_file():
            return []
        found = []
        for text in self._path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                break
        return found

    def draw(self) -> Path | None:
        """Draw losses and recalls as a picture; None where matplotlib is not installed."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            return None
        losses = [line for line in self.lines() if "loss" in line]
        recalls = [line for line in self.lines() if "mean" in line]
        figure = Figure(figsize=(8, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for stage in dict.fromkeys(line["stage"] for line in losses):
            own = [line for line in losses if line["stage"] == stage]
            _plot(left, own, [line["loss"] for line in own], stage)
        for metric in recalls[0]["mean"] if recalls else ():
            _plot(right, recalls, [line["mean"][metric] for line in recalls], metric)
        for axes, title in ((left, "loss"), (right, "recall, mean over KBs")):
            axes.set(xlabel="step", title=title)
            if axes.lines:
                axes.legend()
        figure.savefig(self.picture, dpi=120)
        return self.picture


def _plot(
    axes: Any, lines: Sequence[Mapping[str, Any]], values: Sequence[float], label: str
) -> None:
    axes.plot([line["total"] for line in lines], values, label=label, marker=".")
