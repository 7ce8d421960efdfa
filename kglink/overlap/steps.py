"""How far a search for overlaps has come, for whoever waits for it."""

from __future__ import annotations

from dataclasses import replace

from kglink.records import OnProgress, Progress


class Steps:
    """Tells somebody of one step after the other."""

    def __init__(self, tell: OnProgress, of: str = "") -> None:
        self._tell = tell
        self._of = f"{of}: " if of else ""
        self._now = Progress("")

    def begin(self, name: str, total: int = 0) -> None:
        """Begin a step."""
        self._now = Progress(f"{self._of}{name}", 0, total)
        self._tell(self._now)

    def add(self, count: int) -> None:
        """So much more is done."""
        self.reach(replace(self._now, done=self._now.done + count))

    def reach(self, part: Progress) -> None:
        """What does this step tells how far it is, under a name of its own."""
        self._now = replace(self._now, done=part.done, total=part.total)
        self._tell(self._now)
