"""Wikidata's JSON dumps: one entity a line, inside an array or bare."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import Field, field_validator

from kglink.errors import SourceError
from kglink.plugins import PluginSettings
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead
from kglink_kbs.values import BadValue, good_ones, listed, one_line, plain_text, shortened

_INSTANCE_OF, _SUBCLASS_OF = "P31", "P279"
_ONE_A_LINE = (
    "An entity stands on each line. jq -c '.[]' FILE makes such lines of an array, "
    "jq -c '.entities[]' FILE of an answer of Wikidata's."
)
_LONE_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|"
    rb"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)


class _Text(msgspec.Struct):
    value: str


class _DataValue(msgspec.Struct):
    value: Any


class _Snak(msgspec.Struct):
    datavalue: _DataValue | None = None


class _Statement(msgspec.Struct):
    mainsnak: _Snak
    rank: str = "normal"


def _record(name: str, kind: Any, names: Sequence[str]) -> Any:
    """A type with an optional field of each name; the names need not be those of variables."""
    fields = [(f"field{number}", kind, None) for number in range(len(names))]
    rename = {f"field{number}": text for number, text in enumerate(names)}
    return msgspec.defstruct(name, fields, rename=rename)


def _values(record: Any, names: Sequence[str]) -> list[Any]:
    if record is None or isinstance(record, list):
        return [None] * len(names)
    return [getattr(record, f"field{number}") for number in range(len(names))]


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


_ITEM = re.compile(r"Q[1-9][0-9]*")
_PROPERTY = re.compile(r"P[1-9][0-9]*")
_LANGUAGE = re.compile(r"[a-z]{2,}(?:-[a-z0-9]+)*")
#: The properties that name an entity of the KBs most often linked to.
_XREFS = "P699:DOID,P486:MESH,P2892:UMLS,P492:OMIM,P1748:NCIT,P5806:SNOMEDCT,P494:ICD10"
_FIRST = re.compile(
    rb'(?:\[\s*)?\{\s*(?:"type"\s*:\s*"(?:item|property)"\s*,\s*)?"id"\s*:\s*"[QP]\d+"'
)
_MORE = re.compile(rb'"(?:labels|descriptions|claims|datatype)"\s*:\s*["{\[]')


class WikidataSettings(PluginSettings):
    """Settings of ``kglink/wikidata``."""

    languages: str = "en,mul"
    """Languages of labels, aliases and descriptions, the best first, separated by commas; `mul`
    holds the names that are the same in all languages."""
    types: str = ""
    """Only instances (P31) of one of these classes, such as `Q5,Q515`, without their subclasses.
    Empty: all items."""
    min_sitelinks: int = Field(0, ge=0)
    """Only items with at least this number of pages in Wikimedia's wikis."""
    xrefs: str = _XREFS
    """Properties whose values are xrefs, each with the prefix that they get."""

    @field_validator("languages")
    @classmethod
    def _language_codes(cls, value: str) -> str:
        codes = _checked(value.lower(), _LANGUAGE, "a language code such as en")
        if not codes:
            raise ValueError("names no language")
        return codes

    @field_validator("types")
    @classmethod
    def _item_ids(cls, value: str) -> str:
        return _checked(value, _ITEM, "the id of a class such as Q5")

    @field_validator("xrefs")
    @classmethod
    def _properties(cls, value: str) -> str:
        for pair in listed(value):
            number, colon, prefix = pair.partition(":")
            if not (_PROPERTY.fullmatch(number) and colon and prefix):
                raise ValueError(f"{pair!r} is no pair such as P486:MESH")
        return value

    def prefixes(self) -> dict[str, str]:
        """The prefix of each property that holds xrefs."""
        pairs = (pair.partition(":") for pair in listed(self.xrefs))
        return {number: prefix for number, _, prefix in pairs}


def _checked(value: str, pattern: re.Pattern[str], what: str) -> str:
    for part in listed(value):
        if not pattern.fullmatch(part):
            raise ValueError(f"{part!r} is not {what}")
    return ",".join(dict.fromkeys(listed(value)))


class WikidataAdapter:
    """Reads one entity from each item with a label in the languages that are asked for."""

    def __init__(self, settings: WikidataSettings) -> None:
        self._settings = settings
        self._languages = listed(settings.languages)
        self._types = frozenset(listed(settings.types))
        self._prefixes = settings.prefixes()
        self._properties = list(dict.fromkeys([_INSTANCE_OF, _SUBCLASS_OF, *self._prefixes]))
        # What is empty is written as an empty list, not as an empty object.
        texts = _record("Texts", _Text | None, self._languages) | list[Any] | None
        many = _record("Lists", list[_Text] | None, self._languages) | list[Any] | None
        claims = _record("Claims", list[_Statement] | None, self._properties) | list[Any] | None
        line = msgspec.defstruct(
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
        self._decoder = msgspec.json.Decoder(line)

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        leaves_out = line_filter(self._settings)
        count = 0

        def wanted() -> Iterator[tuple[str, bytes]]:
            nonlocal count
            for number, text in _dump_lines(source, problems):
                count += 1
                if not leaves_out(text):
                    yield source.where(number), text

        def nothing() -> SourceError:
            return SourceError(
                f"none of the {count:,} lines of {source.label} holds an item that is wanted",
                hint="Wanted are items with a label in one of the `languages`, of one of the "
                "`types`, with `min_sitelinks`.",
            )

        return good_ones(wanted(), self._entity, problems, nothing=nothing)

    def _decoded(self, line: bytes) -> Any:
        """What is read of a line; `BadValue` says what is wrong with it."""
        try:
            return self._decoder.decode(line)
        except msgspec.ValidationError as error:
            raise BadValue(f"not an entity of Wikidata: {_plain(error)}", _ONE_A_LINE) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _LONE_HALF.search(line):  # msgspec says of one that the line is cut short
                raise BadValue("not valid JSON: half of a surrogate pair") from error
            raise BadValue(f"not valid JSON: {_plain(error)}", _ONE_A_LINE) from error
        except RecursionError as error:
            raise BadValue("not usable JSON: it is nested too deeply") from error

    def _entity(self, line: bytes) -> Entity | None:
        """The entity, or None of what is no item or not one that is asked for."""
        item = self._decoded(line)
        if item.type not in ("item", ""):
            return None
        if not _ITEM.fullmatch(item.id):
            if not item.type and _PROPERTY.fullmatch(item.id):
                return None
            raise BadValue(f"an item whose id is {shortened(item.id)}", "Ids look like Q42.")
        claims = dict(zip(self._properties, _values(item.claims, self._properties), strict=True))
        kinds, sitelinks = claims[_INSTANCE_OF] or [], len(item.sitelinks or ())
        types = list(_item_ids(kinds))
        if sitelinks < self._settings.min_sitelinks:
            return None
        if self._types and self._types.isdisjoint(types):
            return None
        texts = _values(item.labels, self._languages)
        lines = (one_line(text.value, "a label") if text else "" for text in texts)
        labels = [(text, n) for n, text in enumerate(lines) if text]
        if not labels:
            return None
        title, place = labels[0]
        also = (text for texts in _values(item.aliases, self._languages) for text in texts or ())
        others = (one_line(text.value, "an alias") for text in also)
        surfaces = dict.fromkeys([*(label for label, _ in labels[1:]), *others])
        described = filter(None, _values(item.descriptions, self._languages))
        descriptions = (plain_text(text.value, "a description") for text in described)
        classes = _item_ids(claims[_SUBCLASS_OF] or ())
        preferred = [statement for statement in kinds if statement.rank == "preferred"]
        return Entity(
            key=item.id,
            title=title,
            description=next(filter(None, descriptions), ""),
            type=next(_item_ids(preferred or kinds), ""),
            url=f"https://www.wikidata.org/wiki/{item.id}",
            popularity=float(sitelinks),
            language=self._languages[place],
            aliases=tuple(Alias(text) for text in surfaces if text and text != title),
            xrefs=tuple(dict.fromkeys(self._xrefs(claims))),
            parents=tuple(filter(_ITEM.fullmatch, dict.fromkeys([*classes, *types]))),
        )

    def _xrefs(self, claims: Mapping[str, list[_Statement] | None]) -> Iterator[str]:
        for name, prefix in self._prefixes.items():
            for statement in claims[name] or ():
                value = statement.mainsnak.datavalue and statement.mainsnak.datavalue.value
                if isinstance(value, str) and statement.rank != "deprecated":
                    # Some properties hold the code, others the code with its prefix.
                    yield one_line(f"{prefix}:{value.removeprefix(prefix + ':')}", "an xref")


def _dump_lines(source: Source, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """The objects of a dump as bytes, each with the number of its line."""
    begun = is_open = False
    number = 0
    for number, _, line in source.byte_lines(problems):
        text = line.strip()
        if not begun and text.startswith(b"["):
            is_open, text = True, text[1:].lstrip()
        if is_open and text.endswith(b"]"):
            is_open, text = False, text[:-1].rstrip()
        text = text.removesuffix(b",").removeprefix(b",").strip()  # some begin with the comma
        if text:
            begun = True
            yield number, text
    if is_open:
        reason = "the array does not end: the file may be cut off"
        problems.refuse(reason, source.where(number), "Fetch it again.")


def line_filter(settings: WikidataSettings) -> Callable[[bytes], bool]:
    """Says of most unwanted lines, by a look at their bytes, that they need no parsing.

    A line that is let through may be unwanted all the same: the adapter looks at it again.
    """
    types = [f'"{name}"'.encode() for name in listed(settings.types)]
    languages = [f'"{name}"'.encode() for name in listed(settings.languages)]
    least = settings.min_sitelinks

    def leaves_out(line: bytes) -> bool:
        if line[:1] != b"{" or line[-1:] != b"}":
            return False  # broken: the parser says how
        return (
            line.startswith((b'{"type":"property"', b'{"type":"lexeme"'))
            or bool(types and not any(name in line for name in types))
            or not any(name in line for name in languages)
            or (least > 0 and line.count(b'"site"') < least)
        )

    return leaves_out


def sniff(head: SourceHead) -> float:
    """Sure of an array or lines of objects that begin as those of Wikidata do."""
    data = head.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = _FIRST.match(data)
    if not first:
        return 0.0
    return 0.95 if _MORE.search(data, 0, 2**12) else 0.0
