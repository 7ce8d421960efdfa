"""What `kglink eval --json` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.config import LinkSection
    from kglink.evaluation.kept import Comparison
    from kglink.evaluation.report import RetrievalReport
    from kglink.evaluation.retrieval import Question


def retrieval_record(
    asked_of: Mapping[str, object],
    question: Question,
    found: RetrievalReport,
    link: LinkSection,
) -> dict[str, object]:
    """An evaluation on documents."""
    return {
        "docs": ",".join(question.docs),
        "split": question.split,
        **asked_of,
        "evidence": link.evidence,
        "reranker": link.reranker,
        "counterparts": question.counterparts,
        "mentions_with_counterparts": found.with_counterparts,
        "depth": question.depth,
        "mentions": found.counts_as_json(),
        "metrics": found.as_json(),
        **found.slices_as_json(),
    }


def comparison_record(comparison: Comparison, comparisons: int, seed: int) -> dict[str, object]:
    """Tests of the differences to a kept evaluation."""
    from kglink.evaluation.rankings import JSON_KEYS
    from kglink.evaluation.significance import ALPHA

    kept = comparison.kept
    return {
        "file": str(comparison.path),
        "space": kept.space,
        "model": kept.model,
        "evidence": kept.evidence,
        "alpha": ALPHA,
        "comparisons": comparisons,
        "tests": {
            JSON_KEYS.get(pool, pool): {
                name: {
                    **test.as_json(),
                    "significant": test.is_significant(comparisons=comparisons),
                }
                for name, test in tests.items()
            }
            for pool, tests in comparison.tests(seed=seed).items()
        },
    }
