"""Decodes from a line of a Wikidata dump only what is read of it.

A line holds labels in hundreds of languages and claims by the thousand. msgspec passes over what
its target type does not name, so the type is made of the languages and properties asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kglink_kbs.values import BadValue

_INSTANCE_OF, _SUBCLASS_OF = "P31", "P279"
_ONE_A_LINE = (
    "An entity stands on each line. jq -c '.[]' FILE makes such lines of an array, "
    "jq -c '.entities[]' FILE of an answer of Wikidata's."
)
_LONE_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|"
    rb"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


class Item(NamedTuple):
    """What is read of a line; labels, descriptions and aliases by language, in their order."""

    key: str
    kind: str
    labels: list[str]
    descriptions: list[str]
    aliases: list[list[str]]
    best_types: list[str]
    types: list[str]
    classes: list[str]
    xrefs: list[str]
    sitelinks: int


class _Text(msgspec.Struct):
    value: str


class _DataValue(msgspec.Struct):
    value: Any


class _Snak(msgspec.Struct):
    datavalue: _DataValue | None = None


class _Statement(msgspec.Struct):
    mainsnak: _Snak
    rank: str = "normal"


class Items:
    """Decodes the lines of a dump."""

    def __init__(self, languages: Iterable[str], prefixes: Mapping[str, str]) -> None:
        languages = list(languages)
        properties = dict.fromkeys([_INSTANCE_OF, _SUBCLASS_OF, *prefixes])
        self._prefixes = prefixes
        # What is empty is written as an empty list, not as an empty object.
        texts = _record("Texts", _Text | None, languages) | list[Any] | None
        many = _record("Lists", list[_Text] | None, languages) | list[Any] | None
        claims = _record("Claims", list[_Statement] | None, properties) | list[Any] | None
        item = msgspec.defstruct(
            "Line",
            [
                ("id", str),
                ("type", str, ""),
                ("labels", texts, None),
                ("descriptions", texts, None),
                ("aliases", many, None),
                ("claims", claims, None),
                ("sitelinks", dict[str, msgspec.Raw] | list[Any] | None, None),
            ],
        )
        self._decoder = msgspec.json.Decoder(item)
        self._languages = languages
        self._properties = list(properties)

    def decode(self, line: bytes) -> Item:
        """The item of a line; `BadValue` says what is wrong with it."""
        try:
            raw: Any = self._decoder.decode(line)
        except msgspec.ValidationError as error:
            raise BadValue(f"not an entity of Wikidata: {_plain(error)}", _ONE_A_LINE) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _LONE_HALF.search(line):  # msgspec says of one that the line is cut short
                raise BadValue("not valid JSON: half of a surrogate pair") from error
            raise BadValue(f"not valid JSON: {_plain(error)}", _ONE_A_LINE) from error
        except RecursionError as error:
            raise BadValue("not usable JSON: it is nested too deeply") from error
        claims = _values(raw.claims, len(self._properties))
        found = dict(zip(self._properties, claims, strict=True))
        kinds = found[_INSTANCE_OF]
        return Item(
            key=raw.id,
            kind=raw.type,
            labels=[text.value if text else "" for text in self._by_language(raw.labels)],
            descriptions=[
                text.value if text else "" for text in self._by_language(raw.descriptions)
            ],
            aliases=[
                [text.value for text in texts or ()] for texts in self._by_language(raw.aliases)
            ],
            best_types=list(_item_ids(_best(kinds or ()))),
            types=list(_item_ids(kinds or ())),
            classes=list(_item_ids(found[_SUBCLASS_OF] or ())),
            xrefs=list(self._xrefs(found)),
            sitelinks=len(raw.sitelinks or ()),
        )

    def _by_language(self, record: Any) -> list[Any]:
        return _values(record, len(self._languages))

    def _xrefs(self, claims: Mapping[str, list[_Statement] | None]) -> Iterator[str]:
        for name, prefix in self._prefixes.items():
            for statement in claims[name] or ():
                value = statement.mainsnak.datavalue and statement.mainsnak.datavalue.value
                if isinstance(value, str) and statement.rank != "deprecated":
                    # Some properties hold the code, others the code with its prefix.
                    yield f"{prefix}:{value.removeprefix(prefix + ':')}"


def _record(name: str, kind: Any, names: Iterable[str]) -> Any:
    """A type with an optional field of each name; the names need not be those of variables."""
    listed = list(names)
    fields = [(f"field{number}", kind, None) for number in range(len(listed))]
    rename = {f"field{number}": text for number, text in enumerate(listed)}
    return msgspec.defstruct(name, fields, rename=rename)


def _values(record: Any, count: int) -> list[Any]:
    if record is None or isinstance(record, list):
        return [None] * count
    return [getattr(record, f"field{number}") for number in range(count)]


def _best(statements: Iterable[_Statement]) -> list[_Statement]:
    """The preferred statements, else all that are not deprecated."""
    known = [statement for statement in statements if statement.rank != "deprecated"]
    return [statement for statement in known if statement.rank == "preferred"] or known


def _item_ids(statements: Iterable[_Statement]) -> Iterator[str]:
    for statement in statements:
        if statement.rank == "deprecated" or not statement.mainsnak.datavalue:
            continue
        match statement.mainsnak.datavalue.value:
            case {"id": str(key)}:
                yield key
            case _:
                pass


def _plain(error: Exception) -> str:
    return str(error)[:200].encode("utf-8", errors="backslashreplace").decode()
