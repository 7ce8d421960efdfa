"""Scores, and the probability that the best answer is right: of a space, fitted or not.

The score of a candidate is the weighted sum of its evidence (`kglink.linking.kinds`).
`benchmarks/fusion.py` measures the default weights on dev documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kglink.errors import DamagedFileError, NewerFileError, SpaceError
from kglink.files.atomic import write_atomically
from kglink.files.manifest import ManifestPart, read_manifest
from kglink.linking.kinds import RETRIEVED, EvidenceKind, Weights
from kglink.records import Candidate


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

    weights: Weights
    calibration: Calibration = Calibration()
    strength: tuple[str, ...] = ("alias", "expanded", "memory")
    """The evidence of which the strongest says how near the best candidate is at all."""
    mentions: int = 0
    """How many mentions it was fitted on."""
    recall: tuple[float, float] = (0.0, 0.0)
    """The share of them with a right answer first, before and after fitting."""
    spans: Mapping[str, float] = field(default_factory=dict)
    """Weights of the judge of spans; none: those of `judge.json`."""

    def with_kinds(self, kinds: Iterable[EvidenceKind], *, trained: bool) -> Scoring:
        """The same; kinds that it was not fitted to count what they count by default."""
        default = Weights.default(kinds, trained=trained).by_kind
        return replace(self, weights=Weights({**default, **self.weights.by_kind}))

    def probability(self, best: Candidate, lead: float) -> float:
        """How likely the best candidate is right, with its lead over the best rival."""
        strength = max(best.evidence[kind] for kind in self.strength)
        return self.calibration.probability(strength, lead)


#: What a space has before it is fitted: of a plain encoder, and of a trained one.
PLAIN_SCORING = Scoring(Weights.default(RETRIEVED, trained=False))
TRAINED_SCORING = Scoring(
    Weights.default(RETRIEVED, trained=True), strength=("context", "expanded", "memory")
)
#: For names alone, for vectors alone: those of names, or those of mentions in their texts.
NAME_SCORING = Scoring(Weights.of(similar=0.7, title=0.12, case=0.18), strength=("name",))
ALIAS_SCORING = Scoring(Weights.of(alias=1.0), strength=("alias",))
MENTION_SCORING = Scoring(Weights.of(context=1.0), strength=("context",))
#: For a search the words are a name or a description, so the text counts as much as the names.
SEARCH_SCORING = Scoring(
    Weights.of(similar=0.07, title=0.01, case=0.02, alias=0.3, context=0.6), strength=("alias",)
)

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
