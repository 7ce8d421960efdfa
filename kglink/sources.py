"""Where records come from: a file, a folder or standard input, decompressed on the fly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol

from kglink.errors import RecordError

OnError = Literal["stop", "skip"]


class SourceHead(NamedTuple):
    """What an adapter may look at to say whether a source is of its format."""

    name: str
    """File name without the compression suffix (``entities.jsonl``), or ``-``."""
    head: bytes
    """The first 64 KiB, decompressed."""
    path: Path | None
    """The file or folder itself; None for standard input."""


class Line(NamedTuple):
    """A line of text without its line break, and its number from 1."""

    number: int
    text: str


class Source(Protocol):
    """A readable source. SKELETON: the class of this name replaces it."""

    name: str
    path: Path | None
    bytes_total: int | None

    @property
    def bytes_read(self) -> int: ...
    @property
    def head(self) -> SourceHead: ...
    def fingerprint(self) -> str: ...
    def open(self) -> BinaryIO: ...
    def lines(self, problems: Problems) -> Iterator[Line]: ...


class Problems:
    """What to do with bad records: stop at the first, or skip and count them."""

    def __init__(self, on_error: OnError = "stop", keep: int = 20) -> None:
        self.on_error = on_error
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []
        self._keep = keep

    def report(self, error: RecordError) -> None:
        """Raise ``error``, or count it and keep it as an example."""
        if self.on_error == "stop":
            raise error
        self.counts[error.reason] += 1
        if len(self.examples) < self._keep:
            self.examples.append(str(error))
