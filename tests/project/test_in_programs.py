"""What programs do with a workspace that commands do not: threads, processes, other types."""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kglink import Alias, Document, Entity, EntityId, KglinkError, Mention, Workspace
from kglink.client import ServerError
from kglink.errors import RecordError, UnknownNameError

HERON = Entity("h", "heron", "It wades.", aliases=(Alias("shitepoke"),))
NOTE = Document("1", "A heron.", (Mention(2, 7, "heron", (EntityId("birds", "h"),)),))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs") / "master"
    with Workspace.open(folder, create=True) as made:
        made.add_kb("birds", [HERON, Entity("o", "osprey", "It fishes.", parents=("h",))])
        made.add_kb("zoo", [Entity("7", "heron", "In a cage.")])
        made.add_kb("notes", [NOTE], links_to="birds")
        made.build()
    return folder


@pytest.fixture
def workspace(master: Path, tmp_path: Path) -> Iterator[Workspace]:
    with Workspace.open(shutil.copytree(master, tmp_path / "w")) as opened:
        yield opened


def test_a_thread_that_builds_waits_for_the_others(workspace: Workspace) -> None:
    workspace.add_entity("birds", Entity("e", "egret", "It wades too."))
    entered, leave = threading.Event(), threading.Event()

    def slowly(_: object) -> None:
        entered.set()
        leave.wait(20)

    one = threading.Thread(target=lambda: workspace.build_if_stale(progress=slowly))
    one.start()
    assert entered.wait(20)
    threading.Timer(0.2, leave.set).start()
    assert [*workspace.build().manifest.kbs] == ["birds", "zoo"]
    one.join()


@pytest.mark.parametrize(
    "error",
    [
        UnknownNameError("KB", "x", ["y"]),
        RecordError("bad", where="line 3", hint="mend it"),
        ServerError(404, "unknown", "look"),
    ],
)
def test_an_error_passes_whole_between_processes(error: KglinkError) -> None:
    passed = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(passed), str(passed), vars(passed)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("under", [EntityId("birds", "h"), [EntityId("birds", "h")]])
def test_branches_are_named_by_ids_too(workspace: Workspace, under: Any) -> None:
    (text,) = workspace.link("A heron and an osprey.", under=under)
    assert {str(one.chosen.id) for one in text.links if one.chosen} == {"birds:h", "birds:o"}
