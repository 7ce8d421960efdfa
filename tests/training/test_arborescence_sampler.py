"""Training among mentions (ArboEL): what each is drawn to, what it is drawn away from, and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from kglink.clusters.arborescence import full_tree
from kglink.errors import ConfigError, UsageError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.plugins import SamplerBatch, SamplerPool, load_registry
from kglink.store import Store
from kglink.testing import SamplerContract
from kglink.training.batch import batch_among_mentions, choose_gold_sets
from kglink.training.data import KBChoice, TrainingData, as_ids, prepare
from kglink.training.job import FinetuneJob, News, Note, StepNews
from kglink.training.pairs import PairTask, Tools, check_sections
from kglink.training.processes import Team
from kglink.training.recipe import StageSection
from kglink.training.run import Curve
from kglink.training.stages import make_plan
from kglink.training.train import train
from kglink_plugins.plugin import ArborescenceSettings
from kglink_plugins.samplers import arborescence as module
from kglink_plugins.samplers.arborescence import Arborescence, clusters
from store_support import job
from training_world import KBS, fill, small, world_of, write_world_model
from worlds import DocumentSettings

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray

CPU = choose_hardware("cpu", "fp32", 1)
#: The paper's example: e-m1, e-m2, e-m3, e-m4, then m1m2, m1m3, m1m4, m2m3, m2m4, m3m4.
EXAMPLE = (10, 5, 2, 7), {(0, 1): 8, (0, 2): 3, (0, 3): 1, (1, 2): 9, (1, 3): 4, (2, 3): 6}


class TestArborescence(SamplerContract):
    plugin = "kglink/arborescence"
    stochastic = False


# ------------------------------------------------------------------------------- positives
def example() -> tuple[SamplerPool, SamplerBatch]:
    """The paper's example as vectors: another entity stands before the one that is meant."""
    to_entity, pairs = EXAMPLE
    products = np.zeros((5, 5))
    products[0, 1:] = products[1:, 0] = to_entity
    for (u, v), value in pairs.items():
        products[u + 1, v + 1] = products[v + 1, u + 1] = value
    vectors = np.linalg.cholesky(products + np.eye(5) * 100).astype(np.float32)
    rows = np.stack([np.zeros(5, np.float32), vectors[0]])
    pool = SamplerPool(np.zeros(2, np.int64), rows)
    return pool, SamplerBatch([frozenset({1})] * 4, vectors[1:])


class Drawn:
    """Draws m1:m3, m2:m1, m3:m4, m4:m2; one above a mention's own number is one less."""

    def integers(self, high: int, size: int) -> IntArray:
        assert (high, size) == (3, 4)
        return np.array([1, 0, 2, 1])


@pytest.mark.parametrize(
    ("positives", "scope", "expected"),
    [
        ("full", "query", ["e", "m1", "m2", "e"]),
        ("nearest", "query", ["e", "e", "m2", "e"]),
        ("random", "query", ["e", "m1", "m4", "e"]),
        ("nearest", "cluster", ["e", "m1", "m2", "e"]),
        # m1m3 3, m2m1 8, m3m4 6, m4m2 4 besides the entity's arcs: m3 is explained by m4.
        ("random", "cluster", ["e", "m1", "m4", "e"]),
    ],
)
def test_the_papers_example(positives: Any, scope: Any, expected: list[str]) -> None:
    pool, batch = example()
    sampler = Arborescence(ArborescenceSettings(positives=positives, nn_scope=scope))
    found = sampler.positives(pool, batch, Drawn())  # type: ignore[arg-type]  # its draws are told
    names = ["another", "e", "m1", "m2", "m3", "m4"]
    assert [names[row] for row in found.rows] == expected
    assert found.notes == ()


def test_what_is_the_same_thing_in_two_kbs_is_one_cluster_with_two_roots() -> None:
    rng = np.random.default_rng(2)
    golds = [frozenset(one) for one in ({4}, {1, 4}, {2}, {1}, {2}, {0}, {3, 5}, {5, 0})]
    found = [(mentions.tolist(), roots.tolist()) for mentions, roots in clusters(golds)]
    assert found == [([0, 1, 3], [1, 4]), ([2, 4], [2]), ([5, 6, 7], [0, 3, 5])]
    rows, vectors = (rng.normal(size=(n, 4)).astype(np.float32) for n in (6, len(golds)))
    pool = SamplerPool(np.zeros(6, np.int64), rows)
    parents = Arborescence().positives(pool, SamplerBatch(golds, vectors), rng).rows
    for mentions, roots in found:
        similar = vectors[mentions] @ rows[roots].T
        tree = full_tree(similar.max(axis=1), vectors[mentions]).parents
        for at, mention in enumerate(mentions):
            own = roots[int(similar[at].argmax())]
            assert parents[mention] == (own if tree[at] < 0 else 6 + mentions[tree[at]])


def test_a_single_mention_all_identical_and_texts_that_are_there_twice() -> None:
    pool = SamplerPool(np.zeros(2, np.int64), np.eye(2, 3, dtype=np.float32))
    rng = np.random.default_rng(0)
    for positives in ("full", "nearest", "random"):
        sampler = Arborescence(ArborescenceSettings(positives=positives))
        alone = SamplerBatch([frozenset({1})], np.ones((1, 3), np.float32))
        assert sampler.positives(pool, alone, rng).rows.tolist() == [1]
        assert sampler.negatives(pool, alone, np.array([0]), 4).tolist() == [[0, -1, -1, -1]]
        same = SamplerBatch([frozenset({1})] * 5, np.tile(pool.rows(slice(1, 2)), (5, 1)))
        assert sampler.positives(pool, same, rng).rows.tolist() == [1] * 5
        nearer = same._replace(vectors=np.ones((5, 3), np.float32))
        assert reaches_its_entity(sampler.positives(pool, nearer, rng).rows - 2)
        once = rng.normal(size=(6, 3)).astype(np.float32)
        twice = SamplerBatch([frozenset({1})] * 12, np.tile(once, (2, 1)))
        rows = sampler.positives(pool, twice, rng).rows - 2
        assert reaches_its_entity(rows)
        nobody = SamplerBatch([], np.empty((0, 3), np.float32))
        assert sampler.positives(pool, nobody, rng).rows.tolist() == []


def reaches_its_entity(parents: IntArray) -> bool:
    """Whether every mention comes to an entity, going from parent to parent."""
    at = np.arange(len(parents))
    for _ in parents:
        at = np.where(at < 0, at, parents[at])
    return bool((at < 0).all())


def test_a_cluster_too_large_for_the_full_tree_falls_back_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, batch = example()
    whole = Arborescence().positives(pool, batch, np.random.default_rng(0))
    monkeypatch.setattr(module, "full_tree", partial(full_tree, most_bytes=4 * 4 * 4 - 1))
    told = Arborescence().positives(pool, batch, np.random.default_rng(0))
    assert told.rows.tolist() == whole.rows.tolist()
    assert "4 mentions of one entity" in told.notes[0]
    assert "row by row" in told.notes[0]


def test_models_without_one_vector_of_a_mention_are_refused() -> None:
    pool, batch = example()
    with pytest.raises(UsageError, match=r"one vector of each mention"):
        Arborescence().positives(pool, batch._replace(vectors=None), np.random.default_rng(0))


# ------------------------------------------------------------------------------- negatives
@pytest.mark.parametrize("in_domain", [False, True])
def test_negatives_are_the_nearest_of_either_kind(in_domain: bool) -> None:
    rng = np.random.default_rng(4)
    domains = np.array([0] * 5 + [1] * 5)
    rows = rng.integers(-3, 4, (10, 3)).astype(np.float32)
    golds = [frozenset(rng.choice(10, int(rng.integers(1, 3)), replace=False)) for _ in range(30)]
    excluded = [gold | {(min(gold) + 5) % 10} for gold in golds]
    vectors = rng.integers(-3, 4, (30, 3)).astype(np.float32)
    pool = SamplerPool(domains, rows)
    batch = SamplerBatch(golds, vectors, excluded)
    sampler = Arborescence(ArborescenceSettings(in_domain=in_domain))
    wanted = np.array([3, 4, 5, 20, 29])
    for k, of_entities, of_mentions in ((1, 1, 0), (5, 3, 2), (10, 5, 5), (60, 30, 30)):
        found = sampler.negatives(pool, batch, wanted, k)
        for at, mention in enumerate(wanted.tolist()):
            own = {domains[row] for row in golds[mention]}
            entities = [
                row
                for row in best_first(vectors[mention] @ rows.T)
                if row not in excluded[mention] and (not in_domain or domains[row] in own)
            ]
            home = domains[min(golds[mention])]
            mentions = [
                10 + other
                for other in best_first(vectors[mention] @ vectors.T)
                if not excluded[other] & excluded[mention]
                and (not in_domain or domains[min(golds[other])] == home)
            ]
            expected = [*padded(entities, of_entities), *padded(mentions, of_mentions)]
            assert found[at].tolist() == expected


def best_first(scores: FloatArray) -> list[int]:
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


def padded(rows: Sequence[int], count: int) -> list[int]:
    return [*rows[:count], *[-1] * (count - len(rows))]


# ------------------------------------------------------------------------------- the batch
def test_a_batch_encodes_each_text_once_and_finds_it_again() -> None:
    """Entities 0 to 9; mentions are 10 more than their numbers."""
    mentions = np.array([7, 2])
    chosen = np.array([[10 + 2, 3, 10 + 5, -1], [4, 3, -1, 10 + 7]])
    batch = batch_among_mentions(mentions, np.array([4, 4]), [frozenset({4})] * 2, chosen, 10)
    assert batch.entities.tolist() == [3, 4]
    assert batch.others is not None
    assert batch.others.tolist() == [5]
    known = [3, 4, 17, 12, 15]  # entities, the batch's mentions as they stand, the others
    assert [known[at] for at in batch.gold_at] == [12, 4]
    assert batch.negative_at.tolist() == [[0, 4, -1], [0, -1, 2]]
    alone = batch_among_mentions(mentions, np.array([4, 4]), [], np.array([[12], [17]]), 10)
    assert alone.entities.tolist() == [4]


# ------------------------------------------------------------------------------- runs
@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return write_world_model(folder, world_of(), dropout=0.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The documents are there twice, under two names."""
    with fill(f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db", world_of()) as store:
        documents = world_of().documents(24, DocumentSettings(mentions=4, nil=0.0))
        store.ingest(job("again", fingerprint="again", links_to=KBS), documents)
        yield store


def prepared(store: Store, base: Path, folder: Path) -> tuple[TrainingData, Any, Any]:
    recipe = small("arboel/zeshel-arborescence", base, {"train": {"negatives": 6}})
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    return prepare(folder, store, recipe, KBChoice(KBS, ()), model.inputs), recipe, model


def test_a_step_has_the_loss_of_the_paper(store: Store, base: Path, tmp_path: Path) -> None:
    """``-log s_p - sum of log(1 - s_n)`` of the softmax over parent and negatives, by hand."""
    data, recipe, model = prepared(store, base, tmp_path / "data")
    registry = load_registry()
    scorer = registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    (stage,) = make_plan(data, recipe, "S")
    tools = Tools(model, scorer, data, registry, Team("cpu"), 0, folder=tmp_path)
    trainer = PairTask(tools, stage, 0)
    trainer.prepare(0)
    pool, files = trainer._pool(), trainer.mined_files(0)
    batch = trainer.batches(0)[0]
    chosen = np.load(files["S"])[np.searchsorted(stage.groups[0].items, batch.parts[0])]
    texts = as_ids(data.train.tokens.take(range(len(data.train))))
    entities = pool.vectors(stage.groups[0].rows)
    assert entities is not None
    rows = np.concatenate([entities, pool.mention_vectors(texts)])
    count = len(data.pool)
    assert (chosen[:, 0] >= count).any(), "some are drawn to mentions"
    assert (chosen[:, 1:] >= count).any(), "some are drawn away from mentions"
    losses = []
    for mention, own in zip(batch.parts[0].tolist(), chosen, strict=True):
        scores = rows[own[own >= 0]].astype(np.float64) @ rows[count + mention]
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        losses.append(-np.log(shares[0]) - np.log(1 - shares[1:]).sum())
    done = trainer.step(batch, 0, 0)
    assert done.loss == pytest.approx(np.mean(losses), rel=1e-4)


def test_golds_that_are_no_overlaps_of_each_other_are_drawn_from(
    store: Store, base: Path, tmp_path: Path
) -> None:
    data, _, _ = prepared(store, base, tmp_path / "data")
    rows = data.pool.rows(KBS)
    items = np.arange(len(data.train))
    things, excluded = choose_gold_sets(data, rows, items, np.random.default_rng(0))
    several = 0
    for golds, thing, known in zip(
        data.train.gold_sets(items.tolist()), things, excluded, strict=True
    ):
        assert thing <= golds <= known
        assert all(other in data.counterparts(thing - {other}) for other in thing if len(thing) > 1)
        several += len(thing) > 1
    assert several, "the world has mentions with golds in both KBs"
    made = Unlinked(data)
    drawn = {
        tuple(map(tuple, choose_gold_sets(made, rows, items, np.random.default_rng(seed))[0]))  # type: ignore[arg-type]  # what it asks for is there
        for seed in range(3)
    }
    assert len(drawn) == 3
    assert all(len(thing) == 1 for one in drawn for thing in one)


class Unlinked:
    """The data, had nobody looked for overlaps."""

    def __init__(self, data: TrainingData) -> None:
        self.train = data.train

    def counterparts(self, rows: frozenset[int]) -> frozenset[int]:
        return frozenset()


def run(
    store: Store,
    base: Path,
    folder: Path,
    changes: dict[str, Any] | None = None,
    progress: Callable[[News], None] = lambda _: None,
    *,
    resume: bool = False,
) -> list[dict[str, Any]]:
    told = {"train": {"epochs": 2, "batch": 32, "negatives": 4, **(changes or {})}}
    recipe = None if resume else small("arboel/zeshel-1-rand", base, told)
    asked = FinetuneJob(
        recipe=recipe,
        sources="" if resume else "S",
        source_kbs=() if resume else KBS,
        docs=() if resume else ("docs", "again"),
        device="cpu",
        threads=1,
        precision="fp32",
        checkpoint_steps=3,
        curve_steps=1,
        resume=resume,
    )
    train(store, load_registry(), asked, folder, progress=progress)
    return Curve(folder).lines()


class _StopError(Exception):
    """What a test stops a run with."""


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_the_same_trees(
    store: Store, base: Path, tmp_path: Path
) -> None:
    whole = run(store, base, tmp_path / "whole")
    seen = 0

    def stop(news: News) -> None:
        nonlocal seen
        seen += isinstance(news, StepNews)
        if seen == 8:
            raise _StopError

    with pytest.raises(_StopError):
        run(store, base, tmp_path / "stopped", progress=stop)
    assert run(store, base, tmp_path / "stopped", resume=True) == whole
    losses = [line["loss"] for line in whole if "loss" in line]
    assert np.isfinite(losses).all()


def test_what_the_sampler_says_is_told(
    store: Store, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "full_tree", partial(full_tree, most_bytes=0))
    told: list[str] = []

    def keep(news: News) -> None:
        if isinstance(news, Note):
            told.append(news.text)

    changes = {"epochs": 1, "sampler_settings": {"positives": "full"}}
    run(store, base, tmp_path / "run", changes, keep)
    assert any("mentions of one entity" in note for note in told)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("arboel/zeshel-knn", {"columns": "both"}, "has entities alone"),
        ("t-biencoder/som-hard-id", {}, "by one vector of each"),
    ],
)
def test_what_trees_cannot_work_with_is_refused(
    store: Store, base: Path, tmp_path: Path, name: str, changes: dict[str, Any], told: str
) -> None:
    given = small(name, base, {"train": {"sampler": "arborescence", **changes}})
    given = given.model_copy(
        update={"train": given.train.model_copy(update={"sampler_settings": {}})}
    )
    asked = FinetuneJob(recipe=given, sources="S", source_kbs=KBS, device="cpu", threads=1)
    with pytest.raises(ConfigError, match=told):
        train(store, load_registry(), asked, tmp_path / "run")
    assert not (tmp_path / "run" / "settings.json").exists()


def test_a_teacher_is_not_asked_about_mentions(base: Path) -> None:
    recipe = small("arboel/zeshel-knn", base)
    model = load_bi_encoder(base, settings=recipe.model.settings, hardware=CPU)
    section = StageSection(
        sampler="arborescence", objective="distillation", columns="own", negatives=4
    )
    with pytest.raises(ConfigError, match="has none to ask it about"):
        check_sections([section], model, load_registry(), taught=True)
