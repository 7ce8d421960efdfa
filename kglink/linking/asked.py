"""Evidence of plugins: asked for the first candidates of all mentions of a text together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import numpy.typing as npt

from kglink.errors import PluginError
from kglink.linking.kinds import EvidenceKind, Weights
from kglink.plugins import CandidateEvidence
from kglink.records import Candidate, Ranking

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float32]

#: Evidence of a candidate is told in four digits: by so much its score may be off.
_ROUNDED = 0.005


@dataclass(frozen=True, slots=True)
class AskedKind:
    """A kind of evidence that a plugin gives."""

    kind: EvidenceKind
    plugin: CandidateEvidence
    depth: int = 8
    """It is asked about at least so many of the best candidates of each KB."""
    only_rivals: bool = False
    """It is not asked about candidates that no answer from 0 to 1 could put first in their KB."""

    def values(self, rankings: Sequence[Ranking]) -> list[FloatArray]:
        """For each mention of one text the values of its candidates."""
        given = [np.asarray(one, dtype=np.float32) for one in self.plugin.values(rankings)]
        if len(given) != len(rankings):
            raise self._broken(f"{len(rankings)} mentions were given, {len(given)} came back")
        for ranking, values in zip(rankings, given, strict=True):
            if values.shape != (len(ranking.candidates),):
                raise self._broken(
                    f"{len(ranking.candidates)} candidates were given, "
                    f"values of the shape {values.shape} came back"
                )
            # NaN is in no range.
            if not np.all((values >= -1) & (values <= 1)):
                raise self._broken(f"{values.tolist()} are not all between -1 and 1")
        return given

    def _broken(self, what: str) -> PluginError:
        return PluginError(
            f"evidence {self.kind.name!r}: {what}",
            hint="Evidence gives a number from -1 to 1 to each candidate of each mention.",
        )


def ask(
    kinds: Sequence[AskedKind],
    rankings: Sequence[Ranking],
    weights_in: Callable[[str], Weights],
) -> dict[str, list[FloatArray]]:
    """For each kind the values of all candidates, mention by mention; each sees those before it.

    The mentions of one document are asked for together. ``weights_in`` tells what evidence counts
    in a KB.
    """
    told = list(rankings)
    documents: dict[str, list[int]] = {}
    for at, ranking in enumerate(told):
        mention = ranking.mention
        documents.setdefault(mention.document or mention.text, []).append(at)
    columns: dict[str, list[FloatArray]] = {}
    for one in kinds:
        column = columns[one.kind.name] = [np.empty(0, np.float32)] * len(told)
        for places in documents.values():
            own = [told[at] for at in places]
            given = _of_rivals(one, own, weights_in) if one.only_rivals else one.values(own)
            for at, values in zip(places, given, strict=True):
                column[at] = values
                if values.any() and one is not kinds[-1]:
                    told[at] = _with_evidence(told[at], one.kind.name, values)
    return columns


def _of_rivals(
    kind: AskedKind, rankings: Sequence[Ranking], weights_in: Callable[[str], Weights]
) -> list[FloatArray]:
    """The values of the candidates that may still come first in their KB; 0 of all others."""
    chosen = [_rivals(ranking.candidates, kind.kind.name, weights_in) for ranking in rankings]
    given = kind.values(
        [
            replace(ranking, candidates=tuple(compress(ranking.candidates, rivals)))
            for ranking, rivals in zip(rankings, chosen, strict=True)
        ]
    )
    found = [np.zeros(len(rivals), np.float32) for rivals in chosen]
    for values, rivals, own in zip(found, chosen, given, strict=True):
        values[rivals] = own
    return found


def _rivals(
    candidates: Sequence[Candidate], kind: str, weights_in: Callable[[str], Weights]
) -> BoolArray:
    """Which candidates would come first in their KB if they had 1 of a kind, and the best one 0."""
    weights = [weights_in(one.id.kb) for one in candidates]
    scores = [
        sum(own.parts(one.evidence).values()) for one, own in zip(candidates, weights, strict=True)
    ]
    best: dict[str, float] = {}
    for one, score in zip(candidates, scores, strict=True):
        best[one.id.kb] = max(score, best.get(one.id.kb, score))
    reach = [score + own[kind] + _ROUNDED for score, own in zip(scores, weights, strict=True)]
    behind = [best[one.id.kb] for one in candidates]
    return np.greater_equal(reach, behind)


def _with_evidence(ranking: Ranking, name: str, values: FloatArray) -> Ranking:
    """Where a plugin says nothing, 0, the candidate stays as it is."""
    candidates = tuple(
        replace(one, evidence={**one.evidence, name: round(value, 4)}) if value else one
        for one, value in zip(ranking.candidates, values.tolist(), strict=True)
    )
    return replace(ranking, candidates=candidates)
