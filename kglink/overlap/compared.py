"""What a cluster has compared so far, kept so that a run that was stopped goes on."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from kglink.files.atomic import atomic_file, sweep_drafts

Array = npt.NDArray[Any]

#: In the folder: the arrays that were found, how many parts were compared, and their digest.
KEPT_FILE = "compared.npz"
#: Least time between two saves: these seconds, and this many times what the last save took.
_EVERY_S, _EVERY_TIMES = 30.0, 10.0
#: What reading a damaged archive of arrays raises.
_UNREADABLE = (
    *(BadZipFile, EOFError, KeyError, MemoryError, NotImplementedError),
    *(OSError, RuntimeError, TypeError, ValueError, zlib.error),
)


class Compared:
    """How far a comparison has come, part by part, and what was found until then.

    ``found``: the result arrays, which the caller changes in place. ``base``: the arrays that all
    parts are compared with. ``way``: how.
    """

    def __init__(
        self, folder: Path, way: str, base: Sequence[Array], found: Sequence[Array]
    ) -> None:
        self._folder, self._found = folder, found
        self._digest = blake2b(way.encode(), digest_size=16)
        self._digest.update(digest_of_arrays(base))
        self._parts = 0
        self._next = time.monotonic() + _EVERY_S

    def resume(self, parts: Iterable[bytes]) -> int:
        """Take up what was kept of the first parts, by their digests; returns how many."""
        digest = self._digest.copy()
        try:
            with (
                (self._folder / KEPT_FILE).open("rb") as stream,
                np.load(stream, allow_pickle=False) as file,
            ):
                number, *kept = (file[name] for name in file.files if name != "digest")
                wanted, count = file["digest"].tobytes(), int(number)
        except _UNREADABLE:  # none, or damaged
            return 0
        for part in islice(parts, count):
            digest.update(part)
        shapes = [one.shape for one in kept]
        if digest.digest() != wanted or shapes != [one.shape for one in self._found]:
            return 0
        for one, values in zip(self._found, kept, strict=True):
            one[...] = values
        self._digest, self._parts = digest, count
        return self._parts

    def add(self, part: bytes) -> None:
        """One more part was compared; what was found is kept, if that was long ago."""
        self._digest.update(part)
        self._parts += 1
        began = time.monotonic()
        if began >= self._next:
            self._folder.mkdir(parents=True, exist_ok=True)
            sweep_drafts(self._folder)
            digest = np.frombuffer(self._digest.digest(), np.uint8)
            with atomic_file(self._folder / KEPT_FILE) as out:
                np.savez(out, np.array(self._parts), *self._found, digest=digest)
            self._next = time.monotonic() + max(_EVERY_S, _EVERY_TIMES * (time.monotonic() - began))

    def finish(self) -> None:
        """Nothing is left to compare: what was kept goes."""
        rmtree(self._folder, ignore_errors=True)


def digest_of_arrays(arrays: Iterable[Array]) -> bytes:
    """A digest of the numbers of some arrays."""
    digest = blake2b(digest_size=16)
    for one in arrays:
        digest.update(f"{one.dtype.str}{one.shape}".encode())
        digest.update(np.ascontiguousarray(one).data)
    return digest.digest()
