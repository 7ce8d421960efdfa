"""Which surfaces were learnt from: named documents, the run of the model, the split train."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hand_made_rankings import HandMade
from kglink.errors import UnknownNameError, UsageError
from kglink.evaluation.rankings import JOINT
from kglink.evaluation.retrieval import (
    LearntFrom,
    LearntMentions,
    Question,
    evaluate_retrieval,
    find_learnt,
    folded,
)
from kglink.models import Hardware
from kglink.records import Document, EntityId, Mention, Record, Split
from kglink.store import Store
from kglink.training import Recipe, load_recipe
from kglink.training.documents import held_back_documents, mentions_of_runs
from kglink.training.run import RunSettings, run_of_model, write_settings
from store_support import entity, job

KBS = ("a", "b")


def document(name: str, surface: str, gold: str | None, split: Split = "") -> Document:
    """A document of one mention, which is the whole text."""
    named = None if gold is None else (EntityId.parse(gold),) if gold else ()
    return Document(name, surface, (Mention(0, len(surface), surface, named),), split=split)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    documents: dict[str, list[Record]] = {
        "both": [
            document("1", "Héron", "a:1", "train"),
            document("2", "amber", "b:1", "train"),
            document("3", "crane", "", "train"),  # NIL: nothing was learnt of it
            document("4", "heron ", "a:1", "dev"),
            document("5", "AMBER", "b:1", "dev"),
            document("6", "crane", "a:1", "dev"),
            document("7", "kelp", "a:1", "dev"),
        ],
        "more": [document("1", "Kelp!", "a:1"), document("2", "lamp", "b:1")],
        "plain": [],
    }
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as opened:
        for kb in KBS:
            opened.ingest(job(kb, fingerprint=kb), [entity("1")])
        for name, records in documents.items():
            given = records or [entity("1")]
            opened.ingest(job(name, fingerprint=name, links_to=KBS), given)
        yield opened


def seen(store: Store, seen_in: str, run: Path | None = None) -> tuple[tuple[str, ...], set[str]]:
    """What was said to be learnt from, and which surfaces of the split dev are among it."""
    runs = None if run is None else mentions_of_runs(store, run)
    learnt = find_learnt(store, seen_in, ["both"], "dev", runs)
    assert learnt
    known = LearntFrom(learnt, store.documents("both", "dev"))
    surfaces = (one.surface for text in store.documents("both", "dev") for one in text.mentions)
    return learnt.words, {folded(one) for one in surfaces if known.has_seen(one)}


def test_surfaces_are_the_same_where_they_fold_to_the_same() -> None:
    assert folded("Héron") == folded("heron ")
    assert folded("…") == "…"  # nothing is left of it


def test_the_split_train_of_the_same_documents(store: Store) -> None:
    assert seen(store, "auto") == (("both:train",), {"heron", "amber"})
    for split in ("", "train"):
        assert find_learnt(store, "auto", ["both"], split, None) is None
    assert find_learnt(store, "auto", ["more"], "dev", None) is None
    assert find_learnt(store, "", ["both"], "dev", None) is None


def test_entities_are_seen_where_a_mention_meant_them(store: Store) -> None:
    """Of dev a:1 and b:1 were meant in train; of `more`, which no other split teaches, none."""
    learnt = find_learnt(store, "both:train", ["both"], "dev", None)
    assert learnt
    ids = EntityId("a", "1"), EntityId("b", "1")
    assert all(LearntFrom(learnt, store.documents("both", "dev")).times([one]) for one in ids)
    assert not LearntFrom(learnt, []).times(ids)
    question = Question(("both",), "dev", KBS, (1,), seen_in="both:train")
    only = LearntMentions(("one",), (lambda: iter([Mention(0, 1, "x", (EntityId("b", "1"),))]),))
    known = LearntFrom(only, store.documents("both", "dev"))
    assert [known.times([one]) for one in ids] == [0, 1]
    surfaces = ("heron ", "AMBER", "crane", "kelp")
    linker = HandMade({surface: ["a:1", "b:1"] for surface in surfaces}, kbs=KBS)
    report = evaluate_retrieval(store, linker, question)
    # crane and kelp are new surfaces of an entity that was learnt.
    assert report.unseen.mentions[JOINT] == 2
    assert report.seen_entities.mentions[JOINT] == 4
    assert not report.unseen_entities.mentions


def test_what_memory_has_learnt_from(store: Store) -> None:
    store.learn({"more": ""})
    assert seen(store, "auto") == (("both:train", "more"), {"heron", "amber", "kelp"})
    store.learn({"both": ""})
    store.learn({}, forgotten=["more"])
    assert seen(store, "auto") == (("both:train",), {"heron", "amber"})


def test_documents_by_name(store: Store) -> None:
    assert seen(store, "both:train, more") == (("both:train", "more"), {"heron", "amber", "kelp"})
    # A name alone is its split train where it has one.
    assert seen(store, "both")[1] == {"heron", "amber"}
    assert seen(store, "both:dev")[1] == {"heron", "amber", "crane", "kelp"}


def test_names_and_splits_that_are_not_there_are_refused(store: Store) -> None:
    with pytest.raises(UnknownNameError):
        find_learnt(store, "nobody", ["both"], "dev", None)
    with pytest.raises(UsageError, match="no mention of 'plain' is annotated"):
        find_learnt(store, "plain", ["both"], "dev", None)
    for text in ("both:test", "both:other", "more:train"):
        with pytest.raises(UsageError, match="no documents in the split"):
            find_learnt(store, text, ["both"], "dev", None)


def settings_of(
    recipe: Recipe, sources: str, kbs: tuple[list[str], list[str]], docs: Sequence[str]
) -> RunSettings:
    sides = (tuple(kbs[0]), tuple(kbs[1]))
    return RunSettings(recipe, "default", sources, *sides, tuple(docs), Hardware("cpu", "fp32", 1))


def run_in(workspace: Path, *documents: str, kbs: tuple[str, str] = KBS) -> Path:
    """The folder of a run that read these documents, as far as it is looked at."""
    folder = workspace / "runs" / "first"
    recipe = load_recipe("default", {"selection": {"documents": "held_out", "held_out": 0.5}})
    told = settings_of(recipe, "TS", ([kbs[0]], [kbs[1]]), documents)
    write_settings(folder, told)
    facts = {"documents": [{"documents": name, "train": 1} for name in documents]}
    (folder / "data").mkdir()
    (folder / "data" / "data.json").write_text(json.dumps(facts))
    return folder


def test_what_the_run_of_the_model_learnt_from(store: Store, tmp_path: Path) -> None:
    run = run_in(tmp_path, "both", "more", "gone")
    assert run_of_model(tmp_path, "runs/first/model") == run
    words, found = seen(store, "auto", run)
    recipe = load_recipe("default", {"selection": {"documents": "held_out", "held_out": 0.5}})
    held_back = list(held_back_documents(store, ["both", "more"], recipe.selection, KBS))
    away = {folded(one.text) for one in held_back}
    assert words == ("run first",)
    assert away & {"heron", "amber", "kelp"}, "the seed holds none back: choose another share"
    assert found == {"heron", "amber", "kelp"} - away


def test_a_file_beside_the_base_of_a_run_is_no_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is `minilm`, and the workspace, where the command runs, has another's settings."""
    run = run_in(tmp_path, "both")
    (tmp_path / "settings.json").write_text('{"editor.tabSize": 4}')
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in mentions_of_runs(store, run)] == ["first"]
    assert run_of_model(tmp_path, "minilm") is None


def test_mentions_of_other_kbs_were_not_learnt_from(store: Store, tmp_path: Path) -> None:
    everything = {"selection": {"documents": "held_out", "held_out": 0.0}}
    run = run_in(tmp_path, "both", kbs=("a", "other"))
    told = settings_of(load_recipe("default", everything), "T", (["a"], ["other"]), ["both"])
    write_settings(run, told)
    assert find_learnt(store, "auto", ["both"], "dev", mentions_of_runs(store, run)) is None
    write_settings(run, replace(told, sources="S"))
    assert seen(store, "auto", run)[1] == {"heron"}


@pytest.mark.parametrize(
    ("sources", "surfaces"),
    [("S", {"heron"}), ("T", {"amber"}), ("TO", {"amber"}), ("TOS", {"heron", "amber"})],
)
def test_a_stage_learns_from_the_mentions_of_its_side(
    store: Store, tmp_path: Path, sources: str, surfaces: set[str]
) -> None:
    everything = {"selection": {"documents": "held_out", "held_out": 0.0}}
    run = run_in(tmp_path, "both")
    recipe = load_recipe("default", everything)
    write_settings(run, settings_of(recipe, sources, (["a"], ["b"]), ["both"]))
    assert seen(store, "auto", run) == (("run first",), surfaces)


def test_a_run_of_overlaps_learnt_what_the_run_before_it_had_learnt(
    store: Store, tmp_path: Path
) -> None:
    first = run_in(tmp_path, "both", "more")
    then = tmp_path / "runs" / "second"
    changes = {"model": {"base": str(first / "model")}}
    told = settings_of(load_recipe("default", changes), "O", (["a"], ["b"]), ["both"])
    write_settings(then, told)
    words, found = seen(store, "auto", then)
    assert words == ("run first",)
    assert found == seen(store, "auto", first)[1] != set()


def test_models_that_no_run_made(tmp_path: Path) -> None:
    run_in(tmp_path)
    for path in ("", "minilm", "runs/second/model", "/somewhere/model"):
        assert run_of_model(tmp_path, path) is None


def test_a_report_tells_seen_surfaces_from_others(store: Store) -> None:
    surfaces = ("heron ", "AMBER", "crane", "kelp")
    linker = HandMade({surface: ["a:1", "b:1"] for surface in surfaces}, kbs=KBS)
    question = Question(("both",), "dev", KBS, (1,))
    report = evaluate_retrieval(store, linker, question)
    assert report.seen_in == ("both:train",)
    assert report.seen.mentions == {"a": 1, "b": 1, "[joint]": 2, "[judged joint]": 2}
    assert report.unseen.mentions == {"a": 2, "[joint]": 2, "[judged joint]": 2}
    assert report.mentions["a"] == 3
    # b:1 stands behind a:1 in the joint list.
    assert report.of("[joint]")["MRR"] == (1 + 1 / 2 + 1 + 1) / 4


def test_documents_without_golds_in_the_kbs_are_refused(store: Store) -> None:
    question = Question(("more",), "", ("other",), (1,))
    with pytest.raises(UsageError, match="no mention of more has its gold in other"):
        evaluate_retrieval(store, HandMade(), question)
