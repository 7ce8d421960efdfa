"""Answers in files: predictions of any run or tool, and answers kept to be compared with others.

Predictions have the shape of ``kglink link --format jsonl``, or are NIF in Turtle. A kept file is
JSON lines too: what was evaluated, then each text with its mentions and answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from kglink.errors import UsageError
from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.candidate_files import kind_of, unknown_entities
from kglink.evaluation.end_to_end import Answer, JudgedText
from kglink.evaluation.kept import (
    Evaluated,
    header_record,
    misfit,
    read_header,
    read_lines,
    unreadable,
    write_line,
)
from kglink.evaluation.nif import Phrase, named_entity, named_nil, read_nif
from kglink.evaluation.significance import ROUNDS, RandomizationTest, randomization_test
from kglink.records import EntityId, Mention

_PREDICTIONS_HINT = (
    "A line for each document, as `kglink link --format jsonl` writes them: "
    '{"id", "text", "entities": [{"start", "end", "kb", "key", "confidence"}]}; kb and key null: '
    "no entity."
)
#: So many ids of documents that are missing are named.
_NAMED = 3


class KnownEntities(Protocol):
    """What a store says of the entities that a file names."""

    def existing(self, ids: Iterable[EntityId]) -> set[EntityId]:
        """Those of some ids that entities have."""
        ...

    def at_addresses(self, urls: Iterable[str]) -> Mapping[str, Sequence[EntityId]]:
        """The entities that have some web addresses, by these."""
        ...


def read_predictions(
    path: Path, texts: Sequence[AnnotatedText], kbs: Collection[str], known: KnownEntities
) -> list[list[Answer]]:
    """The answers of a file for each text: of any of its records, each place once.

    ``kbs`` are the KBs that there are: an answer in another one, or an entity that is not
    ``known``, is a mistake in the file.
    """
    kind = kind_of(path)
    if kind == "nif":
        found = _of_nif(path, texts, kbs, known)
    elif kind == "answers":
        found = _of_lines(path, texts, kbs)
    else:
        raise unreadable(
            path,
            "it ranks candidates of given mentions, and says of no text what is in it",
            "Leave out --end-to-end.",
        )
    named = {one.entity for answers in found.values() for one in answers if one.entity is not None}
    if missing := named - known.existing(named):
        raise unknown_entities(path, missing)
    missing_texts = [text.id for text in texts if not any(name in found for name in text.ids)]
    if missing_texts:
        few = ", ".join(map(repr, missing_texts[:_NAMED])) + ", ..." * (len(missing_texts) > _NAMED)
        raise unreadable(
            path,
            f"{len(missing_texts):,} of {len(texts):,} texts have no line: {few}"
            if kind == "answers"
            else f"{len(missing_texts):,} of {len(texts):,} texts have no context: {few}",
            "A document in which nothing was found has a line with no entities."
            if kind == "answers"
            else "A text in which nothing was found has a nif:Context without phrases.",
        )
    return [_united(found.get(name, ()) for name in text.ids) for text in texts]


def _of_lines(
    path: Path, texts: Sequence[AnnotatedText], kbs: Collection[str]
) -> dict[str, list[Answer]]:
    """The answers of a file of JSON lines by the ids of records."""
    by_id = _by_id(path, texts)
    found: dict[str, list[Answer]] = {}
    for number, record in read_lines(path, _PREDICTIONS_HINT):
        name, where = record.get("id"), f"line {number}"
        if not isinstance(name, str):
            raise unreadable(path, f"{where} has no id", _PREDICTIONS_HINT)
        if name not in by_id:
            raise unreadable(
                path,
                f"{where}: no evaluated document has the id {name!r}",
                "Predict the documents of --docs and --split under their own ids.",
            )
        if name in found:
            raise unreadable(
                path, f"{where}: the id {name!r} stands there twice", _PREDICTIONS_HINT
            )
        text = by_id[name].text
        if record.get("text", text) != text:
            raise unreadable(
                path,
                f"{where}: the text of {name!r} is another than that of the annotated document",
                "Offsets count in the annotated text: predict that, unchanged.",
            )
        found[name] = list(_answers(path, where, record, text, kbs=kbs))
        _check_places(path, where, found[name])
    return found


def _of_nif(
    path: Path, texts: Sequence[AnnotatedText], kbs: Collection[str], known: KnownEntities
) -> dict[str, list[Answer]]:
    """The answers of a file of NIF by the first ids of the texts, which are known by themselves."""
    by_text: dict[str, AnnotatedText] = {}
    for text in texts:
        if text.text in by_text:
            raise UsageError(
                f"a text stands in {by_text[text.text].docs} and in {text.docs}: it does not say "
                f"which document a context of {path} is of",
                hint="Evaluate one of --docs at a time.",
            )
        by_text[text.text] = text
    contexts = read_nif(path)
    phrases = [phrase for one in contexts for phrase in one.phrases]
    iris = {iri for phrase in phrases if phrase.entity is None for iri in phrase.iris}
    addresses = {iri for iri in iris if named_entity(iri) is None and named_nil(iri) is None}
    located = known.at_addresses(sorted(addresses)) if addresses else {}
    found: dict[str, list[Answer]] = {}
    for context in contexts:
        if context.text not in by_text:
            raise unreadable(
                path,
                f"no evaluated document has the text of {context.name}",
                "Predict the texts of --docs and --split, unchanged.",
            )
        answers = [
            Answer(
                *(one.start, one.end, _meant(path, one, located, kbs)),
                confidence=one.confidence,
                cluster=next(filter(None, map(named_nil, one.iris)), ""),
            )
            for one in context.phrases
        ]
        _check_places(path, context.name, answers)
        own = found.setdefault(by_text[context.text].id, [])
        own += _united([own, answers])[len(own) :] if own else answers
    return found


def _meant(
    path: Path,
    phrase: Phrase,
    located: Mapping[str, Sequence[EntityId]],
    kbs: Collection[str],
) -> EntityId | None:
    """The entity that a phrase names; None where it names none, or one that no KB has (NIL)."""
    where = f"the phrase at {phrase.start} to {phrase.end}"
    own = {one for one in (phrase.entity, *map(named_entity, phrase.iris)) if one is not None}
    own = own or {one for iri in phrase.iris for one in located.get(iri, ())}
    if len(own) > 1:
        few = ", ".join(map(str, sorted(own)[:_NAMED]))
        raise unreadable(path, f"{where} names several entities: {few}", "A mention means one.")
    for one in own:
        _check_kb(path, where, one, kbs)
        return one
    if phrase.iris and all(named_nil(iri) is None for iri in phrase.iris):
        raise unreadable(
            path,
            f"{where} means {phrase.iris[0]}, which is the address of no entity",
            "Name entities by the address (url) that their KB gives or as "
            "urn:kglink:entity:KB:KEY, and what no KB has as urn:kglink:nil:ID.",
        )
    return None


def _check_places(path: Path, where: str, answers: Sequence[Answer]) -> None:
    """Refuse two answers at one place: which of them counts would be a guess."""
    places = Counter((one.start, one.end) for one in answers)
    for (start, end), count in places.items():
        if count > 1:
            raise unreadable(
                path,
                f"{where} has {count} answers at {start} to {end}",
                "A mention has one answer: the best one.",
            )


class AnswerWriter:
    """Keeps the texts of an evaluation with their mentions and answers."""

    def __init__(self, out: TextIO, evaluated: Evaluated) -> None:
        self._out = out
        write_line(out, header_record(evaluated))

    def add(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Write one text."""
        source = text.source
        write_line(
            self._out,
            {
                "docs": source.docs,
                "id": source.id,
                "text": source.text,
                "gold": _gold_records(source),
                "predicted": [
                    {
                        "start": one.start,
                        "end": one.end,
                        "text": source.text[one.start : one.end],
                        "kb": one.entity.kb if one.entity else None,
                        "key": one.entity.key if one.entity else None,
                        "nil": one.entity is None,
                        "confidence": one.confidence,
                    }
                    for one in answers
                ],
            },
        )


class AnswerComparison:
    """This evaluation against a kept one, text by text, both judged alike."""

    def __init__(self, path: Path, evaluated: Evaluated) -> None:
        self.path = path
        self._lines = read_lines(path, "Name a file that `kglink eval --end-to-end --keep` wrote.")
        self.kept = read_header(path, next(self._lines, None), evaluated)
        self._judged: list[tuple[JudgedText, Sequence[Answer], Sequence[Answer]]] = []

    def add(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Compare one text; the kept file must hold the same at this place."""
        source = text.source
        kept = next(self._lines, None)
        if kept is None:
            raise misfit(self.path, f"{len(self._judged):,} texts, and there are more here")
        number, record = kept
        ours: dict[str, object] = {"docs": source.docs, "id": source.id, "text": source.text}
        ours |= {"gold": _gold_records(source)}
        if ours != {name: record.get(name) for name in ours}:
            raise misfit(
                self.path,
                f"other texts (its line {number} is not the document {source.id!r} with the same "
                "text and mentions)",
            )
        theirs = _answers(self.path, f"line {number}", record, source.text, "predicted")
        self._judged.append((text, answers, list(theirs)))

    def finish(self) -> None:
        """Say that there are no more texts; the kept file must be at its end too."""
        if next(self._lines, None) is not None:
            raise misfit(self.path, f"more than the {len(self._judged):,} texts of this one")

    def tests(
        self, *, complete: bool, rounds: int = ROUNDS, seed: int = 0
    ) -> dict[str, RandomizationTest]:
        """The test of the texts' own F1, or recall where partial; the kept ones on the right."""
        pairs = [
            (text.values(ours, complete=complete), text.values(theirs, complete=complete))
            for text, ours, theirs in self._judged
        ]
        found = {}
        for name in ("detection", "links"):
            here = [ours[name] for ours, _ in pairs if name in ours]
            there = [theirs[name] for _, theirs in pairs if name in theirs]
            if here:
                found[name] = randomization_test(here, there, rounds=rounds, seed=seed)
        return found


def _by_id(path: Path, texts: Sequence[AnnotatedText]) -> Mapping[str, AnnotatedText]:
    found: dict[str, AnnotatedText] = {}
    for text in texts:
        for name in text.ids:
            if name in found:
                raise UsageError(
                    f"the id {name!r} stands in {found[name].docs} and in {text.docs}: it does "
                    f"not say which document a line of {path} is of",
                    hint="Evaluate one of --docs at a time.",
                )
            found[name] = text
    return found


def _united(of_records: Iterable[Sequence[Answer]]) -> list[Answer]:
    """The answers of a text's records; of those at one place the first record's count."""
    found: list[Answer] = []
    for answers in of_records:
        taken = {(one.start, one.end) for one in found}
        found += [one for one in answers if (one.start, one.end) not in taken]
    return sorted(found, key=lambda one: (one.start, one.end))


def _answers(
    path: Path,
    where: str,
    record: Mapping[str, Any],
    text: str,
    field: str = "entities",
    *,
    kbs: Collection[str] | None = None,
) -> Iterator[Answer]:
    """The answers of a record; with ``kbs`` one in another KB is refused."""
    entries = record.get(field)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise unreadable(path, f"{where} has no list of {field}", _PREDICTIONS_HINT)
    for entry in entries:
        start, end = entry.get("start"), entry.get("end")
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
            raise unreadable(
                path,
                f"{where}: the span {start} to {end} is not inside the text of "
                f"{len(text):,} characters",
                "Offsets are half-open and count characters: 0 <= start < end <= length.",
            )
        if entry.get("text", text[start:end]) != text[start:end]:
            raise unreadable(
                path,
                f"{where}: {entry['text']!r} does not stand at {start} to {end}, but "
                f"{text[start:end]!r}",
                "Offsets count characters (Unicode code points), not bytes or UTF-16 units.",
            )
        entity = _entity(path, where, entry)
        if entity is not None and kbs is not None:
            _check_kb(path, where, entity, kbs)
        cluster = entry.get("cluster")
        yield Answer(
            *(start, end, entity, _confidence(path, where, entry)),
            cluster=cluster if entity is None and isinstance(cluster, str) else "",
        )


def _check_kb(path: Path, where: str, entity: EntityId, kbs: Collection[str]) -> None:
    if entity.kb not in kbs:
        raise unreadable(
            path,
            f"{where}: there is no KB {entity.kb!r} in this workspace",
            f"There is: {', '.join(sorted(kbs))}.",
        )


def _entity(path: Path, where: str, entry: Mapping[str, Any]) -> EntityId | None:
    kb, key = entry.get("kb"), entry.get("key")
    if kb is None and key is None:
        return None
    if not (isinstance(kb, str) and isinstance(key, str)):
        why = f"{where}: an entity is a kb and a key, both texts, or both null"
        raise unreadable(path, why, _PREDICTIONS_HINT)
    return EntityId(kb, key)


def _confidence(path: Path, where: str, entry: Mapping[str, Any]) -> float | None:
    value = entry.get("confidence")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        why = f"{where}: the confidence {value!r} is no number from 0 to 1"
        raise unreadable(path, why, "Leave it out where there is none.")
    return float(value)


def _gold_records(source: AnnotatedText) -> list[dict[str, object]]:
    return [_gold_record(source.text, mention) for mention in source.mentions]


def _gold_record(text: str, mention: Mention) -> dict[str, object]:
    gold = mention.gold
    return {
        "start": mention.start,
        "end": mention.end,
        "text": text[mention.start : mention.end],
        "gold": None if gold is None else [{"kb": one.kb, "key": one.key} for one in gold],
    }
