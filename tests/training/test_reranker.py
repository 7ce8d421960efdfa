"""Stage R: what is learnt of a mention's candidates, and that it is learnt."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from kglink.errors import ConfigError, KglinkError, ModelError, UsageError
from kglink.files.manifest import file_info
from kglink.linking import pipeline
from kglink.linking.candidates import CandidateSearch
from kglink.linking.read_together import ReadOrder, ReadTogether, to_read
from kglink.models.cross_encoder import PairInputs, head_of, open_cross_encoder, pooler_in
from kglink.models.head_folder import RERANKER
from kglink.models.inputs import Inputs
from kglink.models.opening import resolve_model
from kglink.models.settings import InputSettings
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.store import Store
from kglink.training.documents import splits_of
from kglink.training.job import EpochNews, FinetuneJob, StepNews
from kglink.training.loop import EpochFigures
from kglink.training.recipe import RerankerSection
from kglink.training.recipe_files import load_recipe
from kglink.training.reranker import (
    FOLDER,
    CandidateTask,
    JudgedRanking,
    ToRead,
    candidate_loss,
    learnable,
    reranker_run,
    train_reranker,
)
from kglink.training.run import RunSettings
from kglink.workspace import Workspace
from kglink.workspace.finetune import mentions_to_read
from tiny_detectors import HARDWARE, job_of, settings_of

INPUTS = InputSettings(mention_tokens=12, entity_tokens=8)


def candidate(key: str, title: str = "", kb: str = "birds", score: float = 0.0) -> Candidate:
    return Candidate(EntityId(kb, key), title or key, score, aliases=(title or key,))


def judged(*keys: str, right: str = "") -> JudgedRanking:
    mention = MentionInText("a heron", 2, 7)
    gold = frozenset([EntityId("birds", right)] if right else ())
    return JudgedRanking(Ranking(mention, tuple(map(candidate, keys))), gold)


#: Recipes of rows that end with a cross-encoder: how many candidates it reads, what it learns
#: from where none is right, what its last layer reads, mentions of a step, and the learning rate.
OF_PAPERS = {
    "blink/zeshel-base-hard": (64, "drop", "cls", 1, 1e-5),
    "blink/zeshel-tfidf": (64, "drop", "cls", 1, 1e-5),
    "blink/tac": (100, "drop", "cls", 1, 1e-5),
    "blink/wikilinksned": (100, "drop", "cls", 5, 2e-6),
    "arboel/zeshel-arborescence": (64, "last", "pooler", 2, 2e-5),
    "arboel/medmentions-knn": (64, "last", "pooler", 2, 2e-5),
}


@pytest.mark.parametrize("name", OF_PAPERS)
def test_recipes_of_the_papers_say_how_their_cross_encoders_learn(name: str) -> None:
    told = load_recipe(name).reranker
    found = (told.candidates, told.gold, told.head, told.batch, told.learning_rate)
    assert found == OF_PAPERS[name]
    assert (told.inputs.mention_tokens, told.inputs.entity_tokens) == (128, 128)
    medmentions = name.startswith("arboel/medmentions")
    parts = ("title", "type", "aliases") if medmentions else ("title", "description")
    assert told.inputs.parts == parts
    assert told.inputs.brackets == medmentions
    assert told.inputs.strip_title_prefix == name.startswith("arboel")
    assert told.found_by == ("tfidf" if name.endswith("tfidf") else "vectors")
    assert not told.nothing
    assert told.segments


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0])
    right = torch.tensor([True, False, False])
    # 1 against 0 and -1; with nothing, which is 0, against two of 0 and one of -1.
    without = -math.log(math.e / (math.e + 1 + math.exp(-1)))
    with_it = -math.log(math.e / (math.e + 2 + math.exp(-1)))
    assert candidate_loss(logits, right, nothing=False).item() == pytest.approx(without)
    assert candidate_loss(logits, right, nothing=True).item() == pytest.approx(with_it)


def test_the_same_thing_in_two_kbs_is_no_rival_of_itself() -> None:
    both = torch.tensor([True, True, False])
    logits = torch.tensor([1.0, 2.0, 0.0])
    by_hand = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-2))) / 2
    assert candidate_loss(logits, both, nothing=False).item() == pytest.approx(by_hand)


def test_a_mention_of_nothing_teaches_that_nothing_is_right() -> None:
    none = torch.tensor([False, False])
    found = candidate_loss(torch.tensor([1.0, -1.0]), none, nothing=True)
    assert found.item() == pytest.approx(math.log(math.e + math.exp(-1) + 1))


def keys(one: JudgedRanking) -> list[str]:
    return [candidate.id.key for candidate in one.ranking.candidates]


@pytest.mark.parametrize(
    ("gold", "wanted"), [("drop", []), ("last", [["a", "c"]]), ("add", [["a", "b", "c"]])]
)
def test_where_no_candidate_is_right(gold: str, wanted: list[list[str]]) -> None:
    section = RerankerSection.model_validate({"candidates": 2, "gold": gold})
    assert [keys(one) for one in learnable(judged("a", "b", "c", right="c"), section)] == wanted
    # What retrieval did not find at all cannot be put anywhere; what it found first stays.
    assert learnable(judged("a", "b", right="z"), section) == []
    assert [keys(one) for one in learnable(judged("a", "b", "c", right="b"), section)] == [
        ["a", "b"]
    ]


def test_mentions_of_nothing_are_learnt_only_where_nothing_is_an_answer() -> None:
    taught = RerankerSection(candidates=2)
    assert [keys(one) for one in learnable(judged("a", "b", "c"), taught)] == [["a", "b"]]
    assert learnable(judged("a"), taught.model_copy(update={"nothing": False})) == []


def test_a_pair_is_the_window_and_the_entity_without_its_first_token(tmp_path: Path) -> None:
    source = resolve_model(job_of(tmp_path).recipe.model.base)
    inputs = Inputs(source, INPUTS, rows=64)
    ranking = Ranking(
        MentionInText("the mercury of the bird", 4, 11),
        (candidate("m", "mercury"), candidate("r", "river")),
    )
    ids, seconds = PairInputs(inputs).pairs([ranking])
    window = inputs.mentions([ranking.mention])[0]
    assert seconds == [len(window)] * 2
    for pair, title in zip(ids, ("mercury", "river"), strict=True):
        own = PairInputs(inputs)
        alone = Ranking(ranking.mention, (candidate("x", title),))
        assert np.array_equal(pair, own.pairs([alone])[0][0])
        assert np.array_equal(pair[: len(window)], window)


def test_what_is_read_of_an_entity_changes_with_it(tmp_path: Path) -> None:
    reader = PairInputs(Inputs(resolve_model(job_of(tmp_path).recipe.model.base), INPUTS, rows=64))
    mention = MentionInText("the mercury of the bird", 4, 11)

    def written(one: Candidate) -> bytes:
        return reader.pairs([Ranking(mention, (one,))])[0][0].tobytes()

    before, now = candidate("m", "mercury"), candidate("m", "river")
    assert written(before) != written(now)
    assert written(before) == written(before)


def data_of(count: int, seed: int) -> list[JudgedRanking]:
    """After "river" the mercury is the bird, else the metal."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        by_river = chance.random() < 0.5
        text = f"the {'river' if by_river else 'planet'} of a mercury"
        both = [candidate("metal", "metal"), candidate("bird", "bird")]
        mention = MentionInText(text, len(text) - 7, len(text))
        gold = EntityId("birds", "bird" if by_river else "metal")
        made.append(JudgedRanking(Ranking(mention, tuple(both)), frozenset([gold])))
    return made


def reranker_job(folder: Path, **changes: object) -> RunSettings:
    told = {"epochs": 8, "batch": 8, "learning_rate": 5e-3, "inputs": INPUTS, **changes}
    return settings_of(Path(job_of(folder).recipe.model.base), reranker=told)


@pytest.mark.slow
def test_it_learns_what_the_text_tells_and_reads_as_it_was_trained(tmp_path: Path) -> None:
    data = ToRead(data_of(160, 0), data_of(40, 1), ("docs",))
    told: list[object] = []
    done = train_reranker(data, reranker_job(tmp_path), tmp_path / "run", tell=told.append)
    assert done.figure > 0.9
    reader = open_cross_encoder(done.folder, HARDWARE)
    logits = reader.logits([one.ranking for one in data.held_out])
    right = [
        one.ranking.candidates[int(np.argmax(own))].id in one.right
        for one, own in zip(data.held_out, logits, strict=True)
    ]
    assert np.mean(right) == pytest.approx(done.figure)
    # One by one as all together: a pair's score does not depend on what else is read.
    alone = [reader.logits([one.ranking])[0] for one in data.held_out[:5]]
    np.testing.assert_allclose(np.concatenate(alone), np.concatenate(logits[:5]), atol=1e-5)
    assert reader.logits([]) == []
    # Long and short pairs in one batch, in any order: each candidate keeps its own score.
    mention = data.held_out[0].ranking.mention
    several = [candidate(key, key) for key in ("metal", "the river of the planet", "bird", "a")]
    several[1] = replace(several[1], description="a metal of the river of a planet of the bird")
    (scores,) = reader.logits([Ranking(mention, tuple(several))])
    (turned,) = reader.logits([Ranking(mention, tuple(several[::-1]))])
    np.testing.assert_allclose(turned[::-1], scores, atol=1e-5)
    assert len(np.unique(scores.round(3))) == 4
    for one, score in zip(several, scores, strict=True):
        np.testing.assert_allclose(reader.logits([Ranking(mention, (one,))])[0], score, atol=1e-5)
    nothing, some = reader.logits([Ranking(mention, ()), Ranking(mention, (several[0],))])
    assert (len(nothing), len(some)) == (0, 1)


@pytest.mark.slow
def test_a_kill_while_what_was_trained_is_judged_trains_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ToRead(data_of(100, 0), data_of(20, 1), ("docs",))
    recipe = reranker_job(tmp_path, epochs=1).recipe
    job = FinetuneJob(run="r", recipe=recipe, what="reranker", device="cpu", precision="fp32")
    written = tmp_path / "r" / FOLDER

    def judged_once_written(task: CandidateTask) -> EpochFigures:
        if RERANKER.is_there(written):
            raise KeyboardInterrupt
        return as_before(task)

    as_before = CandidateTask.judged
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as store:
        monkeypatch.setattr(CandidateTask, "judged", judged_once_written)
        with pytest.raises(KeyboardInterrupt):
            reranker_run(store, lambda _: data, job, tmp_path / "r")
        monkeypatch.undo()
        first = written.joinpath("head.safetensors").read_bytes()
        told: list[object] = []
        job = replace(job, resume=True, recipe=None)
        report, done = reranker_run(store, lambda _: data, job, tmp_path / "r", tell=told.append)
    assert not [one for one in told if isinstance(one, EpochNews | StepNews)]
    assert written.joinpath("head.safetensors").read_bytes() == first
    assert report.stages[0]["figure"] == done.figure > 0
    assert not written.with_suffix(".work").exists()


def test_what_lies_far_behind_the_best_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each KB the first ones, and none that cannot win: those stay at 0."""
    data = ToRead(data_of(8, 0), data_of(4, 1), ("docs",))
    done = train_reranker(data, reranker_job(tmp_path, epochs=1), tmp_path / "run")
    told = [("a:1", 0.9), ("b:1", 0.8), ("a:2", 0.75), ("a:3", 0.7), ("b:2", 0.55)]
    asked = Ranking(
        data.held_out[0].ranking.mention,
        tuple(
            replace(candidate(name, name), id=EntityId(*name.split(":")), score=score)
            for name, score in told
        ),
    )
    assert to_read(asked.candidates, 2, 0.2) == [0, 1, 2]
    assert to_read(asked.candidates, 3, 0.5) == [0, 1, 2, 3, 4]
    assert to_read(asked.candidates, 1, 0.0) == [0]
    assert to_read((), 1, 0.0) == []
    everything, few = (
        ReadTogether(done.folder, HARDWARE, depth, margin).values([asked, asked])
        for depth, margin in ((8, math.inf), (2, 0.2))
    )
    assert everything[0] == everything[1]
    assert all(everything[0])
    np.testing.assert_allclose(few[0], [*everything[0][:3], 0, 0], atol=1e-5)
    # Logits order the candidates, also where the evidence of two is full; equal ones stay.
    reader, logits = (
        ReadTogether(done.folder, HARDWARE, 8),
        np.array([-1, 12, -1, 15, -np.inf], np.float32),
    )
    monkeypatch.setattr(reader, "logits", lambda mentions: [logits for _ in mentions])
    (ordered,) = ReadOrder(reader).rank([asked])
    assert [str(one.id) for one in ordered.candidates] == [told[at][0] for at in (3, 1, 0, 2, 4)]
    assert [one.score for one in ordered.candidates] == pytest.approx([1, 1, 0.45, 0.45, 0])


@pytest.mark.slow
def test_another_goes_on_from_it_with_its_last_layer(tmp_path: Path) -> None:
    """So a cross-encoder of Wikipedia is fine-tuned: what it knew it knows before it learns."""
    data = ToRead(data_of(160, 0), data_of(40, 1), ("docs",))
    first = train_reranker(data, reranker_job(tmp_path), tmp_path / "first")
    more = {"base": str(first.folder), "epochs": 1, "learning_rate": 1e-9}
    again = train_reranker(data, reranker_job(tmp_path, **more), tmp_path / "again")
    assert again.figure == first.figure > 0.9
    before, after = (
        open_cross_encoder(one.folder, HARDWARE).logits([data.held_out[0].ranking])[0]
        for one in (first, again)
    )
    np.testing.assert_allclose(after, before, atol=1e-4)
    padded = train_reranker(data, reranker_job(tmp_path, padded=True), tmp_path / "padded")
    assert padded.figure > 0.9
    assert padded.manifest.padded
    with pytest.raises(ConfigError, match="segments"):
        load_recipe("default", {"reranker": {"padded": True, "segments": False}})


def test_where_no_gold_is_found_nothing_is_trained(tmp_path: Path) -> None:
    lost = [one._replace(right=frozenset([EntityId("birds", "gone")])) for one in data_of(120, 0)]
    told = reranker_job(tmp_path, gold="drop")
    with pytest.raises(UsageError, match="no annotated mention has its gold among the first 6"):
        train_reranker(ToRead(lost, data_of(30, 1), ("docs",)), told, tmp_path / "run")
    data = ToRead(data_of(120, 0), lost[:30], ("docs",))
    with pytest.raises(UsageError, match="no held-out mention"):
        train_reranker(data, told, tmp_path / "run")


@pytest.mark.slow
def test_what_the_pooler_of_the_base_says_is_read_and_not_trained(tmp_path: Path) -> None:
    data = ToRead(data_of(250, 0), data_of(60, 1), ("docs",))
    job = reranker_job(tmp_path, head="pooler", epochs=6)
    with pytest.raises(ModelError, match="has no pooler"):
        train_reranker(data, job, tmp_path / "run")
    base = tmp_path / "tiny" / "model.safetensors"
    chance = torch.Generator().manual_seed(0)
    pooler = {
        "pooler.dense.weight": torch.randn(32, 32, generator=chance) * 0.3,
        "pooler.dense.bias": torch.zeros(32),
    }
    save_file(load_file(base) | pooler, base)
    done = train_reranker(data, job, tmp_path / "run")
    head = load_file(done.folder / "head.safetensors")
    for name, value in pooler.items():
        assert torch.equal(head[name], value)
    assert done.figure > 0.9
    logits = open_cross_encoder(done.folder, HARDWARE).logits(
        [one.ranking for one in data.held_out]
    )
    right = [
        one.ranking.candidates[int(np.argmax(own))].id in one.right
        for one, own in zip(data.held_out, logits, strict=True)
    ]
    assert np.mean(right) == pytest.approx(done.figure)
    state = torch.randn(3, 32, generator=chance)
    read = head_of(head["weight"], head["bias"], pooler_in(head, 32))(state)
    inside = torch.tanh(state @ head["pooler.dense.weight"].T + head["pooler.dense.bias"])
    torch.testing.assert_close(read, inside @ head["weight"].T + head["bias"])


def test_a_run_that_is_refused_leaves_nothing_and_collects_nothing(tmp_path: Path) -> None:
    def none_yet(_: RunSettings) -> ToRead:
        raise AssertionError

    too_long = InputSettings(mention_tokens=30, entity_tokens=30)
    wrong: dict[str, dict[str, object]] = {
        "two texts": {"inputs": too_long},
        "no model": {"base": str(tmp_path / "gone")},
    }
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as store:
        for name, changes in wrong.items():
            recipe = reranker_job(tmp_path, **changes).recipe
            job = FinetuneJob(run=name, recipe=recipe, what="reranker", device="cpu")
            with pytest.raises(KglinkError) as told:
                reranker_run(store, none_yet, job, tmp_path / name)
            assert not (tmp_path / name / "settings.json").exists()
            if name == "two texts":
                assert "make 59 tokens together" in told.value.message
        recipe = reranker_job(tmp_path, epochs=1, most_mentions=60).recipe
        job = FinetuneJob(run="few", recipe=recipe, what="reranker", device="cpu")
        few = ToRead(data_of(60, 0), data_of(40, 1), ("docs",))
        with pytest.raises(UsageError) as told:
            reranker_run(store, lambda _: few, job, tmp_path / "few")
        assert "reranker.most_mentions = 60" in told.value.hint


@pytest.mark.parametrize("content", [{"w": torch.zeros(1)}, {"weight": torch.zeros(1, 32)}, None])
def test_a_head_that_is_none_is_named(
    tmp_path: Path, content: dict[str, torch.Tensor] | None
) -> None:
    data = ToRead(data_of(8, 0), data_of(4, 1), ("docs",))
    done = train_reranker(data, reranker_job(tmp_path, epochs=1), tmp_path / "run")
    head = done.folder / "head.safetensors"
    if content is None:
        head.write_bytes(b"no tensors")
    else:
        save_file(content, head)
    files = {**done.manifest.files, head.name: file_info(head)}
    RERANKER.write_manifest(done.folder, done.manifest.model_copy(update={"files": files}))
    with pytest.raises(ModelError, match=r"head\.safetensors: (does not fit|is no file)"):
        open_cross_encoder(done.folder, HARDWARE)


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    data = ToRead(data_of(8, 0), data_of(4, 1), ("docs",))
    done = train_reranker(data, reranker_job(tmp_path, epochs=1), tmp_path / "run")
    head = done.folder / "head.safetensors"
    head.write_bytes(head.read_bytes()[:-1] + b"?")
    with pytest.raises(ModelError) as told:
        RERANKER.read(done.folder)
    assert "finetune --what reranker" in told.value.hint


@pytest.mark.parametrize("what", ["reranker", "clusterer"])
def test_mentions_of_one_text_are_asked_together(
    demo_copy: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_MENTIONS", 2)
    calls: list[set[str]] = []
    find = CandidateSearch.find

    def seen(
        self: CandidateSearch, mentions: Sequence[MentionInText], *more: Any, **by: Any
    ) -> Any:
        calls.append({one.text for one in mentions})
        return find(self, mentions, *more, **by)

    monkeypatch.setattr(CandidateSearch, "find", seen)
    with Workspace.open(demo_copy, flags={"link.found_by": "names"}) as workspace:
        if what == "reranker":
            told = replace(settings_of(Path(), reranker={"found_by": "names"}), docs=("docs",))
            mentions_to_read(workspace, told, lambda _: None)
        else:
            workspace.fit_clusterer("docs", split="test")
    texts = [text for call in calls for text in call]
    assert len(texts) == len(set(texts)) > len(calls) > 1


def test_a_gold_that_retrieval_does_not_find_at_all_comes_from_the_store(demo_master: Path) -> None:
    told = replace(
        settings_of(Path(), reranker={"candidates": 64, "gold": "last", "found_by": "names"}),
        docs=("docs",),
    )
    with Workspace.open(demo_master) as workspace:
        found = mentions_to_read(workspace, told, lambda _: None).train
        some = [one for one in found if one.right]
        behind = [one for one in some if not one.ranking.candidates[-1].evidence]
        gold = behind[0].ranking.candidates[-1]
        (entity,) = workspace.store.get_entities([gold.id]).values()
    assert len(behind) > 2
    assert all(any(each.id in one.right for each in one.ranking.candidates) for one in some)
    assert gold.id in behind[0].right
    assert (gold.title, gold.description) == (entity.title, entity.description)
    (learnt,) = learnable(behind[0], told.recipe.reranker)
    assert learnt.ranking.candidates[-1] == gold
    assert len(learnt.ranking.candidates) <= 64


@pytest.mark.parametrize("listed", [True, False])
def test_a_gold_that_a_list_has_far_behind_or_not_at_all_is_learnt(
    demo_master: Path, tmp_path: Path, listed: bool
) -> None:
    reranker = {"candidates": 3, "gold": "last", "lists": str(tmp_path)}
    told = replace(settings_of(Path(), reranker=reranker), docs=("docs",))
    with Workspace.open(demo_master) as workspace:
        store = workspace.store
        keys = [one.key for one in islice(store.entities("encyclopedia"), 40)]
        ids = [EntityId("encyclopedia", key) for key in keys]
        lines: dict[bool, list[str]] = {False: [], True: []}
        for document, held in splits_of(store, "docs", told.recipe.selection).divided(store):
            for one in (each for each in document.mentions if each.gold):
                wrong = [each for each in ids if each not in (one.gold or ())]
                golds = one.gold or () if listed else ()
                candidates = [str(each) for each in (*wrong[:5], *golds, *wrong[5:9])]
                place = {"docs": "docs", "document": document.id, "candidates": candidates}
                lines[held].append(json.dumps(place | {"start": one.start, "end": one.end}))
        for held, stem in ((False, "train"), (True, "val")):
            (tmp_path / f"{stem}.json").write_text("\n".join(lines[held]))
        found = mentions_to_read(workspace, told, lambda _: None)
    learnt = [each for one in found.train for each in learnable(one, told.recipe.reranker)]
    assert len(learnt) == len(found.train) > 50
    for each in learnt:
        assert len(each.ranking.candidates) == 3
        assert each.ranking.candidates[-1].id in each.right
        assert each.ranking.candidates[-1].title
    assert all(len(one.ranking.candidates) == 3 for one in found.held_out)
