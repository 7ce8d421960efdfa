"""What people and mappings say of pairs of entities, and whether these are still the same.

Beside a verdict stand hashes of the two titles and descriptions that it was given on. A verdict
without them, as a mapping between codes gives it, is never out of date.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, get_args

from sqlalchemy import bindparam, case, delete, exists, func, insert, or_, select, tuple_, update
from sqlalchemy.engine import Connection

from kglink.errors import UsageError
from kglink.files.digest import text_digest
from kglink.records import KB_SOURCE, EntityId, Judgement, Verdict
from kglink.store.code_lookup import CodeLookup
from kglink.store.database import Database, chunks, keys_by_kb, pages, rows_in
from kglink.store.kbs import entity_exists, is_readable, kb_ids
from kglink.store.schema import entities, kbs, mappings, overlaps, store_state
from kglink.store.values import json_of

BATCH = 2000
MAPPINGS_PAGE = 250
#: The evidence of an overlap that nothing but a mapping speaks for; a search that finds it as
#: well writes its own.
MAPPING_EVIDENCE = "mapping"
#: How the text of such evidence begins.
_OF_MAPPING = f'{{"{MAPPING_EVIDENCE}"'

#: The columns of a pair's primary key.
Pair = tuple[str, str, str, str]
#: A pair in any order and what is said of it; None takes back what was said.
JudgedPair = tuple[EntityId, EntityId, Verdict | None]

o = overlaps.c
PAIR_COLUMNS = (o.left_kb, o.left_key, o.right_kb, o.right_key)
_SAID = (o.verdict, o.source, o.left_text_hash, o.right_text_hash)
#: The probability of a pair that no search finds: what was said of it.
AS_SAID = case((o.verdict == "correct", 1.0), else_=0.0)
_insert = insert(overlaps)
_set_said = (
    update(overlaps)
    .ordered_values(*((column, bindparam(f"{column.name}_")) for column in _SAID))
    .where(*(column == bindparam(f"{column.name}_") for column in PAIR_COLUMNS))
)


def touch(connection: Connection) -> None:
    """Say, before they do, that overlaps change in this transaction.

    On PostgreSQL two writers meet here, and so never wait for each other's rows.
    """
    connection.execute(update(store_state).values(overlaps=secrets.token_hex(8)))


class VerdictTable:
    """What people say of pairs of entities, as a part of a store."""

    _db: Database

    def set_verdict(
        self, left: EntityId, right: EntityId, verdict: Verdict | None, source: str = "review"
    ) -> None:
        """Set or clear what people say of a pair of entities as they are now."""
        self.set_verdicts([(left, right, verdict)], source)

    def set_verdicts(self, judged: Iterable[JudgedPair], source: str = "review") -> int:
        """Set or clear many verdicts, batch by batch, whether the pairs were found before or not.

        Says how many there were. Of a pair that comes twice the later verdict counts.
        """
        if source.startswith(KB_SOURCE):
            raise UsageError(
                f"{source!r} is no source of a verdict", hint=f"{KB_SOURCE} stands for mappings."
            )
        count = 0
        for batch in chunks(judged, BATCH):
            self._judge(batch, source)
            count += len(batch)
        return count

    def judgement(self, left: EntityId, right: EntityId) -> Judgement | None:
        """What stands as said of a pair, with where it comes from and what it was judged by."""
        query = select(*_SAID).where(tuple_(*PAIR_COLUMNS) == pair_of(left, right))
        for verdict, source, left_text, right_text in self._db.rows(query):
            texts = (left_text, right_text) if left_text and right_text else None
            return Judgement(verdict, source, texts) if verdict else None
        return None

    def count_resting(self, kb: str) -> int:
        """How many people's verdicts are of entities that this KB had and has no longer."""
        gone = or_(
            (o.left_kb == kb) & ~entity_exists(o.left_kb, o.left_key),
            (o.right_kb == kb) & ~entity_exists(o.right_kb, o.right_key),
        )
        said = o.verdict.is_not(None), ~o.source.startswith(KB_SOURCE)
        query = select(func.count()).select_from(overlaps).where(*said, gone)
        return int(self._db.rows(query)[0][0])

    def put_back(self, left: EntityId, right: EntityId, before: Judgement | None) -> None:
        """Let stand of a pair what `judgement` said before; None: nothing."""
        self._put({pair_of(left, right): before})

    def _judge(self, batch: Sequence[JudgedPair], source: str) -> None:
        for *_, verdict in batch:
            if verdict is not None and verdict not in get_args(Verdict):
                raise UsageError(
                    f"{verdict!r} is no verdict", hint=f"One of: {', '.join(get_args(Verdict))}."
                )
        names = [name for one in batch for name in one[:2]]
        with self._db.read() as connection:
            hashes = text_hashes(connection, names)
        for name in names:
            if name not in hashes:
                raise UsageError(f"there is no entity {name}", hint="kglink search finds its id.")
        said: dict[Pair, Judgement | None] = {}
        for left, right, verdict in batch:
            pair = pair_of(left, right)
            texts = hashes[EntityId(*pair[:2])], hashes[EntityId(*pair[2:])]
            said[pair] = verdict and Judgement(verdict, source, texts)
        self._put(said)

    def _put(self, said: Mapping[Pair, Judgement | None]) -> None:
        with self._db.write() as connection:
            touch(connection)
            standing = standing_verdicts(connection, list(said))
            known, new = [], []
            for pair, one in said.items():
                texts = (one.texts if one else None) or (None, None)
                columns = (one.verdict, one.source, *texts) if one else (None, "", None, None)
                if pair in standing:
                    known.append((*columns, *pair))
                elif one:
                    new.append((*pair, 0.0, "{}", *columns))
            self._db.bulk(connection, _set_said, known)
            self._db.bulk(connection, _insert, new)
            for some in chunks(said, MAPPINGS_PAGE):
                unfound = tuple_(*PAIR_COLUMNS).in_(some), o.evidence == "{}"
                connection.execute(update(overlaps).where(*unfound).values(probability=AS_SAID))
            # A pair that nothing speaks for any more goes; what only mappings say counts again.
            of_mappings = False
            for some in chunks((pair for pair, one in said.items() if not one), MAPPINGS_PAGE):
                these = tuple_(*PAIR_COLUMNS).in_(some)
                connection.execute(delete(overlaps).where(these, o.evidence == "{}"))
                mapped = select(exists().where(these, o.evidence.startswith(_OF_MAPPING)))
                of_mappings |= bool(connection.scalar(mapped))
            if of_mappings:
                apply_mappings(self._db, connection)


def standing_verdicts(connection: Connection, pairs: Sequence[Pair]) -> dict[Pair, str | None]:
    """The verdicts of the pairs that are known as overlaps."""
    standing: dict[Pair, str | None] = {}
    query = select(*PAIR_COLUMNS, o.verdict)
    for *pair, verdict in rows_in(connection, query, tuple_(*PAIR_COLUMNS), pairs):
        standing[pair[0], pair[1], pair[2], pair[3]] = verdict
    return standing


def text_hashes(connection: Connection, ids: Iterable[EntityId]) -> dict[EntityId, str]:
    """Hashes of the titles and descriptions of those entities that are there."""
    numbers = kb_ids(connection)
    e = entities.c
    found: dict[EntityId, str] = {}
    for kb, keys in keys_by_kb(ids, numbers).items():
        query = select(e.key, e.title, e.description).where(e.kb_id == numbers[kb])
        for key, title, description in rows_in(connection, query, e.key, keys):
            found[EntityId(kb, key)] = text_digest(f"{title}\0{description}")
    return found


def pair_of(left: EntityId, right: EntityId) -> Pair:
    """Two entities as the table has them, the KB that comes first in the alphabet on the left."""
    if left.kb == right.kb:
        raise UsageError(
            f"{left} and {right} are of one KB", hint="An overlap joins entities of two KBs."
        )
    first, second = (left, right) if left.kb < right.kb else (right, left)
    return (*first, *second)


# ------------------------------------------------------------------- verdicts of mappings
def apply_verdicts(
    db: Database, connection: Connection, kb_id: int, name: str, links_to: Sequence[str]
) -> int:
    """Judge the overlaps that a KB's mappings speak of; a verdict that stands is left alone.

    Says how many such mappings join no entities of two KBs among ``links_to`` (all if empty).
    """
    taken_back = take_back_verdicts(connection, name)
    known = kb_ids(connection, also=kb_id)
    open_ends = _apply_of(db, connection, kb_id, name, links_to, known)
    if taken_back:
        apply_mappings(db, connection, but=kb_id)
    return open_ends


def apply_mappings(db: Database, connection: Connection, *, but: int = -1) -> None:
    """Judge what mappings speak of and nobody has judged; those of KB ``but`` have done so."""
    m, k = mappings.c, kbs.c
    has_some = exists().where(m.kb_id == k.id, m.verdict != "")
    query = select(k.id, k.name, k.links_to).where(is_readable(), k.id != but, has_some)
    known = kb_ids(connection, also=but)
    for number, name, links_to in connection.execute(query.order_by(k.id)).all():
        linked = list(map(str, json_of(links_to, list, "kbs.links_to")))
        _apply_of(db, connection, number, name, linked, known)


def take_back_verdicts(connection: Connection, name: str) -> bool:
    """Forget what the mappings of KB ``name`` said of overlaps; whether there was anything."""
    mine = o.source == KB_SOURCE + name
    if not connection.scalar(select(exists().where(mine))):
        return False
    touch(connection)
    alone = o.evidence.startswith(_OF_MAPPING)
    connection.execute(delete(overlaps).where(mine, alone))
    connection.execute(update(overlaps).where(mine).values(verdict=None, source=""))
    return True


def _apply_of(
    db: Database,
    connection: Connection,
    kb_id: int,
    name: str,
    links_to: Sequence[str],
    known: Mapping[str, int],
) -> int:
    """Apply the mappings of one KB; says how many join no entities of two KBs."""
    numbers = {kb: number for kb, number in known.items() if kb in links_to or not links_to}
    m = mappings.c
    query = select(m.id, m.subject_code, m.object_code, m.confidence, m.verdict)
    query = query.where(m.kb_id == kb_id, m.verdict != "")
    read = pages(connection, query, MAPPINGS_PAGE, m.id)
    return sum(_apply(db, connection, page, name, numbers) for page in read)


def _apply(
    db: Database,
    connection: Connection,
    page: Sequence[tuple[Any, ...]],
    name: str,
    numbers: dict[str, int],
) -> int:
    codes = {code: None for row in page for code in row[1:3]}
    keyed = CodeLookup(connection, numbers).keyed(codes)
    found: dict[Pair, tuple[float, str]] = {}
    open_ends = 0
    for _, subject, object_, confidence, verdict in page:
        both = product(keyed[subject], keyed[object_])
        pairs = [pair_of(one, other) for one, other in both if one.kb != other.kb]
        open_ends += not pairs
        for pair in pairs:
            found.setdefault(pair, (confidence, verdict))
    if not found:
        return open_ends
    touch(connection)
    source = KB_SOURCE + name
    standing = standing_verdicts(connection, list(found))
    known, new = [], []
    for pair, (sure, verdict) in found.items():
        said = (verdict, source, None, None)
        if pair not in standing:
            new.append((*pair, sure, json.dumps({MAPPING_EVIDENCE: sure}), *said))
        elif standing[pair] is None:
            known.append((*said, *pair))
    db.bulk(connection, _set_said, known)
    db.bulk(connection, _insert, new)
    return open_ends
