"""What goes with a source: its head, its lines, its limits, its records, and the bad ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from kglink.errors import RecordError, SourceError

OnError = Literal["stop", "skip"]
#: Is told how a source is read: a label and a sentence.
OnNote = Callable[[str, str], None]

#: Different reasons that are counted one by one; a file of a million bad lines must not fill
#: the memory with a million messages.
MAX_REASONS = 100
OTHER_REASONS = "other problems"
#: What differs from one bad record to the next: what it says, and where in it.
_PARTICULARS = re.compile(
    r"""'(?:[^'\\]|\\.){0,300}+'|"(?:[^"\\]|\\.){0,300}+"|\d[\d,]{0,25}\.\.\d[\d,]*+"""
    r"""| \((?:byte|column) [\d,]++\)"""
)


def kind_of(reason: str) -> str:
    """``reason`` without the words and offsets of the one record that it is said of."""
    return _PARTICULARS.sub(lambda found: "" if found[0][0] == " " else "...", reason)


class SourceHead(NamedTuple):
    """What an adapter may look at to say whether a source is of its format."""

    name: str
    """File name without the compression suffix (``entities.jsonl``), or ``-``."""
    head: bytes
    """The first 64 KiB, decompressed; empty for a folder."""
    path: Path | None
    """The file or folder itself; None for standard input."""


class Line(NamedTuple):
    """A line of text without its line break, and its number from 1."""

    number: int
    text: str


class Step(NamedTuple):
    """What a reading is at, and how far it has come in that."""

    name: str = "reading"
    done: int = 0
    total: int = 0
    unit: Literal["bytes", "parts"] = "bytes"
    """``bytes`` are those of the source, which counts them itself."""


class SourceLimits(NamedTuple):
    """What a source may ask of the machine, and what its texts are written in."""

    max_line_bytes: int = 32 * 2**20
    """The longest line that is ever held in memory."""
    max_text_chars: int = 16_000_000
    """The longest text or description."""
    max_name_chars: int = 32_768
    """The longest name of an entity or document, or mention."""
    max_expansion: float = 1000
    """How many times its size a compressed source may grow..."""
    free_expansion: int = 2**30
    """...once it has grown past this many bytes."""
    free_lines: int = 2_000_000
    """Lines that a compressed source may have, however small it is."""
    free_seconds: float = 60
    """Computing time that unpacking may take, however small the source is."""
    max_spool_bytes: int = 64 * 2**30
    """The most that is copied of a stream, which has no size before it ends."""
    pipe_seconds: float = 30
    """How long to wait until a program opens a named pipe to write to it."""
    encoding: str = ""
    """The encoding of texts without a mark of UTF-8 or UTF-16; empty: UTF-8."""

    def check_growth(
        self,
        name: str,
        packed: int,
        unpacked: int,
        kind: str = "",
        *,
        lines: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Refuse a source that grows out of proportion; ``kind`` says how it is packed.

        A line of text takes no less than ten bytes, so ``lines`` may grow by a tenth of what
        bytes may. No decoder takes more than a second for 20 kB of packed data.
        """
        of_kind = f" of {kind}" if kind else ""
        reason = ""
        if unpacked > max(self.free_expansion, packed * self.max_expansion):
            times = f"grows to more than {self.max_expansion:,g} times its size"
            reason = f"{times}: {packed:,} bytes{of_kind} became {unpacked:,}"
        elif lines > max(self.free_lines, packed * self.max_expansion / 10):
            many = f"{packed:,} bytes{of_kind} became {lines:,} lines"
            reason = f"grows to too many lines: {many}"
        elif seconds > max(self.free_seconds, packed * self.max_expansion / 20_000_000):
            long = f"{packed:,} bytes{of_kind} took {seconds:,.0f} seconds"
            reason = f"takes too long to unpack: {long}"
        if reason:
            raise SourceError(
                f"{name} {reason}",
                hint="If it is what you expect, raise ingest.max_expansion or unpack it first.",
            )


def text_too_long(where: str, longest: int) -> RecordError:
    """The error of a text that is longer than the limit."""
    return RecordError(
        f"a text of more than {longest:,} characters",
        where=where,
        hint="Cut it into parts, or raise ingest.max_text_mb.",
    )


class Problems:
    """What to do with bad records: stop at the first, or skip and count them."""

    def __init__(
        self,
        on_error: OnError = "stop",
        keep: int = 20,
        *,
        on_note: OnNote = lambda label, text: None,
        how_to_skip: str = "--on-error skip passes over such records and counts them.",
    ) -> None:
        self.on_error = on_error
        self._how_to_skip = how_to_skip
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []
        self.mended: Counter[str] = Counter()
        self.passed_over: Counter[str] = Counter()
        self.notes: dict[str, str] = {}
        self._on_note = on_note
        self._keep = keep

    @property
    def total(self) -> int:
        """How many bad records were skipped."""
        return self.counts.total()

    def report(self, error: RecordError) -> None:
        """Raise ``error`` and say how to pass over it, or count it and keep it as an example."""
        if self.on_error == "stop":
            if self._how_to_skip and "--on-error" not in error.hint:
                # A hint may end in a command: without a full stop ours would go on with it.
                stop = "." if error.hint and error.hint[-1] not in ".?!" else ""
                error.hint = f"{error.hint}{stop} {self._how_to_skip}".lstrip()
            raise error
        self.leave_out(error)

    def refuse(self, reason: str, where: str, hint: str = "") -> None:
        """The same of the record that stands there, by what is wrong with it."""
        self.report(RecordError(reason, where=where, hint=hint))

    def leave_out(self, error: RecordError) -> None:
        """Count what a format is known to hold and its adapter to leave out, in either mode."""
        kind = kind_of(error.reason)
        full = len(self.counts) >= MAX_REASONS and kind not in self.counts
        self.counts[OTHER_REASONS if full else kind] += 1
        if len(self.examples) < self._keep:
            self.examples.append(str(error))

    def pass_over(self, what: str, count: int = 1) -> None:
        """Count what is sound and not wanted, such as pages of a kind that is left out."""
        self.passed_over[what] += count

    def tell(self, label: str, text: str) -> None:
        """Tell the user how the source is read, such as what was guessed."""
        self.notes[label] = text
        self._on_note(label, text)

    def mend(self, reason: str) -> None:
        """Count what an adapter has set right; ``reason`` is one of a few."""
        self.mended[reason] += 1
