"""Recipes: what is in them, how they are refused, and that every one of them trains."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kglink.errors import ConfigError, UnknownNameError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.plugins import Registry, load_registry
from kglink.store import Store
from kglink.training import DEFAULT_RECIPE, list_recipes, load_recipe
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.recipe_files import chosen_recipe, merged, read_recipe
from kglink.training.stages import make_plan
from training_world import fill, small, world_of, write_world_model

NAMES = [info.name for info in list_recipes()]
CPU = choose_hardware("cpu", "fp32", 1)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny products on several cores are mostly waiting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        yield store


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.fixture(scope="module")
def data(store: Store, base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    recipe = small(DEFAULT_RECIPE, base)
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    folder = tmp_path_factory.mktemp("data") / "data"
    return prepare(folder, store, recipe, KBChoice(("atlas",), ("saga",)), model.inputs)


#: Recipes with a teacher are trained in `test_teacher.py`.
UNTAUGHT = [name for name in NAMES if not load_recipe(name).teacher]


@pytest.mark.parametrize("name", UNTAUGHT)
def test_every_recipe_trains(
    name: str, data: TrainingData, base: Path, registry: Registry, tmp_path: Path
) -> None:
    recipe = small(name, base)
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    scorer = registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    tools = Tools(model, scorer, data, registry, Team("cpu"), recipe.seed, folder=tmp_path)
    before = {key: value.clone() for key, value in model.named_parameters()}
    for number, stage in enumerate(make_plan(data, recipe, "TOS")):
        trainer = PairTask(tools, stage, number)
        trainer.prepare(0)
        batches = trainer.batches(0)
        losses = [trainer.step(batch, 0, step).loss for step, batch in enumerate(batches[:3])]
        assert all(math.isfinite(loss) and loss > 0 for loss in losses)
    moved = {
        key
        for key, value in model.named_parameters()
        if key in before and not value.equal(before[key])
    }
    assert any("layer.0.attention" in key for key in moved)
    assert not any(".embeddings." in key for key in moved)


def test_the_papers_hyperparameters() -> None:
    som = load_recipe("t-biencoder/som-hard-id")
    assert (som.train.batch, som.train.negatives, som.train.learning_rate) == (64, 15, 1e-5)
    assert som.train.sampler == "hard_in_domain"
    assert som.train.columns == "own"
    assert som.train.transformation is not None
    assert (som.train.transformation.layer, som.train.transformation.epsilon) == (1, 40)
    assert (som.model.pooling, som.model.scorer, som.model.shared) == (
        "tokens",
        "sum_of_max",
        False,
    )
    assert som.model.inputs.mention_tokens == som.model.inputs.entity_tokens == 128
    first, second = load_recipe("blink/zeshel-base-hard").rounds()
    assert (first.columns, first.negatives, first.batch, first.epochs) == ("in_batch", 0, 128, 5)
    assert (second.columns, second.negatives, second.refresh_epochs) == ("both", 10, 5)
    assert second.learning_rate == first.learning_rate == 2e-5
    amh = load_recipe("amh/som-amh-k16")
    assert (amh.train.negatives, amh.train.batch, amh.train.objective) == (16, 64, "bce")
    assert amh.train.sampler_settings == {"alpha": 0.3}
    joint = load_recipe("joint/tos")
    assert joint.sources == "TOS"
    assert (joint.train.batch, joint.train.learning_rate, joint.overlap.epochs) == (16, 3e-5, 5)
    assert (joint.overlap.method, joint.overlap.keep) == ("paper", "last")
    assert (joint.selection.patience, joint.train.epochs) == (0, 5)
    by_kg = load_recipe("joint/kg-negatives")
    assert (by_kg.train.sampler, by_kg.train.columns, by_kg.domain) == (
        "random_in_domain",
        "own",
        "kb",
    )
    assert by_kg.train.negatives == by_kg.train.batch == 16


def test_amhs_epochs_and_readings() -> None:
    infos = list_recipes("amh")
    recipes = {info.name: load_recipe(info.name) for info in infos}
    assert all(recipe.train.epochs in {5, 10, 15, 30} for recipe in recipes.values())
    with_gradient = {name for name in recipes if name.endswith("w-grad")}
    for name, recipe in recipes.items():
        assert recipe.train.sampler_settings.get("w_grad", False) is (name in with_gradient)
    assert {load_recipe(name).model.scorer for name in with_gradient} == {
        "dual",
        "mean",
        "sum_of_max",
    }
    silent = [info for info in infos if info.name.split("-")[-1] in {"random", "hard", "mixed"}]
    assert len(silent) == 9
    assert all("our choice" in info.summary for info in silent)
    assert all(recipes[info.name].train.objective == "bce" for info in silent)


def test_each_recipe_says_what_it_is() -> None:
    infos = list_recipes()
    assert infos[0].name == DEFAULT_RECIPE
    assert all(info.summary and info.source for info in infos)
    assert len({info.source for info in infos}) == len(infos)


def test_a_recipe_of_ones_own_extends_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "blink/zeshel-base"\n[train]\nbatch = 7\n[again]\nepochs = 1\n')
    recipe = load_recipe(path)
    assert recipe.train.batch == 7
    assert recipe.train.epochs == 5
    assert recipe.again is not None
    assert (recipe.again.batch, recipe.again.epochs) == (7, 1)
    beside = tmp_path / "other.toml"
    beside.write_text('extends = "mine.toml"\nseed = 4\n')
    assert load_recipe(beside, {"train": {"epochs": 2}}).train.model_dump() == {
        **recipe.train.model_dump(),
        "epochs": 2,
    }
    assert load_recipe(beside).seed == 4


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("epoch = 3", UnknownNameError, "'epoch'"),
        ("[train]\nbatchs = 3", UnknownNameError, "Did you mean 'batch'"),
        ("[train.transformation]\nlayers = 3", UnknownNameError, "Did you mean 'layer'"),
        ("[again]\nnegative = 3", UnknownNameError, "Did you mean 'negatives'"),
        ("[train]\nbatch = 'x'", ConfigError, "train.batch = 'x'"),
        ("[train]\nbatch = 1", ConfigError, "train.batch = 1"),
        ("[train]\ncolumns = 'own'", ConfigError, "needs negatives"),
        ("[train]\nsampler = 'knn'", ConfigError, "sampler changes nothing"),
        ("[train]\nnegatives_from = 'all'", ConfigError, "negatives_from changes nothing"),
        ("[train]\nloss_mode = 'only_prime'", ConfigError, "needs a transformation"),
        ("[train]\nepochs = true", ConfigError, "train.epochs = True"),
        ("[train]\nbatch = '8'", ConfigError, "train.batch = '8'"),
        ("[selection]\nmetric = 'MRR'", ConfigError, "selection.metric = 'MRR'"),
        ("[train]\nnames = inf", ConfigError, "train.names = inf"),
        ("[train]\nweight_decay = nan", ConfigError, "train.weight_decay = nan"),
        ("[overlap]\nlearning_rate = 1e38", ConfigError, "overlap.learning_rate = 1e+38"),
        ("seed = 9999999999999999999", ConfigError, "seed = 9999999999999999999"),
        ("[train", ConfigError, "mine.toml"),
        ("extends = 'blink/nothing'", UnknownNameError, "which"),
        ("extends = 'mine.toml'", ConfigError, "mine.toml: extends itself\n  Name another recipe"),
    ],
)
def test_a_bad_recipe_is_refused_in_words(
    text: str, error: type[ConfigError], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(error) as caught:
        load_recipe(path)
    assert words in str(caught.value)


def test_a_file_of_a_recipes_name_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load_recipe()
    (tmp_path / DEFAULT_RECIPE).write_text("server { listen 80; }")
    (tmp_path / "mine").write_text('extends = "default"\nseed = 4\n')
    monkeypatch.chdir(tmp_path)
    assert load_recipe() == ours
    assert load_recipe("mine").seed == 4
    with pytest.raises(ConfigError):
        load_recipe(f"./{DEFAULT_RECIPE}")


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Did you mean 'blink/zeshel-base' or [^,]*lists all"
    ):
        load_recipe("blink/zeshel-bas")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_recipe("nowhere/mine.toml")


def test_reading_recipes_loads_no_torch() -> None:
    code = "import sys, kglink.training as t; t.list_recipes(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"pooling": "tokens", "scorer": "dual"}, "set pooling to cls"),
        ({"pooling": "tokens", "scorer": "kglink/mean"}, "set pooling to mean"),
        (
            {"metric": "dot", "scorer": "dual", "scorer_settings": {"metric": "cosine"}},
            "set model.metric alone",
        ),
    ],
)
def test_a_model_that_would_be_searched_otherwise_than_trained_is_refused(
    model: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        load_recipe("default", {"model": model})


def test_settings_go_with_the_plugin_that_they_are_for() -> None:
    assert load_recipe("small").train.objective_settings
    changed = load_recipe("small", {"train": {"objective": "bce"}})
    assert changed.train.objective_settings == {}
    changed = load_recipe("small", {"train": {"objective": "kglink/nce"}})
    assert changed.train.objective_settings == load_recipe("small").train.objective_settings
    assert not load_recipe("small", {"train": {"objective_settings": {}}}).train.objective_settings
    # Of a recipe that relies on the default plugin nothing is dropped.
    implied = {"train": {"objective_settings": {"temperature": 0.1}}}
    assert merged(implied, {"train": {"objective": "nce"}})["train"].keys() == {
        "objective", "objective_settings",
    }  # fmt: skip


def test_changes_of_the_first_training_are_those_of_the_second() -> None:
    changes = {"train": {"epochs": 1, "learning_rate": 1e-4}, "again": {"learning_rate": 2e-4}}
    by_name = chosen_recipe("blink/zeshel-base-hard", changes)
    assert chosen_recipe(load_recipe("blink/zeshel-base-hard"), changes) == by_name
    assert by_name.again is not None
    assert (by_name.again.epochs, by_name.again.learning_rate) == (1, 2e-4)


def test_what_the_second_training_sets_itself_stays() -> None:
    changes = {"train": {"refresh_epochs": 2}}
    by_name = chosen_recipe("blink/zeshel-base-hard", changes)
    assert chosen_recipe(load_recipe("blink/zeshel-base-hard"), changes) == by_name
    assert chosen_recipe(by_name, changes) == by_name


def test_an_unknown_key_is_told_before_a_wrong_value() -> None:
    train = {"epochs": "x", "nope": 1}
    for raw in ({"train": train}, {"again": {"nope": 1}, "train": {"epochs": 0}}):
        with pytest.raises(UnknownNameError, match="nope"):
            read_recipe(raw)
