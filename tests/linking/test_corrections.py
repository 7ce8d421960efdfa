"""Corrections: they hold in their own text at once, are learnt for others, and are taken back."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kglink import Span, TextInput, Workspace
from kglink.errors import UnknownNameError, UsageError
from kglink.records import CORRECTIONS, Document, Entity, EntityId, Mention
from kglink.workspace.memory import learn_corrections

TEXT = "A kite was seen above Halley, and \N{PILE OF POO} Mercury rose with the kite."

#: A process that is killed amid the first correction of a workspace.
CUT_SHORT = """
import os, sys
from kglink import Workspace
from kglink.records import CORRECTIONS, Document
from kglink.store.values import IngestJob

job = IngestJob(CORRECTIONS, "", "", "x")

def documents():
    yield Document("x", "A text.")
    os._exit(9)

Workspace.open(sys.argv[1]).store.ingest(job, documents())
"""


@pytest.fixture
def workspace(demo_copy: Path) -> Workspace:
    return Workspace.open(demo_copy, flags={"link.found_by": "all"})


def answers(workspace: Workspace, text: str) -> dict[tuple[int, int], str | None]:
    (document,) = workspace.link(text)
    assert all(text[one.start : one.end] == one.surface for one in document.links)
    return {
        (one.start, one.end): str(one.chosen.id) if one.chosen else None for one in document.links
    }


def place(text: str, words: str) -> tuple[int, int]:
    start = text.index(words)
    return start, start + len(words)


def test_a_correction_comes_back_with_its_kb_whatever_was_corrected_meanwhile(
    tmp_path: Path,
) -> None:
    text = "Orion saw a Heron."
    kbs = {
        "sky": [Entity("o", "Orion", "A hunter."), Entity("h", "Heron", "A bird.")],
        "cranes": [Entity("c", "Crane", "A bird.")],
    }
    with Workspace.open(tmp_path, create=True) as workspace:
        for name, entities in kbs.items():
            workspace.add_kb(name, entities)
        heron, orion = place(text, "Heron"), place(text, "Orion")
        workspace.correct(text, *heron, "cranes:c")
        workspace.remove_kb("cranes")
        workspace.correct(text, *orion, "sky:o")
        assert [str(one.entity) for one in workspace.corrections()] == ["sky:o", "cranes:c"]
        workspace.add_kb("cranes", kbs["cranes"])
        assert answers(workspace, text) == {orion: "sky:o", heron: "cranes:c"}


def test_a_correction_holds_in_its_text_and_teaches_others(workspace: Workspace) -> None:
    other = "Later Halley came down the stairs."
    at = place(TEXT, "Halley")
    before = answers(workspace, TEXT)[at], answers(workspace, other)[place(other, "Halley")]
    assert "lanternfall:juno_halley" not in before
    said = workspace.correct(TEXT, *at, "lanternfall:juno_halley")
    assert answers(workspace, TEXT)[at] == "lanternfall:juno_halley"
    assert answers(workspace, other)[place(other, "Halley")] == "lanternfall:juno_halley"
    with Workspace.open(workspace.folder) as fresh:
        assert answers(fresh, TEXT)[at] == "lanternfall:juno_halley"
    assert workspace.take_back(said.id) == said
    after = answers(workspace, TEXT)[at], answers(workspace, other)[place(other, "Halley")]
    assert after == before
    assert all(info.name != CORRECTIONS for info in workspace.kbs())


def test_a_correction_to_an_entity_that_is_gone_says_nothing(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("gods", [Entity("mercury", "Mercurius"), Entity("mars", "Mars")])
        here = "They saw Mercurius."
        workspace.correct(here, 9, 18, "gods:mercury")
        assert answers(workspace, here) == {(9, 18): "gods:mercury"}
        workspace.add_kb("gods", [Entity("hermes", "Mercurius"), Entity("mars", "Mars")])
        workspace.correct("Zog went.", 0, 3, None)
        assert answers(workspace, here) == {(9, 18): "gods:hermes"}
        other = "I like Mercurius a lot."
        assert answers(workspace, other) == {place(other, "Mercurius"): "gods:hermes"}


def test_a_first_correction_that_was_cut_short_stops_nothing(tmp_path: Path) -> None:
    text = "They saw Mercurius."
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("gods", [Entity("mercury", "Mercurius")])
        killed = subprocess.run(
            [sys.executable, "-c", CUT_SHORT, str(workspace.folder)], check=False
        )
        assert killed.returncode == 9
        assert [one.revision for one in workspace.kbs() if one.name == CORRECTIONS] == [0]
        assert answers(workspace, text) == {(9, 18): "gods:mercury"}
        assert workspace.corrections() == []
        learn_corrections(workspace)
        said = workspace.correct(text, 9, 18, None)
        assert workspace.corrections() == [said]
        assert answers(workspace, text) == {(9, 18): None}


@pytest.mark.slow
def test_others_link_while_corrections_are_said_and_taken_back(tmp_path: Path) -> None:
    """Also while the first one is written, and the last one goes."""
    folder = tmp_path / "w"
    with Workspace.open(folder, create=True) as workspace:
        workspace.add_kb("gods", [Entity("mercury", "Mercurius")])
        workspace.build()

        def correct_on_and_on() -> None:
            with Workspace.open(folder) as own:
                for _ in range(12):
                    own.take_back(own.correct("Mars is up.", 0, 4, None).id)

        with ThreadPoolExecutor(1) as pool, Workspace.open(folder) as other:
            correcting = pool.submit(correct_on_and_on)
            while not correcting.done():
                assert answers(other, "They saw Mercurius.") == {(9, 18): "gods:mercury"}
                assert len(other.corrections()) < 2
            correcting.result()


def test_a_corrected_entity_has_its_title_and_all_given_mentions_are_answered(
    tmp_path: Path,
) -> None:
    text = "He has lung cancer now."
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("do", [Entity("1", "Cancer"), Entity("2", "Lung cancer")])
        workspace.add_kb("hp", [Entity("9", "Neoplasm")])
        workspace.correct(text, 12, 18, "hp:9")
        given = Span(7, 18), Span(12, 18), Span(12, 18)
        (document,) = workspace.link(TextInput("t", text, given))
    assert [(one.surface, one.chosen and one.chosen.title) for one in document.links] == [
        ("lung cancer", "Lung cancer"), ("cancer", "Neoplasm"), ("cancer", "Neoplasm"),
    ]  # fmt: skip


def test_nothing_no_mention_and_another_border(workspace: Workspace) -> None:
    before = answers(workspace, TEXT)
    mercury, kite = place(TEXT, "Mercury"), place(TEXT, "kite")
    assert before[mercury]
    assert kite in before
    workspace.correct(TEXT, *mercury, None)
    assert answers(workspace, TEXT)[mercury] is None
    longer = place(TEXT, "Mercury rose")
    workspace.correct(TEXT, *longer, "encyclopedia:mercury_planet")
    now = answers(workspace, TEXT)
    assert now[longer] == "encyclopedia:mercury_planet"
    assert mercury not in now
    workspace.correct(TEXT, *kite, None, is_mention=False)
    assert kite not in answers(workspace, TEXT)
    assert [(one.surface, one.is_mention) for one in workspace.corrections()] == [
        ("kite", False),
        ("Mercury rose", True),
    ]
    for one in workspace.corrections():
        workspace.take_back(one.id)
    assert answers(workspace, TEXT) == before


def test_nothing_is_believed_of_other_texts_though_a_kb_has_the_name(workspace: Workspace) -> None:
    one, other = "They saw Reykjavik.", "Reykjavik was cold in the evening."
    at = place(other, "Reykjavik")
    assert answers(workspace, other)[at]
    workspace.correct(one, *place(one, "Reykjavik"), None)
    assert answers(workspace, other).get(at) is None


@pytest.mark.slow
def test_given_mentions_stay_as_they_were_given(workspace: Workspace) -> None:
    at = place(TEXT, "Halley")
    workspace.correct(TEXT, *at, "lanternfall:juno_halley")
    workspace.correct(TEXT, *place(TEXT, "Mercury"), None)
    (document,) = workspace.link(TextInput("t", TEXT, (Span(*at), Span(*place(TEXT, "kite")))))
    assert [one.surface for one in document.links] == ["kite", "Halley"]
    assert document.links[1].chosen
    assert str(document.links[1].chosen.id) == "lanternfall:juno_halley"
    assert document.links[1].confidence == 1
    assert document.meta["corrected"] == 1


def test_what_nobody_corrected_says_nothing(workspace: Workspace) -> None:
    """A corrected text is annotated in part: its other names stay names."""
    text = "Mercury, Halley and a heron; Mercury, Halley and a heron."
    workspace.correct(text, *place(text, "Halley"), "lanternfall:juno_halley")
    workspace.correct(text, *place(text, "Mercury"), "encyclopedia:mercury_planet")
    never = {one.surface for one in workspace.store.all_meanings() if one.entity.key == "-"}
    assert never == set()


@pytest.mark.parametrize(("start", "end"), [(0, 0), (3, 2), (-1, 4), (0, 999), (1, 2)])
def test_a_place_that_is_none(workspace: Workspace, start: int, end: int) -> None:
    with pytest.raises(UsageError, match="is no place"):
        workspace.correct(TEXT, start, end, None)


def test_what_cannot_be_said(workspace: Workspace) -> None:
    with pytest.raises(UnknownNameError):
        workspace.correct(TEXT, 2, 6, "lanternfall:nobody")
    with pytest.raises(UsageError, match="no mention means no entity"):
        workspace.correct(TEXT, 2, 6, "lanternfall:kite_flyer", is_mention=False)
    with pytest.raises(UnknownNameError):
        workspace.take_back("6205c310b1e03784-1-2")
    assert workspace.corrections() == []


def test_a_threshold_for_one_call(workspace: Workspace) -> None:
    (few,) = workspace.link(TEXT, threshold=0.9)
    (many,) = workspace.link(TEXT, threshold=0.05)
    assert len([one for one in few.links if one.chosen]) < len(many.links)
    with pytest.raises(UsageError, match="no probability"):
        next(iter(workspace.link(TEXT, threshold=1.5)))


def test_the_name_of_corrections_is_for_texts_alone(tmp_path: Path) -> None:
    pen = Entity("c", "Red pen", "A pen.")
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("b", "Heron", "A bird.")])
        with pytest.raises(UsageError, match="and no entities"):
            workspace.add_kb(CORRECTIONS, [pen])
        said = workspace.correct("A heron here.", 2, 7, "birds:b")
        with pytest.raises(UsageError, match="and no entities"):
            workspace.add_entity(CORRECTIONS, pen)
        assert workspace.corrections() == [said]


def test_what_was_said_of_the_very_texts_is_not_measured(tmp_path: Path) -> None:
    texts = "The grey wader fishes.", "Then a stilt-legs came."
    places = place(texts[0], "grey wader"), place(texts[1], "stilt-legs")
    heron = EntityId("birds", "b")
    golds = [
        Document(text, text, (Mention(*at, text[slice(*at)], (heron,)),), split="test")
        for text, at in zip(texts, places, strict=True)
    ]
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("b", "Heron", "A bird.")])
        workspace.add_kb("golds", golds, links_to="birds")
        for text, at in zip(texts, places, strict=True):
            workspace.correct(text, *at, heron, learnt=False)
        assert answers(workspace, texts[0]) == {places[0]: "birds:b"}
        found = workspace.evaluate_end_to_end("golds", split="test", complete=True)
        assert found.joint.links["strict"].right == 0


def test_what_was_said_answers_in_each_kb_and_stands_under_no_rejected_places(
    demo_copy: Path,
) -> None:
    kite, halley = place(TEXT, "kite"), place(TEXT, "Halley")
    flags = {"link.rejected": True, "link.per_kb": True, "link.threshold": 0.99}
    with Workspace.open(demo_copy, flags=flags) as workspace:
        (before,) = workspace.link(TEXT)
        assert {(one.start, one.end) for one in before.rejected} >= {kite, halley}
        workspace.correct(TEXT, *kite, "encyclopedia:red_kite", learnt=False)
        workspace.correct(TEXT, *halley, None, learnt=False)
        (document,) = workspace.link(TEXT)
    assert not {(one.start, one.end) for one in document.rejected} & {kite, halley}
    of_kite, of_halley = (
        {answer.kb: answer for answer in one.per_kb}
        for at in (kite, halley)
        for one in document.links
        if (one.start, one.end) == at
    )
    assert of_kite.keys() == of_halley.keys() == {"encyclopedia", "lanternfall"}
    own = of_kite["encyclopedia"]
    assert own.chosen is not None
    assert (own.chosen.id.key, own.confidence) == ("red_kite", 1.0)
    assert {one.chosen for one in of_halley.values()} == {None}
