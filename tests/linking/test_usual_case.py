"""Texts and headlines in capitals, lower case or Title Case."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kglink.evaluation.rankings import RankedMention
from kglink.linking.fit import judged_rankings
from kglink.linking.usual_case import in_usual_case
from kglink.records import Document, Entity, EntityId, Mention, Span, TextInput
from kglink.workspace import Workspace

NAMES = (
    "Asturias",
    "United States",
    "the United States",
    "retinoblastoma",
    "ALD",
    "Addison",
    "light",
    "USA",
    "CO2",
    "SMARCB1",
    "OF",
)
TEXT = "The Kingdom of Asturias is older than the United States, and light is nothing there."


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("WITH ADDISON'S AND THE ALD OF O'BRIEN", "with Addison's and the ALD of O'Brien"),
        ("NO RETINOBLASTOMA OF THE RPE IN FRANCE", "no retinoblastoma of the RPE in France"),
        ("of france who was obama's in zlotyville", "of France who was Obama's in Zlotyville"),
        ("The ALD of Addison", "The ALD of Addison"),
        ("OF ASTURIAS AND", "OF ASTURIAS AND"),  # too few words
        ("DER KÖNIG UND DIE KÖNIGIN VON ASTURIAS", "DER KÖNIG UND DIE KÖNIGIN VON ASTURIAS"),
        ("Light-Induced Fever from ALD in Small Men", "Light-Induced Fever from ALD in Small Men"),
        ("Light-Induced Fever in Small Sick Women", "light-induced fever in small sick women"),
        ("From Earth to Town 7.", "From Earth to Town 7."),
        ("Heart, Journey, Queen and Kiss", "Heart, Journey, Queen and Kiss"),
        ("it.\r\nThe Long Fever of Light at Home\n", "it.\r\nthe long fever of light at home\n"),
        ("United States, Obama, Zlotyville, France", "United States, Obama, Zlotyville, France"),
        ("Die Therapie Der Asturias Und Das Ende", "Die Therapie Der Asturias Und Das Ende"),
        ("WAS THE \u0130 OF THE STRASSE THERE", "was the \u0130 of the Strasse there"),
        ("the weak fever (wf) of zlots", "the weak fever (WF) of Zlots"),
        ("THE WEAK ASTURIAN SIGN (WAS) WAS IT", "the weak Asturian sign (was) was it"),
        ("THE COLOUR OF TUMOURS WAS RED", "the colour of tumours was red"),
        ("THE USA AND DNA WITH CO2 OF ALL", "the USA and dna with CO2 of all"),
        ("THE ROLE OF BRCA1 IN ALL OF THE PATIENTS", "the role of BRCA1 in all of the patients"),
        ("the usa with co2 from obama", "the usa with CO2 from Obama"),
        ("OF SMARCB1 AND MAP2K1 IN FRANCE", "of SMARCB1 and MAP2K1 in France"),
        ("1 2 3 4 5", "1 2 3 4 5"),
        (f"{'THE MEN ' * 20}and she met Cook.", f"{'THE MEN ' * 20}and she met Cook."),
        ("C THE SMALL SICK OLD MEN'", "C the small sick old men'"),
    ],
)  # fmt: skip
def test_the_usual_case(text: str, usual: str) -> None:
    found = in_usual_case(text, lambda word: [one for one in NAMES if one.lower() == word.lower()])
    assert found == usual
    assert len(found) == len(text)


@pytest.mark.parametrize("case", [str, str.upper, str.lower, str.title])
def test_names_are_linked_in_texts_of_one_case(tmp_path: Path, case: type[str]) -> None:
    with Workspace.open(tmp_path / "w", create=True, flags={"space.name": "names"}) as workspace:
        workspace.add_kb("kb", [Entity(name, name) for name in (*NAMES, "Port Selwyn")])
        workspace.build()
        (linked,) = workspace.link([case(TEXT)])
        assert linked.text == case(TEXT)
        found = {TEXT[one.start : one.end] for one in linked.links if one.chosen}
        assert found == {"Asturias", "the United States", "light"}
        assert {one.surface for one in linked.links if one.chosen} == set(map(case, found))


@pytest.mark.parametrize("case", [str, str.upper, str.lower])
def test_in_whatever_case_the_same_words_are_learnt_as_no_names(
    tmp_path: Path, case: type[str]
) -> None:
    text = case("The cook of the King of Asturias was in the port with her dog.")
    gold = Mention(24, 32, text[24:32], (EntityId("kb", "Asturias"),))
    names = "Asturias", "Alfred Cook", "Port Selwyn", "Guide Dog"
    with Workspace.open(tmp_path / "w", create=True) as workspace:
        workspace.add_kb("kb", [Entity(name, name) for name in names])
        workspace.add_kb("docs", [Document("1", text, (gold,))], links_to="kb")
        workspace.learn("docs")
        learnt = {one.folded for one in workspace.store.all_meanings()}
        assert learnt == {"asturias", "cook", "dog"}  # a part of Port Selwyn has a capital


@pytest.mark.parametrize("case", [str, str.upper, str.lower, str.title])
def test_given_places_are_judged_and_fitted_as_they_are_linked(
    tmp_path: Path, case: type[str]
) -> None:
    text, gold = case(TEXT), (EntityId("kb", "l"),)
    at = text.lower().index("light")
    mention = Mention(at, at + 5, text[at : at + 5], gold)
    with Workspace.open(tmp_path / "w", create=True, flags={"space.name": "names"}) as workspace:
        workspace.add_kb("kb", [Entity("l", "light"), Entity("b", "Light"), Entity("s", "LIGHT")])
        workspace.add_kb("notes", [Document("1", text, (mention,))], links_to=["kb"])
        workspace.build()
        given = TextInput("1", text, (Span(mention.start, mention.end),))
        (linked,) = workspace.link([given])
        ranked: list[RankedMention] = []
        workspace.evaluate("notes", each=ranked.append)
        assert ranked[0].surface == linked.links[0].surface == case("light")
        there = [(one.id, one.score) for one in ranked[0].candidates]
        assert there == [(one.id, one.score) for one in linked.links[0].candidates]
        listed = io.StringIO()
        workspace.write_candidates("notes", listed)
        assert json.loads(listed.getvalue())["candidates"] == [str(one) for one, _ in there]
        search = workspace.link_setup().search()
        documents = list(workspace.store.documents("notes"))
        fitted = judged_rankings(search, documents, ["kb"], lambda _: None)
        evidence = [one.evidence for one in ranked[0].candidates]
        assert fitted.evidence.tolist() == [list(one.values()) for one in evidence]
