"""Sources that want more of the machine than they should: devices, pipes, bombs, huge texts."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kglink.errors import RecordError, SourceError
from kglink.records import Alias, CodeMapping, Document, Entity, Mention, Record
from kglink.sources import OnError, Problems, Source, SourceLimits, read_records
from kglink.sources.compression import zstd
from kglink.workspace import Workspace

SMALL = SourceLimits(max_spool_bytes=100_000, pipe_seconds=0.3)


# ------------------------------------------------------------------------ devices and pipes
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused_by_name(device: str) -> None:
    if not Path(device).is_char_device():
        pytest.skip(f"no {device} here")
    with pytest.raises(SourceError) as refused:
        Source.open_path(device)
    assert refused.value.message == f"{device} is a device, not a file"
    assert "pipe the data in" in refused.value.hint


def test_a_socket_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        with pytest.raises(SourceError, match="is a socket, not a file"):
            Source.open_path(path)


def test_a_pipe_that_nobody_writes_to_is_told() -> None:
    folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a short path for a pipe
    path = Path(folder) / f"kglink-test-pipe-{os.getpid()}"
    os.mkfifo(path)
    before = threading.active_count()
    try:
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"no program writes to \(waited 0.3 seconds\)"):
            Source.open_path(path, limits=SMALL)
        assert time.monotonic() - started < 10
        assert threading.active_count() == before
    finally:
        path.unlink()


def test_a_pipe_whose_writer_takes_its_time_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            time.sleep(0.6)  # longer than the wait for a writer
            pipe.write(b"one\ntwo\n")

    writer = threading.Thread(target=write)
    writer.start()
    with Source.open_path(path, limits=SMALL) as source:
        assert [line.text for line in source.lines(Problems())] == ["one", "two"]
    writer.join()


class Endless(io.RawIOBase):
    """Gives the same bytes without end, and counts them."""

    def __init__(self, data: bytes) -> None:
        self.given = 0
        self._data = data

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        self.given += size
        return (self._data * (size // len(self._data) + 1))[:size]


def test_a_stream_without_end_is_cut_at_the_limit() -> None:
    stream = Endless(b"one line of text\n")
    with pytest.raises(SourceError, match="standard input gives more than 100,000 bytes") as told:
        Source.from_stream(stream, limits=SMALL)  # type: ignore[arg-type]  # enough of a stream
    assert "ingest.max_stdin_gb" in told.value.hint


def test_a_stream_of_zeros_is_refused_at_once() -> None:
    stream = Endless(b"\0")
    with pytest.raises(SourceError, match="standard input is binary"):
        Source.from_stream(stream)  # type: ignore[arg-type]  # enough of a stream
    assert stream.given < 2**22


# ------------------------------------------------------------------------------- expansion
def bomb(lines: int) -> bytes:
    return zstd.compress(b"\n" * lines, 3)


def test_a_bomb_of_lines_is_refused_soon() -> None:
    """96 kB of zstd may hold three thousand million empty lines."""
    data = bomb(2**26)
    assert len(data) < 20_000
    with Source.from_bytes(data, name="a.jsonl.zst") as source:
        with pytest.raises(SourceError, match="grows to too many lines") as refused:
            for _ in source.lines(Problems()):
                pass
        assert "ingest.max_expansion" in refused.value.hint


def test_a_bomb_of_lines_in_7z_is_refused_too() -> None:
    py7zr = pytest.importorskip("py7zr")
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive.writestr(b"\n" * 2**22, "a.jsonl")
    with (
        Source.from_bytes(packed.getvalue(), name="a.7z") as source,
        pytest.raises(SourceError, match="grows to too many lines"),
    ):
        for _ in source.lines(Problems()):
            pass


def test_lines_that_shrink_well_are_read() -> None:
    data = gzip.compress(b"".join(b"entity %d\n" % number for number in range(300_000)))
    with Source.from_bytes(data, name="a.gz") as source:
        assert sum(1 for _ in source.lines(Problems())) == 300_000


def test_unpacking_that_takes_too_long_is_refused() -> None:
    limits = SourceLimits(free_seconds=0.0)
    with pytest.raises(SourceError, match="takes too long to unpack: 1,000 bytes of gzip took"):
        limits.check_growth("a.gz", 1000, 1, "gzip", seconds=1)
    limits.check_growth("a.gz", 10**6, 1, "gzip", seconds=1)


def test_progress_is_not_all_before_the_lines_are() -> None:
    data = zstd.compress(os.urandom(1_000_000).hex().encode())
    with Source.from_bytes(data, name="a.zst") as source, source.open() as stream:
        stream.read(1)
        assert source.progress.done < 0.2 * source.progress.total


# ------------------------------------------------------------------------------ huge texts
def test_a_text_is_read_within_a_limit() -> None:
    limits = SourceLimits(max_text_chars=10)
    for data, is_read in ((b"0123456789", True), ("é" * 10, True), (b"0123456789a", False)):
        raw = data.encode() if isinstance(data, str) else data
        with Source.from_bytes(raw, name="a.txt", limits=limits) as source:
            if is_read:
                assert source.text() == raw.decode()
                continue
            with pytest.raises(RecordError, match="a text of more than 10 characters") as refused:
                source.text()
            assert "ingest.max_text_mb" in refused.value.hint


LONG: tuple[tuple[Record, str], ...] = (
    (Entity("k", "t", "x" * 21), "text"),
    (Document("d", "x" * 21), "text"),
    (Document("x" * 11, "t"), "name"),
    (Document("d", "x" * 20, (Mention(0, 11, "x" * 11),)), "mention"),
)


@pytest.mark.parametrize(("record", "what"), LONG)
def test_a_record_with_a_huge_text_is_a_bad_record(record: Record, what: str) -> None:
    limits = SourceLimits(max_name_chars=10, max_text_chars=20)
    good: list[Record] = [Entity("k", "x" * 10, "x" * 20), CodeMapping("a", "b")]
    with Source.from_bytes(b"x", name="a.jsonl", limits=limits) as source:
        problems = Problems("skip")
        assert list(read_records("x", lambda *_: [*good, record], source, problems)) == good
        assert problems.total == 1
        with pytest.raises(RecordError, match=f"^a.jsonl, record .*: a {what} of "):
            list(read_records("x", lambda *_: [record], source, Problems()))


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_reader_that_fails_amid_a_source_never_passes_for_its_end(on_error: OnError) -> None:
    def read(source: Source, problems: Problems) -> Iterator[Record]:
        yield Entity("k", "t")
        raise TypeError("x" * 500)

    with (
        Source.from_bytes(b"x", name="a.jsonl") as source,
        pytest.raises(SourceError, match=r"^a.jsonl, behind record 1: kglink/x failed with Type"),
    ):
        list(read_records("kglink/x", read, source, Problems(on_error)))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"id": "a"}, "it is of the type dict"),
        (Entity("k", None), "the title is of the type NoneType"),  # type: ignore[arg-type]  # wrong
        (Entity("k", "t", parents="ab"), "the parents of entity 'k' are of the type str"),  # type: ignore[arg-type]  # wrong
        (Entity("k", "t", popularity="9"), "the popularity of entity 'k' is of the type str"),  # type: ignore[arg-type]  # wrong
        (Entity("k", "t", aliases=("a",)), "an alias of entity 'k' is of the type str"),  # type: ignore[arg-type]  # wrong
        (Entity("k", "t", aliases=(Alias(None),)), "the surface of an alias of entity 'k' is"),  # type: ignore[arg-type]  # wrong
    ],
)  # fmt: skip
def test_a_reader_that_gives_no_records_is_named(record: Any, said: str) -> None:
    with (
        Source.from_bytes(b"x", name="a.jsonl") as source,
        pytest.raises(SourceError, match=f"^a.jsonl: record 2 of my/own: {said}"),
    ):
        list(read_records("my/own", lambda *_: [Entity("a", "b"), record], source, Problems()))


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, OSError])
def test_what_no_source_is_to_blame_for_stays_what_it_is(error: type[BaseException]) -> None:
    def read(source: Source, problems: Problems) -> list[Record]:
        raise error

    with Source.from_bytes(b"x", name="a.jsonl") as source, pytest.raises(error):
        list(read_records("kglink/x", read, source, Problems("skip")))


LONG_NAMES = (
    Document("d", "text", title="t" * 600),
    Document("d", "m" * 600, (Mention(0, 600, "m" * 600),)),
)


@pytest.mark.parametrize("document", LONG_NAMES, ids=("title", "mention"))
@pytest.mark.parametrize("from_file", [True, False], ids=("file", "memory"))
def test_the_longest_name_of_the_settings_holds_for_documents(
    tmp_path: Path, document: Document, from_file: bool
) -> None:
    source: Path | list[Document] = [document]
    if from_file:
        source = tmp_path / "notes.jsonl"
        mentions = [{"start": one.start, "end": one.end} for one in document.mentions]
        record = {"id": document.id, "title": document.title, "text": document.text}
        source.write_text(json.dumps({**record, "entities": mentions}) + "\n")
    for most, documents in ((512, 0), (1024, 1)):
        flags = {"ingest.max_name_chars": most}
        with Workspace.open(tmp_path / str(most), create=True, flags=flags) as workspace:
            if documents:
                workspace.add_kb("notes", source)
            else:
                with pytest.raises(RecordError, match="of 600 characters, and 512 are the most"):
                    workspace.add_kb("notes", source)
            assert sum(one.documents for one in workspace.kbs()) == documents


FOLDED_IN_A_CHILD = """
import resource, sys
from kglink.errors import KglinkError
from kglink import Workspace
resource.setrlimit(resource.RLIMIT_AS, (700 * 2**20,) * 2)
try:
    with Workspace.open(sys.argv[2], create=True) as workspace:
        workspace.add_kb("kb", sys.argv[1])
except KglinkError as error:
    print(error.message)
"""


@pytest.mark.slow
def test_millions_of_the_longest_ligature_are_refused_in_little_memory(tmp_path: Path) -> None:
    """U+FDFA folds into 18 letters: 29 kB of gzip hold ten million of them."""
    path = tmp_path / "a.jsonl.gz"
    title = "\ufdfa" * 10_000_000
    path.write_bytes(gzip.compress(f'{{"id": "a", "title": "{title}"}}\n'.encode()))
    assert path.stat().st_size < 40_000
    ran = subprocess.run(
        [sys.executable, "-c", FOLDED_IN_A_CHILD, str(path), str(tmp_path / "workspace")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "a name of 10,000,000 characters, and 32,768 are the most" in ran.stdout


# ---------------------------------------------------------------------------------- encodings
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Москва — столица России, город федерального значения.\n",
        "東京都は、日本の首都であり、関東地方に位置する都である。\n",
        "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας και μεγάλη πόλη.\n",
        "Paris is the capital of France, and its largest city.\n",
    ],
)
def test_utf_16_of_any_script_is_named(text: str, encoding: str) -> None:
    with Source.from_bytes((text * 5).encode(encoding), name="a.txt") as source:
        with pytest.raises(SourceError, match="is UTF-16") as refused:
            list(source.lines(Problems()))
        assert "WINDOWS" not in refused.value.hint
        with pytest.raises(SourceError, match="is UTF-16"):
            source.text()


@pytest.mark.parametrize(
    "text",
    [
        "Café crème à la carte, déjà vu; l'été à Besançon\n",
        "Straße, Größe, Übermut und Ärger; schöne Grüße aus Köln\n",
        "é\n",
    ],
)
def test_latin_1_is_still_latin_1(text: str) -> None:
    with Source.from_bytes((text * 5).encode("latin-1"), name="a.txt") as source:
        for read in (lambda: list(source.lines(Problems())), source.text):
            with pytest.raises(RecordError, match="not valid UTF-8") as refused:
                read()
            assert "iconv -f WINDOWS-1252" in refused.value.hint


# -------------------------------------------------------------------------------------- hints
EVIL = "a; touch pwned #'$(touch pwned)`.txt"


@pytest.mark.parametrize(
    "data",
    [
        b"\xfd7zXZ\x00" + b"x" * 300,
        b"\xff\xfe\0\0a\0\0\0",
        b"x" * 257 + b"ustar" + b"x" * 300,
        gzip.compress(b"one\ntwo\n" * 99)[:-9],
    ],
    ids=["xz", "utf-32", "tar", "cut gzip"],
)
def test_a_hint_can_be_pasted_whatever_the_name_is(data: bytes) -> None:
    with Source.from_bytes(data, name=EVIL) as source, pytest.raises(SourceError) as refused:
        list(source.lines(Problems()))
    assert shlex.quote(EVIL) in refused.value.hint
    assert EVIL not in refused.value.hint.replace(shlex.quote(EVIL), "")


def test_the_member_of_an_archive_is_quoted_in_the_hint(tmp_path: Path) -> None:
    py7zr = pytest.importorskip("py7zr")
    packed = io.BytesIO()
    member = "-x $(touch pwned); touch pwned"
    with py7zr.SevenZipFile(packed, "w") as archive:
        archive.writestr(b"1", member)
        archive.writestr(b"2", "b")
    with (
        Source.from_bytes(packed.getvalue(), name="a b.7z") as source,
        pytest.raises(SourceError) as refused,
    ):
        source.open().read()
    command = refused.value.hint.removeprefix("Pipe one in: ").partition(" | ")[0]
    script = tmp_path / "7z"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    script.chmod(0o755)
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert ran.stdout.splitlines() == ["x", "-so", "--", "a b.7z", member]
    assert not (tmp_path / "pwned").exists()


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """No attack may hold the tests up: each is refused within a minute."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 60
