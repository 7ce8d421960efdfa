"""The contracts of rerankers, clusterers and evidence: the same candidates, in a better order."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import pytest

from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing.contracts.base import NASTY_TEXTS, PluginContract


class RankingContract(PluginContract):
    """Every candidate comes back once, with a finite score, best first."""

    tolerance: float = 1e-5
    """How far the scores of one ranking, asked in two ways, may lie apart."""

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
        scores = [{one.id: one.score for one in side.candidates} for side in (left, right)]
        assert scores[0] == pytest.approx(scores[1], rel=self.tolerance, abs=self.tolerance)


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


class CandidateEvidenceContract(PluginContract):
    """Every candidate gets a number, the same one in whatever order mentions come."""

    kind = "evidence"
    tolerance: float = 1e-6
    """How far two answers for the same candidate may lie apart."""
    expected: Sequence[tuple[Ranking, Sequence[float]]] = ()
    """Mentions that are alone in their texts, and the value of each of their candidates."""

    def test_gives_each_candidate_a_number_from_minus_one_to_one(self) -> None:
        mentions = mentions_of_a_text()
        answers = self.make().values(mentions)
        assert len(answers) == len(mentions)
        for mention, values in zip(mentions, answers, strict=True):
            assert len(values) == len(mention.candidates)
            assert all(-1 <= float(value) <= 1 for value in values), "NaN, or out of its range"

    def test_nasty_texts(self) -> None:
        evidence = self.make()
        for ranking in sample_rankings():
            (values,) = evidence.values([ranking])
            assert len(values) == len(ranking.candidates)
            assert all(-1 <= float(value) <= 1 for value in values)

    def test_says_what_it_counts_by_default(self) -> None:
        for weight in self.make().weights:
            assert math.isfinite(weight)
            assert weight >= 0, "what speaks against a candidate has a negative value"

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        mentions = mentions_of_a_text()
        before = copy.deepcopy(mentions)
        evidence = self.make()
        self._same(evidence.values(mentions), evidence.values(mentions))
        assert mentions == before, "the mentions were changed"

    def test_the_order_of_the_mentions_changes_nothing(self) -> None:
        evidence, mentions = self.make(), mentions_of_a_text()
        forward = list(evidence.values(mentions))
        self._same(forward, list(evidence.values(mentions[::-1]))[::-1])

    def test_no_mention_and_no_candidate(self) -> None:
        evidence = self.make()
        assert list(evidence.values([])) == []
        (values,) = evidence.values([Ranking(MentionInText("Ada", 0, 3), ())])
        assert list(values) == []

    def test_gives_what_it_should(self) -> None:
        for ranking, values in self.expected:
            self._same(self.make().values([ranking]), [values])

    def _same(self, left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> None:
        assert [len(values) for values in left] == [len(values) for values in right]
        flat = list(chain.from_iterable(left)), list(chain.from_iterable(right))
        assert flat[0] == pytest.approx(flat[1], abs=self.tolerance, rel=0)


def mentions_of_a_text() -> list[Ranking]:
    """Five mentions of one text, with 1 to 5 candidates."""
    text = "Ada met Bob; Ada and B. left the bay of Ada Lovelace, type IV."
    places = ((0, 3), (8, 11), (13, 16), (21, 23), (40, 52))
    return [
        replace(ranking, mention=MentionInText(text, start, end, "doc:1"))
        for ranking, (start, end) in zip(sample_rankings(), places, strict=False)
    ]
