"""PubTator: abstracts with concept annotations (MedMentions, NCBI Disease, BC5CDR).

It gives each text one line. So that all offsets stay what they are, every character that breaks a
line, and every tab, is written as one space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal, TextIO

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document, EntityId, LinkedDocument, Mention, Record, Split
from kglink.sources import Problems, Source, SourceHead
from kglink.text.codes import bare_code
from kglink.text.printable import same_length_line
from kglink_kbs.annotations import Gold, character_offsets, checked_span, in_order
from kglink_kbs.values import BadValue, exact_text, good_ones, listed, offset_number, shortened

_PART = re.compile(r"([^|\t]{1,2000})\|([ta])\|(.*)", re.DOTALL)
_HEAD = re.compile(r"\s*+(?P<id>[^|\t\n]{1,2000})\|t\|[^\n]*\n(?P=id)\|a\|")
_CODES = re.compile(r"[|+,;]")
#: A code that holds such a sign is written as addresses have it: "A%2BB".
_TO_QUOTE, _QUOTED = re.compile(r"[|+,;%]"), re.compile(r"%(7C|2B|2C|3B|25)", re.I)
_NUMBER = re.compile(r"\d{1,18}")
_WORD = re.compile(r"[A-Za-z][\w-]*")
#: What stands where the annotators found no concept.
_NO_CODE = frozenset({"-1", "-", "None"})
#: A file without blank lines is one block without end; no abstract has as many rows.
MAX_ROWS = 100_000

NoCode = Literal["unknown", "nil"]


class PubtatorSettings(PluginSettings):
    """Settings of ``kglink/pubtator``."""

    outside: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("train_ids", "dev_ids", "test_ids"), "reads that file"
    )

    types: str = ""
    """Types of mentions to read, separated by commas (`Disease,SpecificDisease`); all if empty."""
    no_code: NoCode = "unknown"
    """A mention with the code -1 is `unknown`, or `nil` (no entity is meant) if the documents link
    to a KB of the corpus's own vocabulary."""
    train_ids: str = ""
    """A file with the ids of the documents for training, one per line."""
    dev_ids: str = ""
    """A file with the ids of the documents for validation, one per line."""
    test_ids: str = ""
    """A file with the ids of the documents for the test, one per line."""


@dataclass
class _Block:
    """The lines of one document as far as they are read."""

    id: str
    place: str
    parts: dict[str, str] = field(default_factory=dict)
    """The title (``t``) and the abstract (``a``)."""
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    """The cells of each annotation, and where it stands."""


class PubtatorAdapter:
    """Reads blocks of title, abstract and annotations as annotated documents."""

    def __init__(self, settings: PubtatorSettings) -> None:
        self._settings = settings
        self._types = frozenset(listed(settings.types)) - {"all"}

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield a document for each block; relation rows and a seventh column are passed over."""
        splits = self._splits()
        return good_ones(
            ((block.place, block) for block in _blocks(source, problems)),
            lambda block: self._document(block, splits.get(block.id, ""), problems),
            problems,
        )

    def _splits(self) -> dict[str, Split]:
        files: dict[Split, str] = {
            "train": self._settings.train_ids,
            "dev": self._settings.dev_ids,
            "test": self._settings.test_ids,
        }
        splits: dict[str, Split] = {}
        for split, path in files.items():
            if path:
                with Source.open_path(path) as file:
                    ids = (line.text.strip() for line in file.lines(Problems()))
                    splits.update((id_, split) for id_ in ids if id_)
        return splits

    def _document(self, block: _Block, split: Split, problems: Problems) -> Document:
        if "t" not in block.parts or not block.id:
            raise BadValue(
                f"document {shortened(block.id)} has no title line",
                "A block begins with PMID|t|TITLE and PMID|a|ABSTRACT.",
            )
        title, abstract = block.parts["t"], block.parts.get("a")
        text = exact_text(f"{title} {abstract}" if abstract else title, "the text")
        mentions = good_ones(block.rows, partial(self._mention, block.id, text), problems)
        return Document(block.id, text, in_order(mentions), title.strip(), split)

    def _mention(self, id_: str, text: str, cells: list[str]) -> Mention | None:
        if cells[0].strip() != id_:
            raise BadValue(
                f"a row of document {shortened(cells[0])} stands in document {id_}",
                "A blank line separates two documents.",
            )
        # A relation such as PMID, CID and two codes says nothing of a mention.
        if len(cells) > 3 and _WORD.fullmatch(cells[1]) and not _NUMBER.fullmatch(cells[2]):
            return None
        if len(cells) < 5:
            raise BadValue(
                f"a row of {len(cells)} columns",
                "An annotation is PMID, start, end, surface, type and code, separated by tabs.",
            )
        start, end = offset_number(cells[1], "start"), offset_number(cells[2], "end")
        kind = cells[4].strip()
        if self._types and self._types.isdisjoint(map(str.strip, kind.split(","))):
            return None
        hint = (
            "Offsets count characters of the title, one space and the abstract; --on-error skip "
            "leaves such mentions out."
        )
        offsets = character_offsets(text, (start, end), "characters")
        place = checked_span(text, offsets, (start, end), cells[3], hint)
        return Mention(*place, coded_gold(cells[5:6], self._settings.no_code), kind)


class PubtatorExporter:
    """Writes title line, empty abstract and a row for each mention, a blank line between texts.

    Where each KB answers for itself, a row for each that has an entity.
    """

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the documents as they come; the code of NIL is ``-``, or its cluster's id."""
        for at, document in enumerate(documents, 1):
            name = same_length_line(document.id).replace("|", "_").strip() or f"document {at}"
            text = same_length_line(document.text)
            out.write(f"{name}|t|{text}\n{name}|a|\n")
            for link in document.in_order:
                cells = map(str, (name, link.start, link.end, text[link.start : link.end]))
                place = "\t".join(cells)
                entities = [one.chosen for one in link.answers if one.chosen is not None]
                for chosen in entities or (None,):
                    kind = chosen.type if chosen else ""
                    code = str(chosen.id) if chosen else link.cluster or "-"
                    code = _TO_QUOTE.sub(lambda sign: f"%{ord(sign[0]):02X}", code)
                    named = (same_length_line(one).strip() for one in (kind or "Entity", code))
                    out.write("\t".join((place, *named)) + "\n")
            out.write("\n")
            out.flush()


def coded_gold(cells: Iterable[str], no_code: NoCode) -> Gold:
    """All codes of some cells, each of which is right; None if there is no code."""
    found = [code for cell in cells for code in map(str.strip, _CODES.split(cell)) if code]
    said = (_QUOTED.sub(lambda sign: chr(int(sign[1], 16)), one) for one in found)
    codes = dict.fromkeys(bare_code(code) for code in said if code not in _NO_CODE)
    if codes:
        return tuple(EntityId("", code) for code in codes)
    return () if found and no_code == "nil" else None


def sniff(head: SourceHead) -> float:
    """Sure of a title line that is followed by the abstract of the same document."""
    text = head.head.decode("utf-8-sig", errors="ignore")
    return 0.95 if _HEAD.match(text.replace("\r\n", "\n")) else 0.0


def _blocks(source: Source, problems: Problems) -> Iterator[_Block]:
    """The documents, each until a blank line or the title of the next."""
    block: _Block | None = None
    for line in source.lines(problems):
        part = _PART.fullmatch(line.text)
        if not line.text.strip() or (part and part[2] == "t"):
            if block:
                yield block
            block = None
        if not line.text.strip():
            continue
        place = source.where(line.number)
        if part:
            block = block or _Block(part[1].strip(), place)
            _add_part(block, part, place, problems)
        else:
            block = block or _Block(line.text.partition("\t")[0].strip(), place)
            if len(block.rows) >= MAX_ROWS:
                raise SourceError(
                    f"{place}: document {block.id} has more than {MAX_ROWS:,} rows",
                    hint="A blank line separates two documents; is this a PubTator file?",
                )
            block.rows.append((place, line.text.split("\t")))
    if block:
        yield block


def _add_part(block: _Block, part: re.Match[str], place: str, problems: Problems) -> None:
    id_, kind, text = part[1].strip(), part[2], part[3]
    if id_ != block.id or kind in block.parts:
        problem = "is not of this document" if id_ != block.id else "comes twice"
        reason = f"the {'title' if kind == 't' else 'abstract'} of document {id_} {problem}"
        problems.refuse(reason, place, "A blank line separates two documents.")
        return
    block.parts[kind] = text
