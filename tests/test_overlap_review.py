"""Reviews of overlaps: what is drawn, the journal, the table, and a real terminal."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
from conftest import Kglink
from scipy.stats import binomtest
from store_support import entity, job

from kglink.errors import KglinkError, UsageError
from kglink.overlap.review.journal import Entry, Journal, journals
from kglink.overlap.review.sample import Drawn, Order, ReviewPlan, draw
from kglink.overlap.review.session import Review, last_review, open_review
from kglink.overlap.review.table import ReviewTable, wilson_interval
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.store import Store
from kglink.workspace import Workspace, init_workspace

LEFT, RIGHT = "doid", "ncit"
PLAN = ReviewPlan(LEFT, RIGHT, sample=6)
WAIT_S = 60


def pair(number: int, probability: float = 0.9, verdict: Verdict | None = None) -> Overlap:
    left, right = EntityId(LEFT, f"D:{number}"), EntityId(RIGHT, f"N:{number}")
    return Overlap(left, right, probability, {"name": 1.0, "description": 0.5}, verdict)


def kb_entities(prefix: str, description: str = "as it was") -> list[Entity]:
    described = f"What {prefix} is, {description}."
    disease = entity(f"{prefix}:top", "Disease")
    return [disease] + [
        entity(f"{prefix}:{number}", f"{prefix} {number}", "other name", description=described,
               type="disease", parents=(f"{prefix}:top",))
        for number in range(10)
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of two KBs with ten overlaps."""
    made = init_workspace(tmp_path / "workspace")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(made))
    with Workspace.open(made) as workspace:
        for kb, prefix in ((LEFT, "D"), (RIGHT, "N")):
            workspace.store.ingest(job(kb), kb_entities(prefix))
        workspace.store.save_overlaps(
            LEFT, RIGHT, [pair(number, 0.5 + number / 20) for number in range(10)]
        )
    return made


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Workspace.open(folder) as workspace:
        yield workspace.store


def unstyled(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def verdicts(store: Store) -> dict[str, Verdict]:
    return {one.left.key: one.verdict for one in store.overlaps(LEFT, RIGHT) if one.verdict}


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
        ({"right": LEFT}, "no overlap with itself"),
    ],
)
def test_a_plan_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(PLAN, **change)


# ----------------------------------------------------------------------------------- the journal
DRAWN = Drawn((("D:1", "N:1"), ("D:2", "N:2")), (), 9)


def test_a_journal_comes_back_wherever_its_last_line_is_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "reviews" / "doid+ncit.1.jsonl"
    journal = Journal.create(path, PLAN, DRAWN)
    first, second = Entry(("D:1", "N:1"), "correct"), Entry(("D:2", "N:2"), "wrong", "unclear")
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
    [(2, b"not json"), (2, b"[1]"), (3, b'{"pair": ["a", "b"], "answer": "maybe"}'), (1, b"{}")],
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


def test_a_journal_that_cannot_be_written_is_told(folder: Path, store: Store) -> None:
    (folder / "reviews").mkdir()
    (folder / "reviews" / ".doid+ncit.1.jsonl.partial").mkdir()
    with (
        pytest.raises(UsageError, match="cannot keep the review's journal"),
        open_review(folder / "reviews", store, PLAN),
    ):
        pass


# ------------------------------------------------------------------------------------ the review
def answered(folder: Path, store: Store, *answers: str, plan: ReviewPlan = PLAN) -> ReviewTable:
    """Give some answers; ``z`` takes one back."""
    with open_review(folder / "reviews", store, plan) as review:
        for answer in answers:
            if answer == "z":
                review.undo()
            else:
                review.answer(answer)  # type: ignore[arg-type]  # the tests' own words
        return review.table()


def test_answers_undo_and_resuming(folder: Path, store: Store) -> None:
    first = answered(folder, store, "correct", "wrong", "z", "unclear", "skip")
    assert (first.correct, first.wrong, first.unclear, first.skipped, first.open) == (1, 0, 1, 1, 3)
    order = [left for left, _ in draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs]
    assert verdicts(store) == {order[0]: "correct", order[1]: "unclear"}
    second = answered(folder, store, "z", "z", "correct", "wrong", "correct", "correct", "wrong")
    assert (second.correct, second.wrong, second.unclear, second.skipped) == (4, 2, 0, 0)
    assert second.open == 0
    assert verdicts(store) == dict(
        zip(order, ["correct", "correct", "wrong", "correct", "correct", "wrong"], strict=True)
    )
    assert len(journals(folder / "reviews", RIGHT, LEFT)) == 1
    with open_review(folder / "reviews", store, PLAN) as review:
        assert review.current is None
        assert review.table() == second
        with pytest.raises(UsageError, match="at its end"):
            review.answer("correct")
    with open_review(folder / "reviews", store, PLAN, undo=True) as review:
        assert review.current
        assert review.current.left.key == order[5]


def test_undo_gives_back_what_was_said_before(folder: Path, store: Store) -> None:
    store.set_verdict(pair(0).left, pair(0).right, "unclear", "import")
    store.ingest(job(LEFT, fingerprint="2"), kb_entities("D", "as it is now"))
    with open_review(folder / "reviews", store, PLAN) as review:
        assert review.current
        assert (review.current.left.key, review.current.stale) == ("D:0", True)
        review.answer("wrong")
        assert verdicts(store) == {"D:0": "wrong"}
        review.undo()
        assert verdicts(store) == {"D:0": "unclear"}
        assert review.current.left.key == "D:0"


def test_pairs_judged_before_count_and_are_not_asked(folder: Path, store: Store) -> None:
    order = draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs
    for left, right in order[:2]:
        store.set_verdict(EntityId(LEFT, left), EntityId(RIGHT, right), "correct")
    with open_review(folder / "reviews", store, PLAN) as review:
        assert len(review.pending) == 4
        for _ in range(4):
            review.answer("wrong")
        table = review.table()
    assert (table.correct, table.wrong, table.before, table.open) == (2, 4, 2, 0)


def test_a_stale_pair_that_was_not_drawn_is_in_no_count(folder: Path, store: Store) -> None:
    drawn = draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs
    (other, *_) = sorted({f"D:{number}" for number in range(10)} - {left for left, _ in drawn})
    store.set_verdict(EntityId(LEFT, other), EntityId(RIGHT, other.replace("D", "N")), "correct")
    changed = [
        replace(one, description="Changed.") if one.key == other else one
        for one in kb_entities("D")
    ]
    store.ingest(job(LEFT, fingerprint="2"), changed)
    table = answered(folder, store, "wrong", *["correct"] * 6)
    assert verdicts(store)[other] == "wrong"
    assert (table.correct, table.wrong, table.again, table.drawn) == (6, 0, 1, 6)


def test_a_killed_process_had_written_down_more_than_it_did(folder: Path, store: Store) -> None:
    answered(folder, store, "correct", "correct")
    path = journals(folder / "reviews", LEFT, RIGHT)[0]
    left, right = draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs[2]
    Journal.open(path).add(Entry((left, right), "wrong"))
    assert left not in verdicts(store)
    with open_review(folder / "reviews", store, PLAN) as review:
        assert verdicts(store)[left] == "wrong"
        assert len(review.pending) == 3
    Journal.open(path).add(Entry((left, right), "wrong", undone=True))
    looked = last_review(folder / "reviews", store, PLAN)
    assert looked
    assert looked.table().open == 4
    assert verdicts(store)[left] == "wrong"  # looking changes nothing
    with open_review(folder / "reviews", store, PLAN):
        assert left not in verdicts(store)


def test_a_pair_whose_entity_is_gone_is_left_out(folder: Path, store: Store) -> None:
    answered(folder, store, "correct")
    gone = draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs[1][0]
    rest = [one for one in kb_entities("D") if one.key != gone]
    store.ingest(job(LEFT, fingerprint="2"), rest)
    table = answered(folder, store, "wrong")
    assert (table.correct, table.wrong, table.open, table.drawn) == (1, 1, 3, 6)


def test_passed_over_pairs_come_up_again_in_the_next_review(folder: Path, store: Store) -> None:
    answered(folder, store, "skip", *["correct"] * 5)
    with open_review(folder / "reviews", store, PLAN) as review:
        assert len(review.pending) == 1
        review.answer("wrong")
        table = review.table()
    assert (table.correct, table.wrong, table.before, table.skipped) == (5, 1, 5, 0)


def test_each_plan_has_its_own_review(folder: Path, store: Store) -> None:
    answered(folder, store, "correct", "correct")
    uncertain = replace(PLAN, order="uncertain", sample=3)
    table = answered(folder, store, "wrong", "wrong", "wrong", plan=uncertain)
    assert (table.wrong, table.population, table.order) == (3, 8, "uncertain")
    with open_review(folder / "reviews", store, PLAN) as review:
        assert review.resumed
        assert isinstance(review, Review)
    assert len(journals(folder / "reviews", LEFT, RIGHT)) == 2


@pytest.mark.parametrize("order", ["random", "uncertain"])
def test_nothing_to_review(folder: Path, store: Store, order: Order) -> None:
    store.save_overlaps(LEFT, RIGHT, [])
    with (
        pytest.raises(UsageError, match="there are no overlaps of doid and ncit") as told,
        open_review(folder / "reviews", store, replace(PLAN, order=order)),
    ):
        pass
    assert "kglink overlap doid ncit" in told.value.hint


# ---------------------------------------------------------------------------------- the terminal
class Terminal:
    """`kglink overlap review` in a pseudo-terminal; its result goes to a pipe."""

    def __init__(self, *arguments: str, columns: int = 100, **variables: str) -> None:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self.before = termios.tcgetattr(slave)
        code = "from kglink_cli.main import run; run()"
        command = [sys.executable, "-c", code, "overlap", "review", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stderr=slave,
            stdout=subprocess.PIPE,
            env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns)} | variables,
            text=True,
        )
        self._slave = slave
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()
        os.close(self._master)
        os.close(self._slave)

    def expect(self, text: str) -> str:
        """Wait until this is shown; what was shown up to it."""
        until = time.monotonic() + WAIT_S
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], max(0, until - time.monotonic()))
            assert ready, f"{text!r} is not shown:\n{self.shown}"
            self.shown += os.read(self._master, 4096).decode()
        seen, _, self.shown = self.shown.partition(text)
        return seen

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def answer(self, keys: str) -> None:
        """Each key once its pair is shown."""
        for key in keys:
            self.expect("[q]uit")
            self.press(key)

    def end(self) -> tuple[int, str]:
        """The exit code and the result, once the command has ended."""
        out, _ = self.process.communicate(timeout=WAIT_S)
        while select.select([self._master], [], [], 0)[0]:
            self.shown += os.read(self._master, 4096).decode()
        return self.process.returncode, out

    def settings(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)


SIX = ("--sample", "6", "--json")


@contextmanager
def review(*arguments: str, no_color: str = "") -> Iterator[Terminal]:
    with Terminal(LEFT, RIGHT, *arguments, NO_COLOR=no_color) as terminal:
        yield terminal


def test_a_whole_review_in_a_terminal(folder: Path, store: Store) -> None:
    with review("--sample", "6", no_color="1") as terminal:
        shown = terminal.expect("[q]uit")
        assert "1/6  doid-ncit" in shown
        for part in ("other name", "What D is, as it was.", "What N is", "in: Disease",
                     "type: disease", "probability", "description .50", "name 1.00"):  # fmt: skip
            assert part in unstyled(shown)
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)  # no colour
        terminal.press("c")
        terminal.answer("CWu")  # capitals count
        terminal.answer("x")  # means nothing
        terminal.press("c")
        terminal.answer("s")
        code, out = terminal.end()
        assert code == 0
        assert terminal.settings() == terminal.before
    assert out.splitlines() == [
        "doid-ncit  3 correct, 1 wrong, 1 unclear: precision .75 (95% interval .30 to .95)",
        "unclear pairs counted as not correct, as in the paper: .60 (95% interval .23 to .88)",
        "a random 6 of 10 pairs, seed 17; 1 passed over",
    ]
    assert Counter(verdicts(store).values()) == {"correct": 3, "wrong": 1, "unclear": 1}


def test_undo_quit_and_resume_in_a_terminal(folder: Path, store: Store, kglink: Kglink) -> None:
    with review(*SIX) as terminal:
        terminal.answer("z")
        terminal.expect("there is nothing to take back")
        terminal.answer("cwzcq")
        code, out = terminal.end()
    assert code == 0
    first = json.loads(out)
    assert (first["correct"], first["wrong"], first["open"]) == (2, 0, 4)
    assert json.loads(kglink("overlap", "review", LEFT, RIGHT, *SIX, "--table").out) == first
    with review(*SIX) as terminal:
        terminal.expect("2 of 6 are judged or passed over already")
        terminal.answer("zzwwwwww")
        code, out = terminal.end()
    assert code == 0
    last = json.loads(out)
    assert (last["correct"], last["wrong"], last["open"]) == (0, 6, 0)
    assert set(verdicts(store).values()) == {"wrong"}


def test_keys_may_be_typed_ahead_and_arrows_mean_nothing(folder: Path, store: Store) -> None:
    with review(*SIX) as terminal:
        terminal.press("cc\x1b[A\x1b[15~\x1bOPé\rwww" + "w")
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["correct"], json.loads(out)["wrong"]) == (2, 4)


def test_killed_in_the_middle(folder: Path, store: Store) -> None:
    expected = [left for left, _ in draw(PLAN, store.overlaps(LEFT, RIGHT)).pairs]
    with review(*SIX) as terminal:
        terminal.answer("cw")
        terminal.expect("3/6")
        terminal.process.send_signal(signal.SIGKILL)
        assert terminal.end()[0] == -signal.SIGKILL
    assert verdicts(store) == {expected[0]: "correct", expected[1]: "wrong"}
    journal = journals(folder / "reviews", LEFT, RIGHT)[0]
    with journal.open("ab") as torn:
        torn.write(b'{"at": "2026-11-21T05:')
    with review(*SIX) as terminal:
        terminal.expect("3/6")
        terminal.answer("cccc")
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["correct"], json.loads(out)["wrong"]) == (5, 1)
    assert sorted(verdicts(store)) == sorted(expected)


@pytest.mark.slow
def test_killed_again_and_again_at_any_moment(folder: Path, store: Store) -> None:
    """Each process is killed some milliseconds after its key was pressed, wherever it is then."""
    for pressed, delay_ms in enumerate((0, 1, 2, 4, 8), 1):
        with review(*SIX) as terminal:
            terminal.expect("[q]uit")
            terminal.press("w")
            time.sleep(delay_ms / 1000)
            terminal.process.send_signal(signal.SIGKILL)
            terminal.end()
        journal = Journal.open(journals(folder / "reviews", LEFT, RIGHT)[0])
        assert len(verdicts(store)) <= len(journal.entries) <= pressed
    with review(*SIX) as terminal:
        terminal.press("w" * 6)
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["wrong"], json.loads(out)["open"]) == (6, 0)
    assert len(verdicts(store)) == 6


def test_interrupting_keeps_everything(folder: Path, store: Store) -> None:
    with review(*SIX) as terminal:
        terminal.answer("c")
        terminal.expect("2/6")
        terminal.expect("[q]uit")
        terminal.process.send_signal(signal.SIGINT)
        code, out = terminal.end()
        assert (code, out) == (130, "")
        assert terminal.settings() == terminal.before
        assert "run the same command to go on" in terminal.shown
    assert len(verdicts(store)) == 1


def test_one_review_at_a_time(folder: Path) -> None:
    with review(*SIX) as terminal:
        terminal.expect("[q]uit")
        with Terminal(RIGHT, LEFT, *SIX) as second:
            code, _ = second.end()
            assert code == 2
            assert "are being reviewed by another process" in second.shown
        terminal.press("q")
        assert terminal.end()[0] == 0


def test_what_a_terminal_would_obey_is_not_shown(folder: Path, store: Store) -> None:
    evil = [replace(one, title=f"\x1b]0;evil\x07{one.title}\u202e") for one in kb_entities("D")]
    store.ingest(job(LEFT, fingerprint="2"), evil)
    with Terminal(LEFT, RIGHT, *SIX, columns=50) as narrow:
        shown = narrow.expect("[q]uit")
        assert "]0;evil D " in shown
        assert "\x1b]" not in shown
        assert "\u202e" not in shown
        (_, *lines) = unstyled(shown).replace("\r", "").split("\n")  # the first is a note
        assert 40 < max(map(len, lines)) <= 50
        narrow.press("q")
        assert narrow.end()[0] == 0


def test_a_review_without_a_terminal(folder: Path, kglink: Kglink) -> None:
    told = kglink("overlap", "review", LEFT, RIGHT, code=2).err
    assert "a review needs a terminal" in told
    assert "--import FILE" in told
    assert "there is no such review" in kglink("overlap", "review", "--table", code=2).err


def test_verdicts_are_honoured_by_the_next_run(demo_copy: Path, kglink: Kglink) -> None:
    before = json.loads(kglink("overlap", "--json").out)
    with Terminal("--sample", "4", "--json") as terminal:
        terminal.answer("wcwu")
        code, out = terminal.end()
    assert code == 0
    assert json.loads(out)["wrong"] == 2
    after = json.loads(kglink("overlap", "--fresh", "--json").out)
    said = {(one["left"], one["right"]): one["verdict"] for one in after}
    assert {(one["left"], one["right"]) for one in before} <= said.keys()
    assert Counter(said.values())["wrong"] == 2
    with Workspace.open(demo_copy) as workspace:
        for (left, right), verdict in said.items():
            mine, other = EntityId.parse(left), EntityId.parse(right)
            found = workspace.store.counterparts([mine]).get(mine, ())
            if verdict in ("correct", "wrong"):
                assert (other in found) is (verdict == "correct")
