"""One entity, shown: its names, its place, its counterparts, and what documents say of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Kglink

from kglink import Document, Entity, EntityId, Mention, Overlap, Workspace
from kglink.errors import UnknownNameError, UsageError
from kglink.records import REPLACED_BY, Alias, CodeMapping
from kglink.store import IngestJob
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


# ------------------------------------------------------------------- what is there no more
OBO_TERMS = """format-version: 1.2
ontology: x

[Term]
id: X:1
name: one
alt_id: X:9

[Term]
id: X:2
name: two
is_obsolete: true
replaced_by: X:1

[Term]
id: X:3
name: three
is_obsolete: true
consider: X:1
consider: X:5

[Term]
id: X:4
name: four
is_obsolete: true

[Term]
id: X:5
name: five
"""


def obo_graph() -> str:
    """The same terms as an OBO graph."""
    purl, oio = "http://purl.obolibrary.org/obo/", "http://www.geneontology.org/formats/oboInOwl#"
    replaced, consider, merged = f"{purl}IAO_0100001", f"{oio}consider", f"{oio}hasAlternativeId"
    said = {
        1: [(merged, "X:9")],
        2: [(replaced, f"{purl}X_1")],
        3: [(consider, "X:1"), (consider, f"{purl}X_5")],
        4: [],
        5: [],
    }
    nodes = [
        {
            "id": f"{purl}X_{number}",
            "lbl": f"term {number}",
            "meta": {
                "deprecated": number in (2, 3, 4),
                "basicPropertyValues": [{"pred": pred, "val": val} for pred, val in values],
            },
        }
        for number, values in said.items()
    ]
    return json.dumps({"graphs": [{"id": f"{purl}x.owl", "nodes": nodes, "edges": []}]})


@pytest.mark.parametrize("form", ["x.obo", "x.json"])
def test_an_obsolete_term_says_what_took_its_place(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(form).write_text(OBO_TERMS if form == "x.obo" else obo_graph())
    kglink("add-kb", "x", form)
    assert "unknown entity" in kglink("show", "x:\udcff", code=2).err  # a byte that is no UTF-8
    for key, told in (
        ("X:2", "x:X:2 is no entity in revision 1 of x: replaced by x:X:1"),
        ("X:3", "consider x:X:1; consider x:X:5"),
        ("X:9", "merged into x:X:1"),
    ):
        err = kglink("show", f"x:{key}", code=2).err
        assert told in err
        assert "kglink show x:X:1" in err
    assert "unknown entity 'x:X:4'" in kglink("show", "x:X:4", code=2).err


def test_a_gold_is_not_taken_for_what_replaced_it(tmp_path: Path) -> None:
    """Of two replacements nobody knows which is meant, and neither is the other."""
    said = [CodeMapping("X:2", one, REPLACED_BY) for one in ("X:1", "X:5")]
    gold = [Document("n", "one", (Mention(0, 3, "one", (EntityId("", "X:1"),)),))]
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("x", [Entity("X:1", "one"), Entity("X:5", "five"), *said])
        workspace.store.ingest(
            IngestJob("notes", "t/t", "n", "", links_to=("x",), resolve="xref"), gold
        )
        (document,) = workspace.store.documents("notes")
    assert document.mentions[0].gold == (EntityId("x", "X:1"),)


def test_an_entity_that_an_update_removed_is_told_with_the_revision(
    kglink: Kglink, known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(known, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    with Workspace.open(folder) as workspace:
        workspace.remove_entity("one:D:1")
        revision = workspace.kb("one").revision
    err = kglink("show", "one:D:1", code=2).err
    assert f"one:D:1 is no entity in revision {revision} of one: " in err
    assert f"revision {revision} removed it; 2 mentions of documents still mean it" in err
    assert "kglink search" in err


def test_a_redirect_says_where_it_goes(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        cornwall = Entity("Cornwall", "Cornwall", aliases=(Alias("Kernow", "redirect"),))
        workspace.add_kb("wiki", [cornwall, Entity("Kent", "Kent", aliases=(Alias("Kernows"),))])
        with pytest.raises(UsageError, match="redirects to wiki:Cornwall"):
            workspace.entity("wiki:Kernow")
        with pytest.raises(UnknownNameError):
            workspace.entity("wiki:Kernows")
