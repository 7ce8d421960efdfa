"""Answers in files: predictions of any run or tool, and answers kept to be compared with others.

Predictions have the shape of ``kglink link --format jsonl``. A kept file is JSON lines too: what
was evaluated, then each text with its mentions and answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from kglink.errors import UsageError
from kglink.evaluation.annotated import AnnotatedText
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
from kglink.evaluation.significance import ROUNDS, RandomizationTest, randomization_test
from kglink.records import EntityId, Mention

_PREDICTIONS_HINT = (
    "A line for each document, as `kglink link --format jsonl` writes them: "
    '{"id", "text", "entities": [{"start", "end", "kb", "key", "confidence"}]}; kb and key null: '
    "no entity."
)
#: So many ids of documents that are missing are named.
_NAMED = 3


def read_predictions(
    path: Path, texts: Sequence[AnnotatedText], kbs: Collection[str]
) -> list[list[Answer]]:
    """The answers of a file for each text: of any of its records, each place once.

    ``kbs`` are the KBs that there are: an answer in another one is a mistake in the file.
    """
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
    missing = [text.id for text in texts if not any(name in found for name in text.ids)]
    if missing:
        named = ", ".join(map(repr, missing[:_NAMED])) + ", ..." * (len(missing) > _NAMED)
        raise unreadable(
            path,
            f"{len(missing):,} of {len(texts):,} texts have no line: {named}",
            "A document in which nothing was found has a line with no entities.",
        )
    return [_united(found.get(name, ()) for name in text.ids) for text in texts]


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
        if entity is not None and kbs is not None and entity.kb not in kbs:
            raise unreadable(
                path,
                f"{where}: there is no KB {entity.kb!r} in this workspace",
                f"There is: {', '.join(sorted(kbs))}.",
            )
        yield Answer(start, end, entity, _confidence(path, where, entry))


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
