"""Entities and annotated documents as JSON; the content of a record says which it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TextIO

from kglink.records import Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.annotations import DocumentFields, DocumentMaker
from kglink_kbs.entities import CODES, Descriptions, EntityFields, EntityMaker
from kglink_kbs.exported import exported_record, is_exported, record_line
from kglink_kbs.json_stream import is_array, json_objects
from kglink_kbs.keys import choose_key
from kglink_kbs.spellings import ENTITY, NOT_READ, Shapes, find_fields
from kglink_kbs.values import BadValue

_SPACED = {
    signs: re.compile(rf"\s*[{re.escape(signs)}]\s*") for signs in ("{", "[", ":", ",}", ",]")
}
#: Objects by which a format is guessed: 64 KiB may hold 20,000 empty ones.
_ENOUGH = 500
#: What a record with a text and neither mentions nor spans is.
BareText = Literal["entity", "document"]


class JsonSettings(EntityFields, DocumentFields):
    """The fields of entities and of documents: one file may hold both."""


class JsonAdapter:
    """Turns every JSON object of a source into the record that it is."""

    bare_text: BareText

    def __init__(self, settings: JsonSettings) -> None:
        chosen = settings.chosen()
        self._settings = settings
        self._codes: tuple[str, ...] = ()
        self._shapes = Shapes(ENTITY, chosen)
        self._entities = EntityMaker(settings.separator)
        self._documents = DocumentMaker(settings, chosen)

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """The records of ``source``; bad ones go to ``problems``."""
        first = map(self._shapes.values, head_objects(source.head))
        descriptions = Descriptions((one.get("description") for one in first), problems)
        self._choose_key(head_objects(source.head), problems)
        for line, fields in json_objects(source, problems):
            place = source.where(line)
            try:
                record = self._record(fields, line, place, problems)
                if isinstance(record, Entity) and not is_exported(fields):
                    record = descriptions.mended(record)
            except BadValue as bad:
                problems.report(bad.at(place))
                continue
            if record:
                yield record

    def answers(
        self, source: Source, problems: Problems, texts: Mapping[str, str]
    ) -> Iterator[Record]:
        """The documents of a file of answers, which may leave out their ``texts``."""
        for line, fields in json_objects(source, problems):
            place = source.where(line)
            try:
                if is_exported(fields):
                    yield exported_record(fields)
                else:
                    yield self._documents.answer(fields, texts, place=place, problems=problems)
            except BadValue as bad:
                problems.report(bad.at(place))

    def _choose_key(self, objects: list[dict[str, Any]], problems: Problems) -> None:
        """Which of several fields that are named like a key is it in the first entities."""
        entities = [one for one in objects if not is_exported(one) and not self._is_document(one)]
        chosen, own = self._settings.chosen(), self._settings.chosen_codes()
        names = dict.fromkeys(name for one in entities for name in one)
        fields = find_fields(names, ENTITY, chosen)
        taken = {path[0] for field, path in fields.items() if field not in ("key", "url")}
        columns = {
            name: [value_text(one.get(name)) for one in entities]
            for name in names
            if name not in taken
        }
        titled, key = "title" in fields, chosen.get("key", "")
        choice = choose_key(columns, titled=titled, chosen=key, by_ending=False)
        codes = own or choice.codes
        self._codes = () if NOT_READ in (*codes, chosen.get("aliases")) else codes
        if choice.key and not key:
            self._shapes = Shapes({**ENTITY, "key": (choice.key, *ENTITY["key"])}, chosen)
            choice._replace(codes=self._codes).tell(problems)

    def _is_document(self, fields: dict[str, Any]) -> bool:
        form = self._documents.form(fields)
        return bool(form) and not (form == "bare" and self.bare_text == "entity")

    def _record(
        self, fields: dict[str, Any], line: int, place: str, problems: Problems
    ) -> Record | None:
        if is_exported(fields):
            return exported_record(fields)
        form = self._documents.form(fields)
        if not self._is_document(fields):
            codes = [value_text(fields.get(name)) for name in self._codes]
            return self._entities.make({**self._shapes.values(fields), CODES: codes}, fields)
        return self._documents.make(fields, form, line=line, place=place, problems=problems)


class JsonlAdapter(JsonAdapter):
    """Reads entities: one object per line, or one array of objects; writes KBs to the letter."""

    bare_text = "entity"

    def write(self, records: Iterable[Record], out: TextIO, entities: object) -> None:
        """Write a line for each record; nothing has to be known of their ``entities``."""
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
    if entity_share(objects) > 0.5:
        return 0.9
    return 0.2 if known_share(objects) > 0.5 else 0.05


def sniff_documents(head: SourceHead) -> float:
    """Sure of texts with spans, fairly sure of texts alone."""
    objects = head_objects(head)
    if not objects:
        return 0.0
    if document_share(objects) > 0.5:
        return 0.9
    maker = DocumentMaker(DocumentFields(), {})
    if sum(map(maker.is_answer, objects)) > 0.5 * len(objects):
        return 0.5
    return 0.5 if bare_text_share(objects) > 0.5 else 0.0


def head_objects(head: SourceHead) -> list[dict[str, Any]]:
    """The first objects in a source's beginning, up to one that is broken."""
    try:
        text = head.head.decode("utf-8-sig", errors="ignore")
        objects = _array_objects(text) if is_array(head.head) else _line_objects(text)
        return objects[:_ENOUGH]
    except (ValueError, RecursionError):
        return []


def _line_objects(text: str) -> list[dict[str, Any]]:
    *lines, last = text.split("\n")
    values = []
    for line in filter(str.strip, lines):
        try:
            values.append(json.loads(line))
        except ValueError:
            if not values:
                raise
            break  # who reads the source says which line is broken
    if not values:  # one line so far: whole, or longer than the beginning
        return [_begun_object(last)]
    return _objects_only(values)


def _begun_object(text: str) -> dict[str, Any]:
    """The fields of an object that may not be whole; the last may have lost its value."""
    decoder = json.JSONDecoder()
    fields: dict[str, Any] = {}
    place = _past(text, 0, "{")
    while text[place : place + 1] == '"':
        try:
            name, place = decoder.raw_decode(text, place)
            fields[name] = None
            fields[name], place = decoder.raw_decode(text, _past(text, place, ":"))
            place = _past(text, place, ",}")
        except json.JSONDecodeError:
            break
    return fields


def _past(text: str, place: int, signs: str) -> int:
    """The place behind one of ``signs`` and the white space on both sides of it."""
    found = _SPACED[signs].match(text, place)
    if not found:
        raise ValueError(f"none of {signs} at {place}")
    return found.end()


def _array_objects(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    values: list[object] = []
    place = _past(text, 0, "[")
    while text[place : place + 1] == "{":
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError:
            if not values:
                return [_begun_object(text[place:])]
            break
        values.append(value)
        place = _past(text, place, ",]")
    return _objects_only(values)


def _objects_only(values: list[object]) -> list[dict[str, Any]]:
    objects = [value for value in values if isinstance(value, dict)]
    return objects if len(objects) == len(values) else []


def document_share(objects: list[dict[str, Any]]) -> float:
    """Which part of ``objects`` are annotated documents."""
    maker = DocumentMaker(DocumentFields(), {})
    documents = sum(maker.form(fields) not in ("", "bare") for fields in objects)
    return documents / len(objects)


def entity_share(objects: list[dict[str, Any]]) -> float:
    """Which part of ``objects`` have an id and a title by names that are known."""
    named = sum(find_fields(fields, ENTITY).keys() >= {"key", "title"} for fields in objects)
    return named / len(objects)


def bare_text_share(objects: list[dict[str, Any]]) -> float:
    """Which part of ``objects`` have an id and a text, and little that speaks of more."""
    bare = sum(
        {"id", "text"} <= fields.keys() <= {"id", "text", "split", "language", "lang", "meta"}
        for fields in objects
    )
    return bare / len(objects)


def known_share(objects: list[dict[str, Any]]) -> float:
    """Which part of ``objects`` have an id or a title by names that are known."""
    known = sum(bool({"key", "title"} & find_fields(fields, ENTITY).keys()) for fields in objects)
    return known / len(objects)
