"""The workspace: the folder of one user's store, spaces and settings, and the front door."""

from kglink.workspace.folder import WORKSPACE_VARIABLE, find_workspace, init_workspace
from kglink.workspace.kbs import AddedKB
from kglink.workspace.workspace import Workspace

__all__ = ["WORKSPACE_VARIABLE", "AddedKB", "Workspace", "find_workspace", "init_workspace"]
