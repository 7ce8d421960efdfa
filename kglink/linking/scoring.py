"""One score from names and vectors, and the probability that the best answer is right.

Weights were chosen on the train documents of NCBI Disease and BC5CDR (gold spans, each of DOID,
NCIT and HP for itself) and of the demo (both KBs in one list); `benchmarks/fusion.py` measures
them on dev. What made the difference: a similar name counts only where it is very similar (its
fourth power), since half a name is no evidence; and the context decides only between entities
that bear the name: elsewhere an untrained encoder's context made answers worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from kglink.errors import DamagedFileError, NewerFileError, SpaceError
from kglink.files.atomic import write_atomically
from kglink.files.manifest import ManifestPart, read_manifest

FloatArray = npt.NDArray[np.float32]
EvidenceName = Literal[
    "name", "exact", "title", "case", "alias", "context",
    "expanded", "common", "memory", "counterpart",
]  # fmt: skip

#: The kinds of evidence, a value for each candidate, from 0 (or -1, of a cosine) to 1:
#: ``name``         cosine of the trigrams of the mention and of the candidate's most similar name
#: ``exact``        1 where a name of the candidate is the mention, folded
#: ``title``        1 where that name is the title
#: ``case``         1 where that name is the mention to the letter
#: ``alias``        cosine of the mention's vector and the candidate's nearest alias vector
#: ``context``      cosine of the vectors of the mention in its context and of the candidate's
#:                  text; of a model that was trained with plain products: in that measure
#: ``expanded``     1 where the text says that the mention is short for a name of the candidate
#: ``common``       the share of the uses of this name that meant the candidate, among all entities
#:                  of its KB that bear it, where the KB's source counted them (links of a wiki)
#: ``memory``       how sure it is from annotated documents that the surface means the candidate
#: ``counterpart``  by how much the same thing in another KB scores higher, where it does: its
#:                  score, times how sure that sameness is, less that of the candidate itself
EVIDENCE: tuple[EvidenceName, ...] = get_args(EvidenceName)
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
    expanded: float = 0.15
    common: float = 0.3
    memory: float = 1.15
    counterpart: float = 0.5

    def score(self, evidence: Evidence) -> FloatArray:
        """The weighted sum of the evidence, rounded so that equal evidence makes equal scores.

        It is in the measure of names and vectors: without other evidence the score is their mean.
        """
        total = sum(getattr(self, term) * values for term, values in terms(evidence).items())
        return np.asarray(np.round(total / self.measure, 5), dtype=np.float32)

    def shares(self) -> dict[str, float]:
        """Each weight in the measure of the score."""
        return {term: round(getattr(self, term) / self.measure, 4) for term in TERMS}

    @property
    def measure(self) -> float:
        """The sum of the weights of names and vectors."""
        return float(sum(getattr(self, term) for term in MEASURED))


#: The terms of the score, each with its weight; those of names and vectors are its measure.
TERMS = tuple(one.name for one in fields(FusionWeights))
MEASURED = ("name", "title", "case", "alias", "context", "named_context")


def terms(evidence: Evidence) -> dict[str, FloatArray]:
    """What each weight is multiplied with; a similar name counts by its fourth power."""
    return {
        **{kind: values for kind, values in evidence.items() if kind in TERMS},
        "name": np.maximum(evidence["name"], 0) ** 4,
        "named_context": evidence["exact"] * evidence["context"],
    }


#: For names alone.
_NOTHING_ELSE = {"expanded": 0.0, "common": 0.0, "memory": 0.0, "counterpart": 0.0}
NAME_WEIGHTS = FusionWeights(alias=0.0, context=0.0, named_context=0.0, **_NOTHING_ELSE)
#: For vectors alone: those of names, or those of mentions in their texts.
ALIAS_WEIGHTS = FusionWeights(name=0.0, title=0.0, case=0.0, named_context=0.0, **_NOTHING_ELSE)
MENTION_WEIGHTS = FusionWeights(
    name=0.0, title=0.0, case=0.0, alias=0.0, context=1.0, named_context=0.0, **_NOTHING_ELSE
)
#: For a trained model: its context decides, and between entities that fit it alike how similar
#: their names are. Other evidence fits texts like those that were learnt from, but does not carry
#: over to others: which kinds count was chosen by leaving one corpus out (docs/benchmarks.md).
TRAINED_WEIGHTS = FusionWeights(
    name=0.15, title=0.0, case=0.0, alias=0.0, context=1.0, named_context=0.0
)
#: For a search the words are a name or a description, so the text counts as much as the names.
SEARCH_WEIGHTS = FusionWeights(alias=0.5, context=1.0, named_context=0.0, **_NOTHING_ELSE)


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
    strength: tuple[EvidenceName, ...] = ("alias", "expanded", "memory")
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
TRAINED_SCORING = Scoring(TRAINED_WEIGHTS, strength=("context", "expanded", "memory"))
NAME_SCORING = Scoring(NAME_WEIGHTS, strength=("name",))
ALIAS_SCORING = Scoring(ALIAS_WEIGHTS, strength=("alias",))
MENTION_SCORING = Scoring(MENTION_WEIGHTS, strength=("context",))
SEARCH_SCORING = Scoring(SEARCH_WEIGHTS, strength=("alias",))

#: Beside a space's versions: its scoring, and the model that it was fitted for.
SCORING_FILE = "scoring.json"
_FORMAT = 1


class _Kept(ManifestPart):
    """What the file says."""

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
    if not path.exists():
        return None
    try:
        kept = read_manifest(_Kept, path, newest=_FORMAT)
        if kept.fingerprint != fingerprint:
            return None
        return TypeAdapter(Scoring).validate_python(kept.scoring)
    except NewerFileError as error:
        raise SpaceError(error.message, hint="Upgrade kglink.") from error
    except (DamagedFileError, ValidationError) as error:
        raise SpaceError(
            f"{path}: is not what kglink writes ({error})",
            hint="Delete it: the space then has the weights that are not fitted.",
        ) from error
