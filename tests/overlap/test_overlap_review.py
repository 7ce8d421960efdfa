"""Reviews of overlaps: what is drawn, the journal, the table."""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from kglink.errors import KglinkError, UsageError
from kglink.overlap.review.journal import (
    Drawn,
    Entry,
    Journal,
    Order,
    ReviewPlan,
    ReviewTable,
    draw,
    journals,
    wilson_interval,
)
from kglink.overlap.review.session import Review, last_review, open_review
from kglink.records import EntityId, Judgement, Verdict
from kglink.store import Store
from review_support import LEFT, PLAN, RIGHT, kb_entities, pair, verdicts
from store_support import job

pytest_plugins = ["review_fixtures"]


# ------------------------------------------------------------------------------------- the table
@pytest.mark.parametrize(("part", "whole"), [(97, 99), (0, 7), (7, 7), (1, 2), (64, 100)])
def test_the_interval_is_that_of_wilson(part: int, whole: int) -> None:
    expected = binomtest(part, whole).proportion_ci(method="wilson")
    assert wilson_interval(part, whole) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_table_of_the_journey() -> None:
    table = ReviewTable(
        LEFT, RIGHT, "random", 17, population=4212, drawn=100,
        correct=97, wrong=2, unclear=1, skipped=0, open=0,
    )  # fmt: skip
    assert table.judged == 100
    assert table.precision
    assert table.precision.value == pytest.approx(97 / 99)
    assert (round(table.precision.low, 2), round(table.precision.high, 2)) == (0.93, 0.99)
    assert table.precision_of_all
    assert table.precision_of_all.value == 0.97
    assert table.as_json()["precision_of_all"] == {
        "value": 0.97, "low": table.precision_of_all.low, "high": table.precision_of_all.high,
    }  # fmt: skip
    empty = replace(table, correct=0, wrong=0, unclear=0)
    assert empty.precision is None
    assert empty.as_json()["precision"] is None


# -------------------------------------------------------------------------------------- the draw
def test_a_larger_sample_holds_the_smaller_one_and_a_seed_gives_the_same() -> None:
    overlaps = [pair(number) for number in range(200)]
    small = draw(replace(PLAN, sample=20), overlaps)
    large = draw(replace(PLAN, sample=50), reversed(overlaps))
    assert small.population == large.population == 200
    assert large.pairs[:20] == small.pairs
    assert len(set(large.pairs)) == 50
    assert set(draw(replace(PLAN, sample=20, seed=1), overlaps).pairs) != set(small.pairs)


def test_every_pair_is_drawn_about_as_often() -> None:
    overlaps = [pair(number, verdict="wrong" if number < 3 else None) for number in range(10)]
    times = Counter(
        keys
        for seed in range(1000)
        for keys in draw(replace(PLAN, sample=3, seed=seed), overlaps).pairs
    )
    assert len(times) == 10
    assert all(240 < count < 360 for count in times.values())  # 300, by four standard deviations


def test_the_uncertain_are_unjudged_and_near_one_half() -> None:
    overlaps = [pair(1, 0.9), pair(2, 0.45), pair(3, 0.5, "wrong"), pair(4, 0.6), pair(5, 0.99)]
    drawn = draw(replace(PLAN, sample=3, order="uncertain"), overlaps)
    assert drawn.pairs == (("D:2", "N:2"), ("D:4", "N:4"), ("D:1", "N:1"))
    assert drawn.population == 4


def test_stale_pairs_are_told_apart_and_told_ones_are_not_drawn() -> None:
    stale = replace(pair(1, verdict="correct"), stale=True)
    told = replace(pair(2, verdict="correct"), evidence={})
    mapped = replace(pair(3, verdict="correct"), evidence={"mapping": 0.75})
    drawn = draw(PLAN, [stale, told, mapped, pair(4)])
    assert drawn.stale == (("D:1", "N:1"),)
    assert set(drawn.pairs) == {("D:1", "N:1"), ("D:4", "N:4")}
    assert drawn.population == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": "alphabetic"}, "unknown order"),
        ({"sample": 0}, "a sample of 0 pairs"),
    ],
)
def test_a_plan_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(PLAN, **change)


# ----------------------------------------------------------------------------------- the journal
BEFORE = Judgement("unclear", "import", ("f00d", "beef"))
DRAWN = Drawn((("D:1", "N:1"), ("D:2", "N:2")), (), 9)


def test_a_journal_comes_back_wherever_its_last_line_is_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "reviews" / "doid+ncit.1.jsonl"
    journal = Journal.create(path, PLAN, DRAWN)
    first, second = Entry(("D:1", "N:1"), "correct"), Entry(("D:2", "N:2"), "wrong", BEFORE)
    journal.add(first)
    before = path.read_bytes()
    journal.add(second)
    whole = path.read_bytes()
    for cut in range(len(before), len(whole)):
        path.write_bytes(whole[:cut])
        assert Journal.open(path).entries == [first]
        assert path.read_bytes() == whole[:cut]  # who only looks changes nothing
        mended = Journal.open(path, mend=True)
        mended.add(second)
        assert Journal.open(path).entries == [first, second]
    again = Journal.open(path)
    assert (again.plan, again.drawn) == (PLAN, DRAWN)


@pytest.mark.parametrize(
    ("line", "damage"),
    [
        (2, b"not json"),
        (2, b"[1]"),
        (2, b"[" * 100_000),
        (3, b'{"pair": ["a", "b"], "answer": "maybe"}'),
        (1, b"{}"),
    ],
)
def test_a_damaged_journal_is_told_with_its_line(tmp_path: Path, line: int, damage: bytes) -> None:
    journal = Journal.create(tmp_path / "j.1.jsonl", PLAN, DRAWN)
    for keys in DRAWN.pairs:
        journal.add(Entry(keys, "correct"))
    lines = journal.path.read_bytes().splitlines()
    lines[line - 1] = damage
    journal.path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(KglinkError, match=f"line {line}: not a line of a review's journal"):
        Journal.open(journal.path)


def test_a_journal_that_cannot_be_written_is_told(
    folder: Path, reviewed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(UsageError, match="cannot keep the review's journal"),
        open_review(folder / "reviews", reviewed, PLAN),
    ):
        pass


# ------------------------------------------------------------------------------------ the review
def answered(folder: Path, reviewed: Store, *answers: str, plan: ReviewPlan = PLAN) -> ReviewTable:
    """Give some answers; ``z`` takes one back."""
    with open_review(folder / "reviews", reviewed, plan) as review:
        for answer in answers:
            if answer == "z":
                review.undo()
            else:
                review.answer(answer)  # type: ignore[arg-type]  # the tests' own words
        return review.table()


def test_answers_undo_and_resuming(folder: Path, reviewed: Store) -> None:
    first = answered(folder, reviewed, "correct", "wrong", "z", "unclear", "skip")
    assert (first.correct, first.wrong, first.unclear, first.skipped, first.open) == (1, 0, 1, 1, 3)
    order = [left for left, _ in draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs]
    assert verdicts(reviewed) == {order[0]: "correct", order[1]: "unclear"}
    second = answered(folder, reviewed, "z", "z", "correct", "wrong", "correct", "correct", "wrong")
    assert (second.correct, second.wrong, second.unclear, second.skipped) == (4, 2, 0, 0)
    assert second.open == 0
    assert verdicts(reviewed) == dict(
        zip(order, ["correct", "correct", "wrong", "correct", "correct", "wrong"], strict=True)
    )
    assert len(journals(folder / "reviews", RIGHT, LEFT)) == 1
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert review.current is None
        assert review.table() == second
        with pytest.raises(UsageError, match="at its end"):
            review.answer("correct")
    with open_review(folder / "reviews", reviewed, PLAN, undo=True) as review:
        assert review.current
        assert review.current.left.key == order[5]


def test_undo_gives_back_what_was_said_before(folder: Path, reviewed: Store) -> None:
    reviewed.set_verdict(pair(0).left, pair(0).right, "unclear", "import")
    reviewed.ingest(job(LEFT, fingerprint="2"), kb_entities("D", "as it is now"))
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert review.current
        assert (review.current.left.key, review.current.stale) == ("D:0", True)
        review.answer("wrong")
        assert verdicts(reviewed) == {"D:0": "wrong"}
        review.undo()
        assert review.current.left.key == "D:0"
        assert review.current.stale
        (back,) = reviewed.overlaps(LEFT, RIGHT, judged=True)
        assert (back.verdict, back.source, back.stale) == ("unclear", "import", True)
        review.answer("wrong")
    with open_review(folder / "reviews", reviewed, PLAN, undo=True) as review:
        assert review.current
        assert review.current.stale
    # With the text that it was given on, the verdict is as good as before.
    reviewed.ingest(job(LEFT, fingerprint="3"), kb_entities("D"))
    (back,) = reviewed.overlaps(LEFT, RIGHT, judged=True)
    assert (back.verdict, back.source, back.stale) == ("unclear", "import", False)


def test_an_answer_is_taken_back_while_its_entity_is_away(folder: Path, reviewed: Store) -> None:
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert review.current
        gone = review.current.left
        review.answer("wrong")
    reviewed.remove_entities(LEFT, [gone.key])
    with open_review(folder / "reviews", reviewed, PLAN, undo=True):
        assert reviewed.count_resting(LEFT) == 0
    reviewed.ingest(job(LEFT, fingerprint="2"), kb_entities("D"))
    assert verdicts(reviewed) == {}


def test_opening_a_review_again_judges_nothing_anew(folder: Path, reviewed: Store) -> None:
    """Its last answer was carried out long ago: what has become of the pair since then stands."""
    answered(folder, reviewed, *["correct"] * 6)
    last = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs[-1]
    reviewed.ingest(job(LEFT, fingerprint="2"), kb_entities("D", "as it is now"))
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert len(review.pending) == 6
    ids = EntityId(LEFT, last[0]), EntityId(RIGHT, last[1])
    reviewed.set_verdict(*ids, "wrong")
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert len(review.pending) == 5
    found = reviewed.overlap(*ids)
    assert found
    assert (found.verdict, found.stale) == ("wrong", False)


def test_pairs_judged_before_count_and_are_not_asked(folder: Path, reviewed: Store) -> None:
    order = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs
    for left, right in order[:2]:
        reviewed.set_verdict(EntityId(LEFT, left), EntityId(RIGHT, right), "correct")
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert len(review.pending) == 4
        for _ in range(4):
            review.answer("wrong")
        table = review.table()
    assert (table.correct, table.wrong, table.before, table.open) == (2, 4, 2, 0)


def test_a_stale_pair_that_was_not_drawn_is_in_no_count(folder: Path, reviewed: Store) -> None:
    drawn = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs
    (other, *_) = sorted({f"D:{number}" for number in range(10)} - {left for left, _ in drawn})
    reviewed.set_verdict(EntityId(LEFT, other), EntityId(RIGHT, other.replace("D", "N")), "correct")
    changed = [
        replace(one, description="Changed.") if one.key == other else one
        for one in kb_entities("D")
    ]
    reviewed.ingest(job(LEFT, fingerprint="2"), changed)
    table = answered(folder, reviewed, "wrong", *["correct"] * 6)
    assert verdicts(reviewed)[other] == "wrong"
    assert (table.correct, table.wrong, table.again, table.drawn) == (6, 0, 1, 6)


def test_a_killed_process_had_written_down_more_than_it_did(folder: Path, reviewed: Store) -> None:
    answered(folder, reviewed, "correct", "correct")
    path = journals(folder / "reviews", LEFT, RIGHT)[0]
    left, right = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs[2]
    Journal.open(path).add(Entry((left, right), "wrong"))
    assert left not in verdicts(reviewed)
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert verdicts(reviewed)[left] == "wrong"
        assert len(review.pending) == 3
    Journal.open(path).add(Entry((left, right), "wrong", undone=True))
    looked = last_review(folder / "reviews", reviewed, PLAN)
    assert looked
    assert looked.table().open == 4
    assert verdicts(reviewed)[left] == "wrong"  # looking changes nothing
    with open_review(folder / "reviews", reviewed, PLAN):
        assert left not in verdicts(reviewed)


@pytest.mark.parametrize("undone", [False, True])
def test_what_was_said_elsewhere_meanwhile_stays(
    folder: Path, reviewed: Store, undone: bool
) -> None:
    """The last answer, or its undoing, is not carried out once more."""
    left, right = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs[0]
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        review.answer("correct")
        if undone:
            review.undo()
    pair = EntityId(LEFT, left), EntityId(RIGHT, right)
    meanwhile: Verdict | None = "correct" if undone else None
    reviewed.set_verdict(*pair, meanwhile)
    with open_review(folder / "reviews", reviewed, PLAN):
        assert verdicts(reviewed).get(left) == meanwhile


def test_a_review_is_found_whichever_kb_is_named_first(folder: Path, reviewed: Store) -> None:
    answered(folder, reviewed, "correct")
    turned = replace(PLAN, left=RIGHT, right=LEFT)
    seen = last_review(folder / "reviews", reviewed, turned)
    assert seen
    assert seen.plan == PLAN
    with open_review(folder / "reviews", reviewed, turned) as review:
        assert review.resumed
        assert review.plan == PLAN


def test_a_pair_whose_entity_is_gone_is_left_out(folder: Path, reviewed: Store) -> None:
    answered(folder, reviewed, "correct")
    gone = draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs[1][0]
    rest = [one for one in kb_entities("D") if one.key != gone]
    reviewed.ingest(job(LEFT, fingerprint="2"), rest)
    table = answered(folder, reviewed, "wrong")
    assert (table.correct, table.wrong, table.open, table.drawn) == (1, 1, 3, 6)


def test_passed_over_pairs_come_up_again_in_the_next_review(folder: Path, reviewed: Store) -> None:
    answered(folder, reviewed, "skip", *["correct"] * 5)
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert len(review.pending) == 1
        review.answer("wrong")
        table = review.table()
    assert (table.correct, table.wrong, table.before, table.skipped) == (5, 1, 5, 0)


def test_each_plan_has_its_own_review(folder: Path, reviewed: Store) -> None:
    answered(folder, reviewed, "correct", "correct")
    uncertain = replace(PLAN, order="uncertain", sample=3)
    table = answered(folder, reviewed, "wrong", "wrong", "wrong", plan=uncertain)
    assert (table.wrong, table.population, table.order) == (3, 8, "uncertain")
    with open_review(folder / "reviews", reviewed, PLAN) as review:
        assert review.resumed
        assert isinstance(review, Review)
    assert len(journals(folder / "reviews", LEFT, RIGHT)) == 2


@pytest.mark.parametrize("order", ["random", "uncertain"])
def test_nothing_to_review(folder: Path, reviewed: Store, order: Order) -> None:
    reviewed.save_overlaps(LEFT, RIGHT, [])
    with (
        pytest.raises(UsageError, match="there are no overlaps of doid and ncit") as told,
        open_review(folder / "reviews", reviewed, replace(PLAN, order=order)),
    ):
        pass
    assert "kglink overlap doid ncit" in told.value.hint
