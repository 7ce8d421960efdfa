"""A workspace with a few birds, whose names tables hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from kglink.records import Entity
from kglink.workspace import Workspace, init_workspace


@pytest.fixture(scope="module")
def birds_to_resolve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB of five entities; read it, do not change it."""
    folder = init_workspace(tmp_path_factory.mktemp("birds"))
    entities = [
        Entity("h", "Heron", "A wading bird.", url="https://birds.example/heron"),
        Entity("o", "Osprey", "A hawk that eats fish."),
        Entity("e", "=1+1", "A title that is a formula."),
        Entity("c", 'Crane, "grey"', "A crane."),
        Entity("ł", "Łabędź", "A swan."),
        Entity("b", "Bell\x01bird", "A title with a control."),
    ]
    with Workspace.open(folder) as workspace:
        workspace.add_kb("birds", entities)
        workspace.build()
    return folder
