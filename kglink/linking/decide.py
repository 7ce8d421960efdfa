"""The decision: which candidate a mention means or NIL, and how sure that is.

It is made of what retrieval and all stages left; only what people corrected
(`kglink.linking.corrected`) overrules it. A link is right where its place is a mention
and its entity is what is meant there: its probability is the product of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kglink.linking.scoring import Scoring
from kglink.records import Candidate, EntityId, KBAnswer, Link, MentionInText, Ranking

#: Entities of two KBs that bear the mention's name and whose texts are so near are taken for one
#: thing, whether their overlap was ever looked for or not.
LEAST_NEARNESS = 0.6
#: Matched entities of two KBs are tied within this difference of scores; beyond it the higher
#: score answers.
_TIE = 0.03


@dataclass(frozen=True, slots=True)
class Decision:
    """How rankings become links."""

    scoring: Scoring
    nearness: Callable[[EntityId, EntityId], float]
    """How alike two entities are: the cosine of their texts, or 1 of a name in common."""
    threshold: float
    """The least probability of a link: below it the mention is NIL."""
    top_k: int
    """The number of candidates that are shown."""
    preferred: Sequence[str] = ()
    """The KBs, the one first that answers where several have the same thing."""
    per_kb: bool = False
    """Whether each KB answers for itself as well."""
    stated: Collection[str] = ()
    """KBs of the setting `link.prefer`: of one thing in several KBs theirs answers."""

    def link(self, ranking: Ranking) -> Link:
        """Choose the best candidate, or none."""
        mention, candidates = ranking.mention, ranking.candidates
        entity = self._probability(candidates)
        probability = _mention_probability(mention) * entity
        linked = bool(candidates) and probability >= self.threshold
        if linked:
            candidates = self._preferred_first(candidates)
        return Link(
            start=mention.start,
            end=mention.end,
            surface=mention.surface,
            candidates=candidates[: self.top_k],
            chosen=candidates[0] if linked else None,
            confidence=probability if linked else self._nil_confidence(candidates, entity),
            probability=probability,
            per_kb=tuple(self._of_kb(kb, ranking) for kb in self.preferred) if self.per_kb else (),
        )

    def probability(self, ranking: Ranking) -> float:
        """That the best candidate is right, if the place is a mention."""
        return self._probability(ranking.candidates)

    def _of_kb(self, kb: str, ranking: Ranking) -> KBAnswer:
        """What one KB answers for itself."""
        own = [one for one in ranking.candidates if one.id.kb == kb]
        entity = self._probability(own)
        probability = _mention_probability(ranking.mention) * entity
        if own and probability >= self.threshold:
            return KBAnswer(kb, own[0], probability)
        return KBAnswer(kb, None, self._nil_confidence(own, entity))

    def _nil_confidence(self, candidates: Sequence[Candidate], probability: float) -> float:
        """How likely no KB has what is meant: 1 - max over KBs of P(the KB has it).

        It is no product, since KBs of one field lack the same things; and at most 1 - P(the best
        candidate is right).
        """
        present = (
            self.scoring.probability_of_presence(head, lead_of(head, candidates))
            for head in heads_of(candidates)
        )
        return 1 - max(probability, max(present, default=0.0))

    def _preferred_first(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates, before them the best one, or the same thing in a KB that goes first."""
        best = candidates[0]
        same = [
            best,
            *(
                one
                for one in candidates[1:]
                if (one.id.kb in self.stated or best.score - one.score <= _TIE)
                and self._is_same(best, one)
            ),
        ]
        order = {kb: place for place, kb in enumerate(self.preferred)}
        chosen = min(same, key=lambda one: order.get(one.id.kb, len(order)))
        return (chosen, *(one for one in candidates if one.id != chosen.id))

    def _probability(self, candidates: Sequence[Candidate]) -> float:
        """How likely the best is right, among what its own KB and the others found.

        The best candidate of another KB is a rival by its own odds, the less the nearer the two
        texts are; the same thing is none.
        """
        if not candidates:
            return 0.0
        best = candidates[0]
        probability = self._alone(best, candidates)
        rivals = 0.0
        for one in heads_of(candidates)[1:]:
            near = LEAST_NEARNESS if self._is_same(best, one) else self.nearness(best.id, one.id)
            if near < LEAST_NEARNESS:
                alone = self._alone(one, candidates)
                rivals += alone / max(1 - alone, 1e-6) * (1 - near / LEAST_NEARNESS)
        return probability / (1 + (1 - probability) * rivals)

    def _alone(self, best: Candidate, candidates: Sequence[Candidate]) -> float:
        """How likely the best candidate of a KB is right, were there no other KB."""
        probability = self.scoring.probability(best, lead_of(best, candidates))
        # Among equals one can be right: which of them was named first says nothing.
        return probability / (1 + sum(score == best.score for score in _rivals(best, candidates)))

    def _is_same(self, left: Candidate, right: Candidate) -> bool:
        """Whether two entities are one thing: by their overlap, or by their names and texts."""
        if right.id in left.also:
            return True
        if left.id.kb == right.id.kb:
            return False
        both_named = all(one.evidence.get("exact") == 1 for one in (left, right))
        return both_named and self.nearness(left.id, right.id) >= LEAST_NEARNESS


def _mention_probability(mention: MentionInText) -> float:
    """Probability that the place is a mention; 1 if the user gave it."""
    return 1.0 if mention.given else mention.score


def heads_of(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best candidate of each KB, best first."""
    heads: dict[str, Candidate] = {}
    for one in candidates:
        heads.setdefault(one.id.kb, one)
    return list(heads.values())


def _rivals(best: Candidate, candidates: Sequence[Candidate]) -> list[float]:
    """The scores of the other candidates of a KB."""
    return [one.score for one in candidates if one.id.kb == best.id.kb and one.id != best.id]


def lead_of(best: Candidate, candidates: Sequence[Candidate]) -> float:
    """By how much the best candidate of a KB is better than the next one there."""
    return best.score - max(_rivals(best, candidates), default=0.0)
