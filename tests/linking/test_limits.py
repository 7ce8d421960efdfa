"""Answers limited to types and branches: command line, settings and library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.errors import UnknownNameError, UsageError
from kglink.records import EntityId
from kglink.workspace import Workspace

TEXT = "Heron saw a grey heron from the lighthouse."
#: Parents lead in a circle: bird > wader > stork > wader; the crane stands alone.
TREE: list[dict[str, object]] = [
    {"id": "bird", "title": "Bird", "type": "taxon"},
    {"id": "wader", "title": "Wader", "parents": ["bird", "stork"], "type": "taxon"},
    {"id": "stork", "title": "Grey stork", "parents": ["wader"], "type": "species"},
    {"id": "crane", "title": "Grey stork crane", "type": "machine"},
]


def answers(out: str) -> dict[str, str | None]:
    (document,) = json.loads(out)
    return {one["text"]: one["key"] for one in document["entities"]}


@pytest.mark.slow
def test_types_limit_mentions_and_answers(demo: Path, kglink: Kglink) -> None:
    asked = ("link", "-", "--format", "json", "--kb", "lanternfall")
    everything = answers(kglink(*asked, stdin=TEXT).out)
    assert everything["grey heron"] == "grey_heron"
    people = answers(kglink(*asked, "--type", "Character", stdin=TEXT).out)
    assert people["Heron"] == "isolde_heron"
    assert "lighthouse" not in people
    with Workspace.open(demo) as workspace:
        known = {one.key: one.type for one in workspace.store.entities("lanternfall")}
        found = workspace.search("a lamp keeper", k=12, kbs=["lanternfall"], types=["character"])
        assert {known[one.id.key] for one in found} == {"character"}
        assert len(found) == 12
        with pytest.raises(UnknownNameError, match="Did you mean 'character'"):
            list(workspace.link(TEXT, types=["charakter"]))
        # The next call is not limited.
        (document,) = workspace.link(TEXT, ["lanternfall"])
        assert len(document.links) == len(everything)


@pytest.mark.slow
def test_branches_by_settings_flags_and_library(
    demo_copy: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "tree.jsonl"
    source.write_text("\n".join(map(json.dumps, TREE)) + "\n")
    notes = tmp_path / "notes.jsonl"
    place: dict[str, object] = {"start": 2, "end": 12, "kb": "tree"}
    notes.write_text(
        "\n".join(
            json.dumps({"id": key, "text": "A grey stork.", "entities": [{**place, "key": key}]})
            for key in ("stork", "crane")
        )
    )
    kglink("add-kb", "tree", source)
    kglink("add-kb", "notes", notes, "--links-to", "tree")
    kglink("build")
    text = "The [[grey stork crane]] and the [[wader]]."
    asked = ("link", "-", "--marked", "--format", "json", "--kb", "tree")

    def keys(*more: str) -> set[str]:
        (document,) = json.loads(kglink(*asked, *more, stdin=text).out)
        return {one["key"] for link in document["entities"] for one in link["candidates"]}

    everything = {str(one["id"]) for one in TREE}
    assert keys() == everything
    assert keys("--under", "tree:bird") == {"bird", "wader", "stork"}
    assert keys("--under", "tree:stork", "--under", "tree:crane") == everything - {"bird"}
    assert keys("--not-under", "tree:wader") == {"bird", "crane"}
    assert keys("--not-under", "tree:wader", "--type", "machine") == {"crane"}
    # What is limited is another KB: this one is not.
    monkeypatch.setenv("KGLINK_LINK_UNDER", "lanternfall:isolde_heron")
    assert keys() == everything
    monkeypatch.setenv("KGLINK_LINK_UNDER", "tree:wader")
    assert keys() == {"wader", "stork"}
    found = json.loads(kglink("search", "grey stork crane", "--kb", "tree", "--json").out)
    assert {one["key"] for one in found} == {"wader", "stork"}
    # A gold that is left out is not asked for.
    report = json.loads(kglink("eval", "--docs", "notes", "--split", "", "--json").out)
    assert report["mentions"]["tree"] == 1
    assert report["metrics"]["kb"]["tree"]["R@1"] == 1.0
    raw = ("eval", "--docs", "notes", "--split", "", "--kb", "tree", "--end-to-end", "--json")
    assert json.loads(kglink(*raw).out)["annotation"]["in_kbs"] == 1
    monkeypatch.delenv("KGLINK_LINK_UNDER")
    assert json.loads(kglink(*raw).out)["annotation"]["in_kbs"] == 1  # one text, one place
    with Workspace.open(demo_copy) as workspace:
        space = workspace.space()
        (document,) = workspace.link("A grey stork.", ["tree"], not_under=["tree:stork"])
        assert all(
            one.id not in (EntityId("tree", "wader"), EntityId("tree", "stork"))
            for link in document.links
            for one in link.candidates
        )
        assert workspace.space() is space
        with pytest.raises(UsageError, match="no entity of tree is of these types"):
            list(workspace.link("x", ["tree"], types=["machine"], under=["tree:bird"]))
        with pytest.raises(UsageError, match="'bird' names no entity of a KB"):
            list(workspace.link("x", under=["bird"]))
        with pytest.raises(UsageError, match="there is no entity tree:brid"):
            list(workspace.link("x", ["tree"], under=["tree:brid"]))
        with pytest.raises(UsageError, match="there is no entity tree:\udcff"):
            list(workspace.link("x", ["tree"], under=["tree:\udcff"]))
        with pytest.raises(UnknownNameError, match="Did you mean 'tree'"):
            list(workspace.link("x", under=["tre:bird"]))
