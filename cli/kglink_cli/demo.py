"""`kglink demo`: the whole journey on two small KBs that come with kglink."""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.records import TextInput
from kglink.workspace import Workspace, init_workspace
from kglink_cli.build import build_with_progress
from kglink_cli.console import note
from kglink_cli.evaluate import print_recall
from kglink_cli.overlap_records import found_text, pair_name

if TYPE_CHECKING:
    from kglink.workspace import AddedKB

KBS = ("encyclopedia", "lanternfall")
DOCUMENTS = "demo_documents"
LICENCE = "CC0-1.0"


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="Where to work; a new temporary folder where not told."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Where the page goes; in the folder else.")
    ] = None,
) -> None:
    """Add two KBs, find what they share, build the joint space, link a text, measure.

    An encyclopedia and the fan wiki of an invented series, which share names that mean the same
    thing, and names that do not.
    """
    began = time.monotonic()
    made = folder or Path(tempfile.mkdtemp(prefix="kglink-demo-"))
    if not (made / "kglink.toml").exists():
        init_workspace(made)
    note("demo", f"working in {made}")
    with as_file(files("kglink_cli") / "demo_data") as data, Workspace.open(made) as workspace:
        for kb in KBS:
            _show(f"kglink add-kb {kb} {kb}.jsonl")
            _tell(workspace.add_kb(kb, data / f"{kb}.jsonl", licence=LICENCE))
        _show(f"kglink add-kb {DOCUMENTS} documents.jsonl --links-to {','.join(KBS)}")
        _tell(workspace.add_kb(DOCUMENTS, data / "documents.jsonl", links_to=KBS, licence=LICENCE))
        _show("kglink overlap")
        for report in workspace.find_overlaps():
            sys.stdout.write(f"{pair_name(report)}   {found_text(report)}\n")
        _show("kglink build")
        build_with_progress(workspace)
        page = html or made / "demo.html"
        _show(f"kglink link text.txt   # and as a page: --format html -o {page}")
        _link(workspace, data / "text.txt", page)
        sys.stdout.write(f"\n{time.monotonic() - began:.1f} s from nothing to the linked text\n")
        _show(f"kglink eval --docs {DOCUMENTS} --split test   # nothing is trained yet")
        print_recall(workspace.evaluate(DOCUMENTS, split="test", ks=(1, 5)))
    _next_steps(page)


def _link(workspace: Workspace, text: Path, page: Path) -> None:
    source = TextInput("text.txt", text.read_text(encoding="utf-8"))
    linked = list(workspace.linker().link([source]))
    workspace.registry.create("exporter", "kglink/table").export(linked, sys.stdout)
    with page.open("w", encoding="utf-8") as out:
        workspace.registry.create("exporter", "kglink/html").export(linked, out)


def _show(command: str) -> None:
    sys.stdout.write(f"\n$ {command}\n")
    sys.stdout.flush()


def _tell(added: AddedKB) -> None:
    summary = added.summary
    held = (
        f"{summary.with_description} with description, {summary.aliases} aliases"
        if summary.added or summary.unchanged
        else f"{summary.documents} documents, {summary.mentions} mentions"
    )
    sys.stdout.write(f"{summary.kb} {summary}   {held}\n")


def _next_steps(page: Path) -> None:
    sys.stdout.write(
        f"\nThe page: {page}\n"
        "\nNow with your own files:\n"
        "  kglink add-kb mykb entities.jsonl   # id, title, description, aliases; or CSV\n"
        "  kglink add-kb other other.csv && kglink overlap\n"
        "  kglink link mytext.txt --format html -o mytext.html\n"
    )
