"""The pairs of one search, and vectors of texts, kept in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kglink.arrays import FloatArray
from kglink.errors import StoreError
from kglink.files.digest import text_hash
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
# Both take the fields of a pair by their places.
_FIRST = """
UPDATE pairs SET shares_name = ?4, probability = ?5, evidence = ?6 WHERE left = ?1 AND right = ?2
"""
_SECOND = "UPDATE pairs SET second = ?5, evidence = ?6 WHERE left = ?1 AND right = ?2"
_READ = """
SELECT left, right, proposers, shares_name, probability, evidence FROM pairs
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
        rows = ((*pair[:5], json.dumps(dict(pair.evidence))) for pair in pairs)
        with self._writing():
            self._db.executemany(_SECOND if second else _FIRST, rows)

    def take_second(self) -> None:
        """Replace the first pass's probabilities by those of the second."""
        with self._writing():
            self._db.execute("UPDATE pairs SET probability = second WHERE second IS NOT NULL")

    def finish_pass(self) -> None:
        """From now on probabilities can be asked for."""
        with self._writing():
            self._db.execute("CREATE INDEX IF NOT EXISTS by_right ON pairs (right)")
        self._weighed = True

    @contextmanager
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
            yield [
                ScratchPair(
                    *(left, right, proposers, bool(shares_name), probability or 0.0),
                    json.loads(evidence) if evidence else {},
                )
                for left, right, proposers, shares_name, probability, evidence in rows
            ]
            after = rows[-1][:2]

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


#: How long a process waits for another one that writes.
_WAIT_SECONDS = 60
#: Rows in the order in which they come: those of one call are written, and found, together.
_VECTORS = """
CREATE TABLE IF NOT EXISTS vectors (hash INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_hash ON vectors (hash);
"""
_FIND = """
SELECT hash, vector FROM vectors
WHERE hash IN (SELECT value FROM json_each(?)) AND length(vector) = ?
"""


class VectorCache:
    """Encodes each text once; vectors have length one and 16 bits, whether new or kept.

    Several processes may use the file at once, and each call's vectors are there whole or not at
    all, whatever is killed when. A damaged file is begun anew.
    """

    def __init__(self, path: Path, dim: int, encode: Callable[[list[str]], FloatArray]) -> None:
        self._path = path
        self._dim = dim
        self._encode = encode

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text."""
        unsigned = (text_hash(text) for text in texts)
        hashes = [one - (1 << 64) if one >= 1 << 63 else one for one in unsigned]  # as SQLite's
        wanted = dict(zip(hashes, texts, strict=True))
        with self._failures_told():
            known = self._known(list(wanted))
        missing = {digest: text for digest, text in wanted.items() if digest not in known}
        if missing:
            fresh = self._encode(list(missing.values())).astype(np.float16)
            rows = [(digest, row.tobytes()) for digest, row in zip(missing, fresh, strict=True)]
            known.update(rows)
            with self._failures_told(), self._file() as file:
                file.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
        kept = np.frombuffer(b"".join(known[digest] for digest in hashes), np.float16)
        found = kept.reshape(len(texts), self._dim).astype(np.float32)
        # 16 bits leave a length that is off by up to a thousandth.
        norms: FloatArray = np.linalg.norm(found, axis=1, keepdims=True)
        norms[norms == 0] = 1
        return found / norms

    def _known(self, hashes: Sequence[int]) -> dict[int, bytes]:
        query = _FIND, (json.dumps(hashes), 2 * self._dim)
        try:
            with self._file() as file:
                return dict(file.execute(*query))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # damaged: what it held is encoded anew
            self._path.unlink()
            with self._file() as file:
                return dict(file.execute(*query))

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """The file, made at its first use; what is written is kept if nothing fails."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=_WAIT_SECONDS)) as file, file:
            file.executescript(_VECTORS)
            yield file

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot keep vectors of texts in {self._path}: {error}",
                hint="The file must be writable, on a disk with room; it may also be removed.",
            ) from error
