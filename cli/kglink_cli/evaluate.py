"""`kglink eval` and `kglink candidates`: options, and what they ask for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.errors import UsageError
from kglink_cli import shared
from kglink_cli.build import ensure_space
from kglink_cli.console import check_format, counted, note, progress
from kglink_cli.evaluation import Wanted, judge
from kglink_cli.session import (
    check_rerank,
    limit_flags,
    open_workspace,
    refuse_ignored,
    split_names,
)

if TYPE_CHECKING:
    from kglink.workspace import Workspace

RANKS = "1,4,8,16,32,64"
#: No list of candidates is longer.
MOST_RANKS = 1_000_000


def evaluate(
    context: typer.Context,
    docs: list[str] | None = Option(None, help="The KBs that hold the documents: a,b"),
    split: shared.JudgedSplit = None,
    kb: shared.KBNames = None,
    types: shared.Types = None,
    under: shared.Under = None,
    not_under: shared.NotUnder = None,
    k: str = Option(RANKS, help="Ranks k of R@k; MRR counts ranks up to the largest."),
    found_by: shared.FoundBy = None,
    counterparts: bool = Option(
        False,
        "--counterparts",
        help="In the joint rankings, count a gold's counterpart in another KB as right.",
    ),
    seen_in: str = Option(
        "auto",
        help="Report surfaces that occur in these training documents (NAME or NAME:SPLIT) apart "
        "from others. auto: those of the run that trained the space's model, else the split "
        "train of --docs, and those of `kglink learn`; empty: none.",
    ),
    domains: bool = Option(False, "--domains", help="Also by type of entity in each KB."),
    overlaps: bool = Option(
        False,
        "--overlaps",
        help="Also MRR and ACS of accepted overlaps: how near counterparts are in the space.",
    ),
    overlaps_against: str = Option("", help="As --overlaps, and compare with this space."),
    rerank: shared.Rerank = None,
    candidates: Path | None = Option(
        None,
        help="Judge the candidates in this file, written by kglink candidates (JSON lines or a "
        "TREC run) or one of ZESHEL's tfidf_candidates; --rerank orders them anew.",
    ),
    end_to_end: bool = Option(
        False,
        "--end-to-end",
        help="Measure links of raw text, as kglink link makes them, not retrieval.",
    ),
    complete: bool | None = Option(
        None,
        "--complete/--partial",
        help="With --end-to-end: all mentions are annotated, so that precision is known, or only "
        "some; by default guessed from the annotations.",
        show_default=False,
    ),
    per_kb: bool = Option(
        True,
        "--per-kb/--joint-only",
        help="With --end-to-end: also link to each KB alone, with one run for each.",
    ),
    predictions: Path | None = Option(
        None,
        help="Judge this file instead: answers in raw texts (as --end-to-end), in any format of "
        "documents that add-kb reads, or rankings (as --candidates).",
    ),
    errors: bool = Option(False, "--errors", help="Also count why answers are wrong, by group."),
    errors_to: Path | None = Option(
        None,
        help="Like --errors, and write every mention with its answer and reason to this file "
        "(JSON lines).",
    ),
    clusters: bool = Option(
        False,
        "--clusters",
        help="Also if mentions of one thing get one answer: ARI, NMI, B-cubed, CEAF.",
    ),
    keep: Path | None = Option(
        None,
        help="Write the ranks of every mention, or with --end-to-end the mentions and answers "
        "of every text, to this file (JSON lines).",
    ),
    against: Path | None = Option(None, help="Test the differences to this file of --keep."),
    comparisons: int | None = Option(
        None, min=1, help="Number of tests for the Bonferroni correction; by default 1."
    ),
    seed: int | None = Option(None, min=0, help="Seed of the randomization test; by default 0."),
    space: shared.SpaceName = None,
    intervals: bool = Option(False, "--intervals", help="Show the 95% interval of each figure."),
    form: str = Option("table", "--format", "-f", help="table, tsv, csv, md, latex or json."),
    as_json: shared.AsJson = False,
) -> None:
    """Measure retrieval for given mentions: how often and at which rank a right entity is found.

    With --end-to-end, measure links of raw text instead: precision, recall and F1.

    R@k: a right entity is among the first k. MRR: the mean of 1/rank. AP@1: it comes first, and
    MAP@10: the mean of 1/rank among the first 10, both after the reranker (link.reranker), if
    there is one.
    """
    from kglink.evaluation.retrieval import Question

    predictions, candidates = _by_kind(predictions, candidates, end_to_end=end_to_end)
    end_to_end |= predictions is not None
    if as_json and form not in ("table", "json"):
        raise UsageError(f"--json, and --format {form}", hint="Leave one of the two out.")
    as_json = as_json or form == "json"
    overlaps |= bool(overlaps_against)
    names = split_names(docs)
    errors = errors or errors_to is not None
    if not names and (not overlaps or errors or clusters or keep or against):
        raise UsageError("there are no documents to evaluate on", hint="Name them with --docs.")
    if errors and predictions is not None:
        raise UsageError(
            "--errors asks the space for the candidates of each mention, and a file of "
            "--predictions is judged without a space",
            hint="Leave one of the two out.",
        )
    # Refuse options of the one kind of evaluation in the other.
    if not end_to_end and (complete is not None or not per_kb):
        raise UsageError(
            "--complete, --partial and --joint-only are of whole answers", hint="Add --end-to-end."
        )
    if end_to_end and (overlaps or domains or k != RANKS or seen_in != "auto" or candidates):
        raise UsageError(
            "--overlaps, --domains, --k, --seen-in and --candidates are of rankings, not of whole "
            "answers",
            hint="Ask for them in a call without --end-to-end.",
        )
    limits = {"--found-by": found_by, "--type": types, "--under": under, "--not-under": not_under}
    if predictions or candidates:
        refuse_ignored("where a file is judged", limits)
    if predictions:
        order = {"--rerank": rerank, "--space": space}
        refuse_ignored("where a file of answers is judged", order)
    check_rerank(rerank, found_by)
    if not (against or overlaps_against):
        testing = {"--comparisons": comparisons, "--seed": seed is not None}
        refuse_ignored("without --against", testing)
    wanted = Wanted(
        keep=keep,
        against=against,
        errors=errors,
        errors_to=errors_to,
        clusters=clusters,
        overlaps=overlaps_against if overlaps else None,
        form="table" if as_json else check_format(form),
        intervals=intervals,
        comparisons=comparisons or 1,
        seed=seed or 0,
        as_json=as_json,
    )
    kbs, ranks = split_names(kb), _ranks(k)
    flags = {
        "space.name": space,
        "link.found_by": found_by,
        "link.rerank_top": rerank,
        **limit_flags(types, under, not_under),
    }
    with open_workspace(context, flags) as workspace:
        split = _judged_split(workspace, names, split, quiet=predictions is not None)
        question = Question(
            *(names, split, kbs, ranks, counterparts),
            domains=domains,
            seen_in=seen_in,
            file=predictions or candidates,
            end_to_end=end_to_end,
            complete=complete,
            per_kb=per_kb,
        )
        judge(workspace, question, wanted)


#: What a file of predictions is, in words.
_KINDS = {
    None: "answers in raw texts",
    "candidates": "rankings of given mentions, as JSON lines",
    "run": "rankings of given mentions, as a TREC run",
    "zeshel": "rankings of given mentions, of ZESHEL",
}


def _by_kind(
    predictions: Path | None, candidates: Path | None, *, end_to_end: bool
) -> tuple[Path | None, Path | None]:
    """Files of whole answers and of rankings; the content of ``predictions`` says what it is."""
    from kglink.evaluation.candidate_files import kind_of

    if predictions is None:
        return None, candidates
    if candidates is not None:
        raise UsageError("--predictions and --candidates name two files to judge", hint="Name one.")
    kind = kind_of(predictions)
    if kind is not None and end_to_end:
        raise UsageError(
            f"{predictions} holds {_KINDS[kind]}, not answers in raw texts",
            hint="Leave out --end-to-end.",
        )
    note("predictions", f"{predictions} holds {_KINDS[kind]}")
    return (predictions, None) if kind is None else (None, predictions)


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


def _ranks(text: str) -> tuple[int, ...]:
    try:
        ranks = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"--k {text!r} is not a list of numbers", hint=f"--k {RANKS}") from error
    if ranks[0] < 1 or ranks[-1] > MOST_RANKS:
        raise UsageError(f"--k {text!r}: ranks are 1 to {MOST_RANKS:,}", hint=f"--k {RANKS}")
    return ranks


def candidates(
    context: typer.Context,
    docs: list[str] = Argument(help="The KBs that hold the documents: a b, or a,b."),
    output: shared.PackedOutput = None,
    split: shared.JudgedSplit = None,
    kb: shared.KBNames = None,
    k: int | None = Option(
        None, min=1, max=1000, help="Number of candidates to write for each KB.", show_default="64"
    ),
    found_by: shared.FoundBy = None,
    rerank: shared.Rerank = None,
    union: list[Path] | None = Option(
        None,
        help="Merge the lists of this file and of others instead of searching; repeat it "
        "for each file.",
    ),
    with_gold: bool = Option(
        False,
        "--with-gold",
        help="If no right entity was found, put one in place of the KB's last candidate; with "
        "--union, at the end.",
    ),
    output_format: str = Option(
        "jsonl", "--format", "-f", help="jsonl, or trec: a run in TREC's format."
    ),
    qrels: Path | None = Option(None, help="Also write the right answers, in TREC's format."),
    space: shared.SpaceName = None,
) -> None:
    """Write the candidates of every annotated mention that has an entity, one JSON line each.

    kglink eval --candidates FILE judges this file, also after another tool has changed the order.
    """
    check_rerank(rerank, found_by)
    if union:
        finding = {"--k": k, "--found-by": found_by, "--rerank": rerank}
        refuse_ignored("beside --union, which finds none", finding)
    flags = {"space.name": space, "link.found_by": found_by, "link.rerank_top": rerank}
    with open_workspace(context, flags) as workspace:
        names = split_names(docs)
        for name in names:
            workspace.store.kb(name)
        if not union:
            ensure_space(workspace)
        with progress(visible=output is not None or not sys.stdout.isatty()) as tell:
            written = workspace.write_candidates(
                names,
                output or sys.stdout,
                split=split,
                kbs=split_names(kb),
                k=k or 64,
                union=union or (),
                with_gold=with_gold,
                form=output_format,
                qrels=qrels,
                progress=tell,
            )
    note("candidates", f"of {counted(written, 'mention')}" + (f" to {output}" if output else ""))
