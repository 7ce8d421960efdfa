"""What a step means, pinned by hand: columns, masks, negatives, O, the adversary, recall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.errors import ConfigError
from kglink.evaluation.rankings import JOINT, JSON_KEYS, JUDGED_JOINT
from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.plugins import Encoded, Registry, RowRange, load_registry
from kglink.records import EntityId, Overlap
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.batch import (
    MentionBatch,
    choose_golds,
    column_scores,
    columns_of,
    mention_batch,
    overlap_masks,
)
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.encoded_pool import EncodedPool
from kglink.training.pairs import PairTask, Tools
from kglink.training.processes import Team
from kglink.training.recipe import OverlapSection, SelectionSection, StageSection, load_recipe
from kglink.training.stages import Stage, make_plan
from kglink.training.validation import validate
from store_support import entity, job
from training_world import fill, small, world_of, write_world_model

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
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of(), dropout=0.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
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
    store: Store, recipe: Recipe, model: BiEncoder, tmp_path_factory: pytest.TempPathFactory
) -> TrainingData:
    folder = tmp_path_factory.mktemp("data") / "data"
    return prepare(folder, store, recipe, KBChoice(("atlas",), ("saga",)), model.inputs)


def made(recipe: Recipe) -> BiEncoder:
    return load_bi_encoder(recipe.model.base, settings=recipe.model.settings, hardware=CPU)


def section(**changes: object) -> StageSection:
    return StageSection.model_validate({"batch": 8, **changes})


# --------------------------------------------------------------------------------- columns
def batch_of(
    golds: list[int], excluded: list[set[int]], negatives: list[list[int]]
) -> MentionBatch:
    others = [frozenset({gold} | more) for gold, more in zip(golds, excluded, strict=True)]
    numbers = np.arange(len(golds))
    drawn = np.array(negatives, np.int64).reshape(len(golds), -1)
    return mention_batch(numbers, np.array(golds), others, drawn)


def test_in_batch_columns_leave_out_what_is_right_as_well() -> None:
    # Mentions 0 and 1 mean 7; 5 is a counterpart of mention 2's gold 9.
    batch = batch_of([7, 7, 9, 5], [set(), set(), {5}, {9}], [[]] * 4)
    columns = columns_of(batch, section())
    assert batch.entities.tolist() == [5, 7, 9]
    assert batch.entities[columns.places].tolist() == [7, 7, 9, 5]
    assert columns.positive.tolist() == np.eye(4, dtype=bool).tolist()
    assert columns.masked.astype(int).tolist() == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
    ]
    faithful = columns_of(batch, section(mask_same_gold=False))
    assert not faithful.masked.any()


def test_own_columns_are_the_gold_and_the_negatives() -> None:
    batch = batch_of([7, 9], [set(), set()], [[1, 2], [7, -1]])
    columns = columns_of(batch, section(columns="own", negatives=2))
    assert batch.entities[columns.places[0]].tolist() == [7, 1, 2]
    assert batch.entities[columns.places[1, :2]].tolist() == [9, 7]
    assert columns.masked.tolist() == [[False] * 3, [False, False, True]]
    assert columns.positive.tolist() == [[True, False, False]] * 2


def test_both_columns_drop_a_negative_that_is_in_the_batch() -> None:
    batch = batch_of([7, 9], [set(), set()], [[1, 9], [7, -1]])
    columns = columns_of(batch, section(columns="both", negatives=2))
    assert columns.masked.tolist() == [
        [False, False, False, True],
        [False, False, True, True],
    ]
    assert columns.positive[:, :2].tolist() == [[True, False], [False, True]]


def test_shared_columns_are_all_entities_but_the_right_ones() -> None:
    batch = batch_of([7, 9], [{1}, set()], [[2, 3], [1, 7]])
    columns = columns_of(batch, section(columns="shared", negatives=2))
    assert batch.entities.tolist() == [1, 2, 3, 7, 9]
    assert columns.positive.astype(int).tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert columns.masked.astype(int).tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_the_in_batch_loss_of_three_mentions_by_hand(registry: Registry) -> None:
    """Golds 7, 7, 9: a mention of 7 has one negative, a mention of 9 has 7 twice."""
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]).unsqueeze(1)
    golds = torch.tensor([[2.0, 1.0], [0.5, 3.0]]).unsqueeze(1)  # of 7 and of 9
    sides = [Encoded(states, torch.ones(len(states), 1).bool()) for states in (vectors, golds)]
    batch = batch_of([7, 7, 9], [set(), set(), set()], [[]] * 3)
    columns = columns_of(batch, section())
    scorer = registry.create("scorer", "dual")
    scores = column_scores(scorer, sides[0], sides[1], columns)
    assert scores.tolist() == [
        [2.0, -math.inf, 0.5],
        [-math.inf, 2.0, 6.0],
        [3.0, 3.0, 3.5],
    ]
    loss = registry.create("objective", "nce").loss(scores, torch.from_numpy(columns.positive))
    terms = [
        -2 + math.log(math.exp(2) + math.exp(0.5)),
        -2 + math.log(math.exp(2) + math.exp(6)),
        -3.5 + math.log(2 * math.exp(3) + math.exp(3.5)),
    ]
    assert float(loss) == pytest.approx(sum(terms) / 3, rel=1e-6)


@pytest.mark.parametrize("scorer", ["dual", "mean", "sum_of_max"])
def test_own_columns_score_as_one_by_one(registry: Registry, scorer: str) -> None:
    rng = torch.Generator().manual_seed(2)
    tokens = scorer == "sum_of_max"
    mentions, entities = (
        Encoded(
            torch.randn(count, length, 4, generator=rng),
            torch.arange(length) < torch.randint(1, length + 1, (count, 1), generator=rng),
        )
        for count, length in ((3, 5 if tokens else 1), (6, 4 if tokens else 1))
    )
    batch = batch_of([3, 4, 3], [set()] * 3, [[1, 8], [0, -1], [6, 7]])
    assert len(batch.entities) == 7
    wide = Encoded(torch.cat([entities.states, entities.states[:1]]), entities.mask[[*range(6), 0]])
    columns = columns_of(batch, section(columns="own", negatives=2))
    made = registry.create("scorer", scorer)
    scores = column_scores(made, mentions, wide, columns)
    whole = made.score(mentions, wide)
    for row in range(3):
        for column in range(3):
            if columns.masked[row, column]:
                assert scores[row, column] == -math.inf
            else:
                wanted = whole[row, int(columns.places[row, column])]
                assert float(scores[row, column]) == pytest.approx(float(wanted), rel=1e-5)


# ------------------------------------------------------------------------------- negatives
def mined(
    name: str,
    registry: Registry,
    data: TrainingData,
    base: Path,
    folder: Path,
    *,
    placed: bool = False,
    **changes: object,
) -> tuple[Stage, PairTask, EncodedPool]:
    """A stage whose negatives were looked for, and what they were looked for with."""
    whole = small("small", base, {"train": {"negatives": 5, **changes}})
    if name == "sum_of_max":
        whole = small("t-biencoder/plain-som-hard-id", base, {"train": {"negatives": 5, **changes}})
    model = made(whole)
    scorer = registry.create("scorer", whole.model.scorer)
    stage = make_plan(data, whole, "TS")[0]
    tools = Tools(model, scorer, data, registry, Team("cpu"), 0, folder=folder)
    trainer = PairTask(tools, stage, 0)
    pool = trainer._pool()
    if placed:
        pool.place(torch.device("cpu"))  # as on a GPU
    trainer.prepare(0)
    return stage, trainer, pool


@pytest.mark.parametrize("scorer", ["mean", "sum_of_max", "mean on a device"])
@pytest.mark.parametrize("sampler", ["hard_in_domain", "hard_cross_domain"])
@pytest.mark.parametrize("of", ["stage", "all"])
def test_hard_negatives_are_those_of_brute_force(
    scorer: str,
    sampler: str,
    of: str,
    registry: Registry,
    data: TrainingData,
    base: Path,
    tmp_path: Path,
) -> None:
    scorer, _, device = scorer.partition(" on ")
    changes = {"sampler": sampler, "negatives_from": of}
    stage, _, pool = mined(scorer, registry, data, base, tmp_path, placed=bool(device), **changes)
    for group in stage.groups:
        found = np.load(tmp_path / f"negatives-0-0-{group.letter}.npy")
        texts = [data.train.tokens[number] for number in group.items.tolist()]
        blocks = [scores for _, scores in pool.scores(texts, RowRange(0, 80), 80)]
        golds, excluded = choose_golds(data, group.rows, group.items)
        far = of == "all" and sampler == "hard_cross_domain"
        for row, scores, gold, own in zip(
            found, np.concatenate(blocks), golds.tolist(), excluded, strict=True
        ):
            there = range(80) if far else range(group.rows.start, group.rows.stop)
            best = sorted(set(there) - own, key=lambda one: (-scores[one], one))[:5]
            assert gold in own
            assert scores[row].tolist() == pytest.approx(scores[best].tolist(), rel=1e-5)
            assert not set(row.tolist()) & own


def test_a_scorer_without_a_rule_is_asked_and_says_the_same(
    registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    whole = small("t-biencoder/som-random-id", base)
    scorer = registry.create("scorer", "sum_of_max")

    class Asked:
        def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
            return scorer.score(mentions, entities)

    texts = [data.train.tokens[number] for number in range(40)]
    found = []
    for one in (scorer, Asked()):
        pool = EncodedPool(made(whole), one, CPU, tmp_path / type(one).__name__, data.pool.tokens)
        found.append(np.concatenate([part for _, part in pool.scores(texts, RowRange(0, 80), 80)]))
    assert found[0].shape == (40, 80)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("sampler", ["random_in_domain", "random_cross_domain", "hard_in_domain"])
def test_neither_golds_nor_counterparts_become_negatives(
    sampler: str, registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    stage, trainer, _ = mined(
        *("mean", registry, data, base, tmp_path),
        sampler=sampler,
        negatives_from="all",
        negatives=60,
    )
    rng = np.random.default_rng(0)
    with_counterparts = 0
    for group in stage.groups:
        golds, excluded = choose_golds(data, group.rows, group.items, rng)
        drawn = trainer._negatives[group.letter].of(group.items, golds, excluded, rng)
        for row, own in zip(drawn.tolist(), excluded, strict=True):
            assert not set(row) & own
            with_counterparts += len(own) > 1
    assert with_counterparts > 10


def test_a_sampler_that_chooses_in_the_batch_has_own_columns(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    wrong = small("amh/dual-amh", base, {"train": {"columns": "shared"}})
    scorer = registry.create("scorer", "dual")
    tools = Tools(made(wrong), scorer, data, registry, Team("cpu"), 0)
    with pytest.raises(ConfigError, match="chooses among the golds of the batch"):
        PairTask(tools, make_plan(data, wrong, "T")[0], 0)
    taught = small("amh/dual-amh", base, {"train": {"objective": "distillation"}})
    with pytest.raises(ConfigError, match="learns from a teacher"):
        PairTask(tools, make_plan(data, taught, "T")[0], 0)


# --------------------------------------------------------------------------------------- O
def test_the_overlap_loss_of_two_pairs_by_hand(registry: Registry) -> None:
    scores = torch.tensor([[2.0, 1.0], [0.5, 3.0]])
    positive = torch.eye(2, dtype=torch.bool)
    loss = registry.create("objective", "overlap").loss(scores, positive)
    first = -2 * 2.0 + math.log(math.exp(2) + math.e) + math.log(math.exp(2) + math.exp(0.5))
    second = -2 * 3.0 + math.log(math.exp(0.5) + math.exp(3)) + math.log(math.e + math.exp(3))
    assert float(loss) == pytest.approx((first + second) / 2, rel=1e-6)


def overlapping(
    names: list[tuple[str, str]], recipe: Recipe, model: BiEncoder, folder: Path
) -> TrainingData:
    """Two KBs of three entities each, rows 0 to 2 and 3 to 5, with these overlaps."""
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        for kb in ("left", "right"):
            store.ingest(job(kb, fingerprint=kb), [entity(str(n)) for n in range(3)])
        pairs = [Overlap(EntityId("left", a), EntityId("right", b), 0.9) for a, b in names]
        store.save_overlaps("left", "right", pairs)
        given = KBChoice(("left",), ("right",))
        return prepare(folder / "data", store, recipe, given, model.inputs)


def test_an_entity_that_stands_twice_is_no_negative(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    """Both l0 and l2 are r0; l1 is r1 and r2."""
    names = [("0", "0"), ("1", "1"), ("1", "2"), ("2", "0")]
    data = overlapping(names, recipe, model, tmp_path)
    assert data.pairs.tolist() == [[0, 3], [1, 4], [1, 5], [2, 3]]
    masked, positive = overlap_masks(data.pairs, data)
    assert positive.tolist() == np.eye(4, dtype=bool).tolist()
    assert masked.astype(int).tolist() == [
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
    ]


def test_an_overlap_that_is_not_in_the_batch_is_no_negative(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    """In a batch of l0-r0 and l1-r1, l0 is r1 as well; nothing is said of l1 and r0."""
    data = overlapping([("0", "0"), ("0", "1"), ("1", "1")], recipe, model, tmp_path)
    masked, _ = overlap_masks(data.pairs[[0, 2]], data)
    assert masked.tolist() == [[False, True], [False, False]]


def test_stage_o_leaves_the_mentions_tower_alone(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    whole = small("joint/tos", base)
    model = made(whole)
    stage = make_plan(data, whole, "O")[0]
    scorer = registry.create("scorer", "dual")
    trainer = PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
    before = {name: value.clone() for name, value in model.named_parameters()}
    batch = trainer.batches(0)[0]
    pairs = data.pairs[batch.parts[0]]
    model.eval()
    with torch.no_grad():
        sides = [
            model.encode([np.array(data.pool.tokens[row]) for row in pairs[:, side]], "entity")
            for side in (0, 1)
        ]
    scores = scorer.score(*sides)
    masked, positive = (torch.from_numpy(cells) for cells in overlap_masks(pairs, data))
    wanted = registry.create("objective", "overlap").loss(
        scores.masked_fill(masked, -torch.inf), positive
    )
    assert trainer.step(batch, 0, 0).loss == pytest.approx(float(wanted), rel=1e-4)
    moved = {name for name, v in model.named_parameters() if not v.equal(before[name])}
    assert moved
    assert all(name.startswith("entity.") for name in moved)
    assert isinstance(stage.section, OverlapSection)


# ------------------------------------------------------------------------- transformation
def steps(
    registry: Registry, data: TrainingData, given: Recipe, count: int
) -> tuple[list[float], PairTask]:
    stage = make_plan(data, given, "TS")[0]
    scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
    tools = Tools(made(given), scorer, data, registry, Team("cpu"), 0)
    trainer = PairTask(tools, stage, 0)
    batches = trainer.batches(0)[:count]
    return [trainer.step(batch, 0, at).loss for at, batch in enumerate(batches)], trainer


def test_with_a_of_zero_both_views_lose_the_same(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    name = "t-biencoder/dual-random-id"
    losses: dict[str, list[float]] = {}
    for mode in ("base", "only_prime", "both"):
        given = small(name, base, {"train": {"loss_mode": mode}})
        losses[mode], trainer = steps(registry, data, given, 2)
        assert (trainer.ascent is None) is (mode == "base")
    assert losses["only_prime"][0] == losses["base"][0]
    assert losses["both"][0] == pytest.approx(2 * losses["base"][0], rel=1e-6)
    # From the second step on A makes it harder.
    assert losses["only_prime"][1] != losses["base"][1]


def test_a_stays_in_its_ball_and_has_a_matrix_for_each_domain(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    changes = {"per_domain": True, "epsilon": 0.05}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": changes}})
    _, trainer = steps(registry, data, given, 8)
    transformation = trainer._tools.model.transformation
    assert transformation is not None
    norms = transformation.norms()
    assert [len(norms[side]) for side in ("mention", "entity")] == [2, 2]
    assert max(max(found) for found in norms.values()) <= 0.05
    assert norms["mention"][0] == pytest.approx(0.05, rel=1e-3)


def test_the_curve_tells_both_losses_and_how_far_a_moves_states(
    registry: Registry, data: TrainingData, base: Path
) -> None:
    """A random A makes the loss another one at once, and its share in the states is known."""
    change = {"init": "gaussian", "epsilon": 2.0}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": change}})
    plain = small("t-biencoder/dual-random-id", base, {"train": {"loss_mode": "base"}})
    stage = make_plan(data, given, "TS")[0]
    scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
    trainer = PairTask(Tools(made(given), scorer, data, registry, Team("cpu"), 0), stage, 0)
    batch = trainer.batches(0)[0]
    done = trainer.step(batch, 0, 0)
    (base_loss,), _ = steps(registry, data, plain, 1)
    assert len(done.views) == 2
    assert done.views[0] == pytest.approx(base_loss, rel=1e-6)
    assert done.views[1] != pytest.approx(base_loss, rel=1e-3)
    assert sum(done.views) == pytest.approx(done.loss)
    assert trainer.ascent is not None
    facts = trainer.ascent.measures()
    assert facts["norm"]["mention"] == pytest.approx(2.0, rel=1e-2)
    # Of a random matrix the mean share is its norm over the square root of the width.
    assert facts["moved"]["entity"] == pytest.approx(2.0 / made(given).dim ** 0.5, rel=0.5)


def test_with_several_ascents_a_climbs_first_and_the_towers_move_once(
    registry: Registry, data: TrainingData, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ascents by hand with the towers still, then one descent with A where it is."""
    change = {"ascent_steps": 3, "epsilon": 1.0}
    given = small("t-biencoder/dual-random-id", base, {"train": {"transformation": change}})
    (loss,), trainer = steps(registry, data, given, 1)
    alone = small(
        "t-biencoder/dual-random-id", base, {"train": {"transformation": {"epsilon": 1.0}}}
    )
    stage = make_plan(data, alone, "TS")[0]
    scorer = registry.create("scorer", alone.model.scorer, alone.model.scorer_settings)
    by_hand = PairTask(Tools(made(alone), scorer, data, registry, Team("cpu"), 0), stage, 0)
    batch = by_hand.batches(0)[0]
    assert by_hand.ascent is not None
    losses = []
    for _ in range(3):
        losses.append(sum(by_hand._gradients(batch, 0, 0)))
        by_hand.optimiser.zero_grad()
        by_hand.ascent.step()
    # L stays as it is while the towers stand still, so L' is what climbs.
    assert losses == sorted(losses)
    assert len(set(losses)) == 3
    # A's turn is over: with one ascent it would have it after the towers'.
    monkeypatch.setattr(by_hand.ascent, "step", by_hand.ascent.stay)
    assert by_hand.step(batch, 0, 0).loss == loss
    assert loss > losses[-1]
    wanted = dict(by_hand._tools.model.named_parameters())
    for name, value in trainer._tools.model.named_parameters():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=0)
        assert value.requires_grad == wanted[name].requires_grad


# --------------------------------------------------------------------------- what is frozen
@pytest.mark.parametrize(
    ("name", "micro_batch"),
    [
        ("blink/zeshel-base", 0),
        ("blink/zeshel-base", 6),
        ("t-biencoder/som-random-id", 0),
        ("t-biencoder/som-random-id", 6),
    ],
)
def test_frozen_entities_stay_and_mentions_learn_as_before(
    registry: Registry,
    data: TrainingData,
    base: Path,
    name: str,
    micro_batch: int,
) -> None:
    changes = {"freeze_entities": True, "micro_batch": micro_batch}
    losses, models = [], []
    for told in (changes, {}):
        given = small(name, base, {"train": told})
        stage = make_plan(data, given, "T")[0]
        scorer = registry.create("scorer", given.model.scorer, given.model.scorer_settings)
        model = made(given)
        trainer = PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
        batch = trainer.batches(0)[0]
        losses.append(trainer.step(batch, 0, 0).loss)
        models.append(model)
    frozen, free = models
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert not frozen.entity.training
    assert frozen.mention.training
    before = made(given)
    for part, value in frozen.entity.named_parameters():
        assert value.equal(before.entity.get_parameter(part))
        assert not value.requires_grad
    moved = 0
    for part, value in frozen.mention.named_parameters():
        torch.testing.assert_close(value, free.mention.get_parameter(part), rtol=1e-3, atol=2e-5)
        moved += not value.equal(before.mention.get_parameter(part))
    assert moved > 10


def test_what_is_frozen_is_of_one_stage(registry: Registry, data: TrainingData, base: Path) -> None:
    given = small("blink/zeshel-base-hard-frozen", base)
    free, frozen, overlaps = make_plan(data, given, "TO")
    scorer = registry.create("scorer", "dual")
    model = made(given)
    names = [name for name, value in model.entity.named_parameters() if value.requires_grad]
    assert names
    for stage, stays in ((free, False), (frozen, True), (overlaps, False)):
        PairTask(Tools(model, scorer, data, registry, Team("cpu"), 0), stage, 0)
        now = [name for name, value in model.entity.named_parameters() if value.requires_grad]
        assert now == ([] if stays else names)
        assert model.train().entity.training is not stays


def test_one_tower_for_both_sides_cannot_be_frozen_on_one() -> None:
    with pytest.raises(ConfigError, match=r"freeze_entities needs two towers: model\.shared"):
        load_recipe("default", {"train": {"freeze_entities": True}})


# ------------------------------------------------------------------------------ validation
def test_recall_is_that_of_a_plain_search(
    registry: Registry, data: TrainingData, recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    pool = EncodedPool(model, registry.create("scorer", "mean"), CPU, tmp_path, data.pool.tokens)
    told = SelectionSection(metric="R@3", most_mentions=1000)
    recalls = validate(data, pool, told)
    mentions = pool.mention_vectors([data.valid.tokens[n] for n in range(len(data.valid))])
    entities = pool.vectors(RowRange(0, 80))
    assert entities is not None
    hits: dict[str, list[bool]] = {"atlas": [], "saga": [], JUDGED_JOINT: [], JOINT: []}
    of_kb = {"atlas": set(range(40)), "saga": set(range(40, 80))}
    for number, vector in enumerate(mentions):
        scores = entities @ vector
        gold = set(data.valid.golds[number].tolist())
        held = [kb for kb, rows in of_kb.items() if rows & gold]
        pools = {kb: of_kb[kb] for kb in held}
        pools[JUDGED_JOINT] = set().union(*pools.values())
        pools[JOINT] = set(range(80))
        for name, rows in pools.items():
            top = sorted(rows, key=lambda one: (-scores[one], one))[:3]
            hits[name].append(bool(set(top) & gold))
    assert recalls.mentions == {name: len(found) for name, found in hits.items()}
    for name, found in hits.items():
        assert recalls.recall(name)["R@3"] == pytest.approx(sum(found) / len(found))
    mean = sum(sum(hits[kb]) / len(hits[kb]) for kb in of_kb) / 2
    assert recalls.chosen(told) == pytest.approx(mean)
    for pool_of_all, key in JSON_KEYS.items():
        joint = told.model_copy(update={"pool": key})
        assert recalls.chosen(joint) == recalls.recall(pool_of_all)["R@3"]


def test_a_pool_is_searched_by_cosine_where_the_recipe_says_so(
    registry: Registry, data: TrainingData, base: Path, tmp_path: Path
) -> None:
    """Bosch: training by products, retrieval by cosine."""
    recipe = small("joint/tos", base)
    assert (recipe.model.metric, recipe.model.retrieval_metric) == ("dot", "cosine")
    model = made(recipe)
    pool = EncodedPool(model, registry.create("scorer", "dual"), CPU, tmp_path, data.pool.tokens)
    entities = pool.vectors(RowRange(0, 80))
    assert entities is not None
    np.testing.assert_allclose(np.linalg.norm(entities, axis=1), 1, rtol=1e-3)
    with torch.no_grad():
        trained = model.eval().encode([np.array(data.pool.tokens[0])], "entity").states
    assert float(trained.norm()) > 1.5


def test_a_text_is_told_to_all_processes() -> None:
    assert Team("cpu").told("default-1") == "default-1"
    assert Team("cpu").told("") == ""


def test_of_equal_scores_the_smaller_row_comes_first() -> None:
    from kglink.training.validation import _rank

    scores = np.array([1, 3, 3, 3, 5, 0], np.float32)

    def rank(gold: list[int]) -> int:
        return _rank(scores, gold, [RowRange(0, 6)])

    assert [rank([row]) for row in range(6)] == [5, 2, 3, 4, 1, 6]
    assert rank([0, 3]) == 4
    assert _rank(scores, [3], [RowRange(2, 4), RowRange(5, 6)]) == 2
