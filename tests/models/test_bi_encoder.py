"""The bi-encoder: two towers or one, and searching with what was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bi_encoders import ENTITIES, FP32, MENTIONS, make, shake
from kglink.errors import ModelError, UsageError
from kglink.models import Encoder, choose_hardware
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.runtime import TokenEncoder, as_bf16
from kglink.models.settings import BiEncoderSettings, TransformationSettings
from kglink.models.transformation import SIDES
from kglink.records import Entity
from kglink.training.loop import Task
from kglink.training.recipe import DescentSection
from tiny_models import bert_weights, write_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def open_encoder(folder: Path) -> Encoder:
    encoder = Encoder(str(folder), precision="fp32", device="cpu")
    assert encoder.trained
    return encoder


def test_one_pass_over_both_sides_equals_two(base: Path) -> None:
    model = make(base)
    mentions, entities = model.inputs.mentions(MENTIONS), model.inputs.entities(ENTITIES)
    pair = model(mentions, entities)[0]
    for part, side, ids in zip(pair, SIDES, (mentions, entities), strict=True):
        assert part.states.shape == (3, 1, 32)
        torch.testing.assert_close(part.states, model.encode(ids, side).states)


def test_towers_begin_equal_and_are_trained_apart(base: Path) -> None:
    model = make(base, shared=False)
    ids = model.inputs.entities(ENTITIES)
    assert torch.equal(model.encode(ids, "mention").states, model.encode(ids, "entity").states)
    torch.autograd.backward(model(model.inputs.mentions(MENTIONS), [])[0].mentions.states.sum())
    assert all(p.grad is None for p in model.entity.parameters())
    assert any(p.grad is not None for p in model.mention.parameters())
    shared = make(base)
    assert shared.mention is shared.entity
    assert len(list(shared.parameters())) * 2 == len(list(model.parameters()))


@pytest.mark.parametrize("shared", [True, False])
def test_a_side_of_which_nothing_is_given(base: Path, shared: bool) -> None:
    model = make(base, shared=shared)
    ids = model.inputs.entities(ENTITIES)
    assert model([], ids)[0].mentions is None
    assert model(ids, [])[0].entities is None
    assert model([], []) == [(None, None)]
    assert torch.equal(model([], ids)[0].entities.states, model.encode(ids, "entity").states)


def test_poolings_and_metrics(base: Path) -> None:
    ids = make(base).inputs.entities(ENTITIES)
    tokens = make(base, pooling="tokens", metric="dot").encode(ids, "entity")
    assert tokens.states.shape == (3, 16, 32)
    assert tokens.mask.sum(dim=1).tolist() == [len(row) for row in ids]
    mean = make(base, pooling="mean", metric="dot").encode(ids, "entity").states[:, 0]
    first = make(base, pooling="cls", metric="dot").encode(ids, "entity").states[:, 0]
    for row, (states, mask) in enumerate(zip(*tokens, strict=True)):
        torch.testing.assert_close(mean[row], states[mask].mean(dim=0))
        torch.testing.assert_close(first[row], states[0])
    unit = make(base, pooling="tokens").encode(ids, "entity")
    torch.testing.assert_close(unit.states.norm(dim=-1), unit.mask.float())


class Learns(Task[DescentSection, int]):
    """A task of which only the optimiser counts."""

    batches = size = gradients = judged = None  # type: ignore[assignment]  # never called


def test_what_the_optimiser_gets(base: Path) -> None:
    model = make(base)
    model.add_transformation(TransformationSettings())
    section = DescentSection(weight_decay=0.01)
    decaying, still = Learns(model, section).optimiser.param_groups
    assert (decaying["weight_decay"], still["weight_decay"]) == (0.01, 0.0)
    # A layer has 6 matrices, and 6 biases and 2 norms of two vectors that do not decay.
    assert (len(decaying["params"]), len(still["params"])) == (2 * 6, 2 * 10)
    model.freeze(embeddings=False)
    decaying, still = Learns(model, section).optimiser.param_groups
    assert (len(decaying["params"]), len(still["params"])) == (2 * 6 + 3, 2 * 10 + 2)


# ------------------------------------------------------------------------------- searching
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_searching_gives_the_vectors_of_training(
    base: Path, tmp_path: Path, shared: bool, metric: str
) -> None:
    model = make(base, shared=shared, metric=metric)
    shake(model)
    model.save(tmp_path / "model")
    encoder = open_encoder(tmp_path / "model")
    mentions = model.encode(model.inputs.mentions(MENTIONS), "mention").states[:, 0]
    entities = model.encode(model.inputs.entities(ENTITIES), "entity").states[:, 0]
    found = encoder.encode_mentions(MENTIONS)
    np.testing.assert_allclose(found, mentions.detach().numpy(), atol=1e-5)
    both = encoder.encode_entities(ENTITIES)
    np.testing.assert_allclose(both, entities.detach().numpy(), atol=1e-5)
    assert encoder.truncated == 1
    frozen = TokenEncoder(
        "frozen", model.mention.snapshot(FP32), FP32, "mean", cosine=metric == "cosine"
    )
    ids = model.inputs.mentions(MENTIONS)
    assert np.array_equal(frozen.vectors(ids), found)
    shake(model)
    assert np.array_equal(frozen.vectors(ids), found)


def test_names_alone_are_entities_of_one_name(base: Path, tmp_path: Path) -> None:
    make(base).save(tmp_path / "model")
    encoder = open_encoder(tmp_path / "model")
    expected = encoder.encode_entities([Entity("", "grey heron"), Entity("", "amber " * 14)])
    assert encoder.truncated == 1
    found = encoder.encode(["grey heron", "amber " * 14, "grey heron"])
    np.testing.assert_allclose(found, expected[[0, 1, 0]], atol=1e-6)
    assert encoder.count_truncated(["amber " * 13, "amber " * 14]) == 1
    assert [len(ids) for ids in encoder._loaded.tokenise(["amber"]).ids] == [
        4
    ]  # [CLS], amber, the tag, [SEP]
    assert (encoder.dim, encoder.max_tokens) == (32, 16)


def test_token_matrices_are_the_states_in_bf16(base: Path, tmp_path: Path) -> None:
    model = make(base, pooling="tokens", scorer="sum_of_max")
    model.save(tmp_path / "model")
    encoder = open_encoder(tmp_path / "model")
    found = encoder.entity_matrices(ENTITIES)
    ids = model.inputs.entities(ENTITIES)
    assert np.diff(found.offsets).tolist() == [len(row) for row in ids]
    assert found.bits.nbytes == 2 * 32 * sum(map(len, ids))
    states, mask = model.encode(ids, "entity")
    for row, (start, stop) in enumerate(zip(found.offsets, found.offsets[1:], strict=False)):
        values = as_bf16(found.bits[start:stop])
        assert values.dtype == torch.bfloat16
        torch.testing.assert_close(values.float(), states[row][mask[row]], atol=4e-3, rtol=4e-3)
    mentions = encoder.mention_matrices(MENTIONS)
    assert np.diff(mentions.offsets).tolist() == [
        len(row) for row in model.inputs.mentions(MENTIONS)
    ]


def test_one_vector_for_each_text_has_no_matrices(base: Path, tmp_path: Path) -> None:
    make(base).save(tmp_path / "model")
    encoder = open_encoder(tmp_path / "model")
    with pytest.raises(UsageError, match="one vector for each text"):
        encoder.mention_matrices(MENTIONS)
    with pytest.raises(UsageError, match="one vector for each text"):
        encoder.entity_matrices(ENTITIES)


def test_matrices_do_not_depend_on_threads(base: Path) -> None:
    model = make(base, pooling="tokens")
    many = [Entity(str(row), "heron " * (row % 11)) for row in range(300)]
    results = set()
    for threads in (1, 3):
        hardware = choose_hardware("cpu", "fp32", threads)
        encoder = TokenEncoder("frozen", model.entity.snapshot(hardware), hardware, "tokens")
        results.add(encoder.matrices(model.inputs.entities(many)).bits.tobytes())
    assert len(results) == 1


def test_a_bi_encoder_from_the_default_model() -> None:
    model = load_bi_encoder(hardware=FP32)
    assert (model.dim, model.base.name, model.inputs.tag_ids) == (384, "minilm", (1, 2, 3))
    assert model.settings == BiEncoderSettings()
    assert model.training
    assert not any(p.requires_grad for p in model.mention.get_submodule("embeddings").parameters())


def test_a_base_that_is_not_like_bert(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "gpt2", model_type="gpt2")
    with pytest.raises(ModelError, match="towers are encoders like BERT"):
        load_bi_encoder(folder, hardware=FP32)


def test_broken_weights_are_named(tmp_path: Path) -> None:
    weights = bert_weights()
    weights["encoder.layer.1.output.dense.bias"][3] = np.nan
    folder = write_model(tmp_path / "nan", weights)
    make(folder).save(tmp_path / "model")
    with pytest.raises(ModelError, match="not finite"):
        open_encoder(tmp_path / "model").encode_mentions(MENTIONS)
