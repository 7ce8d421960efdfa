"""Whether a workspace's `kglink.toml` is believed: who owns it, and what its user has allowed.

Who owns a file says nothing of who wrote it: a clone and an unpacked archive belong to the user.
So what a file asks for outside of its workspace counts once the user has allowed this file, in this
folder, with this content. That is kept with the user, by digest. Which settings ask for something
outside stands beside their definitions: `outside` of a section, and of the settings of a plugin. A
third-party plugin that says nothing of it asks for all.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kglink.config import AUTO, CONFIG_FILE, ResolvedSettings, Section, without_passwords
from kglink.errors import ConfigError, KglinkError, UsageError
from kglink.files.atomic import file_lock, write_atomically
from kglink.files.digest import file_digest, user_folder
from kglink.text.printable import MOST_SHOWN, printable

if TYPE_CHECKING:
    from kglink.plugins import Kind, Plugin, Registry


#: Folders, and SHA-256 digests of config files, that are allowed where no list is kept (CI).
TRUST_VARIABLE = "KGLINK_TRUST"
_SHA256 = re.compile("[0-9a-f]{64}")
_LOCK_SECONDS = 10


def allowed_file() -> Path:
    """The user's list of allowed config files: the digest of each by its workspace folder."""
    return user_folder() / "allowed.json"


def revoke(folder: Path) -> bool:
    """Take back what was allowed of ``folder``; False where there was nothing."""
    if str(folder) not in _allowed():
        return False
    allow(folder, None)
    return True


def is_allowed(folder: Path, sha256: str) -> bool:
    """Whether the user allows the config file of ``folder`` with this content."""
    named = os.environ.get(TRUST_VARIABLE, "").split(os.pathsep)
    for one in filter(None, named):
        if one == sha256 if _SHA256.fullmatch(one) else expanded(Path(one)) == folder:
            return True
    return bool(sha256) and _allowed().get(str(folder)) == sha256


def trust_command(folder: Path) -> str:
    """The command that allows the config file of a workspace."""
    return f"kglink --workspace {shlex.quote(str(folder))} trust"


def is_own_or_allowed(folder: Path) -> bool:
    """Whether a workspace belongs to the user, or to another and the user allows its settings."""
    config = folder / CONFIG_FILE
    if not hasattr(os, "geteuid"):  # a system without ids
        return True
    ours, caller = {os.geteuid()}, os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdigit():  # under sudo also whoever called it
        ours.add(int(caller))
    if all(status.st_uid in ours for status in (folder.stat(), config.lstat(), config.stat())):
        return True
    try:
        return is_allowed(folder, file_digest(config, "sha256"))
    except OSError as error:
        raise ConfigError(f"{config}: {error.strerror}") from error


def _allowed() -> dict[str, str]:
    try:
        found = json.loads(allowed_file().read_bytes())
    except (OSError, RuntimeError, ValueError, RecursionError):
        return {}  # a list that cannot be read allows nothing
    return found if isinstance(found, dict) else {}


def allow(folder: Path, sha256: str | None) -> None:
    """Allow the config file of ``folder`` with this content alone; None: with none."""
    try:
        kept = allowed_file()
        kept.parent.mkdir(parents=True, exist_ok=True)
        busy = UsageError(f"{kept} is being written", hint="Run the same command again.")
        with file_lock(kept.with_name(f".{kept.name}.lock"), busy, wait=_LOCK_SECONDS):
            others = {name: one for name, one in _allowed().items() if name != str(folder)}
            own = {} if sha256 is None else {str(folder): sha256}
            write_atomically(kept, json.dumps(others | own, indent=1))
    except (OSError, RuntimeError) as error:  # no home, or one that is read-only
        raise UsageError(
            f"cannot write the list of what you allow: {error}",
            hint=f"For one run, {TRUST_VARIABLE}={shlex.quote(str(folder))} allows the same.",
        ) from error


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
    from kglink.plugins.settings import setting_keys

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
    """What a plugin says of its settings; a third party's that inherits it has said nothing."""
    if plugin.provider.builtin:
        return dict(plugin.settings.outside or {})
    said = vars(plugin.settings).get("outside")
    return None if said is None else dict(said)


def expanded(folder: Path) -> Path:
    """The whole path, ``~`` written out."""
    try:
        return folder.expanduser().resolve()
    except RuntimeError as error:
        raise ConfigError(f"{folder}: there is no such user") from error
