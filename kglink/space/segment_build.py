"""Building a segment: names first, then the vectors that no earlier segment has.

kill -9 leaves a draft folder; the next build of the same content finds how many vectors were
written and goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kglink.errors import SpaceError
from kglink.files.atomic import replace_folder, write_atomically
from kglink.files.digest import digest_of
from kglink.files.manifest import file_info
from kglink.files.tables import StringTable, StringWriter
from kglink.records import Entity, OnProgress, Progress
from kglink.space.manifest import ModelInfo, RowKind, SegmentInfo
from kglink.space.names import build_name_index
from kglink.space.rows import EntityEncoder, Item, Rows, TextEncoder, entity_rows, name_rows
from kglink.space.segment import INFO_FILE, Segment
from kglink.text.fold import fold

if TYPE_CHECKING:
    from kglink.space.token_rows import TokenRows

#: Rows encoded and written between two notes of progress.
CHUNK_ROWS = 8192
_DRAFT = ".draft-"

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """All that decides what a segment holds."""

    kb: str
    revision: int
    content: str
    licence: str
    rows: tuple[RowKind, ...]
    model: ModelInfo
    description_chars: int

    @property
    def folder_name(self) -> str:
        """The KB's name and a hash of the plan."""
        parts = [self.kb, self.content, list(self.rows), self.model.fingerprint]
        parts.append(str(self.description_chars))
        return f"{self.kb}-{digest_of(parts, size=6)}"


def build_segment(
    plan: SegmentPlan,
    entities: Callable[[], Iterable[Entity]],
    encoder: TextEncoder,
    root: Path,
    *,
    previous: Segment | None = None,
    fresh: bool = False,
    progress: OnProgress = lambda _: None,
) -> Path:
    """Make the segment of ``plan`` under ``root``; returns its folder."""
    final = root / plan.folder_name
    draft = root / (_DRAFT + plan.folder_name)
    if fresh and draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(parents=True, exist_ok=True)
    if not (draft / "names.done").is_file():
        counted = _write_names(draft, entities())
        build_name_index(draft)
        write_atomically(draft / "names.done", json.dumps(counted))
    counted = json.loads((draft / "names.done").read_text(encoding="utf-8"))
    as_counted = partial(_no_more_than, counted["entities"], plan.kb, entities)
    by_tokens = isinstance(encoder, EntityEncoder) and encoder.has_tokens
    counts = {"text": counted["entities"], "alias": counted["alias_rows"]}
    total = sum(counts[kind] * (1 + (by_tokens and kind == "text")) for kind in plan.rows)
    reused = truncated = before = 0
    for kind in plan.rows:
        rows = _rows(kind, draft, as_counted, encoder, plan.description_chars)
        known = _KnownVectors(previous, kind, plan.model) if previous else None
        filler = _Filler(draft, kind, counts[kind], plan.model.dim, encoder, known)
        for done in filler.fill(rows):
            progress(Progress(f"encoding {plan.kb}", before + done, total))
        before += counts[kind]
        reused += filler.reused
        truncated += filler.truncated
        if kind == "text" and isinstance(encoder, EntityEncoder) and encoder.has_tokens:
            from kglink.space.token_build import write_tokens

            for done in write_tokens(draft, as_counted(), encoder, plan.model.dim, known):
                progress(Progress(f"encoding {plan.kb}", before + done, total))
            before += counts[kind]
    info = SegmentInfo(
        kb=plan.kb,
        revision=plan.revision,
        entities=counted["entities"],
        alias_rows=counted["alias_rows"],
        rows=plan.rows,
        model=plan.model,
        description_chars=plan.description_chars,
        truncated_texts=truncated,
        reused_rows=reused,
        licence=plan.licence,
        files={
            path.name: file_info(path)
            for path in sorted(draft.iterdir())
            if path.suffix in (".npy", ".utf8", ".bf16")
        },
    )
    write_atomically(draft / INFO_FILE, info.model_dump_json(indent=1))
    replace_folder(draft, final)  # Readers keep what they have mapped.
    return final


def changed_meanwhile(kb: str) -> SpaceError:
    """The error where a KB is not what it was when its segment was begun."""
    return SpaceError(f"KB {kb!r} changed while its segment was built", hint="Run the build again.")


def _no_more_than(
    count: int, kb: str, entities: Callable[[], Iterable[Entity]]
) -> Iterator[Entity]:
    """The entities once more: as many as there were when their names were written."""
    for number, entity in enumerate(entities()):
        if number == count:
            raise changed_meanwhile(kb)
        yield entity


def _write_names(draft: Path, entities: Iterable[Entity]) -> dict[str, int]:
    """The entity and alias tables; one alias row for each folded form, the title's first."""
    popularity, counts, starts = array("f"), array("f"), array("q", [0])
    with (
        StringWriter(draft / "keys") as keys,
        StringWriter(draft / "titles") as titles,
        StringWriter(draft / "surfaces") as surfaces,
        StringWriter(draft / "folded") as folded_names,
    ):
        for entity in entities:
            keys.add(entity.key)
            titles.add(entity.title)
            popularity.append(entity.popularity)
            for folded, (surface, count) in _alias_rows(entity).items():
                surfaces.add(surface)
                folded_names.add(folded)
                counts.append(count)
            starts.append(len(counts))
    np.save(draft / "popularity.npy", np.frombuffer(popularity, dtype=np.float32))
    np.save(draft / "alias_counts.npy", np.frombuffer(counts, dtype=np.float32))
    np.save(draft / "alias_starts.npy", np.frombuffer(starts, dtype=np.int64))
    return {"entities": len(popularity), "alias_rows": len(counts)}


def _alias_rows(entity: Entity) -> dict[str, tuple[str, int]]:
    """Folded form -> most frequent surface and total count; a name of signs alone stays."""
    rows: dict[str, tuple[str, int]] = {}
    title = fold(entity.title) or entity.title
    rows[title] = (entity.title, 1)
    for alias in sorted(entity.aliases, key=lambda alias: -alias.count):
        folded = fold(alias.surface) or alias.surface
        surface, count = rows.get(folded, (alias.surface, 0))
        rows[folded] = (surface, count + alias.count)
    return rows


def _rows(
    kind: RowKind,
    draft: Path,
    entities: Callable[[], Iterable[Entity]],
    encoder: TextEncoder,
    description_chars: int,
) -> Rows[Any]:
    if kind == "alias":
        return name_rows(StringTable(draft / "surfaces"), encoder)
    return entity_rows(entities(), encoder, description_chars)


class _Filler:
    """Fills ``<kind>.npy`` and ``<kind>_hashes.npy``, going on where an earlier one stopped."""

    def __init__(
        self,
        draft: Path,
        kind: RowKind,
        total: int,
        dim: int,
        encoder: TextEncoder,
        known: _KnownVectors | None,
    ) -> None:
        self._state_file = draft / f"{kind}.state"
        self._encoder, self._known = encoder, known
        self._done = self.reused = self.truncated = 0
        mode: Literal["r+", "w+"] = "w+"
        if self._state_file.is_file():
            mode = "r+"
            state = json.loads(self._state_file.read_text(encoding="utf-8"))
            self._done, self.reused, self.truncated = state
        self._vectors = _reserved(draft / f"{kind}.npy", mode, np.float16, (total, dim))
        self._hashes = _reserved(draft / f"{kind}_hashes.npy", mode, np.uint64, (total,))

    def fill(self, rows: Rows[Item]) -> Iterator[int]:
        """Encode or copy every row that is not there yet; yields how many are."""
        yield self._done
        for _ in islice(rows.items, self._done):
            pass
        while chunk := list(islice(rows.items, CHUNK_ROWS)):
            stop = self._done + len(chunk)
            hashes = rows.hashes(chunk)
            self._vectors[self._done : stop] = self._block(rows, chunk, hashes)
            self._hashes[self._done : stop] = hashes
            self._vectors.flush()
            self._hashes.flush()
            self._done = stop
            state = json.dumps([self._done, self.reused, self.truncated])
            write_atomically(self._state_file, state)
            yield self._done

    def _block(
        self, rows: Rows[Item], chunk: list[Item], hashes: npt.NDArray[np.uint64]
    ) -> FloatArray:
        found = self._known.find(hashes) if self._known else np.full(len(chunk), -1)
        fresh = np.flatnonzero(found < 0)
        block = np.empty((len(chunk), self._vectors.shape[1]), dtype=np.float32)
        if len(fresh):
            before = self._encoder.truncated
            block[fresh] = rows.encode([chunk[at] for at in fresh])
            self.truncated += self._encoder.truncated - before
        if self._known and len(fresh) < len(chunk):
            block[found >= 0] = self._known.vectors(found[found >= 0])
        self.reused += len(chunk) - len(fresh)
        return block


class _KnownVectors:
    """The vectors of an earlier segment, found by the hash of what they stand for."""

    def __init__(self, segment: Segment, kind: RowKind, model: ModelInfo) -> None:
        usable = segment.info.model.fingerprint == model.fingerprint and kind in segment.info.rows
        self._segment, self._kind = segment, kind
        path = segment.folder / f"{kind}_hashes.npy"
        hashes = np.load(path, mmap_mode="r") if usable else np.empty(0, dtype=np.uint64)
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = np.asarray(hashes)[self._order]

    def find(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The row of each hash, or -1."""
        if not len(self._sorted):
            return np.full(len(hashes), -1)
        at = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        return np.where(self._sorted[at] == hashes, self._order[at], -1)

    def vectors(self, rows: npt.NDArray[np.int64]) -> FloatArray:
        """Some of its vectors."""
        return self._segment.vectors(self._kind, rows)

    @property
    def tokens(self) -> TokenRows | None:
        """The token matrices beside them."""
        return self._segment.tokens


def _reserved(
    path: Path, mode: Literal["r+", "w+"], kind: npt.DTypeLike, shape: tuple[int, ...]
) -> np.memmap[Any, Any]:
    """A mapped array whose place on the disk is there.

    Where the disk is full this is an error; a write to mapped memory without a place would end
    the process.
    """
    mapped = np.lib.format.open_memmap(path, mode, kind, shape)
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return mapped
