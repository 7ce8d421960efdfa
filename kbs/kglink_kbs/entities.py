"""Makes an `Entity` of the values that a file holds for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import get_args

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import Alias, AliasKind, Entity
from kglink.sources import Problems
from kglink_kbs.keys import KeyChoice, choose_key, ends_like, is_code_name
from kglink_kbs.spellings import ALIAS, ENTITY, NOT_READ, Shapes, folded_names
from kglink_kbs.texts.html import html_text
from kglink_kbs.texts.plain import TextSettings
from kglink_kbs.values import (
    MAX_COUNT,
    BadValue,
    described,
    finite_number,
    key_text,
    listed,
    one_line,
    plain_text,
    text_list,
    type_text,
    whole_number,
)

_GUESSED = "guessed from its name if empty, `-` for none"
#: A key that people write in texts: of a catalogue, "KM-200" or "AJ3000". No word, no plain number,
#: and not the code of an ontology or of Wikidata ("D012345", "Q42", "NCIT123456").
_MODEL_NUMBER = re.compile(
    r"(?=.{4,20}$)(?=.*[0-9])(?!.*[0-9]{6})(?=.*[A-Z].*[A-Z]|.*[A-Z].*[-./]|.*[-./].*[A-Z])"
    r"[A-Z0-9]+(?:[-./][A-Z0-9]+)*$"
)
#: What `made_entity` is given beside the fields: a list of codes that may be names.
CODES = "codes"
_KINDS: Mapping[str, AliasKind] = {kind: kind for kind in get_args(AliasKind)}
_ALIAS_SHAPES = Shapes(ALIAS)


class EntityFields(PluginSettings):
    """Which field of a record is which; all are guessed from their names unless set."""

    key: str = Field("", description=f"Field with the id; {_GUESSED}.")
    title: str = Field("", description=f"Field with the title; {_GUESSED}.")
    description: str = Field("", description=f"Field with the description; {_GUESSED}.")
    aliases: str = Field("", description=f"Field with the aliases; {_GUESSED}.")
    type: str = Field("", description=f"Field with the type or types; {_GUESSED}.")
    url: str = Field("", description=f"Field with the address of the entity's page; {_GUESSED}.")
    popularity: str = Field("", description=f"Field with the popularity, a number; {_GUESSED}.")
    language: str = Field("", description=f"Field with the language; {_GUESSED}.")
    xrefs: str = Field("", description=f"Field with ids in other KBs; {_GUESSED}.")
    parents: str = Field(
        "", description=f"Field with the ids of broader entities in the same KB; {_GUESSED}."
    )
    codes: str = ""
    """Fields with other codes that people write, such as `EAN,MPN`: names as well; guessed if
    empty, `-` for none."""
    separator: str = ""
    """Splits aliases, xrefs and parents given as one text; empty: no split."""

    def chosen(self) -> dict[str, str]:
        """The fields that are set."""
        return {field: name for field in ENTITY if (name := getattr(self, field))}

    def key_among(
        self, columns: Mapping[str, Sequence[str]], named: Mapping[str, str], by_ending: bool
    ) -> KeyChoice:
        """The key among columns with their first cells, and the codes that are names.

        It is none of the fields that are ``named`` already; the address of a page may be both.
        """
        taken = {name for field, name in named.items() if field not in ("key", "url")}
        free = {name: cells for name, cells in columns.items() if name not in taken}
        endings = folded_names(ENTITY["title"])
        titled = "title" in named or (by_ending and any(ends_like(name, endings) for name in free))
        choice = choose_key(free, titled=titled, chosen=self.key, by_ending=by_ending)
        asked = listed(self.codes)
        own = [choice.key] if choice.key in choice.codes else []  # those asked for are others
        codes = tuple(dict.fromkeys([*own, *asked])) if asked else choice.codes
        return choice._replace(codes=() if NOT_READ in (*codes, self.aliases) else codes)


def made_entity(values: Mapping[str, object], names: Iterable[str], separator: str) -> Entity:
    """The entity of values by field; ``names`` are what its record calls its fields.

    ``separator`` splits a list that is given as one text.
    """
    get = values.get
    key = key_text(get("key"), "key")
    title = one_line(get("title"), "title")
    if not key:
        raise BadValue("no id" if get("key") is None else "an empty id", _fix("key", names))
    if not title:
        missing = "no title" if get("title") is None else "an empty title"
        raise BadValue(missing, _fix("title", names))
    # The aliases, and codes that people write: other codes, and the key if it is one.
    aliases = tuple(one for one in _aliases(get("aliases"), separator) if one != Alias(title))
    codes = get(CODES)
    written = [key] if _MODEL_NUMBER.match(key) else []
    if isinstance(codes, list):
        texts = (one_line(code, "a code") for code in codes)
        written += (code for code in texts if is_code_name(code))
    known = {title, *(alias.surface for alias in aliases)}
    return Entity(
        key=key,
        title=title,
        description=plain_text(get("description"), "description"),
        type=type_text(get("type"), "type"),
        url=one_line(get("url"), "url"),
        popularity=finite_number(get("popularity"), "popularity"),
        language=one_line(get("language"), "language"),
        aliases=(
            (*aliases, *(Alias(code) for code in dict.fromkeys(written) if code not in known))
        ),
        xrefs=tuple(dict.fromkeys(text_list(get("xrefs"), separator, "xrefs"))),
        parents=tuple(dict.fromkeys(text_list(get("parents"), separator, "parents"))),
    )


def _aliases(value: object, separator: str) -> tuple[Alias, ...]:
    if not value:
        return ()
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        # Every surface and kind once, counts added up, blank surfaces left out.
        counts: dict[tuple[str, AliasKind], int] = {}
        for alias in filter(attrgetter("surface"), map(_alias, value)):
            place = (alias.surface, alias.kind)
            counts[place] = min(counts.get(place, 0) + alias.count, MAX_COUNT)
        return tuple(Alias(surface, kind, count) for (surface, kind), count in counts.items())
    surfaces = text_list(value, separator, "aliases")
    return tuple(Alias(surface) for surface in dict.fromkeys(surfaces))


def _alias(item: object) -> Alias:
    if not isinstance(item, dict):
        return Alias(one_line(item, "aliases"))
    values = _ALIAS_SHAPES.values(item)
    if "surface" not in values:
        raise BadValue(
            f"an alias without a surface: {described(item)} with {_listed(item)}",
            'Write aliases as texts, or as {"surface": ..., "kind": ..., "count": ...}.',
        )
    count, kind = values.get("count"), values.get("kind")
    kind = kind.strip().lower() if isinstance(kind, str) else ""
    if "synonym" in kind or kind in ("exact", "broad", "narrow", "related"):
        kind = "synonym"  # the scopes of ontologies (EXACT, hasBroadSynonym)
    return Alias(
        one_line(values["surface"], "aliases"),
        _KINDS.get(kind, "alias"),
        1 if count is None else whole_number(count, "the count of an alias"),
    )


def _fix(field: str, names: Iterable[str]) -> str:
    return f"Found: {_listed(names)}. Name the field that holds it: --set {field}=FIELD"


def _listed(names: Iterable[str]) -> str:
    found = [name if name.isprintable() else repr(name) for name in names]
    return ", ".join(found[:12]) + (", ..." if len(found) > 12 else "") if found else "nothing"


# ------------------------------------------------------------------------------ descriptions
#: What stands in HTML alone. A text about HTML names tags, and hardly ever closes one.
_HTML = re.compile(
    r"</(?:p|b|i|u|em|strong|ul|ol|li|div|span|a|h[1-6]|table|td|tr|font|sup|sub|small)\s*+>"
    r"|<br\s*+/?>|&(?:nbsp|amp|lt|gt|quot|apos|#[0-9]{2,6}|#[xX][0-9A-Fa-f]{2,5});",
    re.IGNORECASE,
)
_WHOLE = TextSettings(code=True, tables=True)
MENDED = "HTML of a description made plain text"


def description_mender(first: Iterable[object], problems: Problems) -> Callable[[Entity], Entity]:
    """Makes descriptions plain text where most of the ``first`` ones of a source are HTML."""
    texts = [text for text in first if isinstance(text, str) and text.strip()]
    if 2 * sum(bool(_HTML.search(text)) for text in texts) <= len(texts):
        return lambda entity: entity

    def mended(entity: Entity) -> Entity:
        if not _HTML.search(entity.description):
            return entity
        problems.mend(MENDED)
        return replace(entity, description=html_text(entity.description, _WHOLE).text)

    return mended
