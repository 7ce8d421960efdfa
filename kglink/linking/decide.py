"""The decision: which candidate a mention means or NIL, and how sure that is.

It comes last, from what retrieval and all stages left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kglink.linking.scoring import Scoring
from kglink.records import Candidate, EntityId, Link, Ranking

#: Entities of two KBs that bear the mention's name and whose texts are so near are taken for one
#: thing, whether their overlap was ever looked for or not.
LEAST_NEARNESS = 0.6


@dataclass(frozen=True, slots=True)
class Decision:
    """How rankings become links."""

    scoring: Scoring
    nearness: Callable[[EntityId, EntityId], float]
    """The cosine of the texts of two entities."""
    threshold: float
    """A best candidate that is less probable makes the mention NIL."""
    top_k: int
    """So many candidates are shown."""

    def link(self, ranking: Ranking) -> Link:
        """Choose the best candidate, or none."""
        mention, candidates = ranking.mention, ranking.candidates
        probability = self._probability(ranking)
        linked = bool(candidates) and probability >= self.threshold
        return Link(
            start=mention.start,
            end=mention.end,
            surface=mention.surface,
            candidates=candidates[: self.top_k],
            chosen=candidates[0] if linked else None,
            confidence=probability if linked else 1 - probability,
        )

    def _probability(self, ranking: Ranking) -> float:
        """How likely the best is right; the same thing in another KB is no rival of it."""
        if not ranking.candidates:
            return 0.0
        best = ranking.candidates[0]
        rivals = [
            one.score
            for one in ranking.candidates[1:]
            if one.id not in best.also and not self._is_same(best, one)
        ]
        lead = best.score - max(rivals, default=0.0)
        probability = self.scoring.probability(best, lead)
        # Among equals one can be right: which of them was named first says nothing.
        return probability / (1 + sum(score == best.score for score in rivals))

    def _is_same(self, left: Candidate, right: Candidate) -> bool:
        """Whether entities of two KBs are the same thing by their names and texts."""
        if left.id.kb == right.id.kb:
            return False
        both_named = all(one.evidence.get("exact") == 1 for one in (left, right))
        return both_named and self.nearness(left.id, right.id) >= LEAST_NEARNESS
