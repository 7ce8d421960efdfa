"""What a report of fine-tuned runs says, as plain values: every number of the page is here."""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kglink.arrays import FloatArray
from kglink.errors import KglinkError, UsageError
from kglink.evaluation.comparison import Comparison, KeptWriter
from kglink.evaluation.measures.errors import Case
from kglink.evaluation.retrieval import Question, check_documents, judged_split
from kglink.models import Encoder
from kglink.records import Entity, EntityId, OnProgress, Progress
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.entity_text import entity_text
from kglink.training.documents import sources_of_documents
from kglink.training.run import recalls_of_epoch
from kglink.workspace.evaluate import error_analysis
from kglink.workspace.folder import MAP_ENTITIES, named
from kglink.workspace.joint_space import encoder_of
from kglink.workspace.judging import evaluated, judge, judge_rankings, report_as_json
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build_if_stale
from kglink.workspace.training import WorkspaceRun
from kglink.workspace.training import run as run_of

FORMAT = 1
#: The ranks of the recall curves.
KS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Mentions of each reason that the browser of errors has.
MOST_CASES = 300
#: Points of a curve of losses: means of equal parts.
_MOST_LOSSES = 300
_SEED = 0
_OF_EPOCH = ("stage", "epoch", "total", "mean", "epoch_loss", "best")


def report(
    opened: Opened,
    runs: str | Sequence[str],
    docs: str | Sequence[str] = (),
    *,
    split: str | None = None,
    map_entities: int = MAP_ENTITIES,
    progress: OnProgress = lambda _: None,
) -> dict[str, Any]:
    """The content of a report on runs: settings, curves, figures, errors, a map.

    The spaces of the runs are evaluated on ``docs``, or on the documents that the first run learnt
    from; on their split test if all have one, else dev. Several runs are tested against the first.
    ``map_entities`` is the most that the map shows; 0: no map.
    """
    from kglink.workspace.publish import fit_to_held_back

    names = named(runs)
    if not names:
        raise UsageError("a report needs a run", hint="`kglink runs` lists those there are.")
    found = [run_of(opened, name) for name in names]
    asked, split = _judged_documents(opened, found[0], named(docs), split)
    shapes = []
    comparisons = max(1, sum(bool(run.spaces) for run in found) - 1)
    with tempfile.TemporaryDirectory(prefix="kglink-report-") as scratch:
        kept = Path(scratch) / "ranks.jsonl"
        for run in found:
            shape = _of_folder(run)
            if run.spaces:
                other = opened.with_settings({"space.name": run.spaces[0]})
                build_if_stale(other)
                manifest = other.space().manifest
                made_of = {f"KB {kb}": name for kb, name in manifest.segments.items()}
                shape |= {
                    "space": manifest.name,
                    "model": manifest.model.name,
                    "fingerprints": {"model": manifest.model.fingerprint, **made_of},
                    "revisions": dict(manifest.revisions),
                }
                if asked:
                    # A run of `kglink reproduce` was never published, and so never fitted.
                    fit_to_held_back(other, run.info.settings, progress)
                    shape |= _evaluated(other, asked, split, kept, comparisons, progress)
                if map_entities:
                    base = run.info.settings.recipe.model.base
                    encoder = encoder_of(base, other.settings.encoder, other.folder)
                    before: Encoder | None = None
                    with suppress(KglinkError):  # it may not be there any more
                        before = encoder if encoder.info else None
                    parts = (other.store, other.space(), before, map_entities)
                    shape["map"] = map_of(*parts, progress)
            shapes.append(shape)
    if not any(shape["retrieval"] for shape in shapes):
        asked, split = (), ""  # no run has a space that could be judged
    return {
        "format": FORMAT,
        "kglink": found[0].info.settings.libraries.get("kglink", ""),
        "docs": list(asked),
        "split": split,
        "kbs": [
            {"name": one.name, "entities": one.entities, "revision": one.revision}
            for one in opened.store.kbs()
            if one.entities
        ],
        "runs": shapes,
    }


def _judged_documents(
    opened: Opened, run: WorkspaceRun, docs: tuple[str, ...], split: str | None
) -> tuple[tuple[str, ...], str]:
    """These documents, else those that a run learnt from; their split test, else dev."""
    store, is_asked = opened.store, bool(docs) or split is not None
    if not docs:
        annotated = {info.name for info in store.kbs() if info.mentions}
        learnt = sources_of_documents(store, run.info.settings.docs)
        docs = tuple(name for name in learnt if name in annotated)
    if split is None and docs and all(store.count_documents(name, "test") for name in docs):
        split = "test"
    chosen = judged_split(store, docs, split) if docs else split or ""
    if is_asked:
        check_documents(store, docs, chosen)
    return docs, chosen


def _of_folder(run: WorkspaceRun) -> dict[str, Any]:
    settings, report, lines = run.info.settings, run.info.report, run.curve.lines()
    losses = [line for line in lines if "loss" in line]
    judged = [line for line in lines if "mean" in line]
    first = recalls_of_epoch(run.info.folder, judged[0]["stage"], 0) if judged else None
    before = report.before if report else first
    return {
        **run.as_json(),
        "docs": list(settings.docs),
        "hardware": asdict(settings.hardware),
        "processes": settings.processes,
        "libraries": dict(settings.libraries),
        "settings": settings.recipe.model_dump(mode="json"),
        "seconds": report.seconds if report else None,
        "stages": [dict(one) for one in report.stages] if report else [],
        "notes": list(report.notes) if report else [],
        "before": dict(before) if before else None,
        # Before the end of its first epoch a run knows no other recall than that of before.
        "recalls": run.info.recalls if report or judged[1:] else None,
        "losses": {
            stage: _thinned([line for line in losses if line["stage"] == stage])
            for stage in dict.fromkeys(line["stage"] for line in losses)
        },
        "epochs": [{key: line[key] for key in _OF_EPOCH if key in line} for line in judged],
        **dict.fromkeys(("space", "retrieval", "end_to_end", "errors")),
        "cases": [],
        "map": None,
    }


def _thinned(lines: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Steps and losses: means of equal parts, where there are many."""
    count = min(len(lines), _MOST_LOSSES)
    bounds = [at * len(lines) // count for at in range(count + 1)] if count else []
    parts = [lines[start:stop] for start, stop in pairwise(bounds)]
    return [(one[-1]["total"], sum(line["loss"] for line in one) / len(one)) for one in parts]


def _evaluated(
    other: Opened,
    docs: tuple[str, ...],
    split: str,
    kept: Path,
    comparisons: int,
    progress: OnProgress,
) -> dict[str, Any]:
    """Retrieval, whole answers and their errors; the first run's ranks are kept for the others."""
    question = Question(docs, split, ks=KS, domains=True)
    facts = evaluated(other, question)
    comparison = Comparison(kept, facts, (1, 8, 64)) if kept.exists() else None
    if comparison is not None:
        ranked = judge_rankings(other, question, progress=progress, each=comparison.add_ranked)
        comparison.finish()
    else:
        with kept.open("w", encoding="utf-8") as out:
            writer = KeptWriter(out, facts)
            ranked = judge_rankings(other, question, progress=progress, each=writer.add_ranked)
    raw = Question(docs, split, end_to_end=True, per_kb=False)
    cases: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()

    def keep(case: Case) -> None:
        if case.reason is not None:
            counts[case.reason] += 1
            if counts[case.reason] <= MOST_CASES:
                cases.append(case.as_json())

    analysis = error_analysis(other, raw, each=keep)
    linked = judge(other, raw, [analysis], progress)
    against = comparison.as_json(comparisons, _SEED)["tests"] if comparison else None
    return {
        "retrieval": report_as_json(other, question, ranked),
        "against_first": against,
        "end_to_end": report_as_json(other, raw, linked),
        "errors": analysis.finish().as_json(),
        "cases": cases,
    }


#: Coordinates are kept as whole numbers up to this one.
_MOST = 32767
_BATCH = 1024


def project(vectors: FloatArray) -> tuple[FloatArray, tuple[float, float]]:
    """The first two principal components of some vectors, signs fixed by the largest loading.

    With the share of their variance that each of the two shows.
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    covariance = (centred.T @ centred).astype(np.float64)
    values, axes = np.linalg.eigh(covariance)
    axes = axes[:, ::-1][:, :2]
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.where(axes[largest, [0, 1]] < 0, -1.0, 1.0)
    whole = float(values.sum()) or 1.0
    shares = float(max(values[-1], 0.0)) / whole, float(max(values[-2], 0.0)) / whole
    return centred @ axes.astype(np.float32), shares


def turned_onto(points: FloatArray, target: FloatArray) -> FloatArray:
    """Points turned, or mirrored, so that they lie on their targets as well as they can."""
    left, _, right = np.linalg.svd(points.T.astype(np.float64) @ target.astype(np.float64))
    turned: FloatArray = (points @ (left @ right)).astype(np.float32)
    return turned


def map_of(
    store: Store,
    space: Space,
    before: Encoder | None,
    most: int,
    progress: OnProgress = lambda _: None,
) -> dict[str, Any] | None:
    """The map as a report keeps it; None where fewer than three entities have a text vector.

    Before and after fine-tuning the same entities are shown, each side by its own first two
    principal components; the second map is turned or mirrored (orthogonal Procrustes) onto the
    first as well as it can, since the signs and the order of components mean nothing.
    ``before`` is the model that the run started from; it encodes the shown entities once.
    """
    kbs = [kb for kb, segment in space.segments.items() if segment.row_count("text")]
    pairs = [
        (one.left, one.right)
        for left, right in combinations(sorted(kbs), 2)
        for one in store.overlaps(left, right)
        if one.is_accepted(0.5)
    ]
    total = sum(space.segments[kb].row_count("text") for kb in kbs)
    rows = {kb: _chosen(space.segments[kb], kb, pairs, most, total) for kb in kbs}
    ids = [EntityId(kb, key) for kb in kbs for key in space.segments[kb].keys.take(rows[kb])]
    if len(ids) < 3:
        return None
    after = np.concatenate([space.segments[kb].vectors("text", rows[kb]) for kb in kbs])
    places = {entity: at for at, entity in enumerate(ids)}
    shown = [(places[one], places[other]) for one, other in pairs if {one, other} <= places.keys()]
    points, shares = project(after)
    found: dict[str, Any] = {
        "method": "principal component analysis (PCA)",
        "entities": total,
        "shown": len(ids),
        "kbs": kbs,
        "counts": [len(rows[kb]) for kb in kbs],
        "keys": [entity.key for entity in ids],
        "titles": [title for kb in kbs for title in space.segments[kb].titles.take(rows[kb])],
        "pairs": _packed(np.array(shown, np.uint32).reshape(-1, 2)),
        "pair_count": len(shown),
        "before": None,
    }
    if before is not None:
        # What a model makes of entities, as it would for a space.
        def encoded(some: list[Entity]) -> FloatArray:
            if before.trained is None:
                return before.encode([entity_text(one) for one in some])
            return before.encode_entities(some)

        parts = []
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            known = store.get_entities(batch)
            parts.append(encoded([known.get(one) or Entity(one.key, one.key) for one in batch]))
            progress(Progress("the map, before", start + len(batch), len(ids)))
        vectors = np.concatenate(parts)
        old, old_shares = project(vectors)
        found["before"] = _side(old, old_shares, vectors, shown)
        points = turned_onto(points, old)
    return found | {"after": _side(points, shares, after, shown)}


def _chosen(
    segment: Segment, kb: str, pairs: Iterable[tuple[EntityId, EntityId]], most: int, total: int
) -> npt.NDArray[np.int64]:
    """Rows of a KB: all, or its share of ``most``: half members of overlaps, the rest evenly."""
    count = segment.row_count("text")
    if total <= most:
        return np.arange(count)
    share = max(1, most * count // total)
    members = dict.fromkeys(
        row for pair in pairs for one in pair if one.kb == kb and (row := segment.row(one.key)) >= 0
    )
    first = sorted(members)[: share // 2]
    evenly = np.linspace(0, count - 1, share - len(first)).astype(np.int64)
    return np.unique(np.concatenate([np.array(first, np.int64), evenly]))


def _side(
    points: FloatArray,
    shares: tuple[float, float],
    vectors: FloatArray,
    pairs: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    scale = float(np.abs(points).max()) or 1.0
    left, right = (vectors[[pair[side] for pair in pairs]] for side in (0, 1))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines = (left * right).sum(axis=1) / np.maximum(lengths, 1e-12)
    return {
        "points": _packed(np.rint(points / scale * _MOST).astype(np.int16)),
        "variance": list(shares),
        "acs": float(cosines.mean()) if len(pairs) else None,
    }


def _packed(values: npt.NDArray[Any]) -> str:
    """Numbers in their order, little-endian, as base64."""
    return base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()
