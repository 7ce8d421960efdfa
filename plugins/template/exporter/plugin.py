"""Writes a line for each mention: document, start, end, entity.

Use it: kglink link FILE --format myvendor/myplugin
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from kglink.plugins import PluginSettings, Register, hookimpl
from kglink.records import LinkedDocument


class TsvSettings(PluginSettings):
    """The settings of the exporter."""

    nothing: str = "NIL"
    """What stands for no entity."""


class TsvExporter:
    """Columns separated by tabs."""

    def __init__(self, settings: TsvSettings) -> None:
        self._nothing = settings.nothing

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the lines of each document as it comes."""
        for document in documents:
            for link in document.links:
                entity = link.chosen.id if link.chosen else self._nothing
                out.write(f"{document.id}\t{link.start}\t{link.end}\t{entity}\n")


@hookimpl
def register_exporters(register: Register) -> None:
    """Offer the exporter."""
    register(
        "myvendor/myplugin",
        TsvExporter,
        settings=TsvSettings,
        summary="One line per mention: document, start, end, entity",
    )
