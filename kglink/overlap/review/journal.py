"""What a review draws, the precision that its verdicts mean, and its journal: JSON lines."""

from __future__ import annotations

import contextlib
import heapq
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import TypeAdapter

from kglink.errors import KglinkError, UsageError
from kglink.files.atomic import write_atomically
from kglink.files.digest import text_digest
from kglink.files.manifest import now
from kglink.records import Judgement, Overlap

Order = Literal["random", "uncertain"]
#: Left key and right key.
Keys = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """Whose overlaps are reviewed, how many of them, and which.

    ``random`` draws from all pairs that were found, judged or not, so that the precision of the
    sample is that of all. ``uncertain`` takes the unjudged pairs whose probability is nearest to
    one half: the verdicts that a model learns most from, and no measure of the rest.
    """

    left: str
    right: str
    sample: int = 100
    order: Order = "random"
    seed: int = 17

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            known = ", ".join(get_args(Order))
            raise UsageError(f"unknown order {self.order!r}", hint=f"There is: {known}.")
        if not isinstance(self.sample, Integral) or self.sample < 1:
            raise UsageError(f"a sample of {self.sample} pairs", hint="It takes at least one.")
        if not isinstance(self.seed, Integral):
            raise UsageError(f"the seed {self.seed!r} is no whole number", hint="Such as 17.")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn from how many; ``stale`` pairs, judged on other texts, come before it."""

    pairs: tuple[Keys, ...]
    stale: tuple[Keys, ...]
    population: int


def draw(plan: ReviewPlan, overlaps: Iterable[Overlap]) -> Drawn:
    """Draw from the overlaps of two KBs, holding no more of them than are drawn.

    The same seed gives the same pairs, and a larger sample holds the smaller one.
    """
    stale: list[Keys] = []
    population = 0

    def eligible() -> Iterator[Overlap]:
        nonlocal population
        for overlap in overlaps:
            if overlap.stale and len(stale) < plan.sample:
                stale.append(keys_of(overlap))
            if overlap.was_found and (plan.order == "random" or overlap.verdict is None):
                population += 1
                yield overlap

    def rank(overlap: Overlap) -> Any:
        if plan.order == "uncertain":
            return abs(overlap.probability - 0.5), *keys_of(overlap)
        return text_digest(f"{plan.seed}\0{overlap.left.key}\0{overlap.right.key}")

    chosen = heapq.nsmallest(plan.sample, eligible(), key=rank)
    return Drawn(tuple(map(keys_of, chosen)), tuple(stale), population)


def keys_of(overlap: Overlap) -> Keys:
    """The keys of its two entities."""
    return overlap.left.key, overlap.right.key


#: The normal quantile that leaves 2.5% on either side.
_Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ReviewTable:
    """Counts of the verdicts on the pairs that a review drew, and the precision that they mean.

    ``population`` are the pairs that it drew from, ``before`` those of the drawn that had been
    judged already, ``again`` the pairs that were shown besides because what they were judged by
    has changed: these were not drawn, and are in no other count.
    """

    left: str
    right: str
    order: str
    seed: int
    population: int
    drawn: int
    correct: int
    wrong: int
    unclear: int
    skipped: int
    open: int
    before: int = 0
    again: int = 0

    @property
    def judged(self) -> int:
        """Pairs with a verdict of any kind."""
        return self.correct + self.wrong + self.unclear

    @property
    def precision(self) -> Share | None:
        """The share of correct pairs among those that are correct or wrong."""
        return share_of(self.correct, self.correct + self.wrong)

    @property
    def precision_of_all(self) -> Share | None:
        """The same among all judged ones: an unclear pair is not correct, as the paper counts."""
        return share_of(self.correct, self.judged)

    def as_json(self) -> dict[str, object]:
        """Counts by name; a share is an object with its interval, or null."""
        fields: dict[str, object] = asdict(self) | {"judged": self.judged}
        shares = {"precision": self.precision, "precision_of_all": self.precision_of_all}
        return fields | {name: share and asdict(share) for name, share in shares.items()}


def share_of(part: int, whole: int) -> Share | None:
    """A share with its Wilson interval; None of nothing."""
    return Share(part / whole, *wilson_interval(part, whole)) if whole else None


def wilson_interval(part: int, whole: int) -> tuple[float, float]:
    """The 95% score interval of Wilson (1927) for a share of ``part`` in ``whole`` trials."""
    share, square = part / whole, _Z_95**2
    centre = (share + square / (2 * whole)) / (1 + square / whole)
    reach = math.sqrt(share * (1 - share) / whole + square / (4 * whole**2))
    reach *= _Z_95 / (1 + square / whole)
    # At the ends the formula gives exactly 0 and 1, but for the last digit.
    low = max(0.0, centre - reach) if part else 0.0
    return low, min(1.0, centre + reach) if part < whole else 1.0


Answer = Literal["correct", "wrong", "unclear", "skip"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer to a pair and what it took the place of; ``undone`` takes the last one back."""

    pair: Keys
    answer: Answer
    before: Judgement | None = None
    undone: bool = False


@dataclass(frozen=True, slots=True)
class _Head(Drawn):
    """The first line of a journal."""

    kglink_review: Literal[2]
    plan: ReviewPlan


#: A line that says that the last entry was carried out in the store.
_CARRIED_OUT = b'{"carried_out": true}'
_T = TypeVar("_T")


class Journal:
    """One review on disk: its plan, what was drawn, and all entries in their order."""

    def __init__(
        self,
        path: Path,
        plan: ReviewPlan,
        drawn: Drawn,
        entries: Sequence[Entry],
        *,
        carried_out: bool = True,
    ):
        """``carried_out``: the store has the last entry as well."""
        self.path = path
        self.plan = plan
        self.drawn = drawn
        self.entries = [*entries]
        self.carried_out = carried_out

    @classmethod
    def create(cls, path: Path, plan: ReviewPlan, drawn: Drawn) -> Journal:
        """Begin a journal; it is there whole or not at all."""
        head = {"kglink_review": 2, "began": now(), "plan": asdict(plan)} | asdict(drawn)
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
        first, *lines = data[:whole].splitlines() or [b""]
        head = _read(TypeAdapter(_Head), path, 1, first)
        model = TypeAdapter(Entry)
        entries = [
            _read(model, path, number, line)
            for number, line in enumerate(lines, 2)
            if line != _CARRIED_OUT
        ]
        drawn = Drawn(head.pairs, head.stale, head.population)
        carried_out = not lines or lines[-1] == _CARRIED_OUT
        return cls(path, head.plan, drawn, entries, carried_out=carried_out)

    def add(self, entry: Entry) -> None:
        """Add an entry; it is on the disk when this returns."""
        self._write(_line({"at": now()} | asdict(entry)))
        self.entries.append(entry)
        self.carried_out = False

    def note_carried_out(self) -> None:
        """Note that the store has the last entry."""
        self._write(_CARRIED_OUT + b"\n")
        self.carried_out = True

    def _write(self, line: bytes) -> None:
        with _told(self.path), self.path.open("ab") as out:
            out.write(line)
            out.flush()
            os.fsync(out.fileno())

    def standing(self) -> dict[Keys, Entry]:
        """The last entry of each pair."""
        return {entry.pair: entry for entry in self.entries}

    def undo(self) -> Entry | None:
        """Take back the newest answer that was not taken back yet; None where there is none."""
        standing: list[Entry] = []
        for entry in self.entries:
            if not entry.undone:
                standing.append(entry)
            elif standing:
                standing.pop()
        if not standing:
            return None
        self.add(replace(standing[-1], undone=True))
        return standing[-1]


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
    return json.dumps(fields, default=int).encode() + b"\n"


def _read(model: TypeAdapter[_T], path: Path, number: int, line: bytes) -> _T:
    try:
        return model.validate_json(line)
    except ValueError as error:
        raise KglinkError(
            f"{path}, line {number}: not a line of a review's journal",
            hint="Its verdicts are in the store. Move the file away to begin another review.",
        ) from error


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot keep the review's journal {path}: {error.strerror or error}",
            hint="The workspace folder must be writable, on a disk with room.",
        ) from error
