"""The contract of evidence of overlaps: real pairs, bounded values, each pair by itself."""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from kglink.plugins import EntityPair, EntityVectors, Side
from kglink.records import Alias, Entity, Progress, Spread
from kglink.testing.contracts.base import NASTY_TEXTS, PluginContract
from kglink.text.entity_text import entity_text
from kglink.text.fold import fold

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray

Values = Sequence[Mapping[str, float]]


class PairEvidenceContract(PluginContract):
    """Proposes pairs that exist, and says the same of a pair whatever is asked besides."""

    kind = "overlap-evidence"
    tolerance: float = 1e-5
    """How far the values of one pair, asked alone and among others, may lie apart."""
    proposes: tuple[tuple[Entity, Entity, bool], ...] = ()
    """Entities of two KBs that hold nothing else, and whether they are proposed as a pair."""
    weighs: tuple[tuple[Entity, Entity, Mapping[str, float]], ...] = ()
    """The same, and all values of the pair."""

    def test_says_in_which_pass_it_weighs(self) -> None:
        assert isinstance(self.make().second_pass, bool)

    def test_proposes_pairs_that_exist(self) -> None:
        for kbs in _cases():
            known = {side: {one.key for one in kbs.entities(side)} for side in ("left", "right")}
            for left, right in self.make().propose(kbs):
                assert left in known["left"], "no left key"
                assert right in known["right"], "no right key"

    def test_proposes_what_it_should(self) -> None:
        for left, right, wanted in self.proposes:
            kbs = ListedKBs([left], [right])
            assert ((left.key, right.key) in set(self.make().propose(kbs))) == wanted

    def test_weighs_every_pair_in_order_with_bounded_values(self) -> None:
        for kbs in _cases():
            pairs = _pairs(kbs)
            values = self._weighed(kbs, pairs)
            assert len(values) == len(pairs), "one mapping for each pair, empty ones included"
            for value in itertools.chain.from_iterable(one.items() for one in values):
                assert isinstance(value[0], str)
                assert value[0], "a value without a name"
                assert -1 <= value[1] <= 1, "a value beyond -1 to 1, or not a number"

    def test_weighs_as_described(self) -> None:
        for left, right, wanted in self.weighs:
            kbs = ListedKBs([left], [right])
            assert self._weighed(kbs, [EntityPair(left, right)])[0] == pytest.approx(
                dict(wanted), abs=self.tolerance
            )

    def test_a_pair_is_weighed_as_if_alone(self) -> None:
        for kbs in _cases():
            pairs = _pairs(kbs)
            evidence = self.make()
            list(evidence.propose(kbs))
            for pair, among in zip(pairs, evidence.weigh(kbs, pairs), strict=True):
                self._same(evidence.weigh(kbs, [pair])[0], among)

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        for kbs in _cases():
            pairs = _pairs(kbs)
            before = copy.deepcopy(pairs)
            proposed = [sorted(self.make().propose(kbs)) for _ in range(2)]
            assert proposed[0] == proposed[1]
            evidence = self.make()
            list(evidence.propose(kbs))
            for first, second in zip(
                evidence.weigh(kbs, pairs), evidence.weigh(kbs, pairs), strict=True
            ):
                self._same(first, second)
            assert pairs == before, "the pairs were changed"

    def test_no_pair_and_an_empty_kb(self) -> None:
        one = Entity("1", "Ada")
        for left, right in (([], []), ([one], []), ([], [one])):
            kbs = ListedKBs(left, right)
            evidence = self.make()
            assert list(evidence.propose(kbs)) == []
            assert list(evidence.weigh(kbs, [])) == []

    def _weighed(self, kbs: ListedKBs, pairs: Sequence[EntityPair]) -> Values:
        evidence = self.make()
        list(evidence.propose(kbs))
        values: Values = evidence.weigh(kbs, pairs)
        return values

    def _same(self, first: Mapping[str, float], second: Mapping[str, float]) -> None:
        assert dict(first) == pytest.approx(dict(second), rel=0, abs=self.tolerance)


def _cases() -> list[ListedKBs]:
    """KBs with and without a space, descriptions, types, parents and a first pass."""
    left, right = _people(), _same_people()
    pairs = {("P:1", "1"): 0.9, ("P:2", "2"): 0.4, ("P:1", "2"): 0.1}
    bare = [Entity(entity.key, entity.title) for entity in left]
    nasty = [Entity(f"N:{number}", text) for number, text in enumerate(filter(None, NASTY_TEXTS))]
    return [
        ListedKBs(left, right),
        ListedKBs(
            left,
            right,
            space=False,
            first_pass=pairs,
            through=[("P:1", "1", "third", 0.8), ("P:3", "2", "third", 0.7)],
        ),
        ListedKBs(bare, right, first_pass=pairs),
        ListedKBs(nasty, nasty[::2], space=False),
        ListedKBs(nasty, nasty[::2]),
    ]


def _pairs(kbs: ListedKBs) -> list[EntityPair]:
    lefts, rights = list(kbs.entities("left"))[:12], list(kbs.entities("right"))[:6]
    return [EntityPair(one, other) for one in lefts for other in rights]


def _people() -> list[Entity]:
    return [
        Entity(
            "P:1",
            "Ada Lovelace",
            "An English mathematician who wrote the first program.",
            type="person",
            aliases=(Alias("Countess of Lovelace", "synonym"),),
            xrefs=("Q:7259",),
            parents=("P:3",),
        ),
        Entity("P:2", "Charles Babbage", type="person", parents=("P:3", "P:4")),
        Entity("P:3", "Mathematicians", "People who study numbers.", type="group"),
        Entity("P:4", "Engineers (people)", "People who build.", type="group"),
    ]


def _same_people() -> list[Entity]:
    return [
        Entity(
            "1",
            "Lovelace, Ada",
            "The mathematician of the Analytical Engine.",
            type="Person",
            aliases=(Alias("Ada Lovelace", "alias"),),
            xrefs=("Q:7259", "VIAF:1"),
            parents=("3",),
        ),
        Entity("2", "Charles Babbage", "He designed engines.", parents=("3",)),
        Entity("3", "Mathematician", "One who studies numbers.", type="kind"),
        Entity("4", "Engineers"),
    ]


# ------------------------------------------------------------------------- two KBs in memory
DIM = 16


class ListedKBs:
    """Two lists of entities as `kglink.plugins.PairedKBs`.

    Vectors are made of the words of a text: texts without a common word are at right angles or
    nearly so, equal ones have the cosine 1. Without ``space`` no vectors of rows are there.
    ``first_pass`` is what the first pass found, ``through`` what a third KB says. ``reports``
    holds how far evidence said that it has come.
    """

    def __init__(
        self,
        left: Iterable[Entity],
        right: Iterable[Entity],
        *,
        names: tuple[str, str] = ("left_kb", "right_kb"),
        space: bool = True,
        first_pass: Mapping[tuple[str, str], float] | None = None,
        through: Iterable[tuple[str, str, str, float]] = (),
    ) -> None:
        self.left, self.right = names
        self.device = "cpu"
        self.spread: Spread | None = None
        self.kept: Path | None = None
        self.reports: list[Progress] = []
        self._sides: dict[Side, dict[str, Entity]] = {
            "left": {entity.key: entity for entity in sorted(left, key=lambda one: one.key)},
            "right": {entity.key: entity for entity in sorted(right, key=lambda one: one.key)},
        }
        self._space = space
        self._first_pass = dict(first_pass or {})
        self._through = tuple(through)

    def entities(self, side: Side) -> Iterator[Entity]:
        """All entities of one side in the order of their keys."""
        return iter(self._sides[side].values())

    def get(self, side: Side, keys: Iterable[str]) -> dict[str, Entity]:
        """Some entities of one side."""
        known = self._sides[side]
        return {key: known[key] for key in keys if key in known}

    def shared_names(self) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and the folded name that both bear."""
        for one in self.entities("left"):
            for other in self.entities("right"):
                for name in sorted(_folded_names(one) & _folded_names(other)):
                    yield one.key, other.key, name

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text."""
        vectors = [_word_vector(text) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, DIM), np.float32)

    def vectors(self, side: Side, rows: Literal["text", "alias"]) -> EntityVectors | None:
        """The vectors of one side's texts or names."""
        if not self._space:
            return None
        owned = [
            (number, text)
            for number, entity in enumerate(self.entities(side))
            for text in ([entity_text(entity)] if rows == "text" else _surfaces(entity))
        ]
        return ListedVectors(
            list(self._sides[side]),
            np.array([number for number, _ in owned], np.int64),
            self.encode([text for _, text in owned]),
        )

    def overlaps_through(self) -> Iterator[tuple[str, str, str, float]]:
        """What a third KB says."""
        return iter(self._through)

    def probability(self, left: str, right: str) -> float | None:
        """What the first pass found a pair to be."""
        return self._first_pass.get((left, right))

    def partners(self, side: Side, key: str) -> dict[str, float]:
        """The other sides of all pairs of an entity."""
        mine, other = (0, 1) if side == "left" else (1, 0)
        return {pair[other]: p for pair, p in self._first_pass.items() if pair[mine] == key}

    def report(self, progress: Progress) -> None:
        """Note how far a search has come."""
        self.reports.append(progress)


class ListedVectors:
    """A matrix as `kglink.plugins.EntityVectors`."""

    def __init__(self, keys: Sequence[str], owners: IntArray, matrix: FloatArray) -> None:
        self.keys = keys
        self.owners = owners
        self._matrix = matrix
        self._numbers = {key: number for number, key in enumerate(keys)}

    def rows(self, numbers: IntArray | slice) -> FloatArray:
        """Some rows."""
        return self._matrix[numbers]

    def find(self, keys: Sequence[str]) -> IntArray:
        """The number of each entity, -1 for a key that is not there."""
        return np.array([self._numbers.get(key, -1) for key in keys], np.int64)


def _surfaces(entity: Entity) -> list[str]:
    return list(dict.fromkeys([entity.title, *(alias.surface for alias in entity.aliases)]))


def _folded_names(entity: Entity) -> set[str]:
    return {fold(surface) for surface in _surfaces(entity)} - {""}


def _word_vector(text: str) -> FloatArray:
    total = np.zeros(DIM, np.float32)
    for word in fold(text).split() or [text]:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=DIM).digest()
        total += np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    unit: FloatArray = total / np.linalg.norm(total)
    return unit
