"""The registry: all plugins of an environment, by kind and name."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, overload

from kglink.errors import (
    ConfigError,
    KglinkError,
    PluginError,
    SourceError,
    UnknownNameError,
    UsageError,
)
from kglink.plugins.hooks import KINDS, Kind, PluginKind
from kglink.plugins.loading import (
    ONLY_VARIABLE,
    OWN_DISTRIBUTION,
    PluginModule,
    PluginWarning,
    Provider,
    find_modules,
    guarded,
    left_out,
)
from kglink.plugins.protocols import (
    CandidateEvidence,
    Clusterer,
    Detector,
    Exporter,
    Factory,
    IndexBackend,
    KBAdapter,
    PairEvidence,
    PluginSettings,
    Reranker,
    Sniff,
)
from kglink.plugins.settings import read_settings
from kglink.plugins.training import Objective, Sampler, Scorer
from kglink.sources import SourceHead, check_text

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*")
OWN_VENDOR = "kglink"
#: What reads a source that no other adapter of texts knows.
PLAIN_TEXT = "kglink/text"
_PLAIN_ENDINGS = frozenset({"", ".txt", ".text", ".log"})
#: From here on an adapter takes a source for its own.
_SURE = 0.5

RawSettings = Mapping[str, object] | PluginSettings | None


@dataclass(frozen=True, slots=True)
class Plugin:
    """A factory under a name, with all that is said of it without calling it."""

    kind: Kind
    name: str
    summary: str
    factory: Factory
    settings: type[PluginSettings]
    extra: str
    provider: Provider
    sniff: Sniff | None = None
    texts: bool = False

    @property
    def short_name(self) -> str:
        """The name without its vendor."""
        return self.name.partition("/")[2]

    @property
    def title(self) -> str:
        """Kind and name, as messages write them."""
        return f"{KINDS[self.kind].word} {self.name!r}"


class Guess(NamedTuple):
    """The adapter that is surest of a source, and the next one where another is sure at all."""

    name: str
    confidence: float
    runner_up: Guess | None = None


def load_registry(*, only: str | None = None) -> Registry:
    """The plugins of this environment; every call reads it anew.

    Args:
        only: ``builtin``, or the third-party distributions to load, separated by commas; None
            takes the variable ``KGLINK_PLUGINS``, and empty text means all.
    """
    return Registry(find_modules(only=only))


class Registry:
    """Plugins by kind and name.

    Third-party modules are imported when something is asked for that kglink itself does not
    bring. One that fails is left out as a whole, and a `PluginWarning` says why.
    """

    def __init__(self, modules: Iterable[PluginModule]) -> None:
        self._plugins: dict[tuple[Kind, str], Plugin] = {}
        self._modules: dict[Provider, object] = {}
        self._left_out: list[str] = []
        self._waiting: list[PluginModule] = []
        for module in modules:
            if module.provider.builtin:
                self._admit(module)
            else:
                self._waiting.append(module)

    def plugins(self, kind: Kind | None = None) -> tuple[Plugin, ...]:
        """All plugins, or those of one kind, by kind and name."""
        self._load_third_parties()
        order = list(KINDS)
        return tuple(
            plugin
            for _, plugin in sorted(
                self._plugins.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
            )
            if kind is None or plugin.kind == kind
        )

    def providers(self) -> tuple[Provider, ...]:
        """The modules that were loaded, ours first."""
        self._load_third_parties()
        return tuple(self._modules)

    def left_out(self) -> tuple[str, ...]:
        """The modules that failed, and why, a sentence for each."""
        self._load_third_parties()
        return tuple(self._left_out)

    def names(self, kind: Kind) -> list[str]:
        """The full names of a kind, sorted."""
        return [plugin.name for plugin in self.plugins(kind)]

    def builtin_names(self, kind: Kind) -> list[str]:
        """The full names of what kglink itself brings of a kind, sorted."""
        return sorted(
            name
            for (own_kind, name), plugin in self._plugins.items()
            if own_kind == kind and plugin.provider.builtin
        )

    def get(self, kind: Kind, name: str) -> Plugin:
        """The plugin of this full name, or of this short name: kglink's own, else the only one."""
        own = self._plugins.get((kind, name if "/" in name else f"{OWN_VENDOR}/{name}"))
        if own is not None:
            return own
        found = [one for one in self.plugins(kind) if name in (one.name, one.short_name)]
        word = KINDS[kind].word
        if not found:
            raise UnknownNameError(word, name, self.names(kind), hint=" ".join(self._left_out))
        if len(found) > 1:
            raise UsageError(
                f"{word} {name!r} may be any of {', '.join(one.name for one in found)}",
                hint="Write the full name.",
            )
        return found[0]

    def settings_for(self, kind: Kind, name: str, raw: RawSettings = None) -> PluginSettings:
        """The checked settings of a plugin from raw values; texts are read as their fields want."""
        plugin = self.get(kind, name)
        if not isinstance(raw, PluginSettings):
            return read_settings(plugin.title, plugin.settings, raw or {})
        if not isinstance(raw, plugin.settings):
            raise UsageError(
                f"{plugin.title} takes {plugin.settings.__name__}, not {type(raw).__name__}"
            )
        return raw

    def settings_of_each(
        self, kind: Kind, names: Iterable[str], raw: Mapping[str, object], where: str
    ) -> dict[str, PluginSettings]:
        """The checked settings of several plugins by full name, from keys such as ``NAME.setting``.

        ``where`` is what messages call ``raw``.
        """
        own: dict[str, dict[str, object]] = {self.get(kind, name).name: {} for name in names}
        for setting, value in raw.items():
            name, dot, key = setting.rpartition(".")
            full = self.get(kind, name).name if dot else ""
            if full not in own:
                raise ConfigError(
                    f"{where}: no {KINDS[kind].word} in use has the setting {setting!r}",
                    hint=f"Write NAME.setting, with one of: {', '.join(own)}."
                    if own
                    else "None is in use.",
                )
            own[full][key] = value
        return {name: self.settings_for(kind, name, given) for name, given in own.items()}

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
        self, kind: Literal["evidence"], name: str, raw: RawSettings = None, *args: object
    ) -> CandidateEvidence: ...
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
        if plugin.provider.builtin:
            return _made(plugin, settings, *args)
        with guarded(plugin.provider, f"{plugin.title} cannot be made", limited=False):
            return _made(plugin, settings, *args)

    def guess_kb(self, head: SourceHead) -> Guess:
        """The adapter for a source; one that none knows, or two know equally well, is an error."""
        # The surest first; among equals kglink's own wins.
        ranked = sorted(
            (-confidence, not plugin.provider.builtin, plugin.name)
            for plugin in self.plugins("kb")
            if plugin.sniff and not plugin.texts
            if (confidence := self._confidence(plugin, plugin.sniff, head))
        )
        if not ranked:
            check_text(head.name, head.head, str(head.path or ""))
            kind = "folder" if head.path and head.path.is_dir() else "format"
            other = "Name a file in it, or the" if kind == "folder" else "Name the"
            raise SourceError(
                f"{head.name}: no KB adapter knows this {kind}",
                hint=f"{other} adapter with --adapter. There is: {', '.join(self.names('kb'))}.",
            )
        best, *others = ranked
        if others and others[0][:2] == best[:2]:
            raise SourceError(
                f"{head.name}: {best[2]} and {others[0][2]} both know this format equally well",
                hint=f"Name one with --adapter, such as --adapter {best[2]}.",
            )
        runner_up = Guess(others[0][2], -others[0][0]) if others else None
        return Guess(best[2], -best[0], runner_up)

    def text_adapters(self) -> list[str]:
        """The names of kglink's own adapters that read texts."""
        return [one.name for one in self._plugins.values() if one.texts and one.provider.builtin]

    def guess_text(self, head: SourceHead) -> str:
        """The adapter that reads a source as texts to link; that of plain text if none is sure.

        Third parties are asked where kglink has no adapter for a file and its name has an ending
        that speaks of more than plain text.
        """
        if name := self.surest(self.text_adapters(), head):
            return name
        if PurePath(head.name).suffix.lower() in _PLAIN_ENDINGS:
            return PLAIN_TEXT
        others = [one for one in self.plugins("kb") if one.texts and not one.provider.builtin]
        return self.surest([one.name for one in others], head) or PLAIN_TEXT

    def surest(self, names: Iterable[str], head: SourceHead) -> str:
        """The adapter that is surest of a source, if any of these is more sure than not."""
        plugins = [self._plugins["kb", name] for name in names]
        said = [(self._confidence(one, one.sniff, head), one.name) for one in plugins if one.sniff]
        best = max(said, default=(0.0, ""))
        return best[1] if best[0] >= _SURE else ""

    def _confidence(self, plugin: Plugin, sniff: Sniff, head: SourceHead) -> float:
        """How sure a plugin is of a source; 0 for a third-party one that fails."""
        said = f"{plugin.title} of {plugin.provider}"
        try:
            with guarded(plugin.provider, f"{said} fails on the beginning of {head.name}"):
                confidence = float(sniff(head))
                if not 0 <= confidence <= 1:
                    raise ValueError(f"{confidence} does not lie between 0 and 1")
                return confidence
        except PluginError as error:
            if plugin.provider.builtin:
                raise
            warnings.warn(f"not asked: {error.message}", PluginWarning, stacklevel=2)
            return 0.0

    def _load_third_parties(self) -> None:
        waiting, self._waiting = self._waiting, []
        for module in waiting:
            try:
                self._admit(module)
            except KglinkError as error:
                reason = left_out(module.provider, error)
                self._left_out.append(reason)
                warnings.warn(f"{reason} {error.hint}".rstrip(), PluginWarning, stacklevel=3)

    def _admit(self, module: PluginModule) -> None:
        """Import a module and take what it offers, all or nothing."""
        hooks = module.hooks("kglink")
        for other, known in self._modules.items():
            if known is hooks.module:
                raise PluginError(f"{module.provider} and {other} bring the same module")
        offered: dict[tuple[Kind, str], Plugin] = {}
        for kind in KINDS.values():
            if kind.hook in hooks.provider.hooks:
                hooks.call(kind.hook, register=partial(self._offer, offered, kind, hooks.provider))
        self._plugins |= offered
        self._modules[hooks.provider] = hooks.module

    def _offer(
        self,
        offered: dict[tuple[Kind, str], Plugin],
        kind: PluginKind,
        provider: Provider,
        name: str,
        factory: Factory,
        *,
        settings: type[PluginSettings] | None = None,
        summary: str,
        extra: str = "",
        sniff: Sniff | None = None,
        texts: bool = False,
    ) -> None:
        """What a hook gets as ``register``."""
        plugin = Plugin(
            kind.name,
            name,
            summary,
            factory,
            PluginSettings if settings is None else settings,
            extra,
            provider,
            sniff,
            texts,
        )
        if reason := _reason_against(plugin):
            raise PluginError(
                f"{provider}: {kind.hook} offers {name!r}: {reason}", hint=provider.remedy
            )
        taken = (self._plugins | offered).get((kind.name, name))
        if taken is not None:
            raise PluginError(
                f"{plugin.title} is registered twice: by {taken.provider} and by {provider}",
                hint=f"Uninstall one of the two, or leave one out with {ONLY_VARIABLE}.",
            )
        offered[kind.name, name] = replace(plugin, summary=summary.strip())


def _reason_against(plugin: Plugin) -> str:
    """Why an offer, of which nothing is checked yet, is refused; empty: it is not."""
    name, settings, sniff = plugin.name, plugin.settings, plugin.sniff
    summary: object = plugin.summary
    known = isinstance(settings, type) and issubclass(settings, PluginSettings)
    reasons = {
        "a name is vendor/name, both of lower-case letters, digits, '_' and '-'": (
            not isinstance(name, str) or not NAME.fullmatch(name)
        ),
        f"the vendor {OWN_VENDOR!r} is kept for what kglink brings": (
            str(name).startswith(f"{OWN_VENDOR}/") and not plugin.provider.builtin
        ),
        "its summary must be one line that says what it is": (
            not isinstance(summary, str) or len(summary.strip().splitlines()) != 1
        ),
        f"its factory is no callable: {plugin.factory!r}": not callable(plugin.factory),
        f"its settings must be a subclass of PluginSettings, not {settings!r}": not known,
        "its settings must refuse unknown keys (extra='forbid')": (
            known and settings.model_config.get("extra") != "forbid"
        ),
        "only a KB adapter has a sniff, and it is a function": (
            sniff is not None and (plugin.kind != "kb" or not callable(sniff))
        ),
        "only a KB adapter reads texts": plugin.texts is not False and plugin.kind != "kb",
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _made(plugin: Plugin, *args: object) -> Any:
    try:
        return plugin.factory(*args)
    except ModuleNotFoundError as error:
        distribution = OWN_DISTRIBUTION if plugin.provider.builtin else plugin.provider.distribution
        hint = f"Install the package that brings it, or {distribution} again."
        if plugin.extra:
            hint = f'Install it: pip install "{distribution}[{plugin.extra}]"'
        raise PluginError(f"{plugin.title} needs the module {error.name!r}", hint=hint) from error
