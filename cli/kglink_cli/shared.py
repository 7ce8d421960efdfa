"""The options that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
SpaceName = Annotated[str | None, Option("--space", help="Name of the space.")]
KBNames = Annotated[list[str] | None, Option("--kb", help="Only these KBs: a,b")]
TopK = Annotated[int | None, Option("--top-k", "-k", help="Candidates for each mention.")]
Types = Annotated[
    list[str] | None, Option("--type", help="Only entities of this type; may be repeated.")
]
Under = Annotated[
    list[str] | None,
    Option(help="Of this entity's KB only its branch, such as doid:DOID:4; may be repeated."),
]
NotUnder = Annotated[
    list[str] | None, Option(help="Nothing of this entity's branch; may be repeated.")
]
FoundBy = Annotated[
    str | None, Option(help="What finds candidates: all, vectors, names, bm25 or tfidf.")
]
Rerank = Annotated[
    int | None,
    Option(
        min=0,
        max=100,
        help="First candidates of each KB that the trained reranker reads with the mention.",
    ),
]
Detector = Annotated[
    list[str] | None, Option(help="What finds the mentions (`kglink plugins`); several: a,b.")
]
JudgedSplit = Annotated[
    str | None,
    Option(
        "--split",
        help="train, dev, test; empty: all. Else dev, or all where no document says its split.",
        show_default=False,
    ),
]
Adapter = Annotated[str, Option("--adapter", "-a", help="How to read it; guessed where not told.")]
AdapterOptions = Annotated[
    list[str] | None,
    Option("--set", help="A setting of the adapter, key=value; may be repeated."),
]
Encoding = Annotated[
    str | None, Option(help="Encoding of texts that are not UTF-8, such as cp1252 or utf-16.")
]
OnError = Annotated[str | None, Option(help="stop or skip at a bad record.")]


def _to_file(path: Path | None) -> Path | None:
    """The file to write to; None, which is standard output, for "-"."""
    return None if path == Path("-") else path


Output = Annotated[
    Path | None,
    Option("--output", "-o", help="Write to a file.", dir_okay=False, callback=_to_file),
]
PackedOutput = Annotated[
    Path | None,
    Option(
        *("--output", "-o"),
        help="Write to a file; .gz, .bz2, .xz and .zst pack it.",
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
