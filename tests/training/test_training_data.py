"""What a run learns from: stages and batches, the pool, mentions, overlaps."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.errors import UsageError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.records import Document, EntityId, Mention, Overlap
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.documents import splits_of
from kglink.training.job import read_sources
from kglink.training.loop import rate_at
from kglink.training.recipe import SelectionSection, StageSection
from kglink.training.stages import Stage, batches_of, make_plan
from store_support import entity, job
from training_world import KBS, fill, small, world_of, write_world_model

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


# ---------------------------------------------------------------------------------- stages
@pytest.mark.parametrize(
    ("given", "meant"),
    [("S", "S"), ("TOS", "TOS"), ("ots", "TOS"), ("S,T", "TS"), ("O+S", "SO"), ("to", "TO")],
)
def test_sources_are_read_in_any_order(given: str, meant: str) -> None:
    assert read_sources(given) == meant


@pytest.mark.parametrize("given", ["", "SS", "X", "TOSS"])
def test_other_sources_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="S, T, O, TS, TO, SO, TOS"):
        read_sources(given)


def test_all_batches_of_s_come_before_those_of_t_and_o_comes_last(
    data: TrainingData, recipe: Recipe
) -> None:
    plan = make_plan(data, recipe, "TOS")
    assert [stage.name for stage in plan] == ["TS", "O"]
    mentions, overlaps = plan
    letters = [batch.group.letter for batch in batches_of(mentions, 0, (0, 0))]
    counts = [len(group.items) // 8 for group in mentions.groups]
    assert letters == ["S"] * counts[0] + ["T"] * counts[1]
    assert min(counts) > 1
    # 16 things are in both KBs: two batches of 8.
    assert [batch.group.letter for batch in batches_of(overlaps, 0, (0, 1))] == ["O", "O"]
    atlas, saga = data.pool.kbs
    for batch in batches_of(mentions, 0, (0, 0)):
        rows = atlas if batch.group.letter == "S" else saga
        for gold in data.train.gold_sets(batch.parts[0].tolist()):
            assert any(rows.start <= row < rows.stop for row in gold)


def test_a_second_training_is_a_stage_of_its_own(data: TrainingData, base: Path) -> None:
    plan = make_plan(data, small("blink/zeshel-base-hard", base), "TO")
    assert [stage.name for stage in plan] == ["T", "T-again", "O"]
    assert isinstance(plan[1].section, StageSection)
    assert plan[1].section.sampler == "hard_in_domain"


def test_every_epoch_has_another_order_and_every_mention_at_most_once(
    data: TrainingData, recipe: Recipe
) -> None:
    stage = make_plan(data, recipe, "T")[0]
    epochs = [
        np.concatenate([batch.parts[0] for batch in batches_of(stage, epoch, (0, 0))])
        for epoch in (0, 1)
    ]
    assert not np.array_equal(epochs[0], epochs[1])
    again = np.concatenate([batch.parts[0] for batch in batches_of(stage, 0, (0, 0))])
    assert np.array_equal(epochs[0], again)
    assert max(Counter(epochs[0].tolist()).values()) == 1
    assert len(epochs[0]) == len(stage.groups[0].items) // 8 * 8


def test_a_part_of_the_mentions_is_drawn_once(data: TrainingData, recipe: Recipe) -> None:
    whole = make_plan(data, recipe, "TS")[0]
    few = recipe.model_copy(update={"train": section(most_mentions=10)})
    stage, again = (make_plan(data, few, "TS")[0] for _ in range(2))
    for group, other, every in zip(stage.groups, again.groups, whole.groups, strict=True):
        assert len(group.items) == 10 < len(every.items)
        assert set(group.items.tolist()) < set(every.items.tolist())
        assert np.array_equal(group.items, other.items)


def test_gradients_of_several_batches_make_one_step(data: TrainingData, recipe: Recipe) -> None:
    stage = make_plan(data, recipe, "T")[0]
    added = Stage("T", section(accumulate=3), stage.groups)
    batches = batches_of(added, 0, (0, 0))
    assert len(batches) == len(stage.groups[0].items) // 24
    assert [len(part) for part in batches[0].parts] == [8, 8, 8]


def test_the_learning_rate_of_ten_steps() -> None:
    told = section(learning_rate=1.0, warm_up=0.2)
    rates = [rate_at(step, 10, told) for step in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    flat = section(learning_rate=1.0, warm_up=0.0, decay="none")
    assert [rate_at(step, 10, flat) for step in range(10)] == [1.0] * 10


# ------------------------------------------------------------------------------------ data
def test_the_pool_holds_all_entities_sources_first(data: TrainingData, store: Store) -> None:
    wanted = [EntityId(kb, one.key) for kb in KBS for one in store.entities(kb)]
    assert [data.pool.row(name) for name in wanted] == list(range(80))
    assert data.pool.row(EntityId("atlas", "nothing")) == -1
    assert data.pool.row(EntityId("elsewhere", "A1")) == -1
    assert data.pool.domains.tolist() == [0] * 40 + [1] * 40


def test_a_domain_may_be_a_type_of_a_kb(
    store: Store, recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    typed = recipe.model_copy(update={"domain": "type"})
    data = prepare(tmp_path / "data", store, typed, KBChoice(KBS, ()), model.inputs)
    entities = [(kb, one.type) for kb in KBS for one in store.entities(kb)]
    numbers = {place: number for number, place in enumerate(dict.fromkeys(entities))}
    assert data.pool.domains.tolist() == [numbers[place] for place in entities]
    assert data.pool.domain_count == len(numbers) > 2


def test_mentions_are_those_of_the_documents(
    data: TrainingData, store: Store, model: BiEncoder
) -> None:
    from kglink.records import MentionInText

    for split, table in (("train", data.train), ("dev", data.valid)):
        mentions = [
            (MentionInText(document.text, mention.start, mention.end), mention.gold)
            for document in store.documents("docs", split)
            for mention in document.mentions
            if mention.gold
        ]
        assert len(table) == len(mentions) > 0
        windows = model.inputs.mentions([text for text, _ in mentions])
        for number, (window, (_, gold)) in enumerate(zip(windows, mentions, strict=True)):
            assert np.array_equal(table.tokens[number], window)
            assert table.gold_sets([number]) == [frozenset(map(data.pool.row, gold or ()))]


def documents_of(store: Store, *splits: str) -> None:
    store.ingest(job("left", fingerprint="left"), [entity(str(n)) for n in range(4)])
    texts = [
        Document(
            f"d{number}",
            "a name of it",
            (Mention(2, 6, "name", (EntityId("left", str(number % 4)),)),),
            split=splits[number % len(splits)],  # type: ignore[arg-type]  # one of the three
        )
        for number in range(200)
    ]
    store.ingest(job("docs", fingerprint="docs", links_to=("left",)), texts)


def counts(
    store: Store, recipe: Recipe, model: BiEncoder, folder: Path, **changes: object
) -> tuple[int, int]:
    told = SelectionSection.model_validate({**recipe.selection.model_dump(), **changes})
    given = recipe.model_copy(update={"selection": told})
    data = prepare(folder, store, given, KBChoice((), ("left",)), model.inputs)
    return len(data.train), len(data.valid)


def test_which_documents_the_best_epoch_is_chosen_by(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/split.db") as store:
        documents_of(store, "train", "dev")
        assert counts(store, recipe, model, tmp_path / "a") == (100, 100)
        train, valid = counts(store, recipe, model, tmp_path / "b", documents="held_out")
        assert train + valid == 100
        assert 3 <= valid <= 20
        again = counts(store, recipe, model, tmp_path / "c", documents="held_out")
        assert again == (train, valid)
    with Store.open(f"sqlite:///{tmp_path}/plain.db") as store:
        documents_of(store, "")
        train, valid = counts(store, recipe, model, tmp_path / "d", held_out=0.5)
        assert train + valid == 200
        assert 70 <= valid <= 130
        assert counts(store, recipe, model, tmp_path / "e", documents="dev") == (200, 0)


def test_parts_of_one_text_are_held_out_together(tmp_path: Path) -> None:
    texts = [(f"text {number}", part) for number in range(50) for part in range(3)]
    sides: dict[str, set[bool]] = {}
    for document, held_back in divided(tmp_path, texts, 0.3):
        sides.setdefault(document.title, set()).add(held_back)
    assert all(len(side) == 1 for side in sides.values())
    # The share, to the text: those whose hash is in the first three tenths.
    assert {text for text, side in sides.items() if True in side} == {
        text for text, _ in texts if hash_of(text) < 0.3 * 2**64
    }


@pytest.mark.parametrize("share", [0.001, 0.1, 0.9, 0.999])
def test_of_two_annotated_texts_one_is_held_back_and_one_is_learnt_from(
    tmp_path: Path, share: float
) -> None:
    for count in range(1, 6):
        texts = [(f"text {number}", part) for number in range(count) for part in range(2)]
        found = divided(tmp_path / str(count), texts, share)
        held = {document.title for document, held_back in found if held_back}
        in_order = sorted({text for text, _ in texts}, key=hash_of)
        within = sum(hash_of(text) < share * 2**64 for text in in_order)
        # A single text is learnt from.
        assert held == set(in_order[: min(max(within, 1), count - 1)])
    assert not any(back for _, back in divided(tmp_path / "none", texts, 0.0))


def test_texts_in_which_nothing_is_annotated_are_not_enough_to_judge_by(tmp_path: Path) -> None:
    (tmp_path / "few").mkdir()
    with Store.open(f"sqlite:///{tmp_path}/few/kglink.db") as store:
        store.ingest(job("left", fingerprint="left"), [entity("1")])
        gold = (Mention(2, 6, "name", (EntityId("left", "1"),)),)
        texts = [Document(f"d{n}", "a name of it", gold if n < 2 else ()) for n in range(40)]
        store.ingest(job("docs", fingerprint="docs", links_to=("left",)), texts)
        found = list(splits_of(store, "docs", SelectionSection(held_out=0.01)).divided(store))
    assert sorted(back for document, back in found if document.mentions) == [False, True]


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(f"0\0{text}".encode()).digest()[:8], "big")


def divided(
    folder: Path, texts: list[tuple[str, int]], share: float
) -> list[tuple[Document, bool]]:
    """Texts in parts, each with a mention, as every run divides them."""
    folder.mkdir(exist_ok=True)
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        store.ingest(job("left", fingerprint="left"), [entity("1")])
        gold = (Mention(2, 6, "name", (EntityId("left", "1"),)),)
        documents = [
            Document(f"{text}-{part}", "a name of it", gold, title=text) for text, part in texts
        ]
        store.ingest(job("docs", fingerprint="docs", links_to=("left",)), documents)
        return list(splits_of(store, "docs", SelectionSection(held_out=share)).divided(store))


def test_which_overlaps_count() -> None:
    pair = Overlap(EntityId("a", "1"), EntityId("b", "1"), 0.4)
    assert not pair.is_accepted(0.5)
    assert replace(pair, probability=0.5).is_accepted(0.5)
    assert replace(pair, verdict="correct").is_accepted(0.5)
    assert not replace(pair, probability=1.0, verdict="wrong").is_accepted(0.5)
    assert replace(pair, probability=0.6, verdict="unclear").is_accepted(0.5)


def test_counterparts_are_known_from_both_sides(data: TrainingData, store: Store) -> None:
    wanted = {(data.pool.row(one.left), data.pool.row(one.right)) for one in store.overlaps(*KBS)}
    assert set(map(tuple, data.pairs.tolist())) == wanted
    assert len(wanted) == 16
    for left, right in wanted:
        assert data.counterparts([left]) == {right}
        assert data.counterparts([right]) == {left}


def test_what_two_targets_have_in_common_with_a_source_is_the_same_thing(
    recipe: Recipe, model: BiEncoder, tmp_path: Path
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as store:
        for kb in ("hub", "left", "right"):
            store.ingest(job(kb, fingerprint=kb), [entity(f"e{at}", f"Thing {at}") for at in "012"])
        for kb in ("left", "right"):
            same = [Overlap(EntityId("hub", f"e{at}"), EntityId(kb, f"e{at}"), 1.0) for at in "01"]
            store.save_overlaps("hub", kb, same)
        choice = KBChoice(("hub",), ("left", "right"))
        data = prepare(tmp_path / "data", store, recipe, choice, model.inputs)

    def rows(key: str) -> set[int]:
        return {data.pool.row(EntityId(kb, key)) for kb in ("hub", "left", "right")}

    for key in ("e0", "e1"):
        for one in rows(key):
            assert data.counterparts([one]) == rows(key) - {one}
    assert not data.counterparts(frozenset(rows("e2")))
    assert len(data.pairs) == 4
