"""Positives by a tree over all mentions of an entity, negatives of both kinds (ArboEL)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.clusters.arborescence import ENTITY, Tree, full_tree, nearest_parents, random_parents
from kglink.errors import UsageError
from kglink.plugins import Positives, SamplerBatch, SamplerPool
from kglink_plugins.plugin import ArborescenceSettings
from kglink_plugins.samplers.draw import own_domains, whole_pool
from kglink_plugins.samplers.mixed import hardest

#: Mentions whose negatives are searched at once: as many lists of mentions of their entities.
_MENTIONS = 1024


class Arborescence:
    """Draws each mention to its parent in the tree, away from what is near and means another thing.

    Half of the negatives are the nearest entities, half the nearest mentions of other entities.
    """

    by_score, in_batch = True, False

    def __init__(self, settings: ArborescenceSettings | None = None) -> None:
        self._settings = settings or ArborescenceSettings()
        self._scopes = own_domains if self._settings.in_domain else whole_pool

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The nearest entities alone."""
        return hardest(pool, batch, self._scopes(pool, batch), k)

    def positives(
        self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator
    ) -> Positives:
        """The parent of each mention: another mention of its cluster, or an entity of it."""
        vectors, notes = _vectors(batch), []
        found = np.empty(len(batch.gold), np.int64)
        for mentions, roots in clusters(batch.gold):
            similar = vectors[mentions] @ pool.rows(roots).T
            tree = self._tree(similar.max(axis=1), vectors[mentions], rng)
            own = roots[similar.argmax(axis=1)]
            found[mentions] = np.where(
                tree.parents == ENTITY, own, len(pool) + mentions[tree.parents]
            )
            notes += [tree.note] if tree.note else []
        return Positives(found, tuple(notes))

    def negatives(
        self, pool: SamplerPool, batch: SamplerBatch, wanted: IntArray, k: int
    ) -> IntArray:
        """The nearest wrong entities, then the nearest mentions of others; -1: none is left."""
        asked = SamplerBatch(
            [batch.gold[one] for one in wanted],
            _vectors(batch)[wanted],
            None if batch.excluded is None else [batch.excluded[one] for one in wanted],
        )
        entities = hardest(pool, asked, self._scopes(pool, asked), k - k // 2)
        first = np.array([min(one, default=0) for one in batch.gold], np.int64)
        others = SamplerPool(pool.domains[first], vectors=_vectors(batch))
        barred = _same_things(batch)
        mentions = np.full((len(wanted), k // 2), -1, np.int64)
        for at in range(0, len(wanted), _MENTIONS):
            own = wanted[at : at + _MENTIONS].tolist()
            near = SamplerBatch(
                [frozenset({one}) for one in own],
                _vectors(batch)[own],
                [barred[one] for one in own],
            )
            rows = hardest(others, near, self._scopes(others, near), k // 2)
            mentions[at : at + _MENTIONS] = np.where(rows >= 0, rows + len(pool), -1)
        return np.concatenate([entities, mentions], axis=1)

    def _tree(self, entity: FloatArray, mentions: FloatArray, rng: np.random.Generator) -> Tree:
        settings = self._settings
        if settings.positives == "full":
            return full_tree(entity, mentions)
        if settings.positives == "nearest":
            return Tree(nearest_parents(entity, mentions, settings.nn_scope))
        return Tree(random_parents(entity, mentions, rng, settings.nn_scope))


def clusters(gold: Sequence[frozenset[int]]) -> Iterator[tuple[IntArray, IntArray]]:
    """The mentions of each thing, and the entities that are it; those with a gold in common join.

    In the order of their first mentions; both in ascending order.
    """
    leader: dict[int, int] = {}

    def led(row: int) -> int:
        while (above := leader.setdefault(row, row)) != row:
            leader[row] = leader[above]
            row = above
        return row

    for golds in gold:
        first = led(min(golds))
        for row in golds:
            leader[led(row)] = first
    mentions: dict[int, list[int]] = {}
    for number, golds in enumerate(gold):
        mentions.setdefault(led(min(golds)), []).append(number)
    roots: dict[int, list[int]] = defaultdict(list)
    for row in sorted(leader):
        roots[led(row)].append(row)
    for thing, own in mentions.items():
        yield np.array(own, np.int64), np.array(roots[thing], np.int64)


def _same_things(batch: SamplerBatch) -> list[frozenset[int]]:
    """For each mention all that may mean the same: those that bar an entity that it bars."""
    bars: dict[int, list[int]] = defaultdict(list)
    each = [batch.forbidden(mention) for mention in range(len(batch.gold))]
    for mention, rows in enumerate(each):
        for row in rows:
            bars[row].append(mention)
    found = {rows: frozenset(one for row in rows for one in bars[row]) for rows in set(each)}
    return [found[rows] for rows in each]


def _vectors(batch: SamplerBatch) -> FloatArray:
    if batch.vectors is None:
        raise UsageError(
            "trees of mentions need one vector of each mention",
            hint="Set model.pooling to cls, mean or span.",
        )
    return batch.vectors
