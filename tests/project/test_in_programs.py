"""What programs do with a workspace that commands do not: threads, processes, other types."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kglink import Alias, Document, Entity, EntityId, KglinkError, Mention, TextInput, Workspace
from kglink.client import ServerError
from kglink.errors import RecordError, UnknownNameError

HERON = Entity("h", "heron", "It wades.", aliases=(Alias("shitepoke"),))
NOTE = Document("1", "A heron.", (Mention(2, 7, "heron", (EntityId("birds", "h"),)),))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs") / "master"
    with Workspace.open(folder, create=True) as made:
        made.add_kb("birds", [HERON, Entity("o", "osprey", "It fishes.", parents=("h",))])
        made.add_kb("zoo", [Entity("7", "heron", "It wades.")])
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


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "a KB's record": (lambda w: w.link("A heron.", w.kbs()), "the type KBInfo"),
    "bytes for a name": (lambda w: w.link("A heron.", b"birds"), "the type int|the type bytes"),
    "records for a name": (lambda w: w.learn([NOTE]), "the type Document"),
    "several entities": (lambda w: w.vector(["birds:h", "birds:o"]), "the type list"),
    "no path": (lambda w: w.plan(None), "a source is of the type NoneType"),
    "a list of paths": (lambda w: list(w.texts(["a.txt"])), "a source is of the type list"),
    "a text of bytes": (lambda w: w.correct(b"A heron.", 2, 7, None), "the type bytes"),
    "no correction": (lambda w: w.take_back(None), "unknown correction None"),
    "no run": (lambda w: w.run(None), "unknown run None"),
    "letters for ranks": (lambda w: w.evaluate("notes", ks="10"), "ks = ('1', '0')"),
    "a word for a probability": (lambda w: w.discover("A heron.", least="x"), "least = x"),
    "no number": (lambda w: [*w.overlaps(min_probability=float("nan"))], "min_probability = nan"),
    "a sample": (lambda w: w.review_overlaps("birds", "zoo", sample="3").__enter__(), "a sample"),
    "a seed": (lambda w: w.review_overlaps("birds", "zoo", seed="x").__enter__(), "the seed 'x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_of_another_type_is_refused_by_name(master: Path, case: str) -> None:
    call, words = WRONG[case]
    with Workspace.open(master) as workspace, pytest.raises(KglinkError) as raised:
        call(workspace)
    assert any(one in raised.value.message for one in words.split("|"))
    assert not (master / "reviews").exists()


def test_an_unknown_answer_to_a_discovery_is_refused(workspace: Workspace) -> None:
    (found,) = workspace.discover(["Osric Vane saw a heron.", "Later Osric Vane left."])
    with pytest.raises(KglinkError, match="unknown answer 'yes'"):
        workspace.judge_discovery(found.discovery.id, "yes")  # type: ignore[arg-type]  # wrong


def test_numbers_of_numpy_are_numbers(workspace: Workspace) -> None:
    workspace.find_overlaps("birds", "zoo")
    with workspace.review_overlaps("birds", "zoo", sample=np.int64(3), seed=np.int64(5)):  # type: ignore[arg-type]  # NumPy's
        pass
    assert workspace.reviewed_overlaps("birds", "zoo", sample=3, seed=5)
    (text,) = workspace.link([TextInput(np.int64(3), "A heron.")])  # type: ignore[arg-type]  # NumPy's
    assert json.loads(json.dumps(text.as_json()))["id"] == 3


def test_a_shell_shows_which_workspace_it_is(workspace: Workspace) -> None:
    assert repr(workspace) == f"Workspace({str(workspace.folder)!r})"


def test_no_split_is_the_split_that_is_usual(workspace: Workspace) -> None:
    assert workspace.learn("notes", split=None) == 1  # type: ignore[arg-type]  # as `evaluate` has it


def test_a_forked_process_opens_the_folder_for_itself(workspace: Workspace) -> None:
    torch.set_num_threads(2)  # as programs have it
    assert list(workspace.link("A heron."))
    told: Any = get_context("fork").SimpleQueue()

    def forked() -> None:
        with pytest.raises(KglinkError, match="opened by another process"):
            list(workspace.link("A heron."))
        with Workspace.open(workspace.folder) as own:
            told.put([one.surface for text in own.link("A heron.") for one in text.links])

    process = get_context("fork").Process(target=forked)
    process.start()
    process.join(10)
    process.kill()
    torch.set_num_threads(1)
    assert process.exitcode == 0
    assert told.get() == ["heron"]
