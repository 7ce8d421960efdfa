"""The KBs of a workspace: listed, shown, removed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.records import Entity
    from kglink.store import KBInfo
    from kglink.workspace.opened import Opened


def kbs(opened: Opened) -> list[KBInfo]:
    """All KBs, in the order in which they were added."""
    return opened.store.kbs()


def kb(opened: Opened, name: str) -> KBInfo:
    """One KB: what it holds and where it comes from."""
    return opened.store.kb(name)


def entities(opened: Opened, name: str, *, limit: int | None = None) -> list[Entity]:
    """The first entities of a KB, or all."""
    return list(islice(opened.store.entities(name), limit))


def remove_kb(opened: Opened, name: str) -> KBInfo:
    """Remove a KB with its documents and overlaps; spaces keep it until they are built again."""
    info = opened.store.kb(name)
    opened.store.remove_kb(name)
    return info
