"""Evidence of another maker: asked, fitted, explained and exported through the commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Kglink

from fake_distributions import FakeEnvironment
from kglink.errors import PluginError
from kglink.linking.asked import AskedKind
from kglink.linking.kinds import EvidenceKind
from kglink.plugins import DefaultWeights
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.workspace import Workspace

#: The demo's characters are not meant where the text speaks of the sky.
EVIDENCE = """
    from kglink.plugins import DefaultWeights, PluginSettings

    class Words(PluginSettings):
        words: tuple[str, ...] = ("sky",)

    class InTheSky:
        weights = DefaultWeights(untrained=0.5)

        def __init__(self, settings):
            self.words = settings.words

        def values(self, mentions):
            for mention in mentions:
                for one in mention.candidates:
                    assert one.title and one.evidence["name"] <= 1
            # All mentions of a text are there, and their candidates are described.
            assert len({mention.mention.text for mention in mentions}) == 1
            told = any(word in mentions[0].mention.text for word in self.words)
            return [[float(told and one.type == "planet") for one in mention.candidates]
                    for mention in mentions]

    @hookimpl
    def register_evidence(register):
        register("acme/in-the-sky", InTheSky, settings=Words, summary="Planets are in the sky")
"""
TEXT = "[[Mercury]] filled the glass under the sky, and [[Mercury]] rose."


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGLINK_PLUGINS", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    FakeEnvironment(tmp_path).install("acme", "1", EVIDENCE)


def linked(kglink: Kglink) -> list[dict[str, Any]]:
    ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=TEXT)
    found: list[dict[str, Any]] = json.loads(ran.out)[0]["entities"]
    return found


def test_evidence_of_another_maker_is_asked_where_the_settings_name_it(
    acme: None, demo: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = linked(kglink)
    assert "acme/in-the-sky" not in plain["candidates"][0]["evidence"]
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE", "acme/in-the-sky")
    for link in linked(kglink):
        told = {one["key"]: one["evidence"]["acme/in-the-sky"] for one in link["candidates"]}
        assert told["mercury_planet"] == 1
        assert set(told.values()) == {0, 1}
        assert link["candidates"][0]["key"] == "mercury_planet"
    before = {one["key"]: one["score"] for one in plain["candidates"]}
    after = {one["key"]: one["score"] for one in linked(kglink)[0]["candidates"]}
    assert after["mercury_planet"] == pytest.approx(before["mercury_planet"] + 0.5, abs=1e-4)
    assert after["mercury_element"] == pytest.approx(before["mercury_element"], abs=1e-4)
    # Its settings, and what is wrong with them.
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE_SETTINGS", '{"in-the-sky.words": "rain"}')
    assert linked(kglink)[0]["candidates"][0]["evidence"]["acme/in-the-sky"] == 0
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE_SETTINGS", '{"words": "rain"}')
    assert "link.more_evidence_settings" in kglink("link", "-", code=2, stdin="Mercury").err


@pytest.mark.slow
def test_evidence_of_another_maker_is_fitted_explained_and_exported(
    acme: None, demo_copy: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE", "acme/in-the-sky")
    ran = kglink("fit", "docs", "--json")
    fitted = json.loads(ran.out)
    told = dict(line.split(maxsplit=1) for line in ran.err.splitlines() if "changed" in line)
    parts = ", ".join(told.values()).split(", ")
    assert sorted(parts) == sorted(
        [
            "the weights of evidence", "how sure answers are", "the threshold",
            "the judge of which words are mentions",
        ]
    )  # fmt: skip
    assert "acme/in-the-sky" in fitted["weights"]
    kept = json.loads((demo_copy / "spaces" / "default" / "scoring.json").read_text())
    assert kept["scoring"]["weights"]["by_kind"] == fitted["weights"]
    for name in ("html", "jsonl"):
        ran = kglink("link", "-", "--marked", "--format", name, "--explain", stdin=TEXT)
        assert "acme/in-the-sky" in ran.out
    (told,) = json.loads(kglink("explain", "Mercury in the sky", "--span", "0:7", "--json").out)
    planet = next(one for one in told["candidates"] if one["key"] == "mercury_planet")
    assert planet["evidence"]["acme/in-the-sky"] == 1
    assert told["weights"]["encyclopedia"]["acme/in-the-sky"] == planet["parts"]["acme/in-the-sky"]
    with Workspace.open(demo_copy) as workspace:
        (document,) = workspace.link(["Mercury in the sky"])
        assert document.links[0].candidates[0].evidence["acme/in-the-sky"] == 1


# -------------------------------------------------------------------------------- by hand
MENTION = Ranking(
    MentionInText("a heron", 2, 7),
    (Candidate(EntityId("k", "1"), "heron", 1.0), Candidate(EntityId("k", "2"), "Heron", 0.5)),
)


class Given:
    weights = DefaultWeights()

    def __init__(self, *answers: Sequence[float]) -> None:
        self.answers = answers

    def values(self, mentions: Sequence[Ranking]) -> Sequence[Sequence[float]]:
        return self.answers


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "1 mentions were given, 0 came back"),
        ([(0.5,)], "2 candidates were given"),
        ([(0.5, 1.5)], "not all between -1 and 1"),
        ([(0.5, float("nan"))], "not all between -1 and 1"),
        ([((0.5, 0.5), (0.5, 0.5))], "2 candidates were given"),
    ],
)
def test_wrong_numbers_are_refused(answers: list[Sequence[float]], message: str) -> None:
    asked = AskedKind(EvidenceKind("acme/bad", ""), Given(*answers))
    with pytest.raises(PluginError, match=message):
        asked.values([MENTION])


def test_evidence_that_fails_is_named() -> None:
    words: Any = ("much", "more")
    asked = AskedKind(EvidenceKind("acme/bad", ""), Given(words))
    with pytest.raises(PluginError, match="evidence 'acme/bad' failed with ValueError"):
        asked.values([MENTION])


def test_right_numbers_are_taken() -> None:
    asked = AskedKind(EvidenceKind("acme/good", ""), Given((0.5, -1)))
    (values,) = asked.values([MENTION])
    assert values.dtype == np.float32
    assert values.tolist() == [0.5, -1]


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ("weights = None and ", "TypeError"),
        ("weights = (float('nan'), 0.5) or ", "ValueError: DefaultWeights(untrained=nan"),
    ],
)
def test_evidence_whose_weights_are_no_numbers_is_named(
    demo: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str,
    why: str,
) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    code = EVIDENCE.replace("weights = ", weights)
    FakeEnvironment(tmp_path).install("acme", "1", code)
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE", "acme/in-the-sky")
    ran = kglink("link", "-", stdin="Mercury.", code=2)
    assert f"the weights of evidence 'acme/in-the-sky' failed with {why}" in ran.err
