"""What the overlap room gets from a workspace: kept text vectors, the space, evidence, a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.errors import ConfigError
from kglink.files.atomic import write_atomically
from kglink.overlap.model import OverlapModel, default_model, read_model
from kglink.overlap.scratch import VectorCache
from kglink.overlap.search import OverlapTools, RowKind
from kglink.plugins import PairEvidence
from kglink.records import OnProgress
from kglink.space.segment import Segment
from kglink.store import Store
from kglink.workspace.folder import OVERLAP_MODEL_FILE, VECTORS_FOLDER
from kglink.workspace.joint_space import WorkspaceSpace, encoder_of
from kglink.workspace.opened import Opened

#: Where vectors for overlaps are that the space does not have; no space can be called so.
OVERLAP_SPACE = ".overlap"


class SegmentVectors:
    """A segment's rows of one kind as `kglink.plugins.EntityVectors`."""

    def __init__(self, segment: Segment, kind: RowKind) -> None:
        self._segment, self._kind = segment, kind
        self.keys: Sequence[str] = segment.keys
        self.owners = np.arange(len(self.keys))
        if kind == "alias":
            self.owners = np.repeat(self.owners, np.diff(segment.alias_starts))

    def rows(self, numbers: IntArray | slice) -> FloatArray:
        """Some rows."""
        return self._segment.vectors(self._kind, numbers)

    def find(self, keys: Sequence[str]) -> IntArray:
        """The number of each entity, -1 for a key that is not there."""
        return np.fromiter(map(self._segment.row, keys), np.int64, len(keys))


class WorkspaceVectors:
    """The joint space's vectors; a KB that lacks them is encoded where it is small enough."""

    def __init__(self, space: WorkspaceSpace, most_rows: int, progress: OnProgress) -> None:
        self._space, self._most_rows, self._progress = space, most_rows, progress
        self._segments: dict[str, Segment] = {}

    def at(self, store: Store) -> WorkspaceVectors:
        """The same vectors, of the KBs as ``store`` holds them."""
        return WorkspaceVectors(replace(self._space, store=store), self._most_rows, self._progress)

    def ready(self, kb: str) -> bool:
        """Whether a KB's vectors are there, or few enough to be made."""
        missing = self._space.missing_rows(kb)
        return missing is not None and missing <= self._most_rows

    def get(self, kb: str, rows: RowKind) -> SegmentVectors | None:
        """The vectors of a KB's rows of one kind."""
        segment = self._segments.get(kb)
        if segment is None and self.ready(kb):
            segment = self._space.segment(kb, progress=self._progress)
        if segment is None:
            return None
        self._segments[kb] = segment
        return SegmentVectors(segment, rows) if rows in segment.info.rows else None


def overlap_tools(opened: Opened, progress: OnProgress = lambda _: None) -> OverlapTools:
    """All that a search of this workspace works with."""
    root, settings = opened.folder, opened.settings.overlap
    space, registry = opened.joint_space, opened.registry
    encoder = encoder_of(settings.model, opened.settings.encoder, root)
    # What weighs the pairs was fitted with an untrained encoder, and a trained one moves together
    # what was accepted before.
    if encoder.trained:
        raise ConfigError(
            f"overlap.model = {settings.model!r} is a trained model",
            hint="Overlaps are found with an untrained encoder, such as minilm.",
        )
    info = encoder.info
    if space.encoder.info.fingerprint != info.fingerprint:
        space = replace(space, encoder=encoder, own_name=OVERLAP_SPACE)
    names, own = settings.evidence or default_model().evidence, settings.evidence_settings
    setting = "overlap.evidence_settings"
    checked = registry.settings_of_each("overlap-evidence", names, own, setting)

    def make(name: str) -> PairEvidence:
        return registry.create("overlap-evidence", name, checked[name])

    evidence = {name: partial(make, name) for name in checked}
    # The model that was trained here on this evidence, if one was.
    path = root / OVERLAP_MODEL_FILE
    model = read_model(path) if path.is_file() else None
    if model is None or set(model.evidence) != set(evidence):
        model = default_model(evidence)
    cache = root / VECTORS_FOLDER / f"{info.fingerprint[:16]}.db"
    return OverlapTools(
        store=opened.store,
        settings=settings,
        encode=VectorCache(cache, info.dim, space.encoder.encode).vectors,
        encoder=info.fingerprint,
        space=WorkspaceVectors(space, settings.max_encoded_rows, progress),
        evidence=evidence,
        model=model,
        device=space.encoder.device,
        kept=root / VECTORS_FOLDER,
    )


def keep_model(root: Path, model: OverlapModel) -> Path:
    """Keep a trained model in the place of an earlier one."""
    path = root / OVERLAP_MODEL_FILE
    write_atomically(path, model.to_json() + "\n")
    return path
