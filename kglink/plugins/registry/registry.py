"""The registry: all plugins of an environment, by kind and name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

from kglink.errors import PluginError, UnknownNameError, UsageError
from kglink.plugins.protocols import (
    Clusterer,
    Detector,
    Exporter,
    IndexBackend,
    KBAdapter,
    Objective,
    PairEvidence,
    PluginSettings,
    Reranker,
    Sampler,
    Scorer,
)
from kglink.plugins.registry.discovery import OWN_DISTRIBUTION
from kglink.plugins.registry.guess import Guess, guess_kb
from kglink.plugins.registry.hooks import Hooks
from kglink.plugins.registry.plugin import KINDS, WORD_OF_KIND, Kind, Plugin, Provider
from kglink.plugins.registry.settings import read_settings
from kglink.sources import SourceHead

RawSettings = Mapping[str, object] | PluginSettings | None


class Registry:
    """Plugins by kind and name, and the providers that brought them; made by `load_registry`."""

    def __init__(self, plugins: Iterable[Plugin], hooks: Hooks) -> None:
        ordered = sorted(plugins, key=lambda plugin: (KINDS.index(plugin.kind), plugin.name))
        self._plugins = {(plugin.kind, plugin.name): plugin for plugin in ordered}
        self._hooks = hooks

    def plugins(self, kind: Kind | None = None) -> tuple[Plugin, ...]:
        """All plugins, or those of one kind, by kind and name."""
        return tuple(
            plugin for plugin in self._plugins.values() if kind is None or plugin.kind == kind
        )

    def providers(self) -> tuple[Provider, ...]:
        """The modules that were loaded, ours first."""
        return self._hooks.providers

    def names(self, kind: Kind) -> list[str]:
        """The full names of a kind, sorted."""
        return [plugin.name for plugin in self.plugins(kind)]

    def get(self, kind: Kind, name: str) -> Plugin:
        """The plugin of this full name, or of this short name where only one vendor has it."""
        exact = self._plugins.get((kind, name))
        if exact is not None:
            return exact
        short = [plugin for plugin in self.plugins(kind) if plugin.short_name == name]
        if not short:
            raise UnknownNameError(WORD_OF_KIND[kind], name, self.names(kind))
        if len(short) > 1:
            raise UsageError(
                f"{WORD_OF_KIND[kind]} {name!r} may be any of "
                f"{', '.join(plugin.name for plugin in short)}",
                hint="Write the full name.",
            )
        return short[0]

    def settings_for(self, kind: Kind, name: str, raw: RawSettings = None) -> PluginSettings:
        """The checked settings of a plugin from raw values; texts are read as their fields want."""
        plugin = self.get(kind, name)
        if not isinstance(raw, PluginSettings):
            return read_settings(plugin, raw or {})
        if not isinstance(raw, plugin.settings):
            raise UsageError(
                f"{plugin.title} takes {plugin.settings.__name__}, not {type(raw).__name__}"
            )
        return raw

    # One signature per kind tells the type checker what comes back.
    @overload
    def create(
        self, kind: Literal["kb"], name: str, raw: RawSettings = None, *args: object
    ) -> KBAdapter: ...
    @overload
    def create(
        self, kind: Literal["detector"], name: str, raw: RawSettings = None, *args: object
    ) -> Detector: ...
    @overload
    def create(
        self, kind: Literal["overlap-evidence"], name: str, raw: RawSettings = None, *args: object
    ) -> PairEvidence: ...
    @overload
    def create(
        self, kind: Literal["scorer"], name: str, raw: RawSettings = None, *args: object
    ) -> Scorer: ...
    @overload
    def create(
        self, kind: Literal["sampler"], name: str, raw: RawSettings = None, *args: object
    ) -> Sampler: ...
    @overload
    def create(
        self, kind: Literal["objective"], name: str, raw: RawSettings = None, *args: object
    ) -> Objective: ...
    @overload
    def create(
        self, kind: Literal["index"], name: str, raw: RawSettings = None, *args: object
    ) -> IndexBackend: ...
    @overload
    def create(
        self, kind: Literal["reranker"], name: str, raw: RawSettings = None, *args: object
    ) -> Reranker: ...
    @overload
    def create(
        self, kind: Literal["clusterer"], name: str, raw: RawSettings = None, *args: object
    ) -> Clusterer: ...
    @overload
    def create(
        self, kind: Literal["exporter"], name: str, raw: RawSettings = None, *args: object
    ) -> Exporter: ...
    def create(self, kind: Kind, name: str, raw: RawSettings = None, *args: object) -> Any:
        """Make a plugin: its factory called with its settings and ``args``."""
        plugin = self.get(kind, name)
        settings = self.settings_for(kind, name, raw)
        try:
            return plugin.factory(settings, *args)
        except ModuleNotFoundError as error:
            raise _missing_module(plugin, error) from error

    def guess_kb(self, head: SourceHead) -> Guess:
        """The KB adapter that is surest of a source's beginning."""
        return guess_kb(self.plugins("kb"), head)

    def add_commands(self, app: object) -> None:
        """Let every provider add its commands to the `typer.Typer` ``app``."""
        self._extend("register_commands", app)

    def add_routes(self, app: object) -> None:
        """Let every provider add its pages to the `fastapi.FastAPI` ``app``."""
        self._extend("register_routes", app)

    def _extend(self, hook: str, app: object) -> None:
        for provider in self.providers():
            if hook in provider.hooks:
                self._hooks.call(hook, provider, app=app)


def _missing_module(plugin: Plugin, error: ModuleNotFoundError) -> PluginError:
    distribution = OWN_DISTRIBUTION if plugin.provider.builtin else plugin.provider.distribution
    if plugin.extra:
        hint = f'Install it: pip install "{distribution}[{plugin.extra}]"'
    else:
        hint = f"Install the package that brings it, or {distribution} again."
    return PluginError(f"{plugin.title} needs the module {error.name!r}", hint=hint)
