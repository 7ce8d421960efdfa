"""Finding overlaps: entities that share a name, kept where their descriptions are alike.

The method of the joint-space paper: candidate pairs by strict equality of (folded) names, then a
filter on the cosine of sentence embeddings of the descriptions. Where one of the two has no
description, the texts of both (title, type, other names, description) are compared instead, and
the evidence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Protocol

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from kglink.errors import UsageError
from kglink.records import Entity, EntityId, Overlap
from kglink.text.entity_text import entity_text
from kglink.text.fold import fold

#: Pairs that are read, encoded and compared together.
BATCH_PAIRS = 4096

FloatArray = npt.NDArray[np.float32]


class OverlapStore(Protocol):
    """What overlap needs of the store."""

    def shared_names(self, left: str, right: str) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and shared name, pair by pair."""
        ...

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        """The entities that are there."""
        ...

    def save_overlaps(self, left: str, right: str, overlaps: Iterable[Overlap]) -> int:
        """Replace a KB pair's overlaps, keeping verdicts."""
        ...


class SentenceEncoder(Protocol):
    """What overlap needs of an encoder."""

    def encode(self, texts: list[str]) -> FloatArray:
        """One vector of length one for each text."""
        ...


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """Counts as in the paper's Table 1."""

    left: str
    right: str
    candidates: int
    kept: int


def find_overlaps(
    store: OverlapStore,
    left: str,
    right: str,
    encoder: SentenceEncoder,
    *,
    threshold: float,
    progress: Callable[[int], None] = lambda pairs: None,
) -> OverlapReport:
    """Find and store the overlaps of two KBs; verdicts that people gave stay."""
    if left == right:
        raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    candidates = 0

    def kept() -> Iterator[Overlap]:
        nonlocal candidates
        for batch in _batches(store.shared_names(left, right)):
            candidates += len(batch)
            yield from _judge(store, left, right, batch, encoder, threshold)
            progress(len(batch))

    stored = store.save_overlaps(left, right, kept())
    return OverlapReport(left, right, candidates, stored)


def probability_of(cosine: float, threshold: float) -> float:
    """From .5 at the threshold to 1 at cosine 1, in a straight line; not calibrated."""
    return round(min(1.0, 0.5 + 0.5 * (cosine - threshold) / max(1 - threshold, 1e-6)), 4)


def _batches(names: Iterator[tuple[str, str, str]]) -> Iterator[list[tuple[str, str, int]]]:
    """Pairs with the number of names that they share; the store gives each pair in one run."""
    pairs = ((*pair, sum(1 for _ in run)) for pair, run in groupby(names, key=lambda row: row[:2]))
    while batch := list(islice(pairs, BATCH_PAIRS)):
        yield batch


def _judge(
    store: OverlapStore,
    left: str,
    right: str,
    batch: list[tuple[str, str, int]],
    encoder: SentenceEncoder,
    threshold: float,
) -> Iterator[Overlap]:
    ids = [(EntityId(left, one), EntityId(right, other)) for one, other, _ in batch]
    entities = store.get_entities({entity for pair in ids for entity in pair})
    texts, kinds = [], []
    for one, other in ids:
        kind, pair = _comparable(entities[one], entities[other])
        kinds.append(kind)
        texts += pair
    vectors = encoder.encode(texts)
    cosines = np.einsum("nd,nd->n", vectors[0::2], vectors[1::2])
    for (one, other), kind, cosine, (_, _, shared) in zip(ids, kinds, cosines, batch, strict=True):
        if cosine >= threshold:
            yield Overlap(
                left=one,
                right=other,
                probability=probability_of(float(cosine), threshold),
                evidence={
                    "shared_names": shared,
                    "titles": _title_similarity(entities[one], entities[other]),
                    kind: round(float(cosine), 4),
                },
            )


def _title_similarity(left: Entity, right: Entity) -> float:
    return round(fuzz.ratio(fold(left.title), fold(right.title)) / 100, 4)


def _comparable(left: Entity, right: Entity) -> tuple[str, list[str]]:
    if left.description and right.description:
        return "description", [left.description, right.description]
    return "text", [entity_text(left), entity_text(right)]
