"""Entities and annotated documents as JSON; the content of a record says which it is.

A record that `kglink export` wrote is read to the letter: nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any, Literal, TextIO, TypeVar, cast, get_args

from kglink.errors import SourceError
from kglink.records import (
    Alias,
    AliasKind,
    CodeMapping,
    Document,
    Entity,
    EntityId,
    Mention,
    Record,
    Split,
    Verdict,
)
from kglink.sources import Problems, Source, SourceHead
from kglink.text.printable import printable_json
from kglink_kbs.annotations import DocumentFields, DocumentMaker
from kglink_kbs.entities import CODES, EntityFields, description_mender, made_entity
from kglink_kbs.json_stream import JsonWalk, is_array, json_objects
from kglink_kbs.spellings import ENTITY, Shapes, find_fields
from kglink_kbs.tabular import LISTS, separator_of, tell_unsplit
from kglink_kbs.values import (
    BadValue,
    described,
    exact_text,
    finite_number,
    good_ones,
    list_of,
    object_of,
    whole_number,
)

#: The field that says that a record was exported, and of which kind it is.
MARK = "kglink"

T = TypeVar("T")
Fields = Mapping[str, object]


def is_exported(fields: Fields) -> bool:
    """Whether a record was written by `kglink export`."""
    mark = fields.get(MARK)
    return isinstance(mark, str) and mark in _MAKERS


def exported_record(fields: Fields) -> Record:
    """The record of an exported line; missing fields get their defaults."""
    try:
        return _MAKERS[str(fields[MARK])](fields)
    except BadValue as bad:
        bad.hint = bad.hint or _HINT
        raise


def _entity(fields: Fields) -> Entity:
    key, title = _text(fields, "id"), _text(fields, "title")
    if not key or not title.strip():
        raise BadValue("an exported entity without id or title")
    return Entity(
        key,
        title,
        description=_text(fields, "description"),
        type=_text(fields, "type"),
        url=_text(fields, "url"),
        popularity=finite_number(fields.get("popularity"), "popularity"),
        language=_text(fields, "language"),
        aliases=_list(fields, "aliases", _alias),
        xrefs=_list(fields, "xrefs", lambda xref: exact_text(xref, "xrefs")),
        parents=_list(fields, "parents", lambda parent: exact_text(parent, "parents")),
    )


def _alias(value: object) -> Alias:
    fields = object_of(value, "an alias")
    surface = _text(fields, "surface")
    if not surface.strip():
        raise BadValue("an exported alias without a surface")
    kind = cast("AliasKind", _one_of(fields, "kind", get_args(AliasKind), "alias"))
    return Alias(surface, kind, whole_number(fields.get("count", 1), "count"))


def _document(fields: Fields) -> Document:
    key, text = _text(fields, "id"), _text(fields, "text")
    if not key:
        raise BadValue("an exported document without id")

    def mention(value: object) -> Mention:
        fields = object_of(value, "a mention")
        start, end = (whole_number(fields.get(name), name) for name in ("start", "end"))
        surface = _text(fields, "text")
        fits = start < end <= len(text) and end - start == len(surface)
        if not fits or not text.startswith(surface, start):
            raise BadValue(f"the surface of a mention does not stand at {start}..{end}")
        golds = None if fields.get("gold") is None else _list(fields, "gold", gold)
        unique = None if golds is None else tuple(dict.fromkeys(golds))
        quality = _text(fields, "quality")
        return Mention(start, end, surface, unique, _text(fields, "type"), quality)

    def gold(value: object) -> EntityId:
        fields = object_of(value, "a gold")
        kb, key = _text(fields, "kb"), _text(fields, "key")
        if not key or ":" in kb:
            raise BadValue("an exported gold without a key")
        return EntityId(kb, key)

    split = cast("Split", _one_of(fields, "split", get_args(Split), ""))
    return Document(key, text, _list(fields, "mentions", mention), _text(fields, "title"), split)


def _mapping(fields: Fields) -> CodeMapping:
    verdict = _one_of(fields, "verdict", ("", *get_args(Verdict)), "")
    confidence = finite_number(fields.get("confidence"), "confidence")
    sides = (_text(fields, "subject"), _text(fields, "object"))
    if not all(sides):
        raise BadValue("an exported mapping without subject or object")
    said = cast("Verdict", verdict) if verdict else None
    return CodeMapping(*sides, _text(fields, "predicate"), confidence, said)


_MAKERS: Mapping[str, Callable[[Fields], Record]] = {
    "entity": _entity,
    "document": _document,
    "mapping": _mapping,
}
_HINT = "Export it again; without the field kglink a line is read as anybody's JSON."


def _text(fields: Fields, name: str) -> str:
    return exact_text(fields.get(name, ""), name)


def _list(fields: Fields, name: str, make: Callable[[object], T]) -> tuple[T, ...]:
    return tuple(map(make, list_of(fields.get(name), name)))


def _one_of(fields: Fields, name: str, values: tuple[str, ...], default: str) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or value not in values:
        raise BadValue(f"{name} is {described(value)}, none of {', '.join(filter(None, values))}")
    return value


# ------------------------------------------------------------------------------------ writing
def record_line(record: Record) -> str:
    """One line for one record; fields that say nothing are left out."""
    fields: dict[str, object]
    match record:
        case Entity():
            fields = {MARK: "entity", "id": record.key, "title": record.title} | _said(
                description=record.description,
                type=record.type,
                url=record.url,
                popularity=record.popularity,
                language=record.language,
                aliases=[asdict(alias) for alias in record.aliases],
                xrefs=list(record.xrefs),
                parents=list(record.parents),
            )
        case Document():
            fields = {MARK: "document", "id": record.id}
            fields |= _said(title=record.title, split=record.split)
            fields |= {"text": record.text, "mentions": list(map(_written, record.mentions))}
        case CodeMapping():
            fields = {
                MARK: "mapping",
                "subject": record.subject,
                "predicate": record.predicate,
                "object": record.object,
                "confidence": record.confidence,
            } | _said(verdict=record.verdict)
    return printable_json(fields) + "\n"


def _written(mention: Mention) -> dict[str, object]:
    fields: dict[str, object] = {
        "start": mention.start,
        "end": mention.end,
        "text": mention.surface,
    }
    if mention.gold is not None:  # an empty list says that no entity is meant
        fields["gold"] = [_said(kb=gold.kb) | {"key": gold.key} for gold in mention.gold]
    return fields | _said(type=mention.type, quality=mention.quality)


def _said(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


#: Objects by which a format is guessed: 64 KiB may hold 20,000 empty ones.
ENOUGH = 500


class JsonSettings(EntityFields, DocumentFields):
    """The fields of entities and of documents: one file may hold both."""


class JsonAdapter:
    """Turns every JSON object of a source into the record that it is."""

    bare_text: Literal["entity", "document"]
    """What a record with a text and neither mentions nor spans is."""

    def __init__(self, settings: JsonSettings) -> None:
        chosen = settings.chosen()
        self._settings = settings
        self._codes: tuple[str, ...] = ()
        self._shapes = Shapes(ENTITY, chosen)
        self._documents = DocumentMaker(settings, chosen)

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The records of ``source``; bad ones go to ``problems``."""
        objects = json_objects(source, problems)
        return self.records(source, head_objects(source.head), objects, problems)

    def records(
        self,
        source: Source,
        first: list[dict[str, Any]],
        objects: Iterable[tuple[int, dict[str, Any]]],
        problems: Problems,
    ) -> Iterator[Record]:
        """The records of the numbered objects of a source; ``first`` are some of them."""
        texts = (one.get("description") for one in map(self._shapes.values, first))
        mended = description_mender(texts, problems)
        entities = [one for one in first if not is_exported(one) and not self._is_document(one)]
        self._choose_key(entities, problems)
        if not self._settings.separator:
            self._tell_unsplit(entities, problems)

        def record(one: tuple[int, dict[str, Any]]) -> Record | None:
            line, fields = one
            if is_exported(fields):
                return exported_record(fields)
            if self._is_document(fields):
                return self._documents.make(fields, source, line, problems)
            codes = [value_text(fields.get(name)) for name in self._codes]
            values = {**self._shapes.values(fields), CODES: codes}
            return mended(made_entity(values, fields, self._settings.separator))

        return good_ones(((source.where(one[0]), one) for one in objects), record, problems)

    def answers(
        self, source: Source, problems: Problems, texts: Mapping[str, str]
    ) -> Iterator[Record]:
        """The documents of a file of answers, which may leave out their ``texts``."""

        def record(one: tuple[int, dict[str, Any]]) -> Record:
            place, fields = source.where(one[0]), one[1]
            if is_exported(fields):
                return exported_record(fields)
            return self._documents.answer(fields, texts, place=place, problems=problems)

        objects = ((source.where(one[0]), one) for one in json_objects(source, problems))
        return good_ones(objects, record, problems)

    def _tell_unsplit(self, entities: list[dict[str, Any]], problems: Problems) -> None:
        """Say which fields of the first entities hold lists as one text, which nothing splits."""
        values = [self._shapes.values(one) for one in entities]
        for field in LISTS:
            texts = [text for one in values if isinstance(text := one.get(field), str)]
            splits, sign, count = separator_of(field, texts)
            held = sum(splits in text for text in texts)
            if held or count:
                tell_unsplit(field, splits if held else sign, held or count, problems)

    def _choose_key(self, entities: list[dict[str, Any]], problems: Problems) -> None:
        """Which of several fields that are named like a key is it in the first entities."""
        chosen = self._settings.chosen()
        names = dict.fromkeys(name for one in entities for name in one)
        columns = {name: [value_text(one.get(name)) for one in entities] for name in names}
        named = {field: path[0] for field, path in find_fields(names, ENTITY, chosen).items()}
        choice = self._settings.key_among(columns, named, by_ending=False)
        self._codes = choice.codes
        if choice.key and "key" not in chosen:
            self._shapes = Shapes({**ENTITY, "key": (choice.key, *ENTITY["key"])}, chosen)
            choice.tell(problems)

    def _is_document(self, fields: dict[str, Any]) -> bool:
        form = self._documents.form(fields)
        return bool(form) and not (form == "bare" and self.bare_text == "entity")


class JsonlAdapter(JsonAdapter):
    """Reads entities: one object per line, or one array of objects; writes KBs to the letter."""

    bare_text = "entity"

    def write(self, records: Iterable[Record], out: TextIO, entities: object) -> None:
        """Write a line for each record; ``entities`` is not needed."""
        out.writelines(map(record_line, records))


class DocumentsAdapter(JsonAdapter):
    """Reads texts with their mentions, in three forms that are told apart record by record."""

    bare_text = "document"


def value_text(value: object) -> str:
    """A text or whole number as text; of anything else the empty text."""
    is_plain = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value).strip() if is_plain else ""


def sniff_jsonl(head: SourceHead) -> float:
    """Sure of objects with an id and a title, doubtful of others, silent on the rest."""
    objects = head_objects(head)
    if not objects:
        return 0.0
    if document_share(objects) > 0.5:
        return 0.3
    found = [find_fields(fields, ENTITY).keys() & {"key", "title"} for fields in objects]
    if 2 * sum(len(names) == 2 for names in found) > len(objects):
        return 0.9
    return 0.2 if 2 * sum(map(bool, found)) > len(objects) else 0.05


def sniff_documents(head: SourceHead) -> float:
    """Sure of texts with spans, fairly sure of texts alone and of answers."""
    objects = head_objects(head)
    if not objects:
        return 0.0
    if document_share(objects) > 0.5:
        return 0.9
    maker = DocumentMaker(DocumentFields(), {})
    answers = sum(map(maker.is_answer, objects))
    # An id and a text, and little that speaks of more.
    plain = {"id", "text", "split", "language", "lang", "meta"}
    bare = sum({"id", "text"} <= fields.keys() <= plain for fields in objects)
    return 0.5 if 2 * max(answers, bare) > len(objects) else 0.0


def document_share(objects: list[dict[str, Any]]) -> float:
    """Which part of ``objects`` are annotated documents."""
    maker = DocumentMaker(DocumentFields(), {})
    return sum(maker.form(fields) not in ("", "bare") for fields in objects) / len(objects)


def head_objects(head: SourceHead) -> list[dict[str, Any]]:
    """The first objects in a source's beginning, up to one that is broken."""
    objects = list(islice(_first_values(head), ENOUGH))
    return objects if all(isinstance(one, dict) for one in objects) else []


def _first_values(head: SourceHead) -> Iterator[Any]:
    """What a source begins with; a single line, or the first of an array, may be cut short."""
    text = head.head.decode("utf-8-sig", errors="ignore")
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    with suppress(SourceError, ValueError, RecursionError):  # who reads the source says what it is
        if lines and not is_array(head.head):
            yield from map(json.loads, lines)
            return
        source = Source.from_bytes(text.encode())
        walk = JsonWalk(source, source.open(), "")
        for number, _ in enumerate(walk.items() if is_array(head.head) else [None]):
            if walk.sign() != "{":
                return
            yield walk.value() if number else walk.begun()
