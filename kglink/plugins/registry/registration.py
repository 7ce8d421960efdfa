"""What hooks get as ``register``: it checks each offer and keeps it with its provider."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kglink.errors import PluginError
from kglink.plugins.protocols import Factory, PluginSettings, Sniff
from kglink.plugins.registry.discovery import blame
from kglink.plugins.registry.plugin import HOOK_OF_KIND, Kind, Plugin, Provider

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*")
OWN_VENDOR = "kglink"

Shelf = dict[tuple[Kind, str], Plugin]


@dataclass(frozen=True, slots=True)
class Registration:
    """The ``register`` of one hook of one provider; it puts accepted plugins on the shelf."""

    kind: Kind
    provider: Provider
    shelf: Shelf

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
        """Check an offer and keep it."""
        plugin = Plugin(
            kind=self.kind,
            name=self._checked_name(name),
            summary=self._checked_summary(name, summary),
            factory=factory,
            settings=self._checked_settings(name, settings),
            extra=extra,
            provider=self.provider,
            sniff=sniff,
        )
        if not callable(factory):
            raise self._refusal(name, f"its factory is no callable: {factory!r}")
        if sniff is not None and (self.kind != "kb" or not callable(sniff)):
            raise self._refusal(name, "only a KB adapter has a sniff, and it is a function")
        self._keep(plugin)

    def _checked_name(self, name: object) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise self._refusal(
                name, "a name is vendor/name, both of lower-case letters, digits, '_' and '-'"
            )
        if name.startswith(f"{OWN_VENDOR}/") and not self.provider.builtin:
            raise self._refusal(name, f"the vendor {OWN_VENDOR!r} is kept for what kglink brings")
        return name

    def _checked_summary(self, name: object, summary: object) -> str:
        if not isinstance(summary, str) or not summary.strip() or len(summary.splitlines()) > 1:
            raise self._refusal(name, "its summary must be one line that says what it is")
        return summary.strip()

    def _checked_settings(self, name: object, settings: object) -> type[PluginSettings]:
        if settings is None:
            return PluginSettings
        if not (isinstance(settings, type) and issubclass(settings, PluginSettings)):
            raise self._refusal(
                name, f"its settings must be a subclass of PluginSettings, not {settings!r}"
            )
        if settings.model_config.get("extra") != "forbid":
            raise self._refusal(name, "its settings must refuse unknown keys (extra='forbid')")
        return settings

    def _keep(self, plugin: Plugin) -> None:
        taken = self.shelf.setdefault((plugin.kind, plugin.name), plugin)
        if taken is not plugin:
            raise PluginError(
                f"{plugin.title} is registered twice: by {taken.provider} and by {self.provider}",
                hint="Uninstall one of the two, or leave one out with KGLINK_PLUGINS.",
            )

    def _refusal(self, name: object, reason: str) -> PluginError:
        hook = HOOK_OF_KIND[self.kind]
        return PluginError(
            f"{self.provider}: {hook} offers {name!r}: {reason}", hint=blame(self.provider)
        )
