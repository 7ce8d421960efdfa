"""The settings of the index back ends, apart from them so that reading these loads no faiss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from kglink.plugins import IndexPreset, IndexSettings
from kglink_plugins.indexes.presets import FACTORY_PRESETS, FLAT_PRESETS


class FlatSettings(IndexSettings):
    """The exact index has nothing to set."""

    @classmethod
    def presets(cls) -> Mapping[str, IndexPreset]:
        """The exact index by its short name."""
        return FLAT_PRESETS


class FactorySettings(IndexSettings):
    """Which faiss index to build, and how hard to search it."""

    search_only: ClassVar[frozenset[str]] = frozenset({"nprobe", "ef_search"})

    factory: str = Field(
        "SQfp16",
        description="A faiss factory string: SQfp16, IVF1024,Flat, ...; `{lists}` in it stands "
        "for a number of lists that suits the rows.",
    )
    train_rows: int = Field(
        200_000, ge=1, description="Rows drawn at random to train an index that needs it."
    )
    nprobe: int = Field(32, ge=1, description="Lists that an IVF index looks into per query.")
    ef_search: int = Field(128, ge=1, description="Nodes that an HNSW index keeps per query.")
    ef_construction: int = Field(
        200, ge=1, description="Nodes that an HNSW index keeps per row while it is built."
    )

    @classmethod
    def presets(cls) -> Mapping[str, IndexPreset]:
        """Indexes worth choosing between."""
        return FACTORY_PRESETS
