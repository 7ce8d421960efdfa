"""Which column of a table, or field of records, is the key, and which other codes are names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import islice, pairwise
from typing import NamedTuple

from kglink.sources import Problems
from kglink_kbs.spellings import (
    ARTICLE_KEYS,
    CODE_KEYS,
    ENTITY,
    ID_KEYS,
    MODEL_WORDS,
    NOT_READ,
    NUMBER_KEYS,
    TRADE_KEYS,
    fold_name,
    folded_names,
    is_article_number,
)

#: Of the cells of a column, the share that makes it one of codes.
_CODE_SHARE = 0.8
#: Check digits of fewer cells say nothing, and a barcode may be mistyped.
_LEAST_TRADE, _SHARE_TRADE = 3, 0.9
_LONGEST = 40
_MOST_WORDS = 8
#: Headers of more columns, and longer names, are not looked through: they may be made to be slow.
_MOST_COLUMNS, _LONGEST_HEADER = 1000, 100
_SHORTEST_NAME, _SHORTEST_NUMBER = 4, 6
_TRADE_LENGTHS = (8, 12, 13, 14)
#: UUIDs, hashes and addresses: nobody types them.
_MACHINE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{16,}|.*://.*", re.I)
#: Amounts, dates, and numbers that a spreadsheet has cut.
NO_CODE = re.compile(
    r"\d*[.,]\d+|[\d.,]+ ?[%€$£]|[€$£] ?[\d.,]+|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|[\d.,]+E\+?\d+"
)


class Rank(IntEnum):
    """How good a key the values of a column are; the least is the best."""

    ID = 0
    """Ids that a person can read, in a column named so."""
    ARTICLE = 1
    """What is printed on the thing and in the catalogue: article and model numbers."""
    CODE = 2
    ROW_ID = 3
    """Plain numbers in a column of ids: mostly a row of somebody's database."""
    WEAK = 4
    """An article number or id by the end of the column's name alone."""
    NUMBER = 5
    TRADE = 6
    """Bar codes: EAN, GTIN, UPC, ISBN."""
    COUNTER = 7
    MACHINE = 8


class KeyChoice(NamedTuple):
    """The key, and what becomes of other codes."""

    key: str = ""
    """Empty: no column is named like a key."""
    guessed: bool = False
    """Whether its name only ends like that of a key, or only its values say it."""
    codes: tuple[str, ...] = ()
    """Columns whose values are names if people would type them, that of the key included."""
    others: Mapping[str, Rank] = {}
    """Other columns that could be the key."""

    def tell(self, problems: Problems) -> None:
        """Say which key was chosen, where there was a choice."""
        sure = {name: rank for name, rank in self.others.items() if rank != Rank.WEAK}
        if sure:
            fates = (f"{one} -> {'alias' if one in self.codes else 'not read'}" for one in sure)
            other = min(sure, key=lambda name: (name not in self.codes, sure[name]))
            setting = shlex.quote(f"key={other}")
            problems.tell(
                "key", f"{self.key} (others: {', '.join(fates)}); --set {setting} chooses another"
            )


def choose_key(
    columns: Mapping[str, Sequence[str]], *, titled: bool, chosen: str = "", by_ending: bool = True
) -> KeyChoice:
    """The key among ``columns``, each with its first cells, by their names and values.

    ``titled``: another column holds the title, so that one called Model may be a code.
    ``by_ending``: a name that ends like that of a key counts.
    """
    if chosen == NOT_READ:
        return KeyChoice()
    ranks: dict[str, Rank] = {}
    for name, cells in islice(columns.items(), _MOST_COLUMNS):
        rank = _rank(name, cells, titled=titled, by_ending=by_ending)
        if rank is not None:
            ranks[name] = rank

    places, article = folded_names(ENTITY["key"]), fold_name("article_number")

    def order(name: str) -> tuple[bool, Rank, int, int]:
        cells, distinct = columns[name], len(set(columns[name]))
        tied = -distinct if ranks[name] == Rank.WEAK else 0
        has_own = all(cells) and distinct == len(cells)  # every row has a value of its own
        folded = fold_name(name)
        if folded not in places and is_article_number(folded):
            folded = article  # model numbers come last
        return not has_own, ranks[name], tied, places.get(folded, len(places))

    key = chosen or min(ranks, key=order, default="")
    own = ranks.pop(key, None)
    typed = (Rank.ARTICLE, Rank.CODE, Rank.TRADE)
    filled = {name: [cell for cell in columns[name] if cell] for name in ranks}
    codes = [
        name
        for name, rank in ranks.items()
        if rank in typed and len(set(filled[name])) > 0.5 * len(filled[name])
    ]
    if own in (Rank.ARTICLE, Rank.TRADE):
        codes.insert(0, key)
    is_named = _rank_of_name(key, by_ending=False) is not None or own == Rank.ARTICLE
    return KeyChoice(key, bool(key) and not chosen and not is_named, tuple(codes), ranks)


def is_code_name(cell: str) -> bool:
    """Whether a code is one that people would write in a text: "KM-200", "4006381333931"."""
    digits = sum(map(str.isdigit, cell))
    is_number = digits == len(re.sub(r"[\s.-]", "", cell))
    return (
        _SHORTEST_NAME <= len(cell) <= _LONGEST
        and digits >= (_SHORTEST_NUMBER if is_number else 1)
        and not (NO_CODE.fullmatch(cell) or _MACHINE.fullmatch(cell))
    )


def has_check_digit(cell: str) -> bool:
    """Whether a code is an EAN, GTIN, UPC or ISBN by its length and its last digit."""
    code = re.sub(r"[\s-]", "", cell).upper()
    if re.fullmatch(r"[0-9]{9}[0-9X]", code):
        digits = [10 if sign == "X" else int(sign) for sign in code]
        return sum(digit * (10 - at) for at, digit in enumerate(digits)) % 11 == 0
    if len(code) not in _TRADE_LENGTHS or not (code.isascii() and code.isdigit()):
        return False
    weighed = (int(sign) * (3 if at % 2 else 1) for at, sign in enumerate(reversed(code)))
    return sum(weighed) % 10 == 0 and code.strip("0") != ""


def _rank(name: str, cells: Sequence[str], *, titled: bool, by_ending: bool) -> Rank | None:
    """How good a key a column is; None: its name and its values say nothing of one."""
    values = [cell for cell in cells if cell]
    named = _rank_of_name(name, by_ending=by_ending)
    if named is None and titled and fold_name(name) in folded_names(MODEL_WORDS):
        named = Rank.ARTICLE if _are_codes(values, _is_typed_with_digit) else None
    right = sum(map(has_check_digit, values))
    if right >= max(_LEAST_TRADE, _SHARE_TRADE * len(values)):
        return Rank.TRADE
    return named if named is None or not values else _by_values(named, values)


def _by_values(named: Rank, values: Sequence[str]) -> Rank:
    """The rank of a column that is named like a key, once its values are seen."""
    are_numbers = all(map(str.isdecimal, values))
    if named != Rank.TRADE and _are_codes(values, _MACHINE.fullmatch):
        return Rank.MACHINE
    if named == Rank.ID and are_numbers:
        return Rank.ROW_ID
    if named == Rank.NUMBER and (
        len(values) > 1
        and all(value.isdecimal() and len(value) < _LONGEST for value in values)
        and all(int(one) + 1 == int(two) for one, two in pairwise(values))
    ):
        return Rank.COUNTER
    if named == Rank.NUMBER and not are_numbers and _are_codes(values, _is_typed_with_digit):
        return Rank.CODE
    if named == Rank.ARTICLE and not _are_codes(values, _is_typed):
        return Rank.WEAK
    return named


def _rank_of_name(name: str, *, by_ending: bool) -> Rank | None:
    if len(name) > _LONGEST_HEADER:
        return None
    by_spelling = (
        (ID_KEYS, Rank.ID),
        (ARTICLE_KEYS, Rank.ARTICLE),
        (CODE_KEYS, Rank.CODE),
        (NUMBER_KEYS, Rank.NUMBER),
        (TRADE_KEYS, Rank.TRADE),
        (ENTITY["key"], Rank.MACHINE),
    )
    folded = fold_name(name)
    for spellings, rank in by_spelling:
        if folded in folded_names(spellings):
            return rank
    if any(map(is_article_number, _parts(name))):
        return Rank.ARTICLE
    return Rank.WEAK if by_ending and ends_like(name, folded_names(ENTITY["key"])) else None


#: Endings of longer words, as in "Produkttitel", have this number of letters.
_SHORTEST_ENDING, _LONGEST_ENDING = 4, 30


def ends_like(name: str, endings: Mapping[str, int]) -> bool:
    """Whether the last word of ``name``, or the end of a long one, is one of ``endings``."""
    words = re.findall(r"[^\W_]+", name)
    folded = fold_name(name)
    return bool(words) and (
        fold_name(words[-1]) in endings
        or any(folded[-size:] in endings for size in range(_SHORTEST_ENDING, _LONGEST_ENDING))
    )


def _is_typed(cell: str) -> bool:
    return len(cell) <= _LONGEST and cell.count(" ") <= 1


def _is_typed_with_digit(cell: str) -> bool:
    return _is_typed(cell) and any(map(str.isdigit, cell))


def _are_codes(values: Sequence[str], is_code: Callable[[str], object]) -> bool:
    return bool(values) and sum(map(bool, map(is_code, values))) / len(values) >= _CODE_SHARE


def _parts(name: str) -> Iterator[str]:
    """Up to three words of a name side by side, folded: "Interne Art.-Nr." says "artnr"."""
    words = re.findall(r"[^\W_]+", name)[:_MOST_WORDS]
    yield fold_name(name)
    for size in (1, 2, 3):
        yield from (fold_name("".join(words[at:][:size])) for at in range(len(words) - size + 1))
