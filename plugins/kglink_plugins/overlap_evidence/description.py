"""Descriptions that mean the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kglink.overlap.evidence import cosines
from kglink.plugins import EntityPair, PairedKBs, PluginSettings


class DescriptionEvidence:
    """Weighs the cosine of the descriptions where both entities have one; proposes nothing."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: descriptions are compared where something else proposes a pair."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``description``: the cosine."""
        described = [pair for pair in pairs if pair.left.description and pair.right.description]
        texts = [text for one, other in described for text in (one.description, other.description)]
        found = iter(cosines(kbs, texts))
        return [
            {"description": next(found)} if pair.left.description and pair.right.description else {}
            for pair in pairs
        ]
