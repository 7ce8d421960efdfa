"""Answers in files: what is read, kept and compared, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from annotated_texts import ADA, FIRST, TEXTS, read_file
from kglink.errors import KglinkError, SourceError, UsageError
from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.comparison import AnswerComparison, Evaluated, KeptWriter
from kglink.evaluation.measures.end_to_end import Answer, JudgedText
from kglink.evaluation.significance import randomization_test
from kglink.records import EntityId, Mention

LINES: list[dict[str, Any]] = [
    {
        "id": "1",
        "text": FIRST,
        "entities": [
            {"start": 0, "end": 3, "text": "Ada", "kb": "a", "key": "1", "confidence": 0.9},
            {"start": 10, "end": 13, "kb": None, "key": None, "nil": True, "confidence": 1},
        ],
        "meta": {},
    },
    {"id": "2", "entities": [{"start": 0, "end": 3, "kb": "b", "key": "7"}]},
    {"id": "3", "text": "Nothing.", "entities": []},
]
FACTS = Evaluated(("docs",), "dev", ("a", "b"), counterparts=False, protocol="end to end")


def written(path: Path, lines: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "\n", "utf-8")
    return path


def read(tmp_path: Path, lines: Sequence[object]) -> list[list[Answer]]:
    return read_file(written(tmp_path / "p.jsonl", lines))


def test_predictions_are_read_in_the_order_of_the_texts(tmp_path: Path) -> None:
    expected = [
        [Answer(0, 3, ADA, 0.9), Answer(10, 13, None, 1.0)],
        [Answer(0, 3, EntityId("b", "7"))],
        [],
    ]
    assert read(tmp_path, LINES) == expected
    assert read(tmp_path, LINES[::-1]) == expected
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "p.jsonl").read_bytes()))
    assert read_file(packed) == expected


def test_records_of_one_text_are_united_and_the_first_answer_at_a_place_counts(
    tmp_path: Path,
) -> None:
    second = {
        "id": "1b",
        "entities": [
            {"start": 0, "end": 3, "kb": "a", "key": "2"},
            {"start": 4, "end": 7, "kb": "a", "key": "3"},
        ],
    }
    found = read(tmp_path, [second, *LINES])[0]
    assert found == [
        Answer(0, 3, ADA, 0.9),
        Answer(4, 7, EntityId("a", "3")),
        Answer(10, 13, None, 1.0),
    ]
    # One record is enough, whichever it is.
    assert len(read(tmp_path, [second, *LINES[1:]])[0]) == 2


def entity(**changes: object) -> list[object]:
    """The lines with another first entity."""
    entities = [{"start": 0, "end": 3, "kb": "a", "key": "1"} | changes]
    return [LINES[0] | {"entities": entities}, *LINES[1:]]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([*LINES, {"id": "9", "entities": []}], "line 4: no evaluated document has the id '9'"),
        ([*LINES, {"id": "9", "text": "x", "entities": []}], "has the id '9', or its text"),
        ([*LINES, LINES[1]], "the id '2' stands there twice"),
        (LINES[:1], "2 of 3 texts are not in it: '2', '3'"),
        ([*LINES[:2], {"text": "Nothing.", "entities": []}], "line 3: no id"),
        ([*LINES[:2], ["1"]], "no KB adapter knows this format"),
        ([LINES[0] | {"text": "Ada met Bob."}], "the span 10..13 does not lie in the text"),
        ([LINES[1] | {"text": "Ada left?"}], "the text of '2' is another"),
        ([*LINES, {"id": "1"}], "line 4: no list of mentions"),
        ([*LINES, {"id": "1", "entities": "Ada"}], "line 4: no list of mentions"),
        ([*LINES, {"id": "1", "entities": ["Ada"]}], "a mention is the text 'Ada', not an object"),
        (entity(end=15), "the span 0..15 does not lie in the text"),
        (entity(start=-1), "start is the number -1, not a whole number from 0 on"),
        (entity(start=3), "the span 3..3 does not lie in the text"),
        (entity(start="0"), "start is the text '0', not a whole number"),
        (entity(end=None), "end is null, not a whole number"),
        (entity(start=True), "start is true, not a whole number"),
        (entity(text="Bob"), "'Bob' is given, 'Ada' stands at 0..3"),
        (entity(kb="c"), "'c:1' is of 'c', and there is no such KB in this workspace"),
        (entity(key="ada"), "no KB has 1 of the entities that it names: 'a:ada'"),
        (
            [LINES[0] | {"entities": LINES[0]["entities"][:1] * 2}, *LINES[1:]],
            "the document '1' has 2 answers at 0 to 3",
        ),
        (entity(kb=None, key="ada"), "no entity has the key, code, title or address ada"),
        (entity(confidence=1.5), "the confidence 1.5 is no number from 0 to 1"),
        (entity(confidence="high"), "the confidence 'high' is no number"),
        (entity(confidence=True), "the confidence True is no number"),
        (entity(confidence=float("nan")), "the confidence nan is no number"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    tmp_path: Path, lines: Sequence[object], told: str
) -> None:
    with pytest.raises(KglinkError) as refused:
        read(tmp_path, lines)
    assert told in refused.value.message
    assert "p.jsonl" in refused.value.message
    assert refused.value.hint or "whole number" in told


def test_many_missing_texts_are_counted(tmp_path: Path) -> None:
    texts = [AnnotatedText("docs", (str(at),), f"Text {at}", ()) for at in range(6)]
    path = written(tmp_path / "p.jsonl", [{"id": "3", "entities": []}])
    with pytest.raises(UsageError, match=r"5 of 6 texts are not in it: '0', '1', '2', \.\.\.\n"):
        read_file(path, texts)


def test_an_id_of_two_sources_is_ambiguous(tmp_path: Path) -> None:
    texts = [AnnotatedText(docs, ("1",), docs, ()) for docs in ("left", "right")]
    path = written(tmp_path / "p.jsonl", [{"id": "1", "entities": []}])
    with pytest.raises(UsageError, match=r"the document '1' of .* stands in left and in right"):
        read_file(path, texts)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("{nothing", "utf-8")
    with pytest.raises(SourceError, match="line 1: not valid JSON"):
        read_file(path)
    path.write_bytes(json.dumps(LINES[0]).encode() + b"\n\xff\n")
    with pytest.raises(SourceError, match="UTF-8"):
        read_file(path)
    with pytest.raises(SourceError, match=r"gone\.jsonl"):
        read_file(tmp_path / "gone.jsonl")


# -------------------------------------------------------------------- kept and compared
HERE = [[Answer(0, 3, ADA, 0.9), Answer(10, 13, None, 0.8)], [Answer(0, 3, ADA, 0.7)], []]
THERE = [[Answer(0, 3, ADA, 0.9)], [Answer(4, 8, ADA)], []]
JUDGED = [JudgedText(text, ("a", "b")) for text in TEXTS]


def keep(path: Path, answers: Sequence[Sequence[Answer]], texts: Sequence[JudgedText]) -> Path:
    with path.open("w", encoding="utf-8") as out:
        writer = KeptWriter(out, FACTS)
        for text, found in zip(texts, answers, strict=True):
            writer.add_answers(text, found)
    return path


def compared(path: Path, facts: Evaluated = FACTS) -> AnswerComparison:
    comparison = AnswerComparison(path, facts)
    for text, found in zip(JUDGED, HERE, strict=True):
        comparison.add_answers(text, found)
    comparison.finish()
    return comparison


def test_what_is_kept_of_a_text(tmp_path: Path) -> None:
    lines = keep(tmp_path / "kept.jsonl", HERE, JUDGED).read_text("utf-8").split("\n")
    header, first = json.loads(lines[0]), json.loads(lines[1])
    assert (header["format"], header["protocol"], header["kbs"]) == (1, "end to end", ["a", "b"])
    assert first == {
        "docs": "docs",
        "id": "1",
        "text": FIRST,
        "gold": [
            {"start": 0, "end": 3, "text": "Ada", "gold": [{"kb": "a", "key": "1"}]},
            {"start": 10, "end": 13, "text": "Bob", "gold": []},
        ],
        "predicted": [
            {"start": 0, "end": 3, "text": "Ada", "kb": "a", "key": "1", "nil": False,
             "confidence": 0.9},
            {"start": 10, "end": 13, "text": "Bob", "kb": None, "key": None, "nil": True,
             "confidence": 0.8},
        ],
    }  # fmt: skip


def test_the_figures_of_each_text_are_compared(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.jsonl", THERE, JUDGED)
    comparison = compared(path)
    comparison.complete = True
    tests = comparison.tests(rounds=400, seed=3)
    # Detection: 2 of 2, 1 of 1, nothing to find; there 1 of 2 found, 1 wrong, nothing.
    assert tests["detection"] == randomization_test([1, 1, 1], [2 / 3, 0, 1], rounds=400, seed=3)
    assert tests["links"] == randomization_test([1, 1, 1], [1, 0, 1], rounds=400, seed=3)
    recalls = compared(path).tests(rounds=9)
    assert (recalls["detection"].items, recalls["detection"].right) == (2, 1 / 4)
    same = compared(keep(tmp_path / "same.jsonl", HERE, JUDGED)).tests()
    assert {test.p for test in same.values()} == {1.0}


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (JUDGED[:2], "2 texts, and there are more here"),
        ([*JUDGED, JUDGED[2]], "more than the 3 texts of this one"),
        ([JUDGED[1], JUDGED[0], JUDGED[2]], "its line 2 is not the document '1'"),
        ([JUDGED[0], JUDGED[1], JudgedText(TEXTS[1], ("a",))], "its line 4 is not the document"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, texts: list[JudgedText], told: str) -> None:
    path = keep(tmp_path / "kept.jsonl", [[] for _ in texts], texts)
    with pytest.raises(UsageError, match=told):
        compared(path)


def test_other_mentions_and_other_kinds_of_evaluation_are_refused(tmp_path: Path) -> None:
    mentions = (Mention(0, 3, "Ada", (EntityId("a", "2"),)),)
    other = JudgedText(AnnotatedText("docs", ("2",), "Ada left.", mentions), ("a", "b"))
    path = keep(tmp_path / "kept.jsonl", HERE, [JUDGED[0], other, JUDGED[2]])
    with pytest.raises(UsageError, match="its line 3 is not the document '2'"):
        compared(path)
    retrieval = Evaluated(("docs",), "dev", ("a", "b"), counterparts=False)
    with pytest.raises(UsageError, match="protocol: end to end there, retrieval here"):
        AnswerComparison(path, retrieval)


@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        ('"end": 13, "text": "Bob", "kb"', '"kb"'),
        ('"end": 13, "text": "Bob", "kb"', '"end": Infinity, "text": "Bob", "kb"'),
        ('"text": "Ada", "kb": "a", "key": "1"', '"text": "Ada", "kb": "a", "key": ["1"]'),
    ],
)
def test_kept_answers_that_are_damaged_are_refused(tmp_path: Path, whole: str, broken: str) -> None:
    path = keep(tmp_path / "kept.jsonl", HERE, JUDGED)
    kept = path.read_text("utf-8")
    assert whole in kept
    path.write_text(kept.replace(whole, broken))
    with pytest.raises(UsageError, match="line 2 has no answers"):
        compared(path)
