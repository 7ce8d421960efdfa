"""The settings of the index back ends, apart from them so that reading these loads no faiss."""

from __future__ import annotations

from pydantic import Field

from kglink.protocols import PluginSettings


class FlatSettings(PluginSettings):
    """The exact index has nothing to set."""


class FactorySettings(PluginSettings):
    """Which faiss index to build, and how hard to search it."""

    factory: str = Field("SQfp16", description="A faiss factory string: SQfp16, IVF1024,Flat, ...")
    train_rows: int = Field(
        200_000, ge=1, description="Rows drawn at random to train an index that needs it."
    )
    nprobe: int = Field(32, ge=1, description="Lists that an IVF index looks into per query.")
    ef_search: int = Field(128, ge=1, description="Nodes that an HNSW index keeps per query.")
    ef_construction: int = Field(
        200, ge=1, description="Nodes that an HNSW index keeps per row while it is built."
    )
