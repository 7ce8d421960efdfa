"""The entities nearest to mentions by their token matrices: exact, streamed, in bounded memory.

What a scorer with a rule says is computed by `TokenProducts`, many times faster than by asking it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Protocol

import numpy as np
import torch

from kglink.models.hardware import usable_cores
from kglink.models.runtime import TokenMatrices, as_bf16, single_threaded_workers
from kglink.plugins import Encoded, RowRange, Scorer, TokenScorer
from kglink.space.token_products import Block, TokenProducts, exact_scores, may_be_best
from kglink.space.token_rows import FloatArray, IntArray, TokenRows, texts_between

#: Some entities: a range of them, or their numbers in order.
SomeRows = RowRange | IntArray

#: Mentions that go through all entities together.
_MENTIONS = 512
#: Mentions and entities that a scorer without a rule compares at once.
_PADDED_MENTIONS, _PADDED_ENTITIES = 32, 256


class TokenSearch(Protocol):
    """Finds the nearest entities by token matrices; an approximate index may take its place."""

    size: int
    exact: bool
    cosine: bool
    """Whether scores are sums of cosines, however long the vectors are."""

    def search(
        self, queries: TokenMatrices, k: int, rows: SomeRows | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and entities, best first, (n, k) each; -inf and -1 where fewer exist.

        With ``rows`` only those take part. Equal scores: the smaller row first.
        """
        ...

    def scores(self, queries: TokenMatrices, query: int, rows: IntArray) -> FloatArray:
        """The exact scores of one of the queries with some entities."""
        ...


class ExactTokenSearch:
    """Compares every mention with every entity."""

    exact = True

    def __init__(self, tokens: TokenRows, scorer: Scorer) -> None:
        self.size = len(tokens)
        self._tokens = tokens
        self._scorer = scorer
        self._rule = scorer.rule if isinstance(scorer, TokenScorer) else None
        self.cosine = self._rule is not None and self._rule.cosine

    def search(
        self, queries: TokenMatrices, k: int, rows: SomeRows | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and entities, best first, (n, k) each; -inf and -1 where fewer exist."""
        return nearest_by_tokens(queries, self._tokens, k, self._scorer, rows=rows)

    def scores(self, queries: TokenMatrices, query: int, rows: IntArray) -> FloatArray:
        """The exact scores of one of the queries with some entities."""
        one = texts_between(queries, query, query + 1)
        if self._rule is not None:
            return exact_scores(one, self._tokens, rows, self._rule)
        blocks = scored_blocks(self._scorer, one, self._tokens, rows)
        return np.concatenate([np.empty(0, np.float32), *(part[0] for _, _, part in blocks)])


def nearest_by_tokens(
    queries: TokenMatrices,
    tokens: TokenRows,
    k: int,
    scorer: Scorer,
    *,
    rows: SomeRows | None = None,
) -> tuple[FloatArray, IntArray]:
    """The ``k`` entities nearest to each mention: scores and rows, best first.

    -inf and -1 where fewer exist; equal scores: the smaller row first. A scorer that is a
    `TokenScorer` is not asked, but computed by its rule. Another is asked about all pairs, which is
    slower. An entity without tokens is never found.
    """
    found = _Nearest(len(queries.offsets) - 1, max(0, k))
    if not found.k:
        return found.scores, found.rows
    if rows is None or isinstance(rows, RowRange):
        rows = np.arange(*(rows or (0, len(tokens))))
    with single_threaded_workers(usable_cores()) as workers:
        for first in range(0, found.count, _MENTIONS):
            part = texts_between(queries, first, min(first + _MENTIONS, found.count))
            if isinstance(scorer, TokenScorer):
                products = TokenProducts(part, tokens, scorer.rule, workers)
                _by_rule(products, rows, found, first, workers)
            else:
                _by_scorer(scorer, part, tokens, rows, found, first)
    return found.scores, found.rows


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

            for _ in workers.map(refine, range(len(scores))):
                pass
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


def _by_rule(
    products: TokenProducts, rows: IntArray, found: _Nearest, first: int, workers: Executor
) -> None:
    for block in products.blocks(rows):

        def improve(at: int, block: Block = block) -> None:
            near = block.rows[block.may_be_best(at, found.k, found.worst(first + at))]
            found.add(first + at, products.exact(at, near), near)

        for _ in workers.map(improve, range(len(block.scores))):
            pass


def _by_scorer(
    scorer: Scorer,
    queries: TokenMatrices,
    tokens: TokenRows,
    rows: IntArray,
    found: _Nearest,
    first: int,
) -> None:
    for mentions, entities, part in scored_blocks(scorer, queries, tokens, rows):
        for mention, scores in enumerate(part, first + mentions.start):
            near = may_be_best(scores, scores, found.k, found.worst(mention))
            found.add(mention, scores[near], rows[entities][near])


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
                scores = scorer.score(mentions, entities).float()
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
