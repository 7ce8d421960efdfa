"""The vectors of a segment, written into its draft: those that no earlier segment has are encoded.

kill -9 leaves the draft; the next build finds how many vectors were written, and goes on from
there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import write_atomically
from kglink.files.digest import text_hash
from kglink.files.manifest import read_json, read_manifest
from kglink.files.tables import map_array, map_column, places_in
from kglink.models.source import ModelInfo
from kglink.records import Entity
from kglink.space.manifest import FORMAT, RowKind
from kglink.space.segment import Segment
from kglink.space.segment_names import NAMES_DONE, DraftEntities, Names
from kglink.text.entity_text import entity_text

if TYPE_CHECKING:
    from kglink.models.encoder import Encoder
    from kglink.models.settings import BiEncoderSettings
    from kglink.space.token_rows import TokenRows


#: Rows encoded at once, between two notes of progress.
CHUNK_ROWS = 512
#: Entities whose tokens are encoded and written at once: about 12 MB of 64 tokens each.
CHUNK_ENTITIES = 256
#: Seconds after which what was encoded is safe on the disk.
COMMIT_EVERY = 10.0
HashArray = npt.NDArray[np.uint64]


class Block(NamedTuple):
    """Some rows of a draft that are encoded together."""

    kind: RowKind | Literal["tokens"]
    first: int
    """The number of the first row among those of its kind; of tokens, of the first entity."""
    items: list[Any]
    """What the encoder is given: texts, or by a trained one's text rows entities."""


class Encoded(NamedTuple):
    """The vectors of a block, and how many of its texts were longer than the model reads."""

    vectors: Any
    """One vector for each row; of tokens `TokenMatrices`."""
    truncated: int


#: Encodes blocks, and gives each with its vectors: tokens in their order, others in any.
EncodeBlocks = Callable[[Iterator[Block]], Iterator[tuple[Block, Encoded]]]


class TextEncoder(Protocol):
    """What a segment needs of an encoder: a plain one reads an entity as one text.

    A trained one is an `Encoder`, whose tower is given the entity itself.
    """

    @property
    def truncated(self) -> int:
        """How many texts, so far, were longer than the model reads."""
        ...

    @property
    def trained(self) -> BiEncoderSettings | None:
        """How a trained encoder compares; None: it is a plain one, which reads texts alone."""
        ...

    def encode(self, texts: list[str]) -> FloatArray:
        """One vector for each text."""
        ...


def reads_entities(encoder: TextEncoder) -> TypeGuard[Encoder]:
    """Whether an encoder is a trained one."""
    return encoder.trained is not None


def read_by(encoder: TextEncoder, description_chars: int, row: Entity | str) -> str:
    """What the encoder reads of a row: rows that read the same have the same vector."""
    if isinstance(row, str):
        return row
    if reads_entities(encoder):
        return encoder.entity_text(row)
    return entity_text(row, description_chars=description_chars)


def encode_block(encoder: TextEncoder, block: Block) -> Encoded:
    """Encode some rows."""
    before = encoder.truncated
    if block.kind == "alias" or not reads_entities(encoder):
        return Encoded(encoder.encode(block.items), encoder.truncated - before)
    if block.kind == "tokens":
        return Encoded(encoder.entity_matrices(block.items), 0)
    return Encoded(encoder.encode_entities(block.items), encoder.truncated - before)


class Filler:
    """Fills ``<kind>.npy`` and ``<kind>_hashes.npy``, going on where an earlier one stopped."""

    def __init__(
        self, draft: Path, kind: RowKind, total: int, dim: int, tell: Callable[[], None]
    ) -> None:
        self._kind, self._tell = kind, tell
        self._state_file = draft / f"{kind}.state"
        self.done = self.reused = self.truncated = 0
        mode: Literal["r+", "w+"] = "w+"
        ready: list[list[int]] = []
        if self._state_file.is_file():
            mode = "r+"
            self.done, self.reused, self.truncated, *ready = _state_of(draft, kind)
        self._committed = time.monotonic()
        self._vectors = _reserved(draft / f"{kind}.npy", mode, np.float16, (total, dim))
        self._hashes = _reserved(draft / f"{kind}_hashes.npy", mode, np.uint64, (total,))
        #: The blocks that are begun, by their first rows: their ends, and the rows to encode.
        self._begun: dict[int, tuple[int, IntArray]] = {}
        #: Those that are done before one that stands before them: their ends, how many rows they
        #: reuse, and how many of their texts were cut.
        self._ready = {first: (stop, old, cut) for first, stop, old, cut in ready}

    def fill(self, blocks: Iterator[tuple[Block, Encoded]]) -> None:
        """Write every row that is not there yet.

        Whatever ends it, kill -9 and a lost disk alone lose rows: those of the last seconds.
        """
        self._tell()
        try:
            for block, encoded in blocks:
                self._vectors[self._begun[block.first][1]] = encoded.vectors
                self._finish(block.first, encoded.truncated)
        finally:
            self._commit()

    def blocks(
        self,
        rows: Sequence[Any],
        read: Callable[[Any], str],
        known: KnownVectors,
        *,
        are_given: bool,
    ) -> Iterator[Block]:
        """What is to be encoded; all else is copied on the way.

        The encoder ``read``s a text of each row; it is given that, or the row itself.
        """
        stop = self.done
        # What an earlier run finished behind a gap is done once the gap is filled.
        while (first := max(stop, self.done)) < len(rows):
            if first in self._ready:
                stop = self._ready[first][0]
                continue
            stop = min(first + CHUNK_ROWS, len(rows))
            chunk = [rows[at] for at in range(first, stop)]
            texts = list(map(read, chunk))
            hashes = np.fromiter(map(text_hash, texts), np.uint64)
            self._hashes[first:stop] = hashes
            found = known.find(hashes)
            fresh, old = np.flatnonzero(found < 0), np.flatnonzero(found >= 0)
            if len(old):
                self._vectors[first + old] = known.vectors(found[old])
            self._begun[first] = stop, first + fresh
            if len(fresh):
                given = chunk if are_given else texts
                yield Block(self._kind, first, [given[at] for at in fresh])
            else:
                self._finish(first, 0)

    def _finish(self, first: int, truncated: int) -> None:
        """Count a block that is done, and those behind it that waited for it."""
        stop, fresh = self._begun.pop(first)
        self._ready[first] = stop, stop - first - len(fresh), truncated
        while self.done in self._ready:
            self.done, old, cut = self._ready.pop(self.done)
            self.reused, self.truncated = self.reused + old, self.truncated + cut
        if time.monotonic() - self._committed >= COMMIT_EVERY:
            self._commit()
        self._tell()

    def _commit(self) -> None:
        """Sync what is encoded, then say how much of it is."""
        self._vectors.flush()
        self._hashes.flush()
        behind = [[first, *rest] for first, rest in self._ready.items()]
        state = [self.done, self.reused, self.truncated, *behind]
        write_atomically(self._state_file, json.dumps(state))
        self._committed = time.monotonic()


def write_tokens(draft: Path, encode: EncodeBlocks, dim: int, known: KnownVectors) -> Iterator[int]:
    """Write the token matrices of all entities, going on where an earlier build stopped.

    It yields how many are written. The text rows are there already, and with them the hashes of
    what is read of each entity.
    """
    from kglink.space.token_rows import TokenRowsWriter, are_whole, filled_up

    hashes, entities = map_array(draft / "text_hashes.npy"), DraftEntities(draft)
    if are_whole(draft, dim, len(hashes)):
        yield len(hashes)
        return
    tokens = known.tokens
    found: dict[int, IntArray] = {}

    def blocks() -> Iterator[Block]:
        for first in range(writer.done, len(entities), CHUNK_ENTITIES):
            own = hashes[first : first + CHUNK_ENTITIES]
            found[first] = known.find(own) if tokens else np.full(len(own), -1)
            new = np.flatnonzero(found[first] < 0)
            yield Block("tokens", first, [entities[first + at] for at in new.tolist()])

    with TokenRowsWriter(draft, dim) as writer:
        yield writer.done
        for block, encoded in encode(blocks()):
            own, new = found.pop(block.first), encoded.vectors
            writer.add(filled_up(tokens, own, new) if tokens else new)
            yield writer.done
        writer.finish()


class KnownVectors:
    """The vectors of earlier segments, found by the hash of what they stand for."""

    def __init__(
        self,
        segments: Sequence[Segment],
        kind: RowKind,
        model: ModelInfo,
        draft: Path | None = None,
    ) -> None:
        """``draft``: that of an unfinished segment, of which the vectors are taken that it has."""
        self._dim = model.dim
        self._segments = [
            one
            for one in segments
            if one.info.model.fingerprint == model.fingerprint and kind in one.info.rows
        ]
        parts = [map_array(one.folder / f"{kind}_hashes.npy") for one in self._segments]
        self._vectors: list[Callable[[IntArray], FloatArray]]
        self._vectors = [partial(one.vectors, kind) for one in self._segments]
        if draft is not None:
            hashes, vectors = left_in(draft, kind, model)
            parts.append(hashes)
            self._vectors.append(vectors.__getitem__)
        self._starts = np.cumsum([0, *map(len, parts)])
        every: HashArray = np.concatenate([np.empty(0, np.uint64), *parts])
        self._order = np.argsort(every, kind="stable")
        self._sorted = every[self._order]

    def find(self, hashes: HashArray) -> IntArray:
        """The number of each hash among all of them, or -1."""
        at, is_known = places_in(self._sorted, hashes)
        found = np.full(len(hashes), -1)
        found[is_known] = self._order[at[is_known]]
        return found

    def vectors(self, numbers: IntArray) -> FloatArray:
        """Some of the vectors."""
        found = np.empty((len(numbers), self._dim), np.float32)
        owners = np.searchsorted(self._starts, numbers, side="right") - 1
        for at, vectors in enumerate(self._vectors):
            own = owners == at
            found[own] = vectors(numbers[own] - self._starts[at])
        return found

    @property
    def tokens(self) -> TokenRows | None:
        """The token matrices beside them; a segment that has some is the only one."""
        return self._segments[0].tokens if self._segments else None


def left_in(
    draft: Path, kind: RowKind, model: ModelInfo
) -> tuple[HashArray, npt.NDArray[np.float16]]:
    """The hashes and vectors that a draft has; none where it is another model's, or damaged."""
    with suppress(DamagedFileError, NewerFileError):
        if (draft / f"{kind}.state").is_file():
            names = read_manifest(Names, draft / NAMES_DONE, newest=FORMAT)
            if names.model.fingerprint == model.fingerprint:
                count = names.rows.get(kind, 0)
                done = min(_state_of(draft, kind)[0], count)
                hashes = map_column(draft / f"{kind}_hashes.npy", np.uint64, (count,))[:done]
                return hashes, map_column(draft / f"{kind}.npy", np.float16, (count, model.dim))
    return np.empty(0, np.uint64), np.empty((0, model.dim), np.float16)


def _state_of(draft: Path, kind: RowKind) -> list[Any]:
    """How many vectors stand in a draft, how many are reused and truncated, and blocks behind."""
    path = draft / f"{kind}.state"
    state = read_json(path)
    if isinstance(state, list) and len(state) > 2 and isinstance(state[0], int) and state[0] >= 0:
        return state
    raise DamagedFileError(f"{path}: not the state of a build")


def _reserved(
    path: Path, mode: Literal["r+", "w+"], kind: npt.DTypeLike, shape: tuple[int, ...]
) -> np.memmap[Any, Any]:
    """A mapped array whose place on the disk is there.

    Where the disk is full this is an error; a write to mapped memory without a place would end
    the process.
    """
    if mode == "r+" and not path.is_file():
        raise DamagedFileError(f"{path}: missing")
    mapped = np.lib.format.open_memmap(path, mode, kind, shape)
    if mapped.shape != shape or mapped.dtype != kind:
        raise DamagedFileError(f"{path}: not the array that was begun")
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return mapped
