"""`kglink link --engine ray`: the bytes of one process, whatever is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from cluster_support import TEXT, chunk, done_by
from fake_distributions import FakeEnvironment
from kglink.errors import SpaceError
from kglink.workspace import Workspace
from kglink.workspace.link import LinesJob

pytest_plugins = ["cluster_fixtures"]

FILLER = "the water went on, as it does. " * 1100  # each text is a chunk of its own


def long_texts(folder: Path, count: int, **others: str) -> Path:
    made = folder / "texts"
    made.mkdir()
    for at in range(count):
        (made / f"{at:02}.txt").write_text(FILLER + others.get(f"t{at:02}", TEXT))
    return made


def test_what_a_cluster_cannot_write_is_refused(demo: Path, kglink: Kglink) -> None:
    for options in ((), ("--json",), ("-o", "answers.csv"), ("-o", "a.gz", "-f", "jsonl")):
        told = kglink("link", "-", "--engine", "ray", *options, stdin=TEXT, code=2).err
        assert "-o answers.jsonl" in told
    told = kglink("link", "-", "--engine", "spark", stdin=TEXT, code=2).err
    assert "processes, ray" in told
    told = kglink("link", "-", "--lines", "--part", "1/2", stdin=TEXT, code=2).err
    assert "--part" in told
    told = kglink("overlap", "--method", "names", "--engine", "ray", code=2).err
    assert "--method full" in told


def test_a_cluster_that_is_not_there_is_named(
    demo: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    output = tmp_path / "out.jsonl"
    told = kglink("link", "-", "--engine", "ray", "-o", output, stdin=TEXT, code=2).err
    assert "127.0.0.1:9" in told
    assert not list(tmp_path.iterdir())


def begun(source: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kglink_cli", "link", str(source), "-o", str(output)]
    ray = ["--engine", "ray", "--workers", "2", *more]
    return subprocess.Popen([*command, *ray], stderr=subprocess.PIPE, text=True)


def ended(running: subprocess.Popen[str], code: int = 0) -> str:
    _, told = running.communicate(timeout=400)
    assert running.returncode == code, told
    assert "Traceback" not in told
    return told


def wait_for_chunks(running: subprocess.Popen[str], output: Path, count: int) -> int:
    """Wait until so many chunks are kept; how many there are then."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        for draft in output.parent.glob(f".{output.name}.*.partial"):
            lines = draft.read_bytes().splitlines()
            if len(lines) >= 2 * count:  # a head and an answer each
                return len(lines) // 2
        time.sleep(0.02)
    raise AssertionError("no chunks")


@pytest.mark.slow
def test_a_lost_node_and_a_lost_driver_change_no_byte(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    texts, alone, output = long_texts(tmp_path, 24), tmp_path / "alone.jsonl", tmp_path / "r.jsonl"
    kglink("link", texts, "-o", alone)
    running = begun(texts, output)
    wait_for_chunks(running, output, 3)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    (draft,) = tmp_path.glob(".r.jsonl.*.partial")
    kept = len(draft.read_bytes().splitlines()) // 2
    assert 3 <= kept < 20

    running = begun(texts, output)
    wait_for_chunks(running, output, kept + 2)
    cluster.remove_node(nodes[0], allow_graceful=False)
    told = ended(running)
    assert f"after {kept} chunks" in told
    assert "lost a worker of text '" in told
    assert output.read_bytes() == alone.read_bytes()
    assert not list(tmp_path.glob(".r.jsonl.*"))


@pytest.mark.slow
def test_chunks_that_always_fail_are_named_and_the_rest_is_done(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    texts = long_texts(tmp_path, 6, t01="a heron, trouble", t04="a heron, killer")
    output, alone = tmp_path / "r.jsonl", tmp_path / "alone.jsonl"
    told = ended(begun(texts, output, "--detector", "acme/moody"), 1)
    assert "2 chunks failed" in told
    failed = "detector 'acme/moody' failed with RuntimeError: a text of trouble"
    assert f"text '01.txt' ({failed})" in told
    assert "text '04.txt' (its worker was lost" in told
    assert not output.exists()

    again = ended(begun(texts, output, "--detector", "acme/moody", "--on-error", "skip"), 1)
    assert "after 4 chunks" in again
    assert "2 chunks failed" in again
    for bad in ("01", "04"):
        (texts / f"{bad}.txt").unlink()
    command = [sys.executable, "-m", "kglink_cli", "link", str(texts), "-o", str(alone)]
    subprocess.run([*command, "--detector", "acme/moody"], check=True, capture_output=True)
    assert output.read_bytes() == alone.read_bytes()
    assert len(alone.read_bytes().splitlines()) == 4


@pytest.mark.slow
def test_nodes_that_are_not_as_they_should_be_are_named(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, cluster: Any
) -> None:
    FakeEnvironment(tmp_path).describe("kglink", "0.0.9", "kglink")
    old = cluster.add_node(num_cpus=2, env_vars={"PYTHONPATH": str(tmp_path)})
    told = ended(begun(long_texts(tmp_path, 2), tmp_path / "r.jsonl"), 1)
    assert "has kglink 0.0.9, and the run kglink 0.1.0" in told
    cluster.remove_node(old, allow_graceful=False)


@pytest.mark.slow
def test_a_workspace_that_a_node_does_not_see_is_named(
    demo_copy: Path, tmp_path: Path, cluster: Any, nodes: list[Any]
) -> None:
    with Workspace.open(demo_copy) as workspace:
        job = workspace.link_job()
        exporter = workspace.registry.create("exporter", "kglink/jsonl", {})
    elsewhere = replace(job, folder=tmp_path / "elsewhere")
    with pytest.raises(SpaceError, match=r"^node \S+: there is no workspace at .*elsewhere"):
        done_by(LinesJob(elsewhere, exporter), chunk(0, TEXT))
    ((_, (lines, mentions)),) = done_by(LinesJob(job, exporter), chunk(0, TEXT))
    assert mentions == lines.count(b'"start"')
    other = replace(job, made_of=("another version",))
    with pytest.raises(SpaceError, match="is not as it was when the run began"):
        done_by(LinesJob(other, exporter), chunk(0, TEXT))
