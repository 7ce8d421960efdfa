"""The entities that the settings want to link to: of some types, in or out of some branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import UnknownNameError, UsageError
from kglink.records import EntityId
from kglink.space.space import limited_space
from kglink.store.branches import WantedEntities

if TYPE_CHECKING:
    from kglink.space.space import Space
    from kglink.store import Store


class Limits(NamedTuple):
    """Which entities may be found; what is empty sets no limit."""

    types: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    """In these branches, of the KBs that they are of: ``kb:key``."""
    not_under: tuple[str, ...] = ()


def limited_to(space: Space, kbs: Sequence[str], limits: Limits, store: Store) -> Space:
    """The space with what may be found of these KBs; the space itself where that is all."""
    under, not_under = _branches(space, limits.under), _branches(space, limits.not_under)
    wanted = {kb: WantedEntities(limits.types, under[kb], not_under[kb]) for kb in kbs}
    if not any(map(any, wanted.values())):
        return space
    _check_types(limits.types, kbs, store)
    keys = {kb: store.wanted_keys(kb, one) for kb, one in wanted.items() if any(one)}
    limited = limited_space(space, keys)
    if not any(_count(limited, kb) for kb in kbs):
        raise UsageError(
            f"no entity of {', '.join(kbs)} is of these types and in these branches",
            hint="Leave out a type, a branch (under) or an exception (not_under).",
        )
    return limited


def _branches(space: Space, ids: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The keys of the entities at the head of branches, KB by KB."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for text in ids:
        kb, key = EntityId.parse(text)
        if not kb:
            raise UsageError(
                f"{text!r} names no entity of a KB",
                hint="Write it with its KB, such as doid:DOID:4.",
            )
        space.kbs([kb])
        found[kb] += (key,)
    return found


def _check_types(types: Iterable[str], kbs: Sequence[str], store: Store) -> None:
    """Refuse a type that no entity has."""
    known = {one for kb in kbs for one in store.types_of(kb)} if types else set()
    names = {one.casefold() for one in known}
    for one in types:
        if one.casefold() not in names:
            raise UnknownNameError(f"type of entity in {', '.join(kbs)}", one, known - {""})


def _count(space: Space, kb: str) -> int:
    segment = space.segments[kb]
    return len(segment.keys if segment.rows is None else segment.rows)
