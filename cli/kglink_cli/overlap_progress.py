"""What a search for overlaps is at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kglink_cli.console import Reached, watching

if TYPE_CHECKING:
    from kglink.overlap.steps import SearchStep

Done = TypeVar("Done")


def watched_search(work: Callable[..., Done]) -> Done:
    """Do the work, which takes the argument ``progress`` of a search, and show how far it is."""
    now = Reached("looking for overlaps", 0)

    def told(step: SearchStep) -> None:
        nonlocal now
        now = Reached(step.name, step.done, step.total or None, step.done)

    with watching(lambda: now):
        return work(progress=told)
