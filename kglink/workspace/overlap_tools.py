"""What the overlap room gets from a workspace: kept text vectors, the space, evidence, a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kglink.config import OverlapSection
from kglink.errors import ConfigError
from kglink.files.atomic import write_atomically
from kglink.models import Encoder
from kglink.overlap.model import OverlapModel, default_model, read_model
from kglink.overlap.scratch import RowKind
from kglink.overlap.search import OverlapTools
from kglink.overlap.vectors import VectorCache
from kglink.plugins import PairEvidence, PluginSettings, Registry
from kglink.records import OnProgress
from kglink.space.segment import Segment
from kglink.store import Store
from kglink.workspace.folder import OVERLAP_MODEL_FILE, VECTORS_FOLDER
from kglink.workspace.joint_space import WorkspaceSpace, encoder_of

#: Where vectors for overlaps are that the space does not have; no space can be called so.
OVERLAP_SPACE = ".overlap"

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class SegmentVectors:
    """A segment's rows of one kind as `kglink.plugins.EntityVectors`."""

    def __init__(self, segment: Segment, kind: RowKind) -> None:
        self._segment = segment
        self._kind = kind
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
        self._space = space
        self._most_rows = most_rows
        self._progress = progress
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
        if segment is None:
            made = self._space.segment(kb, progress=self._progress) if self.ready(kb) else None
            if made is None:
                return None
            segment = made
            self._segments[kb] = segment
        return SegmentVectors(segment, rows) if rows in segment.info.rows else None


def overlap_space(space: WorkspaceSpace) -> WorkspaceSpace:
    """Whose vectors are compared: those of the space, or of one beside it where its model differs.

    What weighs the pairs was fitted with an untrained encoder, and a trained one moves together
    what was accepted before.
    """
    values = space.resolved.values
    encoder = encoder_of(values.overlap.model, values.encoder, space.root)
    if encoder.trained:
        raise ConfigError(
            f"overlap.model = {values.overlap.model!r} is a trained model",
            hint="Overlaps are found with an untrained encoder, such as minilm.",
        )
    if space.encoder.info.fingerprint == encoder.info.fingerprint:
        return space
    return replace(space, encoder=encoder, own_name=OVERLAP_SPACE)


def overlap_tools(
    root: Path,
    store: Store,
    settings: OverlapSection,
    encoder: Encoder,
    space: WorkspaceSpace,
    registry: Registry,
    *,
    progress: OnProgress = lambda _: None,
) -> OverlapTools:
    """All that a search of this workspace works with."""
    default = default_model()
    evidence = evidence_makers(registry, settings.evidence or default.evidence, settings)
    info = encoder.info
    texts = VectorCache(
        root / VECTORS_FOLDER / f"{info.fingerprint[:16]}.db", info.dim, encoder.encode
    )
    return OverlapTools(
        store=store,
        settings=settings,
        encode=texts.vectors,
        encoder=info.fingerprint,
        space=WorkspaceVectors(space, settings.max_encoded_rows, progress),
        evidence=evidence,
        model=trained_model(root, tuple(evidence)) or default_model(evidence),
        device=encoder.device,
    )


def evidence_makers(
    registry: Registry, names: Sequence[str], settings: OverlapSection
) -> dict[str, Callable[[], PairEvidence]]:
    """Makes each kind of evidence anew, by full name; all names and settings are checked now."""
    checked = registry.settings_of_each(
        "overlap-evidence", names, settings.evidence_settings, "overlap.evidence_settings"
    )
    return {name: partial(_make, registry, name, value) for name, value in checked.items()}


def _make(registry: Registry, name: str, settings: PluginSettings) -> PairEvidence:
    return registry.create("overlap-evidence", name, settings)


def trained_model(root: Path, evidence: tuple[str, ...]) -> OverlapModel | None:
    """The model that was trained here on this evidence."""
    path = root / OVERLAP_MODEL_FILE
    if not path.is_file():
        return None
    model = read_model(path)
    return model if set(model.evidence) == set(evidence) else None


def keep_model(root: Path, model: OverlapModel) -> Path:
    """Keep a trained model in the place of an earlier one."""
    path = root / OVERLAP_MODEL_FILE
    write_atomically(path, model.to_json() + "\n")
    return path
