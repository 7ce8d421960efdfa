"""Reads what a mention is said to mean, in the ways that people write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from kglink.records import EntityId
from kglink_kbs.values import BadValue, described, key_text, one_line

GoldIds = Literal["auto", "key", "kb:key"]
Gold = tuple[EntityId, ...] | None

_NIL = frozenset({"NIL", "--NME--"})
#: A prefix that may be the name of a KB; that of DOID:7608 may not, nor that of an address.
_KB_PREFIX = re.compile(r"[a-z0-9][a-z0-9_-]*:(?!//)(?=.)", re.DOTALL)
_KEY_NAMES = ("key", "id", "entity_id")
_KB_NAMES = ("kb", "ontology", "db_name")


class GoldReader:
    """Reads gold values; ``ids`` says whether an id names its KB."""

    def __init__(self, ids: GoldIds) -> None:
        self._ids = ids

    def of_mention(self, values: Mapping[str, object], *, exact: bool) -> Gold:
        """The gold of a mention's values by field.

        A KB that stands beside it goes with every id that names none itself; where ``exact``,
        the gold is a bare key and goes with that KB as it is.
        """
        if values.get("nil") is True:
            return ()
        value, kb = values.get("gold"), one_line(values.get("kb"), "kb")
        if value is None or not kb:
            return self.parse(value)
        if exact:
            return _unique(self._of_kb(kb, value))
        return tuple(id_ if id_.kb else EntityId(kb, id_.key) for id_ in self.parse(value) or ())

    def parse(self, value: object) -> Gold:
        """None for null, () for an empty list or object or for NIL, else the set of ids."""
        match value:
            case None:
                return None
            case dict():
                return _unique(self._of_object(value))
            case list():
                return _unique(id_ for item in value for id_ in self._of_item(item))
            case _:
                return _unique(self._of_item(value))

    def _of_object(self, value: Mapping[str, object]) -> Iterator[EntityId]:
        """``{"kb": ..., "key": ...}``, or ids by KB: ``{"doid": ["DOID:7608"]}``."""
        key = next((value[name] for name in _KEY_NAMES if name in value), None)
        if key is None:
            for name, ids in value.items():
                yield from self._of_kb(one_line(name, "the KB of a gold"), ids)
            return
        kb = one_line(next((value[name] for name in _KB_NAMES if name in value), None), "kb")
        yield from self._of_kb(kb, key) if kb else self._of_item(key)

    def _of_kb(self, kb: str, ids: object) -> Iterator[EntityId]:
        for item in ids if isinstance(ids, list) else [ids]:
            if isinstance(item, dict):
                yield from self._of_object(item)
            elif item is not None:
                yield EntityId(kb, _key(item))

    def _of_item(self, item: object) -> Iterator[EntityId]:
        if isinstance(item, dict):
            yield from self._of_object(item)
            return
        key = _key(item)
        if key in _NIL:
            return
        prefixed = bool(_KB_PREFIX.match(key))
        if self._ids == "kb:key" and not prefixed:
            raise BadValue(
                f"the gold {key!r} names no KB", "Write kb:key, or leave --set gold_ids=auto."
            )
        named = prefixed and self._ids != "key"
        yield EntityId.parse(key) if named else EntityId("", key)


def _key(value: object) -> str:
    if value is None or isinstance(value, (bool, list, dict)):
        raise BadValue(f"a gold is {described(value)}, not an id")
    key = key_text(value, "a gold")
    if not key:
        raise BadValue(
            "a gold is an empty text",
            "Write null where nobody said what is meant, [] where no entity is (NIL).",
        )
    return key


def _unique(ids: Iterable[EntityId]) -> tuple[EntityId, ...]:
    return tuple(dict.fromkeys(ids))
