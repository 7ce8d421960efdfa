"""Records as readers give them: whatever goes wrong is an error of the source, texts have bounds.

Every step of linking reads the texts. The store checks names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Number
from typing import Any, NamedTuple, get_args

from kglink.errors import KglinkError, RecordError, SourceError, prints_aside, reason_of
from kglink.records import (
    Alias,
    AliasKind,
    CodeMapping,
    Document,
    Entity,
    EntityId,
    Mention,
    Record,
    Split,
    Verdict,
)
from kglink.sources.source import Source
from kglink.sources.values import Problems, text_too_long

_MOST_SHOWN = 40
MADE_OF = "A KB is made of Entity, Document and CodeMapping records."
#: The fields of each kind of record that are texts.
_TEXTS: Mapping[type[Record], Sequence[str]] = {
    Entity: ("key", "title", "description", "type", "url", "language"),
    Document: ("id", "text", "title"),
    CodeMapping: ("subject", "object", "predicate"),
}

_NUMBER, _WHOLE = (int, float, Number), (int, Integral)
_ALIAS_KINDS = get_args(AliasKind)


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
        own = reader.startswith("kglink/")  # prints nothing
        records = read(source, problems) if own else _quietly(lambda: read(source, problems))
        for number, record in enumerate(records, 1):
            if wrong := malformed(record):
                where = f"{source.label}: record {number:,} of {reader}"
                hint = f"This is a mistake of the reader. {wrong.fix}"
                raise SourceError(f"{where}: {wrong.what}", hint=hint)  # noqa: TRY301 - by record
            if bad := _beyond_limits(record, source):
                problems.report(bad)
            else:
                yield record
    except (KglinkError, OSError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        behind = f", behind record {number:,}" if number else ""
        raise SourceError(
            f"{source.label}{behind}: {reader} failed with {reason_of(error)}",
            hint="This is a mistake of the reader: --on-error stop and --debug show where.",
        ) from error


def _quietly(records: Callable[[], Iterable[Record]]) -> Iterator[Record]:
    """The records, each asked for while nothing is printed to standard output."""
    with prints_aside():
        rest = iter(records())
    while True:
        with prints_aside():
            try:
                record = next(rest)
            except StopIteration:
                return
        yield record


class Malformed(NamedTuple):
    """What is wrong with a record as a program made it, and how to mend that."""

    what: str
    fix: str


def malformed(record: object) -> Malformed | None:
    """What is wrong with the types of a record, if anything is."""
    names = next((names for kind, names in _TEXTS.items() if isinstance(record, kind)), None)
    if names is None:
        return Malformed(f"it is of the type {type(record).__name__}", MADE_OF)
    for name in names:
        if type(value := getattr(record, name)) is not str:
            fix = "Leave out what is not there." if value is None else "Write it as a str."
            return Malformed(f"the {name} is of the type {type(value).__name__}", fix)
    if isinstance(record, Entity):
        return _malformed_parts(record)
    if isinstance(record, Document):
        return _unknown("split", record.split, get_args(Split)) or _malformed_mentions(record)
    assert isinstance(record, CodeMapping)  # noqa: S101 - the third kind
    if not isinstance(record.confidence, _NUMBER):
        return Malformed(f"the confidence is {record.confidence!r}", "Write it as a number.")
    return _unknown("verdict", record.verdict, (None, *get_args(Verdict)))


def _unknown(what: str, said: object, known: Sequence[str | None]) -> Malformed | None:
    fix = f"There is: {', '.join(filter(None, known))}."
    return None if said in known else Malformed(f"the {what} is {said!r}", fix)


def _malformed_mentions(document: Document) -> Malformed | None:
    mentions: Any = document.mentions
    for one in mentions if _is_several(mentions) else [mentions]:
        if not isinstance(one, Mention):
            fix = "Write mentions as (Mention(start, end, surface),)."
            return Malformed(f"a mention is of the type {type(one).__name__}", fix)
        if not isinstance(one.start, _WHOLE) or not isinstance(one.end, _WHOLE):
            return Malformed(f"the offsets of {one} are no whole numbers", "Count characters.")
        if not all(isinstance(text, str) for text in (one.surface, one.type, one.quality)):
            return Malformed(f"surface, type or quality of {one} is no str", "Write each as a str.")
        gold: Any = () if one.gold is None else one.gold
        if not (_is_several(gold) and all(isinstance(id_, EntityId) for id_ in gold)):
            fix = "Write it as (EntityId(kb, key),); () says that no entity is meant."
            return Malformed(f"the gold of mention {one.surface!r} is {gold!r}", fix)
    return None


def _is_several(value: object) -> bool:
    """Whether it holds several values; a generator can be read only once."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _malformed_parts(entity: Entity) -> Malformed | None:
    of = f"of entity {entity.key!r}"
    for field in ("xrefs", "parents", "aliases"):
        if not _is_several(one := getattr(entity, field)):
            made = f"Alias({one!r})" if field == "aliases" else repr(one)
            fix = f"Write it as ({made},)." if isinstance(one, str) else "Write it as a tuple."
            return Malformed(f"the {field} {of} are of the type {type(one).__name__}", fix)
        if one and field != "aliases" and not all(isinstance(text, str) for text in one):
            return Malformed(f"the {field} {of} are {one!r}", "Write each as a str.")
    if not isinstance(entity.popularity, _NUMBER):
        kind = type(entity.popularity).__name__
        return Malformed(f"the popularity {of} is of the type {kind}", "Write it as a number.")
    wrong = (_malformed_alias(alias, of) for alias in entity.aliases)
    return next(filter(None, wrong), None)


def _malformed_alias(alias: object, of: str) -> Malformed | None:
    if not isinstance(alias, Alias):
        fix = f"Write it as Alias({alias!r}), in a tuple."
        return Malformed(f"an alias {of} is of the type {type(alias).__name__}", fix)
    if type(alias.surface) is not str:
        kind = type(alias.surface).__name__
        return Malformed(f"the surface of an alias {of} is of the type {kind}", "Leave it out.")
    if alias.kind not in _ALIAS_KINDS or not isinstance(alias.count, _NUMBER):
        fix = f"The kind is one of {', '.join(_ALIAS_KINDS)}, the count a number."
        return Malformed(f"{alias} {of} has no such kind or count", fix)
    return None


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
