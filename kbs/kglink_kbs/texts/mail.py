"""Mails (``.eml``) as text: the subject and the body, decoded.

Of a body that comes in several forms the plain one is read, else the page. Attachments are not.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import Compat32

from kglink.errors import SourceError
from kglink.records import Document
from kglink.sources import Source, SourceHead
from kglink.sources.encoding import NO_ENCODINGS
from kglink_kbs.texts.html import html_text
from kglink_kbs.texts.plain import TextSettings, document_of_parts

_HEADER = re.compile(rb"(?:From |[!-9;-~]{1,76}:[ \t\r\n])", re.I)
_OF_MAILS = re.compile(
    rb"^(?:received|return-path|message-id|mime-version|delivered-to):", re.I | re.M
)
_LONGEST_SUBJECT = 2000
#: The library parses a header in time that grows with the square of its length.
_LONGEST_HEADER = 10_000
#: Parts of a mail that are looked at; a mail of more was made to be slow.
_MOST_PARTS = 1000
#: Character sets that programs name when they write a larger one, as browsers know.
_MEANT = {
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1"), "cp1252"),
    **dict.fromkeys(("iso-8859-8-i", "iso-8859-8-e"), "iso-8859-8"),
    **dict.fromkeys(("ks_c_5601-1987", "ks_c_5601", "euc-kr"), "cp949"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis"), "cp932"),
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
}


class _ShortHeaders(Compat32):
    """How mails are parsed: of a header only its beginning is kept."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Name and value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


def document(source: Source, settings: TextSettings) -> Document:
    """The subject and the body of a mail."""
    with source.open() as stream:
        content = stream.read(4 * source.limits.max_text_chars).removeprefix(codecs.BOM_UTF8)
    if not _HEADER.match(content):
        raise SourceError(
            f"{source.label} begins with no header of a mail",
            hint="Save the mail as .eml, or read the file as plain text: --input text.",
        )
    try:
        mail = message_from_bytes(content, policy=_ShortHeaders())
        raw = next((value for name, value in mail.raw_items() if name.lower() == "subject"), "")
        # Letters of a subject that nobody encoded are UTF-8, or nearly.
        written = str(raw).encode("utf-8", errors="surrogateescape")
        subject = _decoded(_of_charset(written, ""))
        body = "\n\n".join(filter(None, (_text(one, settings) for one in _bodies(mail))))
    except RecursionError as error:
        raise SourceError(
            f"{source.label}: its parts are nested too deeply", hint="No program writes that."
        ) from error
    return document_of_parts(source, "mail", [("subject", subject), ("body", body)], title=subject)


def _bodies(mail: Message) -> Iterator[Message]:
    """The parts of a mail that hold its text, one form of each."""
    waiting, seen = [mail], 0
    while waiting and seen < _MOST_PARTS:
        part, seen = waiting.pop(), seen + 1
        if part.get_content_disposition() == "attachment":
            continue
        # Asked for a payload that is no list, the library decodes it with any codec it names.
        payload = part.get_payload() if part.is_multipart() else ()
        inner = [one for one in payload if isinstance(one, Message)]
        if part.get_content_type() == "multipart/alternative":
            # Of several forms of one text the plain one, else the last, which is the richest.
            plain = [one for one in inner if one.get_content_type() == "text/plain"]
            waiting += plain[:1] or inner[-1:]
        elif inner:
            waiting += reversed(inner)
        elif part.get_content_type() in ("text/plain", "text/html"):
            yield part


def _text(part: Message, settings: TextSettings) -> str:
    content = part.get_payload(decode=True)
    text = _of_charset(content if isinstance(content, bytes) else b"", part.get_content_charset(""))
    if part.get_content_type() == "text/html":
        return html_text(text, settings).text
    return text.replace("\r\n", "\n").strip()


def sniff(head: SourceHead) -> float:
    """Sure of what begins with the headers of a mail, or is named so and begins with headers."""
    start = head.head.removeprefix(codecs.BOM_UTF8)
    begins = bool(_HEADER.match(start))
    if begins and len(_OF_MAILS.findall(start.partition(b"\n\n")[0][:20_000])) > 1:
        return 0.9
    return 0.9 if begins and head.name.lower().endswith(".eml") else 0.0


def _of_charset(content: bytes, named: str) -> str:
    """The text of some bytes; where they are not of the character set that they claim, nearly."""
    for charset in (_MEANT.get(named, named), "utf-8"):
        try:
            if charset and codecs.lookup(charset).name.replace("-", "_") not in NO_ENCODINGS:
                return content.decode(charset).removeprefix("\ufeff")
        except (LookupError, ValueError):
            continue
    return content.decode("cp1252", errors="replace")


def _decoded(header: str) -> str:
    """A header as its reader sees it, on one line."""
    try:
        pieces = decode_header(header[:_LONGEST_SUBJECT])
    except HeaderParseError:
        return " ".join(header.split())
    words = []
    for piece, charset in pieces:
        is_text = isinstance(piece, str)
        words.append(piece if is_text else _of_charset(piece, (charset or "").lower()))
    return " ".join("".join(words).split())
