"""BM25 and TF-IDF by the command line: an index that a build makes when it is asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.linking.kinds import Weights
from kglink.linking.scoring import Scoring
from kglink.records import Candidate, MentionInText, Span, TextInput
from kglink.workspace import Workspace

TEXT = "They spoke of the inventor."
EVAL = ("eval", "--docs", "docs", "--split", "test", "--k", "1,5,64", "--json")


@pytest.fixture(scope="module")
def with_words(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with an index of words; read it, do not change it."""
    folder = tmp_path_factory.mktemp("words") / "workspace"
    shutil.copytree(demo_master, folder)
    with Workspace.open(folder, flags={"space.words": "yes"}) as workspace:
        report = workspace.build()
    assert (report.encoded_rows, report.manifest.words) == (0, True)
    return folder


@pytest.mark.parametrize("by", ["bm25", "tfidf"])
def test_words_find_entities_by_themselves(
    kglink: Kglink, with_words: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(with_words))
    found = json.loads(kglink(*EVAL, "--found-by", by).out)
    assert found["found_by"] == by
    figures = found["metrics"]["mean"]
    assert 0.2 < figures["R@1"] < figures["R@64"] <= 1


def test_one_word_of_the_description_finds_what_no_name_does(with_words: Path) -> None:
    with Workspace.open(with_words, flags={"link.found_by": "bm25", "link.top_k": 64}) as workspace:
        segment = workspace.space().segments["encyclopedia"]
        assert segment.words is not None
        ((rows, _),) = segment.words.search(["inventor"], 64, "bm25")
        keys = [segment.keys[row] for row in rows]
        linker = workspace.linker(["encyclopedia"])
        (linked,) = linker.link([TextInput("one", TEXT, (Span(18, 26),))])
        candidates = linked.links[0].candidates
        assert [one.id.key for one in candidates] == keys
        assert all(one.evidence["bm25"] == pytest.approx(one.score, abs=1e-4) for one in candidates)


def test_without_an_index_the_message_says_how_to_make_one(kglink: Kglink, demo: Path) -> None:
    told = kglink(*EVAL, "--found-by", "bm25", code=1).err
    assert "no index of the words of 'encyclopedia'" in told
    assert "kglink build --words" in told


def test_later_builds_keep_the_index_until_it_is_taken_away(
    kglink: Kglink, demo_copy: Path, tmp_path: Path
) -> None:
    built = kglink("build", "--words").err
    assert "0 vectors encoded" in built
    more = tmp_path / "more.jsonl"
    more.write_text('{"key": "Q1", "title": "Zebra", "description": "A striped horse."}\n')
    kglink("add-kb", "animals", more)
    assert json.loads(kglink("build", "--json").out)["words"]
    found = json.loads(kglink(*EVAL, "--found-by", "tfidf").out)
    assert found["kbs"] == ["encyclopedia", "lanternfall", "animals"]
    kglink("build", "--no-words")
    kglink(*EVAL, "--found-by", "tfidf", code=1)


def test_words_are_evidence_that_changes_no_answer_until_a_fit_weighs_it(
    demo_master: Path, with_words: Path
) -> None:
    text, found = "The lighthouse.", []
    for folder in (demo_master, with_words):
        with Workspace.open(folder) as workspace:
            (linked,) = workspace.linker().link([TextInput("one", text, (Span(4, 14),))])
        found.append(linked.links[0].candidates)
    without, with_them = found
    assert [(one.id, one.score) for one in without] == [(one.id, one.score) for one in with_them]
    assert any(one.evidence["bm25"] > 0 for one in with_them)
    assert not any("bm25" in one.evidence or "bm25" in one.parts for one in without)
    with Workspace.open(with_words) as workspace:
        weights = Weights.of(bm25=1.0)
        search = workspace.link_setup().search(scoring=Scoring(weights))
        best = search.find([MentionInText(TEXT, 18, 26)], ["encyclopedia"])[0]["encyclopedia"][0]
        assert best.parts["bm25"] == pytest.approx(best.score, abs=1e-4)


def test_a_limited_link_finds_by_words_what_it_is_limited_to(with_words: Path) -> None:
    flags = {"link.found_by": "bm25", "link.top_k": 64, "link.candidates": 64}
    with Workspace.open(with_words, flags=flags) as workspace:
        text = "A lamp in the history of it."

        def found(types: Sequence[str]) -> list[Candidate]:
            limits = workspace.limits(types=types)
            linker = workspace.linker(["encyclopedia"], limits=limits)
            (linked,) = linker.link([TextInput("one", text, (Span(2, 24),))])
            return list(linked.links[0].candidates)

        whole = found(())
        kinds = {one.type for one in whole}
        assert len(kinds) > 1
        for kind in kinds:
            ids = [one.id for one in found([kind])]
            first = [one.id for one in whole if one.type == kind]
            assert ids[: len(first)] == first
            assert {one.type for one in found([kind])} == {kind}
