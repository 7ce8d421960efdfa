"""Names that are learnt as mentions: whose they are, and which of them an epoch sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kglink.arrays import IntArray
from kglink.errors import ConfigError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.inputs import Inputs
from kglink.plugins import SamplerBatch, SamplerPool, load_registry
from kglink.records import Alias, Entity, MentionInText
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training import load_recipe
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.negatives import Negatives
from kglink.training.recipe import StageSection
from kglink.training.stages import Stage, batches_of, make_plan
from store_support import job
from training_world import KBS, fill, small, world_of, write_world_model

CHOICE = KBChoice(("atlas",), ("saga",))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of(), dropout=0.0)


@pytest.fixture(scope="module")
def inputs(base: Path) -> Inputs:
    recipe = small("small", base)
    hardware = choose_hardware("cpu", "fp32", 1)
    return load_bi_encoder(
        recipe.model.base, settings=recipe.model.settings, hardware=hardware
    ).inputs


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        yield store


@pytest.fixture(scope="module")
def data(
    store: Store, base: Path, inputs: Inputs, tmp_path_factory: pytest.TempPathFactory
) -> TrainingData:
    recipe = small("default", base, {"train": {"names": 0.5}})
    return prepare(tmp_path_factory.mktemp("data") / "data", store, recipe, CHOICE, inputs)


def stage_of(data: TrainingData, base: Path, **changes: object) -> Stage:
    given = {"sampler": "hard_in_domain", "negatives": 2, "columns": "shared", "names": 0.5}
    return make_plan(data, small("small", base, {"train": {**given, **changes}}), "TS")[0]


def test_every_name_stands_once_behind_the_mentions_and_means_all_that_bear_it(
    data: TrainingData, store: Store, inputs: Inputs
) -> None:
    bearers: dict[str, set[int]] = {}
    first: dict[str, str] = {}
    row = 0
    for kb in KBS:
        for entity in store.entities(kb):
            for name in (entity.title, *(a.surface for a in entity.aliases)):
                bearers.setdefault(fold(name), set()).add(row)
                first.setdefault(fold(name), name)
            row += 1
    assert len(data.train) - data.annotated == len(bearers) > 80
    windows = inputs.mentions([MentionInText(name, 0, len(name)) for name in first.values()])
    for number, (folded, window) in enumerate(zip(first, windows, strict=True), data.annotated):
        assert np.array_equal(data.train.tokens[number], window)
        assert data.train.gold_sets([number]) == [frozenset(bearers[folded])]


def test_a_name_of_two_kbs_is_a_name_of_both(store: Store, inputs: Inputs, tmp_path: Path) -> None:
    recipe = load_recipe("default", {"train": {"names": 1.0}})
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as own:
        for kb in ("left", "right"):
            entities = [
                Entity(key="a", title="The Moon", aliases=(Alias("Luna"), Alias("moon"))),
                Entity(key="b", title=f"only {kb}", aliases=(Alias("LUNA"),)),
            ]
            own.ingest(job(kb, fingerprint=kb), entities)
        found = prepare(tmp_path / "data", own, recipe, KBChoice(("left",), ("right",)), inputs)
    golds = found.train.gold_sets(range(len(found.train)))
    # The Moon, Luna, moon, only left, only right.
    assert golds == [{0, 2}, {0, 1, 2, 3}, {0, 2}, {1}, {3}]
    assert found.annotated == 0


def test_without_names_mentions_are_all_there_is(
    store: Store, base: Path, inputs: Inputs, tmp_path: Path
) -> None:
    found = prepare(tmp_path / "data", store, small("small", base), CHOICE, inputs)
    assert found.annotated == len(found.train)


def test_an_epoch_sees_its_share_of_names_and_the_next_one_others(
    data: TrainingData, base: Path
) -> None:
    stage = stage_of(data, base)
    seen = []
    for epoch in (0, 1, 0):
        batches = batches_of(stage, epoch, (0, 0))
        rows = np.concatenate([one.parts[0] for one in batches if one.group.letter == "S"])
        assert len(np.unique(rows)) == len(rows)
        seen.append(rows)
    group = stage.groups[0]
    drawn = stage.drawn_names(group)
    assert drawn == round(len(group.items) / 2)
    wanted = len(group.items) + drawn
    # What fills no batch of 8 is left out.
    assert len(seen[0]) == wanted // 8 * 8
    names = [set(rows[rows >= data.annotated].tolist()) for rows in seen]
    assert drawn - 7 <= len(names[0]) <= drawn
    assert names[0] != names[1]
    assert np.array_equal(seen[0], seen[2])
    assert set(group.items).isdisjoint(group.names)


def test_names_have_no_negatives_of_their_own(
    data: TrainingData, base: Path, tmp_path: Path
) -> None:
    stage = stage_of(data, base)
    group, section = stage.groups[0], stage.section
    assert isinstance(section, StageSection)
    sampler = load_registry().create("sampler", section.sampler, section.sampler_settings)
    negatives = Negatives(data, group, section, sampler)
    mined = np.arange(2 * len(group.items)).reshape(-1, 2)
    np.save(tmp_path / "mined.npy", mined)
    negatives.open(tmp_path / "mined.npy")
    mentions = np.array([group.items[1], group.names[0], group.items[-1]])
    found = negatives.of(mentions, mentions, [frozenset()] * 3, np.random.default_rng(0))
    assert found.tolist() == [mined[1].tolist(), [-1, -1], mined[-1].tolist()]


class Reads:
    """Remembers the titles of the golds and the words of the mentions; draws nothing."""

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        assert pool.titles is not None
        assert batch.surfaces is not None
        assert len(pool.titles) == len(pool)
        for gold, surface in zip(batch.gold, batch.surfaces, strict=True):
            self.read += [(surface, pool.titles[row]) for row in gold]
        return np.full((len(batch.gold), k), -1, np.int64)


def test_samplers_are_shown_the_names_of_mentions_and_entities(
    data: TrainingData, store: Store, base: Path
) -> None:
    group = stage_of(data, base).groups[0]
    negatives = {"columns": "own", "negatives": 2, "names": 0.0}
    section = small("default", base, {"train": negatives}).train
    sampler = Reads()
    mentions = np.concatenate([group.items[:9], group.names[:5]])
    golds = np.array([data.train.golds[one][0] for one in mentions])
    rng = np.random.default_rng(0)
    Negatives(data, group, section, sampler).of(mentions, golds, [frozenset()] * 14, rng)
    names = {
        entity.title: {entity.title, *(alias.surface for alias in entity.aliases)}
        for entity in store.entities("atlas")
    }
    assert len(sampler.read) == 14
    assert all(surface in names[title] for surface, title in sampler.read)


def test_names_and_own_negatives_do_not_go_together() -> None:
    changes = {"train": {"names": 1.0, "columns": "own", "negatives": 2}}
    with pytest.raises(ConfigError, match="names have no negatives of their own"):
        load_recipe("default", changes)
