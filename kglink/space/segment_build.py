"""Building a segment: names first, then the vectors that no earlier segment has.

A KB is read once. What the encoder reads of its entities is kept in the draft until all vectors
are made. kill -9 leaves a draft folder; the next build of the same content finds how many vectors
were written and goes on from there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray, IntArray
from kglink.errors import DamagedFileError, NewerFileError
from kglink.files.atomic import atomic_folder, replace_folder, sync_tree, write_atomically
from kglink.files.digest import digest_of, text_hash
from kglink.files.manifest import (
    FileInfo,
    ManifestPart,
    check_files,
    file_info,
    note_checked,
    read_json,
    read_manifest,
)
from kglink.files.tables import (
    ColumnWriter,
    StringTable,
    StringWriter,
    map_array,
    map_column,
    places_in,
)
from kglink.models.source import ModelInfo
from kglink.records import Alias, Entity, OnProgress, Progress
from kglink.space.folder import link_or_copy
from kglink.space.layers import hidden_below, write_places
from kglink.space.manifest import FORMAT, LayerInfo, RowKind, SegmentInfo
from kglink.space.names import build_name_index
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.words import build_word_index
from kglink.text.entity_text import entity_text
from kglink.text.fold import fold

if TYPE_CHECKING:
    from kglink.models.encoder import Encoder
    from kglink.models.settings import BiEncoderSettings
    from kglink.space.token_rows import TokenRows
    from kglink.store.entity_reader import Changes, FoldedEntity

#: What tells that the names of a draft are whole.
_NAMES_DONE = "names.json"
#: Rows encoded at once, between two notes of progress.
CHUNK_ROWS = 512
#: Entities whose tokens are encoded and written at once: about 12 MB of 64 tokens each.
CHUNK_ENTITIES = 256
#: Seconds after which what was encoded is safe on the disk.
COMMIT_EVERY = 10.0
#: Entities read between two notes of progress.
_READ_TOGETHER = 4096
_DRAFT = ".draft-"
#: The folder of a draft that holds what the encoder reads of each entity.
_READ = "read"

Item = TypeVar("Item")
#: How many rows of each kind a KB needs.
Counts = dict[RowKind, int]
HashArray = npt.NDArray[np.uint64]


class Names(ManifestPart):
    """The names that a draft holds."""

    format: int = FORMAT
    rows: Counts
    """How many rows of each kind they need."""
    files: dict[str, FileInfo]
    model: ModelInfo
    """That which encodes them."""


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


@dataclass(frozen=True, slots=True)
class SpaceSource:
    """A KB to put into a space: what it holds now, how to read it, and how it has changed.

    An earlier revision is named by the store's highest number of an entity then, and its own.
    """

    kb: str
    revision: int
    content: str
    licence: str
    entities: Callable[[], Iterable[FoldedEntity]]
    """Reads ``content``; an error where the KB holds something else by now."""
    store: str = ""
    """The identity of the store; empty: nothing is known of earlier revisions."""
    last_id: int = -1
    """The store's highest number of an entity now."""
    size: int = 0
    """How many entities there are now."""
    count_changes: Callable[[int, int], int | None] = lambda last_id, revision: None
    """How many entities have changed since an earlier revision; None: all."""
    changes: Callable[[int, int], Changes] | None = None
    """What has changed since."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """All that decides what a segment holds."""

    source: SpaceSource
    rows: tuple[RowKind, ...]
    model: ModelInfo
    description_chars: int
    words: bool = False
    """Whether the words of names and texts are indexed as well."""
    below: Segment | None = None
    """The segment that it stands on, and holds the changes of; None: it holds the whole KB."""

    @property
    def kb(self) -> str:
        """The KB's name."""
        return self.source.kb

    @property
    def folder_name(self) -> str:
        """The KB's name and a hash of the plan."""
        parts = [self.kb, self.source.content, list(self.rows), self.model.fingerprint]
        parts.append(str(self.description_chars))
        if self.words:
            parts.append("words")
        return f"{self.kb}-{digest_of(parts, size=6)}"

    @property
    def draft_name(self) -> str:
        """The name of the folder in which it is made."""
        above = f".{self.below.folder.name}" if self.below else ""
        return _DRAFT + self.folder_name + above

    @property
    def names_alone(self) -> SegmentPlan:
        """The plan of the same segment without vectors."""
        return replace(self, rows=(), below=None)


def build_segment(
    plan: SegmentPlan,
    encoder: TextEncoder,
    root: Path,
    *,
    previous: Sequence[Segment] = (),
    fresh: bool = False,
    progress: OnProgress = lambda _: None,
    encode_blocks: EncodeBlocks | None = None,
) -> Path:
    """Make the segment of ``plan`` under ``root``; returns its folder.

    ``previous``: earlier segments of the KB, whose vectors are used again where they fit.
    ``encode_blocks`` encodes rows elsewhere, as `encode_block` does here.
    """
    draft = root / plan.draft_name
    if fresh and draft.exists():
        shutil.rmtree(draft)
    _made(plan, root, lambda: _fill(draft, plan, encoder, previous, fresh, progress, encode_blocks))
    shutil.rmtree(draft / _READ, ignore_errors=True)
    final = root / plan.folder_name
    replace_folder(draft, final)  # Readers keep what they have mapped.
    return final


def build_names(plan: SegmentPlan, root: Path, *, progress: OnProgress = lambda _: None) -> int:
    """Write the names of a segment into its draft; returns how many rows are to be encoded."""
    draft = root / plan.draft_name
    names = _made(plan, root, lambda: _names(draft, plan, progress))
    return sum(names.rows[kind] for kind in plan.rows)


def _made(plan: SegmentPlan, root: Path, make: Callable[[], Item]) -> Item:
    """What is made in the draft of ``plan``; where an earlier run left a damaged one, in a new one.

    The vectors of the damaged one are used again.
    """
    draft = root / plan.draft_name
    is_resumed = draft.exists()
    try:
        return make()
    except DamagedFileError:
        if not is_resumed:
            raise
    aside = root / f"{_DRAFT}{plan.kb}-{'0' * 12}"  # for `fullest_draft`
    if aside.exists():
        shutil.rmtree(aside)
    draft.rename(aside)
    return make()


def names_segment(plan: SegmentPlan, root: Path, progress: OnProgress) -> Path:
    """The names of ``plan`` as a segment without vectors: links to the files of its draft."""
    draft, alone = root / plan.draft_name, plan.names_alone
    folder = root / alone.folder_name

    def make() -> None:
        names = _names(draft, plan, progress)
        with atomic_folder(folder) as linked:
            for name in names.files:
                link_or_copy(draft / name, linked / name)
            copied = [name for name in names.files if (linked / name).stat().st_nlink == 1]
            check_files(linked, {name: names.files[name] for name in copied})
            _write_info(linked, alone, names)

    _made(plan, root, make)
    return folder


def vectors_there(plan: SegmentPlan, root: Path) -> int:
    """How many vectors the draft of ``plan`` holds."""
    return _vectors_in(root / plan.draft_name, plan)


def _vectors_in(draft: Path, plan: SegmentPlan) -> int:
    return sum(len(_left_in(draft, kind, plan.model)[0]) for kind in plan.rows)


def fullest_draft(plan: SegmentPlan, root: Path) -> Path | None:
    """The draft with most vectors that was begun before the KB of ``plan`` changed, if any is."""
    name = re.compile(rf"{re.escape(_DRAFT + plan.kb)}-[0-9a-f]{{12}}")
    counts = {
        path: _vectors_in(path, plan)
        for path in root.glob(f"{_DRAFT}*")
        if name.fullmatch(path.name) and path.name != plan.draft_name
    }
    return max(filter(counts.get, counts), key=counts.__getitem__, default=None)


def _left_in(
    draft: Path, kind: RowKind, model: ModelInfo
) -> tuple[HashArray, npt.NDArray[np.float16]]:
    """The hashes and vectors that a draft has; none where it is another model's, or damaged."""
    with suppress(DamagedFileError, NewerFileError):
        if (draft / f"{kind}.state").is_file():
            names = read_manifest(Names, draft / _NAMES_DONE, newest=FORMAT)
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


def _fill(
    draft: Path,
    plan: SegmentPlan,
    encoder: TextEncoder,
    previous: Sequence[Segment],
    fresh: bool,
    progress: OnProgress,
    encode_blocks: EncodeBlocks | None,
) -> None:
    """Write all files of a segment that are not there yet, its manifest last."""
    if (draft / INFO_FILE).is_file():
        return
    names = _names(draft, plan, progress)
    counts = names.rows
    by_tokens = encoder.trained is not None and encoder.trained.compares_tokens
    total = sum(counts[kind] * (1 + (by_tokens and kind == "text")) for kind in plan.rows)
    tokens = 0

    def encode_here(blocks: Iterator[Block]) -> Iterator[tuple[Block, Encoded]]:
        return ((block, encode_block(encoder, block)) for block in blocks)

    def tell() -> None:
        done = tokens + sum(filler.done for filler in fillers.values())
        progress(Progress(f"encoding {plan.kb}", done, total))

    encode = encode_blocks or encode_here
    left = None if fresh or by_tokens else fullest_draft(plan, draft.parent)
    # What an earlier build left is counted before the first row is encoded, for it took no time.
    fillers = {kind: _Filler(draft, kind, counts[kind], plan.model.dim, tell) for kind in plan.rows}
    for kind, filler in fillers.items():
        known = KnownVectors(previous, kind, plan.model, left)
        rows: Sequence[Any] = (
            _Entities(draft) if kind == "text" else StringTable(draft / "surfaces")
        )
        read = partial(_read_by, encoder, plan.description_chars)
        are_given = kind == "text" and _reads_entities(encoder)
        blocks = filler.blocks(rows, read, known, are_given=are_given)
        filler.fill(encode(blocks))
        if kind == "text" and by_tokens and _reads_entities(encoder):
            for done in _write_tokens(draft, encode, plan.model.dim, known):
                tokens = done
                tell()
            from kglink.space.token_lists import write_token_lists
            from kglink.space.token_rows import TokenRows  # which load torch

            matrices = TokenRows(draft, plan.model.dim)
            for done in write_token_lists(matrices):
                progress(Progress(f"gathering tokens of {plan.kb}", done, matrices.tokens))
    reused = sum(filler.reused for filler in fillers.values())
    truncated = sum(filler.truncated for filler in fillers.values())
    check_files(draft, names.files, thorough=True)  # hours may have gone by
    _write_info(draft, plan, names, truncated, reused)


def _write_info(
    folder: Path, plan: SegmentPlan, names: Names, truncated: int = 0, reused: int = 0
) -> None:
    """Write the manifest of a segment whose files are all there."""
    counts = names.rows
    below, source, layer, total = plan.below, plan.source, None, dict(counts)
    if below is not None:
        layer = LayerInfo(
            below=below.folder.name, entities=counts["text"], alias_rows=counts["alias"]
        )
        entities, aliases = hidden_below(folder, below)
        total["text"] += below.info.entities - entities
        total["alias"] += below.info.alias_rows - aliases
        reused += sum(total[kind] - counts[kind] for kind in plan.rows)
    info = SegmentInfo(
        kb=plan.kb,
        revision=source.revision,
        entities=total["text"],
        alias_rows=total["alias"],
        store=source.store,
        last_id=source.last_id,
        layer=layer,
        rows=plan.rows,
        model=plan.model,
        description_chars=plan.description_chars,
        truncated_texts=truncated,
        reused_rows=reused,
        licence=source.licence,
        files=names.files | _measured(folder, but=names.files),
    )
    note_checked(folder, info.files)
    write_atomically(folder / INFO_FILE, info.model_dump_json(indent=1))


def _names(draft: Path, plan: SegmentPlan, progress: OnProgress) -> Names:
    """Write the names of a draft where they are missing, else check them."""
    if (draft / _NAMES_DONE).is_file():
        names = read_manifest(Names, draft / _NAMES_DONE, newest=FORMAT)
        check_files(draft, names.files, thorough=True)
        return names
    if draft.exists():  # never write into files to which a segment may have links
        shutil.rmtree(draft)
    (draft / _READ).mkdir(parents=True)
    source, below = plan.source, plan.below
    if below is None:
        told = partial(Progress, f"reading {source.kb}")
        counted = _write_names(draft, source.entities(), lambda done: progress(told(done)))
        build_name_index(draft, draft / _READ)
    else:
        if source.changes is None:
            raise ValueError(f"KB {source.kb!r} has no history")
        changes = source.changes(below.info.last_id, below.info.revision)
        counted = _write_names(draft, changes.entities)
        build_name_index(draft, draft / _READ, below.names.idf)
        write_places(draft, below, StringTable(draft / "keys"), changes.removed)
    if plan.words:
        texts = (_all_words(one, plan.description_chars) for one in _Entities(draft))
        build_word_index(draft, texts, draft / _READ)
    sync_tree(draft)
    names = Names(rows=counted, files=_measured(draft), model=plan.model)
    write_atomically(draft / _NAMES_DONE, names.model_dump_json())
    return names


def _measured(folder: Path, but: Collection[str] = ()) -> dict[str, FileInfo]:
    """The files of a segment in a folder, but for those that were measured before."""
    return {
        path.name: file_info(path)
        for path in sorted(folder.iterdir())
        if path.suffix in (".npy", ".utf8", ".bf16") and path.name not in but
    }


def _write_names(
    draft: Path, entities: Iterable[FoldedEntity], tell: Callable[[int], None] = lambda _: None
) -> Counts:
    """The entity and alias tables; one alias row for each folded form, the title's first."""
    rows = number = 0
    with (
        ColumnWriter(draft / "popularity.npy", np.float32) as popularity,
        ColumnWriter(draft / "alias_counts.npy", np.float32) as counts,
        ColumnWriter(draft / "alias_starts.npy", np.int64) as starts,
        StringWriter(draft / "keys") as keys,
        StringWriter(draft / "titles") as titles,
        StringWriter(draft / "surfaces") as surfaces,
        StringWriter(draft / "folded") as folded_names,
        StringWriter(draft / _READ / "entities") as read,
    ):
        starts.append(0)
        for number, (entity, folded_forms) in enumerate(entities, 1):
            if number % _READ_TOGETHER == 1:
                tell(number - 1)
            keys.add(entity.key)
            titles.add(entity.title)
            names = [alias.surface for alias in entity.aliases]
            read.add(json.dumps([entity.title, entity.type, entity.description, names]))
            popularity.append(entity.popularity)
            for folded, (surface, count) in alias_rows(entity, folded_forms).items():
                surfaces.add(surface)
                folded_names.add(folded)
                counts.append(count)
                rows += 1
            starts.append(rows)
    return {"text": number, "alias": rows}


def alias_rows(entity: Entity, folded_names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Folded form -> most frequent surface and total count; a name of signs alone stays."""
    rows: dict[str, tuple[str, int]] = {}
    names = list(zip(entity.aliases, folded_names, strict=True))
    forms = {alias.surface: folded for alias, folded in names}
    title = forms.get(entity.title) or fold(entity.title) or entity.title
    rows[title] = (entity.title, 1)
    for alias, found in sorted(names, key=lambda name: -name[0].count):
        # The store holds no folded form of a name that is too long for its index.
        folded = found or fold(alias.surface) or alias.surface
        surface, count = rows.get(folded, (alias.surface, 0))
        rows[folded] = (surface, count + alias.count)
    return rows


def _all_words(entity: Entity, description_chars: int) -> str:
    """All names of an entity and its description, folded."""
    names = dict.fromkeys((entity.title, *(alias.surface for alias in entity.aliases)))
    return fold(" ".join((*names, entity.description[:description_chars])))


class _Entities(Sequence[Entity]):
    """The entities of a draft, with what an encoder may read of them."""

    def __init__(self, draft: Path) -> None:
        self._table = StringTable(draft / _READ / "entities")

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, at: int) -> Entity:  # type: ignore[override]  # no slices: one each
        title, kind, description, surfaces = json.loads(self._table[at])
        aliases = tuple(Alias(surface) for surface in surfaces)
        return Entity("", title, description, kind, aliases=aliases)


def _reads_entities(encoder: TextEncoder) -> TypeGuard[Encoder]:
    """Whether an encoder is a trained one."""
    return encoder.trained is not None


def _read_by(encoder: TextEncoder, description_chars: int, row: Entity | str) -> str:
    """What the encoder reads of a row: rows that read the same have the same vector."""
    if isinstance(row, str):
        return row
    if _reads_entities(encoder):
        return encoder.entity_text(row)
    return entity_text(row, description_chars=description_chars)


def encode_block(encoder: TextEncoder, block: Block) -> Encoded:
    """Encode some rows."""
    before = encoder.truncated
    if block.kind == "alias" or not _reads_entities(encoder):
        return Encoded(encoder.encode(block.items), encoder.truncated - before)
    if block.kind == "tokens":
        return Encoded(encoder.entity_matrices(block.items), 0)
    return Encoded(encoder.encode_entities(block.items), encoder.truncated - before)


class _Filler:
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
        while (first := stop) < len(rows):
            if first in self._ready:  # since an earlier run
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


def _write_tokens(
    draft: Path, encode: EncodeBlocks, dim: int, known: KnownVectors
) -> Iterator[int]:
    """Write the token matrices of all entities, going on where an earlier build stopped.

    It yields how many are written. The text rows are there already, and with them the hashes of
    what is read of each entity.
    """
    from kglink.space.token_rows import TokenRowsWriter, are_whole, filled_up

    hashes, entities = map_array(draft / "text_hashes.npy"), _Entities(draft)
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
            hashes, vectors = _left_in(draft, kind, model)
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
