"""Negatives that score high, that are drawn, or both: T-Biencoder, BLINK, k-NN of ArboEL, AMH.

The highest scores are found exactly: block by block, in memory that does not grow.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import UsageError
from kglink.plugins import PairScores, SamplerBatch, SamplerPool
from kglink_plugins.plugin import KnnSettings, MixedSettings
from kglink_plugins.samplers.draw import Scope, batch_golds, draw, own_domains, whole_pool

#: Scores that are held at once, 64 MiB of them, and mentions that are compared at once.
_SCORES, _MENTIONS = 1 << 24, 1024
#: Rows of the first block; the others are larger, when most scores are known to be too low.
_FIRST = 512


def hardest(pool: SamplerPool, batch: SamplerBatch, scopes: Iterable[Scope], k: int) -> IntArray:
    """The ``k`` rows that score highest for each mention, best first, equal ones by their number.

    Forbidden rows are left out; -1 stands where no row is left.
    """
    scores = _scores(pool, batch)
    best = np.full((len(batch.gold), k), -1, np.int64)
    for mentions, rows in scopes:
        if not len(rows) or not k:
            continue
        tops = [
            _Top(own, [rows.places(batch.forbidden(one)) for one in own.tolist()], k)
            for own in np.split(mentions, range(_MENTIONS, len(mentions), _MENTIONS))
        ]
        start, size = 0, _FIRST
        while start < len(rows):  # all rows are shown to all mentions: each is read once
            part = rows.part(start, start + size)
            for top in tops:
                top.add(scores(top.mentions, part), start)
            start += len(part)
            most = max(len(top.mentions) for top in tops)
            size = min(2 * size, max(_FIRST, _SCORES // max(1, most)))
        for top in tops:
            best[top.mentions] = np.where(top.places >= 0, rows.at(top.places.clip(0)), -1)
    return best


class _Top:
    """The best of some mentions so far: scores and places, best first."""

    def __init__(self, mentions: IntArray, forbidden: list[IntArray], k: int) -> None:
        self.mentions = mentions
        self.places = np.full((len(mentions), k), -1, np.int64)
        self._scores = np.full((len(mentions), k), -np.inf, np.float32)
        self._of = np.repeat(np.arange(len(mentions)), [len(places) for places in forbidden])
        self._forbidden = np.concatenate([*forbidden, np.empty(0, np.int64)])
        self._k = k

    def add(self, scores: FloatArray, start: int) -> None:
        """Take in the scores of the places from ``start`` on, all above those seen before."""
        inside = (self._forbidden >= start) & (self._forbidden < start + scores.shape[1])
        scores[self._of[inside], self._forbidden[inside] - start] = -np.inf
        # A later place with an equal score comes after, so only higher ones matter.
        mention, place = np.nonzero(scores > self._scores[:, -1:])
        found = scores[mention, place]
        kept = np.nonzero(self.places >= 0)
        owner = np.concatenate([kept[0], mention])
        values = np.concatenate([self._scores[kept], found])
        places = np.concatenate([self.places[kept], place + start])
        order = np.lexsort((places, -values, owner))
        rank = np.arange(len(order)) - owner[order].searchsorted(owner[order])
        order, rank = order[rank < self._k], rank[rank < self._k]
        self._scores[owner[order], rank] = values[order]
        self.places[owner[order], rank] = places[order]


def _scores(pool: SamplerPool, batch: SamplerBatch) -> PairScores:
    """The scores that the batch brings, else inner products; they may be written into."""
    if (given := batch.scores) is not None:
        return lambda mentions, rows: np.array(given(mentions, rows), np.float32)
    vectors = batch.vectors
    if vectors is None or pool.vectors is None:
        raise UsageError(
            "hard negatives need the vectors of mentions and entities, or their scores",
            hint="Give them to SamplerBatch and SamplerPool, or take a random sampler.",
        )
    block: tuple[IntArray, FloatArray] | None = None

    def products(mentions: IntArray, rows: IntArray) -> FloatArray:
        nonlocal block
        if block is None or block[0] is not rows:  # the next mentions ask for the same rows
            # Rows that stand side by side are a slice, which a memory map reads without copying.
            aside = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
            block = rows, pool.rows(slice(rows[0], rows[-1] + 1) if aside else rows)
        found: FloatArray = vectors[mentions] @ block[1].T
        return found

    return products


_SCOPES = {"batch": batch_golds, "domain": own_domains, "pool": whole_pool}


class MixedP:
    """Takes a share of highest scores, then draws at random from what is left.

    With a share of nothing or of all it is the other samplers of the papers: rows of the table of
    plugins.
    """

    def __init__(self, settings: MixedSettings | None = None) -> None:
        settings = settings or MixedSettings()
        self._p = settings.p
        self._scopes = _SCOPES[settings.among]
        self.in_batch = settings.among == "batch"
        self.by_score = settings.p > 0

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """The hard negatives of each mention, then the random ones, new on every visit."""
        scopes = list(self._scopes(pool, batch))
        # Half of an odd number counts as hard.
        wanted = int(np.floor(self._p * k + 0.5))
        hard = hardest(pool, batch, scopes, wanted) if wanted else None
        if hard is not None and wanted == k:
            return hard
        found = np.full((len(batch.gold), k), -1, np.int64)
        rows_of = {one: rows for mentions, rows in scopes for one in mentions.tolist()}
        for mention in range(len(batch.gold)):
            taken = [] if hard is None else hard[mention][hard[mention] >= 0].tolist()
            barred = batch.forbidden(mention).union(taken)
            drawn = [*taken, *draw(rows_of[mention], barred, k - wanted, rng).tolist()]
            found[mention, : len(drawn)] = drawn
        return found


def knn(settings: KnnSettings | None = None) -> MixedP:
    """Takes the nearest entities; a setting says whether types or KBs bound the search."""
    in_domain = (settings or KnnSettings()).in_domain
    return MixedP(MixedSettings(p=1, among="domain" if in_domain else "pool"))
