"""Training: scorers, samplers of negatives, objectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from kglink.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import torch

    from kglink.arrays import FloatArray, IntArray
    from kglink.plugins.protocols import KeptVectors


class Encoded(NamedTuple):
    """A batch of encoder outputs: ``states`` (n, length, dim) and boolean ``mask`` (n, length).

    The mask is true for tokens; what ``states`` holds elsewhere is padding and means nothing.
    """

    states: torch.Tensor
    mask: torch.Tensor


class Scorer(Protocol):
    """Scores every mention of a batch against every entity of a batch."""

    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        """A (mentions, entities) matrix; larger is closer.

        A value depends only on its own mention and entity, not on padding or the rest of the batch.
        Gradients reach the states of both sides and are finite. It must work under
        ``torch.func.vmap``, which compares each mention with its own entities: no
        ``.item()``, no ``if`` on a value, no indexing by a mask.
        """
        ...


@runtime_checkable
class PoolingScorer(Scorer, Protocol):
    """A scorer that reads less of a text than all of its tokens."""

    def pool(self, batch: Encoded) -> Encoded:
        """What it reads, such as one vector of each text; it scores the same as ``batch``."""
        ...


class SumOfMaxRule(NamedTuple):
    """How a sum of maxima compares tokens."""

    cosine: bool = False
    """Tokens are brought to length one first."""


@runtime_checkable
class TokenScorer(Scorer, Protocol):
    """A scorer that adds up the best products of a mention's tokens with those of an entity.

    A search that knows the rule computes the same scores much faster than `score` can.
    """

    @property
    def rule(self) -> SumOfMaxRule:
        """What exactly is added up."""
        ...


@dataclass(frozen=True, eq=False)
class SamplerPool:
    """The entities that negatives are drawn from: row i has domain ``domains[i]``.

    It is made once and used for many draws.
    """

    domains: IntArray
    vectors: KeptVectors | None = None
    """Current entity vectors, for samplers that look for hard negatives; read them by `rows`."""
    titles: Sequence[str] | None = None
    """The entities' titles, for samplers that go by names; training always gives them."""

    def __len__(self) -> int:
        return len(self.domains)

    def rows(self, numbers: IntArray | slice) -> FloatArray:
        """The vectors of some rows in float32, whatever they are kept in."""
        if self.vectors is None:
            raise UsageError(
                "this sampler needs entity vectors, or scores, and the pool has none",
                hint="Give SamplerPool vectors, or SamplerBatch scores.",
            )
        part: Any = self.vectors[numbers]
        if part.dtype.kind == "i":
            # bf16 is the upper half of a float32.
            part = (part.view("uint16").astype("uint32") << 16).view("float32")
        wide: FloatArray = part.astype("float32", copy=False)
        return wide

    @cached_property
    def by_domain(self) -> Mapping[int, IntArray]:
        """The rows of each domain in ascending order; they share one array."""
        order = self.domains.argsort(kind="stable")
        ordered = self.domains[order]
        starts = (ordered[1:] != ordered[:-1]).nonzero()[0] + 1
        bounds = [0, *starts.tolist(), len(order)] if len(order) else []
        return {int(ordered[start]): order[start:stop] for start, stop in pairwise(bounds)}


#: Exact scores of the current model, where a score is no inner product of two vectors: of some
#: mentions of the batch and some rows, ascending, a (mentions, rows) matrix.
PairScores = Callable[["IntArray", "IntArray"], "FloatArray"]


class SamplerBatch(NamedTuple):
    """The mentions to draw for."""

    gold: Sequence[frozenset[int]]
    """The right answers of each, as pool rows: they say what its domain is."""
    vectors: FloatArray | None = None
    """Mention vectors, whose inner products with the pool's are the scores."""
    excluded: Sequence[frozenset[int]] | None = None
    """Further rows that are never drawn for each: other answers that would be right, and what
    is known to be the same thing in another KB."""
    scores: PairScores | None = None
    """What takes the place of inner products."""
    surfaces: Sequence[str] | None = None
    """The words of each mention; training always gives them."""

    def forbidden(self, mention: int) -> frozenset[int]:
        """All rows that are never drawn for a mention of the batch."""
        gold = self.gold[mention]
        return gold if self.excluded is None else gold | self.excluded[mention]


class Sampler(Protocol):
    """Chooses the negatives of each mention.

    Two attributes, False if missing, say when it is called. ``by_score``: it needs vectors or
    scores, so it is called for all mentions each time the entities have been encoded. ``in_batch``:
    it draws golds of the batch's other mentions, so it is called in every step, after the batch was
    encoded; with ``by_score`` it gets the scores of that step. Any other sampler is called in every
    step, before its negatives are encoded.
    """

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """A (mentions, k) matrix of distinct, allowed pool rows; -1 where none is left.

        The -1s of a row are at its end. All randomness comes from ``rng``.
        """
        ...


class Positives(NamedTuple):
    """What each mention of a batch is drawn to."""

    rows: IntArray
    """One of its right answers, as a row of the pool; or ``len(pool)`` plus the number of another
    mention of the batch that means the same."""
    notes: tuple[str, ...] = ()
    """What the user should know, such as what took another way, and why."""


@runtime_checkable
class MentionSampler(Sampler, Protocol):
    """A sampler that compares mentions with each other too, and chooses positives as well.

    It is asked for all mentions at once when the entities have been encoded anew. The batch has
    the vectors of all; several right answers of one mention are the same thing.
    """

    def positives(
        self, pool: SamplerPool, batch: SamplerBatch, rng: np.random.Generator
    ) -> Positives:
        """What each mention is drawn to."""
        ...

    def negatives(
        self, pool: SamplerPool, batch: SamplerBatch, wanted: IntArray, k: int
    ) -> IntArray:
        """A (wanted, k) matrix of the negatives of some mentions; -1 where none is left.

        Mentions are numbered as in `Positives`, behind the rows of the pool. One with a right or
        an excluded row in common is never a negative.
        """
        ...


@runtime_checkable
class MixingSampler(Sampler, Protocol):
    """A sampler that makes its negatives out of the entities of the batch; it is asked to `mix`."""

    def mix(
        self,
        scorer: Scorer,
        mentions: Encoded,
        entities: Encoded,
        positive: torch.Tensor,
        masked: torch.Tensor,
        k: int,
    ) -> torch.Tensor:
        """(mentions, 1 + k) scores: of the right answer, then of k negatives that were made.

        ``positive`` and ``masked`` are (mentions, entities): the one right answer of each
        mention, and what is none but must not become a negative either. Where there are not
        k others, or no right answer, the scores are ``-inf``.
        """
        ...


class Objective(Protocol):
    """Turns scores into a loss."""

    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        """A scalar from (n, m) scores and the (n, m) boolean matrix of right answers.

        Cells with ``-inf`` do not count. The loss is finite, also if a row has no right answer, and
        does not depend on the order of rows or columns. It never rises when all right answers of a
        row score higher by the same amount, and never falls when a wrong one scores higher.
        """
        ...


class TaughtObjective(Objective, Protocol):
    """An objective that also learns from what a teacher scored; it says ``needs_teacher``.

    What the teacher prefers may be wrong, so its loss may fall when a wrong answer scores higher.
    """

    needs_teacher: bool

    def loss(
        self, scores: torch.Tensor, positive: torch.Tensor, teacher: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same from the teacher's scores of the same cells besides."""
        ...
