"""An easy mention helps a hard one like it; where it is no candidate, nothing changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from kglink.plugins import Clusterer
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import ClustererContract
from kglink_plugins.clusterers import MentionsClusterer
from kglink_plugins.plugin import MentionsSettings

FloatArray = npt.NDArray[np.float32]
PLANET = Candidate(EntityId("sky", "1"), "Mercury (planet)", 0.50)
METAL = Candidate(EntityId("sky", "2"), "Mercury (metal)", 0.55)


def vectors(mentions: Sequence[MentionInText]) -> tuple[FloatArray, FloatArray]:
    """By the letters of the name, and of the text."""
    return letters([one.surface for one in mentions]), letters([one.text for one in mentions])


def letters(texts: Sequence[str]) -> FloatArray:
    counts = np.array(
        [[text.lower().count(chr(ord("a") + at)) + 0.01 for at in range(26)] for text in texts],
        np.float32,
    ).reshape(-1, 26)
    lengths: FloatArray = np.linalg.norm(counts, axis=1, keepdims=True)
    return np.asarray(counts / lengths, np.float32)


def probability(ranking: Ranking) -> float:
    """That of the hard mention is low."""
    return ranking.candidates[0].score if ranking.candidates else 0.0


def clusterer(**settings: object) -> MentionsClusterer:
    made = MentionsClusterer(MentionsSettings.model_validate(settings))
    made.read_with(vectors, probability)
    return made


class TestContract(ClustererContract):
    """It holds to the contract of all clusterers."""

    plugin = "kglink/mentions"

    def make(self) -> Clusterer:
        return clusterer()


def ranking(text: str, *candidates: Candidate, document: str = "1") -> Ranking:
    return Ranking(MentionInText(text, 0, 7, document), candidates)


EASY = ranking("Mercury is a planet.", Candidate(PLANET.id, PLANET.title, 0.95), document="2")
HARD = ranking("Mercury is near.", METAL, PLANET)


@pytest.mark.parametrize("mode", ["directed", "undirected"])
def test_an_easy_mention_helps_a_hard_one_in_another_text(mode: str) -> None:
    made = clusterer(mode=mode)
    answer, easy = made.rank([HARD, EASY])
    assert [one.title for one in answer.candidates] == ["Mercury (planet)", "Mercury (metal)"]
    first = answer.candidates[0]
    assert 0.55 < first.score <= 0.95
    assert 0 < first.evidence["mentions"] <= 1
    assert easy.candidates[0].id == PLANET.id
    assert made.told() == ["others changed the answer of 1 of 2 mentions"]
    assert made.told() == []


def test_what_is_no_candidate_of_a_mention_is_not_its_answer() -> None:
    alone = ranking("Mercury is near.", METAL)
    answer, _ = clusterer().rank([alone, EASY])
    assert answer == alone


def test_mentions_that_are_not_alike_do_not_help_each_other() -> None:
    other = Ranking(MentionInText("Xylophony by Zwick", 0, 9, "3"), (METAL, PLANET))
    answer, _ = clusterer().rank([other, EASY])
    assert answer.candidates[0].id == METAL.id
    strict, _ = clusterer(threshold=1.0).rank([HARD, EASY])
    assert strict.candidates[0].id == METAL.id


def test_none_one_and_mentions_without_candidates() -> None:
    assert clusterer().rank([]) == []
    assert clusterer().rank([HARD]) == [HARD]
    empty = ranking("Mercury is here.")
    assert clusterer().rank([empty, EASY])[0] == empty


def test_settings_that_are_tried_answer_as_they_do_when_set() -> None:
    rankings = [HARD, EASY]
    tried = list(clusterer().alternatives(rankings))
    settings, alone = tried[0]
    assert settings == {"mode": "independent"}
    assert alone == rankings == clusterer(mode="independent").rank(rankings)
    helped = [own for own, answers in tried if answers != rankings]
    assert {own["mode"] for own in helped} == {"directed", "undirected"}
    for own, answers in tried:
        assert answers == clusterer(**own).rank(rankings)
