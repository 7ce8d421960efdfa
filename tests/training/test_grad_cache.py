"""Gradient caching gives the gradient of the whole batch, dropout included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.inputs import IdArray
from kglink.models.settings import BiEncoderSettings, InputSettings
from kglink.models.tower import join
from kglink.plugins import Encoded
from kglink.training.processes import Outputs, cached_backward
from tiny_models import write_model

Part = tuple[list[IdArray], list[IdArray]]


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], BiEncoder]:
    folder = write_model(tmp_path / "tiny")

    def load(pooling: str) -> BiEncoder:
        inputs = InputSettings(mention_tokens=16, entity_tokens=16)
        settings = BiEncoderSettings.model_validate({"pooling": pooling, "inputs": inputs})
        return load_bi_encoder(
            folder, settings=settings, hardware=choose_hardware("cpu", "fp32", 1)
        )

    return load


def parts_of(*sizes: int) -> list[Part]:
    rng = np.random.default_rng(0)

    def texts(count: int) -> list[IdArray]:
        return [rng.integers(2, 15, rng.integers(3, 17)).astype(np.int32) for _ in range(count)]

    return [(texts(size), texts(size)) for size in sizes]


def encode(model: BiEncoder, part: Part) -> Outputs:
    pair = model(*part)[0]
    return (*pair.mentions, *pair.entities)


def loss_of(outputs: list[Outputs]) -> Tensor:
    """Softmax over all entities of the batch, scored by the sum of maxima."""
    mentions = join([Encoded(*output[:2]) for output in outputs])
    entities = join([Encoded(*output[2:]) for output in outputs])
    scores = torch.einsum("mtd,esd->mets", mentions.states, entities.states)
    scores = scores.masked_fill(~entities.mask[None, :, None, :], -1e9).amax(dim=-1)
    totals = scores.masked_fill(~mentions.mask[:, None, :], 0).sum(dim=-1)
    return torch.nn.functional.cross_entropy(totals, torch.arange(len(totals)))


def gradients(model: BiEncoder) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
@pytest.mark.parametrize("training", [True, False], ids=["dropout", "no dropout"])
def test_cached_gradients_are_those_of_all_parts_at_once(
    make: Callable[[str], BiEncoder], pooling: str, training: bool
) -> None:
    parts = parts_of(3, 2, 4)
    model = make(pooling).train(training)
    torch.manual_seed(1)
    direct = loss_of([encode(model, part) for part in parts])
    torch.autograd.backward(direct)
    expected, after = gradients(model), torch.rand(1)
    model.zero_grad()
    torch.manual_seed(1)
    cached = cached_backward(lambda part: encode(model, part), parts, loss_of)
    assert torch.equal(cached, direct)
    found = gradients(model)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-4)
    assert torch.equal(torch.rand(1), after)


def test_in_evaluation_mode_parts_are_the_whole_batch(make: Callable[[str], BiEncoder]) -> None:
    parts = parts_of(3, 2, 4)
    whole = ([m for part in parts for m in part[0]], [e for part in parts for e in part[1]])
    model = make("mean").eval()
    torch.autograd.backward(loss_of([encode(model, whole)]))
    expected = gradients(model)
    model.zero_grad()
    cached_backward(lambda part: encode(model, part), parts, loss_of)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-4)


def test_gradients_of_several_losses_add_up(make: Callable[[str], BiEncoder]) -> None:
    model, parts = make("mean").eval(), parts_of(2, 2)
    once = cached_backward(lambda part: encode(model, part), parts, loss_of)
    single = {name: gradient.clone() for name, gradient in gradients(model).items()}
    half = cached_backward(lambda part: encode(model, part), parts, lambda got: loss_of(got) / 2)
    assert torch.equal(once, 2 * half)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, 1.5 * single[name], atol=1e-6, rtol=1e-4)
