"""Reading lists of pairs: SSSOM, the paper's table, or two columns of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast, get_args

from kglink.errors import RecordError, SourceError
from kglink.overlap.exchange.curies import kb_of
from kglink.records import Verdict
from kglink.sources import Problems, Source
from kglink.sources.sssom import SAME, SssomReader, SssomRow, unquoted
from kglink.sources.values import Line
from kglink.text.printable import MOST_SHOWN, printable

#: What a table's header may call the two columns of ids.
HEADERS = (
    ("kg1_id", "kg2_id"),
    ("left", "right"),
    ("id_a", "id_b"),
    ("id1", "id2"),
    ("subject", "object"),
    ("source", "target"),
)
#: How a table of ours names the tool that made a row.
TOOL = "kglink"
MANUAL = "semapv:ManualMappingCuration"
_SSSOM_SIGNS = ("subject_id", "predicate_id", "object_id")


@dataclass(frozen=True, slots=True)
class ListedPair:
    """Two ids as a list writes them, what it says of them, and the KBs that it names."""

    place: str
    left: str
    right: str
    verdict: Verdict = "correct"
    left_kb: str = ""
    right_kb: str = ""


@dataclass(slots=True)
class PairList:
    """The pairs of a list, read one by one; ``left_out`` counts the rows that say no verdict.

    ``prefixes`` is whole once the first pair was read.
    """

    source: Source
    min_confidence: float = 0.0
    prefixes: Mapping[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[ListedPair]:
        self.left_out.clear()
        if _is_sssom(self.source):
            yield from self._sssom()
        else:
            yield from _table(self.source)

    def _sssom(self) -> Iterator[ListedPair]:
        reader = SssomReader(self.source, Problems())
        self.prefixes = reader.head.prefixes
        head = reader.head.values
        for row in reader:

            def said(slot: str, row: SssomRow = row) -> str:
                """A value of the row or of the head, where other tools put common values."""
                return row.values.get(slot, "") or head.get(slot, "")

            reason = self._unusable(row, said("mapping_tool"))
            if reason:
                self.left_out[reason] += 1
                continue
            yield ListedPair(
                row.place,
                row.subject,
                row.object,
                "wrong" if row.denied else "correct",
                kb_of(said("subject_source")),
                kb_of(said("object_source")),
            )

    def _unusable(self, row: SssomRow, tool: str) -> str:
        """Why a row is no verdict; empty where it is one."""
        if row.joins_nothing:
            return "terms without a counterpart"
        if row.predicate not in SAME:
            return f"rows of the predicate {row.predicate}"
        if tool == TOOL and row.values.get("mapping_justification") != MANUAL:
            return "proposals of kglink that nobody judged"
        if row.confidence < self.min_confidence:
            return f"rows less confident than {self.min_confidence:g}"
        return ""


def _is_sssom(source: Source) -> bool:
    """Whether the name or one column is SSSOM's: a broken header counts as SSSOM too."""
    head = source.head
    if ".sssom." in head.name or head.name.endswith(".sssom"):
        return True
    text = head.head.decode("utf-8-sig", errors="replace")
    rows = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    first = next(rows, "").split("\t")
    return bool(set(_SSSOM_SIGNS) & set(map(unquoted, first)))


def _table(source: Source) -> Iterator[ListedPair]:
    """The paper's table, or two columns; a column ``verdict`` may say what each pair is."""
    read = source.lines(Problems())
    lines = (line for line in read if line.text.strip() and not line.text.startswith("#"))
    first = next(lines, None)
    if first is None:
        raise SourceError(f"{source.label} holds no pairs", hint=_FORMATS)
    cells = _cells(first)
    names = [cell.lower() for cell in cells]
    ends = next((pair for pair in HEADERS if set(pair) <= set(names)), None)
    if ends is None:
        yield from (_plain_pair(line, source) for line in chain([first], lines))
        return
    columns = {name: at for at, name in reversed([*enumerate(names)])}
    for line in lines:
        place = source.where(line.number)
        row = _cells(line)
        if len(row) != len(cells):
            raise RecordError(
                f"a row of {len(row)} cells under a header of {len(cells)}",
                where=place,
                hint="Cells are separated by tabs and hold neither tabs nor line breaks.",
            )
        left, right = (_id(row[columns[end]], place) for end in ends)
        said = row[columns["verdict"]] if "verdict" in columns else ""
        yield ListedPair(place, left, right, _verdict(said, place))


def _plain_pair(line: Line, source: Source) -> ListedPair:
    place = source.where(line.number)
    cells = _cells(line)
    if len(cells) != 2:
        raise RecordError(f"{len(cells)} columns without a header", where=place, hint=_FORMATS)
    return ListedPair(place, _id(cells[0], place), _id(cells[1], place))


def _id(cell: str, place: str) -> str:
    if not cell:
        raise RecordError("an empty id", where=place, hint="Each row names two entities.")
    return cell


def _verdict(said: str, place: str) -> Verdict:
    if not said:
        return "correct"
    if said not in get_args(Verdict):
        known = ", ".join(get_args(Verdict))
        shown = printable(said, MOST_SHOWN)
        raise RecordError(f"'{shown}' is no verdict", where=place, hint=f"One of: {known}.")
    return cast("Verdict", said)


def _cells(line: Line) -> Sequence[str]:
    return [unquoted(cell) for cell in line.text.split("\t")]


_FORMATS = (
    "A list of pairs is an SSSOM table, a table with the columns kg1_id and kg2_id, a table "
    "with the columns left, right and verdict, or two columns of ids with a tab between them."
)
