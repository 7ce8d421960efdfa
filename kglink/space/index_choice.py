"""Which index back end a space gets: the one that is set, else the one that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kglink.config import SpaceSection
from kglink.space.manifest import SpaceManifest

AUTO = "auto"
#: What a new space gets where nothing is set.
DEFAULT_INDEX = "kglink/flat"


class IndexChoice(NamedTuple):
    """A back end and its settings."""

    name: str
    settings: Mapping[str, str | int | float | bool]


def chosen_index(settings: SpaceSection, manifest: SpaceManifest | None) -> IndexChoice:
    """The back end for a space of which ``manifest`` is the published version."""
    if settings.index != AUTO:
        return IndexChoice(settings.index, settings.index_settings)
    if manifest is None:
        return IndexChoice(DEFAULT_INDEX, settings.index_settings)
    return IndexChoice(manifest.index, settings.index_settings or manifest.index_settings)
