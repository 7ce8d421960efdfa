"""What the store says of candidates: their names, types, parents and counterparts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kglink.records import Candidate, Entity, EntityId, Ranking

if TYPE_CHECKING:
    from kglink.store import Store


def described(store: Store, rankings: Sequence[Ranking], depth: int) -> list[Ranking]:
    """The rankings with what the store says of their first candidates.

    Of the first of each KB too, and of what is the same as any of these in another KB: those are
    the candidates that may be answers. What is described already is not read again.
    """
    some = [one for ranking in rankings for one in _first(ranking.candidates, depth)]
    first = {one.id for one in some if not _is_described(one)}
    others = {one.id: one.also for one in some if _is_described(one)}
    same = {**others, **store.counterparts(first)}
    known = {
        one.id
        for ranking in rankings
        for one in _with_same(_first(ranking.candidates, depth), ranking.candidates, same)
        if not _is_described(one)
    }
    same = {**same, **store.counterparts(known - first)}
    entities = store.get_entities(known)
    return [
        replace(
            ranking,
            candidates=tuple(
                _described(one, entities.get(one.id), same.get(one.id, ()))
                if one.id in known and not _is_described(one)
                else one
                for one in ranking.candidates
            ),
        )
        for ranking in rankings
    ]


def as_candidate(entity: EntityId, facts: Entity) -> Candidate:
    """An entity of the store as a candidate that nothing speaks for."""
    return _described(Candidate(entity, facts.title, 0.0, facts.popularity), facts, ())


def _first(candidates: Sequence[Candidate], depth: int) -> list[Candidate]:
    """The first candidates of all, and the first one of each KB."""
    of_kbs = {one.id.kb: one for one in reversed(candidates[depth:])}
    for one in candidates[:depth]:
        of_kbs.pop(one.id.kb, None)
    return [*candidates[:depth], *of_kbs.values()]


def _with_same(
    chosen: Sequence[Candidate],
    candidates: Sequence[Candidate],
    same: Mapping[EntityId, Sequence[EntityId]],
) -> list[Candidate]:
    """Some candidates, and those that are the same things in other KBs."""
    others = {other for one in chosen for other in same.get(one.id, ())}
    return [*chosen, *(one for one in candidates if one.id in others)]


def _is_described(candidate: Candidate) -> bool:
    return bool(candidate.aliases)  # an entity that was read has its title at least


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
