"""Predictions of any tool: documents that an adapter reads, their golds being the answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

from kglink.errors import KglinkError, UsageError
from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.measures.end_to_end import Answer
from kglink.plugins import ReadsAnswers, Registry
from kglink.records import Document, EntityId
from kglink.sources import Problems, Source, read_records
from kglink.store import Store
from kglink.store.values import Resolve
from kglink.text.codes import code_of

#: How many ids of documents that are missing, or entities that there are not, are named.
MOST_NAMED = 3


@contextmanager
def _without_advice_for_kbs() -> Iterator[None]:
    """What reads a file for `kglink add-kb` advises options that predictions do not have."""
    try:
        yield
    except KglinkError as error:
        if "--" in error.hint:
            error.hint = (
                "Answers are annotated texts in a format that `kglink add-kb` knows, such as JSON "
                "lines; offsets count characters of the text."
            )
        raise


def read_predictions(
    path: Path,
    registry: Registry,
    texts: Sequence[AnnotatedText],
    kbs: Sequence[str],
    known: Store,
    judged: Sequence[str] = (),
) -> list[list[Answer]]:
    """The answers of a file for each text: of any of its records, each place once.

    ``kbs`` are the KBs that there are: an answer in another one, or an entity that is not
    ``known``, is a mistake in the file. An answer that names no KB is looked for in those that are
    ``judged``, then in the others; a code that none of them has is an entity of no KB.
    """
    label = str(path)
    documents = _documents(path, registry, texts)
    by_id: dict[str, list[AnnotatedText]] = {}
    by_text: dict[str, list[AnnotatedText]] = {}
    for text in texts:
        by_text.setdefault(_spaced(text.text), []).append(text)
        for name in text.ids:
            by_id.setdefault(name, []).append(text)
    named = {document.id: document for document in documents if document.id in by_id}
    found: dict[str, list[Document]] = {}
    for document in documents:
        text = _text_of(label, document, by_id, by_text)
        at = document.id if document.id in text.ids else text.id
        if document.id in text.ids and named[document.id] is not document:
            raise unfit(label, f"the id {document.id!r} stands there twice")
        found.setdefault(at, []).append(document)
    missing = [text.id for text in texts if not any(name in found for name in text.ids)]
    if missing:
        few = ", ".join(map(repr, missing[:MOST_NAMED])) + ", ..." * (len(missing) > MOST_NAMED)
        raise unfit(
            label,
            f"{len(missing):,} of {len(texts):,} texts are not in it: {few}",
            "A text in which nothing was found stands there too, without mentions.",
        )
    meant = _meant(label, documents, kbs, known, judged or kbs)
    answers = []
    for text in texts:
        own: dict[tuple[int, int], Answer] = {}  # at one place the first record's counts
        for document in (one for name in text.ids for one in found.get(name, ())):
            for answer in _answers(label, document, meant):
                own.setdefault((answer.start, answer.end), answer)
        answers.append([own[place] for place in sorted(own)])
    return answers


def _documents(path: Path, registry: Registry, texts: Sequence[AnnotatedText]) -> list[Document]:
    """The documents of a file, in any format that an adapter reads."""
    with Source.open_path(path) as source, _without_advice_for_kbs():
        name = registry.guess_kb(source.head).name
        reader = registry.create("kb", name)
        read = reader.read
        if isinstance(reader, ReadsAnswers):
            by_name = {id_: text.text for text in texts for id_ in text.ids}
            read = partial(reader.answers, texts=by_name)
        records = list(read_records(name, read, source, Problems("stop")))
    documents = [one for one in records if isinstance(one, Document)]
    if records and not documents:
        hint = "Write them with their texts, as `kglink link --format jsonl` does."
        raise unfit(str(path), "it holds no texts with mentions", hint)
    return documents


def unfit(label: str, why: str, hint: str = "") -> UsageError:
    """The error of a file that does not fit what is evaluated."""
    usual = "Predict the documents of --docs and --split, unchanged, under their own ids."
    return UsageError(f"cannot read {label}: {why}", hint=hint or usual)


def unknown_entities(label: str, missing: Collection[EntityId]) -> UsageError:
    """The error of a file that names entities which there are not."""
    few = ", ".join(repr(str(one)) for one in sorted(missing)[:MOST_NAMED])
    more = ", ..." * (len(missing) > MOST_NAMED)
    return unfit(
        label,
        f"no KB has {len(missing):,} of the entities that it names: {few}{more}",
        "If a KB has changed since, make the file again; else name entities by the keys of "
        "`kglink export KB`.",
    )


def unknown_kb(label: str, entity: EntityId, kbs: Iterable[str]) -> UsageError:
    """The error of a file that names an entity of a KB which there is not."""
    return unfit(
        label,
        f"{str(entity)!r} is of {entity.kb!r}, and there is no such KB in this workspace",
        f"There is: {', '.join(sorted(kbs))}. If it was removed, make the file again: "
        "`kglink link` or `kglink candidates`.",
    )


def _text_of(
    label: str,
    document: Document,
    by_id: Mapping[str, Sequence[AnnotatedText]],
    by_text: Mapping[str, Sequence[AnnotatedText]],
) -> AnnotatedText:
    """The text of a document: that of its id, or the one that reads the same."""
    spaced = _spaced(document.text)
    own = by_id.get(document.id, ())
    same = [one for one in own if _spaced(one.text) == spaced] or by_text.get(spaced, ())
    if own and not same:
        raise unfit(
            label, f"the text of {document.id!r} is another than that of the annotated document"
        )
    if not same:
        raise unfit(label, f"no evaluated document has the id {document.id!r}, or its text")
    if len(same) > 1 or len(own) > 1:
        one, other = (same if len(same) > 1 else own)[:2]
        raise UsageError(
            f"the document {document.id!r} of {label} stands in {one.docs} and in {other.docs}",
            hint="Evaluate one of --docs at a time.",
        )
    return same[0]


def _spaced(text: str) -> str:
    """The text with a space for what some formats lack or replace: line breaks, controls."""
    return re.sub(r"[\s\0-\x1f\ufffd-\uffff]", " ", text)


def _meant(
    label: str,
    documents: Iterable[Document],
    kbs: Sequence[str],
    known: Store,
    judged: Sequence[str],
) -> dict[EntityId, EntityId]:
    """The entity that each gold means; those that mean none are left out."""
    golds = {gold for document in documents for one in document.mentions for gold in one.gold or ()}
    own = {one for one in golds if one.kb}
    for one in sorted(own):
        if one.kb not in kbs:
            raise unknown_kb(label, one, kbs)
    if missing := own - known.existing(own):
        raise unknown_entities(label, missing)
    meant = {one: one for one in own}
    open_ = sorted(one.key for one in golds - own)
    ways: tuple[Resolve, ...] = ("key", "xref", "title")
    for pool, way in product((judged, kbs), ways):
        for name, entities in known.named(open_, pool, way).items() if open_ else ():
            if len(entities) > 1 and pool is judged:
                few = ", ".join(map(str, sorted(entities)[:MOST_NAMED]))
                hint = "A mention means one entity: name its KB, or judge one KB with --kb."
                raise unfit(label, f"{name} names several entities: {few}", hint)
            meant |= {EntityId("", name): one for one in entities}
        open_ = [one for one in open_ if EntityId("", one) not in meant]
    return meant


def _answers(label: str, document: Document, meant: Mapping[EntityId, EntityId]) -> list[Answer]:
    """The answers of a document; two at one place are refused: which counts would be a guess."""
    places = Counter((one.start, one.end) for one in document.mentions)
    for (start, end), count in places.items():
        if count > 1:
            raise unfit(
                label,
                f"the document {document.id!r} has {count} answers at {start} to {end}",
                "A mention has one answer: the best one.",
            )
    answers = []
    for one in document.mentions:
        golds = {meant[gold] for gold in one.gold or () if gold in meant}
        if one.gold and not golds:
            name = one.gold[0].key
            if "://" in name or not code_of(name):
                raise unfit(
                    label,
                    f"no entity has the key, code, title or address {name}",
                    "Name entities as kb:key, or by the address (url) that their KB gives.",
                )
            golds = {one.gold[0]}
        if len(golds) > 1:
            few = ", ".join(map(str, sorted(golds)[:MOST_NAMED]))
            where = f"the mention at {one.start} to {one.end} of {document.id!r}"
            raise unfit(label, f"{where} names several entities: {few}", "A mention means one.")
        entity = next(iter(golds), None)
        cluster = "" if entity else one.cluster
        answers.append(Answer(one.start, one.end, entity, one.confidence, cluster))
    return answers
