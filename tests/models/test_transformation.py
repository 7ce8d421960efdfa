"""The transformational encoder: A by hand, its ball, its climb, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kglink.errors import ConfigError, UsageError
from kglink.models import choose_hardware
from kglink.models.bi_encoder import BiEncoder, Pair, load_bi_encoder
from kglink.models.inputs import IdArray
from kglink.models.settings import BiEncoderSettings, InputSettings, TransformationSettings
from kglink.models.transformation import Ascent, Transformation
from tiny_models import write_model

SETTINGS = BiEncoderSettings(
    metric="dot", inputs=InputSettings(mention_tokens=16, entity_tokens=16)
)
FP32 = choose_hardware("cpu", "fp32", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def texts_of(*lengths: int) -> list[IdArray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.integers(2, 15, length).astype(np.int32) for length in lengths]


MENTIONS, ENTITIES = texts_of(9, 16, 16, 4), texts_of(3, 11, 10, 7, 12)[:4]


def model_with(
    folder: Path, *, shared: bool = True, domains: int = 1, **settings: Any
) -> BiEncoder:
    chosen = SETTINGS.model_copy(update={"shared": shared})
    model = load_bi_encoder(folder, settings=chosen, hardware=FP32)
    model.add_transformation(TransformationSettings(**settings), domains=domains)
    return model.eval()


def loss_of(pair: Pair | None) -> Tensor:
    """In-batch softmax."""
    assert pair is not None
    assert pair.mentions is not None
    assert pair.entities is not None
    scores = pair.mentions.states[:, 0] @ pair.entities.states[:, 0].T
    return torch.nn.functional.cross_entropy(scores / 10, torch.arange(len(scores)))


def a_of(model: BiEncoder) -> Transformation:
    assert model.transformation is not None
    return model.transformation


def test_z_plus_a_z_by_hand() -> None:
    transformation = Transformation(2, TransformationSettings())
    with torch.no_grad():
        transformation.matrices["mention"].copy_(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    # Each state is a column of Z: A (1, 2) = (2, 0).
    assert transformation(states, "mention").tolist() == [[3, 2], [7, 4]]
    assert transformation(states, "entity").tolist() == states.tolist()


def test_each_domain_has_its_own_matrix() -> None:
    transformation = Transformation(1, TransformationSettings(per_domain=True), domains=3)
    with torch.no_grad():
        transformation.matrices["entity"].copy_(torch.tensor([[[1.0]], [[2.0]], [[10.0]]]))
    states = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    moved = transformation(states, "entity", torch.tensor([1, 0, 1, 0]))
    assert moved.ravel().tolist() == [3, 4, 9, 8]
    with pytest.raises(UsageError, match="needs to be told the domains"):
        transformation(states, "entity")


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_without_a_both_losses_are_one(folder: Path, layer: int, shared: bool) -> None:
    model = model_with(folder, layer=layer, shared=shared)
    output = model(MENTIONS, ENTITIES, view="both")
    assert torch.equal(loss_of(output[0]), loss_of(output[1]))
    alone = model(MENTIONS, ENTITIES, view="transformed")
    assert len(alone) == 1
    assert torch.equal(loss_of(alone[0]), loss_of(output[0]))


@pytest.mark.parametrize("ascent", ["adam", "normalised"])
@pytest.mark.parametrize("per_domain", [False, True])
def test_every_step_stays_in_the_ball(folder: Path, ascent: str, per_domain: bool) -> None:
    settings: dict[str, Any] = {"ascent": ascent, "per_domain": per_domain}
    settings |= {"epsilon": 0.5, "learning_rate": 0.3}
    model = model_with(folder, domains=2, **settings)
    climb = Ascent(a_of(model))
    domains = ([0, 1, 0, 1], [0, 1, 1, 0])
    for _ in range(25):
        torch.autograd.backward(loss_of(model(MENTIONS, ENTITIES, view="both", domains=domains)[1]))
        climb.step()
        norms = [norm for side in a_of(model).norms().values() for norm in side]
        assert len(norms) == (4 if per_domain else 2)
        assert max(norms) <= 0.5
    assert min(norms) > 0.45


def test_a_random_beginning_has_the_norm_of_the_ball_and_comes_again() -> None:
    settings = TransformationSettings(epsilon=3, init="gaussian", per_domain=True)
    one, same, other = (Transformation(16, settings, domains=2, seed=seed) for seed in (1, 1, 2))
    norms = [norm for side in one.norms().values() for norm in side]
    assert norms == pytest.approx([3.0] * 4, rel=1e-5)
    assert max(norms) <= 3.0
    assert torch.equal(one.matrices["mention"], same.matrices["mention"])
    assert not torch.equal(one.matrices["mention"], other.matrices["mention"])
    assert not torch.equal(one.matrices["mention"], one.matrices["entity"])


def test_how_far_states_move_by_hand() -> None:
    transformation = Transformation(2, TransformationSettings(epsilon=10))
    with torch.no_grad():
        transformation.matrices["entity"].copy_(torch.tensor([[[0.0, 2.0], [0.0, 0.0]]]))
    # A (3, 4) = (8, 0): 8 of 5.
    moved = transformation(torch.tensor([[3.0, 4.0]]), "entity")
    assert moved.tolist() == [[11, 4]]
    assert Ascent(transformation).measures() == {
        "norm": {"mention": 0.0, "entity": 2.0},
        "moved": {"entity": pytest.approx(8 / 5)},
    }


def test_the_gradient_of_a_is_clipped_on_its_own() -> None:
    settings = TransformationSettings(epsilon=10, clip=0.5, ascent="adam")
    transformation = Transformation(2, settings)
    seen: list[torch.Tensor] = []
    climb = Ascent(transformation)
    assert climb._adam is not None
    climb._adam.register_step_pre_hook(
        lambda *_: seen.extend(one.grad.clone() for one in transformation.parameters())  # type: ignore[union-attr]  # all have one
    )
    for matrix, value in zip(transformation.parameters(), (3.0, 4.0), strict=True):
        matrix.grad = torch.zeros(1, 2, 2)
        matrix.grad[0, 0, 0] = value
    climb.step()
    assert [float(one.norm()) for one in seen] == pytest.approx([0.3, 0.4], rel=1e-4)


def test_projection_by_hand() -> None:
    transformation = Transformation(2, TransformationSettings(epsilon=1))
    with torch.no_grad():
        transformation.matrices["mention"].copy_(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
        transformation.matrices["entity"].copy_(torch.tensor([[[0.3, 0.0], [0.0, 0.4]]]))
    transformation.project()
    mention, entity = (transformation.matrices[side] for side in ("mention", "entity"))
    torch.testing.assert_close(mention[0], torch.tensor([[0.6, 0.0], [0.0, 0.8]]))
    assert torch.equal(entity[0], torch.tensor([[0.3, 0.0], [0.0, 0.4]]))


def test_the_normalised_step_by_hand() -> None:
    transformation = Transformation(2, TransformationSettings(epsilon=10, ascent="normalised"))
    mention = transformation.matrices["mention"]
    mention.grad = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])
    Ascent(transformation).step()
    # epsilon / 20 = 0.5 in the direction of the gradient, whose norm is 5.
    torch.testing.assert_close(mention.data[0], torch.tensor([[0.3, 0.0], [0.0, 0.4]]))
    assert not transformation.matrices["entity"].any()
    assert mention.grad is None


@pytest.mark.parametrize("ascent", ["adam", "normalised"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_step_of_a_alone_raises_the_loss(folder: Path, ascent: str, shared: bool) -> None:
    model = model_with(folder, shared=shared, ascent=ascent, epsilon=0.2, learning_rate=1e-3)
    climb = Ascent(a_of(model))
    losses = []
    for _ in range(4):
        output = model(MENTIONS, ENTITIES, view="both")
        torch.autograd.backward(loss_of(output[1]))
        climb.step()
        losses.append(loss_of(output[1]).item())
    assert losses == sorted(losses)
    assert losses[-1] > losses[0]
    after = model(MENTIONS, ENTITIES, view="both")
    assert loss_of(after[0]).item() == losses[0]


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_reach_the_layers_below(folder: Path, shared: bool) -> None:
    model = model_with(folder, shared=shared, layer=1)
    torch.autograd.backward(loss_of(model(MENTIONS, ENTITIES, view="transformed")[0]))
    below = [p for name, p in model.named_parameters() if "layer.0." in name]
    assert below
    assert all(p.grad is not None and bool(p.grad.any()) for p in below if p.ndim == 2)
    for matrix in a_of(model).parameters():
        assert matrix.grad is not None
        assert matrix.grad.any()


def test_the_plain_loss_leaves_a_alone(folder: Path) -> None:
    model = model_with(folder)
    torch.autograd.backward(loss_of(model(MENTIONS, ENTITIES, view="both")[0]))
    assert all(matrix.grad is None for matrix in a_of(model).parameters())


def test_a_is_off_when_encoding(folder: Path) -> None:
    model = model_with(folder)
    before = model.encode(MENTIONS, "mention").states
    with torch.no_grad():
        for matrix in a_of(model).parameters():
            matrix.fill_(1)
    assert torch.equal(model.encode(MENTIONS, "mention").states, before)
    changed = model(MENTIONS, ENTITIES, view="transformed")[0]
    assert not torch.allclose(changed.mentions.states, before)


def test_an_interrupted_climb_goes_on_as_if_nothing_had_been() -> None:
    def steps(count: int, transformation: Transformation, climb: Ascent) -> None:
        for number in range(count):
            for matrix in transformation.parameters():
                matrix.grad = torch.full_like(matrix, 1.0 + number)
            climb.step()

    whole, resumed = (Transformation(2, TransformationSettings()) for _ in range(2))
    climb = Ascent(whole)
    steps(2, whole, climb)
    resumed.load_state_dict(whole.state_dict())
    again = Ascent(resumed)
    again.load_state_dict(climb.state_dict())
    steps(3, whole, climb)
    steps(3, resumed, again)
    assert torch.equal(whole.matrices["mention"], resumed.matrices["mention"])


def test_what_cannot_be(folder: Path) -> None:
    model = load_bi_encoder(folder, settings=SETTINGS, hardware=FP32)
    with pytest.raises(UsageError, match="has no transformation"):
        model(MENTIONS, ENTITIES, view="both")
    with pytest.raises(ConfigError, match="after layer 3, and the model has 2"):
        model.add_transformation(TransformationSettings(layer=3))
