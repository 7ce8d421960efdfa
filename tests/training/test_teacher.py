"""A teacher's scores: of the right candidates, in their order, and in the student's loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.errors import ConfigError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.cross_encoder import CrossEncoder, open_cross_encoder
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import Inputs
from kglink.models.model_folder import BaseInfo
from kglink.models.opening import resolve_model
from kglink.models.settings import InputSettings
from kglink.models.source import read_config
from kglink.plugins import Registry, load_registry
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.store import Store
from kglink.training.batch import choose_golds, columns_of, mention_batch
from kglink.training.data import TEACHER, KBChoice, TrainingData, as_ids, prepare
from kglink.training.encoded_pool import EncodedPool
from kglink.training.head import Network
from kglink.training.negatives import Teacher
from kglink.training.pairs import PairTask, Tools, check_sections
from kglink.training.processes import Team
from kglink.training.recipe import RerankerSection
from kglink.training.recipe_files import list_recipes, load_recipe
from kglink.training.stages import make_plan
from training_world import KBS, fill, small, world_of, write_world_model

CPU = choose_hardware("cpu", "fp32", 1)
#: The teacher reads more than the student, who reads 16 tokens of each.
INPUTS = InputSettings(mention_tokens=20, entity_tokens=24)
#: All recipes.
NAMES = [info.name for info in list_recipes()]
TAUGHT = {
    "train": {
        "negatives": 4,
        "objective_settings": {"alpha": 0.25, "temperature": 3.0, "student_temperature": 0.1},
    }
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of(), dropout=0.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        yield store


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.fixture(scope="module")
def reader(base: Path, tmp_path_factory: pytest.TempPathFactory) -> CrossEncoder:
    """A reranker as chance made it."""
    source = resolve_model(str(base))
    torch.manual_seed(4)
    inputs = Inputs(source, INPUTS, rows=int(read_config(source.path)["vocab_size"]))
    network = Network(source, 1, CPU, RerankerSection(inputs=INPUTS), rows=inputs.rows)
    manifest = RerankerManifest(
        base=BaseInfo(name=source.name, fingerprint=source.fingerprint),
        documents=("docs",),
        inputs=INPUTS,
        tag_ids=inputs.tag_ids,
        segments=True,
    )
    folder = tmp_path_factory.mktemp("teacher") / "reranker"
    RERANKER.write(folder, *network.files(), manifest)
    return open_cross_encoder(folder, CPU)


@pytest.fixture(scope="module")
def folder(
    store: Store, base: Path, reader: CrossEncoder, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("run") / "data"
    recipe = small("distilled", base, TAUGHT)
    model = load_bi_encoder(str(base), settings=recipe.model.settings, hardware=CPU)
    prepare(folder, store, recipe, KBChoice(KBS, ()), model.inputs, teacher=reader.inputs)
    return folder


@pytest.fixture
def teacher(reader: CrossEncoder, folder: Path) -> Teacher:
    return Teacher(reader, folder / TEACHER)


def test_it_says_what_the_reranker_says_in_the_order_of_the_candidates(
    teacher: Teacher, reader: CrossEncoder, folder: Path, store: Store
) -> None:
    data = TrainingData(folder)
    entities = [(EntityId(kb, entity.key), entity) for kb in KBS for entity in store.entities(kb)]
    texts: dict[bytes, MentionInText] = {}
    for document in store.documents("docs"):
        for mention in document.mentions:
            found = MentionInText(document.text, mention.start, mention.end)
            ids = reader.inputs.mentions([found])[0].tobytes()
            texts[ids] = found
    numbers = np.arange(12)
    rng = np.random.default_rng(0)
    candidates = np.array([rng.choice(len(entities), 6, replace=False) for _ in numbers])
    candidates[3, 4:] = candidates[5, 1:] = candidates[7, 0] = -1
    told = teacher.scores(numbers, candidates)
    windows = as_ids(teacher._mentions.take(numbers.tolist()))
    for number, row in enumerate(candidates.tolist()):
        wanted = tuple(
            Candidate(
                entities[one][0],
                entities[one][1].title,
                0.0,
                description=entities[one][1].description,
                type=entities[one][1].type,
                aliases=tuple(alias.surface for alias in entities[one][1].aliases),
            )
            for one in row
            if one >= 0
        )
        (logits,) = reader.logits([Ranking(texts[windows[number].tobytes()], wanted)])
        there = np.array(row) >= 0
        np.testing.assert_allclose(told[number][there], logits, rtol=1e-4, atol=1e-5)
        assert np.isneginf(told[number][~there]).all()
    assert len(np.unique(told[np.isfinite(told)].round(4))) > 40, "nothing is told apart"
    assert [data.pool.row(name) for name, _ in entities] == list(range(len(entities)))


def test_what_is_read_beside_a_pair_changes_nothing(teacher: Teacher) -> None:
    numbers = np.arange(9)
    candidates = np.random.default_rng(1).integers(0, 60, (9, 5))
    together = teacher.scores(numbers, candidates)
    alone = [
        teacher.scores(numbers[row : row + 1], candidates[row : row + 1, column : column + 1])
        for row in range(9)
        for column in range(5)
    ]
    np.testing.assert_allclose(together, np.concatenate(alone).reshape(9, 5), rtol=1e-4, atol=1e-5)
    order = [3, 1, 4, 0, 2]
    np.testing.assert_allclose(
        teacher.scores(numbers, candidates[:, order]), together[:, order], rtol=1e-4, atol=1e-5
    )
    assert teacher.scores(numbers[:0], candidates[:0]).shape == (0, 5)


def taught(
    base: Path, registry: Registry, folder: Path, teacher: Teacher, name: str = "distilled"
) -> tuple[PairTask, TrainingData]:
    """The trainer of a stage whose candidates are searched, and scored by the teacher."""
    recipe = small(name, base, TAUGHT)
    data = TrainingData(folder)
    model = load_bi_encoder(str(base), settings=recipe.model.settings, hardware=CPU)
    check_sections(recipe.sections("S"), model, registry, taught=True)
    scorer = registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    tools = Tools(model, scorer, data, registry, Team("cpu"), 0, teacher, folder=folder)
    trainer = PairTask(tools, make_plan(data, recipe, "S")[0], 0)
    trainer.prepare(0)
    return trainer, data


def test_each_mention_has_its_gold_once_and_the_scores_of_its_own_candidates(
    base: Path, registry: Registry, folder: Path, teacher: Teacher
) -> None:
    trainer, data = taught(base, registry, folder, teacher)
    group = trainer._stage.groups[0]
    negatives = trainer._negatives[group.letter]
    rng = np.random.default_rng(2)
    several = 0
    for _ in range(3):
        mentions = rng.permutation(group.items)[:16]
        golds, excluded = choose_golds(data, group.rows, mentions, rng)
        drawn = negatives.of(mentions, golds, excluded, rng)
        batch = mention_batch(mentions, golds, excluded, drawn)
        columns = columns_of(batch, trainer._stage.section)  # type: ignore[arg-type]  # of S
        rows = np.where(columns.masked, -1, batch.entities[columns.places])
        assert rows[:, 0].tolist() == golds.tolist()
        for row, known in zip(rows.tolist(), excluded, strict=True):
            there = [one for one in row if one >= 0]
            assert len(there) == len(set(there))
            assert set(there) & known == {row[0]}
        told = negatives.taught(batch)
        assert told is not None
        wanted = teacher.scores(mentions, rows)
        np.testing.assert_allclose(told, wanted, rtol=1e-4, atol=1e-5)
        several += sum(len(one) > 1 for one in data.train.gold_sets(mentions.tolist()))
    assert several, "no mention has a gold in both KBs"


@pytest.mark.parametrize("name", [one for one in NAMES if load_recipe(one).teacher])
def test_every_recipe_with_a_teacher_trains(
    name: str, base: Path, registry: Registry, folder: Path, teacher: Teacher
) -> None:
    trainer, _ = taught(base, registry, folder, teacher, name)
    batch = trainer.batches(0)[0]
    assert 0 < trainer.step(batch, 0, 0).loss < np.inf


def test_the_loss_of_a_batch_by_hand(
    base: Path, registry: Registry, folder: Path, teacher: Teacher
) -> None:
    trainer, data = taught(base, registry, folder, teacher)
    model = trainer._tools.model
    batch = trainer.batches(0)[0]
    (part,) = batch.parts
    negatives = trainer._negatives[batch.group.letter]
    golds, excluded = choose_golds(data, batch.group.rows, part, trainer._chance(0, 0))
    drawn = negatives.of(part, golds, excluded, trainer._chance(0, 0))
    rows = np.concatenate([golds[:, None], drawn], axis=1)
    pool = EncodedPool(model, trainer._tools.scorer, CPU, folder / "other", data.pool.tokens)
    vectors = pool.mention_vectors(as_ids(data.train.tokens.take(part.tolist())))
    whole = pool.vectors(batch.group.rows)
    assert whole is not None
    assert (rows >= 0).all()
    student = np.einsum("md,mcd->mc", vectors, whole[rows - batch.group.rows.start]) / 0.1
    shares = student - np.log(np.exp(student).sum(1, keepdims=True))
    milder = student / 3 - np.log(np.exp(student / 3).sum(1, keepdims=True))
    said = np.exp(teacher.scores(part, rows) / 3)
    said /= said.sum(1, keepdims=True)
    by_hand = 0.25 * -shares[:, 0].mean() + 0.75 * -(said * milder).sum(1).mean()
    assert trainer.step(batch, 0, 0).loss == pytest.approx(by_hand, rel=1e-3)


def test_without_candidates_to_ask_about_there_is_nothing_to_learn(
    base: Path, registry: Registry
) -> None:
    for change in ({"columns": "shared"}, {"sampler": "random_in_domain"}):
        recipe = small("distilled", base, TAUGHT)
        section = recipe.train.model_copy(update=change)
        model = load_bi_encoder(str(base), settings=recipe.model.settings, hardware=CPU)
        with pytest.raises(ConfigError, match="has none to ask it about"):
            check_sections([section], model, registry, taught=True)
        with pytest.raises(ConfigError, match="and there is none"):
            check_sections([section], model, registry)
