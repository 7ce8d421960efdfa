"""The `kglink` command: the app is built by a function, errors are printed in one place."""

from __future__ import annotations

import io
import os
import resource
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import NoReturn, TextIO

import typer
from typer import Option

from kglink.errors import (
    RIGHTS,
    KglinkError,
    RunWarning,
    is_command,
    is_of_memory,
    why_unwritten,
)
from kglink.plugins.loading import BUILTIN, ONLY_VARIABLE, PluginWarning
from kglink.workspace.folder import WORKSPACE_VARIABLE
from kglink_cli.commands import EXAMPLES, add_commands, epilog
from kglink_cli.console import note, print_error, say, tell
from kglink_cli.interrupts import (
    forget_interrupts,
    heed_interrupts,
    stop_came,
    stopped_code,
    tell_of_stop,
)
from kglink_cli.plugins_command import CommandGroup
from kglink_cli.session import DEBUG_VARIABLE

EPILOG = f"""{epilog(EXAMPLES[""])}

Documentation: docs/ in the project. Settings: kglink settings."""


def build_app() -> typer.Typer:
    """The app with our commands and those of installed plugins."""
    app = typer.Typer(
        name="kglink",
        cls=CommandGroup,
        help="Link text to several knowledge bases at once, in one joint vector space.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    add_commands(app)
    return app


_MENDS = {"full": "Make room there and run the same command again.", "rights": RIGHTS, "": ""}
#: How typer ends where it sees a KeyboardInterrupt.
_INTERRUPTED = 130


def run() -> None:
    """Run the command line: an error is one message and an exit code, not a traceback."""
    before = is_command.set(True)
    _prepare_output()
    heed_interrupts()
    guard_imports()
    warnings.showwarning = _show_warning
    try:
        build_app()(prog_name="kglink")
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            _stopped()
        _finish_output()
        raise
    except KeyboardInterrupt:
        _stopped()
    except Exception as error:  # noqa: BLE001 - the last resort: a person reads this
        _fail(error)
    finally:
        is_command.reset(before)
        forget_interrupts()


def _stopped() -> NoReturn:
    tell_of_stop(print_error)
    code = stopped_code()
    with suppress(SystemExit):
        _finish_output()
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say which plugin or run is left out; other warnings look as they always do."""
    if issubclass(category, (PluginWarning, RunWarning)):
        note("plugins" if issubclass(category, PluginWarning) else "runs", str(message))
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        for one in text.splitlines():
            tell(one)


def _prepare_output() -> None:
    """Texts of any language go out as UTF-8, whatever the locale; a closed output is no output."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    # Keep standard output for what kglink prints: whatever else is written there goes to errors.
    ours, errors = sys.__stdout__, sys.__stderr__
    if ours is None or errors is None or ours is not sys.stdout or ours.isatty():
        return
    ours.flush()
    kept = open(os.dup(ours.fileno()), "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115, PTH123 - open to the end
    kept.reconfigure(write_through=ours.write_through)
    os.dup2(errors.fileno(), ours.fileno())
    sys.stdout = kept


def _finish_output(*, is_told: bool = False) -> None:
    """Write what is left; where nobody reads on (`kglink recipes | head`) that is no error.

    ``is_told``: an error of the system was told, and what fails here is the same once more.
    """
    if sys.stdout.closed:  # by a plugin
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        # What Python flushes once more at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not (is_told or isinstance(error, BrokenPipeError)):
            print_error(f"standard output: {error.strerror or error}", "Is the disk full?")
            sys.exit(1)


def _fail(error: Exception) -> NoReturn:
    if "--debug" in sys.argv or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        raise error
    if stop_came():
        _stopped()
    what, code = f"{type(error).__name__}: {error}", 1
    notes = getattr(error, "__notes__", ())
    whose = "".join(f" {note}" for note in notes if note.startswith("of "))
    message, hint = f"unexpected error: {what}", f"This is a bug{whose}: --debug shows where."
    if isinstance(error, KglinkError):
        message, hint, code = error.message, error.hint, error.exit_code
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        message, hint = f"{where}{error.strerror or error}", _MENDS[why_unwritten(error)]
    elif is_of_memory(error):
        message = "out of memory"
        hint = "Make ingest.max_text_mb, ingest.batch_size or link.candidates smaller."
    print_error(message, hint)
    with suppress(SystemExit):  # the output may be what has failed: that was printed
        _finish_output(is_told=isinstance(error, OSError))
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"kglink {version('kglink')}")
        raise typer.Exit


def _leave_out_plugins(wanted: bool) -> None:
    """Whoever loads plugins from here on, this process or one that it starts, loads ours alone."""
    if wanted:
        os.environ[ONLY_VARIABLE] = BUILTIN


def _options(
    context: typer.Context,
    workspace: Path | None = Option(
        None,
        "--workspace",
        "-w",
        help=f"Workspace folder ({WORKSPACE_VARIABLE}); by default this folder or one above it.",
        file_okay=False,
    ),
    debug: bool = Option(False, "--debug", help=f"Show tracebacks ({DEBUG_VARIABLE}=1)."),
    no_plugins: bool = Option(
        False,
        "--no-plugins",
        help=f"Load no third-party plugins ({ONLY_VARIABLE}={BUILTIN}).",
        callback=_leave_out_plugins,
        is_eager=True,
    ),
    show_version: bool = Option(
        False, "--version", help="Show the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Options that stand before the command."""
    del debug, no_plugins, show_version
    context.obj = workspace  # what `open_workspace` opens


#: MiB that each needs from its import to its first result. With less they hang or end by a signal,
#: in their own initialisation or in a thread of theirs, where no exception can be caught. Measured
#: with MiniLM, and a fifth more.
NEEDS = MappingProxyType({"scipy.linalg": 250, "faiss": 450, "torch": 1500})
_STATM = Path("/proc/self/statm")


class _Guard(MetaPathFinder):
    """Finds nothing; refuses what there is no room for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse one of the libraries where the limit leaves too little for it."""
        if fullname not in NEEDS:
            return None
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        taken = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        left = max(0, limit - taken) >> 20
        if left < NEEDS[fullname]:
            raise KglinkError(
                f"out of memory: {fullname} needs {NEEDS[fullname]:,} MiB of address space, and the"
                f" limit of {limit >> 20:,} MiB leaves {left:,}",
                hint="Raise the limit of this shell: ulimit -v unlimited",
            )
        return None


def guard_imports() -> None:
    """Refuse libraries that the limit on address space (`ulimit -v`) has no room for."""
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if limited and _STATM.exists():
        sys.meta_path.insert(0, _Guard())
