"""A map of the joint space in two dimensions: its entities by principal components.

Before and after fine-tuning the same entities are shown, a text vector of each. Each side has its
own first two principal components; the second map is then turned or mirrored (orthogonal
Procrustes) so that it lies on the first as well as it can, since the signs and the order of
components mean nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.models import Encoder
from kglink.records import Entity, EntityId, OnProgress, Progress
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.entity_text import entity_text

FloatArray = npt.NDArray[np.float32]
METHOD = "principal component analysis (PCA)"
#: Coordinates are kept as whole numbers up to this one.
_MOST = 32767
_BATCH = 1024


class Flat(NamedTuple):
    """Vectors in two dimensions, and the share of their variance that each shows."""

    points: FloatArray
    shares: tuple[float, float]


def project(vectors: FloatArray) -> Flat:
    """The first two principal components of some vectors, signs fixed by the largest loading."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    covariance = (centred.T @ centred).astype(np.float64)
    values, axes = np.linalg.eigh(covariance)
    axes = axes[:, ::-1][:, :2]
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.where(axes[largest, [0, 1]] < 0, -1.0, 1.0)
    whole = float(values.sum()) or 1.0
    shares = float(max(values[-1], 0.0)) / whole, float(max(values[-2], 0.0)) / whole
    return Flat(centred @ axes.astype(np.float32), shares)


def turned_onto(points: FloatArray, target: FloatArray) -> FloatArray:
    """Points turned, or mirrored, so that they lie on their targets as well as they can."""
    left, _, right = np.linalg.svd(points.T.astype(np.float64) @ target.astype(np.float64))
    turned: FloatArray = (points @ (left @ right)).astype(np.float32)
    return turned


def map_of(
    store: Store,
    space: Space,
    before: Encoder | None,
    most: int,
    progress: OnProgress = lambda _: None,
) -> dict[str, Any] | None:
    """The map as a report keeps it; None where fewer than three entities have a text vector.

    ``before`` is the model that the run started from; it encodes the shown entities once.
    """
    kbs = [kb for kb, segment in space.segments.items() if segment.row_count("text")]
    pairs = [
        (one.left, one.right)
        for left, right in combinations(sorted(kbs), 2)
        for one in store.overlaps(left, right)
        if one.is_accepted(0.5)
    ]
    total = sum(space.segments[kb].row_count("text") for kb in kbs)
    rows = {kb: _chosen(space.segments[kb], kb, pairs, most, total) for kb in kbs}
    ids = [EntityId(kb, space.segments[kb].keys[row]) for kb in kbs for row in rows[kb].tolist()]
    if len(ids) < 3:
        return None
    after = np.concatenate([space.segments[kb].vectors("text", rows[kb]) for kb in kbs])
    places = {entity: at for at, entity in enumerate(ids)}
    shown = [(places[one], places[other]) for one, other in pairs if {one, other} <= places.keys()]
    flat = project(after)
    found: dict[str, Any] = {
        "method": METHOD,
        "entities": total,
        "shown": len(ids),
        "kbs": kbs,
        "counts": [len(rows[kb]) for kb in kbs],
        "keys": [entity.key for entity in ids],
        "titles": [space.segments[kb].titles[row] for kb in kbs for row in rows[kb].tolist()],
        "pairs": _packed(np.array(shown, np.uint32).reshape(-1, 2)),
        "pair_count": len(shown),
        "before": None,
    }
    points = flat.points
    if before is not None:
        # What a model makes of entities, as it would for a space.
        def encoded(some: list[Entity]) -> FloatArray:
            if before.trained is None:
                return before.encode([entity_text(one) for one in some])
            return before.encode_entities(some)

        parts = []
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            known = store.get_entities(batch)
            parts.append(encoded([known.get(one) or Entity(one.key, one.key) for one in batch]))
            progress(Progress("the map, before", start + len(batch), len(ids)))
        vectors = np.concatenate(parts)
        old = project(vectors)
        found["before"] = _side(old.points, old.shares, vectors, shown)
        points = turned_onto(points, old.points)
    return found | {"after": _side(points, flat.shares, after, shown)}


def _chosen(
    segment: Segment, kb: str, pairs: Iterable[tuple[EntityId, EntityId]], most: int, total: int
) -> npt.NDArray[np.int64]:
    """Rows of a KB: all, or its share of ``most``: half members of overlaps, the rest evenly."""
    count = segment.row_count("text")
    if total <= most:
        return np.arange(count)
    share = max(1, most * count // total)
    members = dict.fromkeys(
        row for pair in pairs for one in pair if one.kb == kb and (row := segment.row(one.key)) >= 0
    )
    first = sorted(members)[: share // 2]
    evenly = np.linspace(0, count - 1, share - len(first)).astype(np.int64)
    return np.unique(np.concatenate([np.array(first, np.int64), evenly]))


def _side(
    points: FloatArray,
    shares: tuple[float, float],
    vectors: FloatArray,
    pairs: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    scale = float(np.abs(points).max()) or 1.0
    left, right = (vectors[[pair[side] for pair in pairs]] for side in (0, 1))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines = (left * right).sum(axis=1) / np.maximum(lengths, 1e-12)
    return {
        "points": _packed(np.rint(points / scale * _MOST).astype(np.int16)),
        "variance": list(shares),
        "acs": float(cosines.mean()) if len(pairs) else None,
    }


def _packed(values: npt.NDArray[Any]) -> str:
    """Numbers in their order, little-endian, as base64."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()
