"""How far `kglink link` is: texts done of all texts, how fast, and how long it will take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kglink.records import LinkedDocument
from kglink.sources import Source
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
    """So many texts of all, as far as each file is one text; else the share of the bytes read.

    Of a stream (no ``source``) nobody knows how many will come.
    """
    if source is None:
        return Reached("texts", done, None, done)
    if source.is_folder and not reader.files_begun:
        return Reached("texts", done, len(source.files()), done)
    if reader.files_begun and reader.texts_read <= reader.files_begun:
        return Reached("texts", done, reader.texts_read + reader.files_left, done)
    return Reached("texts", source.bytes_read, source.bytes_total, done, "bytes")
