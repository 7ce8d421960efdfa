"""Building a segment in a draft: names first, then vectors, its manifest last."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kglink.errors import DamagedFileError
from kglink.files.atomic import atomic_folder, replace_folder, sweep_drafts, write_atomically
from kglink.files.manifest import check_files, note_checked
from kglink.files.tables import StringTable
from kglink.records import OnProgress, Progress
from kglink.space.folder import link_or_copy
from kglink.space.layers import hidden_below
from kglink.space.manifest import LayerInfo, SegmentInfo
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.segment_names import READ, DraftEntities, Names, draft_names, measured
from kglink.space.segment_plan import DRAFT, SegmentPlan
from kglink.space.segment_vectors import (
    Block,
    EncodeBlocks,
    Encoded,
    Filler,
    KnownVectors,
    TextEncoder,
    encode_block,
    left_in,
    read_by,
    reads_entities,
    write_tokens,
)

Item = TypeVar("Item")


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
    shutil.rmtree(draft / READ, ignore_errors=True)
    sweep_drafts(draft)  # of an earlier run that was killed
    final = root / plan.folder_name
    replace_folder(draft, final)  # Readers keep what they have mapped.
    return final


def build_names(plan: SegmentPlan, root: Path, *, progress: OnProgress = lambda _: None) -> int:
    """Write the names of a segment into its draft; returns how many rows are to be encoded."""
    draft = root / plan.draft_name
    names = _made(plan, root, lambda: draft_names(draft, plan, progress))
    return sum(names.rows[kind] for kind in plan.rows)


def names_segment(plan: SegmentPlan, root: Path, progress: OnProgress) -> Path:
    """The names of ``plan`` as a segment without vectors: links to the files of its draft."""
    draft, alone = root / plan.draft_name, plan.names_alone
    folder = root / alone.folder_name

    def make() -> None:
        names = draft_names(draft, plan, progress)
        with atomic_folder(folder) as linked:
            for name in names.files:
                link_or_copy(draft / name, linked / name)
            copied = [name for name in names.files if (linked / name).stat().st_nlink == 1]
            check_files(linked, {name: names.files[name] for name in copied})
            _write_info(linked, alone, names)

    _made(plan, root, make)
    return folder


def vectors_in(draft: Path, plan: SegmentPlan) -> int:
    """How many vectors a draft holds that the model of ``plan`` made."""
    return sum(len(left_in(draft, kind, plan.model)[0]) for kind in plan.rows)


def fullest_draft(plan: SegmentPlan, root: Path) -> Path | None:
    """The draft with most vectors that was begun before the KB of ``plan`` changed, if any is."""
    name = re.compile(rf"{re.escape(DRAFT + plan.kb)}-[0-9a-f]{{12}}")
    counts = {
        path: vectors_in(path, plan)
        for path in root.glob(f"{DRAFT}*")
        if name.fullmatch(path.name) and path.name != plan.draft_name
    }
    return max(filter(counts.get, counts), key=counts.__getitem__, default=None)


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
    aside = root / f"{DRAFT}{plan.kb}-{'0' * 12}"  # for `fullest_draft`
    if aside.exists():
        shutil.rmtree(aside)
    draft.rename(aside)
    return make()


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
    names = draft_names(draft, plan, progress)
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
    fillers = {kind: Filler(draft, kind, counts[kind], plan.model.dim, tell) for kind in plan.rows}
    for kind, filler in fillers.items():
        known = KnownVectors(previous, kind, plan.model, left)
        rows: Sequence[Any] = (
            DraftEntities(draft) if kind == "text" else StringTable(draft / "surfaces")
        )
        read = partial(read_by, encoder, plan.description_chars)
        are_given = kind == "text" and reads_entities(encoder)
        blocks = filler.blocks(rows, read, known, are_given=are_given)
        filler.fill(encode(blocks))
        if kind == "text" and by_tokens and reads_entities(encoder):
            for done in write_tokens(draft, encode, plan.model.dim, known):
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
        files=names.files | measured(folder, but=names.files),
    )
    note_checked(folder, info.files)
    write_atomically(folder / INFO_FILE, info.model_dump_json(indent=1))
