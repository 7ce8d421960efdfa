"""What a source says of keys that are no entities of its KB any more: what took their place."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Select, select
from sqlalchemy.engine import Connection

from kglink.records import CONSIDER, REPLACED_BY, EntityId
from kglink.store.kbs import kb_id
from kglink.store.prepared import folded_name
from kglink.store.schema import aliases, entities, mappings, xrefs
from kglink.text.codes import code_of


class Successor(NamedTuple):
    """What stands in the place of a key, and what the source says of the two."""

    key: str
    how: str


def read_successors(connection: Connection, gone: EntityId) -> list[Successor]:
    """What took the place of a key: its replacements, what it was merged into or redirects to."""
    number = kb_id(connection, gone.kb)
    code, m = code_of(gone.key), mappings.c
    replaced = select(m.object).where(m.kb_id == number, m.subject_code == code).order_by(m.object)
    in_kb = select(entities.c.key).where(entities.c.kb_id == number).order_by(entities.c.key)
    merged = in_kb.join_from(entities, xrefs, entities.c.id == xrefs.c.entity_id)
    named = in_kb.join_from(entities, aliases, entities.c.id == aliases.c.entity_id)
    redirects = aliases.c.kind == "redirect", aliases.c.folded == folded_name(gone.key)
    asked: tuple[tuple[str, Select[str]], ...] = (
        ("replaced by", replaced.where(m.predicate == REPLACED_BY)),
        ("consider", replaced.where(m.predicate == CONSIDER)),
        ("merged into", merged.where(xrefs.c.code == code)),
        ("redirects to", named.where(*redirects)),
    )
    return [
        Successor(key, how)
        for how, query in asked
        if code or how == "redirects to"
        for key in dict.fromkeys(connection.scalars(query))
    ]
