"""Texts of records within bounds: every step of linking reads them. The store checks names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kglink.errors import RecordError
from kglink.records import Document, Entity, Record
from kglink.sources.source import Source
from kglink.sources.values import Problems, text_too_long

_MOST_SHOWN = 40


def check_sizes(records: Iterable[Record], source: Source, problems: Problems) -> Iterator[Record]:
    """The records whose texts are within the limits; others go to ``problems``.

    So do documents whose ids or titles are longer than a name.
    """
    longest_name, longest_text = source.limits.max_name_chars, source.limits.max_text_chars
    for record in records:
        if isinstance(record, Entity):
            if len(record.description) > longest_text:
                problems.report(text_too_long(_where(source, record.key), longest_text))
                continue
        elif isinstance(record, Document):
            if len(record.text) > longest_text:
                problems.report(text_too_long(_where(source, record.id), longest_text))
                continue
            longest = max(len(record.id), len(record.title))
            if longest > longest_name:
                problems.report(_name_too_long(_where(source, record.id), longest, longest_name))
                continue
        yield record


def _where(source: Source, key: str) -> str:
    return f"{source.label}, record {key[:_MOST_SHOWN]!r}"


def _name_too_long(where: str, length: int, longest: int) -> RecordError:
    return RecordError(
        f"a name of {length:,} characters, where {longest:,} are the most",
        where=where,
        hint="It may be a text that was taken for a name: say which field is which (--set).",
    )
