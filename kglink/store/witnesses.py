"""What the golds of a source tell of the KBs that it links to: which of them lack an entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from sqlalchemy import select
from sqlalchemy.engine import Connection

from kglink.store.document_reader import GoldRow
from kglink.store.schema import documents, golds
from kglink.text.codes import code_of

#: A KB is believed where it has entities for this share of such codes.
LEAST_FOUND = 0.1
_PAGE = 1000

#: The vocabularies of a mention's codes, and the KBs besides one that have entities for them.
_Group = tuple[frozenset[str], frozenset[str]]


class Witnesses:
    """What the golds of a source tell of the KBs ``links_to``."""

    def __init__(self, links_to: Sequence[str], mentions: Iterable[Sequence[GoldRow]]) -> None:
        self._links_to = links_to
        self._named: set[str] = set()
        self._asked: Counter[tuple[str, _Group]] = Counter()
        self._found: Counter[tuple[str, _Group]] = Counter()
        counted: set[frozenset[str]] = set()
        for rows in mentions:
            codes, found = _codes(rows), _kbs(rows)
            if not codes:
                self._named |= found
            elif found and codes not in counted:
                counted.add(codes)
                for kb in links_to:
                    group = _group(codes, found - {kb})
                    self._asked[kb, group] += 1
                    self._found[kb, group] += kb in found

    @classmethod
    def of(cls, connection: Connection, kb_id: int, links_to: Sequence[str]) -> Witnesses:
        """Of the documents of a KB."""
        g, d = golds.c, documents.c
        place = (g.document_id, g.mention, g.position, g.kb, g.key)
        query = select(*place).join_from(documents, golds, g.document_id == d.id)
        query = query.where(d.kb_id == kb_id).order_by(*place)
        rows = connection.execute(query.execution_options(yield_per=_PAGE))
        mentions = groupby(rows, key=lambda row: (row.document_id, row.mention))
        return cls(links_to, ([GoldRow(*row[2:]) for row in own] for _, own in mentions))

    def lacking(self, rows: Sequence[GoldRow]) -> list[str]:
        """The KBs that lack what a mention with these golds means."""
        codes, found = _codes(rows), _kbs(rows)
        others = [kb for kb in self._links_to if kb not in found]
        if not codes:
            return [kb for kb in others if kb in self._named]
        group = _group(codes, found)
        return [
            kb
            for kb in others
            if self._found[kb, group] >= LEAST_FOUND * self._asked[kb, group] > 0
        ]


def _codes(rows: Sequence[GoldRow]) -> frozenset[str]:
    """The golds of a mention as its source has them; none where it names entities by key."""
    codes = {row.position: row.key for row in rows if not row.kb}
    is_keyed = any(row.kb and row.position not in codes for row in rows)
    return frozenset() if is_keyed else frozenset(codes.values())


def _kbs(rows: Sequence[GoldRow]) -> frozenset[str]:
    return frozenset(row.kb for row in rows if row.kb)


def _group(codes: Iterable[str], others: frozenset[str]) -> _Group:
    return frozenset(code_of(code).partition(":")[0] for code in codes), others
