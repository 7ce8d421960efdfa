"""The clusterer holds to the contract of all clusterers, and looks at other mentions."""

from __future__ import annotations

import pytest
from kglink_myplugin.plugin import CommonClusterer, CommonSettings

from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import ClustererContract

PLANET = Candidate(EntityId("sky", "1"), "Mercury (planet)", 0.50)
METAL = Candidate(EntityId("sky", "2"), "Mercury (metal)", 0.55)


class TestCommon(ClustererContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"


def test_another_mention_changes_the_order() -> None:
    """Who speaks of the planet twice means it the first time, too."""
    text = "Mercury is a planet. The planet is hot."
    first = Ranking(MentionInText(text, 0, 7), (METAL, PLANET))
    second = Ranking(MentionInText(text, 25, 31), (PLANET,))
    answer, _ = CommonClusterer(CommonSettings()).rank([first, second])
    assert [one.title for one in answer.candidates] == ["Mercury (planet)", "Mercury (metal)"]
    assert answer.candidates[0].score == pytest.approx(0.6)
