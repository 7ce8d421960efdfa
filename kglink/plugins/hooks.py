"""The table of plugin kinds, and the hooks of each; `docs/plugins.md` shows them with examples.

A hook is called once, when its module is loaded, and registers *factories*: nothing heavy is
imported or built before a factory is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import pluggy

if TYPE_CHECKING:
    from kglink.plugins.protocols import Factory, PluginSettings, Sniff


Kind = Literal[
    "kb",
    "detector",
    "evidence",
    "overlap-evidence",
    "scorer",
    "sampler",
    "objective",
    "index",
    "reranker",
    "clusterer",
    "exporter",
]


class PluginKind(NamedTuple):
    """All that is known of a kind of plugin; its template lies in ``plugins/template/NAME``."""

    name: Kind
    hook: str
    word: str
    """What messages call one of them."""
    protocol: str
    """What a factory makes: a name in `kglink.plugins`."""
    factory: str = "factory(settings)"
    """How a factory is called."""

    @property
    def contract(self) -> str:
        """What checks it: a name in `kglink.testing`."""
        return f"{self.protocol}Contract"

    @property
    def plural(self) -> str:
        """What messages call several."""
        return self.word if self.word.endswith("evidence") else f"{self.word}s"


_TABLE = (
    PluginKind("kb", "register_kbs", "KB adapter", "KBAdapter"),
    PluginKind(
        "detector", "register_detectors", "detector", "Detector", "factory(settings, names)"
    ),
    PluginKind("evidence", "register_evidence", "evidence", "CandidateEvidence"),
    PluginKind("overlap-evidence", "register_overlap_evidence", "overlap evidence", "PairEvidence"),
    PluginKind("scorer", "register_scorers", "scorer", "Scorer"),
    PluginKind("sampler", "register_samplers", "sampler", "Sampler"),
    PluginKind("objective", "register_objectives", "objective", "Objective"),
    PluginKind("index", "register_index_backends", "index back end", "IndexBackend"),
    PluginKind("reranker", "register_rerankers", "reranker", "Reranker"),
    PluginKind("clusterer", "register_clusterers", "clusterer", "Clusterer"),
    PluginKind("exporter", "register_exporters", "exporter", "Exporter"),
)

#: By name, in the order in which kinds are listed.
KINDS: Mapping[Kind, PluginKind] = MappingProxyType({kind.name: kind for kind in _TABLE})

PROJECT = "kglink"

hookspec = pluggy.HookspecMarker(PROJECT)
#: Marks a function of a plugin's module as the implementation of the hook of the same name.
hookimpl = pluggy.HookimplMarker(PROJECT)


class Register(Protocol):
    """A hook calls it once for each thing that its plugin offers."""

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
        sniff: Sniff | None = None,
        texts: bool = False,
    ) -> None:
        """Offer ``factory`` under ``name`` (``vendor/name``, lower case).

        Args:
            name: The name for users, who may omit the vendor if kglink has none of that name.
            factory: Called as ``factory(settings)``, or ``factory(settings, names)`` for a
                detector, each time one is needed.
            settings: The class of its settings; None for a plugin without any.
            summary: One line for ``kglink plugins``.
            extra: The extra of its distribution that brings the modules which the factory needs.
            sniff: For KB adapters: ``sniff(head)`` gives the probability that a source with this
            beginning has its format.
            texts: For KB adapters: it reads texts to be linked, such as mails. ``kglink link`` asks
                its sniff, ``kglink add-kb`` does not.
        """
        ...


def _register_hook(kind: PluginKind) -> Callable[..., None]:
    """The hook of a kind."""

    def hook(register: Register) -> None: ...

    hook.__name__ = hook.__qualname__ = kind.hook
    hook.__doc__ = (
        f"Offer {kind.plural}: ``{kind.factory}`` makes a `kglink.plugins.{kind.protocol}`."
    )
    marked: Callable[..., None] = hookspec(hook)
    return marked


@hookspec
def register_recipes(register: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Offer recipes: ``register("vendor/name", values)``, values nested as in a recipe's file."""


@hookspec
def register_commands(app: Any) -> None:
    """Add commands to ``app``, a ``typer.Typer``; ``kglink`` then has them."""


#: The entry point groups, and the hooks that are called for the modules named in each.
HOOKS_OF_GROUP: Mapping[str, Mapping[str, Callable[..., None]]] = MappingProxyType(
    {
        "kglink": {kind.hook: _register_hook(kind) for kind in KINDS.values()},
        "kglink.recipes": {"register_recipes": register_recipes},
        "kglink.commands": {"register_commands": register_commands},
    }
)
#: Every hook by its name.
HOOKS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {name: hook for hooks in HOOKS_OF_GROUP.values() for name, hook in hooks.items()}
)
