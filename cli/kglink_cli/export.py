"""`kglink export`: a KB as a file that `kglink add-kb` reads back without loss."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import UsageError
from kglink_cli.console import counted, note, progress
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.store import KBInfo

FORMATS = ("jsonl", "nif")


def export(
    context: typer.Context,
    kb: Annotated[str, typer.Argument(help="The KB.")],
    output_format: Annotated[
        str,
        typer.Option(
            "--format", "-f", help="jsonl, which add-kb reads back; nif: documents for GERBIL."
        ),
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write to a file; .gz and .bz2 pack it.", dir_okay=False
        ),
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="train, dev or test: only documents of this split.")
    ] = "",
    only: Annotated[
        str, typer.Option("--only", help="entities, documents or mappings: nothing else.")
    ] = "",
) -> None:
    """Write a KB's entities and documents, such that add-kb of that file loses nothing.

    Each line is one JSON object. A gold names its KB, so export the KBs that documents link to
    as well, and add them under the same names before these documents.
    """
    if output_format not in FORMATS:
        there_is = ", ".join(FORMATS)
        raise UsageError(
            f"unknown format {output_format!r}",
            hint=f"There is: {there_is}. Overlaps between KBs are written as SSSOM by "
            "`kglink overlap --export pairs.sssom.tsv`.",
        )
    with session_of(context).open() as workspace:
        info = workspace.kb(kb)
        if info.updating:
            note("unfinished", f"an update of {kb} is not done: this is revision {info.revision}")
        visible = output is not None or not sys.stdout.isatty()
        with progress(visible=visible) as tell:
            written = workspace.export(
                *(kb, output or sys.stdout),
                only=only,
                split=split,
                form=output_format,
                progress=tell,
            )
    where = f" to {output}" if output else ""
    note("exported", f"{counted(written, 'record')} of {kb}{where}")
    if output is not None and output_format == "jsonl":
        note("read back", _command(info, output))


def _command(info: KBInfo, output: Path) -> str:
    """The command that reads an export back; what the KB was told is not in its records."""
    words = ["kglink", "add-kb", info.name, str(output)]
    if info.links_to:  # a gold that nobody answers to must not find an entity of another KB
        words += ["--links-to", ",".join(info.links_to)]
    if info.licence:
        words += ["--licence", info.licence]
    return shlex.join(words)
