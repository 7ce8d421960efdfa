"""`kglink build --engine ray`: the vectors of one process, whatever is lost or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from cluster_support import done_by
from kglink.errors import SpaceError
from kglink.records import OnProgress, Progress
from kglink.space.segment_vectors import Block
from kglink.workspace import Workspace
from kglink.workspace.ray_workers import Chunk
from trained_spaces import add_run, make_workspace

pytest_plugins = ["cluster_fixtures"]


def files_of(workspace: Path, space: str) -> dict[str, bytes]:
    """The arrays and tables of a space's segments."""
    segments = workspace / "spaces" / space / "segments"
    return {
        str(path.relative_to(segments)): path.read_bytes()
        for path in segments.rglob("*")
        if path.suffix in (".npy", ".utf8", ".bf16")
    }


def losing_a_node(cluster: Any, left: list[Any], is_time: Callable[[Progress], bool]) -> OnProgress:
    """Removes the last of some nodes, once, as soon as it is time."""
    before = len(left)

    def progress(news: Progress) -> None:
        if len(left) == before and is_time(news):
            cluster.remove_node(left.pop(), allow_graceful=False)

    return progress


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_encodes_the_bytes_of_one_process(
    demo_copy: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setattr("kglink.space.segment_vectors.CHUNK_ROWS", 16)
    notes, left = [], list(nodes)

    def is_time(news: Progress) -> bool:
        return news.step.startswith("encoding") and news.done > 100

    def note(label: str, text: str) -> None:
        notes.append(f"{label}: {text}")

    with Workspace.open(demo_copy, flags={"space.name": "alone"}) as workspace:
        alone = workspace.build()
    with Workspace.open(demo_copy, flags={"space.name": "cluster"}) as workspace:
        progress = losing_a_node(cluster, left, is_time)
        made = workspace.build(ray_workers=2, progress=progress, on_note=note)
    assert made.encoded_rows == alone.encoded_rows > 500
    assert made.truncated_texts == alone.truncated_texts
    assert any("lost a worker of" in line and "rows from" in line for line in notes), notes
    assert files_of(demo_copy, "cluster") == files_of(demo_copy, "alone")


@pytest.mark.slow
def test_a_build_that_is_killed_goes_on_and_a_node_with_another_model_is_named(
    demo_copy: Path,
    kglink: Kglink,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    command = [sys.executable, "-m", "kglink_cli", "build", "--space", "cluster"]
    running = subprocess.Popen([*command, "--engine", "ray", "--workers", "2"])
    drafts = demo_copy / "spaces" / "cluster" / "segments"
    until = time.monotonic() + 200
    while not list(drafts.glob(".draft-*/alias.npy")) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert list(drafts.glob(".draft-*"))
    kglink("build", "--space", "cluster", "--engine", "ray", "--workers", 2)
    kglink("build", "--space", "alone")
    assert files_of(demo_copy, "cluster") == files_of(demo_copy, "alone")

    with Workspace.open(demo_copy) as workspace:
        job = workspace.joint_space.encode_job()
    with pytest.raises(SpaceError, match=r"^node \S+: .* is another model than that of the run"):
        done_by(replace(job, fingerprint="another"), Chunk(0, Block("alias", 0, ["heron"]), "a"))
    ((_, encoded),) = done_by(job, Chunk(0, Block("alias", 0, ["heron"]), "a"))
    assert encoded.vectors.shape == (1, 384)


@pytest.mark.slow
def test_token_vectors_of_a_cluster_are_those_of_one_process(
    tmp_path: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setattr("kglink.space.segment_vectors.CHUNK_ENTITIES", 4)
    monkeypatch.setattr("kglink.space.token_lists.LEAST_TOKENS", 1)
    folder = make_workspace(tmp_path / "workspace")
    model = add_run(folder, "som", shared=False, pooling="tokens", scorer="sum_of_max")
    left = list(nodes)

    with Workspace.open(folder, flags={"space.name": "alone"}) as workspace:
        workspace.build(model=model)
    with Workspace.open(folder, flags={"space.name": "cluster"}) as workspace:
        progress = losing_a_node(cluster, left, lambda news: news.done > 60)
        workspace.build(model=model, ray_workers=2, progress=progress)
    assert len(left) < len(nodes), "a node was lost"
    alone = files_of(folder, "alone")
    assert sum(name.endswith("tokens.bf16") for name in alone) == 2
    assert files_of(folder, "cluster") == alone


def test_workers_of_a_build_are_for_a_cluster(demo: Path, kglink: Kglink) -> None:
    assert "--engine ray" in kglink("build", "--workers", 2, code=2).err
    assert "processes, ray" in kglink("build", "--engine", "spark", code=2).err
