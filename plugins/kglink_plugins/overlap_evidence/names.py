"""Names and cross-references that both entities have: how many, which, and who else has them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.files.tables import places_in
from kglink.overlap.names import folded_names
from kglink.plugins import EntityPair, PairedKBs
from kglink.records import Entity
from kglink.text.codes import code_of
from kglink.text.fold import fold

#: Names in common, and other bearers of one, beyond which more say nothing more.
MOST_SHARED = 5
MOST_BEARERS = 31

HashArray = npt.NDArray[np.uint64]


class NameEvidence:
    """Proposes entities that share a name; a name that many bear says less."""

    second_pass = False

    def __init__(self) -> None:
        self._bearers = _Bearers()

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs with a folded name in common."""
        for left, right, name in kbs.shared_names():
            self._bearers.add(left, right, name)
            yield left, right
        self._bearers.close()

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``title``: the titles are one; ``name``: any two names are; ``more_names``: how many more
        (four or more: 1); ``name_bearers``: how many other entities bear the rarest name in
        common (0: none, 1: 31 or more, by powers of two).
        """
        values: list[Mapping[str, float]] = []
        for left, right in pairs:
            title = fold(left.title)
            shared = set(folded_names(left)) & set(folded_names(right))
            more = max(min(len(shared), MOST_SHARED) - 1, 0)
            bearers = min((self._bearers.others(name) for name in shared), default=0)
            values.append(
                {
                    "title": float(bool(title) and title == fold(right.title)),
                    "name": float(bool(shared)),
                    "more_names": more / (MOST_SHARED - 1),
                    "name_bearers": math.log2(1 + min(bearers, MOST_BEARERS)) / 5,
                }
            )
        return values


class _Bearers:
    """How many entities of both sides bear each name that is shared, as arrays of hashes."""

    def __init__(self) -> None:
        self._rows = array("Q")
        self._names: HashArray = np.empty(0, np.uint64)
        self._counts: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, left: str, right: str, name: str) -> None:
        """Two bearers of a name."""
        self._rows.extend((text_hash(name), text_hash(left), text_hash(right)))

    def close(self) -> None:
        """Count."""
        rows = np.array(self._rows, np.uint64).reshape(-1, 3)
        self._rows = array("Q")
        bearers = [np.unique(rows[:, [0, side]], axis=0)[:, 0] for side in (1, 2)]
        self._names, self._counts = np.unique(np.concatenate(bearers), return_counts=True)

    def others(self, name: str) -> int:
        """How many bear it besides one entity of each side."""
        places, known = places_in(self._names, np.array([text_hash(name)], np.uint64))
        # A name that too many bear is passed over by the store, and so not known here.
        return int(self._counts[places[0]]) - 2 if known[0] else MOST_BEARERS


#: A code that more entities of one KB name says nothing of any two of them.
MOST_BEARERS_OF_A_CODE = 100


class XrefEvidence:
    """Proposes entities that have a code in common; the key of an entity is one of its codes."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs with a code in common."""
        bearers: dict[str, list[str]] = {}
        codes = (text_hash(code) for one in kbs.entities("left") for code in codes_of(one))
        common, counts = np.unique(np.fromiter(codes, np.uint64), return_counts=True)
        common = common[counts <= MOST_BEARERS_OF_A_CODE]
        for entity in kbs.entities("right"):
            own = list(codes_of(entity))
            _, known = places_in(common, np.array([text_hash(code) for code in own], np.uint64))
            for code in compress(own, known.tolist()):
                bearers.setdefault(code, []).append(entity.key)
        for entity in kbs.entities("left"):
            for code in codes_of(entity):
                others = bearers.get(code, ())
                if len(others) <= MOST_BEARERS_OF_A_CODE:
                    for other in others:
                        yield entity.key, other

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``xref``: whether they have a code in common; absent where both have none but the key."""
        return [
            {"xref": float(not codes_of(pair.left).isdisjoint(codes_of(pair.right)))}
            if pair.left.xrefs or pair.right.xrefs
            else {}
            for pair in pairs
        ]


def codes_of(entity: Entity) -> set[str]:
    """The codes of an entity in one spelling, its key among them where it is one."""
    return {code_of(text) for text in (entity.key, *entity.xrefs)} - {""}
