"""Digests of texts, values and files: the same on every machine and in every run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal


def text_hash(text: str) -> int:
    """64 bits that stand for a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def digest_of(value: object, *, size: int = 8) -> str:
    """A hexadecimal digest of ``size`` bytes of a value that JSON can hold."""
    return text_digest(json.dumps(value, sort_keys=True), size=size)


def text_digest(text: str, *, size: int = 16) -> str:
    """A hexadecimal digest of ``size`` bytes of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def file_digest(path: Path, algorithm: Literal["blake2b", "sha256"] = "blake2b") -> str:
    """The digest of a file's content: 16 bytes of BLAKE2b, or SHA-256."""
    with path.open("rb") as stream:
        if algorithm == "sha256":
            return hashlib.file_digest(stream, "sha256").hexdigest()
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
