"""Linked documents as lines of mentions with their offsets: BRAT and CSV.

BRAT gives each text one line. So that all offsets stay what they are, every character that breaks
a line, and every tab, is written as one space.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Literal, TextIO
from urllib.parse import quote

from kglink.plugins import PluginSettings
from kglink.records import Candidate, KBAnswer, Link, LinkedDocument, json_number
from kglink.text.printable import same_length_line, spreadsheet_cell, writable

COLUMNS = (
    "document", "start", "end", "text", "kb", "key", "title", "url", "score", "confidence", "also",
)  # fmt: skip


class StandoffSettings(PluginSettings):
    """What CSV and BRAT hold beside the links."""

    rejected: bool = False
    """Show what was not linked, and why (`link.rejected`)."""


class CsvSettings(StandoffSettings):
    """How CSV is written."""

    delimiter: Literal[",", ";", "tab"] = ","
    """Separator of cells; Excel needs `;` where the decimal point is a comma."""
    bom: bool = False
    """Begin with a byte order mark, by which Excel knows UTF-8."""


class BratExporter:
    """Writes the annotations (.ann) of all texts, which `brat-text` writes, one on each line.

    Those of a single text fit its own file as well.
    """

    def __init__(self, settings: StandoffSettings) -> None:
        self._rejected = settings.rejected

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write a T line for each mention, its type the KB, and an N line for each entity.

        The note of a NIL is the id of its cluster; a place that was not linked has the type
        REJECTED, and why in its note.
        """
        begin = count = 0
        for document in documents:
            text = same_length_line(document.text)
            for link in document.in_order:
                count += 1
                kb = link.chosen.id.kb if link.chosen else "NIL"
                surface = text[link.start : link.end]
                out.write(f"T{count}\t{kb} {begin + link.start} {begin + link.end}\t{surface}\n")
                if link.cluster:
                    note = same_length_line(link.cluster)
                    out.write(f"#{count}\tAnnotatorNotes T{count}\t{note}\n")
                answers = link.answers
                for number, one in enumerate(answers, (count - 1) * len(answers) + 1):
                    if one.chosen is not None:
                        out.write(_brat_note(number, count, one.chosen))
            for place in document.rejected if self._rejected else ():
                count += 1
                offsets = f"{begin + place.start} {begin + place.end}"
                out.write(f"T{count}\tREJECTED {offsets}\t{text[place.start : place.end]}\n")
                why = same_length_line(place.why)
                out.write(f"#{count}\tAnnotatorNotes T{count}\t{why}\n")
            out.flush()
            begin += len(text) + 1


class BratTextExporter:
    """Writes the texts that the offsets of `brat` count in, one on each line."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write a line for each text."""
        for document in documents:
            out.write(same_length_line(document.text) + "\n")
            out.flush()


class CsvExporter:
    """Writes a row for each mention, or for each KB of it where each answers for itself.

    An apostrophe keeps texts from being run as formulas.
    """

    def __init__(self, settings: CsvSettings) -> None:
        self._settings = settings
        self._rejected = settings.rejected

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the header, then the mentions as they come.

        A NIL has no KB, and for a key the id of its cluster, if it has one. Of a place that was
        not linked the last column says why.
        """
        sign = self._settings.delimiter.replace("tab", "\t")
        rows = csv.writer(out, delimiter=sign)  # Its line ends, CRLF, make it quote a lone CR too.
        out.write("\ufeff" * self._settings.bom)
        rows.writerow((*COLUMNS, "rejected") if self._rejected else COLUMNS)
        for document in documents:
            for link in document.in_order:
                rows.writerows(_cells(document.id, link, answer) for answer in link.answers)
            for one in document.rejected if self._rejected else ():
                place = (_harmless(document.id), one.start, one.end, _harmless(one.surface))
                rows.writerow((*place, *[""] * (len(COLUMNS) - len(place)), _harmless(one.why)))
            out.flush()


def _brat_note(number: int, mention: int, chosen: Candidate) -> str:
    # Spaces end the parts of this line.
    key = re.sub(r"[\s%]", lambda found: quote(found[0], safe=""), chosen.id.key)
    code = f"{chosen.id.kb}:{writable(key, '?')}"
    return f"N{number}\tReference T{mention} {code}\t{same_length_line(chosen.title)}\n"


def _cells(document: str, link: Link, answer: KBAnswer) -> list[object]:
    chosen = answer.chosen
    entity = (chosen.id.key, chosen.title, chosen.url) if chosen else (link.cluster, "", "")
    return [
        _harmless(document),
        link.start,
        link.end,
        _harmless(link.surface),
        *map(_harmless, (answer.kb, *entity)),
        json_number(chosen.score) if chosen else "",
        json_number(answer.confidence),
        _harmless(" ".join(map(str, chosen.also)) if chosen else ""),
    ]


def _harmless(text: str) -> str:
    """A cell that no spreadsheet runs."""
    return spreadsheet_cell(writable(text))
