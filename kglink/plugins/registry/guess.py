"""Guessing the adapter of a source from its beginning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kglink.errors import KglinkError, PluginError, SourceError
from kglink.plugins.protocols import Sniff
from kglink.plugins.registry.discovery import blame
from kglink.plugins.registry.plugin import Plugin
from kglink.sources import SourceHead, check_text


class Guess(NamedTuple):
    """The adapter that is surest of a source, and the next one where another is sure at all."""

    name: str
    confidence: float
    runner_up: Guess | None = None


def guess_kb(plugins: Iterable[Plugin], head: SourceHead) -> Guess:
    """The adapter for a source; one that none knows, or two know equally well, is an error."""
    adapters = list(plugins)
    ranked = sorted(
        (-_confidence(plugin, plugin.sniff, head), plugin.name)
        for plugin in adapters
        if plugin.sniff
    )
    sure = [Guess(name, -negative) for negative, name in ranked if negative]
    names = ", ".join(plugin.name for plugin in adapters)
    if not sure:
        check_text(head.name, head.head)
        raise SourceError(
            f"{head.name}: no KB adapter knows this format",
            hint=f"Name the adapter with --adapter. There is: {names}.",
        )
    best, second = sure[0], sure[1] if len(sure) > 1 else None
    if second is not None and best.confidence == second.confidence:
        raise SourceError(
            f"{head.name}: {best.name} and {second.name} both know this format equally well",
            hint=f"Name one with --adapter, such as --adapter {best.name}.",
        )
    return Guess(best.name, best.confidence, second)


def _confidence(plugin: Plugin, sniff: Sniff, head: SourceHead) -> float:
    try:
        confidence = float(sniff(head))
    except KglinkError:
        raise
    except Exception as error:
        raise PluginError(
            f"{plugin.title} of {plugin.provider} fails on the beginning of {head.name}: "
            f"{type(error).__name__}: {error}",
            hint=blame(plugin.provider),
        ) from error
    if not 0 <= confidence <= 1:
        raise PluginError(
            f"{plugin.title} of {plugin.provider} is {confidence} sure of {head.name}; "
            "that must lie between 0 and 1",
            hint=blame(plugin.provider),
        )
    return confidence
