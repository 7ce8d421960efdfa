"""The pairs of one search in a temporary database: proposed once, weighed, looked up again."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kglink.errors import StoreError
from kglink.plugins import Side

BATCH = 4096
#: Memory that pairs take before they go to the disk.
CACHE_KIB = 262_144

_SCHEMA = """
CREATE TABLE pairs (
  left TEXT NOT NULL, right TEXT NOT NULL, proposers INTEGER NOT NULL,
  shares_name INTEGER, probability REAL, evidence TEXT, second REAL,
  PRIMARY KEY (left, right)
) WITHOUT ROWID
"""
_PROPOSE = """
INSERT INTO pairs (left, right, proposers) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET proposers = proposers | excluded.proposers
"""
_FIRST = """
UPDATE pairs SET probability = ?, evidence = ?, shares_name = ? WHERE left = ? AND right = ?
"""
_SECOND = "UPDATE pairs SET second = ?, evidence = ? WHERE left = ? AND right = ?"
_ONE = "SELECT left, right, proposers, shares_name, probability, evidence FROM pairs"
_READ = f"""{_ONE}
WHERE (left, right) > (?, ?) AND (? IS NULL OR probability >= ?) ORDER BY left, right LIMIT ?
"""


class ScratchPair(NamedTuple):
    """A pair and what is known of it; before it is weighed nothing but who proposed it."""

    left: str
    right: str
    proposers: int
    """Bit i: the i-th kind of evidence proposed it."""
    shares_name: bool = False
    probability: float = 0.0
    evidence: Mapping[str, float] = {}


class ScratchPairs:
    """Any number of pairs within little memory; gone when it is closed, or killed.

    A database without a name is a file that SQLite takes out of its folder when it makes it.
    """

    def __init__(self, cache_kib: int = CACHE_KIB) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(f"PRAGMA cache_size = -{cache_kib}")
        self._db.execute(_SCHEMA)
        self._weighed = False

    def close(self) -> None:
        """Forget all pairs."""
        self._db.close()

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM pairs").fetchone()[0]
        return count

    def propose(self, pairs: Iterable[tuple[str, str]], proposer: int) -> None:
        """Add pairs that the evidence of this number proposes."""
        bit = 1 << proposer
        with self._writing():
            self._db.executemany(_PROPOSE, ((left, right, bit) for left, right in pairs))

    def put(self, pairs: Iterable[ScratchPair], *, second: bool = False) -> None:
        """Keep what was found of some pairs.

        What a ``second`` pass finds is not seen by others before `take_second`.
        """
        statement = _SECOND if second else _FIRST
        with self._writing():
            self._db.executemany(statement, (_row(pair, second=second) for pair in pairs))

    def take_second(self) -> None:
        """Replace the first pass's probabilities by those of the second."""
        with self._writing():
            self._db.execute("UPDATE pairs SET probability = second WHERE second IS NOT NULL")

    def finish_pass(self) -> None:
        """From now on probabilities can be asked for."""
        with self._writing():
            self._db.execute("CREATE INDEX IF NOT EXISTS by_right ON pairs (right)")
        self._weighed = True

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction for all rows; a failure is one clear error."""
        try:
            self._db.execute("BEGIN")
            yield
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"cannot keep the pairs of this search in a temporary file: {error}",
                hint="Make room where temporary files lie, or set TMPDIR to another folder.",
            ) from error

    def batches(self, least: float | None = None) -> Iterator[list[ScratchPair]]:
        """All pairs, or those of at least this probability, in the order of their keys."""
        after = ("", "")
        while rows := self._db.execute(_READ, (*after, least, least, BATCH)).fetchall():
            yield [_pair(row) for row in rows]
            after = rows[-1][:2]

    def get(self, left: str, right: str) -> ScratchPair | None:
        """One pair."""
        query = f"{_ONE} WHERE left = ? AND right = ?"
        row = self._db.execute(query, (left, right)).fetchone()
        return _pair(row) if row else None

    def probability(self, left: str, right: str) -> float | None:
        """The probability of a pair, once the first pass is done."""
        if not self._weighed:
            return None
        query = "SELECT probability FROM pairs WHERE left = ? AND right = ?"
        row = self._db.execute(query, (left, right)).fetchone()
        return row[0] if row else None

    def partners(self, side: Side, key: str) -> dict[str, float]:
        """The other sides of an entity's pairs, once the first pass is done."""
        if not self._weighed:
            return {}
        mine, other = ("left", "right") if side == "left" else ("right", "left")
        # A proposed key that is no entity is never weighed.
        query = (
            f"SELECT {other}, probability FROM pairs "  # noqa: S608 - our words
            f"WHERE {mine} = ? AND probability IS NOT NULL"
        )
        return dict(self._db.execute(query, (key,)).fetchall())


def _pair(row: tuple[Any, ...]) -> ScratchPair:
    left, right, proposers, shares_name, probability, evidence = row
    values = json.loads(evidence) if evidence else {}
    return ScratchPair(left, right, proposers, bool(shares_name), probability or 0.0, values)


def _row(pair: ScratchPair, *, second: bool) -> tuple[object, ...]:
    found = (pair.probability, json.dumps(dict(pair.evidence)))
    return (*found, *pair[:2]) if second else (*found, pair.shares_name, *pair[:2])
