"""Texts as they are read: the same words in whatever layout, and where they stand in the text.

The lines of a mail are wrapped and quoted, a soft hyphen divides a word, a blank is wider than
others, the number of a footnote stands at a name. Detectors and encoders read the words without
all that; a place of the plain text is said as the place of the text itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from string import ascii_letters, digits
from typing import NamedTuple
from unicodedata import normalize

#: Blanks within a line, of another width than a space.
_BLANKS = map(chr, (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))
#: Signs that are read as the common: also letters and digits as wide as those of Chinese, and kana
#: half as wide.
_COMMON = {**dict.fromkeys(_BLANKS, " "), "\u2010": "-", "\u2011": "-"}
_COMMON.update({chr(ord(sign) + 0xFEE0): sign for sign in ascii_letters + digits})
_COMMON.update({sign: normalize("NFKC", sign) for sign in map(chr, range(0xFF66, 0xFFA0))})
#: Also a letter that may stand for an apostrophe, but not within names: of Navajo, of Ukraine.
_UNCOMMON = re.compile(rf"[{''.join(_COMMON)}]|\u02bc(?=[sS]\b)")
_COMMON["\u02bc"] = "\u2019"
#: Signs within words that nobody sees: of hyphens, widths and directions. Joiners are not among
#: them, which shape other letters.
_UNSEEN = "\xad\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"
_UNSEEN += "\u2066\u2067\u2068\u2069"
#: What is typed for signs that are printed, or not at all.
_TYPED = _COMMON | dict.fromkeys("\u2018\u2019\u02bc", "'") | dict.fromkeys(_UNSEEN, "")
_TO_TYPED = str.maketrans(_TYPED | {"\u2013": "-"})
#: Longer names are compared as they are: the order of marks takes the square of their number.
_LONGEST = 500
#: Marks, vowels and endings that make one letter with the sign before them.
_PARTS = "\u0300-\u036f\u0653-\u0655\u1161-\u1175\u11a8-\u11c2\u3099\u309a"
#: Numbers and letters of footnotes; not ᵉ, which makes an ordinal in French: XIXᵉ.
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹ᵃᵇᶜᵈ"
_AS_RAISED = str.maketrans("0123456789abcd+-\u2212\u2013", f"{_RAISED}⁺⁻⁻⁻")
_MAY_BE_RAISED = re.compile(r"[\d,+\-\u2212\u2013\s]+|[a-d](?:,\s?[a-d])*")
#: The end of a line, and how the next one begins: with blanks, and the marks of a quoted mail.
_LINE = r"[ \t]*+(?:\r\n?+|\n)(?:[ \t]*+>)*+[ \t]*+"
_END = re.compile(r"\r\n?+|\n")
#: Letters in parts are read as one, unseen signs not at all.
_LETTERS = re.compile(rf"\xad{_LINE}|[{_UNSEEN}]++|(?P<letter>\w[{_PARTS}]{{1,30}}+)")
#: What else is read otherwise, by groups, or not at all.
_LAYOUT = re.compile(
    rf"(?P<lines>(?<![ \t])(?:{_LINE})++)|\A(?:[ \t]*+>)++[ \t]*+"
    r"|(?P<space>(?<! ) {2,3}+(?! ))"  # more are the border of a cell
    # The number of a footnote: CO², MC² and km² have none.
    rf"|(?:(?<=[^\W\d_{_RAISED}]{{3}})|(?<!=[A-Z]{{2}})(?<=[A-Z][A-NP-Z])|(?<=\.))"
    rf"[{_RAISED}]++(?:(?:,[ ]?|[⁻\u2013-])[{_RAISED}]++)*+(?![\w⁺⁻])"
)
#: The longest line of a paragraph whose lines were wrapped.
_WIDTHS = range(50, 131)
#: Where the other lines of a paragraph end otherwise, so many and half of all make it wrapped.
_FEW_WRAPS = 3
#: How the item of a list, a reference or what somebody says begins; a line of a table, a heading.
_ITEM = re.compile(r"[-*•·–—+#=]|\(?\w{1,3}[.)][ ]|\[\w+\]|[\w ]{1,20}:")
_ROW = re.compile(r"[ ]{3}|[\t|]|[^\W\d][,;]\S[^ ]*[,;]\S|#")


class PlainText(NamedTuple):
    """A text as it is read; its pieces begin at ``at``, and in the text itself at ``own``."""

    text: str
    at: Sequence[int] = (0,)
    own: Sequence[int] = (0,)
    ends: Mapping[int, int] = {}
    """Where letters end, by their places, that are in parts in the text itself."""
    of: PlainText | None = None
    """What was read before, if its places are those of another text again."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where the words at a place of the plain text, which is not empty, stand in the text."""
        first, last = self._own(start), self.ends.get(end - 1) or self._own(end - 1) + 1
        return self.of.place(first, last) if self.of else (first, last)

    def _own(self, at: int) -> int:
        piece = bisect_right(self.at, at) - 1
        return self.own[piece] + at - self.at[piece]


def read_plainly(text: str) -> PlainText:
    """A text as it is read."""
    common = PlainText(with_common_signs(text))
    plain = _read(common if text.isascii() else _read(common, _LETTERS), _LAYOUT)
    return plain._replace(text="\n\n".join(map(_unwrapped, plain.text.split("\n\n"))))


def _read(before: PlainText, otherwise: re.Pattern[str]) -> PlainText:
    """A text in which some parts are read otherwise."""
    text = before.text
    pieces: list[str] = []
    at, own, ends = [0], [0], dict[int, int]()
    end = length = 0
    for found in otherwise.finditer(text):
        kind = found.lastgroup
        instead = _instead(found[0], kind)
        if found[0] == instead and kind != "letter":
            continue
        pieces += (text[end : found.start()], instead)
        length += found.start() - end + len(instead)
        end = found.end()
        if instead:
            at.append(length - len(instead))
            own.append(found.start())
        if kind == "letter":
            ends.update(dict.fromkeys(range(length - len(instead), length), end))
        at.append(length)
        own.append(end)
    return PlainText("".join((*pieces, text[end:])), at, own, ends, before) if pieces else before


def _instead(part: str, kind: str | None) -> str:
    """What is read instead of a part of a text; never more than it is."""
    if kind == "lines":
        return "\n" * len(_END.findall(part))
    if kind == "letter":
        return min(normalize("NFC", part), part, key=len)
    return " " if kind == "space" else ""


@lru_cache(maxsize=8)  # the mentions of one text come one after the other
def with_common_signs(text: str) -> str:
    """A text of the same length, with the common blanks, hyphens, apostrophes and letters."""
    return text if text.isascii() else _UNCOMMON.sub(lambda found: _COMMON[found[0]], text)


def to_the_letter(name: str) -> str:
    """A name as it is compared with others: letters in one part, all signs as they are typed."""
    is_plain = name.isascii() or len(name) > _LONGEST
    return name if is_plain else normalize("NFC", name.translate(_TO_TYPED))


def raised(text: str) -> str:
    """A text that stands above the line, so that no word seems to go on in a footnote's number."""
    if text == "TM":
        return "™"
    return text.translate(_AS_RAISED) if _MAY_BE_RAISED.fullmatch(text) else text


def _unwrapped(paragraph: str) -> str:
    """A paragraph without the ends of lines where the next word did not fit, if they are many."""
    lines = paragraph.split("\n")
    widest = max(map(len, lines))
    if widest not in _WIDTHS or any(map(_ROW.search, lines)):
        return paragraph
    wraps = [
        len(line) >= _WIDTHS[0]
        and len(line) + 1 + len(after.partition(" ")[0]) > widest
        and not _ITEM.match(after)
        for line, after in pairwise(lines)
    ]
    # Of two lines the first may just be the longer one; rows of a table are all as long.
    goes_on = all(wraps) and all(line[:1].islower() for line in lines[1:])
    differ = len(set(map(len, lines[:-1]))) > 1
    many = len(wraps) if all(wraps) else max(_FEW_WRAPS, len(wraps) / 2)
    if not (goes_on or (differ and sum(wraps) >= max(2, many))):
        return paragraph
    joints = [" " if wrap else "\n" for wrap in wraps]
    return "".join(chain.from_iterable(zip(lines, [*joints, ""], strict=True)))
