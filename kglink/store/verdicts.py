"""What people say of pairs of entities, and whether these are still what they were judged as.

Beside a verdict stand hashes of the two titles and descriptions that it was given on. A verdict
without them, as a mapping between codes gives it, is never out of date.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import get_args

from sqlalchemy import bindparam, insert, select, tuple_, update
from sqlalchemy.engine import Connection

from kglink.errors import UsageError
from kglink.records import EntityId, Judgement, Verdict
from kglink.store.database import Database
from kglink.store.kb_reader import kb_ids
from kglink.store.overlap_runs import touch
from kglink.store.pages import is_storable
from kglink.store.schema import entities, overlaps

BATCH = 2000
LOOKUP_PAGE = 250
#: Begins the source of a verdict that the mappings of a KB brought.
KB_SOURCE = "kb:"

#: The columns of a pair's primary key.
Pair = tuple[str, str, str, str]
#: A pair in any order and what is said of it; None takes back what was said.
Judged = tuple[EntityId, EntityId, Verdict | None]

o = overlaps.c
PAIR_COLUMNS = (o.left_kb, o.left_key, o.right_kb, o.right_key)
_SAID = (o.verdict, o.source, o.left_text_hash, o.right_text_hash)
_insert = insert(overlaps)
_judge = (
    update(overlaps)
    .ordered_values(*((column, bindparam(f"{column.name}_")) for column in _SAID))
    .where(*(column == bindparam(f"{column.name}_") for column in PAIR_COLUMNS))
)


def judge(db: Database, judged: Iterable[Judged], source: str) -> int:
    """Set or clear verdicts, batch by batch, whether the pairs were found before or not.

    Says how many there were. Of a pair that comes twice the later verdict counts.
    """
    if source.startswith(KB_SOURCE):
        raise UsageError(
            f"{source!r} is no source of a verdict", hint=f"{KB_SOURCE} stands for mappings."
        )
    count = 0
    remaining = iter(judged)
    while batch := list(islice(remaining, BATCH)):
        _judge_batch(db, batch, source)
        count += len(batch)
    return count


def _judge_batch(db: Database, batch: Sequence[Judged], source: str) -> None:
    said = {pair_of(left, right): _checked(verdict) for left, right, verdict in batch}
    hashes = text_hashes(db, (name for left, right, _ in batch for name in (left, right)))
    for left, right, _ in batch:
        for name in (left, right):
            if name not in hashes:
                raise UsageError(f"there is no entity {name}", hint="kglink search finds its id.")
    _put(
        db,
        {
            pair: verdict
            and Judgement(
                verdict, source, (hashes[EntityId(*pair[:2])], hashes[EntityId(*pair[2:])])
            )
            for pair, verdict in said.items()
        },
    )


def judgement_of(db: Database, left: EntityId, right: EntityId) -> Judgement | None:
    """What stands as said of a pair."""
    pair = pair_of(left, right)
    query = select(*_SAID).where(tuple_(*PAIR_COLUMNS) == pair)
    for verdict, source, left_text, right_text in db.rows(query):
        texts = (left_text, right_text) if left_text and right_text else None
        return Judgement(verdict, source, texts) if verdict else None
    return None


def put_back(db: Database, left: EntityId, right: EntityId, before: Judgement | None) -> None:
    """Let stand what stood before, as it was given then."""
    _put(db, {pair_of(left, right): before})


def _put(db: Database, said: Mapping[Pair, Judgement | None]) -> None:
    with db.write() as connection:
        touch(connection)
        standing = standing_verdicts(connection, list(said))
        known, new = [], []
        for pair, one in said.items():
            columns = _columns(one)
            if pair in standing:
                known.append((*columns, *pair))
            elif one:
                probability = 1.0 if one.verdict == "correct" else 0.0
                new.append((*pair, probability, "{}", *columns))
        db.bulk(connection, _judge, known)
        db.bulk(connection, _insert, new)


def _columns(said: Judgement | None) -> tuple[str | None, str, str | None, str | None]:
    if said is None:
        return None, "", None, None
    return (said.verdict, said.source, *(said.texts or (None, None)))


def standing_verdicts(connection: Connection, pairs: Sequence[Pair]) -> dict[Pair, str | None]:
    """The verdicts of the pairs that are known as overlaps."""
    standing: dict[Pair, str | None] = {}
    for start in range(0, len(pairs), LOOKUP_PAGE):
        some = pairs[start : start + LOOKUP_PAGE]
        query = select(*PAIR_COLUMNS, o.verdict).where(tuple_(*PAIR_COLUMNS).in_(some))
        for *pair, verdict in connection.execute(query):
            standing[pair[0], pair[1], pair[2], pair[3]] = verdict
    return standing


def text_hashes(db: Database, ids: Iterable[EntityId]) -> dict[EntityId, str]:
    """Hashes of the titles and descriptions of those entities that are there."""
    numbers = kb_ids(db)
    wanted: dict[str, dict[str, None]] = defaultdict(dict)
    for name in ids:
        if name.kb in numbers and is_storable(name.key):
            wanted[name.kb][name.key] = None
    e = entities.c
    found: dict[EntityId, str] = {}
    for kb, keys in wanted.items():
        remaining = iter(keys)
        while page := list(islice(remaining, LOOKUP_PAGE)):
            query = select(e.key, e.title, e.description)
            query = query.where(e.kb_id == numbers[kb], e.key.in_(page))
            for key, title, description in db.rows(query):
                found[EntityId(kb, key)] = _text_hash(title, description)
    return found


def pair_of(left: EntityId, right: EntityId) -> Pair:
    """Two entities as the table has them, the KB that comes first in the alphabet on the left."""
    if left.kb == right.kb:
        raise UsageError(
            f"{left} and {right} are of one KB", hint="An overlap joins entities of two KBs."
        )
    first, second = (left, right) if left.kb < right.kb else (right, left)
    return (*first, *second)


def _checked(verdict: Verdict | None) -> Verdict | None:
    if verdict is not None and verdict not in get_args(Verdict):
        raise UsageError(
            f"{verdict!r} is no verdict", hint=f"One of: {', '.join(get_args(Verdict))}."
        )
    return verdict


def _text_hash(title: str, description: str) -> str:
    return hashlib.blake2b(f"{title}\0{description}".encode(), digest_size=16).hexdigest()
