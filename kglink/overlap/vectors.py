"""Vectors of texts that were encoded before, by the hash of the text and the encoder.

A folder for each encoder holds *parts*: a sorted array of hashes and the vectors in that order,
memory-mapped. A part never changes: the vectors are renamed into place first and the hashes
last, so that a part is there whole or not at all, whatever is killed when, and several processes
may add parts at once. Parts of about one size are merged, so that there are few of them; whoever
reads a part that was merged away keeps it mapped.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]
HashArray = npt.NDArray[np.uint64]

#: Vectors that are kept in memory before they become a part.
PART_ROWS = 16_384
#: From this number of parts on the small ones are merged.
MOST_PARTS = 8
_OLD_SECONDS = 86_400
_COPY_ROWS = 65_536
_HASHES, _VECTORS, _DRAFT = ".hashes.npy", ".vectors.npy", ".draft-"

Encode = Callable[[list[str]], FloatArray]


class _Part(NamedTuple):
    name: str
    hashes: HashArray
    vectors: HalfArray


class VectorCache:
    """Encodes each text once; vectors have length one and 16 bits, whether new or kept."""

    def __init__(self, folder: Path, dim: int, encode: Encode) -> None:
        self._folder = folder
        self._dim = dim
        self._encode = encode
        self._parts: list[_Part] | None = None
        self._new: dict[int, HalfArray] = {}
        self.encoded = 0
        """How many texts were encoded, not found, so far."""

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """The unit vector of each text."""
        hashes = np.fromiter((text_hash(text) for text in texts), np.uint64, len(texts))
        found = np.zeros((len(texts), self._dim), np.float16)
        missing = self._fill(found, hashes)
        if len(missing):
            first: dict[int, int] = {}
            for at in missing.tolist():
                first.setdefault(int(hashes[at]), at)
            fresh = self._encode([texts[at] for at in first.values()]).astype(np.float16)
            self._new.update(zip(first, fresh, strict=True))
            self.encoded += len(first)
            for at in missing:
                found[at] = self._new[int(hashes[at])]
            if len(self._new) >= PART_ROWS:
                self.flush()
        vectors = found.astype(np.float32)
        # 16 bits leave a length that is off by up to a thousandth.
        norms: FloatArray = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        norms[norms == 0] = 1
        return vectors / norms

    def flush(self) -> None:
        """Write what was encoded since the last time."""
        if not self._new:
            return
        hashes = np.array(sorted(self._new), np.uint64)
        vectors = np.stack([self._new[int(digest)] for digest in hashes])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known().append(_write_part(self._folder, hashes, [vectors], self._dim))
        self._new.clear()
        self._merge()

    def _fill(self, found: HalfArray, hashes: HashArray) -> npt.NDArray[np.int64]:
        """Put in what is known; returns the rows that are not."""
        missing = np.arange(len(hashes))
        for part in self._known():
            rows, there = _lookup(part.hashes, hashes[missing])
            found[missing[there]] = part.vectors[rows[there]]
            missing = missing[~there]
        if self._new:
            new = np.array([int(hashes[at]) in self._new for at in missing], bool)
            for at in missing[new]:
                found[at] = self._new[int(hashes[at])]
            missing = missing[~new]
        return missing

    def _known(self) -> list[_Part]:
        if self._parts is None:
            self._parts = _read_parts(self._folder, self._dim)
        return self._parts

    def _merge(self) -> None:
        """Make one part of many; another process that does so already is left to it."""
        if len(self._known()) < MOST_PARTS:
            return
        with _lock(self._folder) as held:
            if not held:
                return
            _remove_old_drafts(self._folder)
            chosen = _alike(_read_parts(self._folder, self._dim))
            if len(chosen) > 1:
                _write_part(self._folder, *_merged(chosen), self._dim)
                for part in chosen:
                    _remove_part(self._folder, part.name)
        self._parts = None


def _lookup(
    known: HashArray, wanted: HashArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return rows, known[rows] == wanted


def _read_parts(folder: Path, dim: int) -> list[_Part]:
    """All parts that are whole, the largest first."""
    paths = sorted(folder.glob(f"*{_HASHES}")) if folder.is_dir() else []
    parts = [part for path in paths if (part := _read_part(folder, path, dim))]
    return sorted(parts, key=lambda part: -len(part.hashes))


def _read_part(folder: Path, path: Path, dim: int) -> _Part | None:
    """A part; None for one that was merged away meanwhile, or that a full disk cut off."""
    name = path.name.removesuffix(_HASHES)
    try:
        vectors = np.load(folder / f"{name}{_VECTORS}", mmap_mode="r", allow_pickle=False)
        hashes = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, EOFError, ValueError):
        return None
    whole = len(hashes) > 0 and vectors.shape == (len(hashes), dim)
    return _Part(name, hashes, vectors) if whole else None


def _write_part(folder: Path, hashes: HashArray, vectors: Iterable[HalfArray], dim: int) -> _Part:
    """Write a part from blocks of vectors that follow its hashes."""
    name = uuid.uuid4().hex
    draft = folder / f"{_DRAFT}{name}.npy"
    rows = np.lib.format.open_memmap(draft, "w+", np.float16, (len(hashes), dim))
    start = 0
    for block in vectors:
        rows[start : start + len(block)] = block
        start += len(block)
    rows.flush()
    draft.rename(folder / f"{name}{_VECTORS}")
    np.save(draft, hashes, allow_pickle=False)
    draft.rename(folder / f"{name}{_HASHES}")
    return _Part(name, hashes, rows)


def _alike(parts: Sequence[_Part]) -> list[_Part]:
    """The small parts that are worth merging: each at most four times all smaller ones."""
    chosen: list[_Part] = []
    rows = 0
    for part in sorted(parts, key=lambda part: len(part.hashes)):
        if chosen and len(part.hashes) > 4 * rows:
            break
        chosen.append(part)
        rows += len(part.hashes)
    return chosen


def _merged(parts: Sequence[_Part]) -> tuple[HashArray, Iterator[HalfArray]]:
    """The hashes of all parts in order, and their vectors in blocks."""
    all_hashes = np.concatenate([part.hashes for part in parts])
    hashes, firsts = np.unique(all_hashes, return_index=True)
    starts = np.cumsum([0, *(len(part.hashes) for part in parts)])

    def blocks() -> Iterator[HalfArray]:
        for start in range(0, len(firsts), _COPY_ROWS):
            rows = firsts[start : start + _COPY_ROWS]
            owners = np.searchsorted(starts, rows, side="right") - 1
            block = np.empty((len(rows), parts[0].vectors.shape[1]), np.float16)
            for number, part in enumerate(parts):
                mine = owners == number
                block[mine] = part.vectors[rows[mine] - starts[number]]
            yield block

    return hashes, blocks()


def _remove_part(folder: Path, name: str) -> None:
    for suffix in (_HASHES, _VECTORS):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _remove_old_drafts(folder: Path) -> None:
    """What killed processes left; a draft of a living one is young."""
    for path in folder.glob(f"{_DRAFT}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _OLD_SECONDS:
                path.unlink()


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Whether this process may merge; the system frees the lock of one that dies."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
