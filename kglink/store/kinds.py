"""Which kinds of entities the documents of a source mark, and which they leave unmarked.

A kind is the last word of an entity's title: "ATM Gene" is a gene, "Mercury (planet)" a planet.
Annotators of diseases mark no genes, though a KB has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import and_, select
from sqlalchemy.engine import Connection

from kglink.records import CORRECTIONS, NO_MENTION
from kglink.store.kbs import is_readable
from kglink.store.schema import aliases, entities, kbs, memories
from kglink.text.fold import fold


class Kind(NamedTuple):
    """How often names of entities of a kind were mentions in a source, and how often not."""

    source: str
    marked: float
    unmarked: float


def kind_of(title: str) -> str:
    """The kind of an entity, by its title."""
    return fold(title).rpartition(" ")[2]


def count_kinds(
    connection: Connection, sources: Collection[str], corrected: float
) -> Iterator[tuple[str, str, str, float, float]]:
    """The kinds that some sources of memory leave unmarked, of the KBs that their mentions mean.

    Each is a row of the table: source, KB, kind, how often it is marked and unmarked. Corrections
    speak of all KBs; there a surface counts ``corrected`` at most, however often it was corrected.
    """

    def counted(source: str, times: float) -> float:
        return min(times, corrected) if source == CORRECTIONS else times

    marked: dict[tuple[str, str, str], float] = defaultdict(float)
    unmarked: dict[tuple[str, str, str], float] = defaultdict(float)
    m, e, a = memories.c, entities.c, aliases.c
    # The titles of what mentions meant, and how often.
    meant = select(m.source, m.kb, e.title, m.count).join(kbs, kbs.c.name == m.kb)
    meant = meant.join(entities, and_(e.kb_id == kbs.c.id, e.key == m.entity))
    meant = meant.where(m.source.in_(sources), is_readable())
    for source, kb, title, times in connection.execute(meant):
        marked[source, kb, kind_of(title)] += counted(source, times)
    known = {(source, kb) for source, kb, _ in marked}
    # The titles of those whose names stood where nothing is marked, name by name.
    others = (
        select(m.source, m.folded, m.count.label("times"), kbs.c.name, e.title)
        .join(aliases, a.folded == m.folded)
        .join(entities, e.id == a.entity_id)
        .join(kbs, kbs.c.id == e.kb_id)
        .where(m.source.in_(sources), m.kb == NO_MENTION.kb, m.entity == NO_MENTION.key)
        .where(is_readable())
        .order_by(m.source, m.folded)
    )
    for (source, _), rows in groupby(connection.execute(others), lambda row: row[:2]):
        titles = [row for row in rows if source == CORRECTIONS or (source, row.name) in known]
        kinds = {(row.name, kind_of(row.title)) for row in titles}
        for kind in kinds:
            unmarked[source, *kind] += counted(source, titles[0].times) / len(kinds)
    for what, times in sorted(unmarked.items()):
        yield (*what, marked.get(what, 0.0), times)
