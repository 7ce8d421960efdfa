"""A prepared world and a tiny model to train; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.models.bi_encoder import BiEncoder
from kglink.plugins import Registry, load_registry
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.data import KBChoice, TrainingData, prepare
from training_steps import made
from training_world import fill, small, world_of, write_world_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of(), dropout=0.0)


@pytest.fixture(scope="module")
def world_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        yield store


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.fixture(scope="module")
def recipe(base: Path) -> Recipe:
    return small("small", base)


@pytest.fixture(scope="module")
def model(recipe: Recipe) -> BiEncoder:
    return made(recipe)


@pytest.fixture(scope="module")
def data(
    world_store: Store, recipe: Recipe, model: BiEncoder, tmp_path_factory: pytest.TempPathFactory
) -> TrainingData:
    folder = tmp_path_factory.mktemp("data") / "data"
    return prepare(folder, world_store, recipe, KBChoice(("atlas",), ("saga",)), model.inputs)
