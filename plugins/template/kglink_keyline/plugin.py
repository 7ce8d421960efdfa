"""What this distribution registers with kglink."""

from __future__ import annotations

from kglink.plugins import Register, hookimpl
from kglink_keyline.adapter import LineAdapter, LineSettings, sniff


@hookimpl
def register_kbs(register: Register) -> None:
    """Offer the adapter."""
    register(
        "example/keyline",
        LineAdapter,
        settings=LineSettings,
        summary="Entities, one per line: key = title | alias : description",
        sniff=sniff,
    )
