"""A batch of mentions: the columns that each is compared with, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import BoolArray, IntArray
from kglink.errors import PluginError
from kglink.models.tower import scored, scorer_name
from kglink.plugins import Encoded, RowRange, Scorer
from kglink.training.data import TrainingData
from kglink.training.recipe import StageSection


@dataclass(frozen=True, slots=True)
class MentionBatch:
    """Mentions, the entities encoded with them, and which entity belongs to which mention."""

    mentions: IntArray
    """Numbers of mentions."""
    golds: IntArray
    """The gold of each that it is drawn to: a row of the pool."""
    excluded: list[frozenset[int]]
    """Rows that are never negatives of it: its golds, and their counterparts."""
    entities: IntArray
    """Rows of the pool, each once: the texts to encode."""
    gold_at: IntArray
    """Index of each mention's positive in ``entities``: its gold, or one of ``others``."""
    negative_at: IntArray
    """The places of its own negatives, (mentions, k); -1 where there is none."""
    others: IntArray | None = None
    """Numbers of other mentions to encode; behind the ``entities``, all mentions of the batch and
    then these are compared with as well. None: entities alone are."""


def choose_golds(
    data: TrainingData,
    rows: RowRange,
    mentions: IntArray,
    rng: np.random.Generator | None = None,
) -> tuple[IntArray, list[frozenset[int]]]:
    """One gold of each mention within ``rows``, and the entities that cannot be its negatives.

    Draws one of several golds; without a generator it takes the first.
    """
    chosen, excluded = [], []
    for golds in data.train.gold_sets(mentions.tolist()):
        inside = [row for row in sorted(golds) if rows.start <= row < rows.stop]
        chosen.append(inside[0 if rng is None else int(rng.integers(len(inside)))])
        excluded.append(golds | data.counterparts(golds))
    return np.array(chosen, np.int64), excluded


def choose_gold_sets(
    data: TrainingData, rows: RowRange, mentions: IntArray, rng: np.random.Generator
) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """The same, but for each mention all golds that are one thing: overlaps of each other."""
    chosen, excluded = [], []
    for golds in data.train.gold_sets(mentions.tolist()):
        left = {row for row in golds if rows.start <= row < rows.stop}
        things = []
        while left:
            thing, new = frozenset[int](), frozenset({min(left)})
            while new:
                thing, new = thing | new, (data.counterparts(new) & left) - thing - new
            things.append(thing)
            left -= thing
        chosen.append(things[int(rng.integers(len(things))) if len(things) > 1 else 0])
        excluded.append(golds | data.counterparts(golds))
    return chosen, excluded


def mention_batch(
    mentions: IntArray, golds: IntArray, excluded: list[frozenset[int]], negatives: IntArray
) -> MentionBatch:
    """Build a batch; ``negatives`` are rows of the pool, -1 for none."""
    entities = np.unique(np.concatenate([golds, negatives[negatives >= 0]]))
    gold_at = np.searchsorted(entities, golds)
    negative_at = np.where(negatives >= 0, np.searchsorted(entities, negatives), -1)
    return MentionBatch(mentions, golds, excluded, entities, gold_at, negative_at)


def batch_among_mentions(
    mentions: IntArray,
    golds: IntArray,
    excluded: list[frozenset[int]],
    chosen: IntArray,
    entity_count: int,
) -> MentionBatch:
    """Build a batch whose positives, first in ``chosen``, and negatives may be mentions too.

    These are numbered behind the rows of the pool, which has ``entity_count``; -1: none.
    """
    entities = np.unique(chosen[(chosen >= 0) & (chosen < entity_count)])
    if not len(entities):
        entities = golds[:1]  # a batch encodes both sides
    others = np.setdiff1d(chosen[chosen >= entity_count] - entity_count, mentions)
    known = np.concatenate([entities, mentions + entity_count, others + entity_count])
    order = known.argsort()
    found = known[order].searchsorted(np.where(chosen >= 0, chosen, known[0]))
    places = np.where(chosen >= 0, order[found], -1)
    return MentionBatch(mentions, golds, excluded, entities, places[:, 0], places[:, 1:], others)


@dataclass(frozen=True, slots=True)
class Columns:
    """The entities that each mention is compared with.

    ``places`` are places among the batch's entities, one row for all mentions or one for each;
    ``masked`` cells are ignored, ``positive`` ones are right.
    """

    places: IntArray
    masked: BoolArray
    positive: BoolArray


def columns_of(batch: MentionBatch, section: StageSection) -> Columns:
    """The columns of a batch, by the stage's setting ``columns``."""
    if section.columns == "own":
        return own_columns(batch, batch.negative_at)
    if section.columns == "shared":  # every entity of the batch, golds and negatives of all
        places = np.arange(len(batch.entities))
        positive = places[None, :] == batch.gold_at[:, None]
        masked = known_rows(batch.excluded, batch.entities) & ~positive
        return Columns(places, masked, positive)
    # The golds of the batch, one for each mention (BLINK, eq. 4).
    count = len(batch.mentions)
    positive = np.eye(count, dtype=np.bool_)
    masked = np.zeros((count, count), np.bool_)
    if section.mask_same_gold:
        masked = known_rows(batch.excluded, batch.golds) & ~positive
    if section.columns == "in_batch":
        return Columns(batch.gold_at, masked, positive)
    own = batch.negative_at
    # A hard negative that is a column of the batch already counts once.
    again = np.isin(own, batch.gold_at) | (own < 0)
    return Columns(
        np.concatenate([np.tile(batch.gold_at, (count, 1)), own], axis=1),
        np.concatenate([masked, again], axis=1),
        np.concatenate([positive, np.zeros(own.shape, np.bool_)], axis=1),
    )


def own_columns(batch: MentionBatch, negatives: IntArray) -> Columns:
    """The gold, then the mention's own negatives (T-Biencoder, eq. 6); -1: none."""
    places = np.concatenate([batch.gold_at[:, None], negatives], axis=1)
    positive = np.zeros(places.shape, np.bool_)
    positive[:, 0] = True
    return Columns(places, places < 0, positive)


def known_rows(excluded: Sequence[frozenset[int]], rows: IntArray) -> BoolArray:
    """For each mention, which of these rows are right answers, and so no negatives."""
    return np.array([np.isin(rows, list(own)) for own in excluded], np.bool_)


def overlap_masks(pairs: IntArray, data: TrainingData) -> tuple[BoolArray, BoolArray]:
    """Masked and right cells of a batch of pairs; columns are the second members.

    Known overlaps and repeated entities are masked: they are no negatives.
    """
    left, right = pairs[:, 0], pairs[:, 1]
    positive = np.eye(len(pairs), dtype=np.bool_)
    same = (left[:, None] == left[None, :]) | (right[:, None] == right[None, :])
    known = np.array([np.isin(right, list(data.counterparts([one]))) for one in left.tolist()])
    return (same | known) & ~positive, positive


#: Most numbers in the token matrices that a scorer gets at once.
_MOST_NUMBERS = 1 << 26


def column_scores(scorer: Scorer, mentions: Encoded, entities: Encoded, columns: Columns) -> Tensor:
    """One row of scores for each mention, -inf in masked columns."""
    device = mentions.states.device
    places = torch.from_numpy(columns.places).to(device)
    masked = torch.from_numpy(columns.masked).to(device)
    if places.ndim == 1:
        scores = scored(scorer, mentions, entities)
        if len(places) != scores.shape[1] or not bool(
            (places == torch.arange(len(places), device=device)).all()
        ):
            scores = scores.index_select(1, places)
    elif mentions.states.shape[1] == entities.states.shape[1] == 1:
        # One vector each: all against all is the cheapest way to the few that are wanted.
        scores = scored(scorer, mentions, entities).gather(1, places.clamp(min=0))
    else:
        scores = own_scores(scorer, mentions, take(entities, places.clamp(min=0)))
    if torch.is_grad_enabled() and mentions.states.requires_grad > scores.requires_grad:
        raise PluginError(
            f"{scorer_name(scorer)} gave scores without a gradient",
            hint="A scorer makes them of the states by operations of torch, without detach.",
        )
    return scores.masked_fill(masked, -torch.inf)


def take(entities: Encoded, places: Tensor) -> Encoded:
    """The candidates of each mention, (mentions, candidates, length, dim)."""
    flat = places.reshape(-1)
    states = entities.states.index_select(0, flat)
    mask = entities.mask.index_select(0, flat)
    count, width = places.shape
    return Encoded(
        states.view(count, width, *states.shape[1:]), mask.view(count, width, mask.shape[1])
    )


def own_scores(scorer: Scorer, mentions: Encoded, candidates: Encoded) -> Tensor:
    """Score each mention with its own candidates, (mentions, candidates)."""
    numbers = candidates.states[0].numel() if len(candidates.states) else 1
    chunk = max(1, _MOST_NUMBERS // max(1, numbers))

    def one(states: Tensor, mask: Tensor, others: Tensor, other_mask: Tensor) -> Tensor:
        own = Encoded(states.unsqueeze(0), mask.unsqueeze(0))
        return scored(scorer, own, Encoded(others, other_mask)).squeeze(0)

    rows: Tensor = torch.func.vmap(one, chunk_size=chunk)(*mentions, *candidates)
    return rows
