"""A workspace with overlaps to review; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.store import Store
from kglink.workspace import Workspace, init_workspace
from review_support import LEFT, RIGHT, kb_entities, pair
from store_support import job


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
def reviewed(folder: Path) -> Iterator[Store]:
    with Workspace.open(folder) as workspace:
        yield workspace.store
