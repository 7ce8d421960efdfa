"""What the store says of candidates: their names, types, parents and counterparts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from kglink.records import Candidate, Entity, EntityId, Ranking


class EntityFacts(Protocol):
    """What linking reads of the store."""

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        """The entities that are there."""
        ...

    def counterparts(self, ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
        """The same things in other KBs."""
        ...


def described(facts: EntityFacts, rankings: Sequence[Ranking], depth: int) -> list[Ranking]:
    """The rankings with what the store says of their first candidates."""
    ids = {one.id for ranking in rankings for one in ranking.candidates[:depth]}
    entities = facts.get_entities(ids)
    same = facts.counterparts(ids)
    return [
        replace(
            ranking,
            candidates=(
                *(
                    _described(one, entities.get(one.id), same.get(one.id, ()))
                    for one in ranking.candidates[:depth]
                ),
                *ranking.candidates[depth:],
            ),
        )
        for ranking in rankings
    ]


def _described(
    candidate: Candidate, entity: Entity | None, also: tuple[EntityId, ...]
) -> Candidate:
    if entity is None:  # Removed from the store after the space was built.
        return replace(candidate, also=also)
    return replace(
        candidate,
        url=entity.url,
        description=entity.description,
        type=entity.type,
        aliases=tuple(alias.surface for alias in entity.aliases),
        parents=entity.parents,
        also=also,
    )
