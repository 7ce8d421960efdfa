"""What `kglink eval` judges, keeps, compares and prints, once its options are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kglink.workspace.outputs import whole_file
from kglink_cli.build import ensure_space
from kglink_cli.console import Table, TableFormat, note, print_json, progress, write_tables
from kglink_cli.evaluation_tables import (
    accuracy_table,
    clusters_table,
    comparison_table,
    domains_table,
    end_to_end_table,
    errors_table,
    overlap_tests_table,
    overlaps_table,
    recall_table,
    slices_tables,
)
from kglink_cli.session import tell_reranker, tell_stages

if TYPE_CHECKING:
    from kglink.evaluation.comparison import AnswerComparison, Comparison
    from kglink.evaluation.measures.end_to_end import EndToEndReport
    from kglink.evaluation.measures.errors import Case
    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace


class Wanted(NamedTuple):
    """What is wanted of an evaluation besides its figures, and how all of it is shown."""

    keep: Path | None
    against: Path | None
    errors: bool
    errors_to: Path | None
    clusters: bool
    overlaps: str | None
    """None: do not measure overlaps; else a space to compare with, or empty."""
    form: TableFormat
    intervals: bool
    comparisons: int
    seed: int
    as_json: bool


def judge(workspace: Workspace, question: Question, wanted: Wanted) -> None:
    """Judge rankings or whole answers, and overlaps, and print what was found."""
    from kglink.workspace.judging import kbs_of

    if question.file is None or wanted.overlaps is not None:
        ensure_space(workspace)
        if not question.end_to_end:
            tell_reranker(workspace)
    record: dict[str, Any] = {}
    if not question.end_to_end:
        space = None if question.file else workspace.settings.space.name
        record = {"space": space, "kbs": list(kbs_of(workspace, question))}
    tables, comparison = [], None
    if question.docs:
        own, shown, comparison = _judged(workspace, question, wanted)
        record |= own
        tables += shown
    if wanted.overlaps is not None:
        tables += _overlaps(workspace, question, wanted.overlaps, wanted, record)
    if comparison is not None:
        record["against"] = comparison.as_json(wanted.comparisons, wanted.seed)
        tables.append(comparison_table(comparison, wanted.comparisons, wanted.seed))
    tell_stages(workspace)
    if wanted.as_json:
        print_json(record)
    else:
        write_tables(tables, wanted.form)


def _judged(
    workspace: Workspace, question: Question, wanted: Wanted
) -> tuple[dict[str, Any], list[Table], Comparison | AnswerComparison | None]:
    """Judge all mentions or texts, each of which goes to what is wanted besides."""
    from kglink.evaluation.comparison import AnswerComparison, Comparison, KeptWriter
    from kglink.workspace.evaluate import cluster_figures, coreference, error_analysis
    from kglink.workspace.judging import evaluated, judge, report_as_json

    analysis = clusters = None
    comparison: Comparison | AnswerComparison | None = None
    with ExitStack() as stack:
        sinks: list[Any] = []
        if wanted.errors:
            path = wanted.errors_to
            out = stack.enter_context(whole_file(workspace, path)) if path else None
            analysis = error_analysis(workspace, question, each=partial(_write_case, out))
            sinks.append(analysis)
        if wanted.clusters:
            clusters = coreference(workspace, question)
            sinks.append(clusters)
        if wanted.against is not None:
            facts = evaluated(workspace, question)
            comparison = (
                AnswerComparison(wanted.against, facts)
                if question.end_to_end
                else Comparison(wanted.against, facts, question.ks)
            )
            sinks.append(comparison)
        if wanted.keep is not None:
            kept = stack.enter_context(whole_file(workspace, wanted.keep))
            sinks.append(KeptWriter(kept, evaluated(workspace, question)))
        with progress() as show:
            report = judge(workspace, question, sinks, show)
        if comparison is not None:
            comparison.finish()
        record = report_as_json(workspace, question, report)
        if isinstance(comparison, AnswerComparison):
            comparison.complete = record["complete"]
        tables = list(_tables(report, question, wanted))
        if analysis is not None:
            record["errors"] = analysis.finish().as_json()
            tables.append(errors_table(record["errors"]))
        if clusters is not None:
            vectors = not question.end_to_end and question.file is None
            figures = cluster_figures(workspace, clusters, vectors=vectors)
            record["clusters"] = figures.as_json()
            tables.append(clusters_table(figures))
    return record, tables, comparison


def _write_case(out: TextIO | None, case: Case) -> None:
    if out is not None:
        out.write(json.dumps(case.as_json(), ensure_ascii=False) + "\n")


def _tables(
    found: RetrievalReport | EndToEndReport, question: Question, wanted: Wanted
) -> Iterator[Table]:
    from kglink.evaluation.measures.end_to_end import EndToEndReport

    if isinstance(found, EndToEndReport):
        if not found.joint.links["strict"].gold:
            nothing = "no mention has an entity of these KBs: figures of links say nothing here"
            note("links", nothing)
        yield end_to_end_table(found, intervals=wanted.intervals)
        return
    if question.seen_in and not found.seen_in:
        unknown = "no mentions are known that were learnt from; --seen-in NAME:SPLIT names some"
        note("seen", unknown)
    yield recall_table(found, intervals=wanted.intervals)
    if question.file is not None:
        yield accuracy_table(found.accuracies_as_json())
    yield from slices_tables(found, intervals=wanted.intervals)
    if found.domains():
        yield domains_table(found)


def _overlaps(
    workspace: Workspace, question: Question, other: str, wanted: Wanted, record: dict[str, Any]
) -> Iterator[Table]:
    """How near the counterparts are, and whether by more than chance, where a space is named."""
    from kglink.evaluation.significance import ALPHA

    with progress() as show:
        figures = workspace.evaluate_overlaps(question.kbs, progress=show)
    record["overlaps"] = [one.as_json() for one in figures]
    yield overlaps_table(figures)
    if other:
        with progress():
            tests = workspace.overlap_significance(other, question.kbs, seed=wanted.seed)
        count = wanted.comparisons
        record["overlaps_against"] = {
            "space": other,
            "alpha": ALPHA,
            "comparisons": count,
            "tests": [
                {**one.as_json(), "significant": one.test.is_significant(comparisons=count)}
                for one in tests
            ],
        }
        yield overlap_tests_table(tests, other, count)
