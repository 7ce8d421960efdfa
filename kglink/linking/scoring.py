"""Scores, and the probability that the best answer is right: of a space, fitted or not.

The score of a candidate is the weighted sum of its evidence (`kglink.linking.kinds`).
`benchmarks/fusion.py` measures the default weights on dev documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kglink.errors import DamagedFileError, NewerFileError, SpaceError, naming_missing_right
from kglink.files.atomic import file_lock, write_atomically
from kglink.files.manifest import ManifestPart, read_manifest
from kglink.linking.detect import probability
from kglink.linking.kinds import RETRIEVED, EvidenceKind, Weights
from kglink.records import Candidate

#: The least probability of a link in a space that is not fitted: about half of F1 is where one more
#: answer is as likely to raise F1 as to lower it.
DEFAULT_THRESHOLD = 0.3
#: Who writes the scoring holds it for a moment.
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model of a KB's best candidate: how likely it is right, by default.

    The default was fitted on train mentions of NCBI Disease and BC5CDR, those that mean nothing in
    the KB included (`benchmarks/evidence.py` measures it on dev).
    """

    score: float = 4.8
    lead: float = 2.7
    nil: float = 7.0
    bias: float = -3.4

    def probability(self, score: float, lead: float, nil: float) -> float:
        """From a candidate's score, its lead over the next, and what memory says of NIL."""
        return probability(self.score * score + self.lead * lead - self.nil * nil + self.bias)

    def of_scores(self, scale: float) -> Calibration:
        """The same probabilities for scores that are ``scale`` times as large."""
        return replace(self, score=self.score / scale, lead=self.lead / scale)


@dataclass(frozen=True, slots=True)
class Scoring:
    """How evidence becomes a score, and a score a probability."""

    weights: Weights
    calibration: Calibration = Calibration()
    """How likely the best candidate of a KB is right."""
    weights_by_kb: Mapping[str, Weights] = field(default_factory=dict)
    """Of KBs for which other weights than the common ones were better."""
    calibration_by_kb: Mapping[str, Calibration] = field(default_factory=dict)
    presence: Calibration | None = None
    """How likely a KB has what is meant, the best candidate or not; None: as `calibration`."""
    presence_by_kb: Mapping[str, Calibration] = field(default_factory=dict)
    mentions: int = 0
    """How many mentions it was fitted on."""
    recall: tuple[float, float] = (0.0, 0.0)
    """The share of them with a right answer first, before and after fitting."""
    spans: Mapping[str, float] = field(default_factory=dict)
    """Weights of the judge of spans; none: those of `judge.json`."""
    threshold: float = DEFAULT_THRESHOLD
    """The least probability of a link, where the settings name none."""
    links: tuple[int, int, int] | None = None
    """Links right and wrong with it, and mentions with an answer; None: it was not chosen."""

    def weights_in(self, kb: str) -> Weights:
        """What evidence counts for the candidates of a KB."""
        return self.weights_by_kb.get(kb, self.weights)

    def counts(self, kind: str) -> bool:
        """Whether evidence of a kind counts in any KB."""
        return any(one[kind] > 0 for one in (self.weights, *self.weights_by_kb.values()))

    def with_kinds(self, kinds: Iterable[EvidenceKind], *, trained: bool) -> Scoring:
        """The same; kinds that it was not fitted to count what they count by default."""
        default = Weights.default(kinds, trained=trained).by_kind

        def more(weights: Weights) -> Weights:
            return Weights({**default, **weights.by_kind})

        own = {kb: more(weights) for kb, weights in self.weights_by_kb.items()}
        return replace(self, weights=more(self.weights), weights_by_kb=own)

    def by_names(self, kbs: Collection[str], *, beside: bool) -> Scoring:
        """The same, for KBs that have no vectors yet: their names count as names alone do.

        What counts beside names and vectors counts there too. ``beside``: other KBs have vectors,
        so a name scores what it scores there.
        """
        scale = _NAME_SCALE if beside else 1.0
        names = {kind: scale * weight for kind, weight in NAME_SCORING.weights.by_kind.items()}
        weights = {}
        for kb in kbs:
            own = self.weights_in(kb)
            beside_names = {kind: own[kind] for kind in _BESIDE_VECTORS}
            # The subject compares KBs, so it counts alike in all.
            weights[kb] = Weights(beside_names | names | {"subject": own["subject"]})
        calibration = NAME_SCORING.calibration.of_scores(scale)
        return replace(
            self,
            weights_by_kb={**self.weights_by_kb, **weights},
            calibration_by_kb={
                **self.calibration_by_kb,
                **dict.fromkeys(weights, calibration),
            },
            presence_by_kb={
                **self.presence_by_kb,
                **dict.fromkeys(weights, NAME_SCORING.presence_in("").of_scores(scale)),
            },
        )

    def probability(self, best: Candidate, lead: float) -> float:
        """How likely the best candidate of a KB is right, with its lead over the next one there."""
        calibration = self.calibration_by_kb.get(best.id.kb, self.calibration)
        return calibration.probability(best.score, lead, best.evidence.get("nil", 0.0))

    def probability_of_presence(self, best: Candidate, lead: float) -> float:
        """How likely a KB with this best candidate has what is meant, as this one or another."""
        nil = best.evidence.get("nil", 0.0)
        return self.presence_in(best.id.kb).probability(best.score, lead, nil)

    def presence_in(self, kb: str) -> Calibration:
        """How likely a KB has what is meant."""
        common = self.presence or self.calibration_by_kb.get(kb, self.calibration)
        return self.presence_by_kb.get(kb, common)


#: Calibration for a trained model, and for scores from one kind of evidence.
_SIMILARITY_CALIBRATION = Calibration(score=6.4, lead=4.23, nil=3.27, bias=-5.85)
#: What a space has before it is fitted: of a plain encoder, and of a trained one.
PLAIN_SCORING = Scoring(
    Weights.default(RETRIEVED, trained=False),
    presence=Calibration(score=5.6, lead=0, nil=5.37, bias=-2.03),
)
TRAINED_SCORING = Scoring(Weights.default(RETRIEVED, trained=True), _SIMILARITY_CALIBRATION)
#: For names alone.
NAME_SCORING = Scoring(
    Weights.of(similar=0.7, title=0.06, case=0.24, rarer=0.22, expanded=0.2, subject=0.1),
    Calibration(score=6.4, lead=4.23, nil=3.27, bias=-5.0),
)
#: Score of an equal name beside vectors, in a text of mean likeness; by names alone it is 1.
_NAME_SCALE = 0.83
#: What counts beside names and vectors.
_BESIDE_VECTORS = ("expanded", "common", "memory", "like_memory", "counterpart")
#: For names alone, and for words alone by each way of comparing them.
ALONE = {
    "names": NAME_SCORING,
    "bm25": Scoring(Weights.of(bm25=1.0), _SIMILARITY_CALIBRATION),
    "tfidf": Scoring(Weights.of(tfidf=1.0), _SIMILARITY_CALIBRATION),
}
#: For vectors alone: those of names, and those of mentions in their texts.
ALIAS_SCORING = Scoring(Weights.of(alias=1.0), _SIMILARITY_CALIBRATION)
MENTION_SCORING = Scoring(Weights.of(context=1.0), _SIMILARITY_CALIBRATION)
#: For a search the words are a name or a description, so the text counts as much as the names.
SEARCH_SCORING = Scoring(
    Weights.of(similar=0.07, title=0.01, case=0.02, alias=0.3, context=0.6), _SIMILARITY_CALIBRATION
)

#: Beside a space's versions: its scoring, and the model that it was fitted for.
SCORING_FILE = "scoring.json"
_FORMAT = 1


class KeptOfModel(ManifestPart):
    """What was fitted for a space with the model of this fingerprint."""

    format: int = _FORMAT
    fingerprint: str


class _Kept(KeptOfModel):
    """What the file says."""

    scoring: dict[str, Any]


Kept = TypeVar("Kept", bound=KeptOfModel)


def read_kept(kind: type[Kept], path: Path, fingerprint: str, default: str) -> Kept | None:
    """What a file beside a space's versions says; None where it has none for its model."""
    if not path.exists():
        return None
    try:
        kept = read_manifest(kind, path, newest=_FORMAT)
    except NewerFileError as error:
        raise SpaceError(error.message, hint="Upgrade kglink.") from error
    except DamagedFileError as error:
        raise _unreadable(path, error, default) from error
    return kept if kept.fingerprint == fingerprint else None


def _unreadable(path: Path, error: Exception, default: str) -> SpaceError:
    return SpaceError(f"{path}: is not what kglink writes ({error})", hint=f"Delete it: {default}.")


@contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """Hold the lock under which a scoring is kept in a folder; refused without the right."""
    lock = folder / f".{SCORING_FILE}.lock"
    with (
        naming_missing_right(f"folder {folder}", SpaceError),
        file_lock(lock, wait=_WAIT_S, remove=True),
    ):
        yield


def write_scoring(
    folder: Path, fingerprint: str, scoring: Scoring, check: Callable[[], None] = lambda: None
) -> None:
    """Keep the scoring of a space for its model, unless ``check`` raises; nobody writes between."""
    kept = _Kept(fingerprint=fingerprint, scoring=asdict(scoring))
    with keeping(folder):
        check()
        write_atomically(folder / SCORING_FILE, kept.model_dump_json(indent=1) + "\n")


def read_scoring(folder: Path, fingerprint: str) -> Scoring | None:
    """The scoring of a space; None where none was fitted for its model."""
    path, default = folder / SCORING_FILE, "the space then has the weights that are not fitted"
    kept = read_kept(_Kept, path, fingerprint, default)
    try:
        return None if kept is None else TypeAdapter(Scoring).validate_python(kept.scoring)
    except ValidationError as error:
        raise _unreadable(path, error, default) from error
