"""`kglink candidates`: the candidates of annotated mentions, in a file that `eval` reads back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, progress
from kglink_cli.limits import JudgedSplit, Rerank, check_rerank
from kglink_cli.session import session_of, split_names


def candidates(
    context: typer.Context,
    docs: Annotated[str, typer.Argument(help="The KBs that hold the documents: a,b")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write to a file; .gz and .bz2 pack it.", dir_okay=False
        ),
    ] = None,
    split: JudgedSplit = None,
    kb: Annotated[str | None, typer.Option("--kb", help="Only these KBs: a,b")] = None,
    k: Annotated[
        int, typer.Option("--k", min=1, max=1000, help="Number of candidates of each KB.")
    ] = 64,
    by: Annotated[
        str | None,
        typer.Option("--by", help="What finds candidates: all, vectors, names, bm25 or tfidf."),
    ] = None,
    rerank: Rerank = None,
    union: Annotated[
        list[Path] | None,
        typer.Option(
            "--union",
            help="Put the lists of this file and of others together instead of finding any; "
            "repeated for each file.",
        ),
    ] = None,
    with_gold: Annotated[
        bool,
        typer.Option(
            "--with-gold",
            help="Put a right entity in the place of a KB's last candidate where none was found; "
            "of united lists, behind them.",
        ),
    ] = False,
    output_format: Annotated[
        str, typer.Option("--format", "-f", help="jsonl, or trec: a run for tools of retrieval.")
    ] = "jsonl",
    qrels: Annotated[
        Path | None,
        typer.Option(
            "--qrels", help="Also write what is right to this file, as TREC's tools read it."
        ),
    ] = None,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
) -> None:
    """Write the candidates of every mention with gold in the KBs, one JSON line for each.

    What kglink eval --candidates FILE judges again, and what another tool can read or order anew.
    """
    check_rerank(rerank, by)
    flags = {"space.name": space, "link.evidence": by, "link.rerank": rerank}
    with session_of(context).open(flags) as workspace:
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
                k=k,
                union=union or (),
                with_gold=with_gold,
                form=output_format,
                qrels=qrels,
                progress=tell,
            )
    note("candidates", f"of {counted(written, 'mention')}" + (f" to {output}" if output else ""))
