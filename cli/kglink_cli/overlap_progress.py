"""What a search for overlaps is at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kglink_cli.console import Reached, watching

Done = TypeVar("Done")


def watched_search(work: Callable[..., Done]) -> Done:
    """Do the work, told how to report, and show how far it is.

    ``work`` takes the arguments ``progress``, ``stage`` and ``encoding`` of a search.
    """
    watched = _Watched()
    with watching(watched.reached):
        return work(progress=watched.pairs, stage=watched.stage, encoding=watched.encoding)


class _Watched:
    def __init__(self) -> None:
        self._step = "looking for overlaps"
        self._label = self._step
        self._done = 0

    def stage(self, step: str) -> None:
        self._step, self._label, self._done = step, step, 0

    def pairs(self, count: int) -> None:
        self._add(self._step, count)

    def encoding(self, kb: str, rows: int) -> None:
        self._add(f"encoding {kb}", rows)

    def reached(self) -> Reached:
        return Reached(self._label, self._done, None, self._done)

    def _add(self, label: str, count: int) -> None:
        self._done = count if label != self._label else self._done + count
        self._label = label
