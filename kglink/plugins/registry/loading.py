"""Building the registry: every module found, every hook checked, each called once."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kglink.plugins.registry.discovery import ONLY_VARIABLE, find_modules
from kglink.plugins.registry.hooks import Hooks
from kglink.plugins.registry.plugin import HOOK_OF_KIND, Provider
from kglink.plugins.registry.registration import Registration, Shelf
from kglink.plugins.registry.registry import Registry

TRACE_VARIABLE = "KGLINK_TRACE_HOOKS"


def load_registry(*, only: str | None = None, trace: bool = False) -> Registry:
    """Load the plugins of this environment; every call reads it anew.

    Args:
        only: ``builtin``, or the third-party distributions to load, separated by commas; None
            takes the variable ``KGLINK_PLUGINS``, and empty text means all.
        trace: Write each hook call to standard error, as ``KGLINK_TRACE_HOOKS=1`` does.
    """
    chosen = os.environ.get(ONLY_VARIABLE, "") if only is None else only
    traced = trace or os.environ.get(TRACE_VARIABLE, "") not in ("", "0")
    return registry_of(find_modules(chosen), trace=traced)


def registry_of(modules: Iterable[tuple[Provider, object]], *, trace: bool = False) -> Registry:
    """The registry of these modules and no others."""
    hooks = Hooks(modules, trace=trace)
    shelf: Shelf = {}
    for provider in hooks.providers:
        for kind, hook in HOOK_OF_KIND.items():
            if hook in provider.hooks:
                hooks.call(hook, provider, register=Registration(kind, provider, shelf))
    return Registry(shelf.values(), hooks)
