"""Static models: what they say of a text, how they are taught, and how a space is read by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink
from safetensors.numpy import load_file, save_file

from kglink.errors import ModelError, SpaceError
from kglink.files.manifest import file_info
from kglink.models import Encoder, resolve_model
from kglink.models.static_folder import write_static
from kglink.records import Alias, Entity
from kglink.space.folder import SpaceFolder
from kglink.training.distil import Lesson, fit_table, means, token_texts, with_words
from kglink.workspace import Workspace
from rights import as_a_plain_user
from tiny_models import WORDS, bert_weights, write_model

CLS, SEP, AMBER, HERON = 2, 3, 5, 6


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A static model of the tiny one's words, with a table that can be read with the eye."""
    teacher = write_model(tmp_path / "tiny")
    table = np.zeros((5 + len(WORDS), 32), np.float32)
    table[CLS, 0], table[SEP, 1], table[AMBER, 2], table[HERON, 3] = 1, -1, 3, 5
    own = (teacher / "tokenizer.json").read_bytes()
    write_static(tmp_path / "static", table, own, resolve_model(str(teacher)))
    return tmp_path / "static"


def test_a_vector_is_the_mean_of_its_tokens_of_length_one(static: Path) -> None:
    encoder = Encoder(str(static))
    wanted = np.zeros((2, 32), np.float32)
    wanted[:, :2] = 1 / 6, -1 / 6  # (1, -1, 3, 5) has length 6
    wanted[0, 2:4] = 3 / 6, 5 / 6
    wanted[1, :2] = 2**-0.5, -(2**-0.5)  # nothing but what stands around it
    np.testing.assert_allclose(encoder.encode(["amber heron", ""]), wanted, atol=1e-6)
    assert encoder.encode(["heron", "amber heron"])[1].tobytes() == (
        encoder.encode(["amber heron"])[0].tobytes()
    )
    assert encoder.trained is None
    assert encoder.dim == 32


@pytest.mark.parametrize("broken", ["cut", "other table", "no table", "elsewhere", "not JSON"])
def test_a_damaged_or_hostile_folder_is_refused(static: Path, broken: str) -> None:
    weights, about = static / "model.safetensors", static / "static.json"
    said = json.loads(about.read_text())
    if broken == "cut":
        weights.write_bytes(weights.read_bytes()[:-10])
    elif broken == "elsewhere":
        said["files"]["../../secret"] = said["files"].pop("config.json")
    elif broken == "not JSON":
        said = "[" * 100_000
    else:
        table = load_file(weights)["table"]
        save_file({"table": table[:3]} if broken == "other table" else {"t": table}, weights)
        said["files"]["model.safetensors"] = file_info(weights).model_dump()
    about.write_text(said if isinstance(said, str) else json.dumps(said))
    with pytest.raises(ModelError) as caught:
        Encoder(str(static)).encode(["amber"])
    assert str(static) in caught.value.message
    assert "kglink distill" in caught.value.hint


def test_the_fitted_table_is_the_solution_of_its_normal_equations() -> None:
    rng = np.random.default_rng(3)
    start = rng.normal(size=(9, 4)).astype(np.float32)
    lessons = [
        Lesson(
            [rng.integers(0, 8, size=rng.integers(1, 5)).astype(np.int32) for _ in range(20)],
            rng.normal(size=(20, 4)).astype(np.float32),
        )
        for _ in range(2)
    ]
    reading = np.concatenate([means(one.ids, 9).toarray() for one in lessons]).astype(np.float64)
    target = np.concatenate([one.vectors for one in lessons]).astype(np.float64)
    wanted = np.linalg.solve(
        reading.T @ reading + 0.5 * np.eye(9), reading.T @ target + 0.5 * start
    )
    table = fit_table(start, lessons, pull=0.5)
    np.testing.assert_allclose(table, wanted, atol=1e-3)
    np.testing.assert_array_equal(table[8], start[8])  # in no lesson


def test_means_count_a_token_as_often_as_it_stands_there() -> None:
    found = means([np.array([1, 1, 0], np.int32), np.array([2], np.int32)], 3).toarray()
    np.testing.assert_allclose(found, np.array([[1 / 3, 2 / 3, 0], [0, 0, 1]]))


def test_words_of_many_names_become_tokens(tmp_path: Path) -> None:
    own = (write_model(tmp_path / "tiny") / "tokenizer.json").read_bytes()
    names = ["Goshawk of the river"] * 5 + ["Osprey"] * 4
    extended = with_words(own, names)
    assert token_texts(extended)[-2:] == [WORDS[-1], "goshawk"]
    assert with_words(own, names[1:]) != extended
    assert token_texts(with_words(own, names[1:]))[-1] == WORDS[-1]


# ----------------------------------------------------------------------------------- command
@pytest.fixture
def workspace_folder(tmp_path: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of one KB, built with the tiny model."""
    folder = tmp_path / "work"
    kglink("init", str(folder))
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    with Workspace.open(folder) as workspace:
        entities = [
            Entity(f"e{at}", f"{one} {other}", aliases=(Alias(f"the {one} of {other}"),))
            for at, (one, other) in enumerate((a, b) for a in WORDS[:7] for b in WORDS[:7])
        ]
        workspace.add_kb("birds", entities)
        workspace.build(model=str(write_model(tmp_path / "tiny")))
    return folder


def test_a_distilled_space_links_and_shares_what_the_space_has(
    workspace_folder: Path, kglink: Kglink
) -> None:
    said = json.loads(kglink("distill", "--into", "fast", "--json").out)
    assert (said["space"], said["from"]) == ("fast", "default")
    assert said["names"] + said["texts"] > 49
    spaces = workspace_folder / "spaces"
    table = (spaces / "fast" / "student" / "model.safetensors").read_bytes()
    for one in ("segments/*/alias.npy", "versions/*/index.faiss"):
        ours, theirs = (next((spaces / name).glob(one)) for name in ("default", "fast"))
        assert ours.samefile(theirs)
    told = kglink(
        "link", "--space", "fast", "--format", "jsonl", "-", stdin="A mercury heron sang."
    )
    linked = json.loads(told.out)
    mention = linked["entities"][0]
    assert linked["text"][mention["start"] : mention["end"]].lower() == "mercury heron"
    with Workspace.open(workspace_folder, flags={"space.name": "fast"}) as workspace:
        assert workspace.encoder.source.path == (spaces / "fast" / "student").resolve()
        assert workspace.joint_space.encoder.source.path.name == "tiny"
        assert workspace.joint_space.is_current()
    kglink("distill", "--into", "fast")  # once more: the same bytes
    assert (spaces / "fast" / "student" / "model.safetensors").read_bytes() == table
    kglink("spaces", "--delete", "fast", "--yes")
    assert kglink("search", "amber heron").code == 0


def test_a_space_of_another_model_asks_to_be_distilled_again(
    workspace_folder: Path, kglink: Kglink, tmp_path: Path
) -> None:
    kglink("distill")
    weights = bert_weights()
    weights["embeddings.LayerNorm.bias"][0] += 1
    other = write_model(tmp_path / "other", weights)
    kglink("build", "--space", "static", "--model", str(other))
    ran = kglink("link", "--space", "static", "-", stdin="A heron.", code=1)
    assert "imitates" in ran.err
    assert "kglink distill" in ran.err


def test_what_cannot_be_distilled_is_refused(workspace_folder: Path, kglink: Kglink) -> None:
    assert "into itself" in kglink("distill", "--into", "default", code=2).err
    kglink("build", "--space", "small", "--model", str(workspace_folder.parent / "tiny"))
    assert "not distilled" in kglink("distill", "--into", "small", code=2).err
    kglink("distill")
    again = kglink("distill", "--space", "static", "--into", "x", code=2)
    assert "static model already" in again.err
    assert "space.name" in kglink("distill", "--into", "No Name", code=2).err
    assert "not built" in kglink("distill", "--space", "none", code=1).err
    assert SpaceFolder(workspace_folder / "spaces", "x").pointer is None


def test_a_space_that_may_not_be_written_is_told_before_anything_is_encoded(
    workspace_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = "kglink.training.distil.distilled"
    monkeypatch.setattr(taught, lambda *_, **__: pytest.fail("a model was taught"))
    (workspace_folder / "spaces" / "default" / "lock").chmod(0o400)
    with (
        Workspace.open(workspace_folder) as workspace,
        pytest.raises(SpaceError, match="space 'default' may not be written"),
    ):
        as_a_plain_user(workspace.distill)


def test_a_static_space_is_told_from_others_and_not_trained(
    workspace_folder: Path, kglink: Kglink
) -> None:
    kglink("distill")
    rows = {row.split()[0]: row for row in kglink("spaces").out.splitlines() if "birds" in row}
    assert "tiny, static" in rows["static"]
    assert ", static" not in rows["*"]
    assert "read by a static model" in kglink("spaces", "static").out
    assert json.loads(kglink("spaces", "static", "--json").out)["static"] is True
    refused = kglink("finetune", "--space", "static", code=2)
    assert "read by a static model" in refused.err
    assert "--space NAME" in refused.err
    assert not (workspace_folder / "runs").exists()


def test_without_a_space_it_is_refused(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(tmp_path))
    kglink("init", str(tmp_path))
    ran = kglink("distill", code=1)
    assert "not built" in ran.err
    assert "kglink build" in ran.err
