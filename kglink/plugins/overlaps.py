"""Telling whether two entities are the same thing: evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kglink.records import Entity, Progress

if TYPE_CHECKING:
    from kglink.plugins.protocols import FloatArray, IntArray


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

    def report(self, progress: Progress) -> None:
        """Say how far a long ``propose`` has come: who waits sees the time left."""
        ...


class PairEvidence(Protocol):
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
