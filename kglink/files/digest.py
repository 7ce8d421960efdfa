"""Digests of texts, values and files, the same on every machine and in every run; and seals.

A digest beside a file finds damage; whoever can write the one can write the other. A seal is made
with a key that lies with the user and not in the workspace, so nobody who sends a workspace has it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Literal

from kglink.files.atomic import atomic_path


def text_hash(text: str) -> int:
    """64 bits that stand for a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def digest_of(value: object, *, size: int = 8) -> str:
    """A hexadecimal digest of ``size`` bytes of a value that JSON can hold."""
    return text_digest(json.dumps(value, sort_keys=True), size=size)


def text_digest(text: str, *, size: int = 16) -> str:
    """A hexadecimal digest of ``size`` bytes of a text."""
    return bytes_digest(text.encode("utf-8", "surrogatepass"), size=size)


def bytes_digest(data: bytes, *, size: int = 16) -> str:
    """A hexadecimal digest of ``size`` bytes of some bytes."""
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def file_digest(path: Path, algorithm: Literal["blake2b", "sha256"] = "blake2b") -> str:
    """The digest of a file's content: 16 bytes of BLAKE2b, or SHA-256."""
    with path.open("rb") as stream:
        if algorithm == "sha256":
            return hashlib.file_digest(stream, "sha256").hexdigest()
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


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
