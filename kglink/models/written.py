"""How an entity is written for a tower: its title, and what is told before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kglink.models.settings import EntityPart, InputSettings
from kglink.records import Entity


class Written(NamedTuple):
    """An entity in words."""

    before: str
    title: str
    after: str


def write_entity(entity: Entity, settings: InputSettings) -> Written:
    """All that a tower is told of an entity, before it is cut."""
    place = settings.parts.index("title")
    before = _join(entity, settings.parts[:place], settings.aliases)
    return Written(
        before, entity.title, _join(entity, settings.parts[place + 1 :], settings.aliases)
    )


def _join(entity: Entity, parts: Sequence[EntityPart], aliases: int) -> str:
    names = dict.fromkeys(alias.surface for alias in entity.aliases)
    names.pop(entity.title, None)
    texts = {
        "type": entity.type,
        "aliases": "; ".join(list(names)[:aliases]),
        "description": entity.description.strip(),
    }
    return ". ".join(texts[part] for part in parts if texts[part])
