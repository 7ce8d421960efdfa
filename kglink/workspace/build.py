"""Building the joint space of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.errors import SpaceBusyError
from kglink.records import OnProgress

if TYPE_CHECKING:
    from kglink.space.build import BuildReport
    from kglink.workspace.opened import Opened


def build(
    opened: Opened, *, model: str = "", fresh: bool = False, progress: OnProgress = lambda _: None
) -> BuildReport:
    """Build and publish the joint space of all KBs; only what changed is encoded.

    ``model``, a name or a folder, takes the place of the model that the space was made with;
    ``fresh`` encodes everything again.
    """
    space = opened.joint_space.with_model(model) if model else opened.joint_space
    report = space.build(fresh=fresh, progress=progress)
    opened.joint_space = space
    return report


def build_if_stale(
    opened: Opened, *, wait: bool = True, progress: OnProgress = lambda _: None
) -> BuildReport | None:
    """Build the space where it is missing or older than the store.

    Without ``wait`` KBs that are new in the space, and that take more than a moment to encode, are
    published by their names alone, and `build` makes their vectors. While another process is
    building it, the version before it is used.
    """
    with opened.lock:
        if answers(opened, wait=wait):
            return None
        try:
            if not wait and opened.joint_space.publish_names(progress=progress):
                return None
            return build(opened, progress=progress)
        except SpaceBusyError:
            if not opened.joint_space.is_published():
                raise
            return None


def answers(opened: Opened, *, wait: bool = True) -> bool:
    """Whether the space holds what the store holds; without ``wait`` all names are enough."""
    space = opened.joint_space
    return space.is_current() or (not wait and space.answers_by_names())
