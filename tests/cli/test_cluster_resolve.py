"""`kglink resolve --engine ray`: a table with the bytes of one process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.errors import SpaceError
from kglink.workspace import resolve as resolving
from kglink.workspace.ray_workers import Chunk, RayWorkers

pytest_plugins = ["cluster_fixtures"]


@pytest.mark.slow
def test_a_table_that_a_cluster_resolves_has_the_bytes_of_one_process(
    demo_copy: Path,
    kglink: Kglink,
    tmp_path: Path,
    cluster: Any,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolving, "BATCH", 50)
    monkeypatch.setattr(resolving, "MOST_KEPT", 120)  # some rows are forgotten, and asked again
    names = ["grey heron", "Skerrow Light", "seal", "Isolde Heron", "", "a lamp", "herons", "qwxz"]
    table, alone, output = (tmp_path / f"{name}.csv" for name in ("t", "alone", "r"))
    rows = [f"{names[at % 7]}{' ' * (at % 3)}{at % 11 or ''},{names[at % 5]}" for at in range(900)]
    rows[444] = "h" * 40_000 + ",too long"
    table.write_text("\n".join(["name,place", *rows]) + "\n")
    command = ("resolve", "--column", "name", "--context", "place", table, "-o")
    kglink(*command, alone)
    ray = ("--engine", "ray", "--workers", 2)
    in_order = RayWorkers.in_order

    def stop(self: RayWorkers, chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, Any]]:
        yield from islice(in_order(self, chunks), 7)
        raise SpaceError("stopped")

    with monkeypatch.context() as stopped:
        stopped.setattr(RayWorkers, "in_order", stop)
        kglink(*command, output, *ray, code=1)
    assert not output.exists()
    said = kglink(*command, output, *ray).err
    assert "of an interrupted run" in said
    assert output.read_bytes() == alone.read_bytes()
    assert alone.read_bytes().count(b",match,") > 20
    assert "of 900 rows" in said

    monkeypatch.setattr("kglink.workspace.link.made_of", lambda opened: ("another version",))
    told = kglink(*command, tmp_path / "no.csv", "--engine", "ray", code=1).err
    assert "is not as it was when the run began" in told
    assert not (tmp_path / "no.csv").exists()


def test_a_cluster_resolves_tables_alone(demo: Path, kglink: Kglink) -> None:
    assert "no --column is named" in kglink("resolve", "seal", "--engine", "ray", code=2).err
