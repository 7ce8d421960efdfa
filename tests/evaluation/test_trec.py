"""TREC runs: names of any kind, the order that scores give, and mentions without candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from kglink.errors import UsageError
from kglink.evaluation.candidate_files import Place, qrels_lines, read_run, run_lines
from kglink.records import EntityId

PLACE = Place("my docs", "Ünit 1/a", 0, 12)
ODD = EntityId("kb", "a b:c\t%🌊")


def read(tmp_path: Path, text: str) -> list[tuple[Place, list[EntityId], list[float]]]:
    path = tmp_path / "run.txt"
    path.write_text(text, "utf-8")
    return [tuple(one[1:]) for one in read_run(path)]  # type: ignore[misc]  # of three


def test_names_of_any_kind_are_read_back(tmp_path: Path) -> None:
    other = Place("docs", "", 3, 4)
    text = run_lines(PLACE, [ODD, EntityId("kb", "1")]) + run_lines(other, [ODD])
    assert all(len(line.split()) == 6 for line in text.splitlines())
    assert read(tmp_path, text) == [
        (PLACE, [ODD, EntityId("kb", "1")], [2, 1]),
        (other, [ODD], [1]),
    ]
    assert str(PLACE) == "my%20docs/%C3%9Cnit%201%2Fa/0-12"
    assert Place.parse(str(PLACE)) == PLACE


def test_a_mention_without_candidates_has_a_line(tmp_path: Path) -> None:
    text = run_lines(PLACE, [])
    assert text == f"{PLACE} Q0 - 1 1 kglink\n"
    assert read(tmp_path, text) == [(PLACE, [], [])]


def test_scores_say_the_order_and_ranks_that_of_equal_ones(tmp_path: Path) -> None:
    lines = [
        "docs/1/0-3 Q0 kb:low 1 0.1 x",
        "docs/1/0-3 Q0 kb:second 4 0.5 x",
        "docs/1/0-3 Q0 kb:first 2 0.5 x",
        "docs/1/0-3 Q0 kb:best 3 7e3 x",
    ]
    ((_, ids, scores),) = read(tmp_path, "\n".join(lines))
    assert [one.key for one in ids] == ["best", "first", "second", "low"]
    assert scores == [7000, 0.5, 0.5, 0.1]


def test_qrels_name_each_gold_once() -> None:
    gold = {EntityId("b", "2"), EntityId("a", "1")}
    assert qrels_lines(Place("d", "1", 0, 3), gold) == "d/1/0-3 0 a:1 1\nd/1/0-3 0 b:2 1\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("docs/1/0-3 Q0 kb:1 1 2", "line 1 is no line of a TREC run"),
        ("docs/1/0-3 0 kb:1 1 2 x", "line 1 is no line of a TREC run"),
        ("docs/1/0-3 Q0 kb:1 -1 2 x", "has the rank '-1' and the score '2'"),
        ("docs/1/0-3 Q0 kb:1 1 high x", "the score 'high'"),
        ("docs/1/0-3 Q0 kb: 1 2 x", "has the document 'kb:', which is no entity"),
        ("docs/1 Q0 kb:1 1 2 x", "has the query 'docs/1', which names no mention"),
    ],
)
def test_lines_that_are_wrong_are_refused(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, line + "\n")
    assert told in refused.value.message
    assert "six fields" in str(refused.value.hint)
