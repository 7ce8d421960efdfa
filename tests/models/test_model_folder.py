"""The folder of a trained model: the same bytes again, and never half of one."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bi_encoders import ENTITIES, FP32, INPUTS, content, make, shake
from kglink.errors import ModelError
from kglink.files import atomic
from kglink.models import resolve_model
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.settings import TransformationSettings
from kglink.models.transformation import SIDES
from kglink.records import Entity
from tiny_models import write_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize("shared", [True, False])
def test_saved_and_loaded_and_saved_again(base: Path, tmp_path: Path, shared: bool) -> None:
    model = shake(make(base, shared=shared, metric="dot", scorer="dual", pooling="cls"))
    model.history = ({"stage": "T", "seed": 1},)
    model.add_transformation(TransformationSettings())
    model.save(tmp_path / "one", libraries={"torch": "2"})
    loaded = load_bi_encoder(tmp_path / "one", hardware=FP32).eval()
    loaded.save(tmp_path / "two", libraries={"torch": "2"})
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert loaded.settings == model.settings
    assert loaded.history == model.history
    assert loaded.base == model.base
    for side in SIDES:
        ids = model.inputs.entities(ENTITIES)
        assert torch.equal(loaded.encode(ids, side).states, model.encode(ids, side).states)
    folders = {"encoder"} if shared else {"mention", "entity"}
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"kglink.json", *folders}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_tower_opens_in_transformers(base: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    model = shake(make(base, metric="dot"))
    model.save(tmp_path / "model")
    theirs = AutoModel.from_pretrained(tmp_path / "model" / "encoder").train(mode=False)
    (ids,) = model.inputs.entities([Entity("", "heron")])
    states = theirs(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).last_hidden_state
    found = model.encode([ids], "entity").states[0, 0]
    torch.testing.assert_close(found, states[0].mean(dim=0), atol=1e-5, rtol=1e-5)


def test_the_fingerprint_follows_weights_and_inputs(base: Path, tmp_path: Path) -> None:
    def fingerprint(model: BiEncoder) -> str:
        return model.save(tmp_path / "model").fingerprint

    first = fingerprint(make(base))
    told = make(base)
    told.history = ({"stage": "S"},)
    assert fingerprint(told) == first
    assert resolve_model(str(tmp_path / "model")).fingerprint == first
    others = [
        shake(make(base)),
        make(base, metric="dot"),
        make(base, pooling="cls"),
        make(base, inputs=INPUTS.model_copy(update={"mention_tokens": 11})),
        make(base, inputs=INPUTS.model_copy(update={"aliases": 2})),
        make(base, inputs=INPUTS.model_copy(update={"tags": ("[MASK]", "[unused1]", "[a]")})),
    ]
    found = {fingerprint(model) for model in others}
    assert len(found) == len(others)
    assert first not in found


def test_added_tags_keep_their_rows(base: Path, tmp_path: Path) -> None:
    model = shake(make(base))
    assert model.inputs.tag_ids == (15, 16, 17)
    assert model.inputs.added_tags == ("[unused0]", "[unused1]", "[unused2]")
    model.save(tmp_path / "model")
    loaded = load_bi_encoder(tmp_path / "model", hardware=FP32)
    assert (loaded.inputs.tag_ids, loaded.inputs.added_tags) == ((15, 16, 17), ())
    config = json.loads((tmp_path / "model" / "encoder" / "config.json").read_text())
    assert config["vocab_size"] == 18
    assert json.loads((base / "config.json").read_text())["vocab_size"] == 15


def test_a_trained_model_goes_on_with_other_settings(base: Path, tmp_path: Path) -> None:
    model = shake(make(base))
    model.save(tmp_path / "model")
    apart = make(tmp_path / "model", shared=False, pooling="tokens", scorer="sum_of_max")
    assert apart.mention is not apart.entity
    assert apart.inputs.tag_ids == model.inputs.tag_ids
    apart.save(tmp_path / "apart")
    with pytest.raises(ModelError, match="one shared tower is asked for"):
        make(tmp_path / "apart", shared=True)


Damage = Callable[[Path], object]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a byte of the weights": (
        lambda folder: _flip(folder / "encoder" / "model.safetensors"),
        "is not as it was written",
    ),
    "a byte of the tokenizer": (
        lambda folder: _flip(folder / "encoder" / "tokenizer.json"),
        "is not as it was written",
    ),
    "no weights": (
        lambda folder: (folder / "encoder" / "model.safetensors").unlink(),
        "cannot be read: No such file",
    ),
    "no tower": (lambda folder: shutil.rmtree(folder / "encoder"), "cannot be read: No such file"),
    "half a manifest": (lambda folder: os.truncate(folder / "kglink.json", 100), "as JSON"),
    "a key twice": (
        lambda folder: (folder / "kglink.json").write_text('{"format": 1, "format": 1}'),
        "stands twice",
    ),
    "a list": (lambda folder: (folder / "kglink.json").write_text("[]"), "object was expected"),
    "an unknown setting": (lambda folder: _set(folder, colour="red"), "colour"),
    "a newer format": (lambda folder: _set(folder, format=2), "written by a newer kglink"),
    "a file elsewhere": (
        lambda folder: _set(folder, files={"../x": "", "encoder/model.safetensors": "0"}),
        "names a file elsewhere",
    ),
    "no digest of the weights": (lambda folder: _set(folder, files={}), "names no encoder/model"),
}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _set(folder: Path, **values: Any) -> None:
    path = folder / "kglink.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def master(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    make(base).save(folder)
    return folder


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder_is_refused(master: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(master, folder)
    damage, message = DAMAGES[kind]
    damage(folder)
    for load in (
        lambda: load_bi_encoder(folder, hardware=FP32),
        lambda: resolve_model(str(folder)),
    ):
        with pytest.raises(ModelError) as caught:
            load()
        assert message in caught.value.message


def test_pickled_weights_are_never_opened(master: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(master, folder)
    weights = folder / "encoder" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(ModelError, match=r"encoder/model\.safetensors: cannot be read"):
        load_bi_encoder(folder, hardware=FP32)
    (folder / "kglink.json").unlink()
    with pytest.raises(ModelError, match="only pickled weights"):
        load_bi_encoder(folder / "encoder", hardware=FP32)


# ---------------------------------------------------------------------------- interruptions
class Killed(BaseException):
    """Ends a save where it stands: nothing catches it, as nothing outlives SIGKILL."""


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_kill_between_the_renames_leaves_the_old_or_the_new(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    folder = tmp_path / "model"
    make(base).save(folder)
    old = content(folder)
    renames: list[Path] = []
    rename = Path.rename

    def kill(self: Path, target: Path) -> Path:
        renames.append(self)
        if len(renames) > at:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "exchanged", lambda *_: False)
        patch.setattr(Path, "rename", kill)
        with pytest.raises(Killed):
            shake(make(base)).save(folder)
    resolve_model(str(folder))
    assert content(folder) == old
    shake(make(base)).save(folder)
    assert content(folder) != old
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_reader_between_the_renames_does_not_stop_a_save(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    make(base).save(folder)
    rename = Path.rename
    readers: list[str] = []

    def rename_and_read(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if self == folder and not readers:
            readers.append(resolve_model(str(folder)).fingerprint)
        return moved

    monkeypatch.setattr(atomic, "exchanged", lambda *_: False)
    monkeypatch.setattr(Path, "rename", rename_and_read)
    saved = shake(make(base)).save(folder)
    assert readers
    assert readers[0] != saved.fingerprint == resolve_model(str(folder)).fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


SAVE_FOREVER = """
import sys
from pathlib import Path
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
folder = Path(sys.argv[1])
model = load_bi_encoder(folder, hardware=choose_hardware("cpu", "fp32", 1))
print("ready", flush=True)
while True:
    model.save(folder)
"""


@pytest.mark.slow
def test_kill_9_while_saving(master: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(master, folder)
    before = resolve_model(str(folder)).fingerprint
    child = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOREVER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.15)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert load_bi_encoder(folder, hardware=FP32).inputs.tag_ids == (15, 16, 17)
    assert resolve_model(str(folder)).fingerprint == before


@contextmanager
def small_files() -> Iterator[None]:
    """No file can grow beyond 20 kB, as on a disk that is full; pytest's own report neither."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_clear_error(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = make(base)
    with small_files(), pytest.raises(ModelError, match="the model cannot be saved") as caught:
        model.save(folder)
    assert "what was saved there before is kept" in caught.value.hint
    assert "File too large" in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fills_up_keeps_the_old_model(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "model"
    make(base).save(folder)
    old = content(folder)

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=os.strerror(number)):
        shake(make(base)).save(folder)
    assert content(folder) == old
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_of_something_else_is_not_replaced(base: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="is not empty and holds no model"):
        make(base).save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
