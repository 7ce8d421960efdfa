"""Brings the tables of an older store up to date: one step from each schema to the next.

A store holds the number of its schema; to the first of them no step leads. What a step says of a
table stays as it was written, whatever becomes of the table later.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import update
from sqlalchemy.engine import Connection

from kglink.store.schema import schema_version

#: The statements that lead to each schema. ``{name}`` is the type of a name, and ``{by_key}`` ends
#: a table that lies in the order of its key, as the database at hand writes them.
STEPS: dict[str, tuple[str, ...]] = {
    "0002": (
        # The sources that memory was learnt from, each with its split and its revision.
        """CREATE TABLE learnt (
            source {name} NOT NULL, split TEXT NOT NULL, revision INTEGER NOT NULL,
            surfaces BIGINT NOT NULL, PRIMARY KEY (source)
        ) {by_key}""",
        """INSERT INTO learnt SELECT source, '', 0, count(DISTINCT folded) FROM memories
        WHERE entity <> '-' GROUP BY source""",
    ),
    "0003": (
        # Which revision took an entity away.
        """CREATE TABLE removed_entities (
            kb_id INTEGER NOT NULL REFERENCES kbs (id), key {name} NOT NULL,
            revision INTEGER NOT NULL, PRIMARY KEY (kb_id, key)
        ) {by_key}""",
    ),
    "0004": (
        # Words and kinds of the sources of memory; nothing is known of those learnt before.
        """CREATE TABLE source_words (
            source {name} NOT NULL, word {name} NOT NULL, count BIGINT NOT NULL,
            PRIMARY KEY (source, word)
        ) {by_key}""",
        """CREATE TABLE source_kinds (
            source {name} NOT NULL, kb {name} NOT NULL, word {name} NOT NULL,
            marked FLOAT NOT NULL, unmarked FLOAT NOT NULL, PRIMARY KEY (source, kb, word)
        ) {by_key}""",
    ),
    "0005": (
        # The highest id that an entity of each KB ever had. What an interrupted update has staged
        # is published later, and is new then.
        "ALTER TABLE kbs ADD COLUMN last_id BIGINT NOT NULL DEFAULT 0",
        """UPDATE kbs SET last_id = (
            SELECT coalesce(max(entities.id), 0) FROM entities WHERE entities.kb_id = kbs.id
            AND entities.id >= CAST(kbs.id AS BIGINT) * 4294967296
            AND entities.id < (CAST(kbs.id AS BIGINT) + 1) * 4294967296
        )""",
    ),
    "0006": (
        # How often a surface had no capitals; what was learnt before counts in all spellings alike.
        "ALTER TABLE memories ADD COLUMN small FLOAT NOT NULL DEFAULT 0",
        "UPDATE memories SET small = count",
    ),
}


def upgrade(connection: Connection, version: str, words: Mapping[str, str]) -> None:
    """Take the steps that a store of schema ``version`` needs, in the caller's transaction."""
    for number, statements in STEPS.items():
        for statement in statements if number > version else ():
            connection.exec_driver_sql(statement.format_map(words))
    connection.execute(update(schema_version).values(version_num=max(STEPS)))
