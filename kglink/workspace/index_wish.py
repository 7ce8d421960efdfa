"""Which index a person asks for: a preset, a faiss factory string, or other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kglink.config import ResolvedSettings
from kglink.errors import ConfigError, UnknownNameError, UsageError
from kglink.plugins import IndexSettings, Registry
from kglink.space.index_choice import DEFAULT_INDEX, IndexChoice, chosen_index
from kglink.space.manifest import SpaceManifest

#: The back end that takes a faiss factory string.
FACTORY_INDEX = "kglink/faiss"

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class OfferedPreset:
    """A preset and the back end that offers it."""

    index: str
    settings: Mapping[str, Value]
    summary: str


@dataclass(frozen=True, slots=True)
class IndexWish:
    """A preset, a factory string or neither, and settings that differ."""

    preset: str = ""
    factory: str = ""
    changes: Mapping[str, object] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.preset or self.factory or self.changes)


def presets(registry: Registry) -> dict[str, OfferedPreset]:
    """All presets by name; kglink's own come first, and keep their names."""
    found: dict[str, OfferedPreset] = {}
    plugins = sorted(
        registry.plugins("index"),
        key=lambda one: (not one.provider.builtin, one.name != DEFAULT_INDEX),
    )
    for plugin in plugins:
        if issubclass(plugin.settings, IndexSettings):
            for name, preset in plugin.settings.presets().items():
                offered = OfferedPreset(plugin.name, preset.settings, preset.summary)
                found.setdefault(name, offered)
    return found


def wished_index(registry: Registry, wish: IndexWish, has: IndexChoice) -> IndexChoice:
    """The index that is asked for; settings alone change those of the index that the space has."""
    if wish.preset and wish.factory:
        raise UsageError("a preset and a factory string are two indexes", hint="Name one of them.")
    name, settings = has
    if wish.preset:
        known = presets(registry)
        if wish.preset not in known:
            raise UnknownNameError("preset", wish.preset, known)
        name, settings = known[wish.preset].index, known[wish.preset].settings
    elif wish.factory:
        name, settings = FACTORY_INDEX, {"factory": wish.factory}
    raw: dict[str, object] = {**settings, **wish.changes}
    values = registry.settings_for("index", name, raw).model_dump(mode="json")
    return IndexChoice(registry.get("index", name).name, {key: values[key] for key in raw})


def differences(registry: Registry, left: IndexChoice, right: IndexChoice) -> set[str] | None:
    """The settings in which two choices differ, defaults filled in; None: other back ends."""
    if registry.get("index", left.name) != registry.get("index", right.name):
        return None
    ours, theirs = (
        registry.settings_for("index", one.name, one.settings).model_dump() for one in (left, right)
    )
    return {key for key in ours if ours[key] != theirs[key]}


def is_search_only(registry: Registry, index: str, settings: set[str]) -> bool:
    """Whether these settings of a back end change nothing in its file."""
    kind = registry.get("index", index).settings
    return issubclass(kind, IndexSettings) and settings <= kind.search_only


def refuse_to_be_undone(
    resolved: ResolvedSettings, manifest: SpaceManifest, wanted: IndexChoice
) -> None:
    """Refuse an index in the place of which the next build would put another."""
    section = resolved.values.space
    after = {"index": wanted.name, "index_settings": dict(wanted.settings)}
    if chosen_index(section, manifest.model_copy(update=after)) == wanted:
        return
    told = [
        f"{name} ({origin})"
        for name, origin in resolved.origins.items()
        if name in ("space.index", "space.index_settings")
    ]
    raise ConfigError(
        f"the settings want another index for this space: {' and '.join(told)}",
        hint="Take them back, so that the space keeps the index that it is given, or set them to "
        "what you want and run `kglink build`.",
    )


def words(index: IndexChoice) -> str:
    """An index in a line: ``kglink/faiss factory=SQ8``."""
    return " ".join([index.name, *(f"{key}={value}" for key, value in index.settings.items())])
