"""Cuts the stream of an export into its header and pieces of whole pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from kglink.errors import SourceError
from kglink_kbs.mediawiki.pages import BadPage, no_page, title_in, too_large

_PAGE, _PAGE_END, _END = b"<page>", b"</page>", b"</mediawiki>"
_OTHER_PAGE = b"<page "
_MOST_HEADER = 8 * 2**20
_HEAD_OF_PAGE = 2**16


class Piece(NamedTuple):
    """Some whole pages: their file, where they begin in it once unpacked, and their bytes."""

    label: str
    offset: int
    data: bytes


class Export:
    """An export as it is read; where it is cut depends on its bytes alone."""

    def __init__(
        self,
        stream: BinaryIO,
        label: str,
        *,
        piece_bytes: int,
        max_page_bytes: int,
        report: Callable[[BadPage], None],
    ) -> None:
        self._stream = stream
        self._label = label
        self._piece_bytes = piece_bytes
        self._max_page_bytes = max_page_bytes
        self._report = report
        self._held = bytearray()
        self._offset = 0
        self._header: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def header(self) -> bytes:
        """Everything before the first page."""
        if self._header is None:
            self._header = self._read_header()
        return self._header

    def _read_header(self) -> bytes:
        while (start := _first_page(self._held)) < 0 and self._more():
            if len(self._held) > _MOST_HEADER:
                raise SourceError(
                    f"{self._label}: no page in the first {_MOST_HEADER:,} bytes",
                    hint="A MediaWiki export has its pages right behind <siteinfo>.",
                )
        if start < 0:
            end = self._held.find(_END)
            start = end if end >= 0 else len(self._held)
        return self._take(start)

    def pieces(self) -> Iterator[Piece]:
        """The pages, in pieces of about the same size."""
        self.header()
        searched = 0
        while True:
            more = self._more()
            end = self._held.rfind(_PAGE_END, searched)
            if end >= 0:
                offset = self._offset
                yield Piece(self._label, offset, self._take(end + len(_PAGE_END)))
                searched = 0
            elif len(self._held) > self._max_page_bytes:
                self._skip_page()
                searched = 0
            else:
                searched = max(0, len(self._held) - len(_PAGE_END))
            if not more:
                break
        self._check_end()

    def _more(self) -> bool:
        data = self._stream.read(self._piece_bytes)
        self._held += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._held)[:size])
        del self._held[:size]
        self._offset += size
        return data

    def _skip_page(self) -> None:
        """Read past a page that is too large, without holding more than a piece of it."""
        title = title_in(bytes(self._held[:_HEAD_OF_PAGE]))
        self._report(too_large(title, self._max_page_bytes, self._label))
        while (end := self._held.find(_PAGE_END)) < 0:
            self._take(max(0, len(self._held) - len(_PAGE_END)))
            if not self._more():
                return
        self._take(end + len(_PAGE_END))

    def _check_end(self) -> None:
        end = self._held.find(_END)
        if end >= 0:
            if self._held[:end].strip():
                self._report(no_page(self._offset, self._label))
            return
        title = title_in(bytes(self._held[:_HEAD_OF_PAGE]))
        place = f"in page {title!r}" if title else "between two pages"
        raise SourceError(
            f"{self._label} is cut short: it ends {place}, at byte "
            f"{self._offset + len(self._held):,} of the unpacked file",
            hint="An export ends with </mediawiki>; copy or download it again.",
        )


def _first_page(data: bytearray) -> int:
    places = [place for mark in (_PAGE, _OTHER_PAGE) if (place := data.find(mark)) >= 0]
    return min(places, default=-1)
