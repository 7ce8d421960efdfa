"""What `kglink finetune` refuses, before it trains, in a sentence that says how to mend it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Kglink

from finetune_support import Finetune, options
from kglink.store import Store
from store_support import entity, job

pytest_plugins = ["finetune_fixtures"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sources", "TX"], "unknown sources 'TX'"),
        (["--sources", "TOS", "--docs", "saga"], "no mention of 'saga' is annotated"),
        (["--docs", "nothing"], "unknown KB 'nothing'"),
        (["--source-kb", "atlsa"], "Did you mean 'atlas'"),
        (["--source-kb", "saga"], "KB 'saga' is named twice"),
        (["--recipe", "defalt"], "Did you mean 'default'"),
        (["--recipe", "nowhere.toml"], "the recipe cannot be read"),
        (["--set", "train.epoch=2"], "Did you mean 'epochs'"),
        (["--set", "train.epochs=many"], "train.epochs = 'many'"),
        (["--set", "train.epochs"], "is not key=value"),
        (["--run", "../away"], "cannot be the name of a run"),
        (["--space", "No Space"], "space.name = 'No Space'"),
        (["--resume", "--run", "nowhere"], "no run to go on with"),
    ],
)
def test_what_cannot_be_is_said_in_words_and_leaves_nothing(
    arguments: list[str], said: str, finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    code = 1 if "--resume" in arguments else 2
    ran = finetune("--no-publish", *arguments, code=code)
    assert said in ran.err
    assert ran.err.count("error") == 1
    assert ran.out == ""
    assert not list((here / "runs").glob("*"))
    assert json.loads(kglink("runs", "--json").out) == []


def test_what_could_not_be_published_is_refused_before_the_training(
    finetune: Finetune, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "space.name" in finetune("--space", "My Space", code=2).err
    monkeypatch.setenv("KGLINK_ENCODER_MODEL", str(here / "tiny"))
    told = finetune(code=2).err
    assert "encoder.model is set to" in told
    assert "--no-publish trains a model alone" in told
    assert not (here / "runs").exists() or not list((here / "runs").iterdir())


def test_a_recipe_with_an_unknown_key(finetune: Finetune, here: Path) -> None:
    mine = here / "mine.toml"
    mine.write_text("[train]\nlearnig_rate = 1e-5\n", encoding="utf-8")
    ran = finetune("--recipe", mine, code=2)
    assert "'learnig_rate'" in ran.err
    assert "Did you mean 'learning_rate'" in ran.err


def test_a_model_that_is_not_like_bert(finetune: Finetune, here: Path) -> None:
    config = here / "tiny" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "gpt2"}))
    assert "towers are encoders like BERT" in finetune(code=1).err
    shutil.rmtree(here / "tiny")
    assert "tiny" in finetune(code=1).err


def test_a_kb_without_descriptions_is_told_of(kglink: Kglink, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    ran = kglink(
        *("finetune", "--target-kb", "saga", "--source-kb", "bare", "--sources", "T"),
        *("--no-publish", *options(here)),
    )
    assert "bare: none of its 3 entities has a description" in ran.err
