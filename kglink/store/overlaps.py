"""Pairs of entities that are the same thing, and when they were last looked for.

A pair is stored once, the KB that comes first in the alphabet on the left. A pair one of whose
entities is gone is kept, so that its verdict lives through updates, but not shown.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import IO, Any

from sqlalchemy import Column, ColumnElement, delete, exists, insert, or_, select, tuple_, update
from sqlalchemy.engine import Connection

from kglink.errors import StoreError, UsageError, why_unwritten
from kglink.records import KB_SOURCE, EntityId, Overlap, OverlapRun
from kglink.store.database import Database, Row, chunks, keys_by_kb, pages
from kglink.store.kbs import entity_exists, entity_number, is_readable, kb_id, kb_ids
from kglink.store.schema import kbs, overlap_runs, overlaps, store_state
from kglink.store.values import json_of
from kglink.store.verdicts import AS_SAID, PAIR_COLUMNS, apply_mappings, pair_of, text_hashes, touch

BATCH = 2000
LOOKUP_PAGE = 500

o = overlaps.c
r = overlap_runs.c
_READ = (
    *(*PAIR_COLUMNS, o.probability, o.evidence, o.verdict),
    *(o.source, o.left_text_hash, o.right_text_hash),
)


#: The columns of a side's KB and key.
_Side = tuple[Column[Any], Column[Any]]
_LEFT: _Side = (o.left_kb, o.left_key)
_RIGHT: _Side = (o.right_kb, o.right_key)
_ARE_THERE = entity_exists(*_LEFT), entity_exists(*_RIGHT)
_NUMBERS = entity_number(*_LEFT).label("left_number"), entity_number(*_RIGHT).label("right_number")


def _parts(
    left: str | None, right: str | None, names: Sequence[str]
) -> Iterator[tuple[list[ColumnElement[bool]], tuple[Column[Any], ...]]]:
    """The overlaps of all KBs, of one, or of two, in parts that an index has in order.

    Each with the columns of that order: a condition that joins two orders by OR would have all
    rows that are left read and sorted again for each page.
    """
    kb = left or right
    if left and right:
        low, high = sorted((left, right))
        yield [o.left_kb == low, o.right_kb == high], (o.left_key, o.right_key)
    elif kb:
        for other in names:
            if other < kb:
                yield [o.left_kb == other, o.right_kb == kb], (o.left_key, o.right_key)
        yield [o.left_kb == kb], (o.left_key, o.right_kb, o.right_key)
    else:
        yield [], PAIR_COLUMNS


class OverlapTable:
    """The overlaps of a store, as a part of it."""

    _db: Database

    def save_overlaps(
        self,
        left: str,
        right: str,
        found: Iterable[Overlap],
        run: Callable[[int], OverlapRun | None] | None = None,
    ) -> int:
        """Replace all overlaps of two KBs at once; pairs that people judged stay as judged.

        ``found`` may be slow and long: it is kept in a temporary file until it has come to its
        end. ``run`` makes the run that is kept with them, its KBs in the order of the alphabet: it
        is given the number of pairs when all were found and nobody else may write. If it makes
        none, the last run of the two is forgotten.
        """
        with self._db.read() as connection:
            for name in (left, right):
                kb_id(connection, name)
        if left == right:
            raise UsageError(
                f"overlaps of {left!r} with itself", hint="An overlap joins entities of two KBs."
            )
        with _room(), tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
            saved = _spool(found, {left, right}, spool)
            spool.seek(0)
            left, right = sorted((left, right))
            with self._db.write() as connection:
                touch(connection)
                for name in (left, right):  # which somebody may have removed meanwhile
                    kb_id(connection, name)
                made = run(saved) if run else None
                self._replace(connection, left, right, spool)
                if run is not None:
                    of_both = (r.left_kb == left) & (r.right_kb == right)
                    connection.execute(delete(overlap_runs).where(of_both))
                if made is not None:
                    connection.execute(insert(overlap_runs).values(astuple(made)))
                self._db.backend.settle(connection)
        return saved

    def _replace(self, connection: Connection, left: str, right: str, spool: IO[str]) -> None:
        both = (o.left_kb == left) & (o.right_kb == right)
        # What people judged stays, but not the evidence of a search that found it before.
        of_mappings = both & o.source.startswith(KB_SOURCE, autoescape=True)
        apply_again = connection.scalar(select(exists().where(of_mappings)))
        connection.execute(delete(overlaps).where(or_(both & o.verdict.is_(None), of_mappings)))
        gone = update(overlaps).where(both)
        connection.execute(gone.values(evidence="{}", probability=AS_SAID))
        upsert = self._db.backend.upsert(overlaps, ["probability", "evidence"])
        for lines in chunks(spool, BATCH):
            self._db.bulk(connection, upsert, [tuple(json.loads(line)) for line in lines])
        if apply_again:
            apply_mappings(self._db, connection)

    def overlaps(
        self,
        left: str | None = None,
        right: str | None = None,
        *,
        min_probability: float = 0.0,
        judged: bool = False,
        stale: bool = False,
    ) -> Iterator[Overlap]:
        """Overlaps of all KBs, of one, or of two, in the order of their names.

        Those of ``left`` have it on their left side, those of ``right`` on their right.
        ``judged`` and ``stale``: only those that are so.
        """
        with self._db.read() as connection:
            for name in filter(None, (left, right)):
                kb_id(connection, name)
            names = sorted(kb_ids(connection))
        where = [o.probability >= min_probability]
        if judged:
            where.append(o.verdict.is_not(None))
        if stale:  # the database can say whether it may be so
            where.append(o.left_text_hash.is_not(None))
        for of_kbs, place in _parts(left, right, names):
            query = select(*place, *_READ, *_NUMBERS)
            for page in pages(self._db, query.where(*of_kbs, *where), BATCH, *place):
                rows = [row[len(place) : -2] for row in page if None not in row[-2:]]
                for row, is_stale in zip(rows, self._stale(rows), strict=True):
                    if is_stale or not stale:
                        yield _overlap(row, left, right, is_stale)

    def overlap(self, left: EntityId, right: EntityId) -> Overlap | None:
        """The overlap of two entities; None where it or one of them is not there."""
        pair = tuple_(*PAIR_COLUMNS) == pair_of(left, right)
        return next(iter(self._read_overlaps(pair, left.kb, right.kb)), None)

    def overlaps_of(self, entity: EntityId) -> list[Overlap]:
        """All overlaps of one entity, which stands on the left, the surest first."""
        mine = [(kb == entity.kb) & (key == entity.key) for kb, key in (_LEFT, _RIGHT)]
        found = self._read_overlaps(or_(*mine), entity.kb, None)
        return sorted(found, key=lambda one: (-one.probability, one.right))

    def _read_overlaps(
        self, which: ColumnElement[bool], left: str, right: str | None
    ) -> list[Overlap]:
        rows = self._db.rows(select(*_READ).where(which, *_ARE_THERE))
        stale = self._stale(rows)
        return [_overlap(row, left, right, old) for row, old in zip(rows, stale, strict=True)]

    def overlap_state(self) -> str:
        """A text that is another one after every change of an overlap or verdict.

        The revisions of their KBs are in it: an overlap comes and goes with its entities.
        """
        has_overlaps = or_(
            exists().where(o.left_kb == kbs.c.name), exists().where(o.right_kb == kbs.c.name)
        )
        query = select(kbs.c.name, kbs.c.revision)
        query = query.where(has_overlaps, is_readable()).order_by(kbs.c.name)
        with self._db.read() as connection:
            token = connection.scalar(select(store_state.c.overlaps))
            rows = connection.execute(query).all()
        return " ".join([str(token), *(f"{name}:{revision}" for name, revision in rows)])

    def overlap_runs(self) -> list[OverlapRun]:
        """The last run of each two KBs, their names in the order of the alphabet."""
        query = select(overlap_runs).order_by(r.left_kb, r.right_kb)
        return [OverlapRun(*row) for row in self._db.rows(query)]

    def _stale(self, page: Sequence[Row]) -> list[bool]:
        """Whether each pair was judged on other texts than its entities have now."""
        judged = [_names(row) for row in page if row[-1] is not None]
        with self._db.read() as connection:
            now = text_hashes(connection, (name for pair in judged for name in pair))
        return [
            row[-1] is not None and tuple(now.get(name) for name in _names(row)) != row[-2:]
            for row in page
        ]

    def counterparts(
        self, ids: Iterable[EntityId], *, min_probability: float = 0.5
    ) -> dict[EntityId, tuple[EntityId, ...]]:
        """The same things in other KBs, the surest first, for each id that has any.

        A pair judged wrong is none whatever its probability, one judged correct always is.
        """
        wanted = list(ids)
        if not wanted:
            return {}
        with self._db.read() as connection:
            order = {kb: rank for rank, kb in enumerate(kb_ids(connection))}
        found: dict[EntityId, list[tuple[float, int, str, str]]] = defaultdict(list)
        good = or_(
            o.verdict == "correct",
            (o.probability >= min_probability) & or_(o.verdict.is_(None), o.verdict != "wrong"),
        )
        for kb, keys in keys_by_kb(wanted, order).items():
            for chunk in chunks(keys, LOOKUP_PAGE):
                for mine, other in ((_LEFT, _RIGHT), (_RIGHT, _LEFT)):
                    query = select(mine[1], *other, o.probability, o.verdict)
                    query = query.where(mine[0] == kb, mine[1].in_(chunk), good, *_ARE_THERE)
                    for key, its_kb, its_key, probability, verdict in self._db.rows(query):
                        sure = 1.0 if verdict == "correct" else probability
                        rank = order.get(its_kb, len(order))  # there since this moment
                        found[EntityId(kb, key)].append((-sure, rank, its_key, its_kb))
        return {
            name: tuple(EntityId(its_kb, key) for _, _, key, its_kb in sorted(others))
            for name, others in found.items()
        }


def _spool(found: Iterable[Overlap], names: set[str], out: IO[str]) -> int:
    saved = 0
    for overlap in found:
        if {overlap.left.kb, overlap.right.kb} != names:
            raise UsageError(
                f"the overlap of {overlap.left} and {overlap.right} is not one of "
                + " and ".join(sorted(names))
            )
        if not 0 <= overlap.probability <= 1:
            raise UsageError(
                f"the overlap of {overlap.left} and {overlap.right} has the probability "
                f"{overlap.probability}",
                hint="A probability lies between 0 and 1.",
            )
        evidence = {name: float(value) for name, value in overlap.evidence.items()}
        for name, value in evidence.items():
            if not math.isfinite(value):
                raise UsageError(f"the evidence {name!r} of {overlap.left} is not a finite number")
        pair = pair_of(overlap.left, overlap.right)
        said = (overlap.verdict, overlap.source if overlap.verdict else "", None, None)
        row = (*pair, float(overlap.probability), json.dumps(evidence), *said)
        out.write(json.dumps(row) + "\n")
        saved += 1
    return saved


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if why_unwritten(error) != "full":
            raise
        raise StoreError(
            f"cannot write a temporary file: {error.strerror}",
            hint=f"Make room in {tempfile.gettempdir()}, or set TMPDIR to another folder.",
        ) from error


def _names(row: Row) -> tuple[EntityId, EntityId]:
    return EntityId(row[0], row[1]), EntityId(row[2], row[3])


def _overlap(row: Row, left: str | None, right: str | None, stale: bool) -> Overlap:
    probability, evidence, verdict, source = row[4:8]
    pair = _names(row)
    if left == pair[1].kb or (left is None and right == pair[0].kb):
        pair = pair[1], pair[0]
    values = json_of(evidence, dict, "overlaps.evidence")
    return Overlap(*pair, probability, values, verdict, stale, source)


# --------------------------------------------------------------------------------- runs
def forget_runs(connection: Connection, kb: str) -> None:
    """Forget the runs of a KB."""
    connection.execute(delete(overlap_runs).where(or_(r.left_kb == kb, r.right_kb == kb)))
