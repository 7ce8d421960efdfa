"""What `kglink link` reads: texts, texts with marked spans, and documents with given spans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kglink.errors import RecordError, SourceError, UsageError
from kglink.records import Document, Span, TextInput
from kglink.sources import Problems, Source
from kglink.workspace import Workspace
from kglink_cli.console import note

DOCUMENTS = "kglink/documents"
_JSON_NAMES = (".jsonl", ".ndjson", ".json")


def read_inputs(
    workspace: Workspace, path: str, *, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    """The texts of a file, of a folder's files in the order of their names, or of ``-``."""
    with workspace.open_source(path) as source:
        if source.is_folder:
            yield from _read_folder(workspace, Path(path), marked, problems)
        else:
            yield from _read(workspace, source, source.name, marked, problems)


def _read_folder(
    workspace: Workspace, root: Path, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    files = [file for file in sorted(root.rglob("*")) if _is_visible_file(file, root)]
    if not files:
        raise SourceError(f"{root} holds no file", hint="Name a folder of texts.")
    left_out = 0
    for file in files:
        with workspace.open_source(file) as source:
            if source.bytes_total and b"\x00" in source.head.head:
                left_out += 1
                continue
            name = file.relative_to(root).as_posix()
            yield from _read(workspace, source, name, marked, problems)
    if left_out:
        note("left out", f"{left_out:,} files that are not text")


def _is_visible_file(file: Path, root: Path) -> bool:
    parts = file.relative_to(root).parts
    return file.is_file() and not any(part.startswith(".") for part in parts)


def _read(
    workspace: Workspace, source: Source, name: str, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    if not source.bytes_total:  # An empty text is a text.
        yield TextInput(name, "")
        return
    if _holds_records(source):
        adapter = workspace.registry.create("kb", DOCUMENTS)
        for record in adapter.read(source, problems):
            if not isinstance(record, Document):
                raise UsageError(
                    f"{name} holds entities, not texts",
                    hint="Entities are added with `kglink add-kb NAME FILE`.",
                )
            spans = tuple(Span(mention.start, mention.end) for mention in record.mentions)
            yield TextInput(record.id, record.text, spans or None)
        return
    text = _decoded(source)
    if marked:
        from kglink.text.markup import parse_marked

        clean, marks = parse_marked(text)
        yield TextInput(name, clean, tuple(marks))
    else:
        yield TextInput(name, text)


def _holds_records(source: Source) -> bool:
    """Whether a source is JSON with one document a line; prose may begin with a bracket too."""
    head = source.head
    begins = head.head.lstrip()[:1]
    if head.name.lower().endswith(_JSON_NAMES):
        return True
    return head.name == "-" and begins == b"{" and b'"text"' in head.head


def _decoded(source: Source) -> str:
    with source.open() as stream:
        raw = stream.read()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(
            "not UTF-8 text",
            where=f"{source.name}, byte {error.start:,}",
            hint="Convert it first, such as: iconv -f latin1 -t utf-8 FILE",
        ) from error
