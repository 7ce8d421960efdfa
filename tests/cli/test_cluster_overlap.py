"""`kglink overlap --engine ray`: the overlaps of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.errors import SpaceError
from kglink.workspace.ray_workers import Chunk, RayWorkers

pytest_plugins = ["cluster_fixtures"]


@pytest.mark.slow
def test_a_cluster_finds_the_overlaps_of_one_process(
    demo_copy: Path,
    kglink: Kglink,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kglink.overlap.neighbours.PART_ROWS", 64)
    monkeypatch.setattr("kglink.overlap.compared._EVERY_S", 0.0)
    monkeypatch.setattr("kglink.overlap.compared._EVERY_TIMES", 0.0)
    alone = json.loads(kglink("overlap", "--fresh", "--json").out)
    sent: list[str] = []
    parts = RayWorkers.in_order

    def watched(workers: RayWorkers, chunks: Iterator[Chunk]) -> Iterator[Any]:
        for chunk, answer in parts(workers, chunks):
            if len(sent) == 2:
                sent.append("stopped")
                raise SpaceError("stopped")
            sent.append(chunk.name)
            yield chunk, answer

    monkeypatch.setattr(RayWorkers, "in_order", watched)
    kglink("overlap", "--fresh", "--engine", "ray", "--workers", 2, code=1)
    found = kglink("overlap", "--fresh", "--json", "--engine", "ray", "--workers", 2)
    assert json.loads(found.out) == alone
    assert len(alone) > 20
    assert len(sent) > 3
    assert len(set(sent)) == len(sent)  # the second run went on
    told = kglink("overlap", "--export", "a.tsv", "--engine", "ray", code=2).err
    assert "--engine has no effect" in told
