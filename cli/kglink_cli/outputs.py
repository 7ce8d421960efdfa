"""Where `kglink link` writes: standard output, or a file that is whole or resumable."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kglink.errors import UsageError
from kglink.records import LinkedDocument
from kglink_cli.console import note

if TYPE_CHECKING:
    from kglink.protocols import Exporter

_FORMAT_OF_SUFFIX = {".html": "html", ".htm": "html", ".jsonl": "jsonl", ".json": "json"}
#: Formats that can be written piece by piece, so that an interrupted run can go on.
_RESUMABLE = "kglink/jsonl"


def format_of(chosen: str | None, output: Path | None) -> str:
    """The format that was named, else the one of the file's ending, else the table."""
    if chosen:
        return chosen
    return _FORMAT_OF_SUFFIX.get(output.suffix.lower(), "table") if output else "table"


def write_to(
    output: Path | None,
    exporter: Exporter,
    name: str,
    made_by: object,
    link: Callable[[frozenset[str]], Iterable[LinkedDocument]],
) -> None:
    """Write everything that ``link`` gives, leaving out the documents that are written already.

    ``made_by`` is all that decides the output: only a run with the same goes on with a file.
    """
    if output is None:
        exporter.export(link(frozenset()), sys.stdout)
    elif name == _RESUMABLE:
        _write_resumable(output, exporter, made_by, link)
    else:
        draft = output.with_name(f".{output.name}.partial")
        with _opened(draft, "w") as out:
            exporter.export(link(frozenset()), out)
        draft.replace(output)


def _write_resumable(
    output: Path,
    exporter: Exporter,
    made_by: object,
    link: Callable[[frozenset[str]], Iterable[LinkedDocument]],
) -> None:
    fingerprint = hashlib.blake2b(
        json.dumps(made_by, sort_keys=True, default=str).encode(), digest_size=8
    ).hexdigest()
    draft = output.with_name(f".{output.name}.{fingerprint}.partial")
    done = frozenset(_complete_ids(draft))
    if done:
        note("resumed", f"after {len(done):,} documents of an interrupted run")
    with _opened(draft, "a") as out:
        exporter.export(link(done), out)
    draft.replace(output)


def _complete_ids(draft: Path) -> Iterator[str]:
    """The ids of the whole lines of a draft; a last line that was cut off is removed."""
    if not draft.exists():
        return
    whole = 0
    with draft.open("rb+") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            yield json.loads(line)["id"]
        lines.truncate(whole)


def _opened(path: Path, mode: str) -> TextIO:
    try:
        opened = path.open(mode, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return opened  # type: ignore[return-value]  # a text mode
