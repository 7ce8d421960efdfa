"""Names and texts of records within bounds: every step of linking folds names and reads texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kglink.errors import RecordError
from kglink.records import Document, Entity, Record
from kglink.sources.source import Source
from kglink.sources.values import Problems, text_too_long

_MOST_SHOWN = 40


def check_sizes(records: Iterable[Record], source: Source, problems: Problems) -> Iterator[Record]:
    """The records whose names and texts are within the limits; others go to ``problems``."""
    longest_name, longest_text = source.limits.max_name_chars, source.limits.max_text_chars
    for record in records:
        if isinstance(record, Entity):
            names = [record.key, record.title, record.type, record.url]
            names += [alias.surface for alias in record.aliases]
            text = record.description
        elif isinstance(record, Document):
            names, text = [record.id, record.title], record.text
        else:
            yield record
            continue
        if len(text) <= longest_text and max(map(len, names)) <= longest_name:
            yield record
        else:
            problems.report(_too_long(names, source))


def _too_long(names: list[str], source: Source) -> RecordError:
    """The error of a record, whose first name is its key."""
    limits = source.limits
    where = f"{source.label}, record {names[0][:_MOST_SHOWN]!r}"
    longest = max(map(len, names))
    if longest <= limits.max_name_chars:
        return text_too_long(where, limits.max_text_chars)
    return RecordError(
        f"a name of {longest:,} characters, where {limits.max_name_chars:,} are the most",
        where=where,
        hint="It may be a text that was taken for a name: say which field is which (--set).",
    )
