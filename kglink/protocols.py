"""What a plugin must be able to do: one Protocol for each kind of plugin.

A plugin registers a *factory*, called as ``factory(settings)`` with an instance of the settings
class that it registered (exporters, KB adapters, samplers, ...). A detector's factory gets the
names of the space as well: ``factory(settings, names)``. The contract tests in `kglink.testing`
check what these signatures cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TextIO

from pydantic import BaseModel, ConfigDict

from kglink.records import Candidate, Entity, LinkedDocument, Record, Span
from kglink.sources import Problems, Source, SourceHead

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    FloatArray = npt.NDArray[np.float32]
    IntArray = npt.NDArray[np.int64]


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
        is in the batch. Gradients reach the states of both sides and are finite.
        """
        ...


class SamplerPool(NamedTuple):
    """The entities that negatives are drawn from: row i has domain ``domains[i]``."""

    domains: IntArray
    vectors: FloatArray | None = None
    """Current entity vectors, for samplers that look for hard negatives."""


class SamplerBatch(NamedTuple):
    """The mentions to draw for: every gold set as pool rows, and mention vectors if mined."""

    gold: Sequence[frozenset[int]]
    vectors: FloatArray | None = None


class Sampler(Protocol):
    """Chooses the negatives of each mention."""

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        """A (mentions, k) matrix of distinct pool rows, never gold; -1 where none is left.

        The -1s of a row stand at its end. All chance comes from ``rng``: the same generator
        state draws the same rows.
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
