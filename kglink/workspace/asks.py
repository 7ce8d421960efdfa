"""What a workspace's `kglink.toml` asks for outside of its folder, and the check that it may.

Which settings these are stands beside their definitions: `outside` of a section, and of the
settings of a plugin. A third-party plugin that says nothing of it asks for all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from kglink.config import CONFIG_FILE, ResolvedSettings, Section, without_passwords
from kglink.errors import ConfigError, KglinkError
from kglink.plugins import Kind, Plugin, Registry
from kglink.plugins.settings import setting_keys
from kglink.text.printable import MOST_SHOWN, printable
from kglink.workspace.trust import is_allowed, trust_command

AUTO = "auto"
_UNSAID = "goes to a plugin that does not say what it does outside"
_SQLITE = "sqlite:///"


class Ask(NamedTuple):
    """A setting of a config file that names something outside of the workspace."""

    setting: str
    value: object
    why: str
    """What the setting does."""

    def __str__(self) -> str:
        shown = json.dumps(without_passwords(self.value), ensure_ascii=False)
        return f"{self.setting} = {printable(shown, MOST_SHOWN)} ({self.why})"


def check_trust(folder: Path, resolved: ResolvedSettings, registry: Registry) -> None:
    """Refuse settings of the config file that its user has not allowed."""
    if asks := not_allowed(folder, resolved, registry):
        raise ConfigError(
            f"{folder / CONFIG_FILE} asks for what you have not allowed, or has changed since: "
            + "; ".join(map(str, asks)),
            hint="If you trust who wrote it, allow the file as it is now: "
            f"`{trust_command(folder)}` (in Python: trust=True of Workspace.open). Variables and "
            "flags of your own need no leave.",
        )


def not_allowed(folder: Path, resolved: ResolvedSettings, registry: Registry) -> list[Ask]:
    """What the config file asks for and its user has not allowed."""
    asks = [] if resolved.trusted else asks_of(folder, resolved, registry)
    return [] if not asks or is_allowed(folder, resolved.file_sha256) else asks


def check_store_file(folder: Path, resolved: ResolvedSettings, name: str) -> None:
    """Refuse a database file that a link leads out of the workspace, unless its user named it."""
    origin = resolved.origins.get("store.url", str(folder / CONFIG_FILE))
    if resolved.trusted or origin != str(folder / CONFIG_FILE):
        return
    real = (folder / name).resolve()
    if _is_inside(folder, name) and not real.is_relative_to(folder):
        raise ConfigError(
            f"{folder / name} leads out of the workspace, to {real}",
            hint=f"If that is your store, name it: KGLINK_STORE_URL={_SQLITE}{real}",
        )


def asks_of(folder: Path, resolved: ResolvedSettings, registry: Registry) -> list[Ask]:
    """All settings of the config file that name something outside of the workspace."""
    found: list[Ask] = []
    for setting, origin in resolved.origins.items():
        if origin != str(folder / CONFIG_FILE):
            continue
        section_name, _, key = setting.partition(".")
        section: Section = getattr(resolved.values, section_name)
        value = getattr(section, key)
        table_of = key.removesuffix("_settings")
        if key in section.outside:
            if not _stays_inside(folder, setting, value):
                found.append(Ask(setting, value, section.outside[key]))
        elif key in section.plugins:
            found += _asks_of_names(setting, section, key, registry)
        elif table_of in section.plugins:
            found += _asks_of_table(setting, section, table_of, registry)
    return found


def _stays_inside(folder: Path, setting: str, value: str) -> bool:
    """Whether a database address or the name of a model means something in the workspace."""
    if setting == "store.url":
        name = value.removeprefix(_SQLITE)
        # What is read of an address has its %XX written out.
        return name != value and not {"?", "%"}.intersection(name) and _is_inside(folder, name)
    from kglink.models.opening import MINILM_NAMES

    own = folder / value
    return value in (AUTO, *MINILM_NAMES) or (own.is_dir() and own.resolve().is_relative_to(folder))


def _is_inside(folder: Path, name: str) -> bool:
    return Path(os.path.normpath(folder / name)).is_relative_to(folder)


def _asks_of_names(setting: str, section: Section, key: str, registry: Registry) -> Iterator[Ask]:
    """The plugins that do something outside without any more settings."""
    for name in _names(section, key):
        for plugin in _plugins(registry, section.plugins[key], name, all_of_auto=False):
            outside, fields = _outside(plugin), plugin.settings.model_fields
            if outside is None:
                yield Ask(setting, name, _UNSAID)
                continue
            for field, why in outside.items():
                own = fields.get(field)
                if own and not own.is_required() and (default := own.get_default()):
                    yield Ask(setting, name, f"its {field}, {default!r} unless set, {why}")


def _asks_of_table(setting: str, section: Section, key: str, registry: Registry) -> Iterator[Ask]:
    """The settings of plugins, ``NAME.setting`` or of all that are in use."""
    for written, value in getattr(section, f"{key}_settings").items():
        name, _, field = written.rpartition(".")
        whys = [
            _UNSAID if outside is None else outside[field]
            for one in ([name] if name else _names(section, key))
            for plugin in _plugins(registry, section.plugins[key], one, all_of_auto=True)
            if field in setting_keys(plugin.settings)
            if (outside := _outside(plugin)) is None or (field in outside and value)
        ]
        if whys:
            yield Ask(f"{setting}.{written}", value, ", ".join(dict.fromkeys(whys)))


def _names(section: Section, key: str) -> Sequence[str]:
    # Output formats have settings, and are named by a flag alone.
    value: str | tuple[str, ...] = getattr(section, key, AUTO)
    return ((value,) if value else ()) if isinstance(value, str) else value


def _plugins(registry: Registry, kind: str, name: str, *, all_of_auto: bool) -> Sequence[Plugin]:
    """The plugin of a name; of `auto` all that it may mean, or none."""
    known = cast("Kind", kind)
    if name == AUTO:
        return registry.plugins(known) if all_of_auto else ()
    try:
        return (registry.get(known, name),)
    except KglinkError:
        return ()  # nobody reads the setting: whoever asks for that plugin gets the same error


def _outside(plugin: Plugin) -> dict[str, Any] | None:
    """What a plugin says itself of its settings; one that inherits it has said nothing."""
    said = vars(plugin.settings).get("outside")
    if said is None:
        return {} if plugin.provider.builtin else None
    return dict(said)
