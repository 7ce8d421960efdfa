"""The journal of a review: a file of JSON lines to which each answer is added at once.

The first line holds the plan and the pairs that were drawn. kill -9 at any moment loses at most
the line that was being written, which the next opening cuts off.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from kglink.errors import KglinkError, UsageError
from kglink.files.atomic import write_atomically
from kglink.files.manifest import now
from kglink.overlap.review.sample import Drawn, Keys, ReviewPlan
from kglink.records import Judgement, Verdict

Answer = Literal["correct", "wrong", "unclear", "skip"]
VERSION = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer to a pair and what it took the place of; ``undone`` takes the last one back."""

    pair: Keys
    answer: Answer
    before: Judgement | None = None
    undone: bool = False


class Journal:
    """One review on disk: its plan, what was drawn, and all entries in their order."""

    def __init__(self, path: Path, plan: ReviewPlan, drawn: Drawn, entries: Sequence[Entry]):
        self.path = path
        self.plan = plan
        self.drawn = drawn
        self.entries = [*entries]

    @classmethod
    def create(cls, path: Path, plan: ReviewPlan, drawn: Drawn) -> Journal:
        """Begin a journal; it is there whole or not at all."""
        head = {"kglink_review": VERSION, "began": now(), "plan": asdict(plan)} | asdict(drawn)
        with _told(path):
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, _line(head))
        return cls(path, plan, drawn, ())

    @classmethod
    def open(cls, path: Path, *, mend: bool = False) -> Journal:
        """Read a journal but for a last line that was never finished; ``mend`` cuts that off."""
        with _told(path):
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if mend and whole < len(data):
                os.truncate(path, whole)
        head, *lines = data[:whole].splitlines() or [b""]
        plan, drawn = _head(path, head)
        entries = [_entry(path, number, line) for number, line in enumerate(lines, 2)]
        return cls(path, plan, drawn, entries)

    def add(self, entry: Entry) -> None:
        """Add an entry; it is on the disk when this returns."""
        fields = {"at": now()} | asdict(entry)
        with _told(self.path), self.path.open("ab") as out:
            out.write(_line(fields))
            out.flush()
            os.fsync(out.fileno())
        self.entries.append(entry)

    def standing(self) -> dict[Keys, Entry]:
        """The last entry of each pair."""
        return {entry.pair: entry for entry in self.entries}

    def last_answer(self) -> Entry | None:
        """The newest answer that was not taken back."""
        stack: list[Entry] = []
        for entry in self.entries:
            if not entry.undone:
                stack.append(entry)
            elif stack:
                stack.pop()
        return stack[-1] if stack else None

    def undo(self) -> Entry | None:
        """Take the newest answer back; None where there is none."""
        last = self.last_answer()
        if last is None:
            return None
        self.add(replace(last, undone=True))
        return last


def journals(folder: Path, left: str, right: str) -> list[Path]:
    """The journals of two KBs, the newest first."""
    name = _name(left, right)
    found = [path for path in folder.glob(f"{name}.*.jsonl") if _number(path) > 0]
    return sorted(found, key=_number, reverse=True)


def next_journal(folder: Path, left: str, right: str) -> Path:
    """Where the next review of two KBs writes."""
    newest = next(iter(journals(folder, left, right)), None)
    number = _number(newest) + 1 if newest else 1
    return folder / f"{_name(left, right)}.{number}.jsonl"


def lock_path(folder: Path, left: str, right: str) -> Path:
    """The lock that a running review of two KBs holds."""
    return folder / f".{_name(left, right)}.lock"


def _name(left: str, right: str) -> str:
    """KB names hold no plus sign, so that no two pairs of them share a name."""
    return "+".join(sorted((left, right)))


def _number(path: Path) -> int:
    number = path.name.split(".")[-2]
    return int(number) if number.isdecimal() else 0


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _head(path: Path, line: bytes) -> tuple[ReviewPlan, Drawn]:
    fields = _parsed(path, 1, line)
    try:
        if fields["kglink_review"] != VERSION:
            raise _damaged(path, 1)
        drawn = Drawn(_pairs(fields["pairs"]), _pairs(fields["stale"]), int(fields["population"]))
        return ReviewPlan(**fields["plan"]), drawn
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, 1) from error


def _entry(path: Path, number: int, line: bytes) -> Entry:
    fields = _parsed(path, number, line)
    try:
        left, right = fields["pair"]
        before = _judgement(fields["before"]) if fields["before"] else None
        entry = Entry((left, right), fields["answer"], before, bool(fields["undone"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, number) from error
    if entry.answer not in get_args(Answer):
        raise _damaged(path, number)
    return entry


def _judgement(fields: Mapping[str, Any]) -> Judgement:
    if fields["verdict"] not in get_args(Verdict):
        raise ValueError(fields["verdict"])
    left, right = fields["texts"] or ("", "")
    texts = (left, right) if fields["texts"] else None
    return Judgement(fields["verdict"], fields["source"], texts)


def _pairs(listed: Sequence[Sequence[str]]) -> tuple[Keys, ...]:
    return tuple((left, right) for left, right in listed)


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, number) from error
    if not isinstance(fields, dict):
        raise _damaged(path, number)
    return cast("dict[str, Any]", fields)


def _damaged(path: Path, line: int) -> KglinkError:
    return KglinkError(
        f"{path}, line {line}: not a line of a review's journal",
        hint="Its verdicts are in the store. Move the file away to begin another review.",
    )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot keep the review's journal {path}: {error.strerror or error}",
            hint="The workspace folder must be writable, on a disk with room.",
        ) from error
