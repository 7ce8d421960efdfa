"""Wikidata's JSON dumps: one entity a line, inside an array or bare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from pydantic import Field, field_validator

from kglink.errors import RecordError, SourceError
from kglink.plugins import PluginSettings
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead, check_text
from kglink_kbs.values import BadValue, listed, one_line, plain_text, shortened

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

    languages: str = Field(
        "en,mul",
        description="Languages of labels, aliases and descriptions, the best first, separated by "
        "commas; `mul` holds the names that are the same in all languages.",
    )
    types: str = Field(
        "",
        description="Only instances (P31) of one of these, such as `Q5,Q515`; of subclasses only "
        "those that are named. Empty: all items.",
    )
    min_sitelinks: int = Field(
        0, ge=0, description="Only items with at least this number of pages in Wikimedia's wikis."
    )
    xrefs: str = Field(
        _XREFS, description="Properties whose values are xrefs, each with the prefix that they get."
    )

    @field_validator("languages")
    @classmethod
    def _language_codes(cls, value: str) -> str:
        return _checked(value.lower(), _LANGUAGE, "a language code such as en") or _refuse_none()

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
    return ",".join(listed(value))


def _refuse_none() -> str:
    raise ValueError("names no language")


class WikidataAdapter:
    """Reads one entity from each item with a label in the languages that are asked for."""

    def __init__(self, settings: WikidataSettings) -> None:
        self._items = Items(listed(settings.languages), settings.prefixes())
        self._maker = ItemMaker(settings)
        self._filter = LineFilter(settings)

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities of ``source`` in their order."""
        check_text(source.label, source.head.head, source.file)
        lines = DumpLines(source, problems)
        found = False
        for number, text in lines:
            if self._filter.leaves_out(text):
                continue
            try:
                entity = self._maker.make(self._items.decode(text))
            except BadValue as bad:
                problems.report(bad.at(source.where(number)))
            else:
                if entity:
                    found = True
                    yield entity
        if not found and not problems.total:
            raise SourceError(
                f"none of the {lines.count:,} lines of {source.label} holds an item that is wanted",
                hint="Wanted are items with a label in one of the `languages`, of one of the "
                "`types`, with `min_sitelinks`.",
            )


class DumpLines:
    """The objects of a dump as bytes, each with the number of its line; counts them."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self._source = source
        self._problems = problems
        self.count = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        is_open = False
        number = 0
        for number, _, line in self._source.byte_lines(self._problems):
            text = line.strip()
            if not self.count and text.startswith(b"["):
                is_open, text = True, text[1:].lstrip()
            if is_open and text.endswith(b"]"):
                is_open, text = False, text[:-1].rstrip()
            text = text.removesuffix(b",").removeprefix(b",").strip()  # some begin with the comma
            if text:
                self.count += 1
                yield number, text
        if is_open:
            reason = "the array does not end: the file may be cut off"
            where = self._source.where(number)
            self._problems.report(RecordError(reason, where=where, hint="Fetch it again."))


class LineFilter:
    """Says of most unwanted lines, by a look at their bytes, that they need no parsing.

    A line that is let through may be unwanted all the same: `ItemMaker` looks at it again.
    """

    def __init__(self, settings: WikidataSettings) -> None:
        self._types = [f'"{name}"'.encode() for name in listed(settings.types)]
        self._languages = [f'"{name}"'.encode() for name in listed(settings.languages)]
        self._min_sitelinks = settings.min_sitelinks

    def leaves_out(self, line: bytes) -> bool:
        """Whether ``line`` is an object that holds no item that is wanted."""
        if line[:1] != b"{" or line[-1:] != b"}":
            return False  # broken: the parser says how
        if line.startswith((b'{"type":"property"', b'{"type":"lexeme"')):
            return True
        if self._types and not any(name in line for name in self._types):
            return True
        if not any(name in line for name in self._languages):
            return True
        return self._min_sitelinks > 0 and line.count(b'"site"') < self._min_sitelinks


class ItemMaker:
    """Makes entities of items."""

    def __init__(self, settings: WikidataSettings) -> None:
        self._languages = listed(settings.languages)
        self._types = frozenset(listed(settings.types))
        self._min_sitelinks = settings.min_sitelinks

    def make(self, item: Item) -> Entity | None:
        """The entity, or None of what is no item or not one that is asked for."""
        if item.kind not in ("item", ""):
            return None
        if not _ITEM.fullmatch(item.key):
            if not item.kind and _PROPERTY.fullmatch(item.key):
                return None
            raise BadValue(f"an item whose id is {shortened(item.key)}", "Ids look like Q42.")
        if item.sitelinks < self._min_sitelinks:
            return None
        if self._types and not self._types.intersection(item.types):
            return None
        lines = (one_line(text, "a label") for text in item.labels)
        labels = [(text, n) for n, text in enumerate(lines) if text]
        if not labels:
            return None
        title, place = labels[0]
        others = (one_line(text, "an alias") for texts in item.aliases for text in texts)
        surfaces = dict.fromkeys([*(label for label, _ in labels[1:]), *others])
        descriptions = (plain_text(text, "a description") for text in item.descriptions)
        return Entity(
            key=item.key,
            title=title,
            description=next(filter(None, descriptions), ""),
            type=next(iter(item.best_types), ""),
            url=f"https://www.wikidata.org/wiki/{item.key}",
            popularity=float(item.sitelinks),
            language=self._languages[place],
            aliases=tuple(Alias(text) for text in surfaces if text and text != title),
            xrefs=tuple(dict.fromkeys(one_line(xref, "an xref") for xref in item.xrefs)),
            parents=tuple(filter(_ITEM.fullmatch, dict.fromkeys([*item.classes, *item.types]))),
        )


def sniff(head: SourceHead) -> float:
    """Sure of an array or lines of objects that begin as those of Wikidata do."""
    data = head.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = _FIRST.match(data)
    if not first:
        return 0.0
    return 0.95 if _MORE.search(data, 0, 2**12) else 0.0
