"""Builds that are interrupted leave the old version, and go on to the same bytes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from hash_spaces import AMBER, HERON, MERCURY, MODEL, HashEncoder, build, job, opened, source
from kglink.errors import SpaceError
from kglink.files import atomic
from kglink.records import Entity
from kglink.space import segment_vectors
from kglink.space.folder import SpaceFolder
from kglink.space.segment_vectors import Block, Encoded
from kglink.workspace import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    return SpaceFolder(tmp_path, "default")


def thirty() -> list[Entity]:
    return [Entity(f"e{at:02}", f"Name {at}", f"Text {at}.") for at in range(30)]


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpaceFolder:
    """A space of thirty entities that nothing interrupted, made four rows at a time."""
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
    made = SpaceFolder(tmp_path / "whole", "default")
    build(made, source("kb", *thirty()))
    return made


def test_an_interrupted_build_goes_on_and_ends_in_the_same_bytes(
    whole: SpaceFolder, folder: SpaceFolder
) -> None:
    entities, broken = thirty(), folder
    first = HashEncoder(fail_after=16)
    with pytest.raises(KeyboardInterrupt):
        build(broken, source("kb", *entities), encoder=first)
    assert broken.current is None
    second = HashEncoder()
    build(broken, source("kb", *entities), encoder=second)
    assert len(first.seen) + len(second.seen) == 60
    assert _contents(whole) == _contents(broken)


@pytest.mark.parametrize("goes_on", ["elsewhere", "here, one after the other"])
def test_blocks_that_come_back_in_any_order_are_kept(
    whole: SpaceFolder, folder: SpaceFolder, goes_on: str
) -> None:
    entities, broken = thirty(), folder
    encoder = HashEncoder()

    def backwards(lost: int) -> segment_vectors.EncodeBlocks:
        def encode(blocks: Iterator[Block]) -> Iterator[tuple[Block, Encoded]]:
            for block in reversed(list(blocks)):
                if block.first != lost:
                    yield block, segment_vectors.encode_block(encoder, block)
            if lost >= 0:
                raise SpaceError("a block is lost")

        return encode

    with pytest.raises(SpaceError, match="a block is lost"):
        job(broken, [source("kb", *entities)], encode_blocks=backwards(8)).build()
    assert len(encoder.seen) == 26
    told: list[int] = []
    job(
        broken,
        [source("kb", *entities)],
        encoder,
        encode_blocks=backwards(-1) if goes_on == "elsewhere" else None,
        progress=lambda one: told.append(one.done) if one.total else None,
    ).build()
    assert len(encoder.seen) == 60, "each once"
    assert told[0] == 8
    assert told[-1] == 60
    assert _contents(whole) == _contents(broken)


def test_what_is_encoded_is_safe_after_some_seconds(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities = thirty()

    def safe_rows(commit_every: float) -> list[int]:
        """How many rows of texts a kill would have left each time that the encoder was called."""
        monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
        monkeypatch.setattr(segment_vectors, "COMMIT_EVERY", commit_every)
        found = []

        class Watching(HashEncoder):
            def encode(self, texts: Sequence[str]) -> np.ndarray:
                states = list(folder.segments.glob(".draft-*/text.state"))
                found.append(json.loads(states[0].read_text())[0] if states else 0)
                return super().encode(texts)

        made = source("kb", *entities, content=str(commit_every))
        build(folder, made, encoder=Watching(), model=MODEL.model_copy(
            update={"fingerprint": str(commit_every)}))  # fmt: skip
        return found[:8]

    assert safe_rows(0.0) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert safe_rows(3600.0) == [0] * 8


@pytest.mark.parametrize(("texts", "there"), [(16, 16), (44, 46)])
def test_progress_counts_the_rows_of_an_interrupted_build(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch, texts: int, there: int
) -> None:
    """All of them at once, before the first new one: they must not count as quick work."""
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
    entities = thirty()
    with pytest.raises(KeyboardInterrupt):
        build(folder, source("kb", *entities), encoder=HashEncoder(fail_after=texts))
    told: list[tuple[int, int]] = []
    job(
        folder,
        [source("kb", *entities)],
        HashEncoder(),
        progress=lambda one: told.append((one.done, one.total)) if one.total else None,
    ).build()
    assert told[0] == (there, 60)
    assert told[-1] == (60, 60)
    assert told == sorted(told)


def _contents(folder: SpaceFolder) -> dict[str, bytes]:
    files = [path for path in folder.path.rglob("*") if path.suffix in (".npy", ".utf8", ".faiss")]
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in files}


def test_the_old_version_stays_until_the_new_one_is_whole(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY))
    before = folder.current
    with pytest.raises(KeyboardInterrupt):
        build(folder, source("kb", HERON, content="2"), encoder=HashEncoder(fail_after=0))
    assert folder.current == before
    assert list(opened(folder).segments["kb"].titles) == ["Mercury"]


def test_what_a_killed_build_has_left_in_a_draft_is_not_published(folder: SpaceFolder) -> None:
    with pytest.raises(KeyboardInterrupt):
        build(folder, source("kb", MERCURY), encoder=HashEncoder(fail_after=0))
    (draft,) = folder.segments.iterdir()
    (draft / ".segment.json.kglink-0123abcd").write_text("{")
    build(folder, source("kb", MERCURY))
    (segment,) = folder.segments.iterdir()
    assert not list(segment.glob(".*"))


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_kill_while_a_segment_is_replaced_leaves_a_whole_one(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    def build_fresh() -> None:
        job(
            folder,
            [source("kb", MERCURY)],
            HashEncoder(),
            fresh=True,
        ).build()

    exchanged = atomic.exchanged

    def kill(left: Path, right: Path) -> None:
        if killed == "after":
            exchanged(left, right)
        raise KeyboardInterrupt

    build(folder, source("kb", MERCURY))
    with monkeypatch.context() as patched:
        patched.setattr(atomic, "exchanged", kill)
        with pytest.raises(KeyboardInterrupt):
            build_fresh()
    assert list(opened(folder).segments["kb"].titles) == ["Mercury"]
    assert folder.damage() == []
    build_fresh()
    assert folder.damage() == []
    assert len(list(folder.segments.iterdir())) == 1


def test_a_disk_that_fills_up_leaves_the_old_version(demo_copy: Path) -> None:
    before = (demo_copy / "spaces" / "default" / "CURRENT").read_text()
    code = (
        "import resource, sys; from kglink_cli.main import run; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
        "sys.argv = ['kglink', 'build', '--space', 'default']; run()"
    )
    environment = {**os.environ, "KGLINK_SPACE_DESCRIPTION_CHARS": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "cannot write space 'default'" in ran.stderr
    assert "run the same command again" in ran.stderr
    assert (demo_copy / "spaces" / "default" / "CURRENT").read_text() == before
    with Workspace.open(demo_copy) as workspace:
        assert workspace.space().segments.keys() == {"encyclopedia", "lanternfall"}


def test_vectors_without_a_place_on_the_disk_are_an_error_and_no_crash(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    build(folder, source("kb", AMBER))
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(SpaceError, match="No space left on device"):
            build(folder, source("kb", AMBER, MERCURY, content="2"))
    assert len(opened(folder).segments["kb"].keys) == 1
    build(folder, source("kb", AMBER, MERCURY, content="2"))
    assert len(opened(folder).segments["kb"].keys) == 2
