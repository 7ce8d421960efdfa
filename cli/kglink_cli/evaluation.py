"""What `kglink eval` judges, keeps, compares and prints, once its options are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.workspace.outputs import whole_file
from kglink.workspace.shapes import (
    comparison_shape,
    end_to_end_shape,
    evaluation_shape,
    overlap_tests_shape,
)
from kglink_cli.build import ensure_space
from kglink_cli.console import note, print_json, progress
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
    seen_table,
    slices_tables,
)
from kglink_cli.session import tell_reranker, tell_stages
from kglink_cli.tables import Table, TableFormat, write_tables

if TYPE_CHECKING:
    from kglink.evaluation.kept import AnswerComparison, Comparison
    from kglink.evaluation.measures.clusters import ClusterFigures
    from kglink.evaluation.measures.end_to_end import EndToEndReport
    from kglink.evaluation.measures.errors import Case, ErrorSummary
    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace
    from kglink.workspace.judging import EndToEnd


class Shown(NamedTuple):
    """How figures are shown: the format, whether with intervals, and what tests are told."""

    form: TableFormat
    intervals: bool
    comparisons: int
    seed: int


class Wanted(NamedTuple):
    """What is wanted of an evaluation besides its figures."""

    keep: Path | None
    against: Path | None
    errors: bool
    errors_to: Path | None
    clusters: bool


class Judged(NamedTuple):
    """What was found: one of the reports, and what was wanted besides."""

    ranked: RetrievalReport | None
    linked: EndToEndReport | None
    comparison: Comparison | AnswerComparison | None
    errors: ErrorSummary | None
    clusters: ClusterFigures | None

    def more_json(self) -> dict[str, object]:
        """What errors and clusters add to the JSON of the figures."""
        found = {"errors": self.errors, "clusters": self.clusters}
        return {name: one.as_json() for name, one in found.items() if one is not None}

    def more_tables(self) -> Iterator[Table]:
        """What errors and clusters add to the tables."""
        if self.errors is not None:
            yield errors_table(self.errors)
        if self.clusters is not None:
            yield clusters_table(self.clusters)


def _judged(workspace: Workspace, question: Question | EndToEnd, wanted: Wanted) -> Judged:
    """Judge all mentions or texts, and tell each to what is wanted besides."""
    from kglink.workspace.evaluate import coreference, error_analysis, figures_of
    from kglink.workspace.judging import EndToEnd, evaluate, evaluate_end_to_end

    raw = isinstance(question, EndToEnd)
    ranked = linked = None
    told: list[Callable[..., None]] = []
    with ExitStack() as stack:
        analysis = None
        if wanted.errors:
            to = wanted.errors_to
            out = stack.enter_context(whole_file(workspace, to)) if to else None

            def write(case: Case) -> None:
                if out is not None:
                    out.write(json.dumps(case.as_json(), ensure_ascii=False) + "\n")

            seen_in = getattr(question, "seen_in", "auto")
            analysis = error_analysis(workspace, question, seen_in=seen_in, each=write)
        together = coreference(workspace, question) if wanted.clusters else None
        sinks = [one for one in (analysis, together) if one is not None]
        told += [one.add_answers if raw else one.add_ranked for one in sinks]
        comparison = _kept(workspace, question, wanted, stack, told)

        def each(*of_one: object) -> None:
            for tell in told:
                tell(*of_one)

        show = stack.enter_context(progress())
        if isinstance(question, EndToEnd):
            linked = evaluate_end_to_end(workspace, question, progress=show, each=each)
        else:
            ranked = evaluate(workspace, question, progress=show, each=each)
        if comparison is not None:
            comparison.finish()
        errors = None if analysis is None else analysis.finish()
        vectors = not raw and getattr(question, "candidates", None) is None
        figures = None if together is None else figures_of(workspace, together, vectors=vectors)
    return Judged(ranked, linked, comparison, errors, figures)


def _kept(
    workspace: Workspace,
    question: Question | EndToEnd,
    wanted: Wanted,
    stack: ExitStack,
    told: list[Callable[..., None]],
) -> Comparison | AnswerComparison | None:
    """The comparison with a kept file; it and what keeps a file are ``told`` of each as well."""
    from kglink.evaluation.kept import AnswerComparison, Comparison, KeptWriter
    from kglink.workspace.judging import EndToEnd, evaluated

    if wanted.keep is None and wanted.against is None:
        return None
    facts = evaluated(workspace, question)
    comparison: Comparison | AnswerComparison | None = None
    if wanted.against is not None:
        comparison = (
            AnswerComparison(wanted.against, facts)
            if isinstance(question, EndToEnd)
            else Comparison(wanted.against, facts, question.ks)
        )
        told.append(comparison.add)
    if wanted.keep is not None:
        writer = KeptWriter(stack.enter_context(whole_file(workspace, wanted.keep)), facts)
        told.append(writer.add_answers if isinstance(question, EndToEnd) else writer.add)
    return comparison


def judge_end_to_end(
    workspace: Workspace, question: EndToEnd, wanted: Wanted, shown: Shown, *, as_json: bool
) -> None:
    """Judge whole answers, and print what was found."""
    if question.predictions is None:
        ensure_space(workspace)
    judged = _judged(workspace, question, wanted)
    report, comparison = judged.linked, judged.comparison
    if report is None:
        return
    if not report.joint.links["strict"].gold:
        note("links", "no mention has an entity of these KBs: figures of links say nothing here")
    record = end_to_end_shape(question, report, workspace.settings.space.name)
    tables = [end_to_end_table(report, intervals=shown.intervals)]
    if comparison is not None:
        told = comparison, shown.comparisons, shown.seed
        record["against"] = comparison_shape(*told, complete=report.complete)
        tables.append(comparison_table(*told, complete=report.complete))
    if as_json:
        print_json(record | judged.more_json())
    else:
        write_tables([*tables, *judged.more_tables()], shown.form)
    tell_stages(workspace)


def judge_retrieval(
    workspace: Workspace,
    question: Question,
    wanted: Wanted,
    overlaps: str | None,
    shown: Shown,
    *,
    as_json: bool,
) -> None:
    """Retrieval, and how near ``overlaps`` are: None: nobody asks; a space to compare with."""
    from kglink.workspace.judging import kbs_of

    listed = question.candidates is not None
    if not listed or overlaps is not None:
        ensure_space(workspace)
        tell_reranker(workspace)
    space = None if listed else workspace.settings.space.name
    record: dict[str, object] = {"space": space, "kbs": list(kbs_of(workspace, question))}
    tables: list[Table] = []
    judged = _judged(workspace, question, wanted) if question.docs else None
    if judged is not None and (found := judged.ranked) is not None:
        if question.seen_in and not found.seen_in:
            told = "no mentions are known that were learnt from; --seen-in NAME:SPLIT names some"
            note("seen", told)
        record |= evaluation_shape(question, found, workspace.settings.link) | judged.more_json()
        tables += [*_retrieval_tables(found, shown, listed=listed), *judged.more_tables()]
    if overlaps is not None:
        with progress() as show:
            figures = workspace.evaluate_overlaps(question.kbs, progress=show)
        record["overlaps"] = [one.as_json() for one in figures]
        tables.append(overlaps_table(figures))
    if overlaps:
        with progress():
            tests = workspace.overlap_significance(overlaps, question.kbs, seed=shown.seed)
        record["overlaps_against"] = overlap_tests_shape(overlaps, tests, shown.comparisons)
        tables.append(overlap_tests_table(tests, overlaps, shown.comparisons))
    tell_stages(workspace)
    if judged is not None and judged.comparison is not None:
        told_of = judged.comparison, shown.comparisons, shown.seed
        record["against"] = comparison_shape(*told_of)
        tables.append(comparison_table(*told_of))
    if as_json:
        print_json(record)
    else:
        write_tables(tables, shown.form)


def _retrieval_tables(found: RetrievalReport, shown: Shown, *, listed: bool) -> Iterator[Table]:
    yield recall_table(found, intervals=shown.intervals)
    if listed:
        yield accuracy_table(found)
    if found.seen_in:
        yield seen_table(found, intervals=shown.intervals)
    yield from slices_tables(found, intervals=shown.intervals)
    if found.domains():
        yield domains_table(found)
