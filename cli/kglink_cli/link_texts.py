"""The texts of `kglink link`: what is wrong with them, what they are, how many are done."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial

from kglink.errors import RecordError
from kglink.records import LinkedDocument
from kglink.sources import Problems, Source
from kglink.workspace.texts import TextReader
from kglink_cli.console import Reached, display


def showing_texts(
    documents: Iterable[LinkedDocument],
    reader: TextReader,
    source: Source | None,
    *,
    before: int = 0,
    visible: bool = True,
) -> Iterator[LinkedDocument]:
    """The documents, and how many are done with those ``before``, shown while they come."""
    if not visible:
        yield from documents
        return
    with display() as show:
        show(texts_done(before, reader, source))
        for done, document in enumerate(documents, before + 1):
            show(texts_done(done, reader, source))
            yield document


def texts_done(done: int, reader: TextReader, source: Source | None) -> Reached:
    """How many texts of all, as far as each file is one text; else the share of the bytes read.

    Of a stream (no ``source``) nobody knows how many will come.
    """
    if source is None:
        return Reached("texts", done, None, done)
    if source.is_folder and not reader.files_begun:
        return Reached("texts", done, len(source.files()), done)
    if reader.files_begun and reader.texts_read <= reader.files_begun:
        return Reached("texts", done, reader.texts_read + reader.files_left, done)
    return Reached("texts", source.bytes_read, source.bytes_total, done, "bytes")


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
    states: list[list[object]] = []
    for file in source.files():
        status = file.path.stat() if file.path else None
        told = (status.st_size, status.st_mtime_ns) if status else (file.fingerprint(),)
        states.append([file.name, *told])
    return states


def lines_of(source: Source, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """The lines of a source with their numbers."""
    return ((number, line) for number, _, line in source.byte_lines(problems))


def arriving_lines(longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines of standard input with their numbers, each as soon as it is there."""
    for number, line in enumerate(iter(partial(sys.stdin.buffer.readline, longest + 1), b""), 1):
        if len(line) > longest:
            raise RecordError(
                f"the line is longer than {longest:,} bytes",
                where=f"standard input, line {number}",
                hint="Raise ingest.max_line_mb.",
            )
        yield number, line
