"""Towers: the states of transformers, their gradients, and what training adds to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kglink.errors import ConfigError, ModelError
from kglink.models import choose_hardware, resolve_model
from kglink.models.inputs import IdArray
from kglink.models.loading import load_transformer
from kglink.models.packed import PackedTower
from kglink.models.padded import PaddedTower
from kglink.models.runtime import SecondTexts, TokenEncoder
from kglink.models.source import ModelSource, read_config
from kglink.models.tower import LaidTexts, TokenBatch, Tower, encoded, pack, pool
from kglink.models.towers import load_tower, training_dtype
from tiny_models import bert_weights, write_model

FP32 = choose_hardware("cpu", "fp32", 2)
LENGTHS = [5, 24, 22, 3, 13, 24, 9, 8, 8, 2, 17]


def texts_of(lengths: Sequence[int], vocabulary: int = 15) -> list[IdArray]:
    rng = np.random.default_rng(0)
    return [rng.integers(2, vocabulary, length).astype(np.int32) for length in lengths]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return resolve_model(str(write_model(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture
def tower(source: ModelSource) -> Tower:
    return load_tower(source, FP32).eval()


@pytest.fixture(scope="module")
def minilm() -> Tower:
    return load_tower(resolve_model(), FP32).eval()


def reference(folder: Path) -> Any:
    from transformers import BertModel, utils

    quiet: Any = utils.logging
    quiet.set_verbosity_error()
    return BertModel.from_pretrained(folder, add_pooling_layer=False).train(mode=False)


def states_of(model: Any, texts: Sequence[IdArray]) -> list[Tensor]:
    """The oracle: transformers, one text at a time."""
    rows = [torch.from_numpy(text.astype(np.int64)).unsqueeze(0) for text in texts]
    return [model(input_ids=row).last_hidden_state[0] for row in rows]


def by_text(states: Tensor, batch: TokenBatch) -> list[Tensor]:
    """The states of each text, in the caller's order."""
    whole = encoded(states, batch, "tokens")
    return [row[mask] for row, mask in zip(whole.states, whole.mask, strict=True)]


@pytest.mark.parametrize("lengths", [LENGTHS, [24] * 3, [2], [20, 19, 18, 17, 16]], ids=str)
def test_states_are_those_of_transformers(
    tower: Tower, source: ModelSource, lengths: list[int]
) -> None:
    texts = texts_of(lengths)
    batch = pack(texts)
    expected = states_of(reference(source.path), texts)
    for ours, theirs in zip(by_text(tower(batch), batch), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_states_are_those_of_transformers_for_minilm(minilm: Tower) -> None:
    texts = texts_of([64, 7, 63, 30, 51, 64, 12], 30000)
    batch = pack(texts)
    ours = by_text(minilm(batch), batch)
    expected = states_of(reference(resolve_model().path), texts)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_two_texts_read_together_are_told_apart_as_transformers_does(minilm: Tower) -> None:
    """All three ways: the trained tower, what it is searched with, and the padded one."""
    lengths, seconds = [64, 7, 63, 30], [20, 3, 63, 1]
    texts = texts_of(lengths, 30000)
    model = reference(resolve_model().path)
    expected = []
    for text, second in zip(texts, seconds, strict=True):
        row = torch.from_numpy(text.astype(np.int64)).unsqueeze(0)
        kinds = (torch.arange(len(text)) >= second).long().unsqueeze(0)
        expected.append(model(input_ids=row, token_type_ids=kinds).last_hidden_state[0])
    batch = pack(texts, seconds=seconds)
    source = resolve_model()
    whole = load_transformer("AutoModel", source, dtype=torch.float32)
    padded = PaddedTower(whole, read_config(source.path), source.dim, torch.float32).eval()
    for tower in (minilm, padded):
        for one, other in zip(by_text(tower(batch), batch), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
        encoder = TokenEncoder("two", tower.snapshot(FP32), FP32, "cls")
        firsts = encoder.firsts(texts, lambda states: states, SecondTexts(seconds))
        wanted = torch.stack([states[0] for states in expected]).detach().numpy()
        np.testing.assert_allclose(firsts, wanted, atol=1e-5)


def test_padding_between_two_texts_moves_the_second_as_in_transformers(minilm: Tower) -> None:
    """BLINK's layout: the first text is padded to 24 tokens, and nothing attends to the padding."""
    lengths, seconds, at = [64, 7, 33], [20, 3, 24], 24
    texts = texts_of(lengths, 30000)
    model = reference(resolve_model().path)
    expected = []
    for text, second in zip(texts, seconds, strict=True):
        gap = [0] * (at - second)
        row = torch.tensor([[*text[:second].tolist(), *gap, *text[second:].tolist()]])
        mask = torch.ones_like(row)
        mask[0, second:at] = 0
        kinds = (torch.arange(row.shape[1]) >= at).long().unsqueeze(0)
        found = model(input_ids=row, attention_mask=mask, token_type_ids=kinds)
        expected.append(found.last_hidden_state[0, 0])
    wanted = torch.stack(expected).detach()
    batch = pack(texts, seconds=seconds, second_at=at)
    torch.testing.assert_close(pool(minilm(batch), batch, "cls"), wanted, atol=1e-5, rtol=0)
    encoder = TokenEncoder("two", minilm.snapshot(FP32), FP32, "cls")
    firsts = encoder.firsts(texts, lambda states: states, SecondTexts(seconds, at))
    np.testing.assert_allclose(firsts, wanted.numpy(), atol=1e-5)
    source = resolve_model()
    whole = load_transformer("AutoModel", source, dtype=torch.float32)
    other = PaddedTower(whole, read_config(source.path), source.dim, torch.float32).eval()
    with pytest.raises(ModelError, match="plain BERT"):
        TokenEncoder("two", other, FP32, "cls").firsts(
            texts, lambda states: states, SecondTexts(seconds, at)
        )


def test_gradients_are_those_of_transformers(tower: Tower, source: ModelSource) -> None:
    texts, model = texts_of(LENGTHS), reference(source.path)
    batch = pack(texts)
    weights = torch.randn(len(texts), 32, generator=torch.Generator().manual_seed(1))
    torch.autograd.backward((pool(tower(batch), batch, "mean") * weights).sum())
    means = torch.stack([states.mean(dim=0) for states in states_of(model, texts)])
    torch.autograd.backward((means * weights).sum())
    own = dict(tower.named_parameters())
    names = [name for name, _ in model.named_parameters()]
    assert sorted(names) == sorted(own)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(own[name].grad, parameter.grad, atol=2e-5, rtol=1e-3)


def test_pooled_vectors_are_those_of_the_runtime(minilm: Tower) -> None:
    texts = texts_of([64, 7, 63, 30, 51, 64, 12], 30000)
    batch = pack(texts)
    vectors = encoded(minilm(batch), batch, "mean", cosine=True).states[:, 0].detach().numpy()
    encoder = TokenEncoder("minilm", minilm.snapshot(FP32), FP32, "mean")
    np.testing.assert_allclose(encoder.vectors(texts), vectors, atol=2e-6)


def test_bf16_gives_nearly_the_same_gradients(source: ModelSource, tower: Tower) -> None:
    rounded = load_tower(source, choose_hardware("cpu", "bf16", 2)).eval()
    texts = texts_of(LENGTHS)
    batch = pack(texts)
    weights = torch.randn(len(texts), 32, generator=torch.Generator().manual_seed(1))
    for model in (tower, rounded):
        torch.autograd.backward((pool(model(batch), batch, "mean") * weights).sum())
    pairs = zip(tower.named_parameters(), rounded.parameters(), strict=True)
    for (name, exact), near in pairs:
        if not name.endswith("key.bias"):  # which has no effect, so that its gradient is noise
            assert near.dtype == torch.float32
            assert exact.grad is not None
            assert near.grad is not None
            assert torch.cosine_similarity(exact.grad.ravel(), near.grad.ravel(), 0) > 0.995, name


def test_training_is_in_bf16_only_where_the_hardware_gains() -> None:
    assert training_dtype(FP32) == torch.float32
    assert training_dtype(choose_hardware("cpu", "bf16", 1)) == torch.bfloat16


def test_a_snapshot_does_not_change_with_the_tower(tower: Tower) -> None:
    texts = texts_of([5, 5, 3])
    ids, lengths = torch.from_numpy(np.concatenate(texts)), [5, 5, 3]
    kept = tower.snapshot(FP32)
    before = kept.states(LaidTexts(ids, lengths))
    torch.testing.assert_close(before, tower(pack(texts)), atol=1e-5, rtol=0)
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.add_(1)
    assert torch.equal(kept.states(LaidTexts(ids, lengths)), before)


# --------------------------------------------------------------------------------- training
def test_one_seed_gives_the_same_losses(source: ModelSource) -> None:
    def losses() -> list[float]:
        torch.manual_seed(11)
        model, batch = load_tower(source, FP32), pack(texts_of(LENGTHS))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = pool(model(batch), batch, "mean").square().mean()
            torch.autograd.backward(loss)
            optimizer.step()
            found.append(loss.item())
        return found

    first = losses()
    assert losses() == first
    assert len(set(first)) == 4


def test_dropout_only_in_training(tower: Tower) -> None:
    batch = pack(texts_of([7, 5]))
    assert torch.equal(tower(batch), tower(batch))
    tower.train()
    assert not torch.equal(tower(batch), tower(batch))


def test_frozen_embeddings_have_no_gradient(tower: Tower) -> None:
    tower.freeze_embeddings()
    batch = pack(texts_of([7, 5]))
    torch.autograd.backward(tower(batch).sum())
    with_gradient = {name for name, p in tower.named_parameters() if p.grad is not None}
    assert with_gradient == {
        name for name, _ in tower.named_parameters() if not name.startswith("embeddings")
    }
    tower.freeze_embeddings(False)
    torch.autograd.backward(tower(batch).sum())
    assert all(parameter.grad is not None for parameter in tower.parameters())


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_view_that_changes_nothing_changes_nothing(tower: Tower, layer: int) -> None:
    batch = pack(texts_of(LENGTHS))
    plain, changed = tower.views(batch, layer, lambda states: states + 0)
    assert torch.equal(plain, tower(batch))
    assert torch.equal(plain, changed)
    (alone,) = tower.views(batch, layer, lambda states: states + 1, plain=False)
    assert not torch.allclose(alone, changed)


def test_upper_layers_drop_out_on_their_own_and_lower_ones_together(tower: Tower) -> None:
    tower.train()
    batch = pack(texts_of(LENGTHS))
    plain, changed = tower.views(batch, 1, lambda states: states)
    assert plain is not None
    assert not torch.equal(plain, changed)
    plain, changed = tower.views(batch, 2, lambda states: states)
    assert plain is not None
    assert torch.equal(plain, changed)


@pytest.mark.parametrize("layer", [-1, 3])
def test_a_layer_that_is_not_there(tower: Tower, layer: int) -> None:
    with pytest.raises(ConfigError, match="and the model has 2"):
        tower.views(pack(texts_of([3])), layer, lambda states: states)


def test_added_rows_are_the_same_each_time(source: ModelSource) -> None:
    table = "embeddings.word_embeddings.weight"
    first, again = (load_tower(source, FP32, rows=18).weights()[table] for _ in range(2))
    assert first.shape == (18, 32)
    assert torch.equal(first, again)
    assert torch.equal(first[:15], torch.from_numpy(bert_weights()[table]))
    assert len({tuple(row.tolist()) for row in first[15:]}) == 3


# -------------------------------------------------------------------------- other encoders
def other_model(folder: Path, kind: str) -> ModelSource:
    """A tiny encoder of another family, with the tokenizer of the tiny BERT."""
    from transformers import DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel

    write_model(folder)
    torch.manual_seed(0)
    if kind == "distilbert":
        small = DistilBertConfig(vocab_size=15, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
        DistilBertModel(small).save_pretrained(folder)
    else:
        config = RobertaConfig(
            vocab_size=15,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=30,
        )
        RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return resolve_model(str(folder))


@pytest.mark.parametrize("kind", ["distilbert", "roberta"])
def test_other_encoders_train_through_transformers(tmp_path: Path, kind: str) -> None:
    from transformers import AutoModel

    source = other_model(tmp_path / kind, kind)
    tower = load_tower(source, FP32).eval()
    texts = texts_of([5, 20, 9, 2])
    batch = pack(texts)
    model = AutoModel.from_pretrained(source.path).train(mode=False)
    for ours, theirs in zip(by_text(tower(batch), batch), states_of(model, texts), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    for layer in range(3):
        plain, same = tower.views(batch, layer, lambda states: states + 0)
        assert plain is not None
        assert torch.equal(plain, same)
    _, changed = tower.views(batch, 1, lambda states: states * 2)
    torch.autograd.backward(changed.square().sum())
    lower = [p for name, p in tower.named_parameters() if "layer.0" in name]
    assert lower
    assert all(parameter.grad is not None for parameter in lower)
    kept = tower.snapshot(FP32)
    ids = torch.from_numpy(np.concatenate(texts))
    expected = torch.cat(by_text(tower(batch), batch))
    torch.testing.assert_close(
        kept.states(LaidTexts(ids, [5, 20, 9, 2])), expected, atol=1e-5, rtol=0
    )


def test_other_encoders_share_the_dropout_of_the_lower_layers(tmp_path: Path) -> None:
    source = other_model(tmp_path / "roberta", "roberta")
    tower = load_tower(source, FP32)
    seen: list[Tensor] = []

    def keep(states: Tensor) -> Tensor:
        seen.append(states)
        return states

    plain, changed = tower.views(pack(texts_of([9, 4])), 1, keep)
    assert plain is not None
    assert not torch.equal(plain, changed)
    assert len(seen) == 1


def test_added_rows_of_another_encoder(tmp_path: Path) -> None:
    source = other_model(tmp_path / "roberta", "roberta")
    tower = load_tower(source, FP32, rows=18)
    assert tower.config["vocab_size"] == 18
    table = tower.weights()["embeddings.word_embeddings.weight"]
    assert table.shape == (18, 32)
    again = load_tower(source, FP32, rows=18).weights()["embeddings.word_embeddings.weight"]
    assert torch.equal(table, again)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gpt2", "n_embd": 32},
        {"model_type": "t5", "d_model": 32, "is_encoder_decoder": True},
        {"model_type": "bert", "is_decoder": True},
        {"model_type": "llama"},
        {"model_type": ""},
    ],
    ids=lambda config: str(config["model_type"]),
)
def test_a_model_that_is_not_like_bert(tmp_path: Path, config: dict[str, Any]) -> None:
    source = resolve_model(str(write_model(tmp_path / "other", **config)))
    with pytest.raises(ModelError, match="towers are encoders like BERT") as caught:
        load_tower(source, FP32)
    assert "RoBERTa" in caught.value.hint


@pytest.mark.parametrize("damage", ["missing", "shape"])
def test_weights_that_do_not_fit(tmp_path: Path, damage: str) -> None:
    weights, name = bert_weights(), "encoder.layer.1.output.dense.bias"
    if damage == "missing":
        del weights[name]
    else:
        weights[name] = weights[name][:5]
    source = resolve_model(str(write_model(tmp_path / damage, weights)))
    with pytest.raises(ModelError, match=r"do not fit config\.json: encoder\.layer\.1\.output"):
        load_tower(source, FP32)


def test_the_configuration_of_a_tower_is_that_of_its_folder(
    tower: Tower, source: ModelSource
) -> None:
    assert isinstance(tower, PackedTower)
    assert dict(tower.config) == json.loads((source.path / "config.json").read_text())
