"""The JSON that commands print, of values whose own rooms do not know it.

Other values have a method ``as_json``. The shapes are stable: programs read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kglink.config import LinkSection
    from kglink.evaluation.kept import AnswerComparison, Comparison
    from kglink.evaluation.measures.end_to_end import EndToEndReport
    from kglink.evaluation.measures.overlaps import OverlapTest
    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.evaluation.retrieval import Question
    from kglink.evaluation.significance import RandomizationTest
    from kglink.overlap.search import Training
    from kglink.plugins import Provider, Registry
    from kglink.records import Candidate, Entity, EntityId
    from kglink.space.index import IndexChange
    from kglink.training.detector import DetectorReport
    from kglink.training.reranker import RerankerReport
    from kglink.workspace.finetune import Finetuned
    from kglink.workspace.judging import EndToEnd
    from kglink.workspace.runs import WorkspaceRun

Shape = dict[str, Any]


def overlap_model_shape(trained: Training) -> Shape:
    """What was learnt from verdicts."""
    return {
        "correct": trained.correct,
        "wrong": trained.wrong,
        "rivals": trained.rivals,
        "kbs": [list(pair) for pair in trained.kbs],
        "bias": trained.model.bias,
        "weights": {name: one.model_dump() for name, one in trained.model.weights.items()},
    }


def found_shape(found: Iterable[Candidate], entities: Mapping[EntityId, Entity]) -> list[Shape]:
    """What a search found; ``entities`` are those of it that the store still has."""
    return [
        {
            "kb": one.id.kb,
            "key": one.id.key,
            "title": one.title,
            "score": round(one.score, 5),
            "url": entities[one.id].url if one.id in entities else "",
            "evidence": one.evidence,
        }
        for one in found
    ]


def index_change_shape(change: IndexChange) -> Shape:
    """Another index of a space."""
    manifest = change.manifest
    return {
        "index": manifest.index,
        "index_settings": manifest.index_settings,
        "before": {"index": change.before.name, "index_settings": dict(change.before.settings)},
        "rebuilt": change.rebuilt,
        "build_seconds": change.seconds,
        "bytes": manifest.index_bytes,
    }


def evaluation_shape(question: Question, found: RetrievalReport, link: LinkSection) -> Shape:
    """An evaluation on documents, without the space that it is of."""
    return {
        "docs": ",".join(question.docs),
        "split": question.split,
        "evidence": link.evidence if question.candidates is None else None,
        "reranker": link.reranker,
        "counterparts": question.counterparts,
        "mentions_with_counterparts": found.with_counterparts,
        "depth": question.depth,
        "mentions": found.counts_as_json(),
        "metrics": found.as_json(),
        "intervals": found.intervals_as_json(),
        "accuracy": found.accuracies_as_json(),
        **({} if question.candidates is None else {"candidates": str(question.candidates)}),
        **found.slices_as_json(),
    }


def overlap_tests_shape(space: str, tests: Sequence[OverlapTest], comparisons: int) -> Shape:
    """Tests of the differences of MRR and ACS to another space."""
    from kglink.evaluation.significance import ALPHA

    return {
        "space": space,
        "alpha": ALPHA / comparisons,
        "tests": [
            {**one.as_json(), "significant": one.test.is_significant(comparisons=comparisons)}
            for one in tests
        ],
    }


def comparison_shape(
    comparison: Comparison | AnswerComparison,
    comparisons: int,
    seed: int,
    *,
    complete: bool | None = None,
) -> Shape:
    """Tests of the differences to a kept evaluation.

    ``complete`` says of whole answers whether F1 is compared, or recall.
    """
    from kglink.evaluation.kept import Comparison
    from kglink.evaluation.rankings import JSON_KEYS
    from kglink.evaluation.significance import ALPHA

    def told(tests: Mapping[str, RandomizationTest]) -> Shape:
        return {
            name: {**test.as_json(), "significant": test.is_significant(comparisons=comparisons)}
            for name, test in tests.items()
        }

    kept = comparison.kept
    shape: Shape = {
        "file": str(comparison.path),
        "space": kept.space,
        "model": kept.model,
        "evidence": kept.evidence,
        "alpha": ALPHA,
        "comparisons": comparisons,
    }
    if isinstance(comparison, Comparison):
        pools = comparison.tests(seed=seed).items()
        return {**shape, "tests": {JSON_KEYS.get(pool, pool): told(one) for pool, one in pools}}
    tests = told(comparison.tests(complete=bool(complete), seed=seed))
    return {**shape, "figure": "f1" if complete else "recall", "tests": tests}


def end_to_end_shape(question: EndToEnd, report: EndToEndReport, space: str) -> Shape:
    """An evaluation from raw text to links."""
    return {
        "protocol": "end to end",
        "docs": ",".join(question.docs),
        "split": question.split,
        "space": None if question.predictions else space,
        "predictions": str(question.predictions) if question.predictions else None,
        "counterparts": question.counterparts,
        **report.as_json(),
    }


def run_shape(run: WorkspaceRun) -> Shape:
    """One run with all its settings, and its curve."""
    told = run.info.settings
    settings = {
        "recipe": told.recipe.model_dump(mode="json"),
        "docs": list(told.docs),
        "hardware": asdict(told.hardware),
        "processes": told.processes,
        "libraries": told.libraries,
    }
    return {**run.as_json(), "settings": settings, "curve": run.curve.lines()}


def finetuned_shape(done: Finetuned) -> Shape:
    """A fine-tuning, and the space that was built with its model."""
    manifest = done.build.manifest if done.build else None
    return {
        "run": done.report.folder.name,
        **done.report.as_json(),
        "before": done.before,
        "after": done.after,
        "space": manifest.name if manifest else None,
        "unpublished": done.refused or None,
        "kbs": list(manifest.kbs) if manifest else None,
        "encoded_rows": done.build.encoded_rows if done.build else None,
        "scoring": asdict(done.scoring) if done.scoring else None,
        "answers": done.replacement.as_json() if done.replacement else None,
        "detector": _detector_shape(done.detector) if done.detector else None,
        "reranker": _reranker_shape(done.reranker) if done.reranker else None,
    }


def _reranker_shape(reranker: RerankerReport) -> Shape:
    """A trained reranker; the figures are those of held-out mentions."""
    compared = reranker.manifest.compared
    return {
        "folder": str(reranker.folder),
        "documents": list(reranker.manifest.documents),
        "right": reranker.right,
        "compared": compared.model_dump() if compared else None,
    }


def _detector_shape(detector: DetectorReport) -> Shape:
    """A trained detector; its figures are those of held-out documents."""
    manifest, best = detector.manifest, detector.held_out
    return {
        "folder": str(detector.folder),
        "documents": list(manifest.documents),
        "types": list(manifest.types),
        "texts": len(detector.texts.train),
        "held_out": len(detector.texts.held_out),
        "precision": best.precision,
        "recall": best.recall,
        "f1": best.f1,
        "dictionary_f1": manifest.compared.dictionary if manifest.compared else None,
        "elsewhere": {name: one.model_dump() for name, one in manifest.elsewhere.items()},
        "used": manifest.is_better,
    }


def plugin_shapes(registry: Registry) -> list[Shape]:
    """All plugins, then the modules that bring recipes, commands or pages."""
    from kglink.plugins import find_modules, setting_keys

    rows = [
        {
            "kind": plugin.kind,
            "name": plugin.name,
            "summary": plugin.summary,
            "extra": plugin.extra,
            "settings": setting_keys(plugin.settings),
            **_origin(plugin.provider),
        }
        for plugin in registry.plugins()
    ]
    nothing: Shape = {"summary": "", "extra": "", "settings": []}
    for group in ("kglink.recipes", "kglink.commands"):
        for module in find_modules(group):
            kind = group.removeprefix("kglink.")
            row = {"kind": kind, "name": module.provider.module, **nothing}
            rows.append(row | _origin(module.provider))
    return rows


def _origin(provider: Provider) -> Shape:
    return {
        "module": provider.module,
        "distribution": provider.distribution,
        "version": provider.version,
        "builtin": provider.builtin,
    }
