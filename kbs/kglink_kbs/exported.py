"""The records that `kglink export` writes and that are read to the letter: nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TypeVar, cast, get_args

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
from kglink.text.printable import printable_json
from kglink_kbs.values import BadValue, described, exact_text, finite_number, whole_number

#: The field that says that a record was exported, and of which kind it is.
MARK = "kglink"

T = TypeVar("T")
Fields = Mapping[str, object]


def is_exported(fields: Fields) -> bool:
    """Whether a record was written by `kglink export`."""
    mark = fields.get(MARK)
    return isinstance(mark, str) and mark in _MAKERS


def exported_record(fields: Fields) -> Record:
    """The record of an exported line; what it does not say has the value that says nothing."""
    return _MAKERS[str(fields[MARK])](fields)


def _entity(fields: Fields) -> Entity:
    key, title = _text(fields, "id"), _text(fields, "title")
    if not key or not title.strip():
        raise BadValue("an exported entity without id or title", _HINT)
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
    fields = _object(value, "an alias")
    surface = _text(fields, "surface")
    if not surface.strip():
        raise BadValue("an exported alias without a surface", _HINT)
    kind = cast("AliasKind", _one_of(fields, "kind", get_args(AliasKind), "alias"))
    return Alias(surface, kind, whole_number(fields.get("count", 1), "count"))


def _document(fields: Fields) -> Document:
    key, text = _text(fields, "id"), _text(fields, "text")
    if not key:
        raise BadValue("an exported document without id", _HINT)
    split = cast("Split", _one_of(fields, "split", get_args(Split), ""))
    mentions = _list(fields, "mentions", lambda value: _mention(value, text))
    return Document(key, text, mentions, _text(fields, "title"), split)


def _mention(value: object, text: str) -> Mention:
    fields = _object(value, "a mention")
    start, end = (whole_number(fields.get(name), name) for name in ("start", "end"))
    if not start < end <= len(text) or text[start:end] != fields.get("text"):
        raise BadValue(f"the surface of a mention does not stand at {start}..{end}", _HINT)
    gold = None if fields.get("gold") is None else _list(fields, "gold", _gold)
    unique = None if gold is None else tuple(dict.fromkeys(gold))
    quality = _text(fields, "quality")
    return Mention(start, end, text[start:end], unique, _text(fields, "type"), quality)


def _gold(value: object) -> EntityId:
    fields = _object(value, "a gold")
    kb, key = _text(fields, "kb"), _text(fields, "key")
    if not key or ":" in kb:
        raise BadValue("an exported gold without a key", _HINT)
    return EntityId(kb, key)


def _mapping(fields: Fields) -> CodeMapping:
    verdict = _one_of(fields, "verdict", ("", *get_args(Verdict)), "")
    confidence = finite_number(fields.get("confidence"), "confidence")
    sides = (_text(fields, "subject"), _text(fields, "object"))
    if not all(sides):
        raise BadValue("an exported mapping without subject or object", _HINT)
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
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise BadValue(f"{name} is {described(value)}, not a list", _HINT)
    return tuple(make(item) for item in value)


def _object(value: object, what: str) -> Fields:
    if not isinstance(value, dict):
        raise BadValue(f"{what} is {described(value)}, not an object", _HINT)
    return value


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
