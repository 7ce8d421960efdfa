"""Which KB answers where several have the same thing, and what each answers for itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.errors import UnknownNameError
from kglink.linking.decide import Decision
from kglink.linking.scoring import PLAIN_SCORING
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.workspace import Workspace

MENTION = MentionInText("a heron stood", 2, 7)
BIRD, WADER, LADY = EntityId("a", "bird"), EntityId("b", "wader"), EntityId("b", "lady")
TEXT = "A [[lighthouse]] in [[Cornwall]], and [[Isolde]]."


def candidate(name: EntityId, score: float, *also: EntityId) -> Candidate:
    evidence = {"alias": score, "expanded": 0.0, "memory": 0.0, "context": score}
    return Candidate(name, name.key, score, evidence=evidence, also=also)


def decision(
    *order: str, per_kb: bool = False, top_k: int = 5, stated: tuple[str, ...] = ()
) -> Decision:
    return Decision(PLAIN_SCORING, lambda left, right: 0.0, 0.5, top_k, order, per_kb, stated)


def test_between_counterparts_the_preferred_kb_answers() -> None:
    candidates = (candidate(BIRD, 0.9, WADER), candidate(LADY, 0.7), candidate(WADER, 0.6, BIRD))
    ranking = Ranking(MENTION, candidates)
    first = decision("a", "b").link(ranking)
    assert [one.id for one in first.candidates] == [BIRD, LADY, WADER]
    other = decision("b", "a", top_k=2, stated=("b",)).link(ranking)
    assert other.chosen is candidates[2]
    assert [one.id for one in other.candidates] == [WADER, BIRD]
    # It is the same thing, and as likely right.
    assert other.confidence == first.confidence
    # What is another thing is not chosen, whatever its KB.
    alone = Ranking(MENTION, candidates[:2])
    assert decision("b", "a", stated=("b",)).link(alone).chosen is candidates[0]


def test_an_order_that_nobody_stated_decides_between_equals_only() -> None:
    near = Ranking(MENTION, (candidate(BIRD, 0.9, WADER), candidate(WADER, 0.88, BIRD)))
    far = Ranking(MENTION, (candidate(BIRD, 0.9, WADER), candidate(WADER, 0.8, BIRD)))
    assert [
        [decision(*order).link(ranking).candidates[0].id for order in (("a", "b"), ("b", "a"))]
        for ranking in (near, far)
    ] == [[BIRD, WADER], [BIRD, BIRD]]


def test_each_kb_answers_by_its_own_probability() -> None:
    candidates = (candidate(BIRD, 0.95, WADER), candidate(LADY, 0.9), candidate(WADER, 0.88, BIRD))
    link = decision("a", "b", per_kb=True).link(Ranking(MENTION, candidates))
    of_a, of_b = link.per_kb
    assert (of_a.kb, of_b.kb) == ("a", "b")
    assert of_a.chosen is candidates[0]
    assert of_a.confidence > link.confidence  # no rival in its KB; the lady is one of all
    only_b = decision("b").link(Ranking(MENTION, candidates[1:]))
    assert of_b.confidence == only_b.confidence
    assert of_b.chosen is only_b.chosen
    assert decision("a").link(Ranking(MENTION, candidates)).per_kb == ()
    nothing = decision("a", "b", per_kb=True).link(Ranking(MENTION, ()))
    assert [(one.chosen, one.confidence) for one in nothing.per_kb] == [(None, 1.0)] * 2


def answers(kglink: Kglink, *more: str) -> list[dict[str, Any]]:
    ran = kglink("link", "-", "--marked", "--format", "json", *more, stdin=TEXT)
    (document,) = json.loads(ran.out)
    found: list[dict[str, Any]] = document["entities"]
    return found


def kbs(kglink: Kglink, *more: str) -> list[str]:
    return [one["kb"] for one in answers(kglink, *more)]


@pytest.mark.slow
def test_the_stated_rule(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is said and nothing learnt: the order of the KBs.
    assert kbs(kglink) == ["encyclopedia", "encyclopedia", "lanternfall"]
    assert kbs(kglink, "--prefer", "lanternfall") == ["lanternfall"] * 3
    monkeypatch.setenv("KGLINK_LINK_PREFER", "lanternfall,encyclopedia")
    assert kbs(kglink) == ["lanternfall"] * 3
    monkeypatch.delenv("KGLINK_LINK_PREFER")
    assert (
        "Did you mean 'lanternfall'"
        in kglink("link", "-", "--prefer", "lanternfal", stdin=TEXT, code=2).err
    )
    # Documents that link to the second KB make it a habit.
    notes = tmp_path / "notes.jsonl"
    place = {"start": 0, "end": 5, "kb": "lanternfall", "key": "quicksilver"}
    notes.write_text(json.dumps({"id": "1", "text": "Shiny stuff.", "entities": [place]}))
    kglink("add-kb", "notes", notes, "--links-to", "lanternfall")
    kglink("learn", "notes")
    assert kbs(kglink) == ["lanternfall"] * 3
    assert kbs(kglink, "--prefer", "encyclopedia")[:2] == ["encyclopedia"] * 2
    kglink("forget", "notes")
    assert kbs(kglink) == ["encyclopedia", "encyclopedia", "lanternfall"]


def test_an_answer_for_each_kb(demo: Path, kglink: Kglink) -> None:
    lighthouse, _, isolde = answers(kglink, "--per-kb")
    assert [(one["kb"], one["key"]) for one in lighthouse["per_kb"]] == [
        ("encyclopedia", "lighthouse"), ("lanternfall", "lighthouse"),
    ]  # fmt: skip
    alone = answers(kglink, "--kb", "lanternfall")
    assert isolde["per_kb"][1]["key"] == alone[2]["key"] == "isolde_heron"
    assert isolde["per_kb"][1]["confidence"] == pytest.approx(alone[2]["confidence"], abs=0.02)
    assert isolde["per_kb"][0]["nil"]
    with Workspace.open(demo, flags={"link.per_kb": True, "link.top_k": 1}) as workspace:
        (document,) = workspace.link("The lighthouse.")
        (link,) = document.links
        assert all(one.chosen and one.chosen.url for one in link.per_kb)
        with pytest.raises(UnknownNameError):
            list(workspace.link("x", kbs=["nothing"]))


@pytest.mark.parametrize("score", [float("inf"), float("-inf"), float("nan")])
def test_a_score_without_a_measure_is_answered_in_its_order(score: float) -> None:
    """A reranker of somebody else may give any number."""
    candidates = (candidate(BIRD, score), candidate(LADY, score))
    assert decision("a", "b").link(Ranking(MENTION, candidates)).candidates[0].id == BIRD
