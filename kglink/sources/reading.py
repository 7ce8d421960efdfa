"""Records as readers give them: whatever goes wrong is an error of the source, texts have bounds.

Every step of linking reads the texts. The store checks names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.records import Document, Entity, Record
from kglink.sources.source import Source
from kglink.sources.values import Problems, text_too_long

_MOST_SHOWN = 40
_MOST_REASON = 200


def read_records(
    reader: str,
    read: Callable[[Source, Problems], Iterable[Record]],
    source: Source,
    problems: Problems,
) -> Iterator[Record]:
    """The records that ``read`` finds in ``source``; those beyond its limits go to ``problems``.

    A reader that fails in a way of its own fails on this source alone: the error names it.
    """
    number = 0
    try:
        for number, record in enumerate(read(source, problems), 1):  # noqa: B007 - told below
            if bad := _beyond_limits(record, source):
                problems.report(bad)
            else:
                yield record
    except (KglinkError, OSError, MemoryError):
        raise
    except Exception as error:
        behind = f", behind record {number:,}" if number else ""
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")[:_MOST_REASON]
        raise SourceError(
            f"{source.label}{behind}: {reader} failed with {reason}",
            hint="This is a mistake of the reader: --on-error stop and --debug show where.",
        ) from error


def _beyond_limits(record: Record, source: Source) -> RecordError | None:
    """What is wrong with a record whose text is too long, or a name of a document's."""
    longest, problem = source.limits.max_text_chars, ""
    key = record.key if isinstance(record, Entity) else getattr(record, "id", "")
    where = f"{source.label}, record {key[:_MOST_SHOWN]!r}"
    match record:
        case Entity(description=text) | Document(text=text) if len(text) > longest:
            return text_too_long(where, longest)
        case Document():
            problem = document_name_problem(record, source.limits.max_name_chars)
    return RecordError(problem, where=where, hint=NAME_TOO_LONG) if problem else None


NAME_TOO_LONG = (
    "It may be a text that was taken for a name: say which field is which (--set). Or cut the "
    "name, or raise ingest.max_name_chars."
)


def document_name_problem(document: Document, most: int) -> str:
    """Whether the id, the title or a mention of a document is too long to be a name."""
    if (longest := max(len(document.id), len(document.title))) > most:
        return name_too_long(longest, most)
    surface = max((len(one.surface) for one in document.mentions), default=0)
    return name_too_long(surface, most, "mention") if surface > most else ""


def name_too_long(length: int, most: int, what: str = "name") -> str:
    """What is wrong with a name: it may fold into many more characters."""
    return f"a {what} of {length:,} characters, and {most:,} are the most"
