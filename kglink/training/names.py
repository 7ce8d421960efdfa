"""Names as mentions: every name of the pool, standing alone, means each entity that bears it.

What nobody annotated is learnt from the KBs themselves: that an entity is also called this. A
name that several entities bear has all of them as golds, so none of them is a negative of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.files.digest import text_hash
from kglink.files.tables import IntArray, RowWriter, StringTable, StringWriter
from kglink.models.inputs import Inputs, MentionText
from kglink.records import Entity, OnProgress, Progress
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training.pool import EntityPool, chunks

_CHUNK = 4096


def write_names(
    folder: Path,
    store: Store,
    pool: EntityPool,
    inputs: Inputs,
    tokens: RowWriter,
    golds: RowWriter,
    progress: OnProgress = lambda _: None,
) -> int:
    """Append each name once, in the order in which names first stand; returns how many."""
    hashes, rows = array("Q"), array("q")
    with StringWriter(folder / "names") as surfaces:
        for row, surface in _named(store, pool):
            hashes.append(_name_hash(surface))
            rows.append(row)
            surfaces.add(surface)
    texts = StringTable(folder / "names")
    bearers = _bearers(np.frombuffer(hashes, np.uint64), np.frombuffer(rows, np.int64))
    written = 0
    for chunk in chunks(bearers, _CHUNK):
        names = [texts[first] for first, _ in chunk]
        mentions = [MentionText(name, 0, len(name)) for name in names]
        for ids, (_, entities) in zip(inputs.mentions(mentions), chunk, strict=True):
            tokens.add(ids)
            golds.add(entities)
        written += len(chunk)
        progress(Progress("reading names", written))
    return written


def _named(store: Store, pool: EntityPool) -> Iterator[tuple[int, str]]:
    """The row and the surface of every name; an entity's own names once each."""
    for kb in pool.kbs:
        for row, entity in enumerate(store.entities(kb.name), kb.start):
            for surface in dict.fromkeys(_surfaces(entity)):
                yield row, surface


def _surfaces(entity: Entity) -> Iterable[str]:
    yield entity.title
    for alias in entity.aliases:
        if alias.surface.strip():
            yield alias.surface


def _bearers(hashes: npt.NDArray[np.uint64], rows: IntArray) -> Iterator[tuple[int, IntArray]]:
    """For each name the place where it first stands, and the rows of all that bear it."""
    order = np.lexsort((np.arange(len(hashes)), hashes))
    starts = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    stops = np.append(starts[1:], len(order))
    firsts = order[starts]
    for group in np.argsort(firsts, kind="stable"):
        yield int(firsts[group]), np.unique(rows[order[starts[group] : stops[group]]])


def _name_hash(surface: str) -> int:
    return text_hash(fold(surface) or surface)
