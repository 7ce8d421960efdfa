"""How far a search for overlaps has come, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class SearchStep(NamedTuple):
    """What a search is at, and how far it has come in that; 0 in all where nobody knows."""

    name: str
    done: int = 0
    total: int = 0


Progress = Callable[[SearchStep], None]


def tell_nobody(step: SearchStep) -> None:
    """The progress of a search that nobody watches."""


class Steps:
    """Tells somebody of one step after the other."""

    def __init__(self, tell: Progress, of: str = "") -> None:
        self._tell = tell
        self._of = f"{of}: " if of else ""
        self._now = SearchStep("")

    def begin(self, name: str, total: int = 0) -> None:
        """Begin a step."""
        self._now = SearchStep(f"{self._of}{name}", 0, total)
        self._tell(self._now)

    def add(self, count: int) -> None:
        """So much more is done."""
        self.reach(self._now.done + count, self._now.total)

    def reach(self, done: int, total: int = 0) -> None:
        """So much is done of so much in all."""
        self._now = self._now._replace(done=done, total=total)
        self._tell(self._now)
