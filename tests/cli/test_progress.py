"""What people see of long work: lines where there is no terminal, a bar where there is one."""

from __future__ import annotations

import io
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.records import Progress
from kglink.sources import Problems, Source, Step
from kglink_cli import console
from kglink_cli import kbs as add_kb_module
from kglink_cli.console import Reached, display, progress
from kglink_kbs.mediawiki import adapter as adapter_module
from kglink_kbs.mediawiki.chunk import ChunkReader
from mediawiki_dumps import SAMPLE, adapter, export, page


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still until it is told how many seconds go by."""
    now = 0.0

    def go(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    return go


def lines_of(
    clock: Callable[[float], None], out: io.StringIO, told: Iterable[tuple[float, Reached]]
) -> list[str]:
    """The lines for what was reached after so many more seconds."""
    lines = console._Lines(out)
    for seconds, reached in told:
        clock(seconds)
        lines.show(reached)
    return out.getvalue().splitlines()


def test_bytes_make_the_share_the_rate_and_the_time_left(clock: Callable[[float], None]) -> None:
    told = [
        (0.0, Reached("1/3 pages", 0, 50_000_000, 0, "bytes")),
        (10.0, Reached("1/3 pages", 5_000_000, 50_000_000, 0, "bytes")),
        (5.0, Reached("1/3 pages", 9_000_000, 50_000_000, 0, "bytes")),  # too soon for a line
        (15.0, Reached("1/3 pages", 30_000_000, 50_000_000, 0, "bytes")),
    ]
    assert lines_of(clock, io.StringIO(), told) == [
        "  1/3 pages 5.0 MB of 50.0 MB (10%), 500.0 kB/s, 0:01:30 left",
        "  1/3 pages 30.0 MB of 50.0 MB (60%), 1.0 MB/s, 0:00:20 left",
    ]


def test_a_new_step_has_a_pace_of_its_own(clock: Callable[[float], None]) -> None:
    told = [
        (0.0, Reached("1/3 pages", 0, 50_000_000, 0, "bytes")),
        (100.0, Reached("1/3 pages", 50_000_000, 50_000_000, 0, "bytes")),
        (10.0, Reached("2/3 names", 0, 8, 0, "parts")),
        (10.0, Reached("2/3 names", 2, 8, 0, "parts")),
        (10.0, Reached("3/3 records", 0, 40, 0, "parts")),
        (10.0, Reached("3/3 records", 10, 40, 12_000, "parts")),
    ]
    assert lines_of(clock, io.StringIO(), told) == [
        "  1/3 pages 50.0 MB of 50.0 MB (100%), 500.0 kB/s, 0:00:00 left",
        "  2/3 names (0%)",
        "  2/3 names (25%), 0:00:30 left",
        "  3/3 records (0%)",
        "  3/3 records 12,000 (25%), 1,200/s, 0:00:30 left",
    ]


def test_a_step_that_is_done_again_has_a_new_pace(clock: Callable[[float], None]) -> None:
    told = [
        (10.0, Reached("judging", 0, 40, 0)),
        (10.0, Reached("judging", 40, 40, 40)),
        (100.0, Reached("judging", 0, 40, 0)),
        (10.0, Reached("judging", 20, 40, 20)),
    ]
    assert lines_of(clock, io.StringIO(), told)[-1] == "  judging 20 of 40 (50%), 2/s, 0:00:10 left"


def test_records_count_where_there_are_some(clock: Callable[[float], None]) -> None:
    told = [
        (0.0, Reached("reading", 0, 16e6, 0, "bytes")),
        (10.0, Reached("reading", 4e6, 16e6, 12_000, "bytes")),
    ]
    (line,) = lines_of(clock, io.StringIO(), told)
    assert line == "  reading 12,000 (25%), 1,200/s, 0:00:30 left"


def test_items_are_counted_with_and_without_an_end(clock: Callable[[float], None]) -> None:
    told = [
        (0.0, Reached("encoding", 0, 2000, 0)),
        (10.0, Reached("encoding", 500, 2000, 500)),
        (10.0, Reached("mentions", 20, None, 20)),
    ]
    assert lines_of(clock, io.StringIO(), told) == [
        "  encoding 500 of 2,000 (25%), 50/s, 0:00:30 left",
        "  mentions 20, 0/s",
    ]


def test_what_was_there_before_took_no_time(clock: Callable[[float], None]) -> None:
    told = [
        (0.0, Reached("encoding", 1000, 2000, 1000)),
        (10.0, Reached("encoding", 1500, 2000, 1500)),
    ]
    assert lines_of(clock, io.StringIO(), told) == [
        "  encoding 1,500 of 2,000 (75%), 50/s, 0:00:10 left"
    ]


class Terminal(io.StringIO):
    """A standard error that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def wait_until(seen: Callable[[], bool]) -> None:
    """Wait for another thread to have done something."""
    for _ in range(500):
        if seen():
            return
        time.sleep(0.01)
    pytest.fail("it never came")


def test_silent_work_is_watched_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(console, "LOOK_EVERY", 0.01)
    reached = [
        Reached("1/3 pages", 1e6, 4e6, 0, "bytes"),
        Reached("3/3 records", 3, 4, 70, "parts"),
    ]
    with display(lambda: reached[0]):
        wait_until(lambda: "1.0 MB of 4.0 MB" in terminal.getvalue())
        del reached[0]
        wait_until(lambda: "3/3 records" in terminal.getvalue())
    shown = terminal.getvalue()
    assert "25%" in shown
    assert "75%" in shown


def test_a_bar_without_an_end_shows_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress() as tell:
        tell(Progress("mentions", 1234))
    assert "1,234" in terminal.getvalue()


def test_the_watcher_ends_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "LOOK_EVERY", 0.001)
    looks = itertools.count()

    def work_that_breaks() -> None:
        with display(lambda: Reached("x", next(looks))):
            wait_until(lambda: next(looks) > 3)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work_that_breaks()
    last = next(looks)
    time.sleep(0.05)
    assert next(looks) == last + 1


def test_a_line_that_says_nothing_new_is_not_written(clock: Callable[[float], None]) -> None:
    told = [
        (10.0, Reached("stage T", 10, 20, 10, pace="24 pairs/s")),
        (10.0, Reached("stage T", 10, 20, 10, pace="24 pairs/s")),
        (10.0, Reached("stage T", 20, 20, 20, pace="24 pairs/s")),
    ]
    assert lines_of(clock, io.StringIO(), told) == [
        "  stage T 10 of 20 (50%), 24 pairs/s",
        "  stage T 20 of 20 (100%), 24 pairs/s",
    ]


def test_a_step_that_is_done_is_said_once(clock: Callable[[float], None]) -> None:
    """Its pace falls while what comes next says nothing yet."""
    told = [
        (10.0, Reached("encoding", 500, 1000, 500)),
        (10.0, Reached("encoding", 1000, 1000, 1000)),
        (10.0, Reached("encoding", 1000, 1000, 1000)),
        (10.0, Reached("encoding", 500, 1000, 500)),
    ]
    lines = lines_of(clock, io.StringIO(), told)
    assert [line.partition("(")[2][:4] for line in lines] == ["50%)", "100%", "50%)"]


def test_work_goes_on_where_nobody_reads_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    monkeypatch.setattr(console, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    looks = itertools.count()
    with display(lambda: Reached("x", next(looks))):
        wait_until(lambda: next(looks) > 1)
        time.sleep(0.05)
    assert next(looks) < 500  # the first line was the last


# ------------------------------------------------------------------------------- MediaWiki
class Noting(Source):
    """A source that keeps every step that it is told."""

    steps: list[Step]

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if isinstance(value, Step):
            self.__dict__.setdefault("steps", []).append(self.progress)


def test_a_dump_is_read_in_three_steps_and_the_first_counts_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "Some words about it. " * 500
    path = tmp_path / "wiki.xml"
    path.write_text(export(*(page(n, f"Page {n}", filler) for n in range(1, 301))))
    monkeypatch.setattr(adapter_module, "ALONE_BYTES", 2**40)
    monkeypatch.setattr(adapter_module, "LEAST_PIECE", 2**18)
    seen = []
    read = ChunkReader.read

    def noting_read(reader: ChunkReader, *job: object) -> object:
        seen.append(source.progress)
        return read(reader, *job)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(ChunkReader, "read", noting_read)
    with Noting.open_path(path) as source:
        assert isinstance(source, Noting)
        records = list(adapter(documents=5).read(source, Problems()))
    size = path.stat().st_size
    assert len(records) == 300  # nothing links to anything: no document
    assert {(step.name, step.total, step.unit) for step in seen} == {("1/3 pages", size, "bytes")}
    done = [step.done for step in seen]
    assert done == sorted(done)
    assert len({*done}) >= 3
    names = [name for name, _ in itertools.groupby(step.name for step in source.steps)]
    assert names == ["reading", "1/3 pages", "2/3 names", "3/3 records"]
    for name in ("2/3 names", "3/3 records"):
        steps = [step for step in source.steps if step.name == name]
        assert [step.done for step in steps] == [*range(steps[0].total)]
    assert source.bytes_read == size


def test_add_kb_watches_the_source_and_the_store(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wiki.xml").write_text(SAMPLE)
    looked: list[Callable[[], Reached]] = []

    def watch(reached: Callable[[], Reached]) -> object:
        looked.append(reached)
        return display(reached)

    monkeypatch.setattr(add_kb_module, "display", watch)
    added = json.loads(kglink("add-kb", "wiki", "wiki.xml", "--json").out)
    assert looked[0]() == Reached("3/3 records", 0, 1, added["added"], "parts")


def test_the_summary_counts_what_was_left_out_and_why(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = SAMPLE.replace("</mediawiki>", page("no number", "Lamp", "x") + "</mediawiki>")
    (tmp_path / "wiki.xml").write_text(broken)
    added = json.loads(kglink("add-kb", "wiki", "wiki.xml", "--json", "--on-error", "skip").out)
    assert added["left_out"] == {"redirect": 3, "disambiguation page": 1}
    assert added["mended"] == {}
    assert added["skipped"] == {"a page whose id is ..., no number": 1}
    assert added["examples"] == [
        "wiki.xml, page 'Lamp': a page whose id is 'no number', no number\n  An export names both."
    ]
