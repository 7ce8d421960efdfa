"""The contract of evidence: a number from -1 to 1 for each candidate of each mention."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

from kglink.plugins import CandidateEvidence
from kglink.records import MentionInText, Ranking
from kglink.testing.contracts.base import PluginContract
from kglink.testing.contracts.ranking import sample_rankings


class CandidateEvidenceContract(PluginContract):
    """Every candidate gets a number, the same one in whatever order mentions come."""

    kind = "evidence"
    tolerance: float = 1e-6
    """How far two answers for the same candidate may lie apart."""
    expected: Sequence[tuple[Ranking, Sequence[float]]] = ()
    """Mentions that are alone in their texts, and the value of each of their candidates."""

    def make(self) -> CandidateEvidence:
        """The evidence under test."""
        evidence: CandidateEvidence = self.create()
        return evidence

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
        for ours, theirs in zip(left, right, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert math.isclose(float(one), float(other), abs_tol=self.tolerance)


def mentions_of_a_text() -> list[Ranking]:
    """Five mentions of one text, with 1 to 5 candidates."""
    text = "Ada met Bob; Ada and B. left the bay of Ada Lovelace, type IV."
    places = ((0, 3), (8, 11), (13, 16), (21, 23), (40, 52))
    return [
        replace(ranking, mention=MentionInText(text, start, end, "doc:1"))
        for ranking, (start, end) in zip(sample_rankings(), places, strict=False)
    ]
