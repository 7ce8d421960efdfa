"""Cross-references: codes that both entities name, or that name the other one.

This is what curators know already. It is off unless it is asked for (`overlap.evidence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

import numpy as np

from kglink.files.digest import text_hash
from kglink.plugins import EntityPair, PairedKBs, PluginSettings
from kglink.records import Entity
from kglink.space.names import places_in
from kglink.text.codes import code_of

#: A code that more entities of one KB name says nothing of any two of them.
MOST_BEARERS = 100


class XrefEvidence:
    """Proposes entities that have a code in common; the key of an entity is one of its codes."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs with a code in common."""
        bearers: dict[str, list[str]] = {}
        codes = (text_hash(code) for one in kbs.entities("left") for code in codes_of(one))
        common = np.unique(np.fromiter(codes, np.uint64))
        for entity in kbs.entities("right"):
            own = list(codes_of(entity))
            _, known = places_in(common, np.array([text_hash(code) for code in own], np.uint64))
            for code in compress(own, known.tolist()):
                bearers.setdefault(code, []).append(entity.key)
        for entity in kbs.entities("left"):
            for code in codes_of(entity):
                others = bearers.get(code, ())
                if len(others) <= MOST_BEARERS:
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
