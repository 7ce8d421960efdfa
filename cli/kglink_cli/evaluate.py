"""`kglink eval`: annotated documents end to end or by retrieval, and how near overlaps are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kglink.errors import UsageError
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
from kglink_cli.limits import (
    JudgedSplit,
    NotUnder,
    Rerank,
    Types,
    Under,
    check_rerank,
    limit_flags,
    refuse_ignored,
)
from kglink_cli.session import session_of, split_names, tell_reranker, tell_stages
from kglink_cli.tables import Table, TableFormat, check_format, write_tables

if TYPE_CHECKING:
    from kglink.evaluation.kept import AnswerComparison, Comparison
    from kglink.evaluation.measures.clusters import ClusterFigures
    from kglink.evaluation.measures.end_to_end import EndToEndReport
    from kglink.evaluation.measures.errors import Case, ErrorAnalysis, ErrorSummary
    from kglink.evaluation.measures.retrieval import RetrievalReport
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace
    from kglink.workspace.judging import EndToEnd

RANKS = "1,4,8,16,32,64"


def evaluate(
    context: typer.Context,
    docs: Annotated[
        str | None, typer.Option("--docs", help="The KBs that hold the documents: a,b")
    ] = None,
    split: JudgedSplit = None,
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    types: Types = None,
    under: Under = None,
    not_under: NotUnder = None,
    k: Annotated[
        str, typer.Option("--k", help="Ranks to report R@k of; the largest is how deep MRR looks.")
    ] = RANKS,
    by: Annotated[
        str | None,
        typer.Option("--by", help="What finds candidates: all, vectors, names, bm25 or tfidf."),
    ] = None,
    counterparts: Annotated[
        bool,
        typer.Option(
            "--counterparts",
            help="In the joint rankings a gold's counterpart in another KB is right as well.",
        ),
    ] = False,
    seen_in: Annotated[
        str,
        typer.Option(
            "--seen-in",
            help="Documents that were learnt from, NAME or NAME:SPLIT, to tell surfaces that were "
            "seen there from others. auto: those of the run that made the space's model, else the "
            "split train of --docs, and those of `kglink learn`; empty: none.",
        ),
    ] = "auto",
    domains: Annotated[
        bool, typer.Option("--domains", help="Also by type of entity within each KB.")
    ] = False,
    overlaps: Annotated[
        bool,
        typer.Option(
            "--overlaps",
            help="Also MRR and ACS of accepted overlaps: how near counterparts are in the space.",
        ),
    ] = False,
    overlaps_against: Annotated[
        str,
        typer.Option(
            "--overlaps-against",
            help="As --overlaps, and test the differences to this space: two-sided.",
        ),
    ] = "",
    rerank: Rerank = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            "--candidates",
            help="Judge the candidates of this file, as kglink candidates writes it (JSON lines or "
            "a TREC run), or of one of ZESHEL's tfidf_candidates; --rerank reads them anew.",
        ),
    ] = None,
    end_to_end: Annotated[
        bool,
        typer.Option(
            "--end-to-end",
            help="Raw text in, as link has it: detection and links instead of retrieval.",
        ),
    ] = False,
    complete: Annotated[
        bool | None,
        typer.Option(
            "--complete/--partial",
            help="With --end-to-end: all mentions are annotated, so that precision is known, or "
            "some; without it: as it seems from the annotation.",
            show_default=False,
        ),
    ] = None,
    per_kb: Annotated[
        bool,
        typer.Option(
            "--per-kb/--joint-only",
            help="With --end-to-end: link to each KB alone as well, which takes a run for each.",
        ),
    ] = True,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            help="Judge this file instead: answers in raw texts in any format of documents that "
            "add-kb reads (--end-to-end), or rankings (--candidates). Its content tells which.",
        ),
    ] = None,
    errors: Annotated[
        bool,
        typer.Option("--errors", help="Also why mentions are answered wrongly, by group."),
    ] = False,
    errors_to: Annotated[
        Path | None,
        typer.Option(
            "--errors-to",
            help="As --errors, and write every mention with its answer and reason to this file "
            "(JSON lines).",
        ),
    ] = None,
    clusters: Annotated[
        bool,
        typer.Option(
            "--clusters",
            help="Also whether mentions of one thing are answered alike: ARI, NMI, B-cubed, CEAF.",
        ),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            help="Write the ranks of every mention, or with --end-to-end the mentions and answers "
            "of every text, to this file (JSON lines).",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", help="Test the differences to an evaluation that --keep wrote: two-sided."
        ),
    ] = None,
    comparisons: Annotated[
        int,
        typer.Option("--comparisons", min=1, help="So many tests share the level of .05."),
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the randomization test.")] = 0,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Beside each figure its 95% interval.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", "-f", help="table, tsv, csv, md, latex or json.")
    ] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure retrieval: how often, and how far up, a right entity is, the mentions' places given.

    With --end-to-end, what links of raw text are worth: precision, recall and F1.

    R@k: a right entity is among the first k. AP@1 and MAP@10: it is first, and the mean of 1/rank
    among the first 10; of both, after a reranker (link.reranker) has ordered the first 10 anew;
    without one AP@1 is R@1. MRR: the mean of 1/rank as retrieved.
    """
    from kglink.evaluation.retrieval import Question
    from kglink.workspace.judging import EndToEnd

    predictions, candidates = files = Files(predictions, candidates).sorted(end_to_end=end_to_end)
    end_to_end |= predictions is not None
    as_json = as_json or form == "json"
    overlaps |= bool(overlaps_against)
    shown = Shown("table" if as_json else check_format(form), intervals, comparisons, seed)
    names = split_names(docs)
    wanted = Wanted(keep, against, errors or errors_to is not None, errors_to, clusters)
    if not names and (not overlaps or any(wanted)):
        raise UsageError("there are no documents to evaluate on", hint="Name them with --docs.")
    if wanted.errors and predictions is not None:
        raise UsageError(
            "--errors asks the space for the candidates of each mention, and a file of "
            "--predictions is judged without a space",
            hint="Leave one of the two out.",
        )
    _refuse_mixture(
        end_to_end=end_to_end,
        of_answers=(complete, None if per_kb else False),
        of_ranks=(overlaps, domains, k != RANKS, seen_in != "auto", candidates is not None),
    )
    limits = {"--by": by, "--type": types, "--under": under, "--not-under": not_under}
    files.refuse(limits, {"--rerank": rerank, "--space": space})
    check_rerank(rerank, by)
    kbs, ranks = split_names(kb), _ranks(k)
    flags = {
        "space.name": space,
        "link.evidence": by,
        "link.rerank": rerank,
        **limit_flags(types, under, not_under),
    }
    with session_of(context).open(flags) as workspace:
        split = _judged_split(workspace, names, split, quiet=predictions is not None)
        if end_to_end:
            raw = EndToEnd(names, split, kbs, counterparts, complete, per_kb, predictions)
            _end_to_end(workspace, raw, wanted, shown, as_json=as_json)
        else:
            question = Question(
                *(names, split, kbs, ranks, counterparts),
                domains=domains,
                seen_in=seen_in,
                candidates=candidates,
            )
            against_space = overlaps_against if overlaps else None
            _retrieval(workspace, question, wanted, against_space, shown, as_json=as_json)


#: What a file of predictions is, in words.
_KINDS = {
    None: "answers in raw texts",
    "candidates": "rankings of given mentions, as JSON lines",
    "run": "rankings of given mentions, as a TREC run",
    "zeshel": "rankings of given mentions, of ZESHEL",
}


class Files(NamedTuple):
    """The file that is judged: whole answers in raw texts, or rankings of given mentions."""

    answers: Path | None
    rankings: Path | None

    def sorted(self, *, end_to_end: bool) -> Files:
        """As the content of a file of predictions (``answers``) has it; says what it is."""
        from kglink.evaluation.candidate_files import kind_of

        path = self.answers
        if path is None:
            return self
        if self.rankings is not None:
            raise UsageError(
                "--predictions and --candidates name two files to judge", hint="Name one."
            )
        kind = kind_of(path)
        if kind is None:
            note("predictions", f"{path} holds {_KINDS[kind]}")
            return self
        if end_to_end:
            raise UsageError(
                f"{path} holds {_KINDS[kind]}, and says of no text what is in it",
                hint="Leave out --end-to-end.",
            )
        note("predictions", f"{path} holds {_KINDS[kind]}")
        return Files(None, path)

    def refuse(self, search: Mapping[str, object], order: Mapping[str, object]) -> None:
        """Refuse options of the search beside a file, and with answers those of the order too."""
        if any(self):
            refuse_ignored("where a file is judged", search)
        if self.answers is not None:
            refuse_ignored("where a file of answers is judged", order)


class Shown(NamedTuple):
    """How figures are shown: the format, whether with intervals, and what tests are told."""

    form: TableFormat
    intervals: bool
    comparisons: int
    seed: int


def _refuse_mixture(
    *, end_to_end: bool, of_answers: Sequence[object], of_ranks: Sequence[bool]
) -> None:
    """Refuse options of the one kind of evaluation in the other."""
    if not end_to_end and any(value is not None for value in of_answers):
        raise UsageError(
            "--complete, --partial and --joint-only are of whole answers",
            hint="Add --end-to-end.",
        )
    if end_to_end and any(of_ranks):
        raise UsageError(
            "--overlaps, --domains, --k, --seen-in and --candidates are of rankings, not of whole "
            "answers",
            hint="Ask for them in a call without --end-to-end.",
        )


def _judged_split(
    workspace: Workspace, docs: Sequence[str], split: str | None, *, quiet: bool
) -> str:
    """The split that is judged; says where memory has learnt from the very texts, unless quiet."""
    from kglink.evaluation.retrieval import judged_split

    for name in docs:
        workspace.store.kb(name)
    split = judged_split(workspace.store, docs, split)
    learnt = workspace.store.memory_sources()
    known = [name for name in docs if name in learnt and split in ("", "train")]
    if known and not quiet:
        note(
            "memory",
            f"learnt from these texts of {', '.join(known)} (`kglink learn`), so the figures are "
            "too good: judge texts that it has not learnt from",
        )
    return split


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
    from kglink.workspace.clusters import coreference, figures_of
    from kglink.workspace.judging import EndToEnd, evaluate, evaluate_end_to_end

    raw = isinstance(question, EndToEnd)
    ranked = linked = None
    told: list[Callable[..., None]] = []
    with ExitStack() as stack:
        analysis = _analysis(workspace, question, wanted, stack) if wanted.errors else None
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


def _analysis(
    workspace: Workspace, question: Question | EndToEnd, wanted: Wanted, stack: ExitStack
) -> ErrorAnalysis:
    """What finds why answers are wrong, and writes every mention where that is wanted."""
    from kglink.workspace.errors import error_analysis

    out = stack.enter_context(whole_file(workspace, wanted.errors_to)) if wanted.errors_to else None

    def write(case: Case) -> None:
        if out is not None:
            out.write(json.dumps(case.as_json(), ensure_ascii=False) + "\n")

    seen_in = getattr(question, "seen_in", "auto")
    return error_analysis(workspace, question, seen_in=seen_in, each=write)


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


def _end_to_end(
    workspace: Workspace, question: EndToEnd, wanted: Wanted, shown: Shown, *, as_json: bool
) -> None:
    if question.predictions is None:
        ensure_space(workspace)
    judged = _judged(workspace, question, wanted)
    report, comparison = judged.linked, judged.comparison
    if report is None:
        return
    if not report.joint.links["strict"].gold:
        note("links", "no mention has an entity of these KBs: figures of links say nothing here")
    if as_json:
        record = end_to_end_shape(question, report, workspace.settings.space.name)
        if comparison is not None:
            told = shown.comparisons, shown.seed
            record["against"] = comparison_shape(comparison, *told, complete=report.complete)
        print_json(record | judged.more_json())
    else:
        tables = [end_to_end_table(report, intervals=shown.intervals)]
        if comparison is not None:
            told = shown.comparisons, shown.seed
            tables.append(comparison_table(comparison, *told, complete=report.complete))
        write_tables([*tables, *judged.more_tables()], shown.form)
    tell_stages(workspace)


def _retrieval(
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


def _ranks(text: str) -> tuple[int, ...]:
    try:
        ranks = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"--k {text!r} is not a list of numbers", hint=f"--k {RANKS}") from error
    if ranks[0] < 1:
        raise UsageError(f"--k {text!r}: ranks begin at 1")
    return ranks
