"""Writing the token matrices of a segment: those that no earlier segment has are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kglink.errors import DamagedSpaceError
from kglink.files.tables import map_array
from kglink.models.runtime import TokenMatrices
from kglink.records import Entity
from kglink.space.rows import EntityEncoder
from kglink.space.token_rows import NORMS_FILE, TokenRows, TokenRowsWriter, filled_up

#: Entities encoded and written between two notes of progress: about 50 MB of 64 tokens each.
CHUNK_ENTITIES = 1024

IntArray = npt.NDArray[np.int64]


class KnownTokens(Protocol):
    """The token matrices of an earlier segment."""

    def find(self, hashes: npt.NDArray[np.uint64]) -> IntArray:
        """The entity of it that reads the same as each of these, or -1."""
        ...

    @property
    def tokens(self) -> TokenRows | None:
        """Its matrices."""
        ...


def write_tokens(
    draft: Path,
    entities: Iterable[Entity],
    encoder: EntityEncoder,
    dim: int,
    known: KnownTokens | None,
) -> Iterator[int]:
    """Write the token matrices of all entities, going on where an earlier build stopped.

    It yields how many are written. The text rows are there already, and with them the hashes of
    what is read of each entity.
    """
    hashes = map_array(draft / "text_hashes.npy")
    if _is_whole(draft, dim, len(hashes)):
        yield len(hashes)
        return
    waiting = iter(entities)
    with TokenRowsWriter(draft, dim) as writer:
        yield writer.done
        for _ in islice(waiting, writer.done):
            pass
        while chunk := list(islice(waiting, CHUNK_ENTITIES)):
            own = hashes[writer.done : writer.done + len(chunk)]
            writer.add(_matrices(chunk, own, encoder, known))
            yield writer.done
        writer.finish()


def _is_whole(draft: Path, dim: int, entities: int) -> bool:
    if not (draft / NORMS_FILE).is_file():
        return False
    try:
        return len(TokenRows(draft, dim)) == entities
    except DamagedSpaceError:  # Stopped while it was finishing: the writer does that again.
        return False


def _matrices(
    chunk: Sequence[Entity],
    hashes: npt.NDArray[np.uint64],
    encoder: EntityEncoder,
    known: KnownTokens | None,
) -> TokenMatrices:
    tokens = known.tokens if known else None
    if known is None or tokens is None:
        return encoder.entity_matrices(chunk)
    found = known.find(hashes)
    new = np.flatnonzero(found < 0)
    if not len(new):
        return tokens.take(found)
    return filled_up(tokens, found, encoder.entity_matrices([chunk[at] for at in new.tolist()]))
