"""The hooks that a plugin may implement; `docs/plugins.md` shows each with an example.

Every hook is called once, when the registry is loaded, and registers *factories*: nothing heavy
is imported or built before a factory is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from kglink.plugins.protocols import Factory, PluginSettings, Sniff

PROJECT = "kglink"

hookspec = pluggy.HookspecMarker(PROJECT)
#: Marks a function of a plugin's module as the implementation of the hook of the same name.
hookimpl = pluggy.HookimplMarker(PROJECT)


class Register(Protocol):
    """What a hook calls, once for each thing that its plugin offers."""

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
    ) -> None:
        """Offer ``factory`` under ``name`` (``vendor/name``, lower case).

        Args:
            name: How users call it; they may leave the vendor out where no other has the name.
            factory: Called as ``factory(settings)``, or ``factory(settings, names)`` for a
                detector, each time that one is needed.
            settings: The class of its settings; None for a plugin without any.
            summary: One line for ``kglink plugins``.
            extra: The extra of its distribution to install where the factory misses a module.
        """
        ...


class RegisterKB(Protocol):
    """`Register`, with a ``sniff`` by which the adapter of a source is guessed."""

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
        sniff: Sniff | None = None,
    ) -> None:
        """Offer a KB adapter; ``sniff(head)`` says from 0 to 1 how sure it is of a source."""
        ...


@hookspec
def register_kbs(register: RegisterKB) -> None:
    """Offer KB adapters: ``factory(settings)`` makes a `kglink.plugins.KBAdapter`."""


@hookspec
def register_detectors(register: Register) -> None:
    """Offer detectors: ``factory(settings, names)`` makes a `kglink.plugins.Detector`."""


@hookspec
def register_overlap_evidence(register: Register) -> None:
    """Offer evidence of overlaps: ``factory(settings)`` makes a `kglink.plugins.PairEvidence`."""


@hookspec
def register_scorers(register: Register) -> None:
    """Offer scorers: ``factory(settings)`` makes a `kglink.plugins.Scorer`."""


@hookspec
def register_samplers(register: Register) -> None:
    """Offer samplers of negatives: ``factory(settings)`` makes a `kglink.plugins.Sampler`."""


@hookspec
def register_objectives(register: Register) -> None:
    """Offer training objectives: ``factory(settings)`` makes a `kglink.plugins.Objective`."""


@hookspec
def register_index_backends(register: Register) -> None:
    """Offer index back ends: ``factory(settings)`` makes a `kglink.plugins.IndexBackend`."""


@hookspec
def register_rerankers(register: Register) -> None:
    """Offer rerankers: ``factory(settings)`` makes a `kglink.plugins.Reranker`."""


@hookspec
def register_clusterers(register: Register) -> None:
    """Offer clusterers: ``factory(settings)`` makes a `kglink.plugins.Clusterer`."""


@hookspec
def register_exporters(register: Register) -> None:
    """Offer output formats: ``factory(settings)`` makes a `kglink.plugins.Exporter`."""


@hookspec
def register_commands(app: Any) -> None:
    """Add commands to ``app``, the `typer.Typer` of the ``kglink`` command."""


@hookspec
def register_routes(app: Any) -> None:
    """Add pages to ``app``, the `fastapi.FastAPI` of ``kglink serve``."""
