"""What a run learns from, prepared once: entities, mentions and overlaps as numbers on disk."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kglink.files.atomic import write_atomically
from kglink.files.tables import IntArray, RowTable, map_array, write_rows
from kglink.models.inputs import Inputs
from kglink.records import OnProgress
from kglink.store import Store
from kglink.training.mentions import TRAIN, VALID, MentionCounts, MentionTable, write_mentions
from kglink.training.pool import EntityPool, PooledKB, write_pool
from kglink.training.recipe import Recipe
from kglink.training.run import DATA_FACTS

#: The folder of the texts as a teacher reads them.
TEACHER = "teacher"


class KBChoice(NamedTuple):
    """Source and target KBs of a run."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All KBs, in the order of the pool."""
        return (*self.sources, *self.targets)

    def of(self, letter: str) -> tuple[str, ...]:
        """The KBs whose mentions stage S, or T, learns from."""
        return self.sources if letter == "S" else self.targets


class TrainingData:
    """The prepared data of a run."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / DATA_FACTS).read_text(encoding="utf-8"))
        self.fingerprints: dict[str, Any] = facts
        self.kbs = KBChoice(tuple(facts["source_kbs"]), tuple(facts["target_kbs"]))
        self.pool = EntityPool(folder, [PooledKB(**kb) for kb in facts["kbs"]])
        self.counts = [MentionCounts(**one) for one in facts["documents"]]
        self.train = MentionTable(folder, TRAIN)
        self.annotated = len(self.train) - int(facts["names"])
        """Mentions of documents stand before names."""
        self.valid = MentionTable(folder, VALID)
        self.pairs: IntArray = map_array(folder / "pairs.npy")
        self._counterparts = RowTable(folder / "counterparts", np.int64)

    def counterparts(self, rows: Sequence[int] | frozenset[int]) -> frozenset[int]:
        """Entities of other KBs that are the same thing."""
        return frozenset(other for row in rows for other in self._counterparts[row].tolist())


def prepare(
    folder: Path,
    store: Store,
    recipe: Recipe,
    kbs: KBChoice,
    inputs: Inputs,
    *,
    docs: Sequence[str] = (),
    teacher: Inputs | None = None,
    progress: OnProgress = lambda _: None,
) -> TrainingData:
    """Read entities, mentions and overlaps from the store; replaces what is in the folder.

    ``teacher``: entities and mentions are also written as a teacher reads them, in ``teacher/``.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with store.snapshot() as seen:
        pooled = write_pool(folder, seen, kbs.all, inputs, recipe.domain, progress)
        pool = EntityPool(folder, pooled)
        rest = recipe.selection, recipe.seed
        counts, names, digest = write_mentions(
            *(folder, seen, pool, inputs, *rest),
            docs=docs,
            with_names=recipe.learns_names,
            progress=progress,
        )
        if teacher is not None:
            own = folder / TEACHER
            own.mkdir()
            write_pool(own, seen, kbs.all, teacher, recipe.domain, progress)
            write_mentions(own, seen, pool, teacher, *rest, docs=docs, progress=progress)
        overlaps = _write_overlaps(folder, seen, pool, kbs, recipe.overlap.min_probability)
    facts = {
        "source_kbs": kbs.sources,
        "target_kbs": kbs.targets,
        "kbs": [kb._asdict() for kb in pooled],
        "documents": [one._asdict() for one in counts],
        "names": names,
        "mentions": digest,
        "overlaps": overlaps,
    }
    write_atomically(folder / DATA_FACTS, json.dumps(facts, indent=1))
    return TrainingData(folder)


def _write_overlaps(
    folder: Path, store: Store, pool: EntityPool, kbs: KBChoice, least: float
) -> str:
    """Write the accepted pairs and the counterparts of each row; returns a digest."""
    found = [
        (pool.row(overlap.left), pool.row(overlap.right))
        for left, right in combinations(kbs.all, 2)
        for overlap in store.overlaps(left, right)
        if overlap.is_accepted(least)
    ]
    known = sorted(pair for pair in found if min(pair) >= 0)
    pairs = np.array(known, np.int64).reshape(-1, 2)
    first_target = pool.kb(kbs.targets[0]).start if kbs.targets else len(pool)
    between = (pairs[:, 0] < first_target) & (pairs[:, 1] >= first_target)
    np.save(folder / "pairs.npy", pairs[between])
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    bounds = np.searchsorted(both[:, 0], np.arange(len(pool) + 1))
    write_rows(folder / "counterparts", both[:, 1], bounds)
    return hashlib.sha256(pairs.tobytes()).hexdigest()[:16]
