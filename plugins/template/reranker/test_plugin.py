"""The reranker holds to the contract of all rerankers, and prefers what it should."""

from __future__ import annotations

from kglink_myplugin.plugin import SameNameReranker, SameNameSettings

from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import RerankerContract


class TestSameName(RerankerContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"


def test_a_candidate_of_that_name_comes_first() -> None:
    """By its title or by another name."""
    ada = Candidate(EntityId("people", "1"), "Ada Lovelace", 0.5, aliases=("Ada",))
    bob = Candidate(EntityId("people", "2"), "Bob", 0.9)
    ranking = Ranking(MentionInText("Ada left.", 0, 3), (bob, ada))
    (answer,) = SameNameReranker(SameNameSettings()).rank([ranking])
    assert [(one.title, one.score) for one in answer.candidates] == [
        ("Ada Lovelace", 1.5),
        ("Bob", 0.9),
    ]
