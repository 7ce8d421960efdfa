"""What mentions say, place by place, in a temporary database: any number within little memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from kglink.files.digest import text_hash
from kglink.records import EntityId

_CACHE_KIB = 65_536
_SCHEMA = """
CREATE TABLE said (
  text INTEGER, start INTEGER, end INTEGER, kb TEXT, entity TEXT,
  key TEXT NOT NULL, folded TEXT NOT NULL, times REAL NOT NULL, surface TEXT NOT NULL,
  PRIMARY KEY (text, start, end, kb, entity)
) WITHOUT ROWID
"""
_ADD = "INSERT OR IGNORE INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SUMMED = """
SELECT key, folded, kb, entity, sum(times), min(surface) FROM said
GROUP BY key, folded, kb, entity ORDER BY key, folded, kb, entity
"""


class Meaning(NamedTuple):
    """A surface meant an entity, NIL or no mention at all, so often.

    Where documents are annotated with several KBs, a mention that means something in one of them
    alone means nothing in the others: an entity of a KB with an empty key. ``key`` is one for all
    inflections of ``folded``; ``surface`` is one of its spellings. A mention with several right
    answers in one KB counts a part for each.
    """

    key: str
    folded: str
    entity: EntityId
    times: float
    surface: str


class Occurrences:
    """What was said of places in texts, each place once; gone when it is closed, or killed.

    A database without a name is a file that SQLite takes out of its folder when it makes it.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._db.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._db.close()

    def add(self, text: str, place: tuple[int, int], said: Iterable[Meaning]) -> None:
        """Note what was said of a place, once for each entity."""
        number = text_hash(text) - 2**63  # as SQLite has whole numbers
        self._db.executemany(
            _ADD,
            (
                (number, *place, *one.entity, one.key, one.folded, one.times, one.surface)
                for one in said
            ),
        )

    def summed(self) -> Iterator[Meaning]:
        """How often each surface meant each entity, in order."""
        for key, folded, kb, entity, times, surface in self._db.execute(_SUMMED):
            yield Meaning(key, folded, EntityId(kb, entity), times, surface)
