"""`kglink overlap review` in a real terminal: keys, undo, kill -9, and what comes of it."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.overlap.review.journal import Journal, draw, journals
from kglink.records import EntityId
from kglink.store import Store
from kglink.workspace import Workspace
from review_support import LEFT, PLAN, RIGHT, WAIT_S, Terminal, kb_entities, unstyled, verdicts
from store_support import job

pytest_plugins = ["review_fixtures"]

SIX = ("--sample", "6", "--json")


@contextmanager
def review(*arguments: str, no_color: str = "") -> Iterator[Terminal]:
    with Terminal(LEFT, RIGHT, *arguments, NO_COLOR=no_color) as terminal:
        yield terminal


def test_a_whole_review_in_a_terminal(folder: Path, reviewed: Store) -> None:
    with review("--sample", "6", no_color="1") as terminal:
        shown = terminal.expect("[q]uit")
        assert "1/6  doid-ncit" in shown
        for part in ("other name", "What D is, as it was.", "What N is", "in: Disease",
                     "type: disease", "probability", "description .50", "name 1.00",
                     "shared name: other name"):  # fmt: skip
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
    assert Counter(verdicts(reviewed).values()) == {"correct": 3, "wrong": 1, "unclear": 1}


@pytest.mark.slow
def test_undo_quit_and_resume_in_a_terminal(folder: Path, reviewed: Store, kglink: Kglink) -> None:
    with review(*SIX) as terminal:
        terminal.answer("z")
        terminal.expect("there is nothing to take back")
        terminal.answer("cwzcq")
        code, out = terminal.end()
    assert code == 0
    first = json.loads(out)
    assert (first["correct"], first["wrong"], first["open"]) == (2, 0, 4)
    assert json.loads(kglink("overlap", "review", LEFT, RIGHT, *SIX, "--table").out) == first
    told = kglink("overlap", "review", LEFT, RIGHT, "--table", code=2).err
    assert "There is: --sample 6 --order" in told
    with review(*SIX) as terminal:
        terminal.expect("2 of 6 are judged or passed over already")
        terminal.answer("zzwwwwww")
        code, out = terminal.end()
    assert code == 0
    last = json.loads(out)
    assert (last["correct"], last["wrong"], last["open"]) == (0, 6, 0)
    assert set(verdicts(reviewed).values()) == {"wrong"}


@pytest.mark.slow
def test_keys_may_be_typed_ahead_and_arrows_mean_nothing(folder: Path, reviewed: Store) -> None:
    with review(*SIX) as terminal:
        terminal.press("cc\x1b[A\x1b[15~\x1bOPé\rwww" + "w")
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["correct"], json.loads(out)["wrong"]) == (2, 4)


@pytest.mark.slow
def test_killed_in_the_middle(folder: Path, reviewed: Store) -> None:
    expected = [left for left, _ in draw(PLAN, reviewed.overlaps(LEFT, RIGHT)).pairs]
    with review(*SIX) as terminal:
        terminal.answer("cw")
        terminal.expect("3/6")
        terminal.process.send_signal(signal.SIGKILL)
        assert terminal.end()[0] == -signal.SIGKILL
    assert verdicts(reviewed) == {expected[0]: "correct", expected[1]: "wrong"}
    journal = journals(folder / "reviews", LEFT, RIGHT)[0]
    with journal.open("ab") as torn:
        torn.write(b'{"at": "2026-11-21T05:')
    with review(*SIX) as terminal:
        terminal.expect("3/6")
        terminal.answer("cccc")
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["correct"], json.loads(out)["wrong"]) == (5, 1)
    assert sorted(verdicts(reviewed)) == sorted(expected)


@pytest.mark.slow
def test_killed_again_and_again_at_any_moment(folder: Path, reviewed: Store) -> None:
    """Each process is killed some milliseconds after its key was pressed, wherever it is then."""
    for pressed, delay_ms in enumerate((0, 1, 2, 4, 8), 1):
        with review(*SIX) as terminal:
            terminal.expect("[q]uit")
            terminal.press("w")
            time.sleep(delay_ms / 1000)
            terminal.process.send_signal(signal.SIGKILL)
            terminal.end()
        journal = Journal.open(journals(folder / "reviews", LEFT, RIGHT)[0])
        assert len(verdicts(reviewed)) <= len(journal.entries) <= pressed
    with review(*SIX) as terminal:
        terminal.press("w" * 6)
        code, out = terminal.end()
    assert code == 0
    assert (json.loads(out)["wrong"], json.loads(out)["open"]) == (6, 0)
    assert len(verdicts(reviewed)) == 6


@pytest.mark.slow
def test_interrupting_keeps_everything(folder: Path, reviewed: Store) -> None:
    with review(*SIX) as terminal:
        terminal.answer("c")
        terminal.expect("2/6")
        terminal.expect("[q]uit")
        terminal.process.send_signal(signal.SIGINT)
        code, out = terminal.end()
        assert (code, out) == (130, "")
        assert terminal.settings() == terminal.before
        assert "run the same command to go on" in terminal.shown
    assert len(verdicts(reviewed)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_sets_the_terminal_back(
    folder: Path, reviewed: Store, number: signal.Signals
) -> None:
    with review(*SIX) as terminal:
        terminal.answer("c")
        terminal.expect("2/6")
        terminal.expect("[q]uit")
        assert terminal.settings() != terminal.before
        terminal.process.send_signal(number)
        assert terminal.end() == (128 + number, "")
        assert terminal.settings() == terminal.before
    assert len(verdicts(reviewed)) == 1


@pytest.mark.slow
def test_after_a_pause_single_keys_are_read_again(folder: Path, reviewed: Store) -> None:
    with review(*SIX) as terminal:
        terminal.expect("[q]uit")
        reading = terminal.settings()
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.set(terminal.before)  # the shell has the terminal meanwhile
        terminal.process.send_signal(signal.SIGCONT)
        until = time.monotonic() + WAIT_S
        while terminal.settings() != reading and time.monotonic() < until:
            time.sleep(0.01)
        assert terminal.settings() == reading
        terminal.press("c")
        terminal.expect("2/6")
        terminal.press("q")
        assert terminal.end()[0] == 0
    assert len(verdicts(reviewed)) == 1


@pytest.mark.slow
def test_one_review_at_a_time(folder: Path) -> None:
    with review(*SIX) as terminal:
        terminal.expect("[q]uit")
        with Terminal(RIGHT, LEFT, *SIX) as second:
            code, _ = second.end()
            assert code == 2
            assert "are being reviewed by another process" in second.shown
        terminal.press("q")
        assert terminal.end()[0] == 0


@pytest.mark.slow
def test_what_a_terminal_would_obey_is_not_shown(folder: Path, reviewed: Store) -> None:
    evil = [
        replace(one, title=f"\x1b]0;evil\x07{one.title}\u202e" + "x" * 10_000)
        for one in kb_entities("D")
    ]
    reviewed.ingest(job(LEFT, fingerprint="2"), evil)
    with Terminal(LEFT, RIGHT, *SIX, columns=50) as narrow:
        shown = narrow.expect("[q]uit")
        assert "]0;evil D " in shown
        assert "\x1b]" not in shown
        assert "\u202e" not in shown
        assert 200 < shown.count("x") < 400
        (_, *lines) = unstyled(shown).replace("\r", "").split("\n")  # the first is a note
        assert 40 < max(map(len, lines)) <= 50
        narrow.press("q")
        assert narrow.end()[0] == 0


def test_a_review_without_a_terminal(folder: Path, kglink: Kglink) -> None:
    told = kglink("overlap", "review", LEFT, RIGHT, code=2).err
    assert "a review needs a terminal" in told
    assert "--import FILE" in told
    told = kglink("overlap", "review", "--table", code=2).err
    assert "there is no such review" in told
    assert "none yet, `kglink overlap review` begins one" in told


@pytest.mark.slow
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
