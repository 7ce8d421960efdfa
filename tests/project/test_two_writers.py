"""Two processes that write one workspace at once, and those that are stopped while they do."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import writers_child
from kglink.linking.discovery import Discovery
from kglink.records import EntityId
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.discoveries import KeptDiscoveries, write_discoveries
from store_support import job
from training_world import fill, world_of, write_world_model

SCORING = "spaces/default/scoring.json"

Writers = Callable[..., list[str]]

#: The one sentence of a writer that does not wait for the other.
REFUSED = re.compile(
    r"space 'default' is being built by another process|KB 'saga' is being changed by process \d+"
    r"|KB 'saga' was changed or removed just before it was read"
)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted space that is older than its KBs; a source is learnt, and a discovery accepted."""
    folder, world = init_workspace(tmp_path_factory.mktemp("master")), world_of(entities=12)
    with fill(f"sqlite:///{folder}/kglink.db", world, 4) as store:
        store.ingest(job("old", links_to=("atlas", "saga")), [*store.documents("docs")][:3])
        saga = list(store.entities("saga"))
    lines = [{"id": one.key, "title": f"{one.title} anew"} for one in saga]
    (folder / "saga.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    model = str(write_world_model(folder / "tiny", world))
    with Workspace.open(folder) as workspace:
        workspace.learn("old")
        workspace.build(model=model)
        workspace.fit("old")
        found = Discovery("new-1", "Osric Vane", ("Osric Vane",), "", 0.6, 1, 1, (), ())
        write_discoveries(folder, KeptDiscoveries(found=(found,)))
        workspace.judge_discovery("new-1", "accept")
    return folder


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    pipe = subprocess.PIPE
    command = [sys.executable, writers_child.__file__]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        lines, replies = process.stdin, process.stdout

        def run(folder: Path, *verbs: tuple[object, ...]) -> list[str]:
            assert replies is not None
            print(json.dumps({"folder": str(folder), "verbs": verbs}), file=lines, flush=True)
            said: list[str] = json.loads(replies.readline())
            return said

        yield run
        lines.close()


def changed(workspace: Workspace) -> set[str]:
    """The verbs whose work is there."""
    store, promoted = workspace.store, EntityId("discovered", "new-1")
    scoring = json.loads((workspace.folder / SCORING).read_text())["scoring"]
    told = {
        "learn": "docs" in store.memory_sources(),
        "forget": "old" not in store.memory_sources(),
        "promote": promoted in store.existing([promoted]),
        "fit": scoring["mentions"] == 16,
        "update": next(store.entities("saga")).title.endswith(" anew"),
    }
    return {verb for verb, is_there in told.items() if is_there}


PAIRS = (
    *("learn promote", "learn build", "forget fit", "forget update"),
    *("promote build", "fit update", "update build"),
)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_two_writers_lose_nothing(
    master: Path, tmp_path: Path, writers: Writers, pair: str
) -> None:
    folder, (one, other) = shutil.copytree(master, tmp_path / "workspace"), pair.split()
    wait = random.Random(pair).uniform(0, 0.3)
    said = writers(folder, (one, 0), (other, wait))
    assert all(not told or REFUSED.search(told) for told in said), said
    assert not all(said)
    with Workspace.open(folder) as workspace:
        assert not workspace.store.check()
        asked = {verb for verb, told in zip((one, other), said, strict=True) if not told}
        assert changed(workspace) == asked - {"build"}
        workspace.build_if_stale()
        assert not workspace.joint_space.folder.damage()


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_a_fit_that_is_stopped_leaves_what_was_fitted_before(
    master: Path, tmp_path: Path, writers: Writers, number: str
) -> None:
    folder = shutil.copytree(master, tmp_path / "workspace")
    before = (folder / SCORING).read_bytes()
    for seconds in (0.1, 0.6):
        writers(folder, ("fit", 0, number, seconds))
        with Workspace.open(folder) as workspace:
            assert workspace.store.check() == []
            assert (folder / SCORING).read_bytes() == before or changed(workspace) == {"fit"}
    assert writers(folder, ("fit", 0)) == [""]
    with Workspace.open(folder) as workspace:
        assert changed(workspace) == {"fit"}
