"""The contracts of rerankers and clusterers: the same candidates, in a better order."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing.contracts.base import NASTY_TEXTS, PluginContract


class Ranker(Protocol):
    """What rerankers and clusterers have in common."""

    def rank(self, rankings: Sequence[Ranking]) -> Sequence[Ranking]:
        """The same candidates, ordered anew."""
        ...


class RankingContract(PluginContract):
    """Every candidate comes back once, with a finite score, best first."""

    tolerance: float = 1e-5
    """How far the scores of one ranking, asked in two ways, may lie apart."""

    def make(self) -> Ranker:
        """The plugin under test."""
        ranker: Ranker = self.create()
        return ranker

    def test_answers_every_ranking_in_order(self) -> None:
        rankings = sample_rankings()
        answers = self.make().rank(rankings)
        assert len(answers) == len(rankings)
        for ranking, answer in zip(rankings, answers, strict=True):
            assert answer.mention == ranking.mention, "another mention, or another order"
            assert isinstance(answer.candidates, tuple)
            assert sorted(map(_fixed_part, answer.candidates)) == sorted(
                map(_fixed_part, ranking.candidates)
            ), "the same candidates with new scores"

    def test_puts_the_best_first_with_finite_scores(self) -> None:
        for answer in self.make().rank(sample_rankings()):
            scores = [candidate.score for candidate in answer.candidates]
            assert all(math.isfinite(score) for score in scores)
            assert scores == sorted(scores, reverse=True)

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        rankings = sample_rankings()
        before = copy.deepcopy(rankings)
        ranker = self.make()
        assert list(ranker.rank(rankings)) == list(ranker.rank(rankings))
        assert rankings == before, "the rankings were changed"

    def test_no_ranking_and_no_candidate(self) -> None:
        ranker = self.make()
        assert list(ranker.rank([])) == []
        nothing = Ranking(MentionInText("Ada", 0, 3), ())
        assert list(ranker.rank([nothing])) == [nothing]

    def _same_scores(self, left: Ranking, right: Ranking) -> None:
        left_scores = {candidate.id: candidate.score for candidate in left.candidates}
        right_scores = {candidate.id: candidate.score for candidate in right.candidates}
        assert left_scores.keys() == right_scores.keys()
        for key, score in left_scores.items():
            assert math.isclose(
                score, right_scores[key], rel_tol=self.tolerance, abs_tol=self.tolerance
            )


class RerankerContract(RankingContract):
    """A reranker answers each ranking as if it were the only one."""

    kind = "reranker"

    def test_a_ranking_is_answered_as_if_alone(self) -> None:
        reranker, rankings = self.make(), sample_rankings()
        for ranking, answer in zip(rankings, reranker.rank(rankings), strict=True):
            self._same_scores(reranker.rank([ranking])[0], answer)


class ClustererContract(RankingContract):
    """A clusterer may look at all mentions of a run, in whatever order they come."""

    kind = "clusterer"

    def test_the_order_of_the_mentions_changes_nothing(self) -> None:
        clusterer, rankings = self.make(), sample_rankings()
        forward = clusterer.rank(rankings)
        backward = clusterer.rank(rankings[::-1])
        for one, other in zip(forward, reversed(backward), strict=True):
            self._same_scores(one, other)


def sample_rankings() -> list[Ranking]:
    """A ranking for each nasty text that has a character to point at, with 1 to 5 candidates."""
    titles = ("Ada", "Ada Lovelace", "Bob", "", "Zoë 👩‍👩‍👧")
    candidates = tuple(
        Candidate(
            EntityId("people", f"P:{number}"),
            title,
            score=1.0 - number / 10,
            url=f"https://example.org/{number}",
            description=f"{title} number {number}",
            type="person",
            evidence={"name": number / 10},
            aliases=(f"{title} {number}",),
            parents=("P:99",),
            also=(EntityId("other", str(number)),),
        )
        for number, title in enumerate(titles)
    )
    return [
        Ranking(
            MentionInText(text, 0, 1, f"doc:{number}"), candidates[: 1 + number % len(candidates)]
        )
        for number, text in enumerate(filter(None, NASTY_TEXTS))
    ]


def _fixed_part(candidate: Candidate) -> str:
    return repr(replace(candidate, score=0.0, evidence=MappingProxyType({})))
