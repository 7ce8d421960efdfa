"""What a dump's own ``<siteinfo>`` says of its wiki."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.parsers import expat

from kglink.errors import SourceError
from kglink_kbs.mediawiki.expat_errors import refuse_declarations, what_expat_says

#: Which siteinfo is one of a fan wiki.
_FANDOM = re.compile(r"(?:\.|//)(?:fandom\.com|wikia\.(?:com|org))(?:[/:]|$)", re.IGNORECASE)
_URL_SAFE = "/:;@$!*(),~"


class Namespace(NamedTuple):
    """A namespace: its key, its name in this wiki, and whether its titles keep a small initial."""

    key: int
    name: str
    case_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """One wiki."""

    name: str = ""
    dbname: str = ""
    base: str = ""
    generator: str = ""
    case: str = "first-letter"
    language: str = ""
    namespaces: tuple[Namespace, ...] = ()

    @property
    def is_fandom(self) -> bool:
        """Whether this is a wiki of Fandom (once Wikia)."""
        return bool(_FANDOM.search(self.base)) or "wikia" in self.dbname.lower()

    @property
    def url_prefix(self) -> str:
        """What stands before the title in the address of a page."""
        for mark in ("?title=", "&title=", "/wiki/", "/index.php/"):
            before, found, _ = self.base.partition(mark)
            if found:
                return before + found
        before, slash, _ = self.base.rpartition("/")
        return before + slash if not before.endswith(":/") else self.base + "/"

    def url(self, title: str) -> str:
        """The address of a page; empty where the dump does not say where its wiki is."""
        if not self.base:
            return ""
        return self.url_prefix + quote(title.replace(" ", "_"), safe=_URL_SAFE)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self) | {"namespaces": [list(space) for space in self.namespaces]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Site:
        """The site that `as_json` gave."""
        spaces = tuple(Namespace(*space) for space in values["namespaces"])
        return cls(**values | {"namespaces": spaces})


def read_site(header: bytes, label: str) -> Site:
    """The site of a dump from its beginning, up to the first page."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    refuse_declarations(parser, label)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(header, False)
    except expat.ExpatError as error:
        raise SourceError(
            f"{label} is no well-formed XML: {what_expat_says(error)} "
            f"(line {error.lineno:,}, byte {parser.ErrorByteIndex:,} of the unpacked file)",
            hint="Export or download it again.",
        ) from error
    except (ValueError, LookupError) as error:  # an encoding that expat does not know
        raise SourceError(f"{label} cannot be read as XML: {error}") from error
    return reader.site(label)


class _Reader:
    """Collects what expat reports of a ``<siteinfo>``."""

    def __init__(self) -> None:
        self._root = ""
        self._language = ""
        self._facts: dict[str, str] = {}
        self._namespaces: list[tuple[str, str, str]] = []
        self._attributes: dict[str, str] = {}
        self._text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = name.rpartition(" ")[2]
        if not self._root:
            self._root = name
            language = attributes.get("http://www.w3.org/XML/1998/namespace lang", "")
            self._language = language
        self._attributes = attributes
        self._text.clear()

    def text(self, data: str) -> None:
        """Text inside an element."""
        self._text.append(data)

    def end(self, name: str) -> None:
        """An element ends."""
        name, text = name.rpartition(" ")[2], "".join(self._text).strip()
        if name == "namespace":
            get = self._attributes.get
            self._namespaces.append((get("key", ""), text, get("case", "")))
        else:
            self._facts.setdefault(name, text)
        self._text.clear()

    def site(self, label: str) -> Site:
        """What was collected."""
        if self._root != "mediawiki":
            raise SourceError(
                f"{label} is no MediaWiki export: its root element is <{self._root[:60]}>",
                hint="An export begins with <mediawiki ...>; kglink plugins lists other formats.",
            )
        get = self._facts.get
        case = get("case", "") or "first-letter"
        spaces = tuple(
            Namespace(int(key), name, (own or case) == "case-sensitive")
            for key, name, own in self._namespaces
            if re.fullmatch(r"-?[0-9]{1,6}", key)
        )
        return Site(
            name=get("sitename", ""),
            dbname=get("dbname", ""),
            base=get("base", ""),
            generator=get("generator", ""),
            case=case,
            language=self._language,
            namespaces=spaces,
        )
