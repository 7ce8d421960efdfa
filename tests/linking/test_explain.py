"""Why a mention was linked: by hand, and through `kglink explain` and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.linking.explain import Change, Difference, Explanation
from kglink.linking.kinds import Weights
from kglink.linking.scoring import Scoring
from kglink.records import Candidate, EntityId, Link

WEIGHTS = Weights.of(alias=0.5, memory=1.0, name=0)
FIRST = Candidate(
    EntityId("k", "1"), "heron", 0.8,
    evidence={"alias": 0.6, "memory": 0.5}, parts={"alias": 0.3, "memory": 0.5},
)  # fmt: skip
NEAR = Candidate(
    EntityId("k", "2"), "Heron", 0.5,
    evidence={"alias": 0.8, "memory": 0.1}, parts={"alias": 0.4, "memory": 0.1},
)  # fmt: skip
FAR = Candidate(EntityId("j", "3"), "heroin", -0.5, evidence={"alias": -1.0}, parts={"alias": -0.5})


def explanation(*candidates: Candidate, chosen: bool = True, sure: float = 0.9) -> Explanation:
    answer = candidates[0] if chosen else None
    link = Link(0, 5, "heron", candidates, answer, 0.6, probability=sure)
    return Explanation(link, Scoring(WEIGHTS), 0.5)


def test_what_decided_by_hand() -> None:
    told = explanation(FIRST, NEAR)
    assert told.decided() == [Difference("memory", 0.4), Difference("alias", -0.1)]
    assert told.probability == 0.9
    assert told.weights() == {"k": {"alias": 0.5, "memory": 1.0}}
    assert explanation(FIRST).decided() == []


def test_what_would_have_to_change_by_hand() -> None:
    # 0.3 is missing: memory would have to grow by 0.3, alias by 0.6, beyond 1.
    told = explanation(FIRST, NEAR, FAR)
    assert told.changes() == [Change(NEAR, "memory", 0.1, 0.4)]


def test_what_scores_as_high_lacks_nothing() -> None:
    # Another KB answers first, or a reranker said so: no evidence would have to grow.
    assert explanation(NEAR, FIRST).changes() == []
    assert explanation(NEAR, NEAR).changes() == []


def test_nil_by_hand() -> None:
    # How likely the first candidate is right is not what NIL leaves.
    assert explanation(FIRST, chosen=False, sure=0.3).probability == 0.3
    nothing = Explanation(Link(0, 1, "x", (), None, 1.0), Scoring(WEIGHTS), 0.5)
    assert (nothing.decided(), nothing.changes(), dict(nothing.weights())) == ([], [], {})


# -------------------------------------------------------------------------------- commands
TEXT = "The heron counted the lamps; a grey heron flew."


def test_the_table_of_a_surface(demo: Path, kglink: Kglink) -> None:
    out = kglink("explain", TEXT, "--surface", "heron", "--top-k", "3").out
    first, second = out.split("\n\n")
    assert first.startswith("heron  characters 4 to 9\n")
    assert second.startswith("heron  characters 36 to 41\n")
    lines = {line.split("\t")[0]: line for line in first.splitlines()}
    assert len(lines["evidence"].split("\t")) == 4
    assert "+0." in lines["alias"]
    assert "decided  against" in first


def test_json_adds_up(demo: Path, kglink: Kglink) -> None:
    (told,) = json.loads(kglink("explain", TEXT, "--span", "36:41", "--json").out)
    assert (told["start"], told["end"], told["text"]) == (36, 41, "heron")
    for one in told["candidates"]:
        assert sum(one["parts"].values()) == pytest.approx(one["score"], abs=1e-3)
        for kind, part in one["parts"].items():
            weight = told["weights"][one["kb"]][kind]
            assert part == pytest.approx(weight * one["evidence"][kind], abs=1e-4)
    lead = told["candidates"][0]["score"] - told["candidates"][1]["score"]
    assert sum(one["by"] for one in told["decided"]) == pytest.approx(lead, abs=1e-3)
    # Of a mention that was found: the same as `kglink link` says.
    (linked,) = json.loads(kglink("link", "-", "-f", "json", "--explain", stdin="Mercury").out)
    (found,) = json.loads(kglink("explain", "Mercury", "--json").out)
    assert linked["entities"][0]["candidates"] == found["candidates"]


def test_words_that_are_found_are_explained_as_they_are_linked(demo: Path, kglink: Kglink) -> None:
    text = "Two grey herons stood by the lighthouses."
    for surface in ("grey herons", "lighthouses"):
        (told,) = json.loads(kglink("explain", text, "--surface", surface, "--json").out)
        (document,) = json.loads(kglink("link", "-", "-f", "json", "--explain", stdin=text).out)
        (linked,) = (one for one in document["entities"] if one["text"] == surface)
        assert told["candidates"] == linked["candidates"]
        assert told["confidence"] == linked["confidence"]
        assert told["found"]
    (missed,) = json.loads(kglink("explain", text, "--surface", "stood", "--json").out)
    assert not missed["found"]


@pytest.mark.parametrize(
    "more", [("--type", "planet"), ("--threshold", ".99"), ("--kb", "encyclopedia")]
)
def test_what_limits_links_limits_their_explanations(
    demo: Path, kglink: Kglink, more: tuple[str, str]
) -> None:
    text = "Juno Halley saw Mercury and the Orion Light."
    plain = json.loads(kglink("explain", text, "--json").out)
    told = json.loads(kglink("explain", text, "--json", *more).out)
    (document,) = json.loads(kglink("link", "-", "--json", "--explain", *more, stdin=text).out)
    assert [one["candidates"] for one in told] == [
        one["candidates"] for one in document["entities"]
    ]
    assert [one["nil"] for one in told] == [one["nil"] for one in document["entities"]]
    assert told != plain


def test_where_there_is_no_mention(demo: Path, kglink: Kglink) -> None:
    assert "does not stand in the text" in kglink("explain", "a", "--surface", "b", code=2).err
    assert "START:END" in kglink("explain", "a", "--span", "b", code=2).err
    assert "Give one" in kglink("explain", "a", "--span", "0:1", "-s", "a", code=2).err
    assert "not inside" in kglink("explain", "a", "--span", "0:9", code=2).err
    assert "no mention was found" in kglink("explain", "xyzzy qwx").err


def test_a_file_is_not_taken_for_a_text(demo: Path, kglink: Kglink, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Heron counts the lamps.")
    ran = kglink("explain", text, code=2)
    assert f"'{text}' is a file, not a text" in ran.err
    assert f"kglink explain - < {text}" in ran.err


def test_standard_input_is_read_as_texts_that_are_linked_are(demo: Path, kglink: Kglink) -> None:
    for given in (
        b"\xef\xbb\xbfJuno Halley\r\nsaw Orion\r\nLight.",
        "<html><body><p>Café &amp; Orion Light</p></body></html>".encode("cp1252"),
    ):
        more = ("--encoding", "cp1252") if b"<" in given else ()
        (document,) = json.loads(kglink("link", "-", "--json", *more, stdin=given).out)
        told = json.loads(kglink("explain", "-", "--json", *more, stdin=given).out)
        places = [(one["start"], one["end"], one["text"]) for one in document["entities"]]
        assert places
        assert [(one["start"], one["end"], one["text"]) for one in told] == places
    told = kglink("explain", "-", stdin=b'{"text": 7}', code=1).err
    assert "text is the number 7" in told
    assert "--on-error" not in told
    two = b'{"text": "Heron"}\n{"text": "Juno"}\n'
    assert "holds 2 texts" in kglink("explain", "-", stdin=two, code=2).err


def test_the_page_shows_what_each_kind_adds(demo: Path, kglink: Kglink) -> None:
    page = kglink("link", "-", "-f", "html", "--explain", stdin="Mercury").out
    assert re.search(r'"parts":\s*\{"name"', page)
