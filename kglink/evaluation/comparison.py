"""An evaluation kept in a file, mention by mention or text by text, and compared with another.

A kept file is JSON lines: what was evaluated, then the ranks of each mention, or the answers in
each text, in the order in which documents are read.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from kglink.errors import UsageError
from kglink.evaluation.measures.end_to_end import Answer, JudgedText
from kglink.evaluation.measures.retrieval import AP_AT_1, RERANKED, SHOWN, values_of
from kglink.evaluation.rankings import JSON_KEYS, RankedMention
from kglink.evaluation.significance import ALPHA, ROUNDS, RandomizationTest, randomization_test
from kglink.records import EntityId
from kglink.sources import Problems, Source

FORMAT = 1
KEPT_HINT = "Name a file that `kglink eval --keep` wrote."


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What was evaluated; evaluations of the same can be compared."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    counterparts: bool
    protocol: str = "retrieval"
    """``retrieval``, the mentions' places given, or ``end to end``, raw text in."""
    space: str = ""
    model: str = ""
    found_by: str = ""
    reranker: str = ""
    depth: int = RERANKED
    """How many candidates were ranked."""

    def differences(self, other: Evaluated) -> list[str]:
        """Why the two cannot be compared, empty where they can."""
        found = []
        for name in ("protocol", "docs", "split", "kbs", "counterparts"):
            ours, theirs = getattr(self, name), getattr(other, name)
            # KBs stand in the order in which a store was given them, which changes no rank.
            if ours != theirs and (name != "kbs" or sorted(ours) != sorted(theirs)):
                found.append(f"{name}: {_shown(theirs)} there, {_shown(ours)} here")
        return found


class KeptWriter:
    """Writes the ranks of an evaluation, or its answers."""

    def __init__(self, out: TextIO, evaluated: Evaluated) -> None:
        self._out = out
        self._write({"format": FORMAT, **asdict(evaluated)})

    def add_ranked(self, mention: RankedMention) -> None:
        """Write one mention."""
        record = _identity(mention) | {"ranks": dict(mention.ranks)}
        if mention.reranked is not mention.ranks:
            record["reranked"] = dict(mention.reranked)
        self._write(record)

    def add_answers(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Write one text with its mentions and answers."""
        predicted = [
            {
                "start": one.start,
                "end": one.end,
                "text": text.source.text[one.start : one.end],
                "kb": one.entity.kb if one.entity else None,
                "key": one.entity.key if one.entity else None,
                "nil": one.entity is None,
                "confidence": one.confidence,
            }
            for one in answers
        ]
        self._write(_identity_of_text(text) | {"predicted": predicted})

    def _write(self, record: Mapping[str, object]) -> None:
        self._out.write(json.dumps(record, ensure_ascii=False) + "\n")


class _KeptFile:
    """A kept file that is read line by line beside the evaluation that it is compared with."""

    things: str

    def __init__(self, path: Path, evaluated: Evaluated) -> None:
        self.path = path
        self._lines = read_lines(path, KEPT_HINT)
        self._count = 0
        first = next(self._lines, None)
        values = first[1] if first else {}
        facts: dict[str, Any] = {field.name: values.get(field.name) for field in fields(Evaluated)}
        is_ours = values.get("format") == FORMAT and type(facts["depth"]) is int
        lists = {name: facts[name] for name in ("docs", "kbs")}
        are_names = all(
            isinstance(one, list) and one and all(isinstance(name, str) for name in one)
            for one in lists.values()
        )
        if not is_ours or not are_names or None in facts.values():
            raise unreadable(path, "not what `kglink eval --keep` of this kglink writes")
        kept = Evaluated(**facts | {name: tuple(one) for name, one in lists.items()})
        if differences := evaluated.differences(kept):
            raise self._misfit(f"another evaluation ({'; '.join(differences)})")
        self.kept = kept

    def _next(self, ours: Mapping[str, object], named: str) -> tuple[int, dict[str, Any]]:
        """The next line, which must be of the same thing."""
        kept = next(self._lines, None)
        if kept is None:
            raise self._misfit(f"{self._count:,} {self.things}, and there are more here")
        self._count += 1
        if ours != {name: kept[1].get(name) for name in ours}:
            raise self._other(kept[0], named)
        return kept

    def finish(self) -> None:
        """Say that there is no more; the kept file must be at its end too."""
        if next(self._lines, None) is not None:
            raise self._misfit(f"more than the {self._count:,} {self.things} of this one")

    def _other(self, number: int, named: str) -> UsageError:
        return self._misfit(f"other {self.things} (its line {number} is not {named})")

    def _head(self, comparisons: int) -> dict[str, Any]:
        """What both kinds of comparison print of the kept file."""
        kept = {name: getattr(self.kept, name) for name in ("space", "model", "found_by")}
        return {"file": str(self.path), **kept, "alpha": ALPHA, "comparisons": comparisons}

    def _misfit(self, why: str) -> UsageError:
        return UsageError(
            f"{self.path} cannot be compared with this evaluation: it holds {why}",
            hint="Keep one of the same documents, split and KBs: `kglink eval ... --keep FILE`.",
        )


class Comparison(_KeptFile):
    """This evaluation against a kept one, mention by mention.

    R@k is compared for those of ``ks`` that both ranked enough candidates for, MRR as deep as
    both did.
    """

    things = "mentions"

    def __init__(self, path: Path, evaluated: Evaluated, ks: Sequence[int] = ()) -> None:
        super().__init__(path, evaluated)
        reranked = bool(evaluated.reranker or self.kept.reranker)
        depth = min(evaluated.depth, self.kept.depth)
        compared = [k for k in sorted({1, *ks}) if k <= depth]
        names = (*(f"R@{k}" for k in compared), *SHOWN)
        values = values_of(compared, depth=depth)
        # Without a reranker AP@1 is R@1.
        self._values = {name: values[name] for name in names if reranked or name != AP_AT_1}
        self._ours: dict[tuple[str, str], array[float]] = {}
        self._theirs: dict[tuple[str, str], array[float]] = {}

    def add_ranked(self, mention: RankedMention) -> None:
        """Compare one mention; the kept file must hold the same at this place."""
        named = f"{mention.surface!r} of document {mention.document!r} with gold in the same KBs"
        number, record = self._next(_identity(mention), named)
        retrieved = record.get("ranks")
        theirs: dict[str, Any] = {"ranks": retrieved, "reranked": record.get("reranked", retrieved)}
        for found in theirs.values():
            ranks = found.values() if isinstance(found, dict) else [""]
            if not all(rank is None or (type(rank) is int and rank >= 1) for rank in ranks):
                raise unreadable(self.path, f"line {number} has no ranks")
        ours = {"ranks": mention.ranks, "reranked": mention.reranked}
        if any(theirs[which].keys() != ours[which].keys() for which in ours):
            raise self._other(number, named)
        for metric, value in self._values.items():
            mine, other = ours[value.order], theirs[value.order]
            for pool in mention.ranks:
                place = pool, metric
                self._ours.setdefault(place, array("d")).append(value.of(mine[pool]))
                self._theirs.setdefault(place, array("d")).append(value.of(other[pool]))

    def tests(
        self, *, rounds: int = ROUNDS, seed: int = 0
    ) -> dict[str, dict[str, RandomizationTest]]:
        """The randomization test of each pool and figure; the kept values are on the right."""
        found: dict[str, dict[str, RandomizationTest]] = {}
        for pool, metric in sorted(self._ours, key=lambda place: (place[0] in JSON_KEYS, place[0])):
            values = self._ours[pool, metric], self._theirs[pool, metric]
            test = randomization_test(*values, rounds=rounds, seed=seed)
            found.setdefault(pool, {})[metric] = test
        return found

    def as_json(self, comparisons: int, seed: int = 0) -> dict[str, Any]:
        """By pool and figure."""
        tests = {
            JSON_KEYS.get(pool, pool): _tests_as_json(found, comparisons)
            for pool, found in self.tests(seed=seed).items()
        }
        return {**self._head(comparisons), "tests": tests}


class AnswerComparison(_KeptFile):
    """This evaluation of whole answers against a kept one, text by text, both judged alike."""

    things = "texts"

    def __init__(self, path: Path, evaluated: Evaluated) -> None:
        super().__init__(path, evaluated)
        self.complete = False
        """Whether F1 is compared, or recall: not all mentions are annotated."""
        self._judged: list[tuple[JudgedText, Sequence[Answer], Sequence[Answer]]] = []

    def add_answers(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Compare one text; the kept file must hold the same at this place."""
        named = f"the document {text.source.id!r} with the same text and mentions"
        number, record = self._next(_identity_of_text(text), named)
        try:
            theirs = [_answer_of(one) for one in record["predicted"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise unreadable(self.path, f"line {number} has no answers") from error
        self._judged.append((text, answers, theirs))

    def tests(self, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, RandomizationTest]:
        """The test of the texts' own F1, or recall where partial; the kept ones on the right."""
        pairs = [
            (text.values(ours, complete=self.complete), text.values(theirs, complete=self.complete))
            for text, ours, theirs in self._judged
        ]
        found = {}
        for name in ("detection", "links"):
            here = [ours[name] for ours, _ in pairs if name in ours]
            there = [theirs[name] for _, theirs in pairs if name in theirs]
            if here:
                found[name] = randomization_test(here, there, rounds=rounds, seed=seed)
        return found

    def as_json(self, comparisons: int, seed: int = 0) -> dict[str, Any]:
        """By what is compared."""
        tests = _tests_as_json(self.tests(seed=seed), comparisons)
        figure = "f1" if self.complete else "recall"
        return {**self._head(comparisons), "figure": figure, "tests": tests}


def _tests_as_json(tests: Mapping[str, RandomizationTest], comparisons: int) -> dict[str, Any]:
    return {
        name: {**test.as_json(), "significant": test.is_significant(comparisons=comparisons)}
        for name, test in tests.items()
    }


def _identity(mention: RankedMention) -> dict[str, object]:
    names = ("docs", "document", "start", "end", "surface")
    return {name: getattr(mention, name) for name in names}


def _identity_of_text(text: JudgedText) -> dict[str, object]:
    source = text.source
    gold = [
        {
            "start": one.start,
            "end": one.end,
            "text": source.text[one.start : one.end],
            "gold": None if one.gold is None else [gold._asdict() for gold in one.gold],
        }
        for one in source.mentions
    ]
    return {"docs": source.docs, "id": source.id, "text": source.text, "gold": gold}


def _answer_of(kept: Mapping[str, Any]) -> Answer:
    start, end, kb, key = (kept[name] for name in ("start", "end", "kb", "key"))
    if kb is None:
        return Answer(int(start), int(end), None)
    if not (isinstance(kb, str) and isinstance(key, str)):
        raise TypeError("an entity is named by texts")
    return Answer(int(start), int(end), EntityId(kb, key))


def read_lines(path: Path, hint: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file of JSON lines with their numbers; ``hint`` says what else to name."""
    with Source.open_path(path) as source:
        for line in source.lines(Problems("stop")):
            if not line.text.strip():
                continue
            try:
                record = json.loads(line.text)
            except (ValueError, RecursionError) as error:
                why = f"line {line.number} is not JSON ({error})"
                raise unreadable(path, why, hint) from error
            if not isinstance(record, dict):
                raise unreadable(path, f"line {line.number} is no record", hint)
            yield line.number, record


def unreadable(path: Path, why: str, hint: str = KEPT_HINT) -> UsageError:
    """The error of a file that is not what it should be."""
    return UsageError(f"cannot read {path}: {why}", hint=hint)


def _shown(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
