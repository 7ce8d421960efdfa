"""The token matrices of a space: the vectors of all tokens of each entity, in bf16 on disk.

``tokens.bf16`` holds the vectors end to end, ``token_starts.npy`` where each entity's begin,
``token_norms.npy`` the length of the shortest and of the longest vector. They are written and not
mapped: on a full disk a write to mapped memory would kill the process. kill -9 leaves what was
added before; the next writer goes on from there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kglink.arrays import BitArray, IntArray, widened
from kglink.errors import DamagedSpaceError, SpaceError
from kglink.files.atomic import write_atomically
from kglink.files.tables import map_column, map_offsets
from kglink.models.runtime import TokenMatrices
from kglink.space.manifest import space_errors
from kglink.space.numbering import runs_at

BITS_FILE = "tokens.bf16"
STARTS_FILE = "token_starts.npy"
NORMS_FILE = "token_norms.npy"
_LENGTHS_FILE = "tokens.lengths"
_STATE_FILE = "tokens.state"
_BYTES, _LENGTH_BYTES = 2, 8


class _State(NamedTuple):
    """What is safely on disk."""

    entities: int = 0
    tokens: int = 0
    least_norm: float = float("inf")
    largest_norm: float = 0.0


class TokenRowsWriter:
    """Writes the token matrices of entities in their order, a chunk at a time."""

    def __init__(self, folder: Path, dim: int) -> None:
        self._folder, self._dim = folder, dim
        self._state = self._found()
        self._bits = self._open(BITS_FILE, self._state.tokens * dim * _BYTES)
        try:
            self._lengths = self._open(_LENGTHS_FILE, self._state.entities * _LENGTH_BYTES)
        except SpaceError:
            self._bits.close()
            raise

    @property
    def done(self) -> int:
        """How many entities are written; the next chunk begins with this one."""
        return self._state.entities

    def add(self, matrices: TokenMatrices) -> None:
        """Write the matrices of the next entities; once this returns, kill -9 loses none."""
        lengths = np.diff(matrices.offsets)
        norms = np.linalg.norm(widened(matrices.bits), axis=1)
        state = _State(
            self._state.entities + len(lengths),
            self._state.tokens + int(lengths.sum()),
            float(min(self._state.least_norm, norms.min(initial=np.inf))),
            float(max(self._state.largest_norm, norms.max(initial=0.0))),
        )
        self._write(self._bits, self._state.tokens * self._dim * _BYTES, matrices.bits)
        self._write(self._lengths, self._state.entities * _LENGTH_BYTES, lengths)
        with self._guarded():
            write_atomically(self._folder / _STATE_FILE, json.dumps(list(state)))
        self._state = state

    def finish(self) -> None:
        """Write what tells where each entity begins; readers can open the folder from now on."""
        self.close()
        lengths = np.fromfile(self._folder / _LENGTHS_FILE, np.int64, self._state.entities)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        least = min(self._state.least_norm, self._state.largest_norm)
        norms = np.array([least, self._state.largest_norm], np.float32)
        with self._guarded():
            np.save(self._folder / STARTS_FILE, starts)
            np.save(self._folder / NORMS_FILE, norms)

    def close(self) -> None:
        """Close the files; a writer that has not finished goes on with them later."""
        self._bits.close()
        self._lengths.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _found(self) -> _State:
        """What an earlier writer has left; nothing, where its files are shorter than it says."""
        path = self._folder / _STATE_FILE
        if not path.is_file():
            return _State()
        state = _State(*json.loads(path.read_text(encoding="utf-8")))
        wanted = {
            self._folder / BITS_FILE: state.tokens * self._dim * _BYTES,
            self._folder / _LENGTHS_FILE: state.entities * _LENGTH_BYTES,
        }
        whole = all(one.is_file() and one.stat().st_size >= size for one, size in wanted.items())
        return state if whole else _State()

    def _open(self, name: str, size: int) -> BinaryIO:
        """A file of which the first ``size`` bytes stand."""
        path = self._folder / name
        with self._guarded():
            stream = path.open("r+b" if path.exists() else "w+b", buffering=0)
            os.truncate(stream.fileno(), size)
            stream.seek(size)
        return stream

    def _write(self, stream: BinaryIO, start: int, values: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(values).data.cast("B") if values.size else memoryview(b"")
        with self._guarded():
            stream.seek(start)  # an earlier attempt may have failed half way
            at = 0
            while at < len(data):  # an unbuffered write may take less than it is given
                at += stream.write(data[at:])
            os.fsync(stream.fileno())

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn write failures into SpaceError; rows added before stay."""
        try:
            yield
        except OSError as error:
            raise SpaceError(
                f"cannot write the token matrices in {self._folder}: {error.strerror or error}",
                hint="Make room and run it again; it goes on where it stopped.",
            ) from error


class TokenRows:
    """The token matrices of all entities of a KB, memory-mapped."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim
        path = folder / BITS_FILE
        size = path.stat().st_size if path.is_file() else -1
        tokens, rest = divmod(size, dim * _BYTES)
        if rest or size < 0:
            raise DamagedSpaceError(f"{path}: not vectors of {dim} numbers")
        with space_errors():
            self.starts = map_offsets(folder / STARTS_FILE, tokens)
            norms = map_column(folder / NORMS_FILE, np.float32, (2,))
        self.norms = (float(norms[0]), float(norms[1]))
        """The length of the shortest and of the longest vector."""
        self._bits: BitArray = (
            np.memmap(path, np.int16, "r", shape=(tokens, dim)).view(np.ndarray)
            if tokens
            else np.empty((0, dim), np.int16)
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def tokens(self) -> int:
        """How many vectors there are in all."""
        return len(self._bits)

    def take(self, rows: IntArray) -> TokenMatrices:
        """The matrices of some entities, in this order."""
        return texts_at(TokenMatrices(self._bits, self.starts), rows)

    def vectors(self, places: IntArray) -> BitArray:
        """Some vectors, by their places among all."""
        return self._bits[places]


def are_whole(folder: Path, dim: int, entities: int) -> bool:
    """Whether the token matrices of so many entities are there, with all that readers need."""
    if not (folder / NORMS_FILE).is_file():
        return False
    try:
        return len(TokenRows(folder, dim)) == entities
    except DamagedSpaceError:  # Stopped while it was finishing: the writer does that again.
        return False


def filled_up(known: TokenRows, found: IntArray, fresh: TokenMatrices) -> TokenMatrices:
    """For each entity its matrix in ``known``, or where ``found`` is -1 the next one of ``fresh``.

    It is how a chunk is made of which an earlier segment has a part.
    """
    old, new = found >= 0, found < 0
    reused = known.take(found[old])
    lengths = np.empty(len(found), np.int64)
    lengths[old], lengths[new] = np.diff(reused.offsets), np.diff(fresh.offsets)
    is_old = np.repeat(old, lengths)
    bits = np.empty((int(lengths.sum()), fresh.bits.shape[1]), np.int16)
    bits[is_old], bits[~is_old] = reused.bits, fresh.bits
    return TokenMatrices(bits, np.concatenate([[0], np.cumsum(lengths)]))


def texts_at(matrices: TokenMatrices, rows: IntArray) -> TokenMatrices:
    """The matrices of some texts, in this order."""
    starts = matrices.offsets[rows]
    lengths = matrices.offsets[rows + 1] - starts
    places, _ = runs_at(starts, lengths)
    return TokenMatrices(matrices.bits[places], np.concatenate([[0], np.cumsum(lengths)]))


def texts_between(matrices: TokenMatrices, first: int, stop: int) -> TokenMatrices:
    """The matrices of a range of texts."""
    start = matrices.offsets[first]
    bits = matrices.bits[start : matrices.offsets[stop]]
    return TokenMatrices(bits, matrices.offsets[first : stop + 1] - start)
