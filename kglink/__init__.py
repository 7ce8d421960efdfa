"""kglink links text to several knowledge bases at once, in one joint vector space.

The public names are loaded when they are first used, so that ``import kglink`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.client import Client
    from kglink.errors import KglinkError
    from kglink.plugins import PluginSettings, hookimpl
    from kglink.records import (
        Alias,
        Candidate,
        CodeMapping,
        Document,
        Entity,
        EntityId,
        Judgement,
        KBAnswer,
        Link,
        LinkedDocument,
        Mention,
        MentionInText,
        Overlap,
        OverlapRun,
        Progress,
        Ranking,
        Rejected,
        Span,
        TextInput,
    )
    from kglink.training.job import FinetuneJob
    from kglink.workspace import Workspace
    from kglink.workspace.notebooks import progress_bar, to_dataframe

    __version__: str

__all__ = [
    "Alias",
    "Candidate",
    "Client",
    "CodeMapping",
    "Document",
    "Entity",
    "EntityId",
    "FinetuneJob",
    "Judgement",
    "KBAnswer",
    "KglinkError",
    "Link",
    "LinkedDocument",
    "Mention",
    "MentionInText",
    "Overlap",
    "OverlapRun",
    "PluginSettings",
    "Progress",
    "Ranking",
    "Rejected",
    "Span",
    "TextInput",
    "Workspace",
    "__version__",
    "hookimpl",
    "progress_bar",
    "to_dataframe",
]

_ROOM_OF_NAME = {
    "Client": "client",
    "FinetuneJob": "training.job",
    "KglinkError": "errors",
    "PluginSettings": "plugins",
    "Workspace": "workspace",
    "hookimpl": "plugins",
    "progress_bar": "workspace.notebooks",
    "to_dataframe": "workspace.notebooks",
}


if not TYPE_CHECKING:  # else a type checker would take any name for a public one

    def __getattr__(name: str) -> object:
        """Load a public name from the room that defines it."""
        if name == "__version__":
            from importlib.metadata import version

            return version("kglink")
        if name not in __all__:
            raise AttributeError(f"module 'kglink' has no attribute {name!r}")
        return getattr(import_module(f"kglink.{_ROOM_OF_NAME.get(name, 'records')}"), name)


def __dir__() -> list[str]:
    """The public names and the module's own."""
    return sorted({*globals(), *__all__})
