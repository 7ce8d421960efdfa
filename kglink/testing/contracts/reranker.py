"""The contract of rerankers: the same candidates, in a better order."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from types import MappingProxyType

from kglink.plugins import Reranker, RerankQuery
from kglink.records import Candidate, EntityId, Span
from kglink.testing.contracts.base import PluginContract
from kglink.testing.contracts.texts import NASTY_TEXTS

Answer = tuple[Candidate, ...]


class RerankerContract(PluginContract):
    """Every candidate comes back once, with a finite score, best first."""

    kind = "reranker"
    tolerance: float = 1e-5
    """How far the scores of one query, asked alone and among others, may lie apart."""

    def make(self) -> Reranker:
        """The reranker under test."""
        reranker: Reranker = self.create()
        return reranker

    def test_answers_every_query_in_order(self) -> None:
        queries = rerank_queries()
        answers = self.make().rerank(queries)
        assert len(answers) == len(queries)
        for query, answer in zip(queries, answers, strict=True):
            assert isinstance(answer, tuple)
            assert sorted(map(_fixed_part, answer)) == sorted(map(_fixed_part, query.candidates)), (
                "the same candidates with new scores"
            )

    def test_puts_the_best_first_with_finite_scores(self) -> None:
        for answer in self.make().rerank(rerank_queries()):
            scores = [candidate.score for candidate in answer]
            assert all(math.isfinite(score) for score in scores)
            assert scores == sorted(scores, reverse=True)

    def test_a_query_is_answered_as_if_alone(self) -> None:
        reranker, queries = self.make(), rerank_queries()
        for query, answer in zip(queries, reranker.rerank(queries), strict=True):
            self._same_scores(reranker.rerank([query])[0], answer)

    def test_is_repeatable_and_leaves_its_arguments_alone(self) -> None:
        queries = rerank_queries()
        before = copy.deepcopy(queries)
        reranker = self.make()
        assert reranker.rerank(queries) == reranker.rerank(queries)
        assert queries == before, "the queries were changed"

    def test_no_query_and_no_candidate(self) -> None:
        reranker = self.make()
        assert reranker.rerank([]) == []
        assert reranker.rerank([RerankQuery("Ada", Span(0, 3), ())]) == [()]

    def _same_scores(self, left: Answer, right: Answer) -> None:
        left_scores = {candidate.id: candidate.score for candidate in left}
        right_scores = {candidate.id: candidate.score for candidate in right}
        assert left_scores.keys() == right_scores.keys()
        for key, score in left_scores.items():
            assert math.isclose(
                score, right_scores[key], rel_tol=self.tolerance, abs_tol=self.tolerance
            )


def rerank_queries() -> list[RerankQuery]:
    """A query for each nasty text that has a character to point at, with 1 to 5 candidates."""
    titles = ("Ada", "Ada Lovelace", "Bob", "", "Zoë 👩‍👩‍👧")
    candidates = tuple(
        Candidate(
            EntityId("people", f"P:{number}"),
            title,
            score=1.0 - number / 10,
            url=f"https://example.org/{number}",
            description=f"{title} number {number}",
            evidence={"name": number / 10},
            also=(EntityId("other", str(number)),),
        )
        for number, title in enumerate(titles)
    )
    return [
        RerankQuery(text, Span(0, 1), candidates[: 1 + number % len(candidates)])
        for number, text in enumerate(filter(None, NASTY_TEXTS))
    ]


def _fixed_part(candidate: Candidate) -> str:
    return repr(replace(candidate, score=0.0, evidence=MappingProxyType({})))
