"""One entity, shown: its names, its place, its counterparts, and what documents say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Kglink

from kglink import Document, Entity, EntityId, Mention, Overlap, Workspace
from kglink.errors import UnknownNameError, UsageError
from kglink.records import Alias
from kglink.text.entity_text import shared_names

HEART = Entity(
    "D:1",
    "Heart attack",
    "The heart gets no blood.",
    type="disease",
    aliases=(Alias("MI", "synonym"), Alias("Infarct")),
    xrefs=("X:9",),
    parents=("D:0", "D:gone"),
)
TEXT = "." * 80 + "A heart attack, then a heart attack." + "." * 80


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    with Workspace.open(folder, create=True) as workspace:
        others = [Entity("D:0", "Disease"), Entity("D:2", "Silent MI", parents=("D:1",))]
        workspace.add_kb("one", [HEART, *others])
        workspace.add_kb("two", [Entity("C9", "mi", "", aliases=(Alias("HEART-ATTACK"),))])
        workspace.add_kb("three", [Entity("C9", "Something else")])
        pairs = [Overlap(EntityId("one", "D:1"), EntityId("two", "C9"), 0.75)]
        workspace.store.save_overlaps("one", "two", pairs)
        wrong = Overlap(EntityId("one", "D:1"), EntityId("three", "C9"), 0.2)
        workspace.store.save_overlaps("one", "three", [wrong])
        gold = (EntityId("one", "D:1"),)
        spans = [(82, 94), (103, 115)]
        mentions = tuple(Mention(*span, TEXT[slice(*span)], gold) for span in spans)
        workspace.add_kb("notes", [Document("n1", TEXT, mentions)], links_to=["one"])
    return folder


def test_an_entity_with_all_that_is_known_of_it(known: Path) -> None:
    with Workspace.open(known) as workspace:
        view = workspace.entity("one:D:1", examples=1)
    assert view.entity.title == "Heart attack"
    assert view.parents == ((EntityId("one", "D:0"), "Disease"), (EntityId("one", "D:gone"), ""))
    assert view.children == ((EntityId("one", "D:2"), "Silent MI"),)
    (same,) = view.counterparts
    assert (same.id, same.title, same.probability) == (EntityId("two", "C9"), "mi", 0.75)
    assert same.shared_names == ("Heart attack", "MI")
    assert (view.mentions.mentions, view.mentions.documents) == (2, 1)
    (example,) = view.mentions.examples
    assert TEXT[example.start : example.end] == example.surface == "heart attack"
    assert (example.left, example.right) == (TEXT[22:82], TEXT[94:154])


def test_show_prints_it_and_says_it_as_json(kglink: Kglink, known: Path) -> None:
    shown = kglink("--workspace", known, "show", "D:1").out
    assert shown.splitlines()[0] == "one:D:1  Heart attack"
    for line in (
        "also       MI (synonym); Infarct (alias)",
        "in         one:D:0 Disease; one:D:gone",
        "holds      one:D:2 Silent MI",
        "same as    two:C9 mi   .75, not judged; shared: Heart attack, MI",
        "mentions   2 in 1 document",
    ):
        assert line in shown.splitlines()
    assert "notes n1: " in shown
    value = json.loads(kglink("--workspace", known, "show", "one:D:1", "--json").out)
    assert value["counterparts"][0]["shared_names"] == ["Heart attack", "MI"]
    assert value["parents"][0] == {"kb": "one", "key": "D:0", "title": "Disease"}
    assert value["mentions"]["count"] == 2
    assert value["mentions"]["examples"][0]["surface"] == "heart attack"


def test_a_name_that_means_nothing_or_several_is_told(kglink: Kglink, known: Path) -> None:
    refused = kglink("--workspace", known, "show", "D:77", code=2).err
    assert "unknown entity 'D:77'" in refused
    assert "The KBs: one, two, three. By a name: kglink search 'D:77'" in refused
    inside = kglink("--workspace", known, "show", "one:D:77", code=2).err
    assert inside.splitlines()[-1].strip() == "By a name: kglink search 'D:77'"
    several = kglink("--workspace", known, "show", "C9", code=2).err
    assert "Name one: two:C9, three:C9" in several
    with Workspace.open(known) as workspace:
        with pytest.raises(UnknownNameError):
            workspace.entity(EntityId("one", "C9"))
        with pytest.raises(UsageError):
            workspace.remove_entity("C9")


def test_shared_names_are_those_that_fold_alike() -> None:
    left = Entity("1", "Straße", aliases=(Alias("Weg"), Alias("STRASSE")))
    assert shared_names(left, Entity("2", "strasse", aliases=(Alias("weg!"),))) == ("Straße", "Weg")
    assert shared_names(left, Entity("2", "Road")) == ()
    assert shared_names(Entity("1", "???"), Entity("2", "!!!")) == ()
