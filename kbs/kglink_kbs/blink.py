"""BLINK (Wu et al. 2020): a catalogue of entities, and mentions between their contexts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from kglink.errors import KglinkError, SourceError
from kglink.plugins import PluginSettings
from kglink.records import Document, Entity, Record, Split
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.annotations import DocumentFields, DocumentMaker
from kglink_kbs.json_stream import is_array, json_objects
from kglink_kbs.jsonl import head_objects
from kglink_kbs.values import BadValue, good_ones, key_text, one_line, plain_text

_CONTEXTS = frozenset({"context_left", "mention", "context_right"})
_PAGE_IDS = ("Wikipedia_ID", "wikipedia_id")
_TITLES = ("label_title", "Wikipedia_title", "wikipedia_title")
#: Fields with the gold; only this module reads them.
_LABELS = frozenset({"label", "label_id", *_PAGE_IDS, *_TITLES})
_PAGE_ID = re.compile(r"[?&]curid=(\d+)$")
_FILE = re.compile(r"(?:.*/)?([^/]+?)\.jsonl(?:\.(?:gz|bz2|zst|xz))?")
_SPLITS: Mapping[str, Split] = {"train": "train", "valid": "dev", "dev": "dev", "test": "test"}


class BlinkSettings(PluginSettings):
    """Settings of ``kglink/blink``."""

    label: Literal["auto", "page_id", "row", "title"] = "auto"
    """Key of an entity, and label of a mention: `page_id`; `row`, the number of
    the catalogue's line from 0; `title` (entities keep their page id, and mentions name titles);
    `auto`: the page id, unless only a number says what is meant."""
    world: str = ""
    """Read only the mentions of this world of ZESHEL."""
    join: str = " "
    """Put between context_left, mention and context_right where neither side has white space
    there."""


class BlinkAdapter:
    """Reads a catalogue, a file of mentions, or a folder of both."""

    def __init__(self, settings: BlinkSettings) -> None:
        self._settings = settings
        self._documents = DocumentMaker(DocumentFields(join=settings.join, gold_ids="key"), {})

    @property
    def resolve(self) -> Literal["key", "title"]:
        """How the golds name their entities."""
        return "title" if self._settings.label == "title" else "key"

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities and documents of each file in their order."""
        files = [file for file in source.files() if not source.is_folder or _stem(file)]
        if not files:
            raise SourceError(
                f"{source.label} holds no .jsonl file",
                hint="BLINK's files are entity.jsonl, train.jsonl, valid.jsonl and test.jsonl.",
            )
        for file in files:
            if file.bytes_total or not source.is_folder:
                yield from self._file(file, problems)

    def _file(self, file: Source, problems: Problems) -> Iterator[Record]:
        if is_array(file.head.head):
            raise SourceError(
                f"{file.label} is one array, and BLINK's files are lines",
                hint="The number of a line counts as an id: jq -c '.[]' FILE makes lines.",
            )
        split = _SPLITS.get(_stem(file), "")

        def record(one: tuple[int, dict[str, Any]]) -> Record | None:
            line, fields = one
            if not fields.keys() >= _CONTEXTS:
                return self._entity(fields, row=line - 1)
            if self._settings.world not in ("", fields.get("world")):
                return None
            return self._document(fields, split, file, line, problems)

        lines = ((file.where(one[0]), one) for one in json_objects(file, problems))
        return good_ones(lines, record, problems)

    # ---------------------------------------------------------------------------- entities
    def _entity(self, fields: Mapping[str, object], row: int) -> Entity:
        idx = key_text(fields.get("idx"), "idx")
        title = one_line(fields.get("title"), "title")
        if not title:
            raise BadValue(
                "neither an entity nor a mention",
                "An entity has title, text and idx; a mention has context_left, mention and "
                "context_right.",
            )
        page = _PAGE_ID.search(idx)
        key = str(row) if self._settings.label == "row" else page[1] if page else idx
        if not key:
            raise BadValue("an entity without idx", "--set label=row makes the line its key.")
        url = idx if "://" in idx else ""
        return Entity(key, title, plain_text(fields.get("text"), "text"), url=url)

    # ---------------------------------------------------------------------------- mentions
    def _document(
        self, fields: dict[str, Any], split: Split, file: Source, line: int, problems: Problems
    ) -> Document | None:
        label = self._label(fields, file.where(line))
        if label is not None:
            # Rows and titles are those of a world; the setting says that all are of one.
            world = "" if self._settings.world else one_line(fields.get("world"), "world")
            label = {"kb": world, "key": label} if world else [label]
        rest = {name: value for name, value in fields.items() if name not in _LABELS}
        document = self._documents.make(rest | {"gold": label}, file, line, problems)
        return document and replace(document, split=document.split or split)

    def _label(self, fields: Mapping[str, object], place: str) -> object:
        """What a mention means, in the words that the setting asks for."""
        title, page = _first(fields, _TITLES), _first(fields, _PAGE_IDS)
        number = fields.get("label_id")
        match self._settings.label:
            case "title":
                return None if title is None else one_line(title, "label_title") or None
            case "row":
                return number
            case "page_id":
                return number if page is None else page
        if page is None and (isinstance(number, int) or (number is None and title is not None)):
            what = "no id, only a title," if number is None else f"the number {number}"
            raise SourceError(
                f"{place}: {what} says what is meant",
                hint="Say what it is: the line of a catalogue (--set label=row), a page id "
                "(label=page_id), or take label_title (label=title). Read the catalogue with the "
                "same setting.",
            )
        return number if page is None else page


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _stem(file: Source) -> str:
    """``train`` for train.jsonl and blink/train.jsonl.gz; empty for what is no such file."""
    found = _FILE.fullmatch(file.name)
    return found[1] if found else ""


# ------------------------------------------------------------------------------------ sniffing
def sniff(head: SourceHead) -> float:
    """Sure of catalogues with ``idx`` and of contexts with a label's title or page."""
    if head.path is not None and not head.head:
        try:
            names = (head.path / f"{stem}.jsonl" for stem in ("entity", *_SPLITS))
            files = [name for name in names if name.is_file() and name.stat().st_size]
            return sniff(Source.open_path(files[0]).head) if files else 0.0
        except (OSError, KglinkError):
            return 0.0
    objects = [] if is_array(head.head) else head_objects(head)
    needed, known = {"title", "text", "idx"}, {"world", *_PAGE_IDS, *_TITLES}
    ours = sum(
        bool(one.keys() & known)
        if one.keys() >= _CONTEXTS
        else needed <= one.keys() <= needed | {"entity"}
        for one in objects
    )
    return 0.95 if objects and ours > 0.5 * len(objects) else 0.0
