"""The model that makes one probability of all evidence: a logistic regression over named values.

A value that is known adds its weight times itself to the log odds; one that is not known adds
what the model says for its absence. The default model is data (`default_model.json`). Training
looks for the weights that explain the verdicts best and lie near the default ones, which count
as if each were known to within one: a few verdicts move them a little.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from kglink.arrays import DoubleArray
from kglink.errors import ModelError
from kglink.files.digest import text_digest

FORMAT = 1
DEFAULT_FILE = "default_model.json"
CORE_FILE = "core_model.json"
Values = Mapping[str, float]

_STEPS = 100
_CONVERGED = 1e-9
_MOST_HALVINGS = 40


class Weight(BaseModel):
    """What a value adds to the log odds: ``weight`` times itself, or ``absent``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    weight: float
    absent: float = 0.0


class OverlapModel(BaseModel):
    """Weights by the name of the value; values that have none count for nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    format: int = FORMAT
    name: str
    evidence: tuple[str, ...]
    """The evidence that its values come from."""
    bias: float
    weights: dict[str, Weight]
    correct: int = 0
    """Verdicts that it was trained on."""
    wrong: int = 0

    @property
    def title(self) -> str:
        """What reports call it."""
        if not (self.correct or self.wrong):
            return self.name
        return f"{self.name} on {self.correct:,} correct and {self.wrong:,} wrong pairs"

    @property
    def fingerprint(self) -> str:
        """Changes whenever the model does."""
        return text_digest(self.to_json(), size=8)

    def log_odds(self, values: Values) -> float:
        """The log odds of a pair with these values."""
        total = self.bias
        for name, weight in self.weights.items():
            value = values.get(name)
            total += weight.absent if value is None else weight.weight * value
        return total

    def probability(self, values: Values) -> float:
        """How probably a pair with these values is one and the same thing."""
        odds = self.log_odds(values)
        if odds >= 0:
            return 1 / (1 + math.exp(-odds))
        grown = math.exp(odds)
        return grown / (1 + grown)

    def to_json(self) -> str:
        """The model as text; `read_model` reads it."""
        return self.model_dump_json(indent=1)


def default_model(evidence: Collection[str] = ()) -> OverlapModel:
    """The model that is used before there are verdicts.

    One model is for all built-in evidence, and tolerates that some is left out. If more than half
    is left out, the model for names and descriptions is used.
    """
    whole, core = (
        model_from_json(files("kglink.overlap").joinpath(name).read_text(encoding="utf-8"), name)
        for name in (DEFAULT_FILE, CORE_FILE)
    )
    used = len(set(whole.evidence) & set(evidence))
    return whole if not evidence or 2 * used >= len(whole.evidence) else core


def read_model(path: Path) -> OverlapModel:
    """A model that was trained and kept."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    return model_from_json(text, str(path))


def model_from_json(text: str, where: str) -> OverlapModel:
    """Read a model; ``where`` is named in errors."""
    try:
        model = OverlapModel.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the file"
        raise ModelError(
            f"{where}: no overlap model: {place}: {problem['msg']}",
            hint="Remove the file and run `kglink overlap train` again.",
        ) from error
    if model.format != FORMAT:
        raise ModelError(
            f"{where}: an overlap model of format {model.format}, not {FORMAT}",
            hint="Remove the file and run `kglink overlap train` again.",
        )
    return model


def fit(
    values: Sequence[Values],
    verdicts: Sequence[bool],
    prior: OverlapModel,
    *,
    evidence: Sequence[str] = (),
    spread: float = 1.0,
    sample_weights: Sequence[float] | None = None,
) -> OverlapModel:
    """The most probable model after these verdicts.

    Args:
        values: The values of each judged pair.
        verdicts: Whether each pair is correct.
        prior: The model to start from and stay near to.
        evidence: The evidence that the values come from; none: that of the prior.
        spread: How far, by one standard deviation, weights may lie from the prior's.
        sample_weights: How much each verdict counts; all alike where they are not told.
    """
    names = sorted(prior.weights.keys() | {name for one in values for name in one})
    right = np.asarray(verdicts, np.float64)
    counts = np.ones(len(right)) if sample_weights is None else np.asarray(sample_weights, float)
    before = (prior.weights.get(name, Weight(weight=0.0)) for name in names)
    parts = (part for weight in before for part in (weight.weight, weight.absent))
    start = np.array([prior.bias, *parts])
    found = _most_probable(_features(values, names), right, counts, start, spread)
    weights = {
        name: Weight(weight=float(found[1 + 2 * at]), absent=float(found[2 + 2 * at]))
        for at, name in enumerate(names)
    }
    correct = sum(map(bool, verdicts))
    return OverlapModel(
        name="trained",
        evidence=tuple(evidence) or prior.evidence,
        bias=float(found[0]),
        weights=weights,
        correct=correct,
        wrong=len(verdicts) - correct,
    )


def _features(values: Sequence[Values], names: Sequence[str]) -> DoubleArray:
    """A row for each pair: one, then for each name its value and whether it is absent."""
    features = np.zeros((len(values), 1 + 2 * len(names)))
    features[:, 0] = 1
    for row, known in zip(features, values, strict=True):
        for at, name in enumerate(names):
            if name in known:
                row[1 + 2 * at] = known[name]
            else:
                row[2 + 2 * at] = 1
    return features


def _most_probable(
    features: DoubleArray,
    right: DoubleArray,
    counts: DoubleArray,
    start: DoubleArray,
    spread: float,
) -> DoubleArray:
    """Newton steps, halved while they lead uphill; the sum is convex, so there is one answer."""
    precision = 1 / spread**2

    def cost_of(weights: DoubleArray) -> float:
        odds = features @ weights
        loss = float(counts @ (np.logaddexp(0, odds) - right * odds))
        return loss + 0.5 * precision * float(((weights - start) ** 2).sum())

    found = start.copy()
    cost = cost_of(found)
    for _ in range(_STEPS):
        said = 1 / (1 + np.exp(-np.clip(features @ found, -500, 500)))
        slope = features.T @ (counts * (said - right)) + precision * (found - start)
        curve = (features * (counts * said * (1 - said))[:, None]).T @ features
        step = np.linalg.solve(curve + precision * np.eye(len(found)), slope)
        for _ in range(_MOST_HALVINGS):
            better = cost_of(found - step)
            if better <= cost:
                break
            step /= 2
        found, gain, cost = found - step, cost - better, better
        if gain < _CONVERGED:
            break
    return found
