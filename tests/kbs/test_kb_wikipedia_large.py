from __future__ import annotations

import bz2
import io
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kglink.errors import SourceError
from kglink.records import Record
from kglink.sources import Problems
from kglink.workspace import Workspace, init_workspace
from kglink_kbs.mediawiki import adapter as adapter_module
from kglink_kbs.mediawiki.workers import receive, send
from mediawiki_dumps import (
    adapter,
    count_plainly,
    documents,
    entities,
    opened,
    read,
)
from worlds import World, WorldSettings, write_mediawiki_xml

ENTITIES = 1000


# ------------------------------------------------------------------- many pieces, processes
@pytest.fixture(scope="module")
def world_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "world.xml"
    with path.open("w", encoding="utf-8") as out:
        written = write_mediawiki_xml(out, World(WorldSettings(entities=ENTITIES)))
    assert (written.articles, written.links) == (ENTITIES, 12 * ENTITIES)
    return path


@pytest.fixture(scope="module")
def records(world_dump: Path) -> list[Record]:
    """What is read of it."""
    return read(world_dump)


@pytest.fixture(scope="module")
def with_documents(world_dump: Path) -> list[Record]:
    """The same, with a hundred documents."""
    return read(world_dump, documents=100)


def test_names_and_counts_are_those_of_a_plain_reading(
    world_dump: Path, records: list[Record]
) -> None:
    plain = count_plainly(world_dump)
    found = entities(records)
    assert len(found) == ENTITIES
    assert sum(plain.incoming.values()) > 12 * ENTITIES
    for key, entity in found.items():
        redirects = {alias.surface for alias in entity.aliases if alias.kind == "redirect"}
        anchors = {alias.surface: alias.count for alias in entity.aliases if alias.kind == "anchor"}
        assert redirects == plain.redirects.get(key, set())
        assert anchors == plain.anchors.get(key, Counter())
        assert entity.popularity == plain.incoming[key]
        assert entity.description.count(" is known. ") == 1


@pytest.mark.slow
def test_neither_processes_nor_parts_nor_pieces_change_anything(
    world_dump: Path, with_documents: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = with_documents
    assert len(documents(expected)) == 100
    monkeypatch.setattr(adapter_module, "PART_BYTES", 2**17)
    monkeypatch.setattr(adapter_module, "LEAST_PIECE", 10**5)
    monkeypatch.setattr(adapter_module, "MOST_GROUPS", 5)
    assert read(world_dump, documents=100, workers=3) == expected
    monkeypatch.setattr(adapter_module, "ALONE_BYTES", 2**30)
    assert read(world_dump, documents=100) == expected


def test_ctrl_c_ends_no_process_that_is_starting(
    world_dump: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            time.sleep(0.2)
            self.send_signal(signal.SIGINT)
            interrupted.append(self.pid)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    assert read(world_dump, workers=1) == records
    assert interrupted


def test_the_parts_of_a_dump_in_a_folder_are_one(
    world_dump: Path, records: list[Record], tmp_path: Path
) -> None:
    header, *pages = world_dump.read_text().replace("</mediawiki>\n", "").split("  <page>\n")
    pages = [f"  <page>\n{text}" for text in pages]
    for number, some in enumerate((pages[:300], pages[300:])):
        text = header + "".join(some) + "</mediawiki>\n"
        (tmp_path / f"part{number}.xml.bz2").write_bytes(bz2.compress(text.encode()))
    assert read(tmp_path) == records


def test_multistream_archives_are_read(
    world_dump: Path, records: list[Record], tmp_path: Path
) -> None:
    data = world_dump.read_bytes()
    path = tmp_path / "world.xml.bz2"
    path.write_bytes(
        b"".join(bz2.compress(data[at : at + 10**5]) for at in range(0, len(data), 10**5))
    )
    assert read(path) == records


def test_a_truncated_archive_is_told(world_dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.xml.bz2"
    path.write_bytes(bz2.compress(world_dump.read_bytes())[:50_000])
    with pytest.raises(SourceError, match=r"cut short.*near byte"):
        read(path)


def test_what_an_interrupted_run_has_read_is_not_read_again(
    world_dump: Path,
    with_documents: list[Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter_module, "LEAST_PIECE", 3 * 10**5)
    monkeypatch.setattr(adapter_module, "ALONE_BYTES", 2**30)
    with opened(world_dump) as source:
        source.scratch_in = tmp_path / "scratch"
        list(adapter(documents=100).read(source, Problems()))
        chunks = sorted(source.scratch.glob("chunk-*"))
        assert len(chunks) > 3
        joined = [*source.scratch.glob("joined-*"), *source.scratch.glob("a*ed-*")]
        kept = chunks[0].stat().st_mtime_ns
        for path in (chunks[2], *joined):
            path.unlink()
    with opened(world_dump) as source:
        source.scratch_in = tmp_path / "scratch"
        assert list(adapter(documents=100).read(source, Problems())) == with_documents
        assert chunks[0].stat().st_mtime_ns == kept
        list(adapter(documents=100, sentences=1).read(source, Problems()))
        assert chunks[0].stat().st_mtime_ns != kept  # another plan begins anew


def test_the_scratch_folder_goes_when_all_is_done(world_dump: Path, tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "workspace")
    with Workspace.open(folder) as workspace:
        added = workspace.add_kb("atlas", world_dump, adapter="kglink/wikipedia")
        assert added.summary.added == ENTITIES
        assert not (folder / ".scratch").exists()


def test_a_part_of_a_message_is_none_so_no_part_of_a_piece_is_kept() -> None:
    whole = io.BytesIO()
    send(whole, {"do": "read", "chunk": 1}, b"<page>...</page>")
    message = whole.getvalue()
    assert receive(io.BytesIO(message)) == ({"do": "read", "chunk": 1}, b"<page>...</page>")
    assert all(receive(io.BytesIO(message[:cut])) is None for cut in range(len(message)))
