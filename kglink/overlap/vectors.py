"""Vectors of texts that were encoded before, in one SQLite file for each encoder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.errors import StoreError
from kglink.files.digest import text_hash

FloatArray = npt.NDArray[np.float32]

#: How long a process waits for another one that writes.
_WAIT_SECONDS = 60
#: Rows in the order in which they come: those of one call are written, and found, together.
_SCHEMA = """
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

    def __init__(
        self, path: Path, dim: int, encode: Callable[[list[str]], npt.NDArray[np.float32]]
    ) -> None:
        self._path = path
        self._dim = dim
        self._encode = encode
        self._opened: sqlite3.Connection | None = None

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
            return dict(self._file().execute(*query))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # damaged: what it held is encoded anew
            self._opened = None
            self._path.unlink()
            return dict(self._file().execute(*query))

    def _file(self) -> sqlite3.Connection:
        """The file, made at its first use."""
        if self._opened is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = sqlite3.connect(self._path, timeout=_WAIT_SECONDS)
            file.executescript(_SCHEMA)
            self._opened = file
        return self._opened

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot keep vectors of texts in {self._path}: {error}",
                hint="The file must be writable, on a disk with room; it may also be removed.",
            ) from error
