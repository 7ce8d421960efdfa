"""Records as the store holds them: completed, checked, hashed, and cut into batches.

The hash is taken over all fields of a record joined by NUL characters, which no field may hold:
the same on every machine, and no two different records have the same text. This runs for every
record of every ingest, so it is one pass and one text. Entities with parents are hashed apart from
those without.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kglink.errors import RecordError, SourceError
from kglink.records import AliasKind, CodeMapping, Document, Entity, Record
from kglink.sources.reading import NAME_TOO_LONG, document_name_problem, name_too_long
from kglink.store.database import Row
from kglink.store.schema import GIVEN, MAX_KEY, NIL, UNKNOWN
from kglink.store.values import IngestJob
from kglink.text.codes import code_of
from kglink.text.fold import fold

#: A batch ends early at this many characters, so that long texts do not fill the memory.
BATCH_CHARACTERS = 8_000_000

MAX_COUNT = 2**63 - 1
_WITH_PARENTS = b"with parents"
_MOST_SHOWN = 80


class Prepared(NamedTuple):
    """A record ready to be written.

    ``fields`` are its columns between key and hash. ``parts`` makes the rows that belong to it in
    each of its writer's further tables, given the id of its own row: an update needs them of what
    has changed alone. ``size`` is how many characters it has.
    """

    number: int
    key: str
    content_hash: str
    fields: Row
    size: int
    parts: Callable[[int], tuple[Sequence[Row], ...]] = lambda _: ()


def record_place(number: int, key: str) -> str:
    """Where a record stands in its source, for messages."""
    return f"record {number:,} ({key[:_MOST_SHOWN]!r})"


def prepare_entity(number: int, entity: Entity, language: str, longest_name: int) -> Prepared:
    """Complete, check and hash an entity; RecordError where it cannot be stored."""
    popularity = float(entity.popularity)
    language = entity.language or language
    fields = (entity.title, entity.description, entity.type, entity.url, popularity, language)
    names = completed_names(entity)
    parts = [entity.title, entity.description, entity.type, entity.url, repr(popularity), language]
    parts.append(str(len(names)))
    parts += [f"{surface}\0{kind}\0{count}" for (surface, kind), count in names.items()]
    parts += entity.xrefs
    mark = b""
    if entity.parents:
        parts = [str(len(entity.parents)), *entity.parents, *parts]
        mark = _WITH_PARENTS
    text = "\0".join(parts)
    if len(text) > longest_name:
        longest = max(map(len, (entity.type, entity.url, *(surface for surface, _ in names))))
        if longest > longest_name:
            problem = name_too_long(longest, longest_name)
            raise RecordError(problem, where=record_place(number, entity.key), hint=NAME_TOO_LONG)
    separators = len(parts) - 1 + 2 * len(names)
    problem = _entity_problem(entity, names) or _text_problem(entity.key, text, separators)
    if problem:
        raise RecordError(problem, where=record_place(number, entity.key))

    def rows(id_: int) -> tuple[Sequence[Row], ...]:
        aliases = [
            (id_, place, surface, folded_name(surface), kind, count)
            for place, ((surface, kind), count) in enumerate(names.items())
        ]
        xrefs = [(id_, place, xref, code_of(xref)) for place, xref in enumerate(entity.xrefs)]
        return aliases, xrefs, [(id_, place, key) for place, key in enumerate(entity.parents)]

    return Prepared(number, entity.key, _digest(text, mark), fields, len(text), rows)


def prepare_document(number: int, document: Document, split: str, longest_name: int) -> Prepared:
    """Check and hash a document; RecordError where it cannot be stored.

    A gold is written as the source has it, under the KB name "": `kglink.store.golds` finds its
    entities when the whole source is in, so that documents may stand before what they name.
    """
    if problem := document_name_problem(document, longest_name):
        raise RecordError(problem, where=record_place(number, document.id), hint=NAME_TOO_LONG)
    fields = (document.title, document.text, document.split or split)
    golds = [
        (index, place, str(gold) if gold.kb else gold.key)
        for index, mention in enumerate(document.mentions)
        for place, gold in enumerate(dict.fromkeys(mention.gold or ()))
    ]
    mentions = [
        (
            *(int(m.start), int(m.end), m.surface, m.type, m.quality),
            UNKNOWN if m.gold is None else GIVEN if m.gold else NIL,
        )
        for m in document.mentions
    ]
    parts = [*fields, str(len(mentions))]
    for row in (*mentions, *golds):
        parts.extend(one if isinstance(one, str) else str(int(one)) for one in row)
    text = "\0".join(parts)
    problem = _document_problem(document) or _text_problem(document.id, text, len(parts) - 1)
    if problem:
        raise RecordError(problem, where=record_place(number, document.id))

    def rows(id_: int) -> tuple[Sequence[Row], ...]:
        return (
            [(id_, place, *mention) for place, mention in enumerate(mentions)],
            [(id_, index, place, "", gold) for index, place, gold in golds],
        )

    return Prepared(number, document.id, _digest(text), fields, len(text), rows)


def prepare_mapping(number: int, mapping: CodeMapping) -> Prepared:
    """Check and hash a mapping; RecordError where it cannot be stored."""
    codes = code_of(mapping.subject), code_of(mapping.object)
    key = f"{codes[0]} {mapping.predicate} {codes[1]}"
    sides = (mapping.subject, codes[0], mapping.object, codes[1])
    fields = (*sides, mapping.predicate, float(mapping.confidence), mapping.verdict or "")
    text = "\0".join(map(str, fields))
    problem = _mapping_problem(mapping, codes) or _text_problem(key, text, len(fields) - 1)
    if problem or len(key) > MAX_KEY:
        problem = problem or f"a mapping of more than {MAX_KEY} characters"
        raise RecordError(problem, where=record_place(number, key))
    return Prepared(number, key, _digest(text), fields, len(text))


#: Entities, documents and mappings, made ready to be written in one transaction.
Batch = tuple[list[Prepared], list[Prepared], list[Prepared]]


def batches(records: Iterable[Record], job: IngestJob, skip: int) -> Iterator[tuple[int, Batch]]:
    """Cut a stream into batches, without the first ``skip`` records and without bad ones.

    With each comes the number of the last record that was read, good or bad.
    """
    batch: Batch = [], [], []
    size = characters = number = given = 0
    for number, record in islice(enumerate(records, start=1), skip, None):
        try:
            if isinstance(record, Document):
                kind, prepared = 1, prepare_document(number, record, job.split, job.longest_name)
            elif isinstance(record, CodeMapping):
                kind, prepared = 2, prepare_mapping(number, record)
            else:
                kind = 0
                prepared = prepare_entity(number, record, job.language, job.longest_name)
        except RecordError as error:
            job.problems.report(error)
            continue
        except (TypeError, AttributeError, ArithmeticError) as error:
            what = f"record {number:,} holds a value of a wrong type: {error}"
            raise SourceError(what, hint="The types are those of kglink.records.") from error
        batch[kind].append(prepared)
        size, characters = size + 1, characters + prepared.size
        if size >= job.batch_size or characters >= BATCH_CHARACTERS:
            yield number, batch
            batch, size, characters, given = ([], [], []), 0, 0, number
    if number > given:
        yield number, batch


def completed_names(entity: Entity) -> dict[tuple[str, AliasKind], int]:
    """How often each name of an entity was seen, the title first, repeated ones added up."""
    title: tuple[str, AliasKind] = (entity.title, "title")
    names = {title: 0}
    for alias in entity.aliases:
        name = (alias.surface, alias.kind)
        if name in names:
            names[name] += int(alias.count)
        elif alias.surface and not alias.surface.isspace():
            names[name] = int(alias.count)
    names[title] = names[title] or 1
    return names


def folded_name(surface: str) -> str:
    """The folded form under which a name is found; empty where it is too long for a name."""
    folded = fold(surface)
    return folded if len(folded) <= MAX_KEY else ""


def _digest(text: str, mark: bytes = b"") -> str:
    return hashlib.blake2b(text.encode(), digest_size=16, person=mark).hexdigest()


# -------------------------------------------------------------------------------- problems
def _key_problem(key: str) -> str:
    if not key:
        return "a record without an id"
    return f"an id of more than {MAX_KEY} characters" if len(key) > MAX_KEY else ""


def _entity_problem(entity: Entity, names: dict[tuple[str, AliasKind], int]) -> str:
    if not entity.title or entity.title.isspace():
        return "an entity without a title"
    if not math.isfinite(entity.popularity):
        return "a popularity that is not a finite number"
    counts = names.values()
    if min(counts) < 0 or max(counts) > MAX_COUNT:
        return "an alias count that is negative or beyond 64 bits"
    return _key_problem(entity.key)


def _document_problem(document: Document) -> str:
    text = document.text
    for mention in document.mentions:
        start, end = mention.start, mention.end
        if not 0 <= start < end <= len(text):
            return "a mention outside its text"
        if text[start:end] != mention.surface:
            return "a mention whose offsets do not hold its surface"
    return _key_problem(document.id)


def _mapping_problem(mapping: CodeMapping, codes: tuple[str, str]) -> str:
    for text, code in zip((mapping.subject, mapping.object), codes, strict=True):
        if not code:
            return f"a mapping of {text[:80]!r}, which is no code (such as DOID:1485)"
    if not 0 <= mapping.confidence <= 1:  # not a number fails here too
        return "a confidence that does not lie between 0 and 1"
    return ""


def _text_problem(key: str, text: str, separators: int) -> str:
    """What no database text can hold; ``text`` is all of a record, joined by NUL characters."""
    try:
        key.encode()
        text.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode: one half of a surrogate pair"
    if "\0" in key or text.count("\0") != separators:
        return "text with a NUL character"
    return ""
