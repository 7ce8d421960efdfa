"""The pool: all entities of a run's KBs, in a fixed order, as token ids on disk.

KBs stand in the order in which they were named, sources first, entities in the order of their
keys. The number of an entity in the pool is its row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kglink.files.tables import IntArray, RowTable, RowWriter, StringTable, StringWriter, map_array
from kglink.models.inputs import IdArray, Inputs
from kglink.plugins import RowRange
from kglink.records import EntityId, OnProgress, Progress
from kglink.store import Store

Item = TypeVar("Item")

_CHUNK = 2048


class PooledKB(NamedTuple):
    """A KB in the pool: its rows, and its state when it was read."""

    name: str
    start: int
    stop: int
    described: int
    revision: int
    digest: str


class EntityPool:
    """All entities of the run's KBs."""

    def __init__(self, folder: Path, kbs: Sequence[PooledKB]) -> None:
        self.kbs = tuple(kbs)
        self.tokens = token_table(folder / "pool-texts")
        self.domains: IntArray = map_array(folder / "pool-domains.npy")
        self._keys = StringTable(folder / "pool-keys")
        self.titles = StringTable(folder / "pool-titles")
        self._by_name = {kb.name: kb for kb in kbs}

    def __len__(self) -> int:
        return len(self.tokens)

    def kb(self, name: str) -> PooledKB:
        """A KB by its name."""
        return self._by_name[name]

    def rows(self, names: Iterable[str]) -> RowRange:
        """The rows of adjacent KBs."""
        kbs = [self._by_name[name] for name in names]
        return RowRange(min(kb.start for kb in kbs), max(kb.stop for kb in kbs))

    def row(self, name: EntityId) -> int:
        """The row of an entity; -1 if the pool lacks it."""
        kb = self._by_name.get(name.kb)
        if kb is None:
            return -1
        at = bisect_left(self._keys, name.key, kb.start, kb.stop)
        return at if at < kb.stop and self._keys[at] == name.key else -1

    @property
    def domain_count(self) -> int:
        """How many domains there are."""
        return int(self.domains.max()) + 1 if len(self.domains) else 0


def write_pool(
    folder: Path,
    store: Store,
    names: Sequence[str],
    inputs: Inputs,
    domain: Literal["kb", "type"],
    progress: OnProgress = lambda _: None,
) -> list[PooledKB]:
    """Write the token ids, keys, titles and domains of the entities of these KBs."""
    kbs: list[PooledKB] = []
    numbers: dict[tuple[str, str], int] = {}
    domains: list[IntArray] = []
    total = sum(store.kb(name).entities for name in names)
    with (
        StringWriter(folder / "pool-keys") as keys,
        StringWriter(folder / "pool-titles") as titles,
        token_writer(folder / "pool-texts") as tokens,
    ):
        for name in names:
            start, described, revision = len(tokens), 0, store.kb(name).revision
            for entities in chunks(store.entities(name), _CHUNK):
                for entity, ids in zip(entities, inputs.entities(entities), strict=True):
                    keys.add(entity.key)
                    titles.add(entity.title)
                    tokens.add(ids)
                places = [(name, one.type if domain == "type" else "") for one in entities]
                own = [numbers.setdefault(place, len(numbers)) for place in places]
                domains.append(np.array(own, np.int64))
                described += sum(bool(entity.description.strip()) for entity in entities)
                progress(Progress("reading entities", len(tokens), total))
            stop = len(tokens)
            kbs.append(PooledKB(name, start, stop, described, revision, tokens.digest))
    whole = np.concatenate(domains) if domains else np.empty(0, np.int64)
    np.save(folder / "pool-domains.npy", whole)
    return kbs


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most ``size`` items."""
    waiting = iter(items)
    while chunk := list(islice(waiting, size)):
        yield chunk


def token_table(stem: Path) -> RowTable:
    """A table of token ids."""
    return RowTable(stem, np.int32)


def token_writer(stem: Path) -> RowWriter:
    """A writer of token ids."""
    return RowWriter(stem, np.int32)


def as_ids(rows: Iterable[npt.NDArray[Any]]) -> list[IdArray]:
    """Rows as token ids."""
    return [np.asarray(row, np.int32) for row in rows]
