"""Two entities side by side, for somebody who has to say whether they are the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kglink.text.printable import printable
from kglink_cli.overlap_records import evidence_text, short

if TYPE_CHECKING:
    from kglink.records import Entity, EntityId, Overlap
    from kglink.store import Store

MOST_NAMES = 12
#: Characters of a description, of a title, and of another name.
MOST_CHARACTERS = 1500
MOST_OF_TITLE = 300
MOST_OF_NAME = 100


def parents_of(store: Store, overlap: Overlap, entities: Mapping[EntityId, Entity]) -> list[str]:
    """The titles of what each of the two entities belongs to."""
    found = []
    for name in (overlap.left, overlap.right):
        wanted = [name._replace(key=key) for key in entities[name].parents]
        known = store.get_entities(wanted)
        found.append(
            ", ".join(printable(known[one].title, MOST_OF_NAME) for one in wanted if one in known)
        )
    return found


def card(
    overlap: Overlap, entities: Mapping[EntityId, Entity], parents: Iterable[str], title: str
) -> Group:
    """A pair as it is shown: both entities, the evidence, and what was said of it before."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    sides = zip((overlap.left, overlap.right), parents, strict=True)
    table.add_row(*(_entity(name, entities[name], within) for name, within in sides))
    weighed = Text.assemble((f"probability {short(overlap.probability)}", "bold"), "   ")
    weighed.append(evidence_text(overlap) or "no evidence: it was only told")
    parts: list[RenderableType] = [
        Rule(title, align="left", characters="-", style="dim"),
        table,
        Text(),
        weighed,
    ]
    if overlap.stale:
        said = f"judged {overlap.verdict} before a title or description changed"
        parts.append(Text(said, style="yellow"))
    return Group(*parts)


def _entity(name: EntityId, entity: Entity, parents: str) -> Text:
    title = printable(entity.title, MOST_OF_TITLE)
    text = Text.assemble((printable(str(name)), "cyan"), "\n", (title, "bold"), "\n")
    names = dict.fromkeys(printable(alias.surface, MOST_OF_NAME) for alias in entity.aliases)
    names.pop(printable(entity.title, MOST_OF_NAME), None)
    shown = ", ".join(list(names)[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown += f", and {len(names) - MOST_NAMES:,} more"
    for label, value in (
        ("type", printable(entity.type, MOST_OF_NAME)),
        ("also", shown),
        ("in", parents),
    ):
        if value:
            text.append(f"{label}: ", style="dim").append(f"{value}\n")
    description = printable(entity.description, MOST_CHARACTERS)
    return text.append(description or "(no description)")
