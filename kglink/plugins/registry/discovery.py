"""Finding the modules that register plugins: entry points of the group ``kglink``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from kglink.errors import PluginError, UnknownNameError
from kglink.plugins.registry.plugin import Provider

GROUP = "kglink"
OWN_DISTRIBUTION = "kglink"
BUILTIN = "builtin"
ONLY_VARIABLE = "KGLINK_PLUGINS"


def find_modules(only: str) -> list[tuple[Provider, object]]:
    """Import the plugin modules of this environment: our own, then the others by name.

    ``only`` narrows the others: empty for all, ``builtin`` for none, else the names of the
    distributions to load, separated by commas.
    """
    found = sorted(_entries(), key=lambda pair: (not pair[0].builtin, str(pair[0])))
    if not any(provider.builtin for provider, _ in found):
        raise PluginError(
            "the built-in plugins of kglink are not installed: no entry points found",
            hint="Install the package itself: pip install kglink, or pip install -e . in a clone.",
        )
    wanted = _wanted(only, {provider.distribution for provider, _ in found if not provider.builtin})
    return [
        (provider, _load(provider, entry))
        for provider, entry in found
        if provider.builtin or wanted is None or normalized(provider.distribution) in wanted
    ]


def normalized(distribution: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def blame(provider: Provider) -> str:
    """How to go on without a plugin that fails."""
    if provider.builtin:
        return "This comes with kglink; install it again: pip install --force-reinstall kglink"
    name = provider.distribution
    return (
        f"Update {name} or remove it (pip uninstall {name}), "
        f"or go on without third-party plugins: {ONLY_VARIABLE}={BUILTIN}"
    )


def _entries() -> Iterator[tuple[Provider, EntryPoint]]:
    for entry in entry_points(group=GROUP):
        name, version = (entry.dist.name, entry.dist.version) if entry.dist else ("unknown", "?")
        builtin = normalized(name) == OWN_DISTRIBUTION
        yield Provider(name, version, entry.value, builtin), entry


def _wanted(only: str, installed: set[str]) -> frozenset[str] | None:
    asked = [part.strip() for part in only.split(",") if part.strip()]
    if not asked:
        return None
    known = {normalized(name) for name in installed}
    wanted = {normalized(name) for name in asked} - {BUILTIN}
    for name in sorted(wanted - known):
        raise UnknownNameError(f"distribution in {ONLY_VARIABLE}", name, known | {BUILTIN})
    return frozenset(wanted)


def _load(provider: Provider, entry: EntryPoint) -> object:
    """Import one module, whatever it raises told as an error that names its distribution."""
    try:
        return entry.load()
    except Exception as error:
        raise PluginError(
            f"plugin module {entry.value} of {provider.distribution} {provider.version} "
            f"cannot be imported: {type(error).__name__}: {error}",
            hint=blame(provider),
        ) from error
