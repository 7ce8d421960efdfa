"""A workspace to fine-tune in, and the command; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Kglink, Ran

from finetune_support import KBS, Finetune, options
from kglink.workspace import init_workspace
from training_world import fill, world_of, write_world_model


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    write_world_model(folder / "tiny", world_of())
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    shutil.copytree(master, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    monkeypatch.setenv("KGLINK_ENCODER_PRECISION", "fp32")
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setenv("KGLINK_ENCODER_THREADS", "1")
    return folder


@pytest.fixture
def finetune(kglink: Kglink, here: Path) -> Finetune:
    def run(*arguments: str | Path, code: int = 0, **more: object) -> Ran:
        return kglink("finetune", *KBS, *options(here, **more), *arguments, code=code)

    return run
