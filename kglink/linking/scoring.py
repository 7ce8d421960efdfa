"""One score from names and vectors, and the probability that the best answer is right.

Weights were chosen on the train documents of NCBI Disease and BC5CDR (gold spans, each of DOID,
NCIT and HP for itself) and of the demo (both KBs in one list); `benchmarks/fusion.py` measures
them on dev. What made the difference: a similar name counts only where it is very similar (its
fourth power), since half a name is no evidence; and the context decides only between entities
that bear the name: elsewhere an untrained encoder's context made answers worse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kglink.errors import SpaceError
from kglink.files.atomic import write_atomically

FloatArray = npt.NDArray[np.float32]
EvidenceName = Literal["name", "exact", "title", "case", "alias", "context"]


#: The kinds of evidence, a value in [-1, 1] for each candidate:
#: ``name``     cosine of the trigrams of the mention and of the candidate's most similar name
#: ``exact``    1 where a name of the candidate is the mention, folded
#: ``title``    1 where that name is the title
#: ``case``     1 where that name is the mention to the letter
#: ``alias``    cosine of the mention's vector and the candidate's nearest alias vector
#: ``context``  cosine of the vectors of the mention in its context and of the candidate's text;
#:              of a model that was trained with plain products: these in the measure of a cosine
EVIDENCE: tuple[EvidenceName, ...] = ("name", "exact", "title", "case", "alias", "context")
Evidence = Mapping[EvidenceName, FloatArray]


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How much each kind of evidence counts."""

    name: float = 0.12
    title: float = 0.02
    case: float = 0.03
    alias: float = 1.0
    context: float = 0.0
    named_context: float = 0.5
    """What the context counts, in addition, where the candidate bears the mention's name."""

    def score(self, evidence: Evidence) -> FloatArray:
        """The weighted mean of the evidence, rounded so that equal evidence makes equal scores."""
        total = (
            self.name * np.maximum(evidence["name"], 0) ** 4
            + self.title * evidence["title"]
            + self.case * evidence["case"]
            + self.alias * evidence["alias"]
            + (self.context + self.named_context * evidence["exact"]) * evidence["context"]
        )
        names = self.name + self.title + self.case + self.alias
        mean = np.round(total / (names + self.context + self.named_context), 5)
        return np.asarray(mean, dtype=np.float32)


#: For names alone.
NAME_WEIGHTS = FusionWeights(alias=0.0, context=0.0, named_context=0.0)
#: For vectors alone: those of names, or those of mentions in their texts.
ALIAS_WEIGHTS = FusionWeights(name=0.0, title=0.0, case=0.0, named_context=0.0)
MENTION_WEIGHTS = FusionWeights(
    name=0.0, title=0.0, case=0.0, alias=0.0, context=1.0, named_context=0.0
)
#: For a trained model: its context decides, and between entities that fit it alike how similar
#: their names are. Other evidence fits texts like those that were learnt from, but does not carry
#: over to others: which kinds count was chosen by leaving one corpus out (docs/benchmarks.md).
TRAINED_WEIGHTS = FusionWeights(
    name=0.15, title=0.0, case=0.0, alias=0.0, context=1.0, named_context=0.0
)
#: For a search the words are a name or a description, so the text counts as much as the names.
SEARCH_WEIGHTS = FusionWeights(alias=0.5, context=1.0, named_context=0.0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model: probability that the best candidate is right.

    Fitted on the train mentions of NCBI Disease and BC5CDR whose answer is in the KB; on their
    dev mentions the expected calibration error is .04.
    """

    alias: float = 6.4
    margin: float = 4.23
    bias: float = -5.85

    def probability(self, alias: float, margin: float) -> float:
        """From the best candidate's alias cosine, and its lead over the best rival."""
        return 1 / (1 + math.exp(-(self.alias * alias + self.margin * margin + self.bias)))


@dataclass(frozen=True, slots=True)
class Scoring:
    """How evidence becomes a score, and a score a probability."""

    weights: FusionWeights = field(default_factory=FusionWeights)
    calibration: Calibration = field(default_factory=Calibration)
    strength: tuple[EvidenceName, ...] = ("alias",)
    """The evidence of which the strongest says how near the best candidate is at all."""
    mentions: int = 0
    """How many mentions it was fitted on."""
    recall: tuple[float, float] = (0.0, 0.0)
    """The share of them with a right answer first, before and after fitting."""

    def strength_of(self, evidence: Mapping[str, float]) -> float:
        """How near a candidate is at all."""
        return max(evidence[name] for name in self.strength)

    def probability(self, evidence: Mapping[str, float], lead: float) -> float:
        """How likely the best candidate is right, with its lead over the best rival."""
        return self.calibration.probability(self.strength_of(evidence), lead)


#: What a trained model's space has before it is fitted.
TRAINED_SCORING = Scoring(TRAINED_WEIGHTS, strength=("context",))
NAME_SCORING = Scoring(NAME_WEIGHTS, strength=("name",))
ALIAS_SCORING = Scoring(ALIAS_WEIGHTS)
MENTION_SCORING = Scoring(MENTION_WEIGHTS, strength=("context",))
SEARCH_SCORING = Scoring(SEARCH_WEIGHTS)

#: Beside a space's versions: its scoring, and the model that it was fitted for.
SCORING_FILE = "scoring.json"
_FORMAT = 1


class _Kept(BaseModel):
    """What the file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    fingerprint: str
    scoring: dict[str, Any]


def write_scoring(folder: Path, fingerprint: str, scoring: Scoring) -> None:
    """Keep the scoring of a space for its model."""
    kept = _Kept(fingerprint=fingerprint, scoring=asdict(scoring))
    write_atomically(folder / SCORING_FILE, kept.model_dump_json(indent=1) + "\n")


def read_scoring(folder: Path, fingerprint: str) -> Scoring | None:
    """The scoring of a space; None where none was fitted for its model."""
    path = folder / SCORING_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        kept = _Kept.model_validate(raw)
        if kept.fingerprint != fingerprint:
            return None
        if kept.format > _FORMAT:
            raise SpaceError(f"{path}: written by a newer kglink", hint="Upgrade kglink.")
        return TypeAdapter(Scoring).validate_python(kept.scoring)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpaceError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, ValidationError) as error:
        raise SpaceError(
            f"{path}: is not what kglink writes ({error})",
            hint="Delete it: the space then has the weights that are not fitted.",
        ) from error
