"""What `kglink resolve` adds to a table of birds."""

from __future__ import annotations

from pathlib import Path

from conftest import Kglink

ADDED = ["status", "id", "title", "probability", "also", "candidates"]
RIGHT = "match,birds:h,Heron,0.93,,"


def resolved(kglink: Kglink, folder: Path, raw: bytes, *more: str, name: str = "t.csv") -> bytes:
    """The table that comes of one whose column bird is resolved."""
    table, out = folder / name, folder / f"out-{name}"
    table.write_bytes(raw)
    kglink("resolve", "--column", "bird", table, "-o", out, *more)
    return out.read_bytes()


def added(delimiter: str = ",") -> str:
    return delimiter.join(f"bird_{name}" for name in ADDED)
