"""Compares the years in the descriptions of two entities.

Use it: kglink overlap LEFT RIGHT --evidence names,myvendor/myplugin
The model has no weight for it until kglink overlap train finds one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kglink.plugins import EntityPair, PairedKBs, PluginSettings, Register, hookimpl
from kglink.records import Entity

YEAR = re.compile(r"\b[12][0-9]{3}\b")


class YearEvidence:
    """1 where both name the same years, -1 where they have none in common."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """No pair: years alone make nobody alike; other evidence proposes."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """A value for each pair of entities that both name a year."""
        return [self._weighed(years(left), years(right)) for left, right in pairs]

    def _weighed(self, left: set[str], right: set[str]) -> dict[str, float]:
        return {"years": 2 * len(left & right) / len(left | right) - 1} if left and right else {}


def years(entity: Entity) -> set[str]:
    """The years in a description."""
    return set(YEAR.findall(entity.description))


@hookimpl
def register_overlap_evidence(register: Register) -> None:
    """Offer the evidence."""
    register("myvendor/myplugin", YearEvidence, summary="The same years in both descriptions")
