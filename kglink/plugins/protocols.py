"""What a plugin must be able to do: one Protocol for each kind of plugin.

The protocols of training are in `kglink.plugins.training`.
The contract tests in `kglink.testing` check what these signatures cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TextIO,
    runtime_checkable,
)

from pydantic import BaseModel, ConfigDict

from kglink.records import (
    Entity,
    EntityId,
    LinkedDocument,
    MentionInText,
    Progress,
    Ranking,
    Record,
    Span,
    Spread,
)
from kglink.sources import Problems, Source, SourceHead

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kglink.arrays import FloatArray, IntArray

    KeptVectors = npt.NDArray[np.float32 | np.float16 | np.int16]


#: Makes a plugin of its settings (and, for a detector, of the names of a space).
Factory = Callable[..., Any]


class PluginSettings(BaseModel):
    """The base of every plugin's settings: unknown keys are refused, values are frozen.

    The text below a setting says what it does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Settings that name something outside of the workspace (an address, a file, a variable), and
    #: what each does. A `kglink.toml` sets them only once the user has allowed that file. None:
    #: nobody said which, so a third-party plugin needs that for its name and all its settings.
    outside: ClassVar[Mapping[str, str] | None] = None


# ---------------------------------------------------------------------------- reading sources
class KBAdapter(Protocol):
    """Reads one source format as a stream of records, in the same order on every read.

    If golds are no keys, an attribute ``resolve`` (``"xref"`` or ``"title"``) says so; it counts if
    the user sets nothing else and names KBs to link to. If an attribute ``spreads`` is true, the
    adapter parses pieces by ``source.spread`` if there is one.
    """

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the records; report a bad one to ``problems``, which raises or counts it.

        Whatever the source holds, only a ``KglinkError`` is raised. Entity keys are not empty, and
        ``text[start:end] == surface`` for every mention of a document.
        """
        ...


@runtime_checkable
class WritesRecords(Protocol):
    """A KB adapter that writes its format too: what `kglink export` writes, it reads back."""

    def write(
        self,
        records: Iterable[Record],
        out: TextIO,
        entities: Callable[[Iterable[EntityId]], Mapping[EntityId, Entity]],
    ) -> None:
        """Write all of ``records``; ``entities`` gives those of some ids that there are."""
        ...


@runtime_checkable
class ReadsAnswers(Protocol):
    """A KB adapter that reads answers to texts whose files leave out the texts themselves."""

    def answers(
        self, source: Source, problems: Problems, texts: Mapping[str, str]
    ) -> Iterator[Record]:
        """Yield the documents; ``texts`` are those that were asked, by the ids of documents."""
        ...


#: Says how sure an adapter is (0 to 1) that a source's beginning is of its format.
#: From 0.5 on it takes the source for its own; it never raises, whatever it is shown.
Sniff = Callable[[SourceHead], float]


# ---------------------------------------------------------------------------- finding mentions
@dataclass(frozen=True, slots=True)
class NameRow:
    """One alias of one entity as the name index holds it."""

    surface: str
    folded: str
    kb: str
    count: int
    key: str = ""
    """Of the entity, in its KB; empty where nobody knows it."""


class Names(Protocol):
    """All aliases of the KBs that a linker was opened with."""

    fingerprint: str
    """Changes whenever any alias does; names a cached automaton."""
    cache_dir: Path | None
    """Where a detector may keep compiled files (None: nowhere)."""

    def __iter__(self) -> Iterator[NameRow]: ...

    def __len__(self) -> int: ...


@runtime_checkable
class NamesInParts(Names, Protocol):
    """Aliases in parts: what was compiled of an unchanged part can be used again."""

    @property
    def parts(self) -> Sequence[Names]:
        """All aliases in parts, each with its fingerprint; some may be gone by now."""
        ...

    def has(self, folded: str) -> bool:
        """Whether an alias that still exists has this folded form."""
        ...


class Detector(Protocol):
    """Finds the mentions of a text."""

    def detect(self, text: str) -> list[Span]:
        """Spans in reading order, with ``0 <= start < end <= len(text)``; they may overlap.

        The score of a span is the probability that it is a mention. The answer depends only on the
        text and the names. The text has one layout (``kglink.text.plain``) and its usual case
        (``kglink.linking.usual_case``).

        An attribute ``unproposed`` is the probability that a place which this detector does not
        propose is a mention. It changes the scores of places that only other detectors propose.
        """
        ...


@runtime_checkable
class ReadingDetector(Detector, Protocol):
    """A detector that is faster where it reads several texts together."""

    def detect_all(self, texts: Sequence[str]) -> list[list[Span]]:
        """What `detect` gives for each of the texts."""
        ...


@runtime_checkable
class JudgingDetector(Detector, Protocol):
    """A detector that sees the linker's candidates before it is decided what is a mention."""

    def judge(self, rankings: Sequence[Ranking]) -> list[float] | None:
        """For each proposal of one text, with its candidates, how probably it is a mention.

        What all detectors proposed is judged, in place of kglink's own judge; None leaves this
        text to that.
        """
        ...


# ----------------------------------------------------------------------------- nearest vectors
class RowRange(NamedTuple):
    """A half-open range of index rows."""

    start: int
    stop: int


class VectorIndex(Protocol):
    """Nearest rows by inner product."""

    size: int
    exact: bool
    oversampling: int
    """How many times as many rows are fetched as are wanted, and compared anew by their vectors.

    1 where the scores are those of the vectors; more where rounded codes blur them.
    """

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
        """Open a file that ``save`` wrote, memory-mapped if possible."""
        ...


class IndexPreset(NamedTuple):
    """Settings of an index back end that go together."""

    settings: Mapping[str, str | int | float | bool]
    summary: str


class IndexSettings(PluginSettings):
    """The base of the settings of a back end that says more of itself to ``kglink index``."""

    #: Settings that an index file can be opened with anew: changing them takes no new build.
    search_only: ClassVar[frozenset[str]] = frozenset()

    #: By name, what ``kglink index --preset NAME`` can choose.
    presets: ClassVar[Mapping[str, IndexPreset]] = MappingProxyType({})


# -------------------------------------------------------------------------- ordering candidates
class DefaultWeights(NamedTuple):
    """What evidence counts where nothing was fitted; a full match of names and vectors counts 1."""

    untrained: float = 0.0
    trained: float = 0.0


class CandidateEvidence(Protocol):
    """Says how much one kind of evidence speaks for each candidate of a mention."""

    weights: DefaultWeights
    """Its weight if none was fitted: in a space of a plain encoder, and of a trained one.

    ``kglink fit`` finds a weight of 0 or more.
    """

    def values(self, mentions: Sequence[Ranking]) -> Sequence[Sequence[float]]:
        """For each mention a value for each of its candidates, from -1 (against it) to 1 (for it).

        It gets all mentions of one text (of a long text some hundred at a time), each with the best
        candidates of every KB, best first: title, aliases, description, type, parents, popularity,
        counterparts, and earlier evidence. A value of 0 says nothing; the order of the mentions
        changes no value.
        """
        ...


class Reranker(Protocol):
    """Reorders the candidates of each mention by itself.

    It gets one batch of mentions after another. Candidates have title, description, type, url,
    aliases, parents, counterparts in other KBs, and evidence by name.
    """

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        """The same rankings in the same order, each with new scores, best first.

        A ranking has the same candidates as before; only their ``score`` and ``evidence`` may
        change. Each answer depends on its own ranking alone.
        """
        ...


class Clusterer(Protocol):
    """Reorders candidates by what the other mentions of a run mean.

    It is called once, with all mentions of all texts of a run, after the reranker.
    """

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        """The same rankings in the same order, each with new scores, best first.

        A ranking has the same candidates as before; only their ``score`` and ``evidence`` may
        change. The order of the mentions changes no answer.
        """
        ...


#: The vectors of mentions: of their names, and of the same mentions in their texts (of length one;
#: zeros where a mention has no text but itself), a row for each.
MentionVectors = Callable[[Sequence[MentionInText]], "tuple[FloatArray, FloatArray]"]


@runtime_checkable
class ReadsMentions(Protocol):
    """A reranker or clusterer that compares mentions by the vectors of the space's model."""

    def read_with(self, vectors: MentionVectors, probability: Callable[[Ranking], float]) -> None:
        """Use these; ``probability``: that the best candidate of a ranking is right.

        Called once, before it is asked.
        """
        ...


@runtime_checkable
class OffersSettings(Protocol):
    """A clusterer of whose settings the best are chosen for a space by `kglink fit --cluster`."""

    def alternatives(
        self, rankings: Sequence[Ranking]
    ) -> Iterator[tuple[Mapping[str, str | int | float | bool], Sequence[Ranking]]]:
        """Settings worth a try, each with what `rank` answers with them.

        The first are those with which no mention helps another; of equally good ones the earlier
        are chosen.
        """
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """A reranker or clusterer that keeps files of its own between runs."""

    def keep_in(self, folder: Path) -> None:
        """Use this folder, which may not be there yet; called once, before it is asked."""
        ...


@runtime_checkable
class TellsAfterwards(Protocol):
    """A reranker or clusterer that has something to say to a person when a run is done."""

    def told(self) -> Sequence[str]:
        """One line for each thing: what it did since it was asked this last, and what it cost."""
        ...


# ------------------------------------------------------------------------------ writing links
class Exporter(Protocol):
    """Writes linked documents in one format."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write all of ``documents``, each at once if the format allows it.

        The same documents give the same text. ``out`` is left open.
        """
        ...


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
    device: str
    """Where to compute: the setting ``encoder.device``."""
    spread: Spread | None
    """Has work done by the workers of a cluster, where there is one."""
    kept: Path | None
    """The folder where what they found is kept until all is found."""

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
        """How probable the first pass found a pair; None for one that nobody proposed.

        In the first pass itself nothing is known of any pair.
        """
        ...

    def partners(self, side: Side, key: str) -> Mapping[str, float]:
        """The other sides of all pairs of an entity, with what the first pass found of them."""
        ...

    def report(self, progress: Progress) -> None:
        """Say how far a long ``propose`` has come: who waits sees the time left."""
        ...


class PairEvidence(Protocol):
    """One kind of evidence that two entities are, or are not, the same thing.

    It is made for each pair of KBs. ``propose`` may keep what ``weigh`` needs.
    """

    second_pass: bool
    """Whether it needs results of the first pass, such as parents that match."""

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Left and right keys of pairs worth weighing, in any order; repeats are allowed.

        It is read to its end before ``weigh`` is called.
        """
        ...

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> Sequence[Mapping[str, float]]:
        """For each pair the values of this evidence by name; unknown values are absent.

        Values are between -1 and 1, and do not depend on the other pairs.
        """
        ...
