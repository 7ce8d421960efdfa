"""The overlap model: by hand, against scipy's optimiser, and unmoved by a handful of verdicts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from calibration import calibration, calibration_error
from kglink.errors import ModelError
from kglink.overlap.model import (
    OverlapModel,
    Weight,
    default_model,
    fit,
    model_from_json,
    read_model,
)

MODEL = OverlapModel(
    name="small",
    evidence=("kglink/names",),
    bias=-1.0,
    weights={"name": Weight(weight=2.0, absent=-0.5), "text": Weight(weight=4.0, absent=0.25)},
)


def sigmoid(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


@pytest.mark.parametrize(
    ("values", "odds"),
    [
        ({"name": 1.0, "text": 0.5}, -1 + 2 + 2),
        ({"name": 0.0, "text": -1.0}, -1 - 4),
        ({"text": 0.5}, -1 - 0.5 + 2),
        ({}, -1 - 0.5 + 0.25),
        ({"name": 1.0, "text": 0.0, "stranger": 9.0}, 1.0),
    ],
)
def test_log_odds_by_hand(values: dict[str, float], odds: float) -> None:
    assert MODEL.log_odds(values) == pytest.approx(odds)
    assert MODEL.probability(values) == pytest.approx(sigmoid(odds))


def test_extreme_odds_do_not_overflow() -> None:
    far = OverlapModel(name="far", evidence=(), bias=0, weights={"x": Weight(weight=5000)})
    assert far.probability({"x": 1.0}) == 1
    assert far.probability({"x": -1.0}) == 0


def lessons(count: int, seed: int = 3) -> tuple[list[dict[str, float]], list[bool]]:
    """Pairs whose verdicts follow from their text, and in a tenth of the cases from chance."""
    rng = np.random.default_rng(seed)
    values: list[dict[str, float]] = []
    for _ in range(count):
        known = {"name": float(rng.integers(2)), "text": float(rng.uniform(-1, 1))}
        values.append({name: v for name, v in known.items() if rng.random() < 0.8})
    verdicts = [
        bool(one.get("text", 0) > 0.3) if rng.random() < 0.9 else bool(rng.integers(2))
        for one in values
    ]
    return values, verdicts


def test_the_fit_is_the_most_probable_model() -> None:
    """The same minimum as scipy finds for minus the log of the posterior, written out plainly."""
    values, verdicts = lessons(60)
    weights = [1.0 if at % 3 else 0.5 for at in range(60)]

    def cost(flat: np.ndarray) -> float:
        bias, w_name, a_name, w_text, a_text = flat
        total = 0.5 * sum((flat - np.array([-1.0, 2.0, -0.5, 4.0, 0.25])) ** 2) / 1.5**2
        for one, right, count in zip(values, verdicts, weights, strict=True):
            odds = bias + (w_name * one["name"] if "name" in one else a_name)
            odds += w_text * one["text"] if "text" in one else a_text
            total -= count * math.log(sigmoid(odds if right else -odds))
        return float(total)

    wanted = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    found = fit(values, verdicts, MODEL, spread=1.5, sample_weights=weights)
    flat = [found.bias]
    for name in ("name", "text"):
        flat += [found.weights[name].weight, found.weights[name].absent]
    assert flat == pytest.approx(wanted, abs=1e-4)
    assert (found.correct, found.wrong) == (sum(verdicts), 60 - sum(verdicts))
    assert found.evidence == ("kglink/names",)


def test_without_verdicts_the_default_stays() -> None:
    found = fit([], [], MODEL)
    assert found.weights == MODEL.weights
    assert found.bias == MODEL.bias


def test_ten_one_sided_verdicts_do_not_ruin_it() -> None:
    """Ten times wrong for a pair that the default is sure of: it is less sure, no more."""
    found = fit([{"name": 1.0, "text": 0.9}] * 10, [False] * 10, MODEL)
    assert found.probability({"name": 1.0, "text": 0.9}) < MODEL.probability(
        {"name": 1.0, "text": 0.9}
    )
    assert found.weights["text"].weight > 1
    assert found.probability({"name": 0.0, "text": 0.0}) < 0.5
    ranked = [{"text": -1.0}, {"name": 0.0, "text": 0.0}, {"name": 0.0, "text": 1.0}]
    assert sorted(ranked, key=found.probability) == ranked


def test_many_verdicts_win_over_the_default() -> None:
    """A value that decides against what the default says of it."""
    values = [{"text": 0.8}, {"text": -0.8}] * 500
    found = fit(values, [False, True] * 500, MODEL)
    assert found.probability({"text": 0.8}) < 0.1
    assert found.probability({"text": -0.8}) > 0.9


def test_a_value_that_is_new_gets_a_weight() -> None:
    found = fit([{"type": 1.0}, {"type": -1.0}] * 50, [True, False] * 50, MODEL)
    assert found.weights["type"].weight > 1


def test_trained_on_half_it_is_calibrated_on_the_other_half() -> None:
    values, _ = lessons(4000)
    truth = OverlapModel(
        name="truth", evidence=(), bias=0.5, weights={"text": Weight(weight=-3.0, absent=1.0)}
    )
    chance = np.random.default_rng(5).random(len(values))
    verdicts = [
        bool(truth.probability(one) > luck) for one, luck in zip(values, chance, strict=True)
    ]
    model = fit(values[:2000], verdicts[:2000], MODEL)
    probabilities = [model.probability(one) for one in values[2000:]]
    trained = calibration_error(calibration(probabilities, verdicts[2000:]))
    default = [MODEL.probability(one) for one in values[2000:]]
    assert trained < 0.04
    assert trained < calibration_error(calibration(default, verdicts[2000:])) / 2


def test_calibration_by_hand() -> None:
    bins = calibration([0.1, 0.2, 0.9, 1.0], [False, True, True, True], bins=2)
    assert [(one.low, one.high, one.pairs) for one in bins] == [(0, 0.5, 2), (0.5, 1, 2)]
    assert bins[0].mean_probability == pytest.approx(0.15)
    assert [one.share_correct for one in bins] == [0.5, 1]
    assert calibration_error(bins) == pytest.approx((2 * 0.35 + 2 * 0.05) / 4)
    assert calibration_error([]) == 0


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    trained = fit(*lessons(20), MODEL)
    path = tmp_path / "model.json"
    path.write_text(trained.to_json())
    assert read_model(path) == trained
    assert read_model(path).fingerprint == trained.fingerprint != MODEL.fingerprint
    assert trained.title == f"trained on {trained.correct} correct and {trained.wrong} wrong pairs"


def changed(**changes: object) -> str:
    return json.dumps(json.loads(MODEL.to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file"),
        ("{", "the file"),
        ("[]", "the file"),
        (changed(bias="much"), "bias"),
        (changed(bias=None), "bias"),
        (changed(weights={"name": 3}), "weights.name"),
        (changed(weights={"name": {"weight": 1, "colour": 2}}), "weights.name.colour"),
        (changed(format=99), "format 99"),
        (MODEL.to_json().replace("-1.0", "NaN"), "the file|bias"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=message) as caught:
        read_model(path)
    assert str(path) in caught.value.message
    assert "kglink overlap train" in caught.value.hint


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(tmp_path / "none.json")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(tmp_path / "bytes")


def test_the_default_model_is_sound() -> None:
    model = default_model()
    assert model.name == "default"
    assert model.evidence
    assert (model.correct, model.wrong) == (0, 0)
    assert model_from_json(model.to_json(), "again") == model
    assert model.probability({}) < 0.5, "a pair of which nothing is known is none"
