"""A file of plain text as one document, its mentions marked by hand or not."""

from __future__ import annotations

from pydantic import Field

from kglink.plugins import PluginSettings
from kglink.records import Document, Mention
from kglink.sources import Source
from kglink.text.markup import parse_marked
from kglink_kbs.texts.parts import OneTextAdapter


class PlainSettings(PluginSettings):
    """Settings of ``kglink/text``."""

    marked: bool = Field(False, description="Whether mentions are marked: [[like this]].")


class PlainAdapter(OneTextAdapter):
    """Reads a whole source as one text."""

    def __init__(self, settings: PlainSettings) -> None:
        self._marked = settings.marked

    def document(self, source: Source) -> Document:
        """The text, with the mentions that are marked in it."""
        text = source.text()
        text, spans = parse_marked(text) if self._marked else (text, [])
        mentions = (Mention(one.start, one.end, text[one.start : one.end]) for one in spans)
        return Document(source.name, text, tuple(mentions))
