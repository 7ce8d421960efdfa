"""Linked documents as NIF 2.1 in Turtle, which GERBIL and other tools of the semantic web read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from kglink.evaluation.nif import PREFIXES, linked_phrases, nif_text
from kglink.plugins import PluginSettings
from kglink.records import LinkedDocument


class NifExporter:
    """Writes each text and its mentions as soon as they come; a text without an id has its number.

    Halves of surrogate pairs, which no file can hold, become U+FFFD; every offset stays.
    """

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        """Write the prefixes, then a block for each text."""
        out.write(PREFIXES)
        for at, document in enumerate(documents, 1):
            name = document.id or f"document {at}"
            out.write(nif_text(name, document.text, linked_phrases(document)))
            out.flush()
