"""The vectors of the surfaces that memory knows, to find what was remembered in like words.

They lie in a folder beside the versions of a space, and are made where they are missing: after
`learn` the new surfaces alone are encoded. Nothing is lost with the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kglink.arrays import FloatArray
from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import atomic_folder
from kglink.files.manifest import FileInfo, ManifestPart, check_files, files_in, read_manifest
from kglink.files.tables import StringTable, StringWriter, map_column
from kglink.records import EntityId

HalfArray = npt.NDArray[np.float16]
#: Gives a vector for each text.
Encode = Callable[[Sequence[str]], FloatArray]
#: Gives for keys of surfaces the entities that these meant.
Meant = Callable[[Collection[str]], Mapping[str, Collection[EntityId]]]

#: How many surfaces have vectors: those that were seen most often.
MOST_SURFACES = 50_000
#: Words that are less alike than this say nothing of each other.
LEAST_ALIKE = 0.6
#: How many like surfaces are asked what they meant.
_NEAREST = 8
#: At most this number of surfaces, from all places alike, shows whether like words mean the same.
_JUDGED_BY = 500
#: The share of names of diseases whose nearest one means the same. Where it is smaller, as it is
#: for places and people ("Georgia", "Georgia Tech"), like words tell less.
_OF_DISEASES = 0.6
#: Weight of that share as a prior, in surfaces, so that few surfaces say little.
_FEW = 10
_INFO_FILE = "memory.json"
_VECTORS_FILE = "vectors.npy"
_FORMAT = 2
_TOGETHER = 256
_ROWS_TOGETHER = 4096


class RememberedSurface(NamedTuple):
    """A surface that memory knows."""

    key: str
    """One for all inflections of the words."""
    folded: str
    surface: str


class LikeSurface(NamedTuple):
    """A remembered surface of other words than those that were asked for."""

    remembered: RememberedSurface
    cosine: float


class _Info(ManifestPart):
    """What the folder holds, and of what it was made."""

    format: int = _FORMAT
    state: str
    """Of the memory."""
    model: str
    """Its fingerprint."""
    trust: float | None = Field(default=None, ge=0, le=1)
    """How far like words are trusted; None: nobody has looked."""
    files: dict[str, FileInfo]


class RememberedVectors:
    """Surfaces that memory knows, with a vector of length one for each.

    ``trust``: from 0 to 1 how far it is believed that like words mean the same.
    """

    def __init__(
        self, surfaces: Sequence[RememberedSurface], vectors: HalfArray, trust: float = 1.0
    ) -> None:
        self._surfaces = surfaces
        self._vectors = vectors
        self.trust = trust

    def like(self, keys: Sequence[str], vectors: FloatArray) -> list[list[LikeSurface]]:
        """For each surface, by its key and its vector, the nearest ones of other words."""
        found: list[list[LikeSurface]] = []
        for first in range(0, len(keys), _TOGETHER):
            queries = of_length_one(vectors[first : first + _TOGETHER])
            own = keys[first : first + _TOGETHER]
            for key, query, about in zip(own, queries, self._cosines(queries), strict=True):
                near = np.flatnonzero(about >= LEAST_ALIKE)
                best = near[np.argsort(-about[near], kind="stable")]
                others = (at for at in best.tolist() if self._surfaces[at].key != key)
                rows = list(islice(others, _NEAREST))
                # Once more, alone: the last digits of a product of matrices depend on its shape.
                cosines = (self._vectors[rows].astype(np.float32) @ query).tolist()
                found.append(
                    [
                        LikeSurface(self._surfaces[row], cosine)
                        for row, cosine in zip(rows, cosines, strict=True)
                    ]
                )
        return found

    def judged(self, meant: Meant) -> Self:
        """The same, trusted as far as the nearest words of its own surfaces mean the same."""
        count = len(self._surfaces)
        rows = np.unique(np.linspace(0, count - 1, min(count, _JUDGED_BY)).astype(np.int64))
        keys = [self._surfaces[row].key for row in rows.tolist()]
        like = self.like(keys, self._vectors[rows].astype(np.float32))
        pairs = [
            (one, near[0].remembered.key) for one, near in zip(keys, like, strict=True) if near
        ]
        known = meant({key for pair in pairs for key in pair})
        both = [(set(known.get(one, ())), set(known.get(other, ()))) for one, other in pairs]
        # What one KB has and what another has is not the same, and says nothing.
        same = [
            bool(one & other)
            for one, other in both
            if {entity.kb for entity in one} & {entity.kb for entity in other}
        ]
        share = (sum(same) + _FEW * _OF_DISEASES) / (len(same) + _FEW)
        return type(self)(self._surfaces, self._vectors, min(1.0, share / _OF_DISEASES))

    def _cosines(self, queries: FloatArray) -> FloatArray:
        cosines = np.empty((len(queries), len(self._vectors)), np.float32)
        for first in range(0, len(self._vectors), _ROWS_TOGETHER):
            rows = slice(first, first + _ROWS_TOGETHER)
            np.matmul(queries, self._vectors[rows].astype(np.float32).T, out=cosines[:, rows])
        return cosines

    def with_surfaces(self, wanted: Sequence[RememberedSurface], encode: Encode) -> Self:
        """The same for other surfaces: those that are new are encoded."""
        known = {one.surface: at for at, one in enumerate(self._surfaces)}
        places = np.array([known.get(one.surface, -1) for one in wanted], dtype=np.int64)
        vectors = np.empty((len(wanted), self._vectors.shape[1]), np.float16)
        vectors[places >= 0] = self._vectors[places[places >= 0]]
        new = np.flatnonzero(places < 0)
        if len(new):
            vectors[new] = of_length_one(encode([wanted[at].surface for at in new.tolist()]))
        return type(self)(wanted, vectors)


def remembered_vectors(
    folder: Path,
    state: str,
    model: str,
    dim: int,
    surfaces: Callable[[int], Sequence[RememberedSurface]],
    encode: Encode,
    meant: Meant,
) -> RememberedVectors:
    """The vectors of a memory in a state, by a model: as they were kept, or made and kept."""
    kept = _read(folder, model, dim)
    if kept is not None and kept[0] == state:
        return kept[1]
    before = kept[1] if kept else RememberedVectors([], np.empty((0, dim), np.float16))
    made = before.with_surfaces(surfaces(MOST_SURFACES), encode).judged(meant)
    # Where nothing can be written they are made again.
    with contextlib.suppress(OSError), atomic_folder(folder) as draft:
        for at, name in enumerate(RememberedSurface._fields):
            with StringWriter(draft / name) as out:
                for one in made._surfaces:
                    out.add(one[at])
        np.save(draft / _VECTORS_FILE, made._vectors)
        info = _Info(state=state, model=model, trust=made.trust, files=files_in(draft))
        (draft / _INFO_FILE).write_text(info.model_dump_json(indent=1), encoding="utf-8")
    return made


def _read(folder: Path, model: str, dim: int) -> tuple[str, RememberedVectors] | None:
    """What was kept, and of what state; None where that is damaged, or of another model.

    The state is empty where the vectors are kept and their trust is not.
    """
    try:
        info = read_manifest(_Info, folder / _INFO_FILE, newest=_FORMAT)
        if info.model != model:
            return None
        check_files(folder, info.files)
        columns = [StringTable(folder / name) for name in RememberedSurface._fields]
        surfaces = [RememberedSurface(*row) for row in zip(*columns, strict=True)]
        vectors = map_column(folder / _VECTORS_FILE, np.float16, (len(surfaces), dim))
    except (DamagedFileError, NewerFileError, ValueError):
        return None
    if info.trust is None:  # of before like words were judged
        return "", RememberedVectors(surfaces, vectors)
    return info.state, RememberedVectors(surfaces, vectors, info.trust)


def of_length_one(vectors: FloatArray) -> FloatArray:
    """Each vector divided by its length; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    ones: FloatArray = vectors / np.maximum(lengths, 1e-9)
    return ones
