"""What a report of fine-tuned runs says, as plain values: every number of the page is here."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.errors import KglinkError, UsageError
from kglink.records import OnProgress
from kglink.workspace.folder import named
from kglink.workspace.shapes import comparison_shape, end_to_end_shape, evaluation_shape
from kglink.workspace.spaces import build_if_stale

if TYPE_CHECKING:
    from kglink.evaluation.measures.errors import Case
    from kglink.models import Encoder
    from kglink.workspace.opened import Opened
    from kglink.workspace.runs import WorkspaceRun

FORMAT = 1
#: The ranks of the recall curves.
KS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Entities that a map shows unless more are asked for: encoded before fine-tuning in a minute.
MAP_ENTITIES = 5000
#: Mentions of each reason that the browser of errors has.
MOST_CASES = 300
#: Points of a curve of losses: means of equal parts.
_MOST_LOSSES = 300
_SEED = 0


def report(
    opened: Opened,
    runs: str | Sequence[str],
    docs: str | Sequence[str] = (),
    *,
    split: str | None = None,
    map_entities: int = MAP_ENTITIES,
    progress: OnProgress = lambda _: None,
) -> dict[str, Any]:
    """All that a report of some runs says: settings, curves, figures, errors, a map.

    The spaces of the runs are evaluated on annotated documents: these, or those that the first
    run learnt from; their split test where all have one, else dev. Several runs are tested against
    the first. ``map_entities`` are shown on the map at most; 0: there is none.
    """
    from kglink.evaluation.retrieval import check_documents
    from kglink.workspace.publish import fit_to_held_back
    from kglink.workspace.report_map import map_of
    from kglink.workspace.runs import Runs

    names = named(runs)
    if not names:
        raise UsageError("a report needs a run", hint="`kglink runs` lists those there are.")
    known = Runs(opened.folder)
    found = [known.get(name) for name in names]
    given = named(docs)
    asked = _documents(opened, found[0], given)
    is_asked = bool(given) or split is not None
    split = _split(opened, asked, split)
    if is_asked:
        check_documents(opened.store, asked, split)
    shapes = []
    with tempfile.TemporaryDirectory(prefix="kglink-report-") as scratch:
        kept = Path(scratch) / "ranks.jsonl"
        for run in found:
            shape = _told(run)
            if run.spaces:
                other = opened.with_settings({"space.name": run.spaces[0]})
                build_if_stale(other)
                shape |= _fingerprints(other)
                if asked:
                    # A run of `kglink reproduce` was never published, and so never fitted.
                    fit_to_held_back(other, run.info.settings, progress)
                    shape |= _evaluated(other, asked, split, kept, len(found) - 1, progress)
                if map_entities:
                    before = _model_before(other, run)
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


def _documents(opened: Opened, run: WorkspaceRun, docs: tuple[str, ...]) -> tuple[str, ...]:
    from kglink.training.documents import sources_of_documents

    annotated = {info.name for info in opened.store.kbs() if info.mentions}
    learnt = sources_of_documents(opened.store, run.info.settings.docs)
    return docs or tuple(name for name in learnt if name in annotated)


def _split(opened: Opened, docs: Sequence[str], split: str | None) -> str:
    from kglink.evaluation.retrieval import judged_split

    if not docs:
        return split or ""
    if split is None and all(opened.store.count_documents(name, "test") for name in docs):
        return "test"
    return judged_split(opened.store, docs, split)


def _told(run: WorkspaceRun) -> dict[str, Any]:
    """What the folder of a run says."""
    told, report, lines = run.info.settings, run.info.report, run.curve.lines()
    losses = [line for line in lines if "loss" in line]
    return {
        **run.as_json(),
        "docs": list(told.docs),
        "hardware": asdict(told.hardware),
        "processes": told.processes,
        "libraries": dict(told.libraries),
        "settings": told.recipe.model_dump(mode="json"),
        "seconds": report.seconds if report else None,
        "stages": [dict(one) for one in report.stages] if report else [],
        "notes": list(report.notes) if report else [],
        "before": dict(report.before) if report and report.before else None,
        "losses": {
            stage: _thinned([line for line in losses if line["stage"] == stage])
            for stage in dict.fromkeys(line["stage"] for line in losses)
        },
        "epochs": [
            {
                key: line[key]
                for key in ("stage", "epoch", "total", "mean", "epoch_loss", "best")
                if key in line
            }
            for line in lines
            if "mean" in line
        ],
        "space": None,
        "retrieval": None,
        "end_to_end": None,
        "errors": None,
        "cases": [],
        "map": None,
    }


def _thinned(lines: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Steps and losses: means of equal parts, where there are many."""
    count = min(len(lines), _MOST_LOSSES)
    bounds = [at * len(lines) // count for at in range(count + 1)] if count else []
    parts = [lines[start:stop] for start, stop in pairwise(bounds)]
    return [(one[-1]["total"], sum(line["loss"] for line in one) / len(one)) for one in parts]


def _fingerprints(other: Opened) -> dict[str, Any]:
    manifest = other.space().manifest
    return {
        "space": manifest.name,
        "model": manifest.model.name,
        "fingerprints": {
            "model": manifest.model.fingerprint,
            **{f"KB {kb}": name for kb, name in manifest.segments.items()},
        },
        "revisions": dict(manifest.revisions),
    }


def _evaluated(
    other: Opened,
    docs: tuple[str, ...],
    split: str,
    kept: Path,
    comparisons: int,
    progress: OnProgress,
) -> dict[str, Any]:
    """Retrieval, whole answers and their errors; the first run's ranks are kept for the others."""
    from kglink.evaluation.kept import Comparison, KeptWriter
    from kglink.evaluation.retrieval import Question
    from kglink.workspace.evaluate import error_analysis
    from kglink.workspace.judging import EndToEnd, evaluate, evaluate_end_to_end, evaluated

    question = Question(docs, split, (), KS, domains=True)
    facts = evaluated(other, question)
    comparison = Comparison(kept, facts, (1, 8, 64)) if kept.exists() else None
    if comparison is not None:
        ranked = evaluate(other, question, progress=progress, each=comparison.add)
        comparison.finish()
    else:
        with kept.open("w", encoding="utf-8") as out:
            writer = KeptWriter(out, facts)
            ranked = evaluate(other, question, progress=progress, each=writer.add)
    raw = EndToEnd(docs, split, per_kb=False)
    cases: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()

    def keep(case: Case) -> None:
        if case.reason is not None:
            counts[case.reason] += 1
            if counts[case.reason] <= MOST_CASES:
                cases.append(case.as_json())

    analysis = error_analysis(other, raw, each=keep)
    linked = evaluate_end_to_end(other, raw, progress=progress, each=analysis.add_answers)
    name = other.settings.space.name
    return {
        "retrieval": evaluation_shape(question, ranked, other.settings.link),
        "against_first": comparison_shape(comparison, max(comparisons, 1), _SEED)["tests"]
        if comparison
        else None,
        "end_to_end": end_to_end_shape(raw, linked, name),
        "errors": analysis.finish().as_json(),
        "cases": cases,
    }


def _model_before(other: Opened, run: WorkspaceRun) -> Encoder | None:
    """The model that a run started from; None where it is not there any more."""
    from kglink.workspace.joint_space import encoder_of

    base = run.info.settings.recipe.model.base
    encoder = encoder_of(base, other.settings.encoder, other.folder)
    try:
        _ = encoder.info
    except KglinkError:
        return None
    return encoder
