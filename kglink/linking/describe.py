"""What the store says of candidates: their names, types, parents and counterparts."""

from __future__ import annotations

from collections.abc import Sequence
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
    firsts = [_first(ranking.candidates, depth) for ranking in rankings]
    some = [one for own in firsts for one in own]
    first = {one.id for one in some if not _is_described(one)}
    same = {one.id: one.also for one in some if _is_described(one)}
    known = set(first)
    with store.one_state():
        same |= store.counterparts(first)
        for own, ranking in zip(firsts, rankings, strict=True):
            others = {other for one in own for other in same.get(one.id, ())}
            known |= {
                one.id for one in ranking.candidates if one.id in others and not _is_described(one)
            }
        same |= store.counterparts(known - first)
        entities = store.get_entities(known) if known else {}
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


def _is_described(candidate: Candidate) -> bool:
    return bool(candidate.aliases)  # an entity that was read has its title at least


def _described(
    candidate: Candidate, entity: Entity | None, also: tuple[EntityId, ...]
) -> Candidate:
    if entity is None:  # Removed from the store after the space was built.
        return replace(candidate, also=also)
    return replace(
        candidate,
        title=candidate.title or entity.title,
        url=entity.url,
        description=entity.description,
        type=entity.type,
        aliases=tuple(alias.surface for alias in entity.aliases),
        parents=entity.parents,
        also=also,
    )
