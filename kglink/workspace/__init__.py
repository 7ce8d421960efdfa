"""The workspace: the folder of one user's store, spaces and settings, and the front door.

The public names are loaded when they are first used: a command that asks for one verb, or for
help, does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.workspace.folder import WORKSPACE_VARIABLE, find_workspace, init_workspace
    from kglink.workspace.kbs import AddedKB
    from kglink.workspace.workspace import Workspace

__all__ = ["WORKSPACE_VARIABLE", "AddedKB", "Workspace", "find_workspace", "init_workspace"]

_FILE_OF_NAME = {"AddedKB": "kbs", "Workspace": "workspace"}


if not TYPE_CHECKING:  # else a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a public name from the file that defines it."""
        if name not in __all__:
            raise AttributeError(f"module 'kglink.workspace' has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_FILE_OF_NAME.get(name, 'folder')}"), name)
