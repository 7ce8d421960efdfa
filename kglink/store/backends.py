"""What differs between the databases that can hold a store: SQLite and PostgreSQL.

Nothing outside this file names either of them.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sqlite3
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, Table, create_engine, event, func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import Insert

from kglink.errors import RIGHTS, StoreError, UsageError
from kglink.files.atomic import LockedError, file_lock

BUSY_SECONDS = 30.0
PAGES_OF_WAL = 16_384  # 64 MiB: index pages that many batches touch reach the file once
CACHE_KIB = 65_536
#: Each reader that is half-way holds a connection; errors tell no texts of users.
_POOL: Mapping[str, Any] = MappingProxyType({"max_overflow": -1, "hide_parameters": True})


class Backend(ABC):
    """One kind of database."""

    words: Mapping[str, str]
    """Its words for what `kglink.store.schema.STEPS` leave open."""
    is_shared = False
    """Whether other programs may have tables beside ours, of other names."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.where = url.render_as_string(hide_password=True)
        self.read_only = False

    @abstractmethod
    def engine(self, *, create: bool) -> Engine:
        """Make the engine; with ``create`` the database may be a new one."""

    @abstractmethod
    def begin(self, connection: Connection, *, write: bool) -> None:
        """Open the transaction of a fresh connection."""

    def refuse_strange(self, connection: Connection) -> None:
        """Refuse a database with parts that no store has."""
        del connection

    def origin(self) -> str:
        """Where the database was made; empty where nobody can bring one from elsewhere."""
        return ""

    def quick_problems(self, connection: Connection) -> list[str]:
        """What a quick look at the database itself finds broken."""
        del connection
        return []

    def lock_schema(self, connection: Connection) -> None:  # noqa: B027 - a write may be alone already
        """Keep other processes from migrating until this transaction ends."""

    @abstractmethod
    def exclusive(self, engine: Engine, name: str) -> contextlib.AbstractContextManager[bool]:
        """Hold ``name`` against all other processes; False where somebody else holds it.

        The operating system or server lets go of it when the holder dies, however it dies.
        """

    def run(self, connection: Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for many rows of plain values."""
        connection.exec_driver_sql(sql, list(rows))

    def upsert(self, table: Table, update: Sequence[str]) -> Insert:
        """An insert that sets the columns ``update`` anew where the primary key exists."""
        inserts: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        statement = inserts[self.url.get_backend_name()](table)
        made: Insert = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={name: statement.excluded[name] for name in update},
        )
        return made

    @abstractmethod
    def settle(self, connection: Connection) -> None:
        """Bring the statistics of the query planner up to date after a bulk write."""

    def problems(self, connection: Connection) -> list[str]:
        """What the database itself finds broken; a server looks after its files itself."""
        del connection
        return []

    @abstractmethod
    def explain(self, error: DBAPIError) -> StoreError | None:
        """The error in words for the user; None where it is a mistake of ours."""


def backend_for(url: URL) -> Backend:
    """The backend of a database URL."""
    kinds: dict[str, type[Backend]] = {"sqlite": SQLite, "postgresql": PostgreSQL}
    kind = kinds.get(url.get_backend_name())
    if kind is None:
        raise UsageError(
            f"no store in {url.get_backend_name()!r}: {url.render_as_string()}",
            hint="Use sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE.",
        )
    return kind(url)


class SQLite(Backend):
    """A file, in write-ahead mode: readers never wait, one writer at a time."""

    words: Mapping[str, str] = MappingProxyType({"name": "TEXT", "by_key": "WITHOUT ROWID"})

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        if not url.database or url.database == ":memory:" or url.query.get("mode") == "memory":
            raise UsageError(
                "a store in memory cannot be shared between connections",
                hint="Give a path, for instance in a temporary folder: sqlite:////tmp/kglink.db",
            )
        self.path = Path(url.database)
        self.where = str(self.path)

    def engine(self, *, create: bool) -> Engine:
        """Make the engine of a file whose folder exists; where nothing can be written, a reader."""
        if not self.path.parent.is_dir():
            raise StoreError(
                f"no folder {self.path.parent} for the store {self.path.name}",
                hint="Make the folder first, or check the path.",
            )
        if not self.path.exists() and create:
            self._make()
        if self.path.is_file() and not self.path.stat().st_size:
            raise StoreError(
                f"{self.path} is an empty file: what the store held is lost",
                hint="Restore it from a copy, or remove the file and add the KBs again.",
            )
        if not create and not self.path.is_file():
            raise StoreError(f"no store at {self.path}", hint="Add a KB first: kglink add-kb")
        self.read_only = self.path.is_file() and not _is_writable(self.path)
        engine = create_engine(self.url, **_POOL)
        event.listen(engine, "do_connect", self._connect)
        if self.read_only:
            event.listen(engine, "checkout", self._drop_old)
        return engine

    def _make(self) -> None:
        """Make a file that is a database from its first moment, whatever interrupts this."""
        try:
            with tempfile.TemporaryDirectory(prefix=".kglink-", dir=self.path.parent) as folder:
                draft = Path(folder) / "new.db"
                with contextlib.closing(sqlite3.connect(draft)) as fresh:
                    fresh.execute("PRAGMA journal_mode = WAL")
                try:
                    os.link(draft, self.path)
                except FileExistsError:  # another process was faster
                    return
                except OSError:  # a file system without links
                    draft.rename(self.path)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"the store {self.where} cannot be made: {error}",
                hint="Check the rights of that folder and the room on its disk.",
            ) from error

    def _drop_old(self, _: object, record: ConnectionPoolEntry, __: object) -> None:
        """Drop a kept connection that may not see what others have written since it was made."""
        is_new = record.info.pop("new", False)  # then it is used, however fast they write
        if not is_new and record.info["stamps"] != self._stamps():
            raise DisconnectionError

    def _stamps(self) -> list[tuple[int, int]]:
        """Sizes and times of the file and of its log of changes, where there are such."""
        found = []
        for path in (self.path, Path(f"{self.path}-wal")):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_size, status.st_mtime_ns))
        return found

    def _connect(self, _: object, record: ConnectionPoolEntry, *__: object) -> sqlite3.Connection:
        mode = ""
        if self.read_only:
            record.info.update(new=True, stamps=(stamps := self._stamps()))
            # Without a log of changes nobody writes, and nothing beside the file is needed.
            mode = "?mode=ro" if stamps[1:] and stamps[1][0] else "?immutable=1"
        # A path may hold the characters that a URL gives a meaning.
        where = f"file:{quote(str(self.path))}{mode}"
        connection = sqlite3.connect(where, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            self.tune(connection)
            if not self.read_only:
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    @staticmethod
    def tune(connection: sqlite3.Connection) -> None:
        """Set up a connection of the driver."""
        # The driver's own transactions would begin too late, at the first write.
        connection.isolation_level = None
        # What a file says of itself may not call functions, nor mislead the reader of a page.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_OF_WAL}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")

    def begin(self, connection: Connection, *, write: bool) -> None:
        """Take the write lock at once: a reader that turns writer may have to start over."""
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    def refuse_strange(self, connection: Connection) -> None:
        """Refuse what no store has, and damaged pages in a file that was made elsewhere."""
        master = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
        strange = connection.exec_driver_sql(f"{master} OR sql LIKE 'CREATE VIRTUAL%'").first()
        if strange is not None:
            raise StoreError(
                f"{self.where} holds a {strange[0]} {strange[1]!r} that runs when it is read: no "
                "kglink made it",
                hint="Use a store of your own: add the KBs again in another workspace.",
            )

    def origin(self) -> str:
        """The number of the file on its disk: a copy has another."""
        return str(self.path.stat().st_ino)

    def quick_problems(self, connection: Connection) -> list[str]:
        """What is wrong with the pages, without a look at the order of each index."""
        rows = connection.exec_driver_sql("PRAGMA quick_check(1)").scalars()
        return [str(row) for row in rows if row != "ok"]

    @contextlib.contextmanager
    def exclusive(self, engine: Engine, name: str) -> Iterator[bool]:
        """Lock a file beside the store; where nothing can be written nobody is to be kept away."""
        if self.read_only:
            yield True
            return
        path = Path(f"{self.path}.{name}.lock")
        with contextlib.ExitStack() as held:
            try:
                # `_drop_locks` of another process may hold it for a moment.
                held.enter_context(file_lock(path, wait=0.2, remove=True))
            except LockedError:
                yield False
                return
            except OSError as error:
                raise StoreError(
                    f"cannot make the lock file {path}: {error.strerror}",
                    hint="Check the rights of that folder and the room on its disk.",
                ) from error
            self._drop_locks(but=path)
            yield True

    def _drop_locks(self, *, but: Path) -> None:
        """Remove what killed holders have left; who takes one meanwhile makes it anew."""
        for path in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.lock"):
            if path != but:
                with contextlib.suppress(LockedError, OSError), file_lock(path, remove=True):
                    pass

    def settle(self, connection: Connection) -> None:
        """Sample each index; a full count would read the whole file."""
        connection.exec_driver_sql("PRAGMA analysis_limit = 1000")
        connection.exec_driver_sql("ANALYZE")

    def problems(self, connection: Connection) -> list[str]:
        """Pages, indexes and references."""
        rows = connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars()
        found = [f"damaged: {row}" for row in rows if row != "ok"]
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(10)
        return found + [f"damaged: a row of {row[0]} without its {row[2]}" for row in orphans]

    def explain(self, error: DBAPIError) -> StoreError | None:
        """By SQLite's primary result code."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        hints = {
            sqlite3.SQLITE_BUSY: (
                f"is locked: another process has been writing for {BUSY_SECONDS:.0f} seconds",
                "Wait until it is done, or stop it, and run this again.",
            ),
            sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", _AFTER_FULL),
            sqlite3.SQLITE_IOERR: (f"cannot be written or read ({error.orig})", _AFTER_FULL),
            sqlite3.SQLITE_READONLY: ("may not be written", RIGHTS),
            sqlite3.SQLITE_CANTOPEN: ("cannot be opened", RIGHTS),
            sqlite3.SQLITE_CORRUPT: (f"is damaged ({error.orig})", RESTORE),
            sqlite3.SQLITE_NOTADB: ("is no SQLite file", "Check the path."),
            sqlite3.SQLITE_TOOBIG: ("takes no text of a gigabyte", "Split the record."),
        }
        hints[sqlite3.SQLITE_LOCKED] = hints[sqlite3.SQLITE_BUSY]
        if getattr(error.orig, "sqlite_errorname", "") in _NO_ROOM:
            code = sqlite3.SQLITE_FULL
        if str(error.orig).startswith("Could not decode"):  # the driver's own, without a code
            return StoreError(f"the store {self.where} is damaged: no UTF-8", hint=RESTORE)
        if code not in hints:
            return None
        what, hint = hints[code]
        return StoreError(f"the store {self.where} {what}", hint=hint)


_AFTER_FULL = (
    "Make room on that disk and run the same command again: what was written before is kept."
)
#: A reader too needs room, for what it shares with writers.
_NO_ROOM = ("SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP")
RESTORE = "Restore it from a copy, or remove it and add the KBs again."


def _is_writable(path: Path) -> bool:
    """Whether a file can be changed, and its folder take the log of the changes."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


#: An insert of plain values, as it is compiled.
_INSERT = re.compile(
    r'INSERT INTO (\w+ \([\w, ]+\)) VALUES \((?:%s(?:::\w+(?: COLLATE "C")?)?(?:, |\)))+'
)


class PostgreSQL(Backend):
    """A database of a server."""

    words: Mapping[str, str] = MappingProxyType({"name": 'TEXT COLLATE "C"', "by_key": ""})
    is_shared = True

    def engine(self, *, create: bool) -> Engine:
        """Make the engine; the database exists, its tables may not."""
        del create
        try:
            # Parameters by position: a bulk write takes the same tuples. Servers may be restarted.
            options = {"connect_args": {"client_encoding": "utf8"}, **_POOL}  # other locales
            return create_engine(self.url, paramstyle="format", pool_pre_ping=True, **options)
        except ModuleNotFoundError as error:
            raise StoreError(
                f"no driver for {self.where}: {error.name} is missing",
                hint="pip install 'kglink[postgres]'",
            ) from error

    def begin(self, connection: Connection, *, write: bool) -> None:
        """Give a reader one state to look at; the driver has begun the transaction itself."""
        if not write:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def refuse_strange(self, connection: Connection) -> None:
        """Refuse a database that cannot hold the characters of every text."""
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            raise StoreError(
                f"the database of the store {self.where} has the encoding {encoding}, not UTF8",
                hint="Make one that has it: createdb --encoding UTF8 --template template0 NAME",
            )

    def lock_schema(self, connection: Connection) -> None:
        """One advisory lock for all migrations of this database."""
        connection.execute(select(func.pg_advisory_xact_lock(_lock_number("schema"))))

    @contextlib.contextmanager
    def exclusive(self, engine: Engine, name: str) -> Iterator[bool]:
        """Take an advisory lock of the session."""
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            number = _lock_number(name)
            attempt = select(func.pg_try_advisory_lock(number))
            # The server takes a moment to notice that the process of a session was killed.
            patience = time.monotonic() + 1.0
            while not (held := bool(connection.scalar(attempt))) and time.monotonic() < patience:
                time.sleep(0.1)
            try:
                yield held
            finally:
                if held:
                    with contextlib.suppress(DBAPIError):  # lost with its session: it is free
                        connection.execute(select(func.pg_advisory_unlock(number)))

    def run(self, connection: Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert by COPY, which is faster than a statement for each row."""
        plain = _INSERT.fullmatch(sql)
        if plain is None:
            super().run(connection, sql, rows)
            return
        driver: Any = connection.connection.driver_connection
        try:
            with driver.cursor() as cursor, cursor.copy(f"COPY {plain[1]} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        except connection.dialect.loaded_dbapi.Error as error:
            raise DBAPIError(sql, None, error) from error

    def settle(self, connection: Connection) -> None:
        """Sample the tables."""
        for table in _SAMPLED:
            connection.execute(text(f'ANALYZE "{table}"'))

    def explain(self, error: DBAPIError) -> StoreError | None:
        """By SQLSTATE, or by the driver's class where there was no connection."""
        driver: Any = error.orig
        state = driver.sqlstate or ""
        said = driver.diag.message_primary or driver  # its other lines tell texts of users
        if state == "53100":
            return StoreError(f"the store {self.where} cannot grow: disk full", hint=_AFTER_FULL)
        if not state or state.startswith(("08", "28", "3D", "53", "57P")):
            return StoreError(
                f"the store {self.where} does not answer: {said}",
                hint="Check that the server runs, and the name, user and password in the URL.",
            )
        if state.startswith(("25", "3F", "40", "42501", "54", "55", "57", "58", "XX")):
            return StoreError(
                f"the server of the store {self.where} refuses this: {said}",
                hint="Check the rights of its user, and its settings, such as timeouts; then run "
                "this again.",
            )
        return None


#: The tables that bulk writes fill.
_SAMPLED = (
    "kbs", "entities", "aliases", "parents", "documents", "mentions", "golds", "overlaps",
)  # fmt: skip


def _lock_number(name: str) -> Any:
    """A lock number of its own for each schema and name."""
    return func.hashtextextended(func.current_schema() + ".kglink." + name, 0)
