"""What `kglink link` reads: texts, texts with marked spans, and documents with given spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kglink.errors import RecordError, SourceError, UsageError
from kglink.records import Document, Span, TextInput
from kglink.sources import Problems, Source
from kglink_cli.console import note

if TYPE_CHECKING:
    from kglink.plugins import KBAdapter

DOCUMENTS = "kglink/documents"
_JSON_NAMES = (".jsonl", ".ndjson", ".json")


class InputProblems(Problems):
    """Bad inputs; of `link`'s options, --set is the detector's and --input-set the reader's."""

    def leave_out(self, error: RecordError) -> None:
        """Count a bad input, its hint in the words of this command."""
        super().leave_out(_in_words_of_link(error))

    def report(self, error: RecordError) -> None:
        """Raise or count a bad input, its hint in the words of this command."""
        super().report(_in_words_of_link(error))


def _in_words_of_link(error: RecordError) -> RecordError:
    error.hint = error.hint.replace("--set ", "--input-set ")
    return error


def state_of(source: Source) -> object:
    """What tells the content of a source from another: its bytes, of a folder names and times."""
    if not source.is_folder:
        return [source.name, source.fingerprint()]
    stats = ((file.name, file.path.stat()) for file in source.files() if file.path)
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def read_inputs(
    source: Source, documents: KBAdapter, *, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    """The texts of a file, of a folder's files in the order of their names, or of ``-``."""
    if not source.is_folder:
        yield from _read(source, documents, marked, problems)
        return
    files = source.files()
    if not files:
        raise SourceError(f"{source.path} holds no file", hint="Name a folder of texts.")
    left_out = 0
    for file in files:
        try:
            if file.bytes_total and b"\x00" in file.head.head:
                left_out += 1
                continue
            yield from _read(file, documents, marked, problems)
        except RecordError:
            raise  # one that was reported, and stops the run
        except SourceError as error:
            if problems.on_error == "stop":
                raise
            problems.report(RecordError(error.message, where=file.name, hint=error.hint))
    if left_out:
        note("left out", f"{left_out:,} files that are not text")


def _read(
    source: Source, documents: KBAdapter, marked: bool, problems: Problems
) -> Iterator[TextInput]:
    if not source.bytes_total:  # An empty text is a text.
        yield TextInput(source.name, "")
    elif _holds_records(source):
        yield from _read_records(source, documents, problems)
    else:
        try:
            text = _read_text(source, marked)
        except RecordError as error:
            problems.report(error)
        else:
            yield text


def _read_records(source: Source, documents: KBAdapter, problems: Problems) -> Iterator[TextInput]:
    for record in documents.read(source, problems):
        if not isinstance(record, Document):
            raise UsageError(
                f"{source.name} holds entities, not texts",
                hint="Entities are added with `kglink add-kb NAME FILE`.",
            )
        spans = tuple(Span(mention.start, mention.end) for mention in record.mentions)
        yield TextInput(record.id, record.text, spans or None)


def _read_text(source: Source, marked: bool) -> TextInput:
    text = _decoded(source)
    if not marked:
        return TextInput(source.name, text)
    from kglink.text.markup import parse_marked

    clean, marks = parse_marked(text)
    return TextInput(source.name, clean, tuple(marks))


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
