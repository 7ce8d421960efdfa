"""ZESHEL (Logeswaran et al. 2019): the pages of one fan wiki, and mentions in those pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

from kglink.errors import SourceError, UnknownNameError
from kglink.plugins import PluginSettings
from kglink.records import Document, Entity, EntityId, Mention, Record, Split
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.annotations import in_order
from kglink_kbs.json_stream import json_objects
from kglink_kbs.jsonl import head_objects
from kglink_kbs.values import (
    BadValue,
    described,
    exact_text,
    good_ones,
    key_text,
    one_line,
    shortened,
    whole_number,
)

HELD_OUT = ("heldout_train_seen", "heldout_train_unseen")
_SPLITS: Mapping[str, Split] = {"train": "train", "val": "dev", "test": "test"}
_FILE = re.compile(r"(documents|mentions)/([^/]+?)\.json(?:\.(?:gz|bz2|zst|xz))?")
_WORD = re.compile(r"\S+")  # what `str.split` splits into, with its place
_PAGE_FIELDS = frozenset({"document_id", "title", "text"})


class ZeshelSettings(PluginSettings):
    """Settings of ``kglink/zeshel``."""

    world: str = ""
    """The world to read, such as `starwars`; needed where the folder holds several."""
    mentions: tuple[str, ...] = ("train", *HELD_OUT, "val", "test")
    """Files of `mentions/` to read, without `.json`; empty for entities alone."""
    heldout: Literal["train", "dev", "test"] = "dev"
    """Split of the mentions in `heldout_train_seen` and `heldout_train_unseen`."""


class _Annotation(NamedTuple):
    """A line of a mention file; ``first`` and ``last`` are words, both included."""

    first: int
    last: int
    surface: str
    gold: str
    category: str


#: The annotations of each mention file, with their places.
_ByFile = dict[str, list[tuple[str, _Annotation]]]


class ZeshelAdapter:
    """Reads one world of a ZESHEL folder, or the entities of one of its documents files."""

    def __init__(self, settings: ZeshelSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield each page as an entity, followed by its annotated documents."""
        world, waiting = source, dict[str, _ByFile]()
        if source.is_folder:
            name, world, mention_files = self._chosen_files(source)
            for stem, file in mention_files.items():
                _collect(waiting, name, stem, file, problems)
        pages = ((world.where(line), fields) for line, fields in json_objects(world, problems))
        for entity, fields in good_ones(pages, lambda one: (_entity(one), one), problems):
            yield entity
            if not (annotated := waiting.pop(entity.key, None)):
                continue
            text = exact_text(fields["text"], "text")
            words = [word.span() for word in _WORD.finditer(text)]
            for stem, marked in annotated.items():  # a document for each mention file
                found = good_ones(marked, partial(_mention, text, words, stem), problems)
                if mentions := in_order(dict.fromkeys(found)):
                    split = self._settings.heldout if stem in HELD_OUT else _SPLITS.get(stem, "")
                    name = f"{stem}/{entity.key}"
                    yield Document(name, text, mentions, entity.title, split)
        for key, annotated in waiting.items():
            for place, _ in chain.from_iterable(annotated.values()):
                reason = f"the context document is none of {world.label}"
                problems.refuse(reason, place, f"It is {key!r}.")

    def _chosen_files(self, source: Source) -> tuple[str, Source, dict[str, Source]]:
        """The name of the world, its documents file, and the mention files to read."""
        worlds: dict[str, Source] = {}
        mentions: dict[str, Source] = {}
        for file in source.files():
            if found := _FILE.fullmatch(file.name):
                kind = worlds if found[1] == "documents" else mentions
                kind[found[2]] = file
        if not worlds:
            raise SourceError(
                f"{source.label} holds no documents/WORLD.json",
                hint="Name the folder that holds the folders documents and mentions.",
            )
        name = self._settings.world or (next(iter(worlds)) if len(worlds) == 1 else "")
        if not name:
            raise SourceError(
                f"{source.label} holds {len(worlds)} worlds, and a KB is one of them",
                hint=f"Say which: --set world=NAME. There is: {', '.join(worlds)}.",
            )
        if name not in worlds:
            raise UnknownNameError(f"world of {source.label}", name, worlds)
        named = "mentions" in self._settings.model_fields_set
        chosen = {}
        for stem in self._settings.mentions:
            if stem in mentions:
                chosen[stem] = mentions[stem]
            elif named:
                raise UnknownNameError(f"mention file of {source.label}", stem, mentions)
        return name, worlds[name], chosen


def _entity(fields: Mapping[str, object]) -> Entity:
    key = key_text(fields.get("document_id"), "document_id")
    title = one_line(fields.get("title"), "title")
    if not key or not title:
        missing = "title" if key else "document_id"
        raise BadValue(
            f"a page without {missing}",
            "Each line of documents/WORLD.json has document_id, title and text.",
        )
    return Entity(key, title, exact_text(fields.get("text"), "text").strip(), language="en")


def _collect(
    waiting: dict[str, _ByFile], world: str, stem: str, file: Source, problems: Problems
) -> None:
    """Add the annotations of a mention file that belong to ``world``, by context document."""
    if not file.bytes_total:
        return
    for line, fields in json_objects(file, problems):
        if fields.get("corpus") == world:
            place = file.where(line)
            for context, annotation in good_ones([(place, fields)], _annotation, problems):
                found = waiting.setdefault(context, {}).setdefault(stem, [])
                found.append((place, annotation))


def _annotation(fields: Mapping[str, object]) -> tuple[str, _Annotation]:
    """The document that is annotated, and how."""
    context = key_text(fields.get("context_document_id"), "context_document_id")
    gold = key_text(fields.get("label_document_id"), "label_document_id")
    if not gold:
        raise BadValue("a mention without label_document_id")
    return context, _Annotation(
        whole_number(fields.get("start_index"), "start_index"),
        whole_number(fields.get("end_index"), "end_index"),
        exact_text(fields.get("text"), "text"),
        gold,
        one_line(fields.get("category"), "category"),
    )


def _mention(
    text: str, words: list[tuple[int, int]], stem: str, annotation: _Annotation
) -> Mention:
    """The mention in characters, once its ``words`` have been compared with its text."""
    first, last, surface, gold, category = annotation
    if not first <= last < len(words):
        raise BadValue(
            f"the words {first}..{last} do not lie in the context document",
            f"It has {len(words):,} words; both ends are included, and count from 0.",
        )
    start, end = words[first][0], words[last][1]
    # A word and its space are two characters or more: longer spans need no comparison.
    fits = 2 * (last - first) < len(surface)
    if not fits or " ".join(text[start:end].split()) != surface:
        raise BadValue(
            f"the words {first}..{last} are not the text of the mention: {described(surface)} is "
            f"given, {shortened(text[start : min(end, start + 81)])} stands there"
        )
    quality = stem if stem in HELD_OUT else ""
    return Mention(start, end, text[start:end], (EntityId("", gold),), category, quality)


def sniff(head: SourceHead) -> float:
    """Sure of a folder with documents and mentions, and of pages that begin with their title."""
    if head.path is not None and not head.head:
        with suppress(OSError):
            names = (f"documents/{one.name}" for one in (head.path / "documents").iterdir())
            found = (head.path / "mentions").is_dir() and any(map(_FILE.fullmatch, names))
            return 0.95 if found else 0.0
        return 0.0
    objects = head_objects(head)
    pages = sum(
        fields.keys() == _PAGE_FIELDS and str(fields["text"]).startswith(str(fields["title"]))
        for fields in objects
    )
    return 0.95 if objects and pages > 0.5 * len(objects) else 0.0
