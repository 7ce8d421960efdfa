"""Descriptions that a catalogue holds as pieces of HTML, made plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kglink.records import Entity
from kglink.sources import Problems
from kglink_kbs.texts.html import html_text
from kglink_kbs.texts.plain import TextSettings

#: What stands in HTML alone. A text about HTML names tags, and hardly ever closes one.
_HTML = re.compile(
    r"</(?:p|b|i|u|em|strong|ul|ol|li|div|span|a|h[1-6]|table|td|tr|font|sup|sub|small)\s*+>"
    r"|<br\s*+/?>|&(?:nbsp|amp|lt|gt|quot|apos|#[0-9]{2,6}|#[xX][0-9A-Fa-f]{2,5});",
    re.IGNORECASE,
)
_WHOLE = TextSettings(code=True, tables=True)
MENDED = "HTML of a description made plain text"


class Descriptions:
    """Makes descriptions plain text where most of the first ones of a source are HTML."""

    def __init__(self, first: Iterable[object], problems: Problems) -> None:
        texts = [text for text in first if isinstance(text, str) and text.strip()]
        self._html = 2 * sum(bool(_HTML.search(text)) for text in texts) > len(texts)
        self._problems = problems

    def mended(self, entity: Entity) -> Entity:
        """The entity, its description as plain text."""
        if not self._html or not _HTML.search(entity.description):
            return entity
        self._problems.mend(MENDED)
        return replace(entity, description=html_text(entity.description, _WHOLE).text)
