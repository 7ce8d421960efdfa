"""What an encoder reads of an entity: one sentence, or the title and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kglink.records import Entity

EntityPart = Literal["title", "type", "aliases", "description"]

#: More aliases push the description out of the model's window and made no retrieval better.
MOST_ALIASES = 6


class EntityParts(NamedTuple):
    """An entity in words, its title apart."""

    before: str
    title: str
    after: str


def entity_text(entity: Entity, *, description_chars: int = 1000) -> str:
    """Title, type, a few other names and the description, as one plain sentence."""
    text = f"{entity.title} ({entity.type})" if entity.type else entity.title
    if names := _other_names(entity, MOST_ALIASES):
        text += f"; {names}"
    description = entity.description[:description_chars].strip()
    return f"{text}. {description}" if description else text


def entity_parts(
    entity: Entity, parts: Sequence[EntityPart], aliases: int, *, brackets: bool = False
) -> EntityParts:
    """The wanted parts before and after the title; at most ``aliases`` aliases.

    With ``brackets`` type and aliases stand as ``( type : alias ; alias )``.
    """
    texts = {
        "type": entity.type,
        "aliases": _other_names(entity, aliases),
        "description": entity.description.strip(),
    }
    if brackets:
        both = [part for part in parts if part in ("type", "aliases")]
        inside = " : ".join(
            texts[part] for part in ("type", "aliases") if part in both and texts[part]
        )
        texts["type"] = texts["aliases"] = ""
        texts[both[0] if both else "type"] = f"( {inside.replace('; ', ' ; ')} )" if inside else ""
    place = parts.index("title")
    before, after = (
        ". ".join(texts[part] for part in some if texts[part])
        for some in (parts[:place], parts[place + 1 :])
    )
    return EntityParts(before, entity.title, after)


def _other_names(entity: Entity, most: int) -> str:
    """An entity's first aliases that are not its title."""
    names = dict.fromkeys(alias.surface for alias in entity.aliases)
    names.pop(entity.title, None)
    return "; ".join(list(names)[:most])


def shared_names(left: Entity, right: Entity) -> tuple[str, ...]:
    """The names that two entities have in common but for case and signs, as the left has them."""
    from kglink.text.fold import fold  # which loads numpy: settings of encoders name parts of texts

    of_right = {fold(alias.surface) for alias in right.aliases} | {fold(right.title)}
    surfaces = [left.title, *(alias.surface for alias in left.aliases)]
    by_fold: dict[str, str] = {}
    for surface in surfaces:
        by_fold.setdefault(fold(surface), surface)
    return tuple(surface for key, surface in by_fold.items() if key and key in of_right)
