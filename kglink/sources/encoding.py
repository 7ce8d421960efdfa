"""What bytes are that are no UTF-8 text, and how the rows of a table in plain text are written."""

from __future__ import annotations

import codecs
import csv
import re
import shlex
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Literal, NamedTuple

from kglink.errors import RecordError, SourceError, UsageError
from kglink.sources.compression import refuse_archive
from kglink.sources.files import PieceStream

_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
#: Codecs that Python calls encodings of text, and no file is written in.
NO_ENCODINGS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)
_READ = 2**18
#: What XML says of its encoding, and its readers go by.
_DECLARED = re.compile(r"""\A(\ufeff?<\?xml\b[^<>]{,100}?\bencoding\s*=\s*["'])[\w.-]+""")
#: High bytes of Chinese and Japanese in UTF-16: ideographs, kana, full width, ASCII.
_CHINESE = frozenset((*range(0x4E, 0xA0), 0x00, 0x30, 0xFF))
#: Fewer bytes say nothing of an encoding.
_ENOUGH = 16


def check_text(name: str, head: bytes, file: str = "") -> None:
    """Refuse a file whose beginning is UTF-16, UTF-32, an archive or other binary data.

    ``file`` is how another command names it, where that is not its ``name``.
    """
    file = file or name
    refuse_archive(name, head, file)
    if encoding := wide_encoding(head):
        raise SourceError(
            f"{name} is {encoding}, and kglink reads UTF-8",
            hint=f"Name the encoding (kglink add-kb, kglink link: --encoding {encoding}), or "
            f"convert it: {convert(encoding, file)}",
        )
    if head[257:262] == b"ustar":
        raise SourceError(
            f"{name} is a tar archive, which kglink does not read",
            hint="Unpack it first, or pipe one file in: "
            f"tar -xOf {shlex.quote(file)} FILE | kglink ... -",
        )
    if (nul := head.find(b"\0")) >= 0:
        raise SourceError(
            f"{name} is binary, not text (a NUL at byte {nul:,})",
            hint="Name a text file; kglink plugins lists the formats that can be read.",
        )


def not_utf8(where: str, file: str) -> RecordError:
    """The error of a line that does not decode."""
    return RecordError("not valid UTF-8", where=where, hint=convert_hint(file))


def convert_hint(file: str) -> str:
    """How to mend what is no UTF-8."""
    converted = convert("WINDOWS-1252", file)
    return (
        f"If it is Latin-1 or Windows-1252: --encoding cp1252, or {converted}. Others are cp1250 "
        "(Polish, Czech), cp1251 (Russian), cp932 (Japanese), gb18030 (Chinese), cp949 (Korean)"
    )


def convert(encoding: str, file: str) -> str:
    """The command that makes UTF-8 of a file."""
    return f"iconv -f {encoding} -t UTF-8 {shlex.quote(file)} > converted"


def checked_encoding(name: str) -> str:
    """The name of an encoding as Python has it; empty stays empty; UsageError where it is none."""
    if not name:
        return ""
    try:
        "a".encode(name)  # refuses codecs of bytes to bytes, such as base64
        codecs.getincrementaldecoder(name)
        if codecs.lookup(name).name.replace("-", "_") not in NO_ENCODINGS:
            return name
    except (LookupError, ValueError):
        pass
    raise UsageError(
        f"{name!r} is no encoding of text files",
        hint="For instance: cp1252 (Windows, Western Europe), latin-1, utf-16, shift_jis, "
        "gb18030, koi8-r.",
    )


def marked_encoding(head: bytes) -> str:
    """The encoding that the first bytes of a text name, if it is read: UTF-8 or UTF-16."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8"
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_wide and not head.startswith(codecs.BOM_UTF32_LE) else ""


def as_utf8(stream: BinaryIO, encoding: str, name: str, unpacked: str = "") -> PieceStream:
    """The text of ``stream``, which is in another encoding, as UTF-8."""

    def pieces() -> Generator[bytes, None, None]:
        decoder, read, data = codecs.getincrementaldecoder(encoding)(), 0, b" "
        while data:
            data = stream.read(_READ)
            kept = len(decoder.getstate()[0])
            try:
                piece = decoder.decode(data, final=not data)
            except UnicodeError as error:
                at = read - kept + getattr(error, "start", 0)
                raise SourceError(
                    f"{name} is not {encoding}: byte {at:,}{unpacked} cannot be read",
                    hint="Name another encoding: --encoding (kglink add-kb, kglink link).",
                ) from error
            piece = piece if read else _DECLARED.sub(r"\1utf-8", piece)
            read += len(data)
            if piece:
                yield piece.encode()

    return PieceStream(pieces(), stream)


def wide_encoding(head: bytes) -> str:
    """The name of a two- or four-byte encoding, by its mark or by where its zeros stand."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) / 2
    if odd > 0.4 * half and even < 0.05 * half:
        return "UTF-16LE"
    if even > 0.4 * half and odd < 0.05 * half:
        return "UTF-16BE"
    if b"\0" in head or not is_utf8(head):  # Cyrillic in UTF-16 may be sound UTF-8
        for encoding, high, low in (
            ("UTF-16LE", head[1::2], head[0::2]),
            ("UTF-16BE", head[0::2], head[1::2]),
        ):
            if _from_one_script(high) and not _from_one_script(low):
                return encoding
    return ""


def is_utf8(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _from_one_script(half: bytes) -> bool:
    """Whether these may be the high bytes of UTF-16: of an alphabet, or of Chinese and Japanese."""
    if len(half) < _ENOUGH:
        return False
    counts = Counter(half)
    alphabet = sum(count for _, count in counts.most_common(2))
    chinese = sum(count for byte, count in counts.items() if byte in _CHINESE)
    return alphabet > 0.9 * len(half) or chinese > 0.95 * len(half)


Quoting = Literal["auto", "double", "none"]
_SEPARATOR_LINE = re.compile(r"sep=([^\r\n\"])\r?\n")
_DELIMITERS = (",", "\t", ";", "|")
_ROWS = 200
#: A cell between tabs that has quotes around it.
_ENCLOSED = re.compile(r'(?:^|\t)"[^"\t\n]*"(?:\r?$|\t)', re.MULTILINE)


class Dialect(NamedTuple):
    """How the rows of a table are written."""

    delimiter: str
    quoted: bool

    def rows(self, lines: Iterable[str]) -> Iterator[list[str] | csv.Error]:
        """The rows of ``lines``; of a bad one what is wrong with it."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        reader = csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=quoting,
            strict=True,
            skipinitialspace=self.delimiter != " ",
        )
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield error


class Guess(NamedTuple):
    """A dialect, and how well a table's beginning fits it; greater is better."""

    regular: float
    """The share of rows that are as long as the header."""
    rows: int
    header: tuple[str, ...]
    dialect: Dialect


def guess_dialect(
    head: str, known: Callable[[Sequence[str]], int], delimiter: str = "", quoting: Quoting = "auto"
) -> Guess:
    """The dialect that fits best: known column names first, then rows as long as the header.

    ``known`` counts the names of a header that are known.
    """
    lines = whole_lines(head)
    delimiters = (delimiter,) if delimiter else _DELIMITERS
    dialects = [Dialect(sign, quoting != "none") for sign in delimiters]
    if quoting == "auto" and "\t" in delimiters and not _ENCLOSED.search("".join(lines)):
        # Tables with tabs are often written without quoting; the others hardly ever. A lone
        # column has none: where its quotes are in order, a line break between two is of a cell.
        with_quotes = _fit(lines, Dialect("\t", quoted=True))
        if with_quotes.regular < 1 or any("\t" in line for line in lines):
            dialects.append(Dialect("\t", quoted=False))

    def worth(guess: Guess) -> tuple[float, ...]:
        columns = len(guess.header)
        return known(guess.header), guess.regular, guess.rows, columns, guess.dialect.quoted

    return max((_fit(lines, dialect) for dialect in dialects), key=worth)


def first_rows(head: str, dialect: Dialect, width: int) -> list[list[str]]:
    """The first rows below the header, those of another length left out."""
    every = dialect.rows(whole_lines(head))
    rows = (row for row in every if row and isinstance(row, list))
    return [row for row in islice(rows, 1, _ROWS) if len(row) == width]


def without_separator(head: str) -> tuple[str, str]:
    """The beginning of a table, without the line by which Excel says its delimiter; and that."""
    found = _SEPARATOR_LINE.match(head)
    return (head[found.end() :], found[1]) if found else (head, "")


def whole_lines(head: str) -> list[str]:
    """The lines of a table's beginning; the table goes on behind it: the last may be half a one."""
    sample = head[: head.rfind("\n") + 1] or head
    return [line.removesuffix("\r") + "\n" for line in sample.removesuffix("\n").split("\n")]


def _fit(lines: list[str], dialect: Dialect) -> Guess:
    rows = list(islice(filter(None, dialect.rows(lines)), _ROWS))  # blank ones left out
    good_rows = [row for row in rows if isinstance(row, list)]
    header = good_rows[0] if good_rows else []
    good = sum(len(row) == len(header) for row in good_rows)
    share = good / len(rows) if rows else 0.0
    return Guess(share, good, tuple(header), dialect)


def bad_row(where: str, error: csv.Error, plain_quotes: str = "") -> RecordError:
    """What is wrong with a row; ``plain_quotes`` says how to read quotes as plain characters."""
    hint = f'Inside a quoted cell a quote is written twice (""){plain_quotes}.'
    if "end of data" in str(error):
        reason = "a quote opens here that is never closed"
    elif "new-line" in str(error):
        reason = "a carriage return stands inside a row"
        hint = "If the lines end as on old Macs: tr '\\r' '\\n' < FILE"
    else:
        reason = f"not a row of the table: {error}"
    return RecordError(reason, where=where, hint=hint)
