"""Negatives from the pool: drawn anew for each batch, or looked for with the model as it is.

Samplers that compare vectors are asked once for all mentions, at the refresh points, and what
they choose is kept on disk: a run that goes on finds it there, whatever the model is by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kglink.arrays import FloatArray, IntArray
from kglink.errors import PluginError, errors_of
from kglink.files.atomic import atomic_file
from kglink.files.tables import PickedStrings, RowTable, map_array
from kglink.models.cross_encoder import CrossEncoder, written_pair
from kglink.plugins import (
    Encoded,
    MentionSampler,
    MixingSampler,
    RowRange,
    Sampler,
    SamplerBatch,
    SamplerPool,
    Scorer,
)
from kglink.records import OnProgress, Progress
from kglink.training.batch import MentionBatch, choose_gold_sets, choose_golds, known_rows
from kglink.training.data import TRAIN, TrainingData, as_ids
from kglink.training.encoded_pool import EncodedPool
from kglink.training.recipe import StageSection
from kglink.training.stages import Group

#: Mentions between two notes of progress.
_READ = 64
#: Mentions and entities of a batch.
SidePair = tuple[Encoded, Encoded]

#: Mentions in one call of a sampler, by vectors and by scores of token matrices.
_BY_VECTORS, _BY_SCORES = 4096, 256


class Negatives:
    """Chooses the negatives of a group's mentions."""

    def __init__(
        self,
        data: TrainingData,
        group: Group,
        section: StageSection,
        sampler: Sampler,
        teacher: Teacher | None = None,
    ) -> None:
        self._data = data
        self._teacher = teacher
        self._k = section.negatives
        self._sampler = sampler
        self._name = f"sampler {section.sampler!r}"
        self._group = group
        everything = RowRange(0, len(data.pool))
        self._rows = everything if section.negatives_from == "all" else group.rows
        self._pool = SamplerPool(
            data.pool.domains[self._rows.start : self._rows.stop],
            titles=PickedStrings(data.pool.titles, range(*self._rows)),
        )
        self._mined: IntArray | None = None
        self._taught: FloatArray | None = None

    @property
    def are_from_batch(self) -> bool:
        """Whether negatives are chosen from the batch, after it is encoded."""
        return self._k > 0 and bool(getattr(self._sampler, "in_batch", False))

    @property
    def are_among_mentions(self) -> bool:
        """Whether mentions are compared with each other too; positives are chosen then as well."""
        return self.are_mined and isinstance(self._sampler, MentionSampler)

    @property
    def are_mined(self) -> bool:
        """Whether negatives are searched with the model."""
        by_score = bool(getattr(self._sampler, "by_score", False))
        return self._k > 0 and by_score and not self.are_from_batch

    def of(
        self,
        mentions: IntArray,
        golds: IntArray,
        excluded: Sequence[frozenset[int]],
        rng: np.random.Generator,
    ) -> IntArray:
        """Negatives as rows of the pool, (mentions, k); -1: none left.

        Where mentions are compared with each other, the positive stands before them, and mentions
        are numbered behind the pool.
        """
        if not self._k or self.are_from_batch:
            return np.empty((len(mentions), 0), np.int64)
        if self._mined is not None:
            places = np.searchsorted(self._group.items, mentions)
            known = places < len(self._group.items)  # names have no mined negatives
            found = np.full((len(mentions), self._mined.shape[1]), -1, np.int64)
            found[known] = self._mined[places[known]]
            return found
        return self._ask(self._pool, self._batch(mentions, _alone(golds), excluded), rng)

    def among(self, batch: MentionBatch, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Negatives as places in the batch, (mentions, k), chosen by its scores."""
        data = self._data
        titles = PickedStrings(data.pool.titles, batch.entities)
        pool = SamplerPool(data.pool.domains[batch.entities], titles=titles)
        gold = _alone(batch.gold_at)
        others = [
            frozenset(np.flatnonzero(row).tolist())
            for row in known_rows(batch.excluded, batch.entities)
        ]

        def score(mentions: IntArray, rows: IntArray) -> FloatArray:
            return scores[np.ix_(mentions, rows)]

        surfaces = PickedStrings(data.train.surfaces, batch.mentions)
        asked = SamplerBatch(gold, excluded=others, scores=score, surfaces=surfaces)
        return self._drawn(pool, asked, rng)

    def mixed(self, batch: MentionBatch, scorer: Scorer, pair: SidePair) -> Tensor | None:
        """Scores of each gold and of the sampler's mixed negatives; None if it mixes none."""
        if not isinstance(self._sampler, MixingSampler):
            return None
        positive = np.arange(len(batch.entities)) == batch.gold_at[:, None]
        masked = known_rows(batch.excluded, batch.entities) & ~positive
        device = pair[0].states.device
        cells = [torch.from_numpy(one).to(device) for one in (positive, masked)]
        with errors_of(self._name):
            return self._sampler.mix(scorer, *pair, cells[0], cells[1], self._k)

    def mine(
        self,
        pool: EncodedPool,
        path: Path,
        rng: np.random.Generator,
        progress: OnProgress = lambda _: None,
    ) -> tuple[str, ...]:
        """Search negatives for all mentions, and write them to a file; returns the sampler's notes.

        A teacher then scores the golds of each mention, and what was found.
        """
        notes: tuple[str, ...] = ()
        known = replace(self._pool, vectors=pool.vectors(self._rows))
        if isinstance(self._sampler, MentionSampler):
            found, notes = self._among_mentions(self._sampler, known, pool, rng, progress)
        else:
            found = self._nearest(known, pool, rng, progress)
        if self._teacher is not None:
            items = self._group.items
            inside = [self._inside(own) for own in self._data.train.gold_sets(items.tolist())]
            golds = np.full((len(items), max(map(len, inside), default=0)), -1, np.int64)
            for number, rows in enumerate(inside):
                golds[number, : len(rows)] = rows
            asked = np.concatenate([golds, found], axis=1)
            with atomic_file(_taught_file(path)) as out:
                np.save(out, self._teacher.scores(items, asked, progress))
        with atomic_file(path) as out:
            np.save(out, found)
        return notes

    def _nearest(
        self, known: SamplerPool, pool: EncodedPool, rng: np.random.Generator, progress: OnProgress
    ) -> IntArray:
        """Entities that are no golds."""
        items, step = self._group.items, f"mining negatives of {self._group.letter}"
        golds, excluded = choose_golds(self._data, self._group.rows, items)
        found = np.full((len(items), self._k), -1, np.int64)
        progress(Progress(step, 0, len(items)))
        for part in self._parts(known):
            batch = self._batch(items[part], _alone(golds[part]), excluded[part])
            texts = as_ids(self._data.train.tokens.take(items[part].tolist()))
            if known.vectors is not None and not pool.is_placed:
                batch = batch._replace(vectors=pool.mention_vectors(texts))
            else:
                # Forbidden entities may be among the nearest, so as many more have to be exact.
                forbidden = max(len(batch.forbidden(one)) for one in range(len(texts)))
                scores = pool.pair_scores(texts, self._rows, self._k + forbidden)
                batch = batch._replace(scores=scores)
            found[part] = self._ask(known, batch, rng)
            progress(Progress(step, min(part.stop, len(items)), len(items)))
        return found

    def _among_mentions(
        self,
        sampler: MentionSampler,
        known: SamplerPool,
        pool: EncodedPool,
        rng: np.random.Generator,
        progress: OnProgress,
    ) -> tuple[IntArray, tuple[str, ...]]:
        """Positives and negatives of all mentions: entities, and other mentions; and notes."""
        items, step = self._group.items, f"mining negatives of {self._group.letter}"
        things, excluded = choose_gold_sets(self._data, self._group.rows, items, rng)
        vectors = []
        for part in self._parts(known):
            progress(Progress(f"encoding mentions of {self._group.letter}", part.start, len(items)))
            texts = self._data.train.tokens.take(items[part].tolist())
            vectors.append(pool.mention_vectors(as_ids(texts)))
        batch = self._batch(items, things, excluded)._replace(vectors=np.concatenate(vectors))
        with errors_of(self._name):
            positives = sampler.positives(known, batch, rng)
        found = np.full((len(items), 1 + self._k), -1, np.int64)
        found[:, 0] = self._checked(positives.rows, (len(items),), len(known) + len(items))
        for part in self._parts(known):
            progress(Progress(step, part.start, len(items)))
            wanted = np.arange(len(items))[part]
            with errors_of(self._name):
                chosen = sampler.negatives(known, batch, wanted, self._k)
            shape = len(wanted), self._k
            found[part, 1:] = self._checked(chosen, shape, len(known) + len(items))
        progress(Progress(step, len(items), len(items)))
        # Their numbers among the group's rows and items become those among all.
        inside = (found >= 0) & (found < len(known))
        mentions = items[np.where(found >= len(known), found - len(known), 0)]
        whole = np.where(inside, found + self._rows.start, mentions + len(self._data.pool))
        return np.where(found >= 0, whole, -1), positives.notes

    def open(self, path: Path) -> None:
        """Use the negatives of a file, and what the teacher says of them."""
        self._mined = map_array(path)
        if self._teacher is not None:
            self._taught = map_array(_taught_file(path))

    def taught(self, batch: MentionBatch) -> FloatArray | None:
        """The teacher's scores of each gold and of its own negatives; None without a teacher."""
        if self._taught is None:
            return None
        scores = self._taught[np.searchsorted(self._group.items, batch.mentions)]
        golds = scores.shape[1] - self._k
        at = [
            self._inside(own).index(gold)
            for own, gold in zip(
                self._data.train.gold_sets(batch.mentions.tolist()),
                batch.golds.tolist(),
                strict=True,
            )
        ]
        of_gold = scores[np.arange(len(at)), at]
        return np.concatenate([of_gold[:, None], scores[:, golds:]], axis=1)

    def _inside(self, golds: frozenset[int]) -> list[int]:
        """The golds among the stage's rows, in their order."""
        start, stop = self._group.rows
        return [row for row in sorted(golds) if start <= row < stop]

    def _parts(self, known: SamplerPool) -> Iterator[slice]:
        size = _BY_SCORES if known.vectors is None else _BY_VECTORS
        return (slice(at, at + size) for at in range(0, len(self._group.items), size))

    def _ask(self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator) -> IntArray:
        drawn = self._drawn(pool, batch, rng)
        return np.where(drawn >= 0, drawn + self._rows.start, -1)

    def _drawn(self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator) -> IntArray:
        """What the sampler, which may be anybody's, draws for each mention, as rows of the pool."""
        with errors_of(self._name):
            given = self._sampler.sample(pool, batch, self._k, rng)
        drawn = self._checked(given, (len(batch.gold), self._k), len(pool))
        for at, own in enumerate(drawn.tolist()):
            if forbidden := batch.forbidden(at).intersection(own):
                raise self._broken(f"drew {min(forbidden)}, which is forbidden for mention {at}")
        return drawn

    def _checked(self, given: object, shape: tuple[int, ...], rows: int) -> IntArray:
        """What a sampler chose, which is of a shape, and all among so many rows."""
        chosen = np.asarray(given)
        if chosen.shape != shape or chosen.dtype.kind not in "iu":
            raise self._broken(f"gave {chosen.dtype} numbers of the shape {chosen.shape}, "
                               f"not integers of the shape {shape}")  # fmt: skip
        if chosen.size and not -1 <= chosen.min() <= chosen.max() < rows:
            raise self._broken(f"drew rows {chosen.min()} to {chosen.max()} of {rows}")
        return chosen

    def _broken(self, what: str) -> PluginError:
        return PluginError(
            f"{self._name} {what}",
            hint="A sampler gives for each mention k rows of the pool that are not forbidden, -1 "
            "where none is left.",
        )

    def _batch(
        self,
        mentions: IntArray,
        golds: Sequence[frozenset[int]],
        excluded: Sequence[frozenset[int]],
    ) -> SamplerBatch:
        """The batch as samplers see it: rows are numbered within the range."""
        start, stop = self._rows
        gold = [frozenset(row - start for row in own) for own in golds]
        others = [frozenset(row - start for row in own if start <= row < stop) for own in excluded]
        surfaces = PickedStrings(self._data.train.surfaces, mentions)
        return SamplerBatch(gold, excluded=others, surfaces=surfaces)


def _alone(golds: IntArray) -> list[frozenset[int]]:
    """Each gold as a set of itself."""
    return [frozenset({gold}) for gold in golds.tolist()]


def _taught_file(negatives: Path) -> Path:
    """Where the teacher's scores of these negatives lie; written before them."""
    return negatives.with_suffix(".taught.npy")


class Teacher:
    """A reranker that scores the candidates which a student learns from; it reads them itself.

    It reads what was mined once, and every epoch until the next search learns from its scores.
    """

    def __init__(self, reader: CrossEncoder, folder: Path) -> None:
        self._reader = reader
        self._entities = RowTable(folder / "pool-texts", np.int32)
        self._mentions = RowTable(folder / f"{TRAIN}-mentions", np.int32)

    def scores(
        self, mentions: IntArray, candidates: IntArray, progress: OnProgress = lambda _: None
    ) -> FloatArray:
        """Logits in the order of the candidates, rows of the pool; -inf where one is -1."""
        scores = np.full(candidates.shape, -np.inf, np.float32)
        for first in range(0, len(mentions), _READ):
            windows = as_ids(self._mentions.take(mentions[first : first + _READ].tolist()))
            rows, columns = np.nonzero(candidates[first : first + _READ] >= 0)
            wanted = candidates[first + rows, columns].tolist()
            own = [windows[row] for row in rows.tolist()]
            pairs = list(map(written_pair, own, as_ids(self._entities.take(wanted))))
            logits = self._reader.logits_of(pairs, [len(window) for window in own])
            scores[first + rows, columns] = logits
            done = min(first + _READ, len(mentions))
            progress(Progress("asking the teacher", done, len(mentions)))
        return scores
