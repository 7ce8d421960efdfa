"""`kglink export`: a KB as a file that `kglink add-kb` reads back without loss."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from kglink.errors import UsageError
from kglink.records import Progress
from kglink.workspace.export import record_line
from kglink.workspace.outputs import whole_file
from kglink_cli.console import note, progress
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.records import Record
    from kglink.store import KBInfo
    from kglink.workspace import Workspace

FORMATS = ("jsonl",)
PARTS = ("entities", "documents", "mappings")
SPLITS = ("train", "dev", "test")


def export(
    context: typer.Context,
    kb: Annotated[str, typer.Argument(help="The KB.")],
    output_format: Annotated[
        str, typer.Option("--format", "-f", help="jsonl, which add-kb reads back.")
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
    _check("format", output_format, FORMATS)
    _check("split", split, ("", *SPLITS))
    _check("part", only, ("", *PARTS))
    with session_of(context).open() as workspace:
        info = workspace.store.kb(kb)
        if not info.complete:
            note("unfinished", f"{kb} is half-way through an update: this is what it holds so far")
        parts = tuple(part for part in PARTS if only in ("", part))
        records = _records(workspace, kb, parts, split)
        if output is None:
            written = _write(records, info, sys.stdout, visible=not sys.stdout.isatty())
        else:
            with whole_file(output) as out:
                written = _write(records, info, out, visible=True)
    where = f" to {output}" if output else ""
    note("exported", f"{written:,} records of {kb}{where}")
    if output is not None:
        note("read back", _command(info, output))


def _command(info: KBInfo, output: Path) -> str:
    """The command that reads an export back; what the KB was told is not in its records."""
    words = ["kglink", "add-kb", info.name, str(output)]
    if info.links_to:  # a gold that nobody answers to must not find an entity of another KB
        words += ["--links-to", ",".join(info.links_to)]
    if info.licence:
        words += ["--licence", info.licence]
    return shlex.join(words)


def _check(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        there_is = ", ".join(filter(None, known))
        raise UsageError(f"unknown {what} {value!r}", hint=f"There is: {there_is}.")


def _records(workspace: Workspace, kb: str, parts: tuple[str, ...], split: str) -> Iterator[Record]:
    store = workspace.store
    if "entities" in parts:
        yield from store.entities(kb)
    if "documents" in parts:
        yield from store.documents(kb, split or None, unresolved=True)
    if "mappings" in parts:
        yield from store.mappings(kb)


def _write(records: Iterator[Record], info: KBInfo, out: TextIO, *, visible: bool) -> int:
    total = info.entities + info.documents + info.mappings
    written = 0
    with progress(visible=visible) as tell:
        for record in records:
            out.write(record_line(record))
            written += 1
            if written % 1000 == 0:
                tell(Progress("exporting", written, total))
    return written
