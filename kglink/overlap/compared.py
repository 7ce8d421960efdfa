"""What a cluster has compared so far, kept so that a run that was stopped goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import atomic_folder
from kglink.files.manifest import FileInfo, ManifestPart, check_files, file_info, read_manifest
from kglink.files.tables import map_column

Array = npt.NDArray[Any]

_FORMAT = 1
_INFO_FILE = "compared.json"
#: It is kept this number of seconds after the last time, and this number of times what that took.
_EVERY_S, _EVERY_TIMES = 30.0, 10.0


class _Info(ManifestPart):
    """How many parts were compared, and a digest of all that was compared."""

    format: int = _FORMAT
    parts: int
    digest: str
    files: dict[str, FileInfo]


class Compared:
    """How far a comparison has come, part by part, and what was found until then.

    ``found`` are arrays that those who compare change in their places. ``base`` are the arrays
    with which all parts are compared, and ``way`` how.
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
        try:
            info = read_manifest(_Info, self._folder / _INFO_FILE, newest=_FORMAT)
            digest = self._digest.copy()
            for part in islice(parts, info.parts):
                digest.update(part)
            if digest.hexdigest() != info.digest:
                return 0
            check_files(self._folder, info.files)
            kept = [
                map_column(self._folder / _name(at), one.dtype, one.shape)
                for at, one in enumerate(self._found)
            ]
        except (DamagedFileError, NewerFileError, ValueError):
            return 0
        for one, values in zip(self._found, kept, strict=True):
            one[...] = values
        self._digest, self._parts = digest, info.parts
        return info.parts

    def add(self, part: bytes) -> None:
        """One more part was compared; what was found is kept, if that was long ago."""
        self._digest.update(part)
        self._parts += 1
        began = time.monotonic()
        if began >= self._next:
            self._keep()
            self._next = time.monotonic() + max(_EVERY_S, _EVERY_TIMES * (time.monotonic() - began))

    def _keep(self) -> None:
        with atomic_folder(self._folder) as draft:
            for at, one in enumerate(self._found):
                np.save(draft / _name(at), one)
            files = {path.name: file_info(path) for path in sorted(draft.iterdir())}
            info = _Info(parts=self._parts, digest=self._digest.hexdigest(), files=files)
            (draft / _INFO_FILE).write_text(info.model_dump_json(indent=1), encoding="utf-8")

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


def _name(at: int) -> str:
    return f"{at}.npy"
