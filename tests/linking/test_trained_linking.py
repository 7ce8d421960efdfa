"""Linking with trained towers: what is read, how candidates are found, ordered and weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from kglink.config import LinkSection
from kglink.errors import SpaceError, UsageError
from kglink.linking.pipeline import Linker
from kglink.linking.reading import MentionReader
from kglink.linking.scoring import (
    NAME_SCORING,
    SCORING_FILE,
    TRAINED_SCORING,
    Scoring,
    read_scoring,
)
from kglink.plugins import load_registry
from kglink.records import Candidate, Document, MentionInText, Progress
from kglink.workspace import Workspace
from kglink.workspace.link_setup import asked_kinds
from trained_spaces import (
    FloatArray,
    add_run,
    documents_of,
    entities_of,
    judged,
    make_workspace,
    opened,
    plain_of,
    towers,
)

if TYPE_CHECKING:
    from kglink.models import Encoder

MODELS: dict[str, dict[str, Any]] = {
    "cosine": {"shared": False},
    "dot": {"shared": False, "metric": "dot"},
    "shared": {"pooling": "cls"},
    "document": {"pooling": "span"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a plain space and one of each trained model; read it."""
    folder = make_workspace(tmp_path_factory.mktemp("trained") / "workspace")
    with opened(folder, space__name="plain") as workspace:
        workspace.build(model=str(plain_of(folder)))
    for name, settings in MODELS.items():
        model = add_run(folder, name, **settings)
        with opened(folder, space__name=name) as workspace:
            workspace.build(model=model)
    return folder


@pytest.fixture(params=[*MODELS])
def trained(folder: Path, request: pytest.FixtureRequest) -> Iterator[Workspace]:
    with opened(folder, space__name=request.param) as workspace:
        yield workspace


def found_by(
    linker: Linker, mentions: Sequence[MentionInText], limit: int = 5
) -> list[dict[str, list[Candidate]]]:
    return linker.candidates(mentions, limit=limit)


def mentions_of(workspace: Workspace) -> list[MentionInText]:
    return [mention for mention, _ in judged(documents_of(workspace))]


# ------------------------------------------------------------------------------ what is read
class Noting:
    """Vectors of one number, and a note of every call."""

    trained = None
    max_tokens = 8

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def count_truncated(self, texts: Sequence[str]) -> int:
        return sum(len(text.split()) > 6 for text in texts)

    def encode_queries(self, texts: Sequence[str]) -> FloatArray:
        self.calls.append(list(texts))
        return np.arange(len(texts), dtype=np.float32)[:, None]


def reader(encoder: Noting, window_chars: int) -> MentionReader:
    return MentionReader(cast("Encoder", encoder), window_chars)


def test_a_plain_encoder_reads_names_and_windows_in_one_call() -> None:
    encoder = Noting()
    queries = reader(encoder, 12)
    text = "a heron and a grey heron"
    mentions = [
        MentionInText(text, 2, 7),
        MentionInText("heron", 0, 5),
        MentionInText(text, 19, 24),
    ]
    read = queries.read(["heron"], mentions, names=True, contexts=True, tokens=False)
    # Twelve characters, whole words; a mention that is all of its text has no context.
    assert encoder.calls == [["heron", "a heron and", "", "a grey heron"]]
    assert read.names is not None
    assert read.names.tolist() == [[0.0]]
    assert [None if one is None else one.tolist() for one in read.contexts] == [[1.0], None, [3.0]]
    alone = reader(encoder, 0).read(["heron"], mentions, names=True, contexts=True, tokens=False)
    assert alone.contexts == [None, None, None]
    long = MentionInText("one two three four five six seven", 0, 3)
    assert reader(encoder, 99).count_truncated([long, *mentions]) == 1


# ---------------------------------------------------------------------------- vectors alone
def test_vectors_alone_order_by_the_product_of_both_towers(
    folder: Path, trained: Workspace
) -> None:
    name = trained.settings.space.name
    with opened(folder, space__name=name, link__found_by="vectors") as workspace:
        mentions = mentions_of(workspace)
        encoder = towers(workspace)
        queries = encoder.encode_mentions(mentions)
        found = found_by(workspace.linker(), mentions, limit=7)
        for kb in ("atlas", "saga"):
            entities = entities_of(workspace, kb)
            rows = encoder.encode_entities(entities).astype(np.float16).astype(np.float32)
            products = queries @ rows.T
            best = -np.sort(-products, axis=1)[:, :7]
            for scores, own, by_kb in zip(best, products, found, strict=True):
                at = [next(i for i, e in enumerate(entities) if e.key == one.id.key)
                      for one in by_kb[kb]]  # fmt: skip
                np.testing.assert_allclose(own[at], scores, rtol=1e-4)


def test_vectors_alone_in_a_plain_space_are_those_of_names(folder: Path) -> None:
    with opened(folder, space__name="plain", link__found_by="vectors") as workspace:
        mentions = mentions_of(workspace)[:20]
        found = found_by(workspace.linker(), mentions, limit=3)
        surfaces = [mention.surface for mention in mentions]
        queries = workspace.encoder.encode(surfaces)
        segment = workspace.space().segments["saga"]
        rows = segment.vectors("alias", slice(None))
        for query, by_kb in zip(queries, found, strict=True):
            nearest = np.maximum.reduceat(rows @ query, segment.alias_starts[:-1])
            best = -np.sort(-nearest)[:3]
            scores = [one.score for one in by_kb["saga"]]
            np.testing.assert_allclose(scores, best, atol=2e-5)
            assert all(one.evidence["name"] == 0 for one in by_kb["saga"])


def test_names_alone_load_no_model(trained: Workspace, folder: Path) -> None:
    name = trained.settings.space.name
    with opened(folder, space__name=name, link__found_by="names") as workspace:
        mentions = mentions_of(workspace)
        for by_kb in found_by(workspace.linker(), mentions):
            for one in (one for ranked in by_kb.values() for one in ranked):
                score = sum(
                    weight * one.evidence[kind]
                    for kind, weight in NAME_SCORING.weights.by_kind.items()
                )
                assert one.score == pytest.approx(score, abs=1e-4)
                assert one.evidence["alias"] == one.evidence["context"] == 0
        (document,) = workspace.link([mentions[0].text])
        assert "_loaded" not in vars(workspace.encoder)
        assert any(link.chosen for link in document.links)


# ------------------------------------------------------------------------------ all evidence
def test_the_context_counts_for_all_candidates_and_brings_some(trained: Workspace) -> None:
    mentions = mentions_of(trained)[:20]
    encoder = towers(trained)
    queries = encoder.encode_mentions(mentions)
    found = found_by(trained.linker(), mentions, limit=100)
    segment = trained.space().segments["atlas"]
    rows = segment.vectors("text", slice(None))
    names = list(segment.keys)
    lengths = np.concatenate(
        [
            np.linalg.norm(one.vectors("text", slice(None)), axis=1)
            for one in trained.space().segments.values()
        ]
    )
    dot = trained.settings.space.name == "dot"
    for query, by_kb in zip(queries, found, strict=True):
        products = rows @ query
        scale = np.linalg.norm(query) * lengths.mean() if dot else 1.0
        own = {one.id.key: one.evidence["context"] for one in by_kb["atlas"]}
        for key, value in own.items():
            assert value == pytest.approx(products[names.index(key)] / scale, abs=2e-4)
        assert {names[at] for at in np.argsort(-products)[:32]} <= own.keys()


def test_evidence_of_plain_products_is_in_the_measure_of_cosines(folder: Path) -> None:
    with opened(folder, space__name="dot") as workspace:
        lengths = np.linalg.norm(workspace.encoder.encode(["heron", "river"]), axis=1)
        assert lengths.min() > 1.5
        for by_kb in found_by(workspace.linker(), mentions_of(workspace)):
            for one in (one for ranked in by_kb.values() for one in ranked):
                assert abs(one.evidence["context"]) < 1.5
                assert abs(one.evidence["alias"]) < 1.5


def test_links_of_a_trained_space(trained: Workspace) -> None:
    text = documents_of(trained)[0].text
    (document,) = trained.link([text])
    assert document.links
    assert any(link.chosen for link in document.links)
    for link in document.links:
        assert 0 <= link.confidence <= 1
        # Before the best one may stand the same thing in the KB that goes first.
        scores = [one.score for one in link.candidates[1:]]
        assert scores == sorted(scores, reverse=True)


def test_a_mention_is_read_in_its_text(trained: Workspace) -> None:
    title = next(iter(trained.space().segments["atlas"].titles))
    texts = [f"{title} of the river", f"the old {title}", title]
    mentions = [
        MentionInText(text, text.index(title), text.index(title) + len(title)) for text in texts
    ]
    found = found_by(trained.linker(), mentions)
    contexts = {by_kb["atlas"][0].evidence["context"] for by_kb in found}
    assert len(contexts) == 3
    long = MentionInText("river " * 100_000 + texts[0], 600_000, 600_000 + len(title))
    near = MentionInText("river " * 100 + texts[0], 600, 600 + len(title))
    assert found_by(trained.linker(), [long]) == found_by(trained.linker(), [near])


def test_a_search_finds_names(trained: Workspace) -> None:
    title = next(iter(trained.space().segments["saga"].titles))
    found = trained.search(title, k=3, kbs=["saga"])
    assert title in {one.title for one in found}
    with pytest.raises(UsageError, match="a search needs a text"):
        trained.search("")


# ---------------------------------------------------------------------------------- scoring
@pytest.fixture
def fitted_folder(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path / "workspace")
    add_run(folder, "one", shared=False)
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    return folder


def unfitted() -> Scoring:
    """What a trained space has before it is fitted, with the built-in kinds of plugins."""
    kinds = [one.kind for one in asked_kinds(LinkSection(), load_registry())]
    return TRAINED_SCORING.with_kinds(kinds, trained=True)


@pytest.mark.slow
def test_what_was_fitted_is_used_as_long_as_the_space_has_its_model(fitted_folder: Path) -> None:
    place = fitted_folder / "spaces" / "default"
    with opened(fitted_folder) as workspace:
        documents = documents_of(workspace)
        assert workspace.linker().scoring == unfitted()
        told: list[Progress] = []
        scoring = workspace.fit_scoring(documents, progress=told.append)
        last = [one for one in told if one.step == "mentions"][-1]
        assert (last.done, last.total) == (len(judged(documents)),) * 2
        assert scoring.mentions == len(judged(documents))
        before, after = scoring.recall
        assert 0 < before <= after <= 1
        assert scoring.weights != unfitted().weights
        assert workspace.linker().scoring == scoring
    with opened(fitted_folder) as workspace:
        assert workspace.linker().scoring == scoring
        assert workspace.fit_scoring(documents) == scoring
    with opened(fitted_folder, link__found_by="vectors") as workspace:
        assert workspace.linker().scoring.weights["context"] == 1
    second = add_run(fitted_folder, "two", by=0.1)
    with opened(fitted_folder) as workspace:
        workspace.build(model=second)
        assert workspace.linker().scoring == unfitted()
        assert read_scoring(place, workspace.encoder.info.fingerprint) is None
    (place / SCORING_FILE).write_text("{}")
    with (
        opened(fitted_folder) as workspace,
        pytest.raises(SpaceError, match=r"scoring\.json: is not what kglink writes"),
    ):
        workspace.linker()


@pytest.mark.slow
def test_a_space_of_an_untrained_model_is_fitted_too(folder: Path) -> None:
    kept = folder / "spaces" / "plain" / SCORING_FILE
    with opened(folder, space__name="plain") as workspace:
        unfitted = workspace.linker().scoring
        scoring = workspace.fit_scoring(documents_of(workspace))
        assert scoring.calibration != unfitted.calibration
        assert workspace.linker().scoring == scoring
    kept.unlink()


def test_fitting_is_refused_where_there_is_nothing_to_fit(fitted_folder: Path) -> None:
    with opened(fitted_folder) as workspace:
        nothing = [Document("1", "a heron")]
        with pytest.raises(UsageError, match="no mention of these documents has its answer"):
            workspace.fit_scoring(nothing)
        assert not (fitted_folder / "spaces" / "default" / SCORING_FILE).exists()
