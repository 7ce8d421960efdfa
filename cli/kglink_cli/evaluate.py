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
    k: str = Option(RANKS, help="Ranks to report R@k of; the largest is how deep MRR looks."),
    found_by: shared.FoundBy = None,
    counterparts: bool = Option(
        False,
        "--counterparts",
        help="In the joint rankings a gold's counterpart in another KB is right as well.",
    ),
    seen_in: str = Option(
        "auto",
        help="Documents that were learnt from, NAME or NAME:SPLIT, to tell surfaces that were "
        "seen there from others. auto: those of the run that made the space's model, else the "
        "split train of --docs, and those of `kglink learn`; empty: none.",
    ),
    domains: bool = Option(False, "--domains", help="Also by type of entity within each KB."),
    overlaps: bool = Option(
        False,
        "--overlaps",
        help="Also MRR and ACS of accepted overlaps: how near counterparts are in the space.",
    ),
    overlaps_against: str = Option("", help="As --overlaps, and test against this space."),
    rerank: shared.Rerank = None,
    candidates: Path | None = Option(
        None,
        help="Judge the candidates of this file, as kglink candidates writes it (JSON lines or "
        "a TREC run), or of one of ZESHEL's tfidf_candidates; --rerank reads them anew.",
    ),
    end_to_end: bool = Option(
        False,
        "--end-to-end",
        help="Raw text in, as link has it: detection and links instead of retrieval.",
    ),
    complete: bool | None = Option(
        None,
        "--complete/--partial",
        help="With --end-to-end: all mentions are annotated, so precision is known, or only "
        "some; by default guessed from the annotation.",
        show_default=False,
    ),
    per_kb: bool = Option(
        True,
        "--per-kb/--joint-only",
        help="With --end-to-end: link to each KB alone as well, which takes a run for each.",
    ),
    predictions: Path | None = Option(
        None,
        help="Judge this file instead: answers in raw texts in any format of documents that "
        "add-kb reads (--end-to-end), or rankings (--candidates). Its content tells which.",
    ),
    errors: bool = Option(False, "--errors", help="Also why answers are wrong, by group."),
    errors_to: Path | None = Option(
        None,
        help="As --errors, and write every mention with its answer and reason to this file "
        "(JSON lines).",
    ),
    clusters: bool = Option(
        False,
        "--clusters",
        help="Also whether mentions of one thing are answered alike: ARI, NMI, B-cubed, CEAF.",
    ),
    keep: Path | None = Option(
        None,
        help="Write the ranks of every mention, or with --end-to-end the mentions and answers "
        "of every text, to this file (JSON lines).",
    ),
    against: Path | None = Option(None, help="Test the differences to what --keep wrote."),
    comparisons: int | None = Option(
        None, min=1, help="Number of tests for the Bonferroni correction; else 1."
    ),
    seed: int | None = Option(None, min=0, help="Seed of the randomization test; else 0."),
    space: shared.SpaceName = None,
    intervals: bool = Option(False, "--intervals", help="Beside each figure its 95% interval."),
    form: str = Option("table", "--format", "-f", help="table, tsv, csv, md, latex or json."),
    as_json: shared.AsJson = False,
) -> None:
    """Measure retrieval: how often, and how far up, a right entity is, the mentions' places given.

    With --end-to-end, what links of raw text are worth: precision, recall and F1.

    R@k: a right entity is among the first k. AP@1 and MAP@10: it is first, and the mean of 1/rank
    among the first 10; of both, after a reranker (link.reranker) has ordered the first 10 anew;
    without one AP@1 is R@1. MRR: the mean of 1/rank as retrieved.
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
        None, min=1, max=1000, help="Number of candidates of each KB.", show_default="64"
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
        help="Where no right entity was found, put one in place of the KB's last candidate; "
        "with --union, at the end.",
    ),
    output_format: str = Option(
        "jsonl", "--format", "-f", help="jsonl, or trec: a run for tools of retrieval."
    ),
    qrels: Path | None = Option(None, help="Also write what is right, as TREC's tools read it."),
    space: shared.SpaceName = None,
) -> None:
    """Write the candidates of every mention with gold in the KBs, one JSON line for each.

    What kglink eval --candidates FILE judges again, and what another tool can read or order anew.
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
