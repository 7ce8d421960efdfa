"""Every error that kglink raises on purpose.

KglinkError                 what went wrong, where, and how to mend it (exit code 1)
├── UsageError              the command or call itself is off (exit code 2)
│   ├── ConfigError         a setting, a flag or kglink.toml
│   ├── UnknownNameError    a KB, plugin, adapter, space or document that does not exist
│   └── PluginError         a plugin that cannot be registered, found or loaded
├── SourceError             a file or stream that cannot be read as what it should be
│   └── RecordError         one bad record in it (``--on-error skip`` passes over it)
├── StoreError              the entity store: locked, newer schema, full disk
│   ├── ShrinkError         an update that would remove most entities of a KB
│   └── KBBusyError         a KB that another process is changing
├── DamagedFileError        a file of kglink's own that is not as it was written
├── NewerFileError          a file that a newer kglink wrote
├── ModelError              weights that are missing, altered or of another kind
├── TrainingError           fine-tuning that cannot go on: a loss that is no number, memory
└── SpaceError              a space that is missing, of another model, or cannot be written
    ├── SpaceBusyError      a space that another process is building
    ├── KBChangedError      a KB that was changed while a space was made of it
    └── DamagedSpaceError   a space whose files are not as they were written

RunWarning                  a warning, no error: a training run that cannot be read is left out
"""

from __future__ import annotations

import copyreg
import difflib
import errno
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Literal

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)
#: The code of a full disk in SQLite, whose module takes a moment to import.
_SQLITE_FULL = 13
#: How to mend a missing right.
RIGHTS = "Check the rights of file and folder, and whether their disk may be written."
#: A list of what exists helps only while it can be read at a glance.
MOST_NAMES = 20
#: What libraries say where Python would raise a MemoryError.
_NO_MEMORY = (
    "failed to map segment", "llocate memory", "bad_alloc", "bad allocation", "unable to mmap",
)  # fmt: skip
#: Characters of an error of somebody else's that are shown.
_MOST_REASON = 200


class KglinkError(Exception):
    """Anything kglink refuses or fails to do; ``hint`` says how to fix it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """It passes whole from one process to another, whatever its kind is made of."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # typed without


class UsageError(KglinkError):
    """The call itself is off."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting that does not exist or has a value that it cannot have."""


class UnknownNameError(UsageError):
    """A name that nothing answers to; lists what exists and the nearest of it.

    ``known`` is None where there may be millions.
    """

    def __init__(
        self, what: str, name: str, known: Iterable[str] | None, *, hint: str = ""
    ) -> None:
        names = sorted(known or ())
        many = len(names) > MOST_NAMES
        near = difflib.get_close_matches(str(name), names, n=3 if many else 1)
        more = f" and {len(names) - MOST_NAMES:,} more" if many else ""
        quoted = repr if any("," in one for one in names) else str
        shown = ", ".join(map(quoted, names[:MOST_NAMES])) + more
        exist = f"There is: {shown}." if names else f"There is no {what} yet."
        if known is None or (many and near):
            exist = ""
        guess = f"Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(
            f"unknown {what} {name!r}", hint=" ".join(filter(None, (guess, exist, hint)))
        )
        self.name = name
        self.known = names


class PluginError(UsageError):
    """A plugin that cannot be registered, found or loaded."""


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, by whichever library."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def why_unwritten(error: BaseException | None) -> Literal["full", "rights", ""]:
    """Whether a disk is full, or a right to write is missing, whoever says so."""
    own = getattr(error, "orig", error)  # what the database driver said
    number = getattr(own, "errno", None)
    by_numpy = isinstance(own, OSError) and "requested and" in str(own)  # has no number
    by_sqlite = getattr(own, "sqlite_errorcode", None) == _SQLITE_FULL
    full = by_numpy or by_sqlite or number in _FULL
    return "full" if full else "rights" if number in _NO_RIGHT else ""


def reason_of(error: BaseException) -> str:
    """The kind of an error of somebody else's, and how its text begins."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")[:_MOST_REASON]


#: Whether this is the command line, whose output and whose end are no plugin's.
is_command: ContextVar[bool] = ContextVar("is_command", default=False)


@contextmanager
def prints_aside() -> Iterator[None]:
    """In a command what is printed meanwhile goes to standard error, so that JSON stays JSON.

    In the main thread alone: all threads have one `sys.stdout`.
    """
    if not is_command.get() or threading.current_thread() is not threading.main_thread():
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def errors_of(plugin: str) -> Iterator[None]:
    """Whatever a plugin raises of its own becomes a `PluginError` naming it.

    In a command ``sys.exit`` does, too; elsewhere it may be a signal's, and ends the program.
    """
    try:
        with prints_aside():
            yield
    except (Exception, SystemExit) as error:
        ends = isinstance(error, SystemExit) and not is_command.get()
        known = isinstance(error, KglinkError | OSError)
        if ends or known or is_of_memory(error) or why_unwritten(error):
            raise
        hint = "This is a mistake of the plugin: --debug shows where."
        raise PluginError(f"{plugin} failed with {reason_of(error)}", hint=hint) from error


@contextmanager
def naming_missing_right(what: str, kind: type[KglinkError] = KglinkError) -> Iterator[None]:
    """A missing right becomes an error which says that ``what`` may not be written."""
    try:
        yield
    except OSError as error:
        if why_unwritten(error) != "rights":
            raise
        where = f"{error.filename}: " if error.filename else ""
        raise kind(f"{what} may not be written: {where}{error.strerror}", hint=RIGHTS) from error


class SourceError(KglinkError):
    """A file or stream that cannot be read as what it should be."""


class RecordError(SourceError):
    """One bad record of a source; ``where`` is its line, byte or page."""

    def __init__(self, message: str, *, where: str, hint: str = "") -> None:
        super().__init__(f"{where}: {message}", hint=hint)
        self.where = where
        self.reason = message


class StoreError(KglinkError):
    """The entity store cannot do this: locked, of a newer schema, out of space."""


class KBBusyError(StoreError):
    """A KB that another process is changing."""


class DamagedFileError(KglinkError):
    """A file of kglink's own that is missing or not as it was written."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message, hint="`kglink build` makes the files of a space anew; see `kglink doctor`."
        )


class NewerFileError(KglinkError):
    """A file that a newer kglink wrote."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Upgrade kglink, or make it anew with this one.")


class ShrinkError(StoreError):
    """An update would remove most entities of a KB, and nobody has said that it may."""


class ModelError(KglinkError):
    """Weights that are missing, altered or of another kind."""


class TrainingError(KglinkError):
    """Fine-tuning cannot go on: a loss that is no number, too little memory, other settings."""


class SpaceError(KglinkError):
    """A space that is missing, made by another model, or cannot be written."""


class SpaceBusyError(SpaceError):
    """A space that another process is building."""


class KBChangedError(SpaceError):
    """A KB that was changed while a space was made of it."""


class DamagedSpaceError(SpaceError):
    """A space whose files are missing or not as they were written; a build replaces them."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message, hint="Run `kglink build` for that space; if that does not help, with --fresh."
        )


class RunWarning(UserWarning):
    """A training run that cannot be read is left out."""
