"""Says of bytes that are no UTF-8 text what they are, and how to mend them."""

from __future__ import annotations

from kglink.errors import RecordError, SourceError
from kglink.sources.compression import refuse_archive

_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def check_text(name: str, head: bytes) -> None:
    """Refuse a file whose beginning is UTF-16, UTF-32, an archive or other binary data."""
    refuse_archive(name, head)
    if encoding := _wide_encoding(head):
        raise SourceError(
            f"{name} is {encoding}, and kglink reads UTF-8",
            hint=f"Convert it: iconv -f {encoding} -t UTF-8 {name} > converted",
        )
    if head[257:262] == b"ustar":
        raise SourceError(
            f"{name} is a tar archive, which kglink does not read",
            hint=f"Unpack it first, or pipe one file in: tar -xOf {name} FILE | kglink ... -",
        )
    if (nul := head.find(b"\0")) >= 0:
        raise SourceError(
            f"{name} is binary, not text (a NUL at byte {nul:,})",
            hint="Name a text file; kglink plugins lists the formats that can be read.",
        )


def not_utf8(where: str, line: bytes, position: int) -> RecordError:
    """The error of a line that does not decode; ``position`` counts from the file's start."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{line[error.start]:02x} at byte {position:,} of the unpacked file"
    else:
        found = "a lone surrogate"
    return RecordError(
        "not valid UTF-8",
        where=f"{where}, {found}",
        hint="If the file is Latin-1 or Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 FILE",
    )


def _wide_encoding(head: bytes) -> str:
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
    return ""
