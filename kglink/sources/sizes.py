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
    for record in records:
        error = None
        if isinstance(record, Entity):
            names = [record.key, record.title, record.type, record.url]
            names += [alias.surface for alias in record.aliases]
            error = _too_long(names, record.description, source)
        elif isinstance(record, Document):
            error = _too_long([record.id, record.title], record.text, source)
        if error is None:
            yield record
        else:
            problems.report(error)


def _too_long(names: list[str], text: str, source: Source) -> RecordError | None:
    """The error of a record, whose first name is its key."""
    limits = source.limits
    where = f"{source.label}, record {names[0][:_MOST_SHOWN]!r}"
    longest = max(map(len, names))
    if longest > limits.max_name_chars:
        return RecordError(
            f"a name of {longest:,} characters, where {limits.max_name_chars:,} are the most",
            where=where,
            hint="It may be a text that was taken for a name: say which field is which (--set).",
        )
    if len(text) > limits.max_text_chars:
        return text_too_long(where, limits.max_text_chars)
    return None
