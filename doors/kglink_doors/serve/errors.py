"""Errors as the server answers them: a status, what is wrong, and the fix."""

from __future__ import annotations

import json
import math
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from sqlalchemy.exc import SQLAlchemyError

from kglink.errors import (
    KBBusyError,
    KBChangedError,
    KglinkError,
    PluginError,
    ShrinkError,
    SourceError,
    SpaceBusyError,
    SpaceError,
    StoreError,
    UnknownNameError,
    UsageError,
    why_unwritten,
)
from kglink.text.printable import printable_line

if TYPE_CHECKING:
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError


def _number(given: object) -> object:
    if isinstance(given, bool):
        raise PydanticCustomError("number", "true and false are no numbers")
    return given


#: Numbers of JSON, in which Python would take true for 1.
Whole = Annotated[int, BeforeValidator(_number)]
Real = Annotated[float, BeforeValidator(_number)]


class BusyError(KglinkError):
    """More waits than the server bears."""


class TakenError(KglinkError):
    """A name that something has already."""


#: Errors that a retry may not meet.
PASSING = (BusyError, KBBusyError, KBChangedError, SpaceBusyError)
#: Seconds before it is tried.
_PAUSE = 0.2
Done = TypeVar("Done")


def patiently(
    do: Callable[[], Done], *, seconds: float = math.inf, tell: Callable[[], object] = lambda: None
) -> Done:
    """Do something, again while others build the space or change the KB; ``tell`` says so."""
    until = time.monotonic() + seconds
    while True:
        try:
            return do()
        except PASSING:
            if time.monotonic() > until:
                raise
            tell()
            time.sleep(_PAUSE)


FULL_DISK = 507
#: What is said of it: the error itself would tell the server's paths.
FULL_DISK_SHAPE = {"error": "the server's disk is full", "fix": "Make room there, then ask again."}
#: The status of each error, the first that fits.
_STATUS: tuple[tuple[type[KglinkError], int], ...] = (
    (UnknownNameError, 404),
    (PluginError, 500),
    (UsageError, 400),
    (SourceError, 400),
    (ShrinkError, 409),
    (TakenError, 409),
    (SpaceError, 503),
    (BusyError, 503),
    (StoreError, 503),
)


def status_of(error: KglinkError) -> int:
    """The HTTP status that says what an error is."""
    if why_unwritten(error.__cause__) == "full":
        return FULL_DISK
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


_SETTING = re.compile(r"--set (\w+=)(?:'([^']*)'|(\S+))")
_ENCODING = re.compile(r"--encoding ([\w-]*)")


def error_shape(error: KglinkError) -> dict[str, Any]:
    """An error as every route answers it."""
    if status_of(error) == FULL_DISK:
        return FULL_DISK_SHAPE
    hint = error.hint  # what reads a source advises options of the command line
    if "| kglink ... -" in hint:  # with the path of the file on this server
        hint = "Unpack it, and send it again."
    elif found := _ENCODING.search(hint):
        such = f"its encoding, such as &encoding={found[1]}"
        hint = f"Name {such if found[1] else 'another one by &encoding='}. Or send it in UTF-8."
    elif "--adapter" in hint:
        hint = "Name its adapter: &adapter=NAME."
    elif "--on-error" in hint:
        hint = "Mend it, and send it again."
    # What `kglink add-kb` advises, as parameters of the route that does the same.
    hint = _SETTING.sub(lambda found: f"&set={found[1]}{found[2] or found[3]}", hint)
    hint = hint.replace("run the same command with --allow-shrink", "add &allow_shrink=true")
    hint = re.sub("--links-to ?", "&links_to=", hint).replace("--resolve", "&resolve=")
    return {"error": error.message, "fix": hint}


def crash_shape(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the shape of an error that is not kglink's."""
    match error:
        case OSError() if why_unwritten(error) == "full":
            return FULL_DISK, FULL_DISK_SHAPE
        case OSError():
            return 500, {"error": error.strerror or str(error), "fix": "See the server's log."}
        case SQLAlchemyError():
            reason = str(getattr(error, "orig", None) or type(error).__name__)
            what = f"the store does not answer: {reason}"
            return 503, {"error": what, "fix": "kglink doctor says more."}
        case _:  # the log has where
            what = f"unexpected error: {type(error).__name__}"
            return 500, {"error": what, "fix": "This is a bug: see the log."}


def logged_crash(error: Exception) -> tuple[int, str, str]:
    """Its status, what is wrong and the fix; the log says more, of what is no bug in one line."""
    status, shape = crash_shape(error)
    told = traceback.format_exception(error)
    if status in (503, FULL_DISK):
        told = [f"{status}: {printable_line(str(getattr(error, 'orig', error)))}\n"]
    sys.stderr.writelines(told)
    return status, shape["error"], shape["fix"]


def first_error(error: ValidationError | RequestValidationError, of: str = "it") -> str:
    """Where the first wrong value is, else what it is ``of``, and what is wrong with it."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or of}: {first['msg']}"


def json_error(error: BaseException) -> UsageError:
    """Why a body or a line is no JSON, and the fix."""
    why = str(error)
    if isinstance(error, RecursionError):
        why = "it is nested too deeply"
    elif isinstance(error, UnicodeDecodeError):
        why = f"byte {error.start} is not UTF-8"
    return UsageError(f"not valid JSON: {why}", hint="Send JSON in UTF-8.")


#: Places of a text that are explained at once.
_MOST_PLACES = 100


def refuse_many_places(text: str, surface: str, fix: str) -> None:
    """Refuse to explain a surface that stands at too many places of a text."""
    if surface and text.count(surface) > _MOST_PLACES:
        raise UsageError(f"{surface!r} stands at more than {_MOST_PLACES} places", hint=fix)


def parsed(text: str | bytes) -> object:
    """JSON in any spelling that JavaScript writes; half of a surrogate pair becomes U+FFFD."""
    try:
        found = json.loads(text.removeprefix("\ufeff") if isinstance(text, str) else text)
        raw = json.dumps(found, ensure_ascii=False).encode("utf-16", "surrogatepass")
    except (ValueError, RecursionError) as error:
        raise json_error(error) from error
    sound: object = json.loads(raw.decode("utf-16", "replace"))
    return sound
