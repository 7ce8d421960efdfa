"""The hooks that plugin modules implement: checked when a module comes in, called one by one."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pluggy

from kglink.errors import KglinkError, PluginError
from kglink.plugins import hooks as hookspecs
from kglink.plugins.registry.discovery import blame
from kglink.plugins.registry.plugin import Provider


class Hooks:
    """The plugin modules of one registry.

    A hook is called for one provider at a time, so that what it registers is known to be theirs.
    """

    def __init__(self, modules: Iterable[tuple[Provider, object]], *, trace: bool = False) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._modules: dict[Provider, object] = {}
        for provider, module in modules:
            self._admit(provider, module)
        if trace:
            self._manager.add_hookcall_monitoring(_write_call, _ignore_result)

    @property
    def providers(self) -> tuple[Provider, ...]:
        """All providers with the hooks that they implement."""
        return tuple(self._modules)

    def call(self, hook: str, provider: Provider, **arguments: object) -> None:
        """Call ``hook`` of one provider, whatever it raises told with the provider's name."""
        others = [module for other, module in self._modules.items() if other != provider]
        caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
        try:
            caller(**arguments)
        except KglinkError:
            raise
        except Exception as error:
            raise PluginError(
                f"{hook} of {provider} fails: {type(error).__name__}: {error}",
                hint=blame(provider),
            ) from error

    def _admit(self, provider: Provider, module: object) -> None:
        for other, known in self._modules.items():
            if known is module:
                raise PluginError(f"{provider} and {other} bring the same module")
        try:
            self._manager.register(module, name=str(provider))
        except pluggy.PluginValidationError as error:
            raise _wrong_signature(self._manager, provider, module, error) from error
        hooks = self._implemented(module)
        _refuse_unknown(provider, hooks)
        _refuse_unmarked(provider, module, hooks)
        self._manager.check_pending()
        self._modules[replace(provider, hooks=tuple(hooks))] = module

    def _implemented(self, module: object) -> list[str]:
        return [caller.name for caller in self._manager.get_hookcallers(module) or ()]


def hook_names() -> tuple[str, ...]:
    """Every hook that exists."""
    return tuple(name for name, value in vars(hookspecs).items() if hasattr(value, "kglink_spec"))


def _refuse_unknown(provider: Provider, hooks: Sequence[str]) -> None:
    known = hook_names()
    for name in hooks:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            raise PluginError(
                f"{provider} implements a hook that does not exist: {name!r}",
                hint=f"{guess}There is: {', '.join(known)}.",
            )


def _refuse_unmarked(provider: Provider, module: object, hooks: Sequence[str]) -> None:
    """Without ``@hookimpl`` a hook would never be called, and nobody would be told."""
    for name in hook_names():
        if name not in hooks and callable(getattr(module, name, None)):
            raise PluginError(
                f"{provider}: {name!r} is not marked as a hook",
                hint="Write @kglink.hookimpl above it.",
            )
    if not hooks:
        raise PluginError(
            f"{provider} implements no hook",
            hint=f"It may implement, marked with @kglink.hookimpl: {', '.join(hook_names())}.",
        )


def _wrong_signature(
    manager: pluggy.PluginManager,
    provider: Provider,
    module: object,
    error: pluggy.PluginValidationError,
) -> PluginError:
    for name in hook_names():
        arguments = inspect.signature(getattr(hookspecs, name)).parameters
        implemented = manager.parse_hookimpl_opts(module, name) is not None
        given = inspect.signature(getattr(module, name)).parameters if implemented else {}
        if not set(given) <= set(arguments):
            return PluginError(
                f"{provider}: wrong signature: {name}({', '.join(given)})",
                hint=f"It must be {name}({', '.join(arguments)}).",
            )
    return PluginError(f"{provider}: {error}", hint=blame(provider))


def _write_call(
    hook: str, implementations: Sequence[pluggy.HookImpl], arguments: Mapping[str, object]
) -> None:
    for implementation in implementations:
        sys.stderr.write(f"kglink: hook {hook} of {implementation.plugin_name}\n")


def _ignore_result(*_: object) -> None:
    """Only calls are traced."""
