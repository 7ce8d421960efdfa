"""Entities as a table: CSV, TSV and their cousins, with the names of the columns on top.

Which column is which field is said by a setting, by its name, or by what it holds.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

from pydantic import field_validator

from kglink.errors import RecordError, SourceError, UnknownNameError
from kglink.records import Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink.sources.encoding import (
    Dialect,
    Guess,
    Quoting,
    bad_row,
    first_rows,
    guess_dialect,
    whole_lines,
    without_separator,
)
from kglink.sources.tables import LOOKED_AT
from kglink_kbs.entities import CODES, EntityFields, description_mender, made_entity
from kglink_kbs.keys import NO_CODE, Rank, ends_like
from kglink_kbs.spellings import ENTITY, NOT_READ, find_fields, folded_names
from kglink_kbs.values import BadValue, checked, good_ones, listed

#: The setting of a separator that is found by what the cells hold.
GUESSED = "auto"
#: What a header has to name.
_NEEDED = frozenset({"key", "title"})
#: A row over more lines than these is told of: a quote may have taken in the rows behind it.
_MANY_LINES = 100
_PLAIN_QUOTES = "; where quotes are plain characters, --set quoting=none"


def guess_table(head: str, delimiter: str = "", quoting: Quoting = "auto") -> Guess:
    """The dialect that fits best a table of entities."""
    return guess_dialect(head, lambda header: len(find_fields(header, ENTITY)), delimiter, quoting)


def header_among(rows: Iterable[Sequence[str]], chosen: Mapping[str, str]) -> int:
    """Which of some rows is the header: the first, unless it is a heading above one.

    It names the columns of the id and the title, and those that were ``chosen``.
    """
    for at, row in enumerate(rows):
        names = [cell.strip() for cell in row]
        if not set(chosen.values()) - {NOT_READ} <= set(names):
            continue
        is_header = find_fields(names, ENTITY, chosen).keys() >= _NEEDED
        if is_header or (at == 0 and _may_be_header(names)):
            return at
    return 0


def _may_be_header(names: Sequence[str]) -> bool:
    """Whether a row of several cells names the title, if only by its ending."""
    endings = folded_names(ENTITY["title"])
    is_titled = "title" in find_fields(names, ENTITY) or any(
        ends_like(one, endings) for one in names
    )
    return is_titled and sum(map(bool, names)) > 1


def find_table(
    head: str, chosen: Mapping[str, str], delimiter: str = "", quoting: Quoting = "auto"
) -> tuple[int, Guess]:
    """How many lines stand above the header, such as a heading, and the dialect below them."""
    lines = whole_lines(head)

    @cache
    def below(above: int) -> Guess:
        return guess_table("".join(lines[above:]), delimiter, quoting)

    above = header_among((below(at).header for at in range(min(LOOKED_AT, len(lines)))), chosen)
    return above, below(above)


_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


class TableSettings(EntityFields):
    """Which column is which field, and what splits a cell."""

    separator: str = GUESSED
    """Splits a cell that holds several aliases, xrefs or parents; `auto`: guessed from the cells;
    empty: no split."""


class CsvSettings(TableSettings):
    """Settings of ``kglink/csv``."""

    delimiter: str = ""
    """Sign between the columns, or `tab`, `comma`, `semicolon`, `pipe`; guessed if empty."""
    quoting: Quoting = "auto"
    """`double`: a cell in "quotes" may hold delimiters and line breaks; `none`: quotes are plain
    characters; `auto`: guessed."""

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, value: str) -> str:
        sign = _DELIMITER_NAMES.get(value, value)
        if len(sign) > 1 or sign in ("\n", "\r", '"'):
            raise ValueError("must be one sign, and no quote or line break")
        return sign


class TsvSettings(CsvSettings):
    """Settings of ``kglink/tsv``."""

    delimiter: str = "\t"
    """Sign between the columns, or `tab`, `comma`, `semicolon`, `pipe`."""


class TabularAdapter:
    """Reads one entity from each row of a table."""

    def __init__(self, settings: CsvSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        text = source.head.head.decode("utf-8-sig", errors="replace")
        head, delimiter = without_separator(text)
        settings = self._settings
        delimiter = settings.delimiter or delimiter
        above, guess = find_table(head, settings.chosen(), delimiter, settings.quoting)
        rows = _rows(source, guess.dialect, problems, skipped=above + (head != text))
        number, header = next(rows, (0, []))
        place = source.where(number)
        if above:
            tell_header(place, problems)
        sample = first_rows("".join(whole_lines(head)[above:]), guess.dialect, len(header))
        places = ((source.where(number), row) for number, row in rows)
        return entities(source, place, header, sample, places, settings, problems)


def entities(
    source: Source,
    place: str,
    header: list[str],
    sample: Sequence[list[str]],
    rows: Iterable[tuple[str, list[str]]],
    settings: EntityFields,
    problems: Problems,
) -> Iterator[Record]:
    """The entities of a table's rows, each with its place; ``sample`` are the first of them.

    ``place``: where the header stands.
    """
    try:
        header = [checked(name, "the header").strip() for name in header]
    except BadValue as bad:
        raise SourceError(f"{place}: {bad.message}", hint=bad.hint) from bad
    header = _without_twins(source, header, settings, problems)
    columns = find_columns(source.label, header, sample, settings, problems)
    first = (columns.values(row).get("description") for row in sample)
    mended = description_mender(first, problems)

    def entity(row: list[str]) -> Entity:
        if len(row) != len(header):
            raise BadValue(
                f"found {len(row)} column{'s' * (len(row) != 1)}, the header has {len(header)}",
                "A cell that holds the delimiter must be quoted; --set delimiter=... and "
                "--set quoting=double|none where the guess is wrong.",
            )
        # The cells of lists are split already.
        return mended(made_entity(columns.values(row), header, separator=""))

    def nothing() -> SourceError:
        return SourceError(f"{source.label} holds no record", hint="It has a header only.")

    return good_ones(rows, entity, problems, nothing=nothing)


def tell_header(where: str, problems: Problems) -> None:
    """Say that the header is not at the top."""
    problems.tell("header", f"{where}: what stands above it is not read")


def _without_twins(
    source: Source, names: list[str], settings: EntityFields, problems: Problems
) -> list[str]:
    """The names of the columns, less those of several columns, which nothing may be read from."""
    twins = {name: count for name, count in Counter(filter(None, names)).items() if count > 1}
    chosen = settings.chosen()
    asked = {*chosen.values(), *listed(settings.codes)}
    asked |= {path[0] for path in find_fields(names, ENTITY, chosen).values()}
    for name in asked & twins.keys():
        raise SourceError(
            f"{source.label} has {twins[name]} columns named {name!r}",
            hint="Rename them, so that one of them is meant.",
        )
    if twins:
        problems.tell("twice", f"columns of one name are not read: {_listed(twins)}")
    return ["" if name in twins else name for name in names]


def _rows(
    source: Source, dialect: Dialect, problems: Problems, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """The rows with a cell that is not blank, each with the number of its first line."""
    # The limit is one of the whole process, and small; so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), source.limits.max_line_bytes))
    header_seen, lines = False, _Lines(source, problems, skipped)
    for row in dialect.rows(lines):
        first, _, bad = lines.of_row[0]
        if len(lines.of_row) > 1:
            bad = next((one for *_, one in lines.of_row if one), None)
        if isinstance(row, csv.Error):
            bad = bad or bad_row(source.where(first), row, _PLAIN_QUOTES)
            lines.read_again()
        elif len(lines.of_row) > _MANY_LINES:
            told = f"the row of {source.where(first)} goes over {len(lines.of_row):,} lines"
            problems.tell("long row", f"{told}: is a quote missing there?")
        lines.of_row.clear()
        if bad and not header_seen:
            # Without its header a table says nothing: no bad record, but a bad source.
            raise SourceError(bad.message, hint=bad.hint)
        if bad:
            problems.report(bad)
        elif isinstance(row, list) and any(map(str.strip, row)):
            header_seen = True
            yield first, row


#: Its number, its text, and why the row that it belongs to is refused.
_Line = tuple[int, str, RecordError | None]


class _Lines:
    """The lines of a table, ``skipped`` ones left out.

    A quote that is never closed takes all lines up to the next quote into its row: these are read
    again, so that one bad row costs no others.
    """

    def __init__(self, source: Source, problems: Problems, skipped: int) -> None:
        self._source = source
        self._lines = islice(source.byte_lines(problems), skipped, None)
        self._again: deque[_Line] = deque()
        self.of_row: list[_Line] = []
        """The lines of the row that is read."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            number, text, bad = self._again.popleft()
        else:
            number, start, line = next(self._lines)
            bad = None
            try:
                text = line.decode("utf-8") + "\n"
            except UnicodeDecodeError as error:
                text, source = line.decode("utf-8", errors="replace") + "\n", self._source
                bad = source.not_utf8(source.where(number), line, start, error)
        self.of_row.append((number, text, bad))
        return text

    def read_again(self) -> None:
        """Give the lines of a bad row once more, but for its first."""
        self._again.extendleft(reversed(self.of_row[1:]))


def sniff_csv(head: SourceHead, *, tabs: bool = False) -> float:
    """Sure of a header that names an id and a title, with any delimiter but the tab."""
    text, delimiter = without_separator(head.head.decode("utf-8-sig", errors="replace"))
    named = head.name.lower().endswith((".csv", ".tsv", ".tab"))
    if named and "\r" in text and "\n" not in text:
        return 0.0 if tabs else 0.3  # the adapter says what to do with old line ends
    if "\0" in text or text.lstrip()[:1] in ("", "{", "[", "<"):
        return 0.0
    guess = find_table(text, {}, delimiter)[1] if named else guess_table(text, delimiter)
    if len(guess.header) < 2 or (guess.dialect.delimiter == "\t") is not tabs:
        return 0.0
    if find_fields(guess.header, ENTITY).keys() >= {"key", "title"}:
        return 0.9
    return 0.3 if named and guess.regular > 0.9 and guess.rows > 1 else 0.0


#: The same of a table that is separated by tabs.
sniff_tsv = partial(sniff_csv, tabs=True)


#: Fields whose cells hold several values, and what may stand between those; names hold commas.
LISTS: Mapping[str, tuple[str, ...]] = {
    "aliases": ("|", ";", "；", "、", "\n"),
    "xrefs": ("|", ";", ",", "\n"),
    "parents": ("|", ";", ",", "\n"),
}
#: Signs that are said and never split at unasked, since names hold them too.
_UNSURE = (",", " / ")
_SIGN_NAMES = {"\n": "line breaks", " ": "spaces", "\t": "tabs"}
#: A sign that fewer of the cells hold is taken for a part of a name.
_LEAST_SHARE = 0.1
#: Fields that a longer column name may end in, as in "Name of product" or "Produkttitel".
_LAST_WORDS = ("title", "description", "aliases")
_LONGEST_KEY = 40
_LONGEST_TITLE = 120
#: Cells of a description have this many letters on average, more than any other column's.
_SHORTEST_TEXT = 30
#: What a column of numbers is called that may be unique and names nothing.
_AMOUNTS = (
    *("price", "preis", "prix", "precio", "prezzo", "preço", "prijs", "pris", "cena", "hinta"),
    *("цена", "价格", "価格", "가격", "cost", "amount", "quantity", "qty", "stock"),
    *("weight", "year"),
    *("date", "menge", "bestand", "gewicht", "jahr", "datum", "kosten", "stück", "quantité"),
    *("poids", "année", "coût", "cantidad", "peso", "año", "anno", "количество", "数量"),
)
#: How many columns are named where a table has more.
_MOST_NAMED = 20


class Columns(NamedTuple):
    """Where the fields of an entity stand in a row, and what splits those that are lists."""

    places: Mapping[str, int]
    separators: Mapping[str, str]
    codes: Sequence[int]
    """Where other codes stand that may be names."""

    def values(self, row: Sequence[str]) -> dict[str, str | list[str]]:
        """The cells of ``row`` by field."""
        values: dict[str, str | list[str]] = {
            field: row[place].split(sign) if (sign := self.separators.get(field)) else row[place]
            for field, place in self.places.items()
        }
        return {**values, CODES: [row[place] for place in self.codes]}


def find_columns(
    label: str,
    header: Sequence[str],
    sample: Sequence[Sequence[str]],
    settings: EntityFields,
    problems: Problems,
) -> Columns:
    """The columns of the table ``label``, told to ``problems``; ``sample`` are its first rows."""
    names = [name for name in header if name]
    chosen = settings.chosen()
    asked = [*chosen.values(), *listed(settings.codes)]
    unknown = [name for name in asked if name not in names and name != NOT_READ]
    if unknown:
        also = f" Unknown as well: {', '.join(map(repr, unknown[1:]))}." if unknown[1:] else ""
        raise UnknownNameError(f"column of {label}", unknown[0], names, hint=also.strip())
    named = {field: path[0] for field, path in find_fields(names, ENTITY, chosen).items()}
    columns = {name: [row[at].strip() for row in sample] for at, name in enumerate(header) if name}
    choice = settings.key_among(columns, named, by_ending=True)
    if choice.key:
        named["key"] = choice.key
    of_others = (name for name, rank in choice.others.items() if rank != Rank.WEAK)
    taken = {*named.values(), *choice.codes, *of_others}
    free = {name: cells for name, cells in columns.items() if name not in taken}
    guessed = _guessed(free, named, chosen)
    found = named | guessed
    _refuse_missing(label, names, found)
    places = {field: header.index(name) for field, name in found.items()}
    signs, unsplit = _separators(places, sample, settings.separator)
    if "key" not in chosen:
        choice.tell(problems)
    unsure = {*guessed, *(["key"] if choice.guessed else [])}
    aliases = [name for name in choice.codes if name != choice.key]
    _tell(header, found, unsure, signs, aliases, problems)
    for field, (sign, cells) in unsplit.items():
        tell_unsplit(found[field], sign, cells, problems)
    return Columns(places, signs, [header.index(name) for name in choice.codes])


# ------------------------------------------------------------------------------- by content
def _guessed(
    free: dict[str, list[str]], named: Mapping[str, str], chosen: Mapping[str, str]
) -> dict[str, str]:
    """The columns of fields that no column is called like, by endings of names and by cells."""
    guessed: dict[str, str] = {}
    wanted = [field for field in _LAST_WORDS if field not in named and field not in chosen]

    def take(field: str, name: str | None) -> None:
        if name is not None:
            guessed[field] = name
            del free[name]

    for field in wanted:
        endings = folded_names(ENTITY[field])
        named_so = [name for name in free if ends_like(name, endings)]
        take(field, max(named_so, key=lambda name: len(set(free[name])), default=None))
    # Of a table that says nothing of itself the first line may be no header at all.
    if named or guessed:
        if "key" not in named and "key" not in chosen:
            amounts = folded_names(_AMOUNTS)
            keys = (name for name, cells in free.items() if _are_keys(cells))
            take("key", next((name for name in keys if not ends_like(name, amounts)), None))
        if "title" in wanted and "title" not in guessed:
            take("title", next((name for name, cells in free.items() if _are_titles(cells)), None))
        if "description" in wanted and "description" not in guessed:
            take("description", _longest_texts(free))
    return guessed


def _are_keys(cells: Sequence[str]) -> bool:
    """Unique short values without spaces that are neither amounts nor dates."""
    return (
        len(cells) > 1
        and len(set(cells)) == len(cells)
        and all(0 < len(cell) <= _LONGEST_KEY for cell in cells)
        and not any(" " in cell or "://" in cell or NO_CODE.fullmatch(cell) for cell in cells)
    )


def _are_titles(cells: Sequence[str]) -> bool:
    """Short values with letters that hardly ever come twice."""
    return (
        bool(cells)
        and len(set(cells)) > 0.8 * len(cells)
        and all(0 < len(cell) <= _LONGEST_TITLE for cell in cells)
        and all(re.search(r"[^\W\d_]{2}", cell) and "://" not in cell for cell in cells)
    )


def _longest_texts(columns: Mapping[str, Sequence[str]]) -> str | None:
    """The column with the longest cells, if those are texts."""
    lengths = {
        name: sum(map(len, cells)) / len(cells)
        for name, cells in columns.items()
        if cells and not any("://" in cell for cell in cells)
    }
    longest = max(lengths, key=lambda name: lengths[name], default="")
    return longest if lengths.get(longest, 0) >= _SHORTEST_TEXT else None


def _separators(
    places: Mapping[str, int], sample: Sequence[Sequence[str]], separator: str
) -> tuple[dict[str, str], dict[str, tuple[str, int]]]:
    """What splits each field, and what may have been meant to: its sign and how many hold it."""
    lists = [field for field in LISTS if field in places]
    if separator != GUESSED:
        return dict.fromkeys(lists, separator) if separator else {}, {}
    signs: dict[str, str] = {}
    unsplit: dict[str, tuple[str, int]] = {}
    for field in lists:
        cells = [cell for row in sample if (cell := row[places[field]].strip())]
        signs[field], sign, count = separator_of(field, cells)
        if count:
            unsplit[field] = sign, count
    return signs, unsplit


def separator_of(field: str, cells: Sequence[str]) -> tuple[str, str, int]:
    """What splits a field; what may have been meant to, and how many cells hold that."""
    held = {sign: sum(sign in cell for cell in cells) for sign in (*LISTS[field], *_UNSURE)}
    least = max(1.0, _LEAST_SHARE * len(cells))
    # A bar is in no name: one is enough, also behind the beginning of the table.
    splitting = (sign for sign in LISTS[field] if held[sign] >= least)
    splits = "|" if held["|"] else next(splitting, "|")
    if splits != "|":
        return splits, "", 0
    # A comma beside bars is part of a name.
    others = [one for one in held if one != "|" and not (held["|"] and one in _UNSURE)]
    whole = {one: sum(one in cell and "|" not in cell for cell in cells) for one in others}
    sign = max(whole, key=lambda sign: whole[sign])
    return splits, sign, whole[sign]


# ----------------------------------------------------------------------------------- telling
def _refuse_missing(label: str, names: Sequence[str], found: Mapping[str, str]) -> None:
    missing = [field for field in ("key", "title") if field not in found]
    if not missing:
        return
    settings = " ".join(f"--set {field}=COLUMN" for field in missing)
    which_one = "which ones they are" if missing[1:] else "which one it is"
    hint = f"Its first line names: {_listed(map(repr, names))}. Say {which_one}: {settings}"
    if missing == ["key"]:
        hint += f"; or --set key={found['title']!r} if no title comes twice"
    if not found:
        hint += ". If that line is a record: put one above it that names the columns."
    columns = "columns" if missing[1:] else "column"
    which = " and the ".join(missing)
    raise SourceError(f"{label} has no {columns} for the {which}", hint=hint)


def _tell(
    header: Sequence[str],
    found: Mapping[str, str],
    guessed: Collection[str],
    signs: Mapping[str, str],
    codes: Sequence[str],
    problems: Problems,
) -> None:
    """Say which columns are read as what, and which are not read."""
    said: dict[str, list[str]] = {}
    for field, name in found.items():
        split = f" split at {_sign_name(signs[field])}" if field in signs else ""
        unsure = " (a guess)" if field in guessed else ""
        said.setdefault(name, []).append(f"{field}{unsure}{split}")
    for name in codes:
        said.setdefault(name, []).append("aliases")
    problems.tell(
        "columns",
        "; ".join(f"{name} is {' and '.join(said[name])}" for name in header if name in said),
    )
    if rest := [name for name in header if name and name not in said]:
        problems.tell("not read", f"{_listed(rest)} (--set FIELD=COLUMN reads one)")


def tell_unsplit(name: str, sign: str, count: int, problems: Problems) -> None:
    """Say that ``count`` values of a field look like lists."""
    problems.tell(
        "not split",
        f"{_sign_name(sign)} stands in {count} of the first values of {name}: "
        f"--set separator='{sign}' splits them",
    )


def _sign_name(sign: str) -> str:
    return _SIGN_NAMES.get(sign, f"'{sign}'")


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MOST_NAMED:,} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more
