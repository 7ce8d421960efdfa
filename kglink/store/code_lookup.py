"""Finds the entities that a code names: by their keys, their cross-references, and mappings.

Codes are compared in their one form (`kglink.text.codes`), in pages, by index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.engine import Connection

from kglink.records import CONSIDER, REPLACED_BY, EntityId
from kglink.store.database import rows_in
from kglink.store.schema import entities, mappings, xrefs
from kglink.text.codes import code_of, spellings

K = TypeVar("K")
#: What was found for each thing that was asked for.
Found = dict[K, dict[EntityId, None]]


class CodeLookup:
    """Looks up codes in some KBs, by mappings of KBs, in one transaction of its caller."""

    def __init__(
        self, connection: Connection, targets: Mapping[str, int], mapped_by: Iterable[int] = ()
    ) -> None:
        self._connection, self._mapped_by = connection, list(mapped_by)
        self._names = {number: name for name, number in targets.items()}

    def entities_of(self, codes: Iterable[str]) -> Found[str]:
        """The entities that each code names, through one further step where none is direct.

        Direct are an entity whose key or cross-reference is the code, and one whose key a mapping
        joins to it. A KB without a direct answer gives the entities that are cross-referenced or
        mapped to an answer of another KB: its key is taken for a code of the same thing.
        """
        wanted = list(dict.fromkeys(filter(None, codes)))
        direct: Found[str] = defaultdict(dict)
        for part in (self.keyed(wanted), self._referring(wanted), self._mapped(wanted)):
            _merge(direct, part)
        beside = self._beside({name for found in direct.values() for name in found})
        answer: Found[str] = defaultdict(dict)
        for code in wanted:
            answered = {name.kb for name in direct[code]}
            further = (name for one in direct[code] for name in beside[one])
            missing = (name for name in further if name.kb not in answered)
            answer[code] = dict.fromkeys((*direct[code], *missing))
        return answer

    def keyed(self, codes: Iterable[str]) -> Found[str]:
        """The entities whose key is the code, however it is spelt there."""
        asked = {spelt: code for code in codes for spelt in spellings(code)}
        found: Found[str] = defaultdict(dict)
        query = select(entities.c.key, entities.c.kb_id)
        query = query.where(entities.c.kb_id.in_(self._names))
        for key, number in sorted(rows_in(self._connection, query, entities.c.key, asked)):
            found[asked[key]][EntityId(self._names[number], key)] = None
        return found

    def _referring(self, codes: Iterable[str]) -> Found[str]:
        """The entities that have the code among their cross-references."""
        found: Found[str] = defaultdict(dict)
        query = select(xrefs.c.code, entities.c.kb_id, entities.c.key)
        query = query.join_from(xrefs, entities, entities.c.id == xrefs.c.entity_id)
        query = query.where(entities.c.kb_id.in_(self._names))
        for code, number, key in sorted(rows_in(self._connection, query, xrefs.c.code, codes)):
            found[code][EntityId(self._names[number], key)] = None
        return found

    def _mapped(self, codes: Iterable[str]) -> Found[str]:
        """The entities whose key a mapping joins to the code.

        A partner that is no entity here may be the hub of its mapping set, as MONDO's ids are:
        its own partners count as well.
        """
        partners = self._partners(codes)
        keyed = self.keyed({partner for found in partners.values() for partner in found})
        hubs = {partner for found in partners.values() for partner in found} - keyed.keys()
        spokes = self._partners(sorted(hubs))
        ends = self.keyed({spoke for found in spokes.values() for spoke in found})
        for hub, entities_ in _through(spokes, ends).items():
            keyed[hub].update(entities_)
        return _through(partners, keyed)

    def _partners(self, codes: Iterable[str]) -> dict[str, dict[str, None]]:
        """The codes that mappings join to each code, as codes of one thing."""
        partners: dict[str, dict[str, None]] = defaultdict(dict)
        m, wanted = mappings.c, list(codes)
        sides = (m.subject_code, m.object_code), (m.object_code, m.subject_code)
        for mine, other in sides:
            query = select(mine, other).where(
                m.kb_id.in_(self._mapped_by),
                m.verdict.in_(("", "correct")),
                m.predicate.not_in((REPLACED_BY, CONSIDER)),
            )
            for code, partner in sorted(rows_in(self._connection, query, mine, wanted)):
                partners[code][partner] = None
        return partners

    def _beside(self, names: set[EntityId]) -> Found[EntityId]:
        """The entities that say of an entity that they are the same, or it of them."""
        codes = {name: code for name in sorted(names) if (code := code_of(name.key))}
        found: Found[EntityId] = defaultdict(dict)
        for part in (self._referring(codes.values()), self._mapped(codes.values())):
            _merge(found, {name: part[code] for name, code in codes.items()})
        referred: dict[EntityId, dict[str, None]] = defaultdict(dict)
        numbers = {name: number for number, name in self._names.items()}
        for kb in sorted({name.kb for name in names}):
            query = select(entities.c.key, xrefs.c.code)
            query = query.join_from(entities, xrefs, entities.c.id == xrefs.c.entity_id)
            query = query.where(entities.c.kb_id == numbers[kb], xrefs.c.code != "")
            own = sorted(name.key for name in names if name.kb == kb)
            for key, code in sorted(rows_in(self._connection, query, entities.c.key, own)):
                referred[EntityId(kb, key)][code] = None
        keyed = self.keyed({code for listed in referred.values() for code in listed})
        _merge(found, _through(referred, keyed))
        return found


def _through(steps: Mapping[K, Iterable[str]], found: Found[str]) -> Found[K]:
    reached: Found[K] = defaultdict(dict)
    for start, codes in steps.items():
        for code in codes:
            reached[start].update(found[code])
    return reached


def _merge(found: Found[K], more: Mapping[K, dict[EntityId, None]]) -> None:
    for key, names in more.items():
        found[key].update(names)
