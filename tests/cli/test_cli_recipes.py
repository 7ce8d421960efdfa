"""`kglink recipes` lists and shows them whole; changes are read as TOML, curves drawn in a line."""

from __future__ import annotations

import json
import tomllib

import pytest
from conftest import Kglink

from kglink.training import list_recipes, load_recipe
from kglink.training.recipe_files import read_recipe
from kglink_cli.finetune import read_changes
from kglink_cli.runs import sparkline, toml_lines


def test_recipes_are_listed_and_shown_whole(kglink: Kglink) -> None:
    listed = json.loads(kglink("recipes", "--json").out)
    assert [one["name"] for one in listed] == [recipe.name for recipe in list_recipes()]
    assert listed[0]["name"] == "default"
    som = next(one for one in listed if one["name"] == "t-biencoder/som-random-id")
    assert som["source"] == "T-Biencoder, Table 2: SOM, Random-ID (90.68 on test)"
    assert len(kglink("recipes").out.splitlines()) == len(listed) + 1
    described = kglink("recipes", "--help").out
    assert all(one["paper"] in described for one in listed)
    of_table = json.loads(kglink("recipes", "--paper", "amh", "--table", "6", "--json").out)
    assert [one["name"] for one in of_table if one["name"] == "amh/som-amh-k16"]
    assert all(one["paper"] == "amh" and "6" in one["tables"] for one in of_table)
    assert "Did you mean 'joint'" in kglink("recipes", "--paper", "joints", code=2).err
    told = kglink("recipes", "--paper", "amh", "--table", "77", code=2).err
    assert "unknown table of amh '77'" in told
    values = json.loads(kglink("recipes", "t-biencoder/som-random-id", "--json").out)
    assert values["train"]["negatives"] == 15
    whole = tomllib.loads(kglink("recipes", "t-biencoder/som-random-id").out)
    assert whole["train"]["transformation"]["layer"] == 1
    assert "Did you mean" in kglink("recipes", "t-biencoder/som-random", code=2).err


@pytest.mark.parametrize("name", [recipe.name for recipe in list_recipes()])
def test_a_recipe_shown_whole_is_that_recipe(name: str) -> None:
    recipe = load_recipe(name)
    shown = toml_lines(recipe.model_dump(mode="json", exclude={"extends"}))
    again = read_recipe(tomllib.loads("\n".join(shown)))
    assert again == recipe.model_copy(update={"extends": ""})


def test_changes_are_read_as_toml() -> None:
    pairs = ["train.epochs=2", "train.batch = 16", "model.base=./tiny", 'domain="type"', "again={}"]
    assert read_changes(pairs, 5) == {
        "train": {"epochs": 2, "batch": 16},
        "model": {"base": "./tiny"},
        "domain": "type",
        "again": {},
        "seed": 5,
    }


def test_sparklines() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    # Ten values in five columns: the means of two each.
    assert sparkline([0, 2, 4, 4, 7, 9, 15, 15, 8, 8], width=5) == "▁▃▅█▅"
