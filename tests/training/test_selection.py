"""What epochs are compared by: which mentions, which entities, which mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kglink.arrays import IntArray
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.plugins import load_registry
from kglink.store import Store
from kglink.training import load_recipe
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.encoded_pool import EncodedPool
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.recipe import SelectionSection
from kglink.training.stages import make_plan
from kglink.training.validation import Recalls, judged_mentions, searched_rows, validate
from training_world import fill, small, world_of, write_world_model

CPU = choose_hardware("cpu", "fp32", 1)
ZESHEL = ["amh/wu", "blink/zeshel-base-hard", "t-biencoder/som-hard-id", "amh/som-amh-k16"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        yield store


@pytest.fixture(scope="module")
def data(store: Store, base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    """Atlas as a training world, saga as a validation world; a third of all is held back."""
    recipe = small("default", base, {"selection": {"held_out": 0.3}})
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    folder = tmp_path_factory.mktemp("data") / "data"
    return prepare(folder, store, recipe, KBChoice(("atlas",), ("saga",)), model.inputs)


def encoded(data: TrainingData, base: Path, folder: Path, rows: IntArray) -> EncodedPool:
    settings = small("default", base).model
    model = load_bi_encoder(base, settings=settings.settings, hardware=CPU)
    scorer = load_registry().create("scorer", settings.scorer, settings.scorer_settings)
    return EncodedPool(model, scorer, CPU, folder, data.pool.tokens, rows.tolist())


@pytest.mark.parametrize("name", ZESHEL)
def test_recipes_of_zeshel_choose_as_the_papers_do(name: str) -> None:
    """Micro R@64 of all 10,000 mentions of the validation worlds, learnt from by nobody."""
    recipe = load_recipe(name)
    chosen = recipe.selection
    assert (chosen.metric, chosen.pool, chosen.kbs) == ("R@64", "own_kb", "target")
    assert (chosen.documents, chosen.most_mentions) == ("dev", 10_000)
    assert recipe.sources == "S"
    assert all(section.negatives_from == "stage" for section in recipe.rounds())


@pytest.mark.parametrize("name", ["blink/wikipedia", "blink/tac", "joint/s", "joint/tos"])
def test_recipes_over_wikipedia_encode_a_sample_after_each_epoch(name: str) -> None:
    """5.9 million entities could not be encoded anew each time."""
    assert load_recipe(name).selection.most_entities == 100_000


def test_micro_counts_mentions_and_macro_kbs() -> None:
    recalls = Recalls((1, 64))
    for kb, rank in (("lego", 1), ("lego", 90), ("lego", 70), ("yugioh", 2)):
        recalls.add_rank(kb, rank, rank)
    by = {pool: SelectionSection.model_validate({"pool": pool}) for pool in ("kb", "own_kb")}
    assert recalls.chosen(by["kb"]) == pytest.approx((1 / 3 + 1) / 2)
    assert recalls.chosen(by["own_kb"]) == pytest.approx(2 / 4)


def test_validation_worlds_judge_and_give_no_negatives(
    data: TrainingData, base: Path, tmp_path: Path
) -> None:
    atlas, saga = data.pool.rows(["atlas"]), data.pool.rows(["saga"])
    chosen = judged_mentions(data, SelectionSection(kbs="target"))
    assert 0 < len(chosen) < len(data.valid)
    golds = [data.valid.golds[one] for one in chosen]
    assert all(((saga.start <= own) & (own < saga.stop)).any() for own in golds)
    recipe = small("t-biencoder/plain-dual-random-cd", base)
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    registry = load_registry()
    scorer = registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    tools = Tools(model, scorer, data, registry, Team("cpu"), recipe.seed)
    (stage,) = make_plan(data, recipe, recipe.sources)
    drawn = (
        PairTask(tools, stage, 0)
        ._negatives["S"]
        .of(
            stage.groups[0].items,
            np.zeros(len(stage.groups[0].items), np.int64),
            [frozenset()] * len(stage.groups[0].items),
            np.random.default_rng(0),
        )
    )
    assert drawn.size
    assert ((drawn >= atlas.start) & (drawn < atlas.stop)).all()


def test_a_sample_holds_all_golds_and_ranks_as_brute_force_does(
    data: TrainingData, base: Path, tmp_path: Path
) -> None:
    selection = SelectionSection(most_entities=10, most_mentions=12, metric="R@2")
    rows = searched_rows(data, selection)
    chosen = judged_mentions(data, selection)
    golds = data.valid.gold_sets(chosen.tolist())
    assert frozenset().union(*golds) <= set(rows.tolist())
    assert len(rows) < len(data.pool)
    pool = encoded(data, base, tmp_path, rows)
    recalls = validate(data, pool, selection)
    texts = [np.asarray(data.valid.tokens[one], np.int32) for one in chosen]
    scores = pool.mention_vectors(texts) @ np.asarray(pool._vectors).T
    hits: dict[str, list[bool]] = {}
    for row, own in zip(scores, golds, strict=True):
        for kb in data.pool.kbs:
            there = [place for place, one in enumerate(rows) if kb.start <= one < kb.stop]
            right = [place for place in there if rows[place] in own]
            if right:
                first = sorted(there, key=lambda place: (-row[place], place))[:2]
                hits.setdefault(kb.name, []).append(bool(set(first) & set(right)))
    for name, found in hits.items():
        assert recalls.recall(name)["R@2"] == pytest.approx(np.mean(found))


def test_without_a_sample_all_entities_are_searched(data: TrainingData) -> None:
    assert searched_rows(data, SelectionSection()).tolist() == list(range(len(data.pool)))
