"""The two methods without a model: a shared name, and the paper's filter by descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from kglink.config import OverlapSection
from kglink.overlap.names import NamedPair
from kglink.overlap.weigh import SearchCounts
from kglink.plugins import PairedKBs
from kglink.records import Entity, EntityId, Overlap
from kglink.text.entity_text import entity_text

#: Pairs that are read, encoded and compared together.
BATCH_PAIRS = 4096
#: What a shared name alone is worth: of the pairs of DOID and NCIT that share one, 92% are right.
NAME_PROBABILITY = 0.9
#: The least cosine of the paper.
PAPER_THRESHOLD = 0.5


def same_names(
    kbs: PairedKBs, names: Iterable[NamedPair], tally: SearchCounts
) -> Iterator[Overlap]:
    """All pairs that share a name."""
    for batch in _batches(names, tally):
        for pair in batch:
            yield _overlap(kbs, pair, NAME_PROBABILITY, {})


def alike_descriptions(
    kbs: PairedKBs, names: Iterable[NamedPair], threshold: float, tally: SearchCounts
) -> Iterator[Overlap]:
    """The pairs that share a name and whose descriptions have at least this cosine.

    Where one of the two has no description, the texts of both (title, type, other names,
    description) are compared instead, and the evidence says so.
    """
    for batch in _batches(names, tally):
        for pair, kind, cosine in _compared(kbs, batch, tally):
            if cosine >= threshold:
                evidence = {kind: round(cosine, 4)}
                yield _overlap(kbs, pair, probability_of(cosine, threshold), evidence)


#: The encoder with which the paper says that 0.5 parts descriptions.
PAPER_ENCODER = "RoBERTa-large (Sentence-BERT)"


def differences(settings: OverlapSection) -> list[str]:
    """What a search by the paper's method does otherwise than the paper."""
    found = [f"encoder {settings.model}, and the paper's is {PAPER_ENCODER}: overlap.model"]
    if settings.threshold != PAPER_THRESHOLD:
        found.append(f"threshold {settings.threshold:g}, and the paper's is {PAPER_THRESHOLD:g}")
    if settings.names != "strict":
        found.append(f"names are equal when {settings.names}, and the paper's strictly")
    if settings.name_kinds not in ((), ("title",)):
        found.append(f"names are {', '.join(settings.name_kinds)}, and the paper's are titles")
    if settings.one_to_one:
        found.append("one to one, and the paper's many to many")
    return found


def probability_of(cosine: float, threshold: float) -> float:
    """From .5 at the threshold to 1 at cosine 1, in a straight line; not calibrated."""
    return round(min(1.0, 0.5 + 0.5 * (cosine - threshold) / max(1 - threshold, 1e-6)), 4)


def cosines(kbs: PairedKBs, texts: Sequence[str]) -> list[float]:
    """The cosines of texts 0 and 1, 2 and 3, and so on."""
    if not texts:
        return []
    vectors = kbs.encode(texts)
    products = np.einsum("nd,nd->n", vectors[0::2], vectors[1::2])
    return [float(value) for value in np.clip(products, -1, 1)]


def _batches(names: Iterable[NamedPair], tally: SearchCounts) -> Iterator[list[NamedPair]]:
    pairs = iter(names)
    while batch := list(islice(pairs, BATCH_PAIRS)):
        tally.candidates += len(batch)
        yield batch


def _compared(
    kbs: PairedKBs, batch: Sequence[NamedPair], tally: SearchCounts
) -> Iterator[tuple[NamedPair, str, float]]:
    lefts = kbs.get("left", dict.fromkeys(pair.left for pair in batch))
    rights = kbs.get("right", dict.fromkeys(pair.right for pair in batch))
    there = [pair for pair in batch if pair.left in lefts and pair.right in rights]
    kinds, texts = [], []
    for pair in there:
        kind, both = _comparable(lefts[pair.left], rights[pair.right])
        tally.undescribed += kind != "description"
        kinds.append(kind)
        texts += both
    yield from zip(there, kinds, cosines(kbs, texts), strict=True)


def _comparable(left: Entity, right: Entity) -> tuple[str, list[str]]:
    if left.description and right.description:
        return "description", [left.description, right.description]
    return "text", [entity_text(left), entity_text(right)]


def _overlap(
    kbs: PairedKBs, pair: NamedPair, probability: float, evidence: dict[str, float]
) -> Overlap:
    return Overlap(
        EntityId(kbs.left, pair.left),
        EntityId(kbs.right, pair.right),
        probability,
        {"shared_names": float(len(pair.names)), **evidence},
    )
