"""Descriptions, and types, that mean the same to the encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kglink.overlap.paper import cosines
from kglink.plugins import EntityPair, PairedKBs, PluginSettings
from kglink.text.fold import fold

#: Descriptions of one thing in two KBs rarely have a smaller cosine.
_LEAST_ALIKE = 0.5


class DescriptionEvidence:
    """Weighs the cosine of the descriptions where both entities have one; proposes nothing."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: descriptions are compared where something else proposes a pair."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``description``: the cosine; ``descriptions_differ``: by how much it is below a half."""
        described = [pair for pair in pairs if pair.left.description and pair.right.description]
        texts = [text for one, other in described for text in (one.description, other.description)]
        found = iter(cosines(kbs, texts))
        return [
            _described(next(found)) if pair.left.description and pair.right.description else {}
            for pair in pairs
        ]


def _described(cosine: float) -> Mapping[str, float]:
    return {"description": cosine, "descriptions_differ": max(0.0, _LEAST_ALIKE - cosine)}


class TypeEvidence:
    """Weighs the cosine of the types where both entities have one; proposes nothing."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        self._known: dict[tuple[str, str], float] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: too many entities are of one type."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``type``: 1 where the types are written alike, else the cosine of their words."""
        types = [(fold(pair.left.type), fold(pair.right.type)) for pair in pairs]
        new = [one for one in dict.fromkeys(types) if all(one) and one not in self._known]
        # KBs have few types, so each two are compared once.
        found = cosines(kbs, [text for one in new for text in one])
        self._known.update(zip(new, found, strict=True))
        return [
            {"type": 1.0 if one == other else self._known[one, other]} if one and other else {}
            for one, other in types
        ]
