"""Linking with the real model on the demo's KBs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from kglink.errors import SpaceError, UnknownNameError, UsageError
from kglink.evaluation.rankings import JOINT, JUDGED_JOINT
from kglink.linking.pipeline import BATCH_MENTIONS, _parts, _Text
from kglink.records import EntityId, Link, MentionInText, Span, TextInput
from kglink.text.plain import PlainText
from kglink.workspace import Workspace

BIRD = "A grey heron stood on one leg in the shallow pond and caught a fish."
ISOLDE = EntityId("lanternfall", "isolde_heron")
KEEPER = "Heron counts the lamps at Skerrow Light and finds one too many."


def link_one(workspace: Workspace, text: str, mention: str, kbs: Sequence[str] = ()) -> Link:
    start = text.index(mention)
    given = TextInput("t", text, (Span(start, start + len(mention)),))
    (document,) = workspace.link([given], kbs)
    (link,) = document.links
    assert text[link.start : link.end] == link.surface == mention
    return link


@pytest.fixture(scope="module")
def workspace(demo_master: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_master) as opened:
        yield opened


def test_the_context_decides_between_entities_of_one_name(workspace: Workspace) -> None:
    assert link_one(workspace, KEEPER, "Heron").candidates[0].id == ISOLDE
    best = link_one(workspace, BIRD, "heron").chosen
    assert best is not None
    assert best.id.key in {"heron", "grey_heron"}


def test_an_answer_says_what_the_thing_is_called_in_the_other_kb(workspace: Workspace) -> None:
    link = link_one(workspace, BIRD, "grey heron")
    both = {EntityId("encyclopedia", "heron"), EntityId("lanternfall", "grey_heron")}
    assert link.chosen is not None
    assert {link.chosen.id, *link.chosen.also} == both


def test_a_text_costs_few_looks_into_the_store(workspace: Workspace) -> None:
    """Each is a message to a server and back, where the store lies on one."""
    list(workspace.link([KEEPER]))
    asked: list[str] = []

    def listen(_connection: Connection, _cursor: object, sql: str, *_: object) -> None:
        asked.append(sql)

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        list(workspace.link([KEEPER]))
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    assert asked.count("BEGIN") == 2  # is the space still fresh? And all of the text
    assert len(asked) <= 22, asked


def test_only_the_wanted_kbs_answer(workspace: Workspace) -> None:
    for kb in ("encyclopedia", "lanternfall"):
        link = link_one(workspace, KEEPER, "Heron", kbs=[kb])
        assert {candidate.id.kb for candidate in link.candidates} == {kb}
    with pytest.raises(UnknownNameError, match="Did you mean 'lanternfall'"):
        list(workspace.link(["x"], kbs=["lantern-fall"]))


def test_candidates_come_best_first_with_their_evidence(workspace: Workspace) -> None:
    link = link_one(workspace, KEEPER, "Heron")
    scores = [candidate.score for candidate in link.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len(link.candidates) == workspace.settings.link.top_k
    assert link.candidates[0].evidence["exact"] == 1
    assert all(candidate.url.startswith("https://") for candidate in link.candidates)
    assert all(candidate.description for candidate in link.candidates)


def test_a_mention_that_no_kb_knows_is_nil(workspace: Workspace) -> None:
    link = link_one(workspace, "Then Théo Kerouanton poured the tea.", "Théo Kerouanton")
    assert link.chosen is None
    assert link.candidates
    assert 0.5 < link.confidence <= 1


def test_the_threshold_moves_the_border_of_nil(demo_master: Path) -> None:
    text = "Then Théo Kerouanton poured the tea."
    for threshold, nil in ((0.0, False), (1.0, True)):
        with Workspace.open(demo_master, flags={"link.threshold": threshold}) as workspace:
            link = link_one(workspace, text, "Théo Kerouanton")
            assert (link.chosen is None) == nil
            probability = 1 - link.confidence if nil else link.confidence
            assert 0 < probability < 0.5


def test_detected_mentions_are_exact_and_do_not_overlap(workspace: Workspace) -> None:
    text = "🌊 The Lizard — Cornwall’s AMBER; Ａｍｂｅｒ, Ámbër\r\nand\tSkerrow  Light."
    (document,) = workspace.link([text])
    assert document.text == text
    places = [(link.start, link.end) for link in document.links]
    assert places == sorted(places)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(places))
    surfaces = [link.surface for link in document.links]
    assert surfaces[-1] == "Skerrow  Light"
    assert {"AMBER", "Ａｍｂｅｒ", "Ámbër"} <= set(surfaces)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(["Heron", "Amber", "é", "🌊", "\r\n", "Ａ", "ﬁ", "İ", " ", "ß"])))
def test_offsets_hold_for_any_mixture(workspace: Workspace, parts: list[str]) -> None:
    text = "".join(parts)
    (document,) = workspace.link([text])
    assert document.text == text
    for link in document.links:
        assert text[link.start : link.end] == link.surface


@pytest.mark.slow
def test_texts_come_back_in_order_however_many_mentions_they_have(workspace: Workspace) -> None:
    texts = ["Heron. " * (40 * (at % 4)) for at in range(20)]
    documents = list(workspace.link(texts))
    assert [document.text for document in documents] == texts
    assert [len(document.links) for document in documents] == [40 * (at % 4) for at in range(20)]


def test_the_same_text_gives_the_same_answer(workspace: Workspace) -> None:
    first, second = (list(workspace.link([BIRD, KEEPER])) for _ in range(2))
    assert first == second


def test_spans_outside_of_the_text_are_refused(workspace: Workspace) -> None:
    for span in (Span(0, 9), Span(-1, 2), Span(2, 2)):
        with pytest.raises(UsageError, match="not inside the text of 5 characters"):
            list(workspace.link([TextInput("t", "Heron", (span,))]))


def test_a_threshold_is_a_probability(workspace: Workspace) -> None:
    wrong: Any
    for wrong in (1.5, -0.1, float("nan"), "0.3"):
        for ask in (workspace.link, workspace.resolve):
            with pytest.raises(UsageError, match="is no probability"):
                ask("Heron", threshold=wrong)
    sure: Any = np.float32(1)  # of an array
    assert not any(one.chosen for one in next(workspace.link("Heron", threshold=sure)).links)


def test_search_by_name_and_by_meaning(workspace: Workspace) -> None:
    assert workspace.search("Fresnel lens", k=3)[0].id.key == "fresnel_lens"
    meant = [one.id.key for one in workspace.search("an instrument that measures air pressure")]
    assert "barometer" in meant[:3]
    only = workspace.search("lighthouse", k=4, kbs=["lanternfall"])
    assert {one.id.kb for one in only} == {"lanternfall"}


def test_the_settings_name_the_kbs_of_a_search_as_of_links(demo_master: Path) -> None:
    with Workspace.open(demo_master, flags={"link.kbs": ["lanternfall"]}) as workspace:
        assert {one.id.kb for one in workspace.search("lighthouse", k=4)} == {"lanternfall"}
        other = workspace.search("lighthouse", k=4, kbs="encyclopedia")
    assert {one.id.kb for one in other} == {"encyclopedia"}


def test_a_space_of_another_model_is_refused(demo_copy: Path) -> None:
    with Workspace.open(demo_copy) as workspace:
        folder = workspace.joint_space.folder.current
        assert folder
        manifest = folder / "manifest.json"
        fingerprint = workspace.encoder.info.fingerprint
        manifest.write_text(manifest.read_text().replace(fingerprint, "another"))
        with pytest.raises(SpaceError, match="another model"):
            workspace.space()


def test_recall_on_the_demo_is_far_above_chance(workspace: Workspace) -> None:
    report = workspace.evaluate("docs", split="test", ks=(1, 5))
    assert report.mentions["encyclopedia"] == 95
    assert report.mentions["lanternfall"] == 118
    assert report.mentions[JOINT] == 164
    for kb in ("encyclopedia", "lanternfall", JUDGED_JOINT):
        recall = report.recall(kb)
        assert 0.8 < recall["R@1"] <= recall["R@5"] <= 1
    # All in one list is harder: names are shared between the KBs, and nothing is trained yet.
    assert report.recall(JOINT)["R@1"] < report.recall(JUDGED_JOINT)["R@1"]


def test_a_mention_longer_than_the_encoder_reads_is_told(workspace: Workspace) -> None:
    long = "lighthouse " * 300
    (document,) = workspace.link([TextInput("t", long, (Span(0, len(long)), Span(0, 10)))])
    assert str(document.meta["truncated"]).startswith("1 of the mentions")
    (short,) = workspace.link([TextInput("t", "lighthouse", (Span(0, 10),))])
    assert "truncated" not in short.meta


def test_where_a_text_is_divided_is_a_matter_of_its_own() -> None:
    """Mentions of a text speak for each other, so its neighbours must not divide it."""

    def text(name: str, count: int) -> _Text:
        words = "word " * count
        mentions = [MentionInText(words, 5 * at, 5 * at + 4, name) for at in range(count)]
        return _Text(TextInput(name, words), PlainText(words), mentions)

    def parts(*texts: _Text) -> list[list[tuple[str, int]]]:
        names = [one.source.id for one in texts]
        return [[(names[at], len(run)) for at, run in part] for part in _parts(texts)]

    most = BATCH_MENTIONS
    assert parts(text("a", 200), text("b", 100)) == [[("a", 200)], [("b", 100)]]
    assert parts(text("a", 100), text("b", 100)) == [[("a", 100), ("b", 100)]]
    assert parts(text("long", most + 1)) == [[("long", most)], [("long", 1)]]
    assert parts(text("a", 1), text("long", most + 1), text("b", 2)) == [
        [("a", 1)], [("long", most)], [("long", 1), ("b", 2)],
    ]  # fmt: skip
    assert parts(text("none", 0)) == [[("none", 0)]]
    assert parts() == [[]]
