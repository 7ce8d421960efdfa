"""The names of a segment, written into its draft before any vector.

A KB is read once: what the encoder reads of its entities waits in the draft until all vectors are
made.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.files.atomic import sync_tree, write_atomically
from kglink.files.manifest import FileInfo, ManifestPart, check_files, file_info, read_manifest
from kglink.files.tables import ColumnWriter, StringTable, StringWriter
from kglink.models.source import ModelInfo
from kglink.records import Alias, Entity, OnProgress, Progress
from kglink.space.layers import write_places
from kglink.space.manifest import FORMAT
from kglink.space.names import build_name_index
from kglink.space.segment_plan import Counts, SegmentPlan
from kglink.space.words import build_word_index
from kglink.text.fold import fold

if TYPE_CHECKING:
    from kglink.store.entity_reader import FoldedEntity


#: What tells that the names of a draft are whole.
NAMES_DONE = "names.json"
#: Entities read between two notes of progress.
_READ_TOGETHER = 4096
#: The folder of a draft that holds what the encoder reads of each entity.
READ = "read"


class Names(ManifestPart):
    """The names that a draft holds."""

    format: int = FORMAT
    rows: Counts
    """How many rows of each kind they need."""
    files: dict[str, FileInfo]
    model: ModelInfo
    """That which encodes them."""


def draft_names(draft: Path, plan: SegmentPlan, progress: OnProgress) -> Names:
    """Write the names of a draft where they are missing, else check them."""
    if (draft / NAMES_DONE).is_file():
        names = read_manifest(Names, draft / NAMES_DONE, newest=FORMAT)
        check_files(draft, names.files, thorough=True)
        return names
    if draft.exists():  # never write into files to which a segment may have links
        shutil.rmtree(draft)
    (draft / READ).mkdir(parents=True)
    source, below = plan.source, plan.below
    if below is None:
        told = partial(Progress, f"reading {source.kb}")
        counted = _write_names(draft, source.entities(), lambda done: progress(told(done)))
    else:
        if source.changes is None:
            raise ValueError(f"KB {source.kb!r} has no history")
        changes = source.changes(below.info.last_id, below.info.revision)
        counted = _write_names(draft, changes.entities)
        write_places(draft, below, StringTable(draft / "keys"), changes.removed)
    build_name_index(draft, draft / READ, below.names.idf if below else None)
    if plan.words:
        texts = DraftEntities(draft).words(plan.description_chars)
        build_word_index(draft, texts, draft / READ)
    sync_tree(draft)
    names = Names(rows=counted, files=measured(draft), model=plan.model)
    write_atomically(draft / NAMES_DONE, names.model_dump_json())
    return names


def measured(folder: Path, but: Collection[str] = ()) -> dict[str, FileInfo]:
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
        StringWriter(draft / READ / "entities") as read,
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


class DraftEntities(Sequence[Entity]):
    """The entities of a draft, with what an encoder may read of them."""

    def __init__(self, draft: Path) -> None:
        self._table = StringTable(draft / READ / "entities")

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, at: int) -> Entity:  # type: ignore[override]  # no slices: one each
        title, kind, description, surfaces = json.loads(self._table[at])
        aliases = tuple(Alias(surface) for surface in surfaces)
        return Entity("", title, description, kind, aliases=aliases)

    def words(self, description_chars: int) -> Iterator[str]:
        """For each all its names and its description, folded."""
        for one in self:
            names = dict.fromkeys((one.title, *(alias.surface for alias in one.aliases)))
            yield fold(" ".join((*names, one.description[:description_chars])))
