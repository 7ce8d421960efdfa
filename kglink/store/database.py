"""Connections, transactions, bulk statements and paged reading of a store."""

from __future__ import annotations

import contextlib
import copy
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Select,
    Table,
    event,
    inspect,
    make_url,
    select,
    tuple_,
    update,
)
from sqlalchemy import Row as SQLRow
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.sql.dml import UpdateBase

from kglink.errors import RIGHTS, StoreError, UsageError
from kglink.records import EntityId
from kglink.store.backends import RESTORE, backend_for
from kglink.store.schema import (
    SCHEMA_VERSION,
    VERSION_TABLE,
    make_tables,
    metadata,
    schema_version,
    store_state,
    upgrade,
)

Row = tuple[Any, ...]
Item = TypeVar("Item")
#: What no database text can hold: NUL, and half of a surrogate pair.
NEVER_STORED = re.compile("[\0\ud800-\udfff]")


class _Held(threading.local):
    """The connection by which this thread reads all the time, if there is one."""

    connection: Connection | None = None


class Database:
    """An open database at the newest schema."""

    def __init__(self, url: str | URL, *, create: bool = True) -> None:
        try:
            self.backend = backend_for(make_url(url))
        except (ArgumentError, NoSuchModuleError) as error:
            raise UsageError(
                f"{url!r} is no database URL", hint="For a file: sqlite:///path/to/kglink.db"
            ) from error
        self.where = self.backend.where
        self._engine = self.backend.engine(create=create)
        self._sql: dict[UpdateBase | Select[Any], str] = {}
        self._held = _Held()
        self._seen_by: Connection | None = None
        event.listen(self._engine, "begin", self._begin)
        self._writing = self._engine.execution_options(kglink_write=True)
        try:
            with self.read() as connection:
                self.backend.refuse_strange(connection)
            self._migrate()
            self._check_origin()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # ------------------------------------------------------------------------ transactions
    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the store."""
        with self._explained():
            seen_by = self._seen_by or self._held.connection
            if seen_by is not None:
                yield seen_by
                return
            with self._engine.begin() as connection:
                yield connection

    @contextlib.contextmanager
    def one_state(self) -> Iterator[None]:
        """All that this thread reads inside comes from one state of the store."""
        with self.read() as connection:
            before, self._held.connection = self._held.connection, connection
            try:
                yield
            finally:
                self._held.connection = before

    def seen_by(self, connection: Connection) -> Database:
        """The same database, always read by this connection, in the state that it sees."""
        other = copy.copy(self)
        other._held, other._seen_by = _Held(), connection
        return other

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end, or leaves nothing behind."""
        if self.backend.read_only:
            raise StoreError(f"the store {self.where} may not be written", hint=RIGHTS)
        with self._explained(), self._writing.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[bool]:
        """Hold ``name`` against all other processes; False where somebody else holds it."""
        with self._explained(), self.backend.exclusive(self._engine, name) as held:
            yield held

    def _begin(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("isolation_level") != "AUTOCOMMIT":
            self.backend.begin(connection, write=bool(options.get("kglink_write")))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            explained = self.backend.explain(error)
            if explained is None:
                raise
            raise explained from error

    # -------------------------------------------------------------------------- statements
    def bulk(self, connection: Connection, statement: UpdateBase, rows: Sequence[Row]) -> None:
        """Run a statement for many rows of plain values, given in the order of its parameters.

        The driver gets the tuples as they are: no parameter is looked at in between.
        """
        if rows:
            self.backend.run(connection, self._compiled(statement), rows)

    def raw_rows(
        self, connection: Connection, statement: Select[Any], values: Row
    ) -> Sequence[SQLRow[Any]]:
        """All rows of a query whose values are given in the order of its parameters."""
        return connection.exec_driver_sql(self._compiled(statement), values).all()

    def _compiled(self, statement: UpdateBase | Select[Any]) -> str:
        if statement not in self._sql:
            self._sql[statement] = str(statement.compile(dialect=self._engine.dialect))
        return self._sql[statement]

    def rows(self, statement: Select[Any]) -> list[Row]:
        """All rows of a query, in a transaction of their own."""
        with self.read() as connection:
            return [tuple(row) for row in connection.execute(statement)]

    # ------------------------------------------------------------------------------ schema
    def version(self, connection: Connection) -> str | None:
        """The schema of the tables; None where there are none."""
        tables = inspect(connection).get_table_names()
        if VERSION_TABLE in tables:
            version: str | None = connection.scalar(select(schema_version.c.version_num))
            return version
        foreign = metadata.tables.keys() & tables if self.backend.is_shared else tables
        if foreign:
            raise StoreError(
                f"{self.where} holds tables of another program",
                hint="Give the store a database or file of its own.",
            )
        return None

    def _migrate(self) -> None:
        with self.read() as connection:
            if self._is_current(connection):
                return
        with self.write() as connection:
            self.backend.lock_schema(connection)
            if not self._is_current(connection):  # another process may have been faster
                # Make the tables, or take the missing steps: all takes effect, or nothing.
                version = self.version(connection)
                if version is None:
                    make_tables(connection)
                else:
                    upgrade(connection, version, self.backend.words)

    def problems(self) -> list[str]:
        """What is broken in the database itself."""
        with self.read() as connection:
            version = self.version(connection)
            problems = self.backend.problems(connection)
        if version != SCHEMA_VERSION:
            problems.append(f"schema {version}, this kglink writes {SCHEMA_VERSION}")
        return problems

    def _check_origin(self) -> None:
        """Look once at a database that was made or copied elsewhere, before it is believed."""
        origin = self.backend.origin()
        known = select(store_state.c.origin)
        if not origin or self.rows(known)[0][0] == origin:
            return
        with self.read() as connection:
            problems = self.backend.quick_problems(connection)
        if problems:
            raise StoreError(f"the store {self.where} is damaged ({problems[0]})", hint=RESTORE)
        if not self.backend.read_only:
            with self.write() as connection:
                connection.execute(update(store_state).values(origin=origin))

    def _is_current(self, connection: Connection) -> bool:
        version = self.version(connection)
        if version is not None and version > SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.where} has schema {version}, "
                f"this kglink reads up to {SCHEMA_VERSION}",
                hint="Update kglink (pip install --upgrade kglink), or use another workspace.",
            )
        return version == SCHEMA_VERSION


def key_ranges(
    connection: Connection, table: Table, kb_id: int, size: int, *where: ColumnElement[bool]
) -> Iterator[ColumnElement[bool]]:
    """Cut the rows of a KB that ``where`` chooses into pages: conditions on keys, in order."""
    key = table.c.key
    query = select(key).where(table.c.kb_id == kb_id, *where)
    for page in pages(connection, query, size, key):
        yield (key >= page[0][0]) & (key <= page[-1][0])


def pages(
    source: Connection | Database, query: Select[Any], size: int, *place: ColumnElement[Any]
) -> Iterator[Sequence[Any]]:
    """The rows of a query in the order of its first columns, their ``place``, page by page.

    A database reads each page in a transaction of its own.
    """
    ordered = query.order_by(*place).limit(size)
    after: list[ColumnElement[bool]] = []
    while True:
        wanted = ordered.where(*after)
        rows = source.rows if isinstance(source, Database) else source.execute
        page = list(rows(wanted))
        if page:
            yield page
        if len(page) < size:
            return
        after = [tuple_(*place) > tuple(page[-1][: len(place)])]


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most ``size`` items."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def rows_in(
    connection: Connection,
    query: Select[Any],
    column: ColumnElement[Any],
    values: Iterable[Any],
    size: int = 250,
) -> Iterator[Any]:
    """The rows of a query whose ``column`` is one of some values, each of which comes once."""
    for some in chunks(dict.fromkeys(values), size):
        yield from connection.execute(query.where(column.in_(some)))


def keys_by_kb(ids: Iterable[EntityId], kbs: Collection[str]) -> dict[str, dict[str, None]]:
    """The keys of entities of ``kbs``, each once, without those that no database text can hold."""
    wanted: dict[str, dict[str, None]] = defaultdict(dict)
    for name in ids:
        if name.kb in kbs and not NEVER_STORED.search(name.key):
            wanted[name.kb][name.key] = None
    return wanted
