"""`kglink eval`: annotated documents end to end or by retrieval, and how near overlaps are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kglink.errors import UsageError
from kglink.workspace.shapes import (
    answer_comparison_shape,
    comparison_shape,
    end_to_end_shape,
    evaluation_shape,
    overlap_tests_shape,
)
from kglink_cli.build import ensure_space
from kglink_cli.console import note, print_json, progress
from kglink_cli.evaluation_clusters import WantedClusters
from kglink_cli.evaluation_end_to_end import (
    answer_comparison_table,
    end_to_end_table,
    judge_end_to_end,
)
from kglink_cli.evaluation_errors import WantedErrors
from kglink_cli.evaluation_sinks import Sinks
from kglink_cli.evaluation_tables import (
    accuracy_table,
    comparison_table,
    domains_table,
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
    from kglink.evaluation.overlaps import OverlapFigures, OverlapTest
    from kglink.evaluation.rankings import RankedMention
    from kglink.evaluation.report import RetrievalReport
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
            help="Judge this file instead: answers in raw texts, as link --format jsonl or nif "
            "writes them (--end-to-end), or rankings (--candidates). Its content tells which.",
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
        typer.Option("--comparisons", min=1, help="Number of tests for the Bonferroni correction."),
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
    reasons = WantedErrors(errors or errors_to is not None, errors_to)
    together = WantedClusters(clusters)
    if not names and (not overlaps or keep or against or reasons.wanted or clusters):
        raise UsageError("there are no documents to evaluate on", hint="Name them with --docs.")
    reasons.check(predictions)
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
            sinks = Sinks(keep, against, reasons, together)
            _end_to_end(workspace, raw, sinks, shown, as_json=as_json)
            tell_stages(workspace)
            return
        wanted = Question(
            *(names, split, kbs, ranks, counterparts),
            domains=domains,
            seen_in=seen_in,
            candidates=candidates,
        )
        record = _asked_of(workspace, wanted, overlaps=overlaps)
        sinks = Sinks(keep, against, reasons, together)
        found = _retrieval(workspace, wanted, sinks) if names else None
        nearness = _overlaps(workspace, wanted.kbs, overlaps_against, shown) if overlaps else None
        tell_stages(workspace)
    if as_json:
        if found is not None:
            record |= evaluation_shape(wanted, found, workspace.settings.link)
        reasons.put_into(record)
        together.put_into(record)
        if nearness is not None:
            nearness.put_into(record)
        if sinks.comparison is not None:
            record["against"] = comparison_shape(sinks.comparison, comparisons, seed)
        print_json(record)
        return
    tables = list(_retrieval_tables(found, shown, wanted)) if found is not None else []
    tables += [*reasons.tables(), *together.tables()]
    if nearness is not None:
        tables += nearness.tables()
    if sinks.comparison is not None:
        tables.append(comparison_table(sinks.comparison, comparisons, seed))
    write_tables(tables, shown.form)


#: What a file of predictions is, in words.
_KINDS = {
    "answers": "answers in raw texts, as JSON lines",
    "nif": "answers in raw texts, as NIF",
    "candidates": "rankings of given mentions, as JSON lines",
    "run": "rankings of given mentions, as a TREC run",
    "zeshel": "rankings of given mentions, of ZESHEL",
}


class Files(NamedTuple):
    """The file that is judged: whole answers in raw texts, or rankings of given mentions."""

    answers: Path | None
    rankings: Path | None

    def sorted(self, *, end_to_end: bool) -> Files:
        """Tell answers from rankings by the file's first line, and say which (``answers``)."""
        from kglink.evaluation.candidate_files import kind_of

        path = self.answers
        if path is None:
            return self
        if self.rankings is not None:
            raise UsageError(
                "--predictions and --candidates name two files to judge", hint="Name one."
            )
        kind = kind_of(path)
        if kind in ("answers", "nif"):
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


def _asked_of(workspace: Workspace, question: Question, *, overlaps: bool) -> dict[str, object]:
    """Which space and KBs are evaluated; the space is built where it is asked."""
    from kglink.workspace.judging import kbs_of

    if question.candidates is None or overlaps:
        ensure_space(workspace)
        tell_reranker(workspace)
    name = workspace.settings.space.name
    return {
        "space": name if question.candidates is None else None,
        "kbs": list(kbs_of(workspace, question)),
    }


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


def _end_to_end(
    workspace: Workspace, question: EndToEnd, sinks: Sinks, shown: Shown, *, as_json: bool
) -> None:
    if question.predictions is None:
        ensure_space(workspace)
    report, comparison = judge_end_to_end(workspace, question, sinks)
    if not report.joint.links["strict"].gold:
        note("links", "no mention has an entity of these KBs: figures of links say nothing here")
    if as_json:
        record = end_to_end_shape(question, report, workspace.settings.space.name)
        if comparison is not None:
            told = shown.comparisons, shown.seed
            record["against"] = answer_comparison_shape(comparison, report, *told)
        sinks.errors.put_into(record)
        sinks.clusters.put_into(record)
        print_json(record)
        return
    tables = [end_to_end_table(report, intervals=shown.intervals)]
    if comparison is not None:
        table = answer_comparison_table(comparison, report, shown.comparisons, shown.seed)
        tables.append(table)
    tables += [*sinks.errors.tables(), *sinks.clusters.tables()]
    write_tables(tables, shown.form)


def _retrieval(workspace: Workspace, question: Question, sinks: Sinks) -> RetrievalReport:
    from kglink.workspace.judging import evaluate as evaluate_question

    with ExitStack() as stack:
        told = sinks.open(workspace, question, stack)
        show = stack.enter_context(progress())

        def each(mention: RankedMention) -> None:
            for tell in told:
                tell(mention)

        found = evaluate_question(workspace, question, progress=show, each=each)
        if sinks.comparison is not None:
            sinks.comparison.finish()
        sinks.errors.finish()
        sinks.clusters.finish(workspace, vectors=question.candidates is None)
    if question.seen_in and not found.seen_in:
        note("seen", "no mentions are known that were learnt from; --seen-in NAME:SPLIT names some")
    return found


class _Nearness(NamedTuple):
    """How near overlaps are, and the tests of the differences to another space, if one is named."""

    figures: list[OverlapFigures]
    tests: list[OverlapTest]
    space: str
    comparisons: int

    def put_into(self, record: dict[str, object]) -> None:
        """Add what `--json` says."""
        record["overlaps"] = [one.as_json() for one in self.figures]
        if self.space:
            told = overlap_tests_shape(self.space, self.tests, self.comparisons)
            record["overlaps_against"] = told

    def tables(self) -> Iterator[Table]:
        """What is shown."""
        yield overlaps_table(self.figures)
        if self.space:
            yield overlap_tests_table(self.tests, self.space, self.comparisons)


def _overlaps(workspace: Workspace, kbs: Sequence[str], space: str, shown: Shown) -> _Nearness:
    with progress() as tell:
        figures = workspace.evaluate_overlaps(kbs, progress=tell)
        tests = workspace.overlap_significance(space, kbs, seed=shown.seed) if space else []
    return _Nearness(figures, tests, space, shown.comparisons)


def _retrieval_tables(found: RetrievalReport, shown: Shown, question: Question) -> Iterator[Table]:
    yield recall_table(found, intervals=shown.intervals)
    if question.candidates is not None:
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
