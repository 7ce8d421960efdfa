"""Whether a workspace's `kglink.toml` is believed: who owns it, and what its user has allowed.

Who owns a file says nothing of who wrote it: a clone and an unpacked archive belong to the user.
So what a file asks for outside of its workspace (`kglink.workspace.asks`) counts once the user has
allowed this file, in this folder, with this content. That is kept with the user, by digest.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from kglink.config import CONFIG_FILE
from kglink.errors import ConfigError, UsageError
from kglink.files.atomic import write_atomically
from kglink.files.digest import file_digest, user_folder
from kglink.files.lock import file_lock
from kglink.workspace.named import expanded

#: Folders, and SHA-256 digests of config files, that are allowed where no list is kept (CI).
TRUST_VARIABLE = "KGLINK_TRUST"
_SHA256 = re.compile("[0-9a-f]{64}")
_LOCK_SECONDS = 10


def allowed_file() -> Path:
    """The user's list of allowed config files: the digest of each by its workspace folder."""
    return user_folder() / "allowed.json"


def allow(folder: Path, sha256: str) -> None:
    """Allow the config file of ``folder`` with this content, in place of an earlier one."""
    _keep(folder, sha256)


def revoke(folder: Path) -> bool:
    """Take back what was allowed of ``folder``; False where there was nothing."""
    if str(folder) not in _allowed():
        return False
    _keep(folder, None)
    return True


def is_allowed(folder: Path, sha256: str, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the user allows the config file of ``folder`` with this content."""
    named = (os.environ if env is None else env).get(TRUST_VARIABLE, "").split(os.pathsep)
    for one in filter(None, named):
        if one == sha256 if _SHA256.fullmatch(one) else expanded(Path(one)) == folder:
            return True
    return bool(sha256) and _allowed().get(str(folder)) == sha256


def trust_command(folder: Path) -> str:
    """The command that allows the config file of a workspace."""
    return f"kglink --workspace {shlex.quote(str(folder))} trust"


def is_own_or_allowed(folder: Path) -> bool:
    """Whether a workspace belongs to the user, or to another and the user allows its settings."""
    config, ours = folder / CONFIG_FILE, _own_ids()
    if not ours or all(
        status.st_uid in ours for status in (folder.stat(), config.lstat(), config.stat())
    ):
        return True
    try:
        return is_allowed(folder, file_digest(config, "sha256"))
    except OSError as error:
        raise ConfigError(f"{config}: {error.strerror}") from error


def _own_ids() -> set[int]:
    """The user's own id; under sudo also that of whoever called it; none: a system without ids."""
    if not hasattr(os, "geteuid"):
        return set()
    ours = {os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdigit():
        ours.add(int(caller))
    return ours


def _allowed() -> dict[str, str]:
    try:
        found = json.loads(allowed_file().read_bytes())
    except (OSError, RuntimeError, ValueError, RecursionError):
        return {}  # a list that cannot be read allows nothing
    return found if isinstance(found, dict) else {}


def _keep(folder: Path, sha256: str | None) -> None:
    """Write the list anew with another digest of ``folder``, or with none."""
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
