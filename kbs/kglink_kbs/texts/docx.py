"""Word files (``.docx``) as text: the paragraphs of their main part.

A file is an archive; only the part with the text is unpacked, within the limits of every packed
source. Its XML may declare no entities and refer to no other file. Text that a tracked change
deleted is left out, and so are tables unless they are wanted.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from kglink.errors import SourceError
from kglink.records import Document
from kglink.sources import Source, SourceHead
from kglink.sources.values import text_too_long
from kglink.text.plain import raised
from kglink_kbs.archives import archive_names, opened_files
from kglink_kbs.guarded_xml import MOST_DEPTH, parse_pieces, refuse_long_namespaces
from kglink_kbs.texts.plain import TextSettings, document_of_parts

_MAIN = "word/document.xml"
_SPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011", "ptab": "\t"}
#: A run of letters, and what says how far above the line it stands.
_RUNS = frozenset({"r", "vertAlign", "position"})
#: Two points and more, in halves.
_RAISED = re.compile("[4-9]|[1-9][0-9]")
#: Deleted and moved text, text boxes, which stand in the file twice, and how a paragraph looks.
_LEFT_OUT = frozenset({"del", "moveFrom", "txbxContent", "pPr", "rPrChange"})


def document(source: Source, settings: TextSettings) -> Document:
    """The text of the main part."""
    with opened_files(source) as files:
        if _MAIN not in files:
            raise SourceError(
                f"{source.label} has no {_MAIN}: it is no Word file",
                hint="Save it as .docx, or as plain text.",
            )
        text = _Paragraphs(source, settings).read(files[_MAIN])
    return document_of_parts(source, "docx", [("body", text)])


def sniff(head: SourceHead) -> float:
    """Sure of an archive with the part that holds the text."""
    names = archive_names(head) if head.head.startswith(b"PK") else []
    if _MAIN in names:
        return 0.95
    return 0.6 if "[Content_Types].xml" in names and head.name.lower().endswith(".docx") else 0.0


class _Paragraphs:
    """Puts the text together while the XML goes by."""

    def __init__(self, source: Source, settings: TextSettings) -> None:
        self._source = source
        self._tables = settings.tables
        self._pieces: list[str] = []
        self._length = 0
        self._depth = 0
        self._left_out_at = 0
        """The depth of the element that is left out with everything in it; 0: none."""
        self._in_text = self._is_raised = False

    def read(self, part: Source) -> str:
        """The text of the part."""
        parser = expat.ParserCreate(namespace_separator=" ")
        refuse_long_namespaces(parser, self._made_to_do_harm)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        try:
            with part.open() as stream:
                for _ in parse_pieces(parser, stream, self._made_to_do_harm):
                    pass
        except expat.ExpatError as error:
            raise SourceError(
                f"{part.name} in {self._source.label} is damaged: {error}",
                hint="Open it in Word and save it again.",
            ) from error
        return "".join(self._pieces).strip()

    def _start(self, name: str, values: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise SourceError(f"{self._source.label} is nested too deeply")
        space, local = name.split(" ", 1) if " " in name else ("", name)
        if self._left_out_at or space not in _SPACES:
            return
        if local in _LEFT_OUT or (local == "tbl" and not self._tables):
            self._left_out_at = self._depth
        elif local == "t":
            self._in_text = True
        elif local in _RUNS:
            value = values.get(f"{space} val", "")
            self._is_raised = value == "superscript" or _RAISED.fullmatch(value) is not None
        elif local in _BREAKS:
            self._add(_BREAKS[local])

    def _end(self, name: str) -> None:
        if self._left_out_at:
            if self._left_out_at == self._depth:
                self._left_out_at = 0
        elif name.endswith(" t"):
            self._in_text = False
        elif name.endswith(" p"):
            self._add("\n")
        self._depth -= 1

    def _characters(self, text: str) -> None:
        if self._in_text and not self._left_out_at:
            self._add(raised(text) if self._is_raised else text)

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)
        if self._length > self._source.limits.max_text_chars:
            raise text_too_long(self._source.label, self._source.limits.max_text_chars)

    def _made_to_do_harm(self, what: str) -> SourceError:
        return SourceError(
            f"{self._source.label} {what}, which no Word file does",
            hint="Open it in Word and save it again.",
        )

    def _refuse(self, *_: object) -> None:
        raise self._made_to_do_harm("declares a document type")
