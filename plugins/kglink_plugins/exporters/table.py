"""Linked documents for people: the text with its mentions marked, then a line per mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Literal, NamedTuple, TextIO

from pydantic import Field
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kglink.plugins import PluginSettings
from kglink.records import Candidate, Link, LinkedDocument, Rejected
from kglink.shown import overlapping
from kglink.text.printable import printable_line
from kglink_plugins.exporters.summary import Tally, counted, encodable, notes, one_line

# Okabe and Ito's palette without black and yellow: told apart by colour-blind people, readable
# on dark and light. The KB's name always stands beside the colour.
KB_COLOURS = ("#0096d6", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
NIL_STYLE = "dim italic"

# A column is as wide as its widest cell, but one long cell does not push away all others.
WIDEST_COLUMN = 44
GAP = "   "
_LINE_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class TableSettings(PluginSettings):
    """What the table shows."""

    explain: bool = False
    """Show every candidate with the parts of its score."""
    rejected: bool = False
    """Show what was not linked, and why (`link.rejected`)."""
    show_text: bool = True
    """Print the text itself first, with its mentions marked."""
    text_limit: int = Field(2000, ge=0)
    """Characters of a text to show; the output says how many are left out."""
    colour: Literal["auto", "always", "never"] = "auto"
    """Colour on a terminal (auto, which honours NO_COLOR), always or never."""


class Cell(NamedTuple):
    """A piece of text on one line, its style, and the side it is aligned to."""

    text: str
    style: str = ""
    right: bool = False


class TableExporter:
    """Prints linked documents as aligned text, in colour on a terminal."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Print each document as soon as it comes, and the totals at the end."""
        page = _Page(self._settings, out)
        tally = Tally()
        for document in documents:
            page.print_document(document)
            tally.add(document)
            out.flush()
        page.print_totals(tally)
        out.flush()


class _Page:
    """One run of the exporter: where it prints to and which colour each KB has got."""

    def __init__(self, settings: TableSettings, out: TextIO) -> None:
        self._settings = settings
        self._out = out
        self._console = _console(settings, out)
        self._kbs: dict[str, int] = {}

    def print_document(self, document: LinkedDocument) -> None:
        """The name, the text, the notes and the mentions of a document."""
        if document.id:
            self._print(Text(one_line(document.id), style="bold"))
        if self._settings.show_text and document.text:
            self._print_text(document)
        for note in notes(document.meta):
            self._print(Text(f"note: {one_line(note)}", style="yellow"))
        links = document.in_order
        rows = iter(aligned([row for link in links for row in self._rows(link)]))
        for link in links:
            for row in islice(rows, 1 + len(link.per_kb)):
                self._print(row)
            if self._settings.explain:
                self._print_evidence(link)
        if not links:
            self._print(Text("no mentions found", style="dim"))
        if self._settings.rejected:
            self._print_rejected(document.rejected)
        self._print(Text())

    def print_totals(self, tally: Tally) -> None:
        """The last line."""
        documents = counted(tally.documents, "document")
        after = "" if tally.documents == 1 else f"{GAP}{documents}"
        self._print(Text(f"{tally}{after}", style="bold"))

    # --------------------------------------------------------------------------- the text
    def _print_text(self, document: LinkedDocument) -> None:
        shown, position = Text(), 0
        marked = [first for first, *_ in overlapping(document.links)]
        end = _cut(document.text, marked, self._settings.text_limit)
        for link in marked:
            if link.end > end:
                break
            shown.append_text(_body(document.text[position : link.start]))
            name = one_line(link.chosen.id.kb) if link.chosen else "NIL"
            style = self._style(link.chosen)
            surface = one_line(document.text[link.start : link.end])
            shown.append("[", "dim").append(surface, f"{style} underline")
            shown.append(f"|{name}]", f"dim {style}")
            position = link.end
        shown.append_text(_body(document.text[position:end]))
        self._print(shown, wrap=True)
        if end < len(document.text):
            left = counted(len(document.text) - end, "more character")
            below = "; every mention is listed below" if document.links else ""
            self._print(Text(f"… {left} not shown{below}", style="dim"))
        self._print(Text())

    # ----------------------------------------------------------------------- the mentions
    def _rows(self, link: Link) -> Iterator[list[Cell]]:
        """The answer, and below it that of each KB where they are wanted."""
        chosen = link.chosen
        yield [
            Cell(one_line(link.surface), "bold"),
            *self._answer(chosen, link.confidence),
            Cell(_named(link, chosen) if chosen else _nearest(link), "dim"),
        ]
        for one in link.per_kb:
            title = one_line(one.chosen.title) if one.chosen else ""
            name = Cell(f"  {one_line(one.kb)}", "dim")
            yield [name, *self._answer(one.chosen, one.confidence), Cell(title, "dim")]

    def _answer(self, chosen: Candidate | None, confidence: float) -> list[Cell]:
        return [
            Cell(one_line(str(chosen.id)) if chosen else "NIL", self._style(chosen)),
            Cell(short(confidence), right=True),
        ]

    def _print_evidence(self, link: Link) -> None:
        if not link.candidates:
            return
        parts = list(dict.fromkeys(key for item in link.candidates for key in item.evidence))
        head = [" ", "candidate", "score", *(one_line(part.replace("_", " ")) for part in parts)]
        rows = [[Cell(name, "dim", right=column > 1) for column, name in enumerate(head)]]
        rows[0].append(Cell("entity", "dim"))  # "title" is a kind of evidence
        for item in link.candidates:
            is_chosen = link.chosen is not None and item.id == link.chosen.id
            values = [short(item.evidence[one]) if one in item.evidence else "" for one in parts]
            rows.append(
                [
                    Cell(">" if is_chosen else " "),
                    Cell(one_line(str(item.id)), self._style(item)),
                    Cell(short(item.score), right=True),
                    *(Cell(value, "dim", right=True) for value in values),
                    Cell(one_line(item.title)),
                ]
            )
        for row in aligned(rows, gap="  "):
            self._print(Text("  ").append_text(row))

    def _print_rejected(self, rejected: Sequence[Rejected]) -> None:
        self._print(Text(f"{counted(len(rejected), 'place')} not linked", style="bold"))
        rows = [
            [
                Cell(one_line(one.surface)),
                *(Cell(one_line(str(best.id)), NIL_STYLE) for best in one.candidates[:1]),
                Cell(one_line(one.why), "dim"),
            ]
            for one in rejected
        ]
        for row in aligned(rows):
            self._print(row)

    # ------------------------------------------------------------------------- the output
    def _style(self, candidate: Candidate | None) -> str:
        if candidate is None:
            return NIL_STYLE
        index = self._kbs.setdefault(candidate.id.kb, len(self._kbs))
        return KB_COLOURS[index % len(KB_COLOURS)]

    def _print(self, line: Text, *, wrap: bool = False) -> None:
        line.plain = encodable(line.plain, self._out)
        if self._console is None:
            self._out.write(line.plain + "\n")
        else:
            self._console.print(line, soft_wrap=not wrap)


def aligned(rows: Sequence[Sequence[Cell]], *, gap: str = GAP) -> list[Text]:
    """Rows as lines whose columns stand under each other, by width on the screen."""
    columns = zip_longest(*([cell_len(cell.text) for cell in row] for row in rows), fillvalue=0)
    widths = [min(max(column), WIDEST_COLUMN) for column in columns]
    lines = []
    for row in rows:
        line = Text()
        for number, (cell, width) in enumerate(zip(row, widths, strict=False)):
            space = " " * (width - cell_len(cell.text))
            before, after = (space, "") if cell.right else ("", space)
            line.append(gap if number else "")
            line.append(before).append(cell.text, style=cell.style).append(after)
        line.rstrip()
        lines.append(line)
    return lines


def short(value: float) -> str:
    """A number in two digits, without the zero before the point (``.97``, ``1.00``, ``-.05``)."""
    text = f"{round(float(value), 2) + 0.0:.2f}"  # no "-.00"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _console(settings: TableSettings, out: TextIO) -> Console | None:
    """A console for coloured output, or None for plain text."""
    if settings.colour == "never":
        return None
    plain = partial(Console, file=out, markup=False, highlight=False, emoji=False)
    if settings.colour == "always":
        return plain(force_terminal=True, no_color=False, color_system="truecolor")
    console = plain()
    coloured = console.is_terminal and not console.no_color and not console.is_dumb_terminal
    return console if coloured else None


def _body(text: str) -> Text:
    """A text for a terminal; a tab becomes four spaces."""
    lines = (line.replace("\t", "    ") for line in _LINE_BREAKS.split(text))
    return Text("\n".join(map(printable_line, lines)))


def _cut(text: str, links: Sequence[Link], limit: int) -> int:
    """Where to stop showing: at the limit, or before the word or after the mention there."""
    if len(text) <= limit:
        return len(text)
    before = [link for link in links if link.start < limit]
    shown = before[-1].end if before else 0
    if shown > limit:
        return shown
    space = text.rfind(" ", max(shown, limit - 40), limit + 1)
    return space if space > 0 else limit


def _named(link: Link, chosen: Candidate) -> str:
    """The title, where neither the mention nor the key says it, and the same thing elsewhere."""
    from kglink.text.fold import fold  # which loads numpy

    said = fold(chosen.title) in (fold(link.surface), fold(chosen.id.key))
    also = "also " + ", ".join(one_line(str(entity)) for entity in chosen.also)
    return GAP.join([one_line(chosen.title)] * (not said) + [also] * bool(chosen.also))


def _nearest(link: Link) -> str:
    cluster = [one_line(link.cluster)] if link.cluster else []
    if not link.candidates:
        return GAP.join([*cluster, "no candidates"])
    nearest = link.candidates[0]
    return GAP.join([*cluster, f"nearest {one_line(str(nearest.id))} {short(nearest.score)}"])
