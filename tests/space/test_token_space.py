"""Spaces of models that compare all tokens: their matrices on disk, and linking with them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Kglink

from kglink.errors import DamagedSpaceError
from kglink.models import Encoder
from kglink.models.runtime import TokenMatrices, as_bf16
from kglink.models.settings import InputSettings
from kglink.plugins import Encoded
from kglink.records import Entity
from kglink.space import segment_vectors, token_lists
from kglink.space.segment_vectors import Block
from kglink.space.token_rows import TokenRowsWriter
from kglink.workspace import Workspace
from store_support import job
from trained_spaces import (
    FloatArray,
    add_run,
    copied,
    documents_of,
    entities_of,
    judged,
    make_workspace,
    opened,
    towers,
)

TOKENS: dict[str, Any] = {"shared": False, "pooling": "tokens", "scorer": "sum_of_max"}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a space of each metric; read it."""
    folder = make_workspace(tmp_path_factory.mktemp("tokens") / "workspace")
    for metric in ("cosine", "dot"):
        model = add_run(folder, metric, metric=metric, **TOKENS)
        with opened(folder, space__name=metric) as workspace:
            workspace.build(model=model)
    return folder


@pytest.fixture
def folder(master: Path, tmp_path: Path) -> Path:
    return copied(master, tmp_path / "workspace")


def matrix(matrices: TokenMatrices, at: int) -> FloatArray:
    start, stop = matrices.offsets[at : at + 2]
    values: FloatArray = as_bf16(matrices.bits[start:stop]).float().numpy()
    return values


def sums_of_max(mentions: TokenMatrices, entities: TokenMatrices) -> FloatArray:
    """Straight from the formula."""
    counts = len(mentions.offsets) - 1, len(entities.offsets) - 1
    sums = [
        [(matrix(mentions, m) @ matrix(entities, e).T).max(axis=1).sum() for e in range(counts[1])]
        for m in range(counts[0])
    ]
    return np.array(sums, dtype=np.float32)


def matrices_of(workspace: Workspace, kb: str) -> TokenMatrices:
    return towers(workspace).entity_matrices(entities_of(workspace, kb))


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_beside_the_rows_stand_the_tokens_of_all_entities(master: Path, metric: str) -> None:
    with opened(master, space__name=metric) as workspace:
        for kb, segment in workspace.space().segments.items():
            found = segment.tokens
            assert found is not None
            expected = matrices_of(workspace, kb)
            taken = found.take(np.arange(len(found)))
            np.testing.assert_array_equal(taken.offsets, expected.offsets)
            for at in range(len(found)):
                np.testing.assert_allclose(matrix(taken, at), matrix(expected, at), rtol=1e-2)
            pooled = towers(workspace).encode_entities(entities_of(workspace, kb))
            kept = segment.vectors("text", slice(None))
            np.testing.assert_allclose(kept, pooled, rtol=2e-3, atol=1e-3)
            assert {"tokens.bf16", "token_starts.npy"} <= segment.info.files.keys()
        assert workspace.joint_space.folder.damage() == []


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_vectors_alone_order_by_the_sum_of_the_best_products(master: Path, metric: str) -> None:
    with opened(master, space__name=metric, link__found_by="vectors") as workspace:
        mentions = [mention for mention, _ in judged(documents_of(workspace))][:12]
        queries = towers(workspace).mention_matrices(mentions)
        found = workspace.linker().candidates(mentions, limit=5)
        for kb in ("atlas", "saga"):
            keys = [entity.key for entity in entities_of(workspace, kb)]
            sums = sums_of_max(queries, matrices_of(workspace, kb))
            for scores, by_kb in zip(sums, found, strict=True):
                own = scores[[keys.index(one.id.key) for one in by_kb[kb]]]
                np.testing.assert_allclose(own, -np.sort(-scores)[:5], rtol=1e-3)


def encoded(matrices: TokenMatrices) -> Encoded:
    """All texts as a scorer reads them, padded to the longest."""
    lengths = np.diff(matrices.offsets)
    states = torch.zeros(len(lengths), int(lengths.max()), matrices.bits.shape[1])
    mask = torch.arange(int(lengths.max())) < torch.from_numpy(lengths)[:, None]
    states[mask] = as_bf16(matrices.bits).float()
    return Encoded(states, mask)


@pytest.mark.parametrize("rule", [{"metric": "cosine"}])
def test_candidates_stand_in_the_order_that_the_scorer_gives_them(
    folder: Path, rule: dict[str, Any]
) -> None:
    inputs = InputSettings(mention_tokens=24, entity_tokens=48)
    told = {"inputs": inputs, "metric": "dot", "scorer_settings": rule, **TOKENS}
    model = add_run(folder, "ruled", **told)
    with opened(folder, space__name="ruled", link__found_by="vectors") as workspace:
        workspace.build(model=model)
        mentions = [mention for mention, _ in judged(documents_of(workspace))][:12]
        scorer = workspace.registry.create("scorer", "sum_of_max", rule)
        queries = encoded(towers(workspace).mention_matrices(mentions))
        found = workspace.linker().candidates(mentions, limit=8)
        plain = workspace.registry.create("scorer", "sum_of_max", {})
        another = 0
        for kb, segment in workspace.space().segments.items():
            assert segment.tokens is not None
            assert len(set(np.diff(segment.tokens.starts).tolist())) > 5
            entities = encoded(segment.tokens.take(np.arange(len(segment.tokens))))
            keys = list(segment.keys)
            wanted = scorer.score(queries, entities).numpy()
            other = plain.score(queries, entities).numpy()
            for scores, others, by_kb in zip(wanted, other, found, strict=True):
                own = [keys.index(one.id.key) for one in by_kb[kb]]
                np.testing.assert_allclose(scores[own], -np.sort(-scores)[:8], rtol=1e-3)
                another += own != np.argsort(-others, kind="stable")[:8].tolist()
        assert another, "the rule orders as the plain one does: the test tests nothing"


def test_the_context_is_the_mean_of_the_best_products_of_each_token(master: Path) -> None:
    with opened(master, space__name="cosine") as workspace:
        mentions = [mention for mention, _ in judged(documents_of(workspace))][:6]
        queries = towers(workspace).mention_matrices(mentions)
        found = workspace.linker().candidates(mentions, limit=100)
        keys = [entity.key for entity in entities_of(workspace, "atlas")]
        means = sums_of_max(queries, matrices_of(workspace, "atlas"))
        means /= np.diff(queries.offsets)[:, None]
        for own, by_kb in zip(means, found, strict=True):
            values = {one.id.key: one.evidence["context"] for one in by_kb["atlas"]}
            for key, value in values.items():
                assert value == pytest.approx(own[keys.index(key)], abs=2e-3)
            assert {keys[at] for at in np.argsort(-own)[:30]} <= values.keys()
    with opened(master, space__name="dot") as workspace:
        found = workspace.linker().candidates(mentions, limit=100)
        everything = [one for by_kb in found for ranked in by_kb.values() for one in ranked]
        assert max(abs(one.evidence["context"]) for one in everything) < 1.5


def test_an_index_that_no_search_asks_is_told_of(
    kglink: Kglink, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    ran = kglink("index", "--space", "cosine", "--queries", "0")
    assert "no search asks its index" in " ".join(ran.err.split())


def test_links_searches_and_fitting_with_tokens(folder: Path) -> None:
    with opened(folder, space__name="cosine") as workspace:
        documents = documents_of(workspace)
        scoring = workspace.fit_scoring(documents[:8])
        assert scoring.recall[0] <= scoring.recall[1]
        (linked,) = workspace.link([documents[0].text])
        assert any(link.chosen for link in linked.links)
        title = next(iter(workspace.space().segments["saga"].titles))
        assert title in {one.title for one in workspace.search(title, k=3, kbs=["saga"])}


def test_an_update_keeps_the_matrices_of_what_reads_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Encoder.entity_matrices
    asked: list[str] = []

    def noted(self: Encoder, entities: Sequence[Entity]) -> TokenMatrices:
        asked.extend(entity.title for entity in entities)
        return real(self, entities)

    monkeypatch.setattr(Encoder, "entity_matrices", noted)
    with opened(folder, space__name="cosine") as workspace:
        entities = entities_of(workspace, "atlas")
        changed = replace(entities[7], description="another heron altogether")
        rest = [*entities[:3], *entities[4:7], changed, *entities[8:]]
        workspace.store.ingest(job("atlas", fingerprint="2"), rest)
        workspace.build()
        assert asked == [changed.title]
        workspace.build()
        assert asked == [changed.title]
        found = workspace.space().segments["atlas"].tokens
        assert found is not None
        expected = matrices_of(workspace, "atlas")
        taken = found.take(np.arange(len(found)))
        np.testing.assert_array_equal(taken.offsets, expected.offsets)
        for at in range(len(found)):
            np.testing.assert_allclose(matrix(taken, at), matrix(expected, at), rtol=1e-2)


@pytest.mark.parametrize("stop_at", ["second chunk", "finish"])
def test_an_interrupted_build_goes_on_in_the_middle_of_the_tokens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stop_at: str
) -> None:
    monkeypatch.setattr(segment_vectors, "CHUNK_ENTITIES", 16)
    with opened(folder, space__name="whole") as workspace:
        workspace.build(model="runs/cosine/model")
    real = Encoder.entity_matrices
    asked: list[int] = []

    def interrupted(self: Encoder, entities: Sequence[Entity]) -> TokenMatrices:
        asked.append(len(entities))
        if stop_at == "second chunk" and len(asked) == 2:
            raise KeyboardInterrupt
        return real(self, entities)

    finish = TokenRowsWriter.finish

    def stopped(self: TokenRowsWriter) -> None:
        finish(self)
        if stop_at == "finish" and len(asked) == 3:
            asked.append(0)
            raise KeyboardInterrupt

    monkeypatch.setattr(Encoder, "entity_matrices", interrupted)
    monkeypatch.setattr(TokenRowsWriter, "finish", stopped)
    with opened(folder, space__name="broken") as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.build(model="runs/cosine/model")
        workspace.build(model="runs/cosine/model")
    # Two KBs of 40 entities in chunks of 16, 16, 8; the chunk that was broken off is asked twice.
    assert sum(asked) == 80 + (16 if stop_at == "second chunk" else 0)
    spaces = folder / "spaces"
    assert _tokens(spaces / "whole") == _tokens(spaces / "broken")


def _tokens(space: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(space)): path.read_bytes()
        for path in (space / "segments").rglob("token*")
    }


def test_blocks_of_a_large_kb_are_encoded_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_vectors, "CHUNK_ENTITIES", 8)
    monkeypatch.setattr(token_lists, "LEAST_TOKENS", 1)
    steps: list[str] = []
    with opened(folder, space__name="here") as workspace:
        workspace.build(model="runs/cosine/model", progress=lambda news: steps.append(news.step))
        mentions = [mention for mention, _ in judged(documents_of(workspace))][:12]
        here = workspace.linker().candidates(mentions, limit=5)
    assert "gathering tokens of atlas" in steps
    with opened(folder, space__name="there") as workspace:
        space = workspace.joint_space.with_model("runs/cosine/model")
        work = pickle.loads(pickle.dumps(space.encode_job()))  # noqa: S301 - our own
        work.load()

        def backwards(blocks: Iterator[Block]) -> Iterator[tuple[Block, segment_vectors.Encoded]]:
            held = list(blocks)
            for block in held if held and held[0].kind == "tokens" else reversed(held):
                yield block, work.do(block)

        space.job(encode_blocks=backwards).build()
    with opened(folder, space__name="there") as workspace:
        assert workspace.linker().candidates(mentions, limit=5) == here
        assert workspace.joint_space.folder.damage() == []
    spaces = folder / "spaces"
    assert _tokens(spaces / "here") == _tokens(spaces / "there")
    assert any(name.endswith(token_lists.CENTROIDS_FILE) for name in _tokens(spaces / "here"))


def test_damaged_token_matrices_are_told(folder: Path) -> None:
    path = next((folder / "spaces" / "cosine" / "segments").glob("atlas-*/tokens.bf16"))
    path.write_bytes(path.read_bytes()[:-2])
    with (
        opened(folder, space__name="cosine") as workspace,
        pytest.raises(DamagedSpaceError, match=r"tokens\.bf16: missing or of the wrong size"),
    ):
        workspace.space()
