"""Evidence of plugins: asked for the first candidates of all mentions of a text together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kglink.arrays import FloatArray
from kglink.errors import PluginError, errors_of
from kglink.linking.kinds import EvidenceKind
from kglink.plugins import CandidateEvidence
from kglink.records import Ranking


@dataclass(frozen=True, slots=True)
class AskedKind:
    """A kind of evidence that a plugin gives."""

    kind: EvidenceKind
    plugin: CandidateEvidence
    depth: int = 8
    """It is asked about at least this many of the best candidates of each KB."""

    def values(self, rankings: Sequence[Ranking]) -> list[FloatArray]:
        """For each mention of one text the values of its candidates."""
        with errors_of(f"evidence {self.kind.name!r}"):
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


def ask(kinds: Sequence[AskedKind], rankings: Sequence[Ranking]) -> dict[str, list[FloatArray]]:
    """For each kind the values of all candidates, mention by mention; each sees those before it.

    The mentions of one document are asked for together.
    """
    changed = list(rankings)
    documents: dict[str, list[int]] = {}
    for at, ranking in enumerate(changed):
        mention = ranking.mention
        documents.setdefault(mention.document or mention.text, []).append(at)
    columns: dict[str, list[FloatArray]] = {}
    for one in kinds:
        column = columns[one.kind.name] = [np.empty(0, np.float32)] * len(changed)
        for places in documents.values():
            given = one.values([changed[at] for at in places])
            for at, values in zip(places, given, strict=True):
                column[at] = values
                if values.any() and one is not kinds[-1]:
                    name, before = one.kind.name, changed[at].candidates
                    # Where a plugin says nothing, 0, the candidate stays as it is.
                    candidates = [
                        replace(own, evidence={**own.evidence, name: round(value, 4)})
                        if value
                        else own
                        for own, value in zip(before, values.tolist(), strict=True)
                    ]
                    changed[at] = replace(changed[at], candidates=tuple(candidates))
    return columns
