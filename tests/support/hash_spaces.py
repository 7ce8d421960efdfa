"""Spaces of a few entities whose vectors are hashes of their texts, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kglink.config import SpaceSection
from kglink.models.source import ModelInfo
from kglink.plugins import IndexBackend, load_registry
from kglink.records import Alias, Entity
from kglink.space.build import BuildReport, SpaceBuild
from kglink.space.folder import SpaceFolder
from kglink.space.segment_plan import SpaceSource
from kglink.space.space import Space
from kglink.store.entity_reader import FoldedEntity
from kglink.text.fold import fold

MODEL = ModelInfo(name="toy", fingerprint="f1", dim=8)
MERCURY = Entity("m1", "Mercury", "The planet.", "planet", popularity=5)
AMBER = Entity(
    "a1", "Amber", "", "resin", aliases=(Alias("amber", count=3), Alias("Succinite", count=2))
)
HERON = Entity("h1", "Héron", "A bird.", aliases=(Alias("Heron"), Alias("†")))


@dataclass
class HashEncoder:
    """Unit vectors from a hash of the text, and a note of every text that was encoded."""

    seen: list[str] = field(default_factory=list)
    truncated: int = 0
    trained: None = None
    fail_after: int | None = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if self.fail_after is not None and len(self.seen) >= self.fail_after:
            raise KeyboardInterrupt
        self.seen += texts
        return np.stack([vector_of(text) for text in texts])


def vector_of(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
    vector = np.random.default_rng(seed).standard_normal(MODEL.dim).astype(np.float32)
    return vector / np.linalg.norm(vector)


def folded(entities: Iterable[Entity]) -> list[FoldedEntity]:
    """Entities as the store gives them to a build."""
    return [
        FoldedEntity(entity, tuple(fold(alias.surface) for alias in entity.aliases))
        for entity in entities
    ]


def source(kb: str, *entities: Entity, content: str = "1") -> SpaceSource:
    def read() -> list[FoldedEntity]:
        return folded(sorted(entities, key=lambda entity: entity.key))

    return SpaceSource(kb, 1, content, "CC0", read)


def backend_of(name: str, settings: Mapping[str, str | int | float | bool]) -> IndexBackend:
    return load_registry(only="builtin").create("index", name, settings)


def build(
    folder: SpaceFolder,
    *sources: SpaceSource,
    encoder: HashEncoder | None = None,
    model: ModelInfo = MODEL,
    settings: SpaceSection | None = None,
) -> BuildReport:
    return job(folder, sources, encoder, model, settings).build()


def job(
    folder: SpaceFolder,
    sources: Sequence[SpaceSource],
    encoder: HashEncoder | None = None,
    model: ModelInfo = MODEL,
    settings: SpaceSection | None = None,
    **how: Any,
) -> SpaceBuild:
    parts = folder, sources, model, encoder or HashEncoder(), settings or SpaceSection()
    return SpaceBuild(*parts, backend_of, **how)


def opened(folder: SpaceFolder) -> Space:
    return Space(folder, backend_of)
