"""Workers of one core each give the gradients of one pass, and the same ones each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bi_encoders import make
from kglink.models.bi_encoder import BiEncoder
from kglink.models.settings import TransformationSettings
from kglink.models.tokenise import IdArray
from tiny_models import write_model

RNG = np.random.default_rng(0)
MENTIONS, ENTITIES = (
    [RNG.integers(2, 15, RNG.integers(3, 17)).astype(np.int32) for _ in range(count)]
    for count in (9, 7)
)
DOMAINS = ([0, 1, 2] * 3, [0, 0, 1, 1, 2, 2, 0])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def step(model: BiEncoder, view: Any) -> tuple[list[Tensor], dict[str, Tensor]]:
    """What a batch was encoded as, and the gradients of a loss on it."""
    model.zero_grad()
    output = model(MENTIONS, ENTITIES, view=view, domains=DOMAINS)
    vectors = [side.states for pair in output if pair is not None for side in pair]
    torch.autograd.backward(sum((part.sin() * part).sum() for part in vectors))
    return vectors, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
@pytest.mark.parametrize("view", ["plain", "both", "transformed"])
@pytest.mark.parametrize("shared", [True, False])
def test_gradients_are_those_of_one_pass(base: Path, pooling: str, view: str, shared: bool) -> None:
    model = make(base, pooling=pooling, shared=shared, metric="dot")
    transformation = model.add_transformation(TransformationSettings(per_domain=True), domains=3)
    with torch.no_grad():
        for matrix in transformation.parameters():
            matrix.copy_(torch.randn(matrix.shape, generator=torch.Generator().manual_seed(1)) / 50)
    vectors, gradients = step(model, view)
    model.use_workers(3)
    by_workers, found = step(model, view)
    assert len(vectors) == len(by_workers) == (4 if view == "both" else 2)
    for one, other in zip(vectors, by_workers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert found.keys() == gradients.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, gradients[name], atol=1e-3, rtol=1e-3)


def test_one_seed_gives_the_same_bytes(base: Path) -> None:
    model = make(base).train()
    model.use_workers(2)
    runs = []
    for _ in range(3):
        torch.manual_seed(4)
        vectors, gradients = step(model, "plain")
        values = [*vectors, *gradients.values(), torch.rand(1)]
        runs.append([value.detach().numpy().tobytes() for value in values])
    assert runs[0] == runs[1] == runs[2]
    torch.manual_seed(5)
    assert step(model, "plain")[0][0].detach().numpy().tobytes() != runs[0][0]


def test_without_gradients_there_is_no_graph(base: Path) -> None:
    model = make(base)
    model.use_workers(2)
    with torch.no_grad():
        pair = model(MENTIONS, ENTITIES).plain
    assert not pair.mentions.states.requires_grad
    texts: list[IdArray] = MENTIONS[:1]
    assert model(texts, []).plain.mentions.states.requires_grad  # too few texts to share out
