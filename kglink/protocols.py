"""What a plugin must be able to do: one Protocol for each kind of plugin.

A plugin registers a *factory*, called as ``factory(settings)`` with an instance of the settings
class that it registered (exporters, KB adapters, samplers, ...). A detector's factory gets the
names of the space as well: ``factory(settings, names)``. The contract tests in `kglink.testing`
check what these signatures cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TextIO, runtime_checkable

from pydantic import BaseModel, ConfigDict

from kglink.errors import UsageError
from kglink.records import Candidate, Entity, LinkedDocument, Record, Span
from kglink.sources import Problems, Source, SourceHead

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    FloatArray = npt.NDArray[np.float32]
    IntArray = npt.NDArray[np.int64]
    #: Vectors as they are kept: float32, float16, or the bits of bf16 as int16.
    KeptVectors = npt.NDArray[np.float32 | np.float16 | np.int16]


class PluginSettings(BaseModel):
    """The base of every plugin's settings: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# ------------------------------------------------------------------------------------- KBs
class KBAdapter(Protocol):
    """Reads one source format as a stream of records, in the same order on every read.

    An adapter whose golds are no keys may say so in an attribute ``resolve`` (``"xref"`` or
    ``"title"``); it counts where the user says nothing else and names KBs to link to.
    """

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the records; report a bad one to ``problems``, which raises or counts it.

        Whatever the source holds, nothing but a `KglinkError` comes out. Entity keys are not
        empty, and ``text[start:end] == surface`` for every mention of a document.
        """
        ...


#: Says how sure an adapter is (0 to 1) that a source's beginning is of its format.
#: From 0.5 on it takes the source for its own; it never raises, whatever it is shown.
Sniff = Callable[[SourceHead], float]


# ------------------------------------------------------------------------------- detection
@dataclass(frozen=True, slots=True)
class NameRow:
    """One alias of one entity as the name index holds it."""

    surface: str
    folded: str
    kb: str
    count: int


class Names(Protocol):
    """All aliases of the KBs that a linker was opened with."""

    fingerprint: str
    """Changes whenever any alias does; names a cached automaton."""
    cache_dir: Path | None
    """Where a detector may keep compiled files (None: nowhere)."""

    def __iter__(self) -> Iterator[NameRow]: ...

    def __len__(self) -> int: ...


class Detector(Protocol):
    """Finds the mentions of a text."""

    def detect(self, text: str) -> list[Span]:
        """Spans in reading order that do not overlap, with ``0 <= start < end <= len(text)``.

        The answer depends on the text and the names alone, not on what was asked before.
        """
        ...


# -------------------------------------------------------------------------------- overlaps
#: One of the two KBs whose overlap is looked for.
Side = Literal["left", "right"]


class EntityPair(NamedTuple):
    """An entity of each of two KBs, which may be the same thing."""

    left: Entity
    right: Entity


class EntityVectors(Protocol):
    """Vectors of one KB's entities; an entity owns any number of rows, or none."""

    keys: Sequence[str]
    """The entities in the order of their keys; entity i is ``keys[i]``."""
    owners: IntArray
    """For each row the entity that it belongs to, in ascending order."""

    def rows(self, numbers: IntArray | slice) -> FloatArray:
        """Some rows, each of length one."""
        ...

    def find(self, keys: Sequence[str]) -> IntArray:
        """The number of each entity, -1 for a key that is not there."""
        ...


class PairedKBs(Protocol):
    """Two KBs whose overlap is looked for, as evidence sees them."""

    left: str
    right: str

    def entities(self, side: Side) -> Iterator[Entity]:
        """All entities of one side in the order of their keys."""
        ...

    def get(self, side: Side, keys: Iterable[str]) -> Mapping[str, Entity]:
        """Some entities of one side; those that do not exist are left out."""
        ...

    def shared_names(self) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and the folded name that both bear.

        A name that too many entities bear is left out, and the report says so.
        """
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text; each text is encoded once and its vector kept."""
        ...

    def vectors(self, side: Side, rows: Literal["text", "alias"]) -> EntityVectors | None:
        """The vectors of one side in the joint space; None where it has none."""
        ...

    def overlaps_through(self) -> Iterator[tuple[str, str, str, float]]:
        """Left key, right key, a third KB, and how probably both are the same entity of it."""
        ...

    def probability(self, left: str, right: str) -> float | None:
        """What the first pass found a pair to be; None for a pair that nobody proposed.

        In the first pass itself nothing is known of any pair.
        """
        ...

    def partners(self, side: Side, key: str) -> Mapping[str, float]:
        """The other sides of all pairs of an entity, with what the first pass found of them."""
        ...


class Evidence(Protocol):
    """One reason to take two entities for the same thing, or not to.

    A new one is made for each two KBs. What ``propose`` learns it may keep for ``weigh``.
    """

    second_pass: bool
    """Whether it weighs with what the first pass found, such as parents that match."""

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Left and right keys of pairs worth weighing, in any order; repeats are allowed.

        It is read to its end before ``weigh`` is called, also for evidence of the second pass.
        """
        ...

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Sequence[Mapping[str, float]]:
        """For each pair the values of this evidence by name; what is not known is absent.

        Values lie between -1 and 1, so that no single one drowns the others. Those of a pair do
        not depend on the other pairs that are asked for with it.
        """
        ...


# -------------------------------------------------------------------------------- training
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

        A value depends on its own mention and entity alone: neither on padding nor on what else
        is in the batch. Gradients reach the states of both sides and are finite. It works under
        `torch.func.vmap`, so that each mention can be compared with entities of its own: no
        ``.item()``, no ``if`` on a value, no indexing by a mask.
        """
        ...


@runtime_checkable
class PoolingScorer(Scorer, Protocol):
    """A scorer that reads less of a text than all of its tokens."""

    def pool(self, batch: Encoded) -> Encoded:
        """What it reads, such as one vector of each text; it scores the same as ``batch``."""
        ...


@dataclass(frozen=True, eq=False)
class SamplerPool:
    """The entities that negatives are drawn from: row i has domain ``domains[i]``.

    It is made once and used for many draws.
    """

    domains: IntArray
    vectors: KeptVectors | None = None
    """Current entity vectors, for samplers that look for hard negatives; read them by `rows`."""

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


class PairScores(Protocol):
    """Exact scores of the current model, where a score is no inner product of two vectors."""

    def __call__(self, mentions: IntArray, rows: IntArray) -> FloatArray:
        """The (mentions, rows) scores of some mentions of the batch and some rows, ascending."""
        ...


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

    def forbidden(self, mention: int) -> frozenset[int]:
        """All rows that are never drawn for a mention of the batch."""
        gold = self.gold[mention]
        return gold if self.excluded is None else gold | self.excluded[mention]


class Sampler(Protocol):
    """Chooses the negatives of each mention.

    Two attributes tell training when to ask; a sampler that lacks one counts as False.
    ``by_score``: it needs vectors or scores, so it is asked for all mentions at once when the
    entities have been encoded anew, and its answer holds until the next time. ``in_batch``: it
    draws golds of the batch's other mentions, so it is asked in every step, after the batch was
    encoded; if it goes by scores as well, by those of the moment. Any other is asked in every
    step for new negatives, before they are encoded.
    """

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """A (mentions, k) matrix of distinct pool rows, none forbidden; -1 where none is left.

        The -1s of a row stand at its end. All chance comes from ``rng``: the same generator
        state draws the same rows.
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

        A cell that must not take part holds ``-inf``, and the loss is as if it were not there.
        The loss is finite, also where a row has no right answer. It does not depend on the order
        of rows or columns. It never rises when all right answers of a row score higher by the
        same amount, nor falls when a wrong one scores higher.
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


# ---------------------------------------------------------------------------------- search
class RowRange(NamedTuple):
    """A half-open range of index rows."""

    start: int
    stop: int


class VectorIndex(Protocol):
    """Nearest rows by inner product."""

    size: int
    exact: bool

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Scores and row numbers, best first, (n, k) each; -inf and -1 where fewer exist.

        With ``ranges`` only those rows take part. Equal scores: the smaller row first.
        """
        ...

    def save(self, path: Path) -> None:
        """Write one file, from which ``load`` makes an index that answers the same."""
        ...


class IndexBackend(Protocol):
    """Builds and loads one kind of index."""

    def build(self, batches: Iterable[FloatArray], dim: int) -> VectorIndex:
        """Index the rows of all batches, in their order."""
        ...

    def load(self, path: Path) -> VectorIndex:
        """Open a file that ``save`` wrote, memory-mapped where the kind allows it."""
        ...


# --------------------------------------------------------------------------------- linking
class RerankQuery(NamedTuple):
    """One mention, its text, and its candidates as retrieved."""

    text: str
    span: Span
    candidates: tuple[Candidate, ...]


class Reranker(Protocol):
    """Orders candidates anew."""

    def rerank(self, queries: Sequence[RerankQuery]) -> list[tuple[Candidate, ...]]:
        """For each query the same candidates with new scores, best first.

        Only ``score`` and ``evidence`` may change. A query's answer does not depend on the
        others; a query without candidates has an empty answer.
        """
        ...


class Exporter(Protocol):
    """Writes linked documents in one format."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write all of ``documents``, each as soon as it comes where the format allows it.

        The same documents give the same text. ``out`` is left open.
        """
        ...


Factory = Callable[..., Any]
