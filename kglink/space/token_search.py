"""The entities nearest to mentions by their token matrices: streamed, in bounded memory.

All entities are compared, and the answer is exact; of a large KB those alone that `TokenLists`
finds.

What a scorer with a rule says is computed by `TokenProducts`, many times faster than by asking it.
A processor multiplies bf16 several times faster than fp32, but rounds each product to 8 bits. So
all entities get a score by rounded products and a bound of its error, and the exact scores are
asked for of those alone that may be among the nearest. They are summed up in double precision: the
order of the sums does not matter then, and equal entities have equal scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch's documentation uses
from torch import Tensor

from kglink.arrays import FloatArray, IntArray
from kglink.models.hardware import BF16_FLAGS, usable_cores
from kglink.models.runtime import (
    TokenMatrices,
    as_bf16,
    maxima,
    single_threaded_workers,
)
from kglink.models.tower import scored
from kglink.plugins import Encoded, Scorer, SumOfMaxRule, TokenScorer
from kglink.processor import cpu_flags
from kglink.space.token_lists import TokenLists
from kglink.space.token_rows import TokenRows, texts_between

#: Entities of a large KB to compare with a mention, plus eight for each wanted answer.
COMPARED = 16_384
#: Lists are read if more than this many times that number of entities may be found.
_WORTH_LISTS = 4
#: Mentions whose lists are read at once: what they bring is held.
_LISTED = 64
#: Mentions that go through all entities together.
_MENTIONS = 512
#: Mentions and entities that a scorer without a rule compares at once.
_PADDED_MENTIONS, _PADDED_ENTITIES = 32, 256


class TokenSearch:
    """Compares every mention with every entity; ``cosine``: whether scores are sums of cosines.

    A scorer that is a `TokenScorer` is not asked, but computed by its rule. Another is asked about
    all pairs, which is slower. An entity without tokens is never found.
    """

    def __init__(self, tokens: TokenRows, scorer: Scorer) -> None:
        self._tokens = tokens
        self._scorer = scorer
        self._rule = scorer.rule if isinstance(scorer, TokenScorer) else None
        self.cosine = self._rule is not None and self._rule.cosine
        # Centroids are means of the vectors as they are: of other lengths they are no cosines.
        is_even = not self.cosine or _off_one(tokens.norms, np.ones(1, np.float32)) < 2 * _BF16
        self._lists = TokenLists.of(tokens) if self._rule is not None and is_even else None

    def search(
        self, queries: TokenMatrices, k: int, rows: IntArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """The ``k`` nearest of all entities, or of some in their order: scores, rows, best first.

        -inf and -1 where fewer exist; equal scores: the smaller row first.
        """
        found = _Nearest(len(queries.offsets) - 1, max(0, k))
        if not found.k:
            return found.scores, found.rows
        rows = np.arange(len(self._tokens)) if rows is None else rows
        with single_threaded_workers(usable_cores()) as workers:
            count = COMPARED + 8 * found.k
            if self._rule is not None and self._lists and len(rows) > _WORTH_LISTS * count:
                listed = partial(self._lists.nearest, cosine=self.cosine, count=count, rows=rows)
                ones = [texts_between(queries, at, at + 1) for at in range(found.count)]
                for first in range(0, found.count, _LISTED):
                    part = ones[first : first + _LISTED]
                    for at, some in enumerate(workers.map(listed, part), first):
                        products = TokenProducts(ones[at], self._tokens, self._rule, workers)
                        is_enough = len(some) >= min(found.k, len(rows))
                        _improve_by_rule(products, some if is_enough else rows, found, at)
                return found.scores, found.rows
            for first in range(0, found.count, _MENTIONS):
                together = texts_between(queries, first, min(first + _MENTIONS, found.count))
                if self._rule is not None:
                    products = TokenProducts(together, self._tokens, self._rule, workers)
                    _improve_by_rule(products, rows, found, first)
                    continue
                blocks = scored_blocks(self._scorer, together, self._tokens, rows)
                for mentions, entities, scored in blocks:
                    for mention, scores in enumerate(scored, first + mentions.start):
                        near = possible_best(scores, scores, found.k, found.worst(mention))
                        found.add(mention, scores[near], rows[entities][near])
        return found.scores, found.rows

    def scores(self, queries: TokenMatrices, query: int, rows: IntArray) -> FloatArray:
        """The exact scores of one of the queries with some entities."""
        one = texts_between(queries, query, query + 1)
        if self._rule is not None:
            return exact_scores(one, self._tokens, rows, self._rule)
        blocks = scored_blocks(self._scorer, one, self._tokens, rows)
        return np.concatenate([np.empty(0, np.float32), *(part[0] for _, _, part in blocks)])


def scores_by_tokens(
    queries: TokenMatrices,
    tokens: TokenRows,
    rows: IntArray,
    scorer: Scorer,
    best: int,
    device: torch.device | None = None,
) -> FloatArray:
    """(mentions, entities) scores of these rows; the ``best`` highest of each mention are exact.

    The others may be rounded, but not so far that they come among these. On a GPU the scorer is
    asked, and all scores are exact.
    """
    scores = np.empty((len(queries.offsets) - 1, len(rows)), np.float32)
    if not isinstance(scorer, TokenScorer) or (device is not None and device.type != "cpu"):
        for mentions, entities, part in scored_blocks(scorer, queries, tokens, rows, device):
            scores[mentions, entities] = part
        return scores
    with single_threaded_workers(usable_cores()) as workers:
        products = TokenProducts(queries, tokens, scorer.rule, workers)
        first = 0
        for block in products.blocks(rows):

            def refine(at: int, block: Block = block) -> None:
                places = block.may_be_best(at, best)
                block.scores[at, places] = products.exact(at, block.rows[places])

            products.for_each(refine, range(len(scores)))
            scores[:, first : first + len(block.rows)] = block.scores
            first += len(block.rows)
    return scores


class _Nearest:
    """The best so far of each mention."""

    def __init__(self, count: int, k: int) -> None:
        self.count, self.k = count, k
        self.scores = np.full((count, k), -np.inf, np.float32)
        self.rows = np.full((count, k), -1, np.int64)

    def worst(self, mention: int) -> float:
        """The score below which nothing changes."""
        return float(self.scores[mention, -1])

    def add(self, mention: int, scores: FloatArray, rows: IntArray) -> None:
        """Put in what is better."""
        real = np.isfinite(scores)
        scores = np.concatenate([self.scores[mention], scores[real]])
        rows = np.concatenate([self.rows[mention], rows[real]])
        order = np.lexsort((rows, -scores))[: self.k]
        self.scores[mention], self.rows[mention] = scores[order], rows[order]


def _improve_by_rule(products: TokenProducts, rows: IntArray, found: _Nearest, first: int) -> None:
    for block in products.blocks(rows):

        def improve(at: int, block: Block = block) -> None:
            near = block.rows[block.may_be_best(at, found.k, found.worst(first + at))]
            found.add(first + at, products.exact(at, near), near)

        products.for_each(improve, range(len(block.scores)))


def scored_blocks(
    scorer: Scorer,
    queries: TokenMatrices,
    tokens: TokenRows,
    rows: IntArray,
    device: torch.device | None = None,
) -> Iterator[tuple[slice, slice, FloatArray]]:
    """What a scorer says of all mentions and these entities: places of both, and their scores.

    An entity without tokens has a score of -inf.
    """
    count = len(queries.offsets) - 1
    for start in range(0, len(rows), _PADDED_ENTITIES):
        some = slice(start, min(start + _PADDED_ENTITIES, len(rows)))
        entities = _padded(tokens.take(rows[some]), device)
        for first in range(0, count, _PADDED_MENTIONS):
            part = slice(first, min(first + _PADDED_MENTIONS, count))
            mentions = _padded(texts_between(queries, part.start, part.stop), device)
            with torch.no_grad():
                scores = scored(scorer, mentions, entities).float()
            scores = scores.masked_fill(~entities.mask.any(dim=1), -torch.inf)
            yield part, some, scores.cpu().numpy()


def _padded(matrices: TokenMatrices, device: torch.device | None) -> Encoded:
    """Token matrices as scorers read them."""
    lengths = np.diff(matrices.offsets)
    longest = int(lengths.max(initial=1))
    mask = torch.from_numpy(np.arange(longest) < lengths[:, None])
    states = torch.zeros(len(lengths), longest, matrices.bits.shape[1])
    states[mask] = as_bf16(matrices.bits).float()
    return Encoded(states.to(device), mask.to(device))


#: Scores of mentions and entities that are held at once, and as many bounds.
_SCORES = 1 << 22
#: Tokens of entities and of mentions that are multiplied at once: the products stay in the cache.
_ENTITY_TOKENS, _MENTION_TOKENS = 8192, 512
#: Tokens of entities that are scored in double precision at once.
_EXACT_TOKENS = 4096
#: The part of itself by which rounding to bf16 and to fp32 may change a number.
_BF16, _FP32 = 2.0**-8, 2.0**-24


class Block(NamedTuple):
    """Scores of mentions with some entities, and how far off they may be."""

    rows: IntArray
    scores: FloatArray
    errors: FloatArray

    def may_be_best(self, mention: int, k: int, worst: float = -np.inf) -> IntArray:
        """The places of all that may be among a mention's ``k`` best, and above ``worst``."""
        scores, errors = self.scores[mention], self.errors[mention]
        return possible_best(scores - errors, scores + errors, k, worst)


def possible_best(low: FloatArray, high: FloatArray, k: int, worst: float = -np.inf) -> IntArray:
    """All that may be among the ``k`` best when a score lies between ``low`` and ``high``."""
    bar = worst
    if 0 < k < len(low):
        bar = max(bar, float(np.partition(low, len(low) - k)[len(low) - k]))
    return np.flatnonzero((high >= bar) & (high > -np.inf))


class _Tile(NamedTuple):
    """Some mentions: their tokens in columns, and which column is whose."""

    first: int
    stop: int
    columns: Tensor
    owner: Tensor


class TokenProducts:
    """Sums of maxima by one product of all tokens; ``workers`` share it, each on one core."""

    def __init__(
        self,
        queries: TokenMatrices,
        tokens: TokenRows,
        rule: SumOfMaxRule,
        workers: Executor,
    ) -> None:
        self._queries, self._tokens, self._rule = queries, tokens, rule
        self._workers = workers
        self._count = len(queries.offsets) - 1
        rounded = bool(BF16_FLAGS & cpu_flags())
        self._dtype = torch.bfloat16 if rounded else torch.float32
        states = as_bf16(queries.bits).float()
        norms = torch.linalg.vector_norm(states, dim=1).numpy()
        # Vectors are scaled unless all are of length one but for rounding.
        self._scaled = rule.cosine and _off_one(tokens.norms, norms) >= 2 * _BF16
        if self._scaled:
            states, norms = F.normalize(states, dim=1), np.ones_like(norms)
        self._tiles = list(_tiles(states.to(self._dtype), queries.offsets))
        self._relative, self._absolute = self._error_bounds(norms, rounded=rounded)

    def blocks(self, rows: IntArray) -> Iterator[Block]:
        """The scores of these entities by rounded products, as many as fit at a time."""
        size = max(1, _SCORES // max(1, self._count))
        for first in range(0, len(rows), size):
            yield self._block(rows[first : first + size])

    def exact(self, mention: int, rows: IntArray) -> FloatArray:
        """The scores of one mention, summed up in double precision."""
        one = texts_between(self._queries, mention, mention + 1)
        return exact_scores(one, self._tokens, rows, self._rule)

    def for_each(self, work: Callable[[Any], None], items: Iterable[object]) -> None:
        """Do some work for each item, each on one core."""
        for _ in self._workers.map(work, items):
            pass

    def _error_bounds(self, norms: FloatArray, *, rounded: bool) -> tuple[float, FloatArray]:
        """How far off scores may be: a part of the sum of all maxima, and so much for a mention."""
        dim, longest = self._tokens.dim, 1.0 if self._rule.cosine else self._tokens.norms[1]
        most = int(np.diff(self._queries.offsets).max(initial=1))
        relative = 1.01 * (_BF16 if rounded else 0.0) + 2 * most * _FP32
        if self._rule.cosine and not self._scaled:
            relative += 1.01 * _off_one(self._tokens.norms, norms)
        each = 2 * dim * _FP32 + (2.02 * _BF16 if self._scaled and rounded else 0.0)
        sums = np.concatenate([[0], np.cumsum(norms, dtype=np.float64)])[self._queries.offsets]
        return relative, (each * longest * np.diff(sums)).astype(np.float32)

    def _block(self, rows: IntArray) -> Block:
        shape = (self._count, len(rows))
        scores = np.full(shape, -np.inf, np.float32)
        sizes = np.zeros(shape, np.float32)

        def score(part: tuple[int, IntArray]) -> None:
            length, chosen = part
            for tile, best in self._best(rows[chosen], length):
                mentions = slice(tile.first, tile.stop)
                scores[mentions, chosen] = (best @ tile.owner).numpy().T
                sizes[mentions, chosen] = (best.abs_() @ tile.owner).numpy().T

        self.for_each(score, _parts(self._tokens.starts[rows + 1] - self._tokens.starts[rows]))
        return Block(rows, scores, sizes * np.float32(self._relative) + self._absolute[:, None])

    def _best(self, rows: IntArray, length: int) -> Iterator[tuple[_Tile, Tensor]]:
        """For each tile the best product of each of its tokens with entities of one length."""
        starts = self._tokens.starts[rows]
        places = (starts[:, None] + np.arange(length)).ravel()
        entities = as_bf16(self._tokens.vectors(places))
        if self._scaled:
            entities = F.normalize(entities.float(), dim=1)
        entities = entities.to(self._dtype)
        for tile in self._tiles:
            products = (entities @ tile.columns).view(len(rows), length, -1)
            best = maxima(products).float()
            yield tile, best


def exact_scores(
    mention: TokenMatrices, tokens: TokenRows, rows: IntArray, rule: SumOfMaxRule
) -> FloatArray:
    """The scores of one mention with entities that have tokens, summed up in double precision."""
    states = _doubled(mention, rule)
    lengths = tokens.starts[rows + 1] - tokens.starts[rows]
    stops = np.cumsum(lengths)
    scores = np.empty(len(rows), np.float32)
    first = 0
    while first < len(rows):
        wanted = stops[first] - lengths[first] + _EXACT_TOKENS
        stop = max(first + 1, int(np.searchsorted(stops, wanted, side="right")))
        entities = tokens.take(rows[first:stop])
        products = (states @ _doubled(entities, rule).T).numpy()
        best = np.maximum.reduceat(products, entities.offsets[:-1], axis=1)
        scores[first:stop] = best.sum(axis=0)
        first = stop
    return scores


def _doubled(matrices: TokenMatrices, rule: SumOfMaxRule) -> Tensor:
    states = as_bf16(matrices.bits).double()
    return F.normalize(states, dim=1) if rule.cosine else states


def _parts(lengths: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The places of all entities that have tokens: some of one length, as many as fill a tile."""
    for length in np.unique(lengths[lengths > 0]).tolist():
        same = np.flatnonzero(lengths == length)
        size = max(1, _ENTITY_TOKENS // length)
        for first in range(0, len(same), size):
            yield length, same[first : first + size]


def _tiles(states: Tensor, offsets: IntArray) -> Iterator[_Tile]:
    """All mentions, as many at a time as their tokens fill a tile."""
    first, count = 0, len(offsets) - 1
    while first < count:
        wanted = offsets[first] + _MENTION_TOKENS
        stop = max(first + 1, int(np.searchsorted(offsets, wanted, side="right")) - 1)
        lengths = np.diff(offsets[first : stop + 1])
        owner = np.repeat(np.eye(stop - first, dtype=np.float32), lengths, axis=0)
        columns = states[offsets[first] : offsets[stop]].T.contiguous()
        yield _Tile(first, stop, columns, torch.from_numpy(owner))
        first = stop


def _off_one(norms: tuple[float, float], others: FloatArray) -> float:
    """How far the inverse of a product of two lengths is from one, at most."""
    least = norms[0] * float(others.min(initial=np.inf))
    most = norms[1] * float(others.max(initial=0.0))
    if not least or not len(others):
        return np.inf if len(others) else 0.0
    return max(abs(1 / least - 1), abs(1 / most - 1))
