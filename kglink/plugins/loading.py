"""Plugin modules: found by their entry points, imported with care, their hooks checked.

A third-party module cannot end or hang a command, and cannot write to standard output: what
fails is reported as a `PluginError` that names the module and its distribution.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Literal, NoReturn, TypeVar

import pluggy

from kglink.errors import KglinkError, PluginError, UnknownNameError, UsageError
from kglink.plugins.hooks import HOOKS, HOOKS_OF_GROUP, PROJECT

#: Modules of plugins, of recipes and of commands.
Group = Literal["kglink", "kglink.recipes", "kglink.commands"]
Offer = TypeVar("Offer")

OWN_DISTRIBUTION = "kglink"
BUILTIN = "builtin"
ONLY_VARIABLE = "KGLINK_PLUGINS"
TRACE_VARIABLE = "KGLINK_TRACE_HOOKS"
SECONDS_VARIABLE = "KGLINK_PLUGIN_SECONDS"
#: How long a third-party module may take to be imported and to register.
SECONDS = 30.0


class PluginWarning(UserWarning):
    """A third-party plugin fails and is left out; everything else works."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A module that registers plugins, and the distribution that brought it."""

    distribution: str
    version: str
    module: str
    builtin: bool
    hooks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.module})"

    @property
    def remedy(self) -> str:
        """How to go on where it fails."""
        if self.builtin:
            return "This comes with kglink; install it again: pip install --force-reinstall kglink"
        name = self.distribution
        return (
            f"Update {name} or remove it (pip uninstall {name}), "
            f"or go on without third-party plugins: kglink --no-plugins, {ONLY_VARIABLE}={BUILTIN}"
        )


@dataclass(frozen=True, slots=True)
class PluginModule:
    """A module that an entry point names, not imported yet."""

    provider: Provider
    load: Callable[[], object]

    def hooks(self, group: Group) -> PluginHooks:
        """Import it and check the hooks that it implements."""
        with guarded(self.provider, f"{self.provider} cannot be imported"):
            module = self.load()
        return PluginHooks(self.provider, module, group)


def find_modules(group: Group = "kglink", only: str | None = None) -> list[PluginModule]:
    """The plugin modules of this environment, none imported: our own, then the others by name.

    ``only`` narrows the others: empty for all, ``builtin`` for none, else the names of the
    distributions to load, separated by commas; None takes the variable ``KGLINK_PLUGINS``.
    """
    found = [PluginModule(_provider(entry), entry.load) for entry in entry_points(group=group)]
    if group == "kglink" and not any(one.provider.builtin for one in found):
        raise PluginError(
            "the built-in plugins of kglink are not installed: no entry points found",
            hint="Install the package itself: pip install kglink, or pip install -e . in a clone.",
        )
    wanted = _wanted(os.environ.get(ONLY_VARIABLE, "") if only is None else only)
    found.sort(key=lambda one: (not one.provider.builtin, str(one.provider)))
    return [
        one
        for one in found
        if one.provider.builtin or wanted is None or normalized(one.provider.distribution) in wanted
    ]


def normalized(distribution: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _provider(entry: EntryPoint) -> Provider:
    # A distribution without metadata has neither name nor version.
    name = (entry.dist and entry.dist.name) or "unknown"
    version = (entry.dist and entry.dist.version) or "?"
    return Provider(name, version, entry.value, normalized(name) == OWN_DISTRIBUTION)


def _wanted(only: str) -> frozenset[str] | None:
    wanted = {normalized(part.strip()) for part in only.split(",") if part.strip()}
    if not wanted:
        return None
    known = {
        normalized(_provider(entry).distribution)
        for group in HOOKS_OF_GROUP
        for entry in entry_points(group=group)
    } - {OWN_DISTRIBUTION}
    for name in sorted(wanted - known - {BUILTIN}):
        raise UnknownNameError(f"distribution in {ONLY_VARIABLE}", name, known | {BUILTIN})
    return frozenset(wanted)


def offered(
    group: Group,
    what: str,
    read: Callable[[PluginModule], Mapping[str, Offer]],
    own: Iterable[str] = (),
) -> dict[str, Offer]:
    """What the modules of a group bring by name, beside our ``own`` names; ``read`` asks one.

    A module that fails is left out as a whole, and a `PluginWarning` says why.
    """
    found: dict[str, Offer] = {}
    brought_by = dict.fromkeys(own, OWN_DISTRIBUTION)
    for module in find_modules(group):
        try:
            added = read(module)
            for name in sorted(added.keys() & brought_by.keys()):
                raise PluginError(
                    f"the {what} {name!r} is registered twice: by {brought_by[name]} "
                    f"and by {module.provider}",
                    hint=module.provider.remedy,
                )
        except KglinkError as error:
            reason = f"{left_out(module.provider, error)} {error.hint}".rstrip()
            warnings.warn(reason, PluginWarning, stacklevel=3)
        else:
            found |= added
            brought_by |= dict.fromkeys(added, str(module.provider))
    return found


def left_out(provider: Provider, error: KglinkError) -> str:
    """A sentence: that a module is left out, and why; it names the module once."""
    why = re.sub(f"^{re.escape(str(provider))}:? ", "", error.message)
    return f"{provider} is left out: {why}."


class PluginHooks:
    """The hooks of an imported module, checked: they exist, are marked, take what they get."""

    def __init__(self, provider: Provider, module: object, group: Group) -> None:
        self.module = module
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(type("Specifications", (), dict(HOOKS)))
        try:
            self._manager.register(module)
        except pluggy.PluginValidationError as error:
            raise _wrong_signature(self._manager, provider, module, error) from error
        implemented = [caller.name for caller in self._manager.get_hookcallers(module) or ()]
        self.provider = replace(provider, hooks=tuple(implemented))
        _check_hooks(self.provider, module, group)

    def call(self, hook: str, **arguments: object) -> None:
        """Call one hook."""
        if os.environ.get(TRACE_VARIABLE, "") not in ("", "0"):
            sys.stderr.write(f"kglink: hook {hook} of {self.provider}\n")
        with guarded(self.provider, f"{hook} of {self.provider} fails"):
            getattr(self._manager.hook, hook)(**arguments)


def _check_hooks(provider: Provider, module: object, group: Group) -> None:
    for name in provider.hooks:
        if name not in HOOKS:
            near = difflib.get_close_matches(name, HOOKS, n=1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            raise PluginError(
                f"{provider} implements a hook that does not exist: {name!r}",
                hint=f"{guess}There is: {', '.join(HOOKS)}.",
            )
        if not provider.builtin:
            _check_group(provider, name, group)
    for name in HOOKS:
        # Without the mark it would never be called, and nobody would be told.
        if name not in provider.hooks and callable(getattr(module, name, None)):
            raise PluginError(
                f"{provider}: {name!r} is not marked as a hook",
                hint="Write @kglink.hookimpl above it.",
            )
    if not (provider.builtin or set(provider.hooks) & set(HOOKS_OF_GROUP[group])):
        raise PluginError(
            f"{provider} implements no hook of the entry point group {group!r}",
            hint="It may implement, marked with @kglink.hookimpl: "
            f"{', '.join(HOOKS_OF_GROUP[group])}.",
        )


def _check_group(provider: Provider, name: str, group: Group) -> None:
    """Refuse a hook that would never be called: its module is not named in the hook's group."""
    if name in HOOKS_OF_GROUP[group]:
        return
    other = next(other for other, hooks in HOOKS_OF_GROUP.items() if name in hooks)
    named = (_provider(entry) for entry in entry_points(group=other))
    if not any(
        (one.distribution, one.module) == (provider.distribution, provider.module) for one in named
    ):
        raise PluginError(
            f"{provider}: {name!r} is called only for modules of the entry point group {other!r}",
            hint=f'Name {provider.module} under [project.entry-points."{other}"] as well.',
        )


def _wrong_signature(
    manager: pluggy.PluginManager,
    provider: Provider,
    module: object,
    error: pluggy.PluginValidationError,
) -> PluginError:
    for name, hook in HOOKS.items():
        arguments = inspect.signature(hook).parameters
        implemented = manager.parse_hookimpl_opts(module, name) is not None
        given = inspect.signature(getattr(module, name)).parameters if implemented else {}
        if not set(given) <= set(arguments):
            return PluginError(
                f"{provider}: wrong signature: {name}({', '.join(given)})",
                hint=f"It must be {name}({', '.join(arguments)}).",
            )
    return PluginError(f"{provider}: {error}", hint=provider.remedy)


# ------------------------------------------------------------------------ third-party code
@contextmanager
def guarded(provider: Provider, failure: str, *, limited: bool = True) -> Iterator[None]:
    """Run code of a plugin; whatever it raises becomes a `PluginError` that begins ``failure``.

    What it prints goes to standard error. ``sys.exit`` and ``os._exit`` are errors, and so is a
    ``KeyboardInterrupt`` that no person sent. ``limited``: it may take some seconds only.
    """
    with ExitStack() as stack:
        if not provider.builtin:
            stack.enter_context(redirect_stdout(sys.stderr))
            stack.enter_context(_no_sudden_end())
            pressed = stack.enter_context(_noticing_interrupts())
            if limited:
                stack.enter_context(_time_limit(_seconds()))
        try:
            yield
        except KglinkError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and (provider.builtin or pressed()):
                raise
            raise PluginError(
                f"{failure}: {type(error).__name__}: {error}".rstrip(": "), hint=provider.remedy
            ) from error


class TooSlow(BaseException):
    """Not an `Exception`: the code that is too slow shall not catch it by the way."""


def _seconds() -> float:
    text = os.environ.get(SECONDS_VARIABLE, "")
    try:
        return float(text) if text else SECONDS
    except ValueError:
        raise UsageError(f"{SECONDS_VARIABLE}={text!r} is no number of seconds") from None


_really_exit = os._exit
#: The process in which this thread runs code of a plugin.
_guarded_process: ContextVar[int] = ContextVar("guarded_process", default=0)


def _exit(status: int) -> NoReturn:
    """``os._exit``; where a plugin calls it, but not in a child of its own, a `SystemExit`."""
    if _guarded_process.get() == os.getpid():
        raise SystemExit(status)
    _really_exit(status)


@contextmanager
def _no_sudden_end() -> Iterator[None]:
    os._exit = _exit
    before = _guarded_process.set(os.getpid())
    try:
        yield
    finally:
        _guarded_process.reset(before)


@contextmanager
def _noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Tell whether somebody has pressed Ctrl-C, which plugin code could imitate."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # no Ctrl-C gets here
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in the block after some seconds, where the system can."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlow(f"it takes more than {seconds:g} seconds ({SECONDS_VARIABLE})")

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, stop)
    # Again every second: code that catches everything shall not go on for ever.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = max(left - (time.monotonic() - began), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)
