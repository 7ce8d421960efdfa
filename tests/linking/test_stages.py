"""Rerankers and clusterers of other makers: answers, NIL and confidence follow them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Kglink

from fake_distributions import FakeEnvironment
from kglink.errors import PluginError
from kglink.linking.stages import Stage, run_stages
from kglink.records import Candidate, EntityId, MentionInText, Ranking

RERANKER = """
    import json, os
    from dataclasses import asdict, replace

    class Birds:
        '''What is described as a bird is certain, everything else is impossible.'''

        def __init__(self, settings):
            pass

        def rank(self, rankings):
            if path := os.environ.get("ACME_GIVEN"):
                given = [json.dumps(asdict(every)) for one in rankings for every in one.candidates]
                with open(path, "a") as out:
                    out.writelines(line + "\\n" for line in given)
            return [replace(one, candidates=self.ranked(one.candidates)) for one in rankings]

        def ranked(self, candidates):
            scored = [replace(one, score=self.score(one)) for one in candidates]
            return tuple(sorted(scored, key=lambda one: -one.score))

        def score(self, one):
            assert one.title and one.aliases and one.url and one.evidence
            return float("bird" in one.description)

    @hookimpl
    def register_rerankers(register):
        register("acme/birds", Birds, summary="Birds come first")
"""
CLUSTERER = """
    from collections import Counter
    from dataclasses import replace

    class OneSense:
        '''What most mentions of a surface mean, where a bird is meant, all of them mean.'''

        def __init__(self, settings):
            pass

        def rank(self, rankings):
            votes = Counter((one.mention.surface.lower(), one.candidates[0].id)
                            for one in rankings if "bird" in one.candidates[0].description)
            assert len({one.mention.document for one in rankings}) > 1
            return [self.ranked(one, votes) for one in rankings]

        def ranked(self, ranking, votes):
            surface = ranking.mention.surface.lower()
            scored = [replace(one, score=min(1.0, one.score + votes[surface, one.id]))
                      for one in ranking.candidates]
            return replace(ranking, candidates=tuple(sorted(scored, key=lambda one: -one.score)))

    @hookimpl
    def register_clusterers(register):
        register("acme/one-sense", OneSense, summary="One sense for each surface")
"""
DATA = ROOT / "cli" / "kglink_cli" / "demo_data"
KEEPER = "[[Heron]] counts the lamps at [[Skerrow Light]] and finds one too many."
BIRD = "A grey [[heron]] stood on one leg in the shallow pond and caught a fish."


@pytest.fixture
def link(
    demo: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """Link texts with the stages of a third-party distribution, through the command."""
    environment = FakeEnvironment(tmp_path)
    environment.install("acme", "1", RERANKER, module="acme_rerankers")
    environment.install("acme-clusters", "1", CLUSTERER, module="acme_clusterers")
    monkeypatch.syspath_prepend(tmp_path)

    def link_texts(*texts: str, **settings: str) -> list[dict[str, Any]]:
        folder = tmp_path / "texts"
        folder.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (folder / f"{number}.txt").write_text(text)
        for name, value in settings.items():
            monkeypatch.setenv(f"KGLINK_LINK_{name.upper()}", value)
        ran = kglink("link", folder, "--marked", "--format", "jsonl")
        for name in settings:
            monkeypatch.delenv(f"KGLINK_LINK_{name.upper()}")
        return [link for line in ran.out.splitlines() for link in json.loads(line)["entities"]]

    return link_texts


def test_a_reranker_changes_answer_nil_and_confidence(
    link: Callable[..., list[dict[str, Any]]],
) -> None:
    plain, plain_light = link(KEEPER)
    assert (plain["key"], plain["nil"]) == ("isolde_heron", False)
    assert (plain_light["key"], plain_light["nil"]) == ("skerrow_light", False)
    changed, light = link(KEEPER, reranker="acme/birds")
    # The keeper's bird is first now, and with a full lead that is sure.
    assert changed["candidates"][0]["key"] in {"heron", "grey_heron"}
    assert changed["candidates"][0]["score"] == 1
    assert changed["confidence"] != plain["confidence"]
    # No candidate of the lighthouse is a bird: nothing leads, so it is NIL, which was decided last.
    assert light["nil"]
    assert light["key"] is None
    assert light["confidence"] > 0.5


def test_a_reranker_is_given_all_that_is_known_of_every_candidate(
    link: Callable[..., list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given.jsonl"
    monkeypatch.setenv("ACME_GIVEN", str(given))
    link(KEEPER, reranker="acme/birds")
    entities = {
        (kb, one["id"]): one
        for kb in ("encyclopedia", "lanternfall")
        for one in map(json.loads, (DATA / f"{kb}.jsonl").read_text("utf-8").splitlines())
    }
    seen = [json.loads(line) for line in given.read_text().splitlines()]
    assert len(seen) == 20, "two mentions with ten candidates each"
    for one in seen:
        kb, key = one["id"]
        entity = entities[kb, key]
        told = ("title", "description", "type", "url")
        assert [one[name] for name in told] == [entity[name] for name in told]
        assert set(entity["aliases"]) <= set(one["aliases"])
        assert one["type"]
        assert any(one["evidence"].values())


def test_a_clusterer_carries_an_answer_from_one_text_to_another(
    link: Callable[..., list[dict[str, Any]]],
) -> None:
    plain = link(BIRD, KEEPER)
    assert plain[0]["key"] != "isolde_heron"
    assert plain[1]["key"] == "isolde_heron"
    bird, keeper, _ = link(BIRD, KEEPER, clusterer="acme/one-sense")
    assert {bird["key"], plain[0]["key"]} <= {"heron", "grey_heron"}  # one bird, in two KBs
    assert keeper["key"] == bird["key"]
    assert max(one["score"] for one in keeper["candidates"][:2]) == 1
    assert bird["confidence"] != plain[0]["confidence"]


# ------------------------------------------------------------------------------- by hand
def ranking(text: str, *scores: float) -> Ranking:
    candidates = tuple(
        Candidate(EntityId("kb", str(at)), str(at), score) for at, score in enumerate(scores)
    )
    return Ranking(MentionInText(text, 0, len(text)), candidates)


class Turned:
    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [
            replace(
                one,
                candidates=tuple(
                    replace(candidate, score=0.5 - at / 10)
                    for at, candidate in enumerate(one.candidates[::-1])
                ),
            )
            for one in rankings
        ]


def test_what_a_stage_is_not_given_stays_behind_with_no_higher_score() -> None:
    stage = Stage("turned", Turned(), depth=2)
    (ranked,) = stage.rank([ranking("x", 0.9, 0.8, 0.7, 0.1)])
    found = [(one.id.key, round(one.score, 2)) for one in ranked.candidates]
    assert found == [("1", 0.5), ("0", 0.4), ("2", 0.4), ("3", 0.1)]


def test_a_stage_for_all_sees_every_batch_at_once_and_gives_the_batches_back() -> None:
    seen: list[int] = []

    class Counting(Turned):
        def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            seen.append(len(rankings))
            return list(rankings)

    batches = [[ranking("a", 1), ranking("b", 1)], [], [ranking("c", 1)]]
    for sees_all, calls in ((False, [2, 1]), (True, [3])):
        seen.clear()
        assert list(run_stages([Stage("x", Counting(), 1, sees_all)], batches)) == batches
        assert seen == calls


def test_a_stage_that_loses_or_makes_candidates_is_named() -> None:
    class Losing:
        def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            return [replace(one, candidates=one.candidates[1:]) for one in rankings]

    class Empty:
        def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            return []

    class Answering:
        def __init__(self, *scores: float, twice: bool = False) -> None:
            self._scores, self._twice = scores, twice

        def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            return [self._ranked(one) for one in rankings]

        def _ranked(self, one: Ranking) -> Ranking:
            own = (*one.candidates, *one.candidates[: self._twice])
            scored = zip(own, self._scores, strict=True)
            return replace(one, candidates=tuple(replace(c, score=s) for c, s in scored))

    class Nothing:
        def rank(self, rankings: Sequence[Ranking]) -> Any:
            return [None for _ in rankings]

    class Swapping:
        def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            return list(rankings[::-1])

    for broken, told in (
        (Answering(float("nan"), 1.0), "are not all finite numbers"),
        (Answering(1.0, 2.0), "are not best first"),
        (Answering(2.0, 1.0, 1.0, twice=True), "other candidates came back"),
        (Swapping(), "in another order"),
        (Nothing(), "acme/x failed with AttributeError"),
    ):
        with pytest.raises(PluginError, match=told):
            Stage("acme/x", broken, 5).rank([ranking("a", 1, 2), ranking("b", 1, 2)])
    with pytest.raises(PluginError, match="acme/x: other candidates came back"):
        Stage("acme/x", Losing(), 5).rank([ranking("a", 1, 2)])
    with pytest.raises(PluginError, match="acme/x: 1 rankings were given, 0 came back"):
        Stage("acme/x", Empty(), 5).rank([ranking("a", 1, 2)])
