"""Turns mappings that carry a verdict into verdicts on overlaps, and takes them back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, exists, insert, select, update
from sqlalchemy.engine import Connection

from kglink.records import EntityId
from kglink.store.code_lookup import CodeLookup
from kglink.store.database import Database
from kglink.store.overlap_runs import touch
from kglink.store.schema import id_range, kbs, mappings, overlaps
from kglink.store.verdicts import KB_SOURCE, PAIR_COLUMNS, Pair, standing_verdicts

PAGE = 250
#: The evidence of an overlap that nothing but a mapping speaks for; a search that finds it as
#: well writes its own.
EVIDENCE = "mapping"

o = overlaps.c
_insert = insert(overlaps)
_judge = (
    update(overlaps)
    .ordered_values((o.verdict, bindparam("verdict_")), (o.source, bindparam("source_")))
    .where(*(column == bindparam(f"{column.name}_") for column in PAIR_COLUMNS))
)


class _Judged(NamedTuple):
    """What a mapping says of a pair of entities."""

    confidence: float
    verdict: str


def apply_verdicts(db: Database, kb_id: int, name: str, links_to: Sequence[str]) -> int:
    """Judge the overlaps that a KB's mappings speak of; a verdict that stands is left alone.

    Says how many such mappings join no entities of two KBs among ``links_to`` (all if empty).
    """
    open_ends = 0
    with db.write() as connection:
        take_back_verdicts(connection, name)
        numbers: dict[str, int] = {
            kb: number
            for number, kb in connection.execute(
                select(kbs.c.id, kbs.c.name).where(kbs.c.removing == 0)
            )
            if kb in links_to or not links_to
        }
    for page in _judging(db, kb_id):
        with db.write() as connection:
            open_ends += _apply(db, connection, page, name, numbers)
    return open_ends


def take_back_verdicts(connection: Connection, name: str) -> None:
    """Forget what the mappings of KB ``name`` said of overlaps."""
    mine = o.source == KB_SOURCE + name
    if not connection.scalar(select(exists().where(mine))):
        return
    touch(connection)
    alone = o.evidence.startswith(f'{{"{EVIDENCE}"')
    connection.execute(delete(overlaps).where(mine, alone))
    connection.execute(update(overlaps).where(mine).values(verdict=None, source=""))


def _judging(db: Database, kb_id: int) -> Iterator[list[tuple[Any, ...]]]:
    m = mappings.c
    after, stop = id_range(kb_id)
    after -= 1
    query = select(m.id, m.subject_code, m.object_code, m.confidence, m.verdict)
    query = query.where(m.id < stop, m.verdict != "").order_by(m.id).limit(PAGE)
    while page := db.rows(query.where(m.id > after)):
        yield page
        after = page[-1][0]


def _apply(
    db: Database,
    connection: Connection,
    page: Sequence[tuple[Any, ...]],
    name: str,
    numbers: dict[str, int],
) -> int:
    codes = {code: None for row in page for code in row[1:3]}
    keyed = CodeLookup(connection, numbers).keyed(codes)
    found: dict[Pair, _Judged] = {}
    open_ends = 0
    for _, subject, object_, confidence, verdict in page:
        pairs = list(_pairs(keyed[subject], keyed[object_]))
        open_ends += not pairs
        for pair in pairs:
            found.setdefault(pair, _Judged(confidence, verdict))
    if not found:
        return open_ends
    touch(connection)
    source = KB_SOURCE + name
    standing = standing_verdicts(connection, list(found))
    db.bulk(
        connection,
        _judge,
        [
            (said.verdict, source, *pair)
            for pair, said in found.items()
            if pair in standing and standing[pair] is None
        ],
    )
    db.bulk(
        connection,
        _insert,
        [
            (*pair, said.confidence, _evidence(said), said.verdict, source, None, None)
            for pair, said in found.items()
            if pair not in standing
        ],
    )
    return open_ends


def _evidence(said: _Judged) -> str:
    return json.dumps({EVIDENCE: said.confidence})


def _pairs(left: dict[EntityId, None], right: dict[EntityId, None]) -> Iterator[Pair]:
    """All pairs of entities of two KBs, as the table has them."""
    for one in left:
        for other in right:
            if one.kb != other.kb:
                first, second = (one, other) if one.kb < other.kb else (other, one)
                yield (*first, *second)
