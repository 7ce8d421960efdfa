"""What the encoder reads of an entity."""

from __future__ import annotations

from kglink.records import Entity

#: More aliases push the description out of the model's window and made no retrieval better.
MOST_ALIASES = 6


def entity_text(entity: Entity, *, description_chars: int = 1000) -> str:
    """Title, type, a few other names and the description, as one plain sentence."""
    names = dict.fromkeys(alias.surface for alias in entity.aliases)
    names.pop(entity.title, None)
    text = f"{entity.title} ({entity.type})" if entity.type else entity.title
    if names:
        text += "; " + "; ".join(list(names)[:MOST_ALIASES])
    description = entity.description[:description_chars].strip()
    return f"{text}. {description}" if description else text
