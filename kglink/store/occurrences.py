"""What mentions say, place by place, in a temporary database: any number within little memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from kglink.records import EntityId

_CACHE_KIB = 65_536
# ``placed``: each place once, for the first source that has it; none is no mention where a source
# marks one. Entity "-" without a KB is `NO_MENTION`.
_SCHEMA = """
CREATE TABLE said (
  text INTEGER, start INTEGER, end INTEGER, kb TEXT, entity TEXT, source INTEGER,
  key TEXT NOT NULL, folded TEXT NOT NULL, times REAL NOT NULL, surface TEXT NOT NULL,
  small REAL NOT NULL,
  PRIMARY KEY (text, start, end, kb, entity, source)
) WITHOUT ROWID;
CREATE VIEW marked AS SELECT * FROM said WHERE kb <> '' OR entity <> '-';
CREATE VIEW placed AS
  SELECT text, start, end, kb, entity, min(source) AS source, key, folded, times, surface,
    small
  FROM said WHERE kb <> '' OR entity <> '-' OR NOT EXISTS (
    SELECT 1 FROM marked WHERE marked.text = said.text
    AND marked.start < said.end AND said.start < marked.end
  ) GROUP BY text, start, end, kb, entity;
"""
_ADD = "INSERT OR IGNORE INTO said VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KNOWN = """
SELECT key, folded, kb, entity, sum(times), min(surface), sum(small) FROM placed
WHERE kb <> '' OR entity <> '-'
GROUP BY key, folded, kb, entity ORDER BY key, folded, kb, entity
"""
_SUMMED = """
SELECT source, key, folded, kb, entity, sum(times), min(surface), sum(small) FROM placed
GROUP BY key, folded, kb, entity, source ORDER BY key, folded, kb, entity, source
"""
# For each source: how many mentions have words that stand in several of its texts, how often these
# words mean the same in another of the texts, and how often a mention of any words does.
_AGREEING = """
WITH one AS MATERIALIZED (
  SELECT DISTINCT source, kb, key, text, entity FROM marked WHERE kb <> '' AND entity <> ''
), words AS MATERIALIZED (
  SELECT source, kb, key, count(DISTINCT text) AS texts FROM one
  GROUP BY source, kb, key HAVING count(DISTINCT text) > 1
), meant AS MATERIALIZED (
  SELECT source, kb, key, entity, count(*) AS times FROM one JOIN words USING (source, kb, key)
  GROUP BY source, kb, key, entity
), totals AS MATERIALIZED (
  SELECT source, kb, entity, sum(times) AS times FROM meant GROUP BY source, kb, entity
), asked AS MATERIALIZED (
  SELECT source, kb, sum(texts) AS mentions FROM words GROUP BY source, kb
)
SELECT source, count(*), sum(agreeing), sum(by_chance), count(DISTINCT kb || char(0) || key), (
  SELECT count(DISTINCT kb || char(0) || key || char(0) || text) FROM one
  WHERE one.source = mention.source
) FROM (
  SELECT source, kb, key, max((meant.times - 1.0) / (texts - 1)) AS agreeing,
    max(min(1.0, 1.0 * totals.times / mentions)) AS by_chance
  FROM one JOIN words USING (source, kb, key) JOIN meant USING (source, kb, key, entity)
  JOIN totals USING (source, kb, entity) JOIN asked USING (source, kb)
  GROUP BY source, kb, key, text
) AS mention GROUP BY source
"""
_SURFACES = "SELECT source, count(DISTINCT folded) FROM marked GROUP BY source"


class Meaning(NamedTuple):
    """A surface meant an entity, NIL or no mention at all, so often.

    Where documents are annotated with several KBs, a mention that means something in one of them
    alone means nothing in the others: an entity of a KB with an empty key. ``key`` is one for all
    inflections of ``folded``; ``surface`` is one of its spellings. A mention with several right
    answers in one KB counts a part for each. ``small``: how many of the times it had no capital but
    that which begins a sentence (or follows a point, as in "Dr. Heron"). ``source`` is empty where
    it was summed over all.
    """

    key: str
    folded: str
    entity: EntityId
    times: float
    surface: str
    small: float
    source: str = ""


class Agreement(NamedTuple):
    """How well the mentions of a source tell what the same words mean in its other texts."""

    mentions: int
    """Those whose words are marked in several texts."""
    agreeing: float
    """How many of these another mention of the same words agrees with."""
    by_chance: float
    """How many any other mention would agree with."""
    words: int
    """How many different words they are."""
    all_mentions: int
    """Those whose words are marked in one text alone as well."""

    @property
    def share(self) -> float:
        """1 where words always mean the same, 0 where they tell nothing."""
        return (self.agreeing - self.by_chance) / (self.mentions - self.by_chance or 1)


class Occurrences:
    """What was said of places in texts, each place once; gone when it is closed, or killed.

    A database without a name is a file that SQLite takes out of its folder when it makes it.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._db.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, source: int, text: int, place: tuple[int, int], said: Iterable[Meaning]) -> None:
        """Note what a source, by its number, says of a place in a text, by the text's hash."""
        number = text - 2**63  # as SQLite has whole numbers
        self._db.executemany(
            _ADD,
            (
                (
                    *(number, *place, *one.entity, source),
                    *(one.key, one.folded, one.times, one.surface, one.small),
                )
                for one in said
            ),
        )

    def known(self) -> Iterator[Meaning]:
        """How often each surface meant each entity, NIL included, in order."""
        for key, folded, kb, entity, *counted in self._db.execute(_KNOWN):
            yield Meaning(key, folded, EntityId(kb, entity), *counted)

    def summed(self) -> Iterator[tuple[int, Meaning]]:
        """The same and what was no mention, for each source: what is in no source before it."""
        for source, key, folded, kb, entity, *counted in self._db.execute(_SUMMED):
            yield source, Meaning(key, folded, EntityId(kb, entity), *counted)

    def agreements(self) -> dict[int, Agreement]:
        """How far each source agrees with itself, of those with words in several texts."""
        return {source: Agreement(*counts) for source, *counts in self._db.execute(_AGREEING)}

    def leave_out(self, source: int) -> None:
        """Forget what a source said."""
        self._db.execute("DELETE FROM said WHERE source = ?", (source,))

    def surfaces(self) -> dict[int, int]:
        """How many surfaces each source tells."""
        return dict(self._db.execute(_SURFACES))
