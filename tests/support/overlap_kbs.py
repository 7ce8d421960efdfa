"""Two small KBs whose overlaps tests look for, a model, evidence, and what a search needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.config import OverlapSection
from kglink.overlap.model import OverlapModel, Weight
from kglink.overlap.search import OverlapTools
from kglink.plugins import EntityPair, EntityVectors, PairedKBs, PairEvidence
from kglink.records import Alias, Document, Entity, Overlap
from kglink.store import Store
from kglink_plugins.overlap_evidence.names import NameEvidence
from kglink_plugins.overlap_evidence.neighbours import DescriptionEvidence
from store_support import job

if TYPE_CHECKING:
    from kglink.plugins import FloatArray

MODEL = OverlapModel(
    name="default",
    evidence=("names", "description"),
    bias=-3.0,
    weights={
        "title": Weight(weight=1.0),
        "name": Weight(weight=3.0),
        "description": Weight(weight=4.0, absent=0.5),
        "descriptions_differ": Weight(weight=0.0),
    },
)


def angles(texts: Sequence[str]) -> FloatArray:
    """A text that ends in a number as the direction of so many degrees."""
    degrees = [float(text.split()[-1]) if text[-1:].isdigit() else 90.0 for text in texts]
    radians = np.deg2rad(np.array(degrees, np.float32))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


class NoSpace:
    """A workspace whose space is not built."""

    def __init__(self, *ready: str) -> None:
        self._ready = ready

    def at(self, store: Store) -> NoSpace:
        return self

    def ready(self, kb: str) -> bool:
        return kb in self._ready

    def get(self, kb: str, rows: str) -> EntityVectors | None:
        return None


class TitleAndName(NameEvidence):
    """The two values that `MODEL` has weights for."""

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        found = super().weigh(kbs, pairs)
        return [{name: values[name] for name in ("title", "name")} for values in found]


EVIDENCE: dict[str, Callable[[], PairEvidence]] = {
    "names": TitleAndName,
    "description": DescriptionEvidence,
}


def filled_store(folder: Path) -> Path:
    """A store with both KBs, to be copied."""
    path = folder / "kglink.db"
    with Store.open(f"sqlite:///{path}") as store:
        add(store, "wiki", WIKI)
        add(store, "world", WORLD)
    return path


@contextmanager
def copied_store(filled: Path, folder: Path) -> Iterator[Store]:
    """The store of a test, in its own folder."""
    shutil.copytree(filled.parent, folder, dirs_exist_ok=True)
    with Store.open(f"sqlite:///{folder / filled.name}") as store:
        yield store


def add(store: Store, kb: str, records: Sequence[Entity | Document], fingerprint: str = "") -> None:
    store.ingest(job(kb, fingerprint=fingerprint or kb), records)


def tools(
    store: Store,
    evidence: Mapping[str, Callable[[], PairEvidence]] = EVIDENCE,
    model: OverlapModel = MODEL,
    **settings: object,
) -> OverlapTools:
    section = OverlapSection.model_validate(settings)
    space = NoSpace("wiki", "world")
    return OverlapTools(store, section, angles, "angles", space, evidence, model)


def kept(store: Store) -> dict[tuple[str, str], Overlap]:
    pairs = store.overlaps("wiki", "world")
    return {(pair.left.key, pair.right.key): pair for pair in pairs}


WIKI = [
    Entity("W1", "Dalek", "turned by 0"),
    Entity("W2", "Clara Oswald", "turned by 0"),
    Entity("W3", "Skaro", "turned by 0"),
    Entity("W4", "Nightmare", ""),
    Entity("W5", "Nobody else", "turned by 0"),
]
WORLD = [
    Entity("1", "Dalek", "turned by 30"),
    Entity("2", "Clara Oswald (Immortals)", "turned by 59"),
    Entity("3", "Skaro", "turned by 61"),
    Entity("4", "Nightmare", "turned by 0"),
    Entity("5", "dalek", "turned by 0"),
    Entity("6", "Robot", "turned by 10", aliases=(Alias("Dalek"),)),
]


class Neighbour:
    """Proposes Skaro's neighbour and weighs nothing but that."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from [("W5", "4"), ("W5", "4"), ("W1", "1")]

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"near": 1.0} if pair.left.key == "W5" else {} for pair in pairs]


WITH_NEAR = MODEL.model_copy(
    update={"weights": {**MODEL.weights, "near": Weight(weight=2.0), "rival": Weight(weight=-4.0)}}
)
