"""The options that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
SpaceName = Annotated[str | None, Option("--space", help="The space; by default `default`.")]
KBNames = Annotated[list[str] | None, Option("--kb", help="Only these KBs: a,b")]
TopK = Annotated[int | None, Option("--top-k", "-k", help="Candidates per mention; else 5.")]
Types = Annotated[
    list[str] | None, Option("--type", help="Only entities of this type; may be repeated.")
]
Under = Annotated[
    list[str] | None,
    Option(help="In its KB, only this entity and its descendants (doid:DOID:4); may be repeated."),
]
NotUnder = Annotated[
    list[str] | None, Option(help="Neither this entity nor its descendants; may be repeated.")
]
FoundBy = Annotated[
    str | None, Option(help="Finds candidates: all (default), vectors, names, bm25 or tfidf.")
]
Rerank = Annotated[
    int | None,
    Option(
        min=0,
        max=100,
        help="Number of candidates of each KB that the trained reranker reads; by default 0.",
    ),
]
Detector = Annotated[
    list[str] | None,
    Option(help="Detector of mentions (`kglink plugins`), else auto; several: a,b."),
]
JudgedSplit = Annotated[
    str | None,
    Option(
        "--split",
        help="train, dev or test; empty: all. By default dev, or all if no document has a split.",
        show_default=False,
    ),
]
Adapter = Annotated[str, Option("--adapter", "-a", help="Adapter; by default guessed.")]
AdapterOptions = Annotated[
    list[str] | None,
    Option("--set", help="A setting of the adapter, key=value; may be repeated."),
]
Encoding = Annotated[
    str | None, Option(help="Encoding of texts that are not UTF-8, such as cp1252 or utf-16.")
]
OnError = Annotated[str | None, Option(help="At a bad record: stop (the default), or skip it.")]


def _to_file(path: Path | None) -> Path | None:
    """The file to write to; None, which is standard output, for "-"."""
    return None if path == Path("-") else path


Output = Annotated[
    Path | None,
    Option("--output", "-o", help="Write to this file.", dir_okay=False, callback=_to_file),
]
PackedOutput = Annotated[
    Path | None,
    Option(
        *("--output", "-o"),
        help="Write to this file; .gz, .bz2, .xz or .zst compresses it.",
        dir_okay=False,
        callback=_to_file,
    ),
]
Engine = Annotated[
    str, Option(help="`ray`: workers on a Ray cluster share the work (docs/cluster.md).")
]
EngineWorkers = Annotated[
    int | None,
    Option(
        "--workers",
        min=1,
        help="Workers of `--engine ray`; by default as many as this machine has cores.",
    ),
]
