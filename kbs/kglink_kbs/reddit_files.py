"""The tab-separated files of the Reddit entity linking release, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import unquote

from kglink.errors import RecordError
from kglink.sources import Problems, Source
from kglink_kbs.values import BadValue, shortened

Tier = Literal["gold", "silver", "bronze"]
Kind = Literal["post", "comment"]

#: How a physical line looks that begins a record; any other goes on with the text above it.
_BEGINS: dict[Kind, re.Pattern[str]] = {
    "post": re.compile(r"([0-9a-z]{1,12})\t[\w-]{1,50}\t(.*)", re.DOTALL),
    "comment": re.compile(
        r"([0-9a-z]{1,12})\tt\d_[0-9a-z]{1,12}\t[^\t]*\t[\w-]{1,50}\t(.*)", re.DOTALL
    ),
}
_COLUMNS = 7
_NUMBER = re.compile(r"[0-9]{1,9}")
_ID = re.compile(r"[0-9a-z]{1,12}")
#: A question mark alone may end a title (What's Up, Doc?); a query names something.
_QUERY = re.compile(r"\?\w+=.*", re.DOTALL)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


class Text(NamedTuple):
    """A post or comment without the white space at its ends, and the line on which it begins."""

    line: int
    id: str
    text: str


class Annotation(NamedTuple):
    """A row of an annotation file; ``place`` is its own for messages."""

    place: str
    tier: Tier
    id: str
    surface: str
    title: str
    start: int
    end: int


def read_texts(source: Source, kind: Kind, problems: Problems) -> Iterator[Text]:
    """The texts of ``posts.tsv`` or ``comments.tsv``, the line breaks in them kept."""
    begins = _BEGINS[kind]
    limit = source.limits.max_line_bytes
    open_text: Text | None = None
    pieces: list[str] = []
    size = 0
    for number, line in source.lines(problems):
        if begun := begins.fullmatch(line):
            if open_text:
                yield _whole(open_text, pieces)
            open_text, pieces, size = Text(number, begun[1], ""), [begun[2]], len(begun[2])
        elif open_text and size <= limit:
            pieces.append(line)
            size += len(line) + 1
            if size > limit:
                reason = f"a text of more than {limit:,} characters is cut"
                problems.report(RecordError(reason, where=source.where(open_text.line)))
        elif not open_text and line.strip():
            reason = f"not the beginning of a {kind}: {shortened(line)}"
            problems.report(RecordError(reason, where=source.where(number), hint=_HINTS[kind]))
    if open_text:
        yield _whole(open_text, pieces)


_HINTS: dict[Kind, str] = {
    "post": "A post is its id, subreddit and text, separated by tabs.",
    "comment": "A comment is its id, its full name (t1_...), a reference, subreddit and text, "
    "separated by tabs.",
}


def _whole(text: Text, pieces: list[str]) -> Text:
    return text._replace(text="\n".join(pieces).strip())


def read_annotations(source: Source, tier: Tier, problems: Problems) -> Iterator[Annotation]:
    """The rows of an annotation file; bad ones go to ``problems``."""
    for number, line in source.lines(problems):
        if not line or line.isspace():
            continue
        place = source.where(number)
        try:
            yield _annotation(line, place, tier)
        except BadValue as bad:
            problems.report(RecordError(bad.message, where=place, hint=bad.hint))


def _annotation(line: str, place: str, tier: Tier) -> Annotation:
    columns = line.split("\t")
    if len(columns) != _COLUMNS:
        raise BadValue(
            f"found {len(columns)} columns, an annotation has {_COLUMNS}",
            "They are id, subreddit, surface, Wikipedia title, start, end, normalised surface.",
        )
    id_, _, surface, title, start, end, _ = columns
    if not _ID.fullmatch(id_):
        raise BadValue(f"{shortened(id_)} is no id of a post or comment")
    if not surface.strip():
        raise BadValue("an empty surface")
    for number in (start, end):
        if not _NUMBER.fullmatch(number):
            raise BadValue(f"the offset {shortened(number)} is no whole number from 0 on")
    name = wiki_title(title)
    if not name:
        raise BadValue(f"no Wikipedia title: {shortened(title)}")
    return Annotation(place, tier, id_, surface, name, int(start), int(end))


def wiki_title(text: str) -> str:
    """A page's title as Wikipedia has it: no fragment, query, underscore or percent code."""
    title = _QUERY.sub("", text.partition("#")[0])
    if _ENCODED.search(title):  # no title may hold such a code
        title = unquote(title)
    title = " ".join(title.replace("_", " ").split()).lstrip(":").lstrip()
    return title[:1].upper() + title[1:]
