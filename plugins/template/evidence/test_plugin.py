"""The evidence holds to the contract of all evidence, and gives what it should."""

from __future__ import annotations

from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import CandidateEvidenceContract

BIRD = Candidate(EntityId("k", "1"), "heron", 1.0, type="Bird")
PERSON = Candidate(EntityId("k", "2"), "Isolde Heron", 0.5, type="Person")


class TestTypeInText(CandidateEvidenceContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
    expected = (
        (Ranking(MentionInText("the heron, a bird", 4, 9), (BIRD, PERSON)), (1.0, 0.0)),
        (Ranking(MentionInText("the heron", 4, 9), (BIRD, PERSON)), (0.0, 0.0)),
    )
