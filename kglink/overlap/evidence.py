"""The two reasons of the joint-space paper as evidence: a name in common, descriptions alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kglink.plugins import EntityPair, PairedKBs, PluginSettings
from kglink.records import Entity
from kglink.text.fold import fold


class NameEvidence:
    """Proposes entities that share a name; weighs whether they share titles or any name."""

    second_pass = False

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Pairs with a folded name in common."""
        for left, right, _ in kbs.shared_names():
            yield left, right

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """``title``: whether the titles are one; ``name``: whether any two names are."""
        return [self._weighed(pair) for pair in pairs]

    def _weighed(self, pair: EntityPair) -> Mapping[str, float]:
        title = fold(pair.left.title)
        same_title = bool(title) and title == fold(pair.right.title)
        return {"title": float(same_title), "name": float(share_name(*pair))}


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
        texts = [text for pair in described for text in (_text(pair.left), _text(pair.right))]
        found = iter(cosines(kbs, texts))
        return [
            {"description": next(found)} if pair.left.description and pair.right.description else {}
            for pair in pairs
        ]


def cosines(kbs: PairedKBs, texts: Sequence[str]) -> list[float]:
    """The cosine of each two texts that follow each other."""
    if not texts:
        return []
    vectors = kbs.encode(texts)
    products = np.einsum("nd,nd->n", vectors[0::2], vectors[1::2])
    return [float(value) for value in np.clip(products, -1, 1)]


def share_name(left: Entity, right: Entity) -> bool:
    """Whether two entities have a folded name in common."""
    return not folded_names(left).isdisjoint(folded_names(right))


def folded_names(entity: Entity) -> set[str]:
    """All names of an entity, folded."""
    surfaces = {entity.title, *(alias.surface for alias in entity.aliases)}
    return {fold(surface) for surface in surfaces} - {""}


def _text(entity: Entity) -> str:
    return entity.description
