"""Stage D: what a detector learns from, and that a run of it can be stopped anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kglink.errors import KglinkError, TrainingError, UsageError
from kglink.models.head_folder import TAGGER
from kglink.models.tagger import open_tagger
from kglink.records import Document, EntityId, Mention
from kglink.store import Store
from kglink.training import detector, head
from kglink.training.detector import DETECTOR, TaggedText, tagged_texts
from kglink.training.job import EpochNews, FinetuneJob, News, StepNews
from kglink.training.recipe import SelectionSection
from store_support import entity, job
from tiny_detectors import HARDWARE, MENTIONS, job_of, tagged, texts_of

train_detector = partial(detector.train_detector, checkpoint_steps=7)
TEXTS = tagged(texts_of(40), texts_of(10, seed=1))


class StoppedError(Exception):
    """What stands for a kill."""


def stop_at(step: int) -> Callable[[News], None]:
    def tell(news: News) -> None:
        if isinstance(news, StepNews) and news.step == step:
            raise StoppedError

    return tell


def weights(folder: Path) -> dict[str, str]:
    return {name: info.blake2b for name, info in TAGGER.read(folder).files.items()}


def test_it_learns_what_is_marked(tmp_path: Path) -> None:
    news: list[News] = []
    report = train_detector(TEXTS, job_of(tmp_path), tmp_path / "run", tell=news.append)
    epochs = [one for one in news if isinstance(one, EpochNews)]
    assert epochs[-1].figures["F1"] > epochs[0].figures["F1"]
    assert epochs[-1].is_best
    assert report.held_out.f1 > 0.5
    tagger, manifest = open_tagger(report.folder, HARDWARE)
    assert manifest == report.manifest
    assert manifest.kbs == ("birds",)
    text = "the river of mercury"
    (spans,) = tagger.proposals([text])
    best = max(spans, key=lambda one: one.score)
    assert text[best.start : best.end] == MENTIONS[1]


@pytest.mark.parametrize("step", [3, 9, 15])
def test_a_stopped_run_ends_with_the_same_weights(tmp_path: Path, step: int) -> None:
    told = job_of(tmp_path)
    whole = train_detector(TEXTS, told, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train_detector(TEXTS, told, tmp_path / "run", tell=stop_at(step))
    again = train_detector(TEXTS, told, tmp_path / "run")
    assert weights(again.folder) == weights(whole.folder)
    assert again.manifest == whole.manifest
    # What is done is not done again.
    done = train_detector(TEXTS, told, tmp_path / "run", tell=stop_at(1))
    assert done.steps == whole.steps
    head.remove_work(done.folder)
    assert train_detector(TEXTS, told, tmp_path / "run", tell=stop_at(1)).steps == 0


def test_another_seed_is_another_detector(tmp_path: Path) -> None:
    one = train_detector(TEXTS, job_of(tmp_path, epochs=1), tmp_path / "one")
    told = job_of(tmp_path, epochs=1)
    told = replace(told, recipe=told.recipe.model_copy(update={"seed": 1}))
    other = train_detector(TEXTS, told, tmp_path / "other")
    assert weights(one.folder) != weights(other.folder)


def test_a_checkpoint_of_other_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train_detector(TEXTS, job_of(tmp_path), tmp_path / "run", tell=stop_at(15))
    others = tagged(texts_of(41), TEXTS.held_out)
    with pytest.raises(TrainingError, match="state of the data"):
        train_detector(others, job_of(tmp_path), tmp_path / "run")


def test_no_mention_at_all_is_refused(tmp_path: Path) -> None:
    bare = tagged([TaggedText("the river of metal", ())] * 50, TEXTS.held_out)
    with pytest.raises(UsageError, match="0 mentions to learn from"):
        train_detector(bare, job_of(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run" / DETECTOR).exists()


def test_crossing_and_nested_mentions_train_like_their_longest(tmp_path: Path) -> None:
    text = "amber heron mercury of the river"
    crossing = TaggedText(text, ((0, 11), (0, 19), (6, 19), (12, 19)))
    longest = TaggedText(text, ((0, 19),))
    parts = [(crossing,) * 100, (longest,) * 100]
    told = job_of(tmp_path, epochs=1)
    folders = [
        train_detector(tagged(part, TEXTS.held_out), told, tmp_path / str(number)).folder
        for number, part in enumerate(parts)
    ]
    first, second = map(weights, folders)
    assert first["encoder/model.safetensors"] == second["encoder/model.safetensors"]


# ----------------------------------------------------------------------- what it learns from
BIRDS = [entity("heron", "Amber Heron"), entity("wren", "Grey Wren")]


def documents(text: str, marked: Mapping[str, tuple[str, bool]]) -> list[Document]:
    """A text twenty times with another number; the type of what is marked, and if it is a heron."""
    gold = (EntityId("birds", "heron"),)

    def mention(text: str, surface: str) -> Mention:
        kind, known = marked[surface]
        start = text.index(surface)
        return Mention(start, start + len(surface), surface, gold if known else None, kind)

    texts = [text.format(n) for n in range(20)]
    return [
        Document(f"d{n}", one, tuple(mention(one, each) for each in marked), split="train")
        for n, one in enumerate(texts)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as opened:
        opened.ingest(job("birds", fingerprint="birds"), BIRDS)
        yield opened


def read(store: Store, name: str, said: Sequence[Document]) -> str:
    """What a detector takes for mentions in these documents, or why it passes them over."""
    store.ingest(job(name, fingerprint=name, links_to=("birds",)), said)
    texts = tagged_texts(store, [name], SelectionSection(held_out=0.5))
    assert not texts.documents or texts.kbs == ("birds",)
    found = [(one.text, one.places) for part in (texts.train, texts.held_out) for one in part]
    marked = {text[start:end] for text, places in found for start, end in places}
    return "; ".join(texts.passed_over) or ", ".join(sorted(marked))


def test_documents_that_mark_first_mentions_alone_are_passed_over(store: Store) -> None:
    text = "The heron {} rose; the heron fell; a heron and a wren stood."
    first_only = documents(text, {"heron": ("", True), "wren": ("", True)})
    assert "are not annotated themselves" in read(store, "wiki", first_only)


def test_types_that_mean_nothing_here_are_no_mentions(store: Store) -> None:
    marked = {"heron": ("Bird", True), "salt": ("Food", False), "wren": ("Bird", False)}
    meals = documents("The heron {} ate salt near a wren.", marked)
    # A bird that no KB has is a mention all the same; food is never one.
    assert read(store, "meals", meals) == "heron, wren"


def test_documents_about_other_things_are_passed_over(store: Store) -> None:
    food = documents("Salt {} and pepper.", {"Salt": ("", False), "pepper": ("", False)})
    assert "no mention means an entity of a KB here" in read(store, "food", food)


@pytest.mark.slow
def test_a_kill_between_the_detector_and_its_report_leaves_its_steps(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, folder = job_of(tmp_path), tmp_path / "r"
    asked = FinetuneJob(run="r", recipe=settings.recipe, what="detector", device="cpu")
    monkeypatch.setattr(detector, "tagged_texts", lambda *_: TEXTS)

    def stopped(*_: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(head, "write_report", stopped)
        with pytest.raises(StoppedError):
            detector.detector_run(store, asked, folder)
    news: list[News] = []
    asked = replace(asked, resume=True, recipe=None)
    report, found = detector.detector_run(store, asked, folder, progress=news.append)
    assert not [one for one in news if isinstance(one, StepNews)]
    assert report.steps == found.steps > 0
    assert not (folder / f"{DETECTOR}.work").exists()


def test_a_refused_run_leaves_nothing(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detector, "tagged_texts", lambda *_: TEXTS)
    recipe = job_of(tmp_path, base=str(tmp_path / "gone")).recipe
    asked = FinetuneJob(run="r", recipe=recipe, what="detector", device="cpu")
    with pytest.raises(KglinkError):
        detector.detector_run(store, asked, tmp_path / "r")
    assert not (tmp_path / "r" / "settings.json").exists()
