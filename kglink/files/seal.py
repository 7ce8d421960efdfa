"""Marks what this user's kglink wrote, for files that only a trusted hand may have made.

A digest beside a file finds damage; whoever can write the one can write the other. A seal is made
with a key that lies with the user and not in the workspace, so nobody who sends a workspace has it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from kglink.files.atomic import atomic_path

_KEY_BYTES = 32


def user_folder() -> Path:
    """Where kglink keeps what belongs to the user and to no workspace."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "kglink"


def user_key() -> bytes | None:
    """The user's key, made at its first use; None where none can be kept."""
    path = user_folder() / "seal.key"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as draft:
                draft.chmod(0o600)
                draft.write_bytes(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except (OSError, RuntimeError):  # no home, or one that is read-only
        return None
    return key if len(key) == _KEY_BYTES else None


def seal_of(key: bytes, content: str) -> str:
    """What nobody without the key can say of ``content``."""
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()
