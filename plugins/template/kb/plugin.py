"""Reads entities, one per line: ``key = title | alias | alias : description``.

Use it: kglink add-kb NAME FILE, or kglink add-kb NAME FILE --adapter myvendor/myplugin
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kglink.errors import RecordError
from kglink.plugins import PluginSettings, Register, hookimpl
from kglink.records import Alias, Entity, Record
from kglink.sources import Problems, Source, SourceHead

LINE = re.compile(r"(?P<key>\S+) = (?P<names>.*?\S)(?: : (?P<description>.*))?")


class LineSettings(PluginSettings):
    """The settings of the adapter: ``kglink add-kb NAME SOURCE --set comment=;``."""

    comment: str = "#"
    """A line that starts with this is passed over."""


class LineAdapter:
    """Reads the lines of a source as entities."""

    def __init__(self, settings: LineSettings) -> None:
        self._settings = settings

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        """Yield the entities; a line that is none is reported to ``problems``."""
        for line in source.lines(problems):
            text = line.text.strip()
            if not text or text.startswith(self._settings.comment):
                continue
            entity = parse(text)
            if entity is None:
                where = source.where(line.number)
                hint = "Write: key = title | alias : description"
                problems.report(RecordError("no 'key = title'", where=where, hint=hint))
            else:
                yield entity


def parse(text: str) -> Entity | None:
    """The entity that a line states, or None."""
    match = LINE.fullmatch(text)
    if match is None:
        return None
    title, *aliases = (name.strip() for name in match["names"].split(" | "))
    return Entity(
        key=match["key"],
        title=title,
        description=(match["description"] or "").strip(),
        aliases=tuple(Alias(alias, "synonym") for alias in aliases if alias),
    )


def sniff(head: SourceHead) -> float:
    """Nearly sure where every line is a comment or an entity, and some line has an alias."""
    lines = [line.strip() for line in head.head.decode("utf-8", errors="replace").splitlines()]
    stated = [line for line in lines if line and not line.startswith("#")]
    if not stated or not all(parse(line) for line in stated[:-1]):  # the last may be cut
        return 0.0
    return 0.95 if parse(stated[0]) and any(" | " in line for line in stated) else 0.2


@hookimpl
def register_kbs(register: Register) -> None:
    """Offer the adapter."""
    register(
        "myvendor/myplugin",
        LineAdapter,
        settings=LineSettings,
        summary="Entities, one per line: key = title | alias : description",
        sniff=sniff,
    )
