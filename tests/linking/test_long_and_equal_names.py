"""Names that no KB should have: one that is a whole text, and one that all entities share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kglink.linking import names
from kglink.linking.contexts import Measure
from kglink.records import Alias, Entity, MentionInText
from kglink.workspace import Workspace

LONG = " ".join(f"word{at}" for at in range(3_000))
SAME = 500


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    opened = Workspace.open(tmp_path / "w", create=True, flags={"space.name": "names"})
    opened.add_kb("towns", [*(Entity(str(at), "Selwyn", popularity=at) for at in range(SAME)),
                            Entity("long", LONG)])  # fmt: skip
    opened.build()
    return opened


def test_a_text_that_is_one_long_name_is_linked_in_moments(workspace: Workspace) -> None:
    (document,) = workspace.link([LONG])
    assert all(LONG[one.start : one.end] == one.surface for one in document.links)


def test_of_equal_names_the_most_popular_is_meant_and_each_is_answered_alike(
    workspace: Workspace,
) -> None:
    text = "They went to Selwyn. " * 200
    (document,) = workspace.link([text])
    assert {one.chosen and one.chosen.id.key for one in document.links} <= {str(SAME - 1), None}
    (first,) = {one.candidates[0].id.key for one in document.links}
    assert first == str(SAME - 1)
    assert len(document.links) == 200


def keys(workspace: Workspace, name: str) -> list[str]:
    """The candidates of a name."""
    (found,) = workspace.linker().candidates([MentionInText(name, 0, len(name))], limit=50)
    return [one.id.key for one in found["towns"]]


def test_of_very_many_bearers_those_that_are_used_most_and_most_popular_are_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_MOST_BEARERS", 20)
    used = Entity("used", "Another", aliases=(Alias("Selwyn", count=9),))
    many = [Entity(f"{at:03}", "Selwyn", popularity=(at * 7) % 300) for at in range(300)]
    with Workspace.open(tmp_path, create=True, flags={"link.found_by": "names"}) as workspace:
        workspace.add_kb("towns", [*many, used])
        list(workspace.link(["They went to Selwyn."], wait=False))
        assert len(keys(workspace, "Selwyn")) == 50
        monkeypatch.setattr(names, "_LARGE", 3)
        found = keys(workspace, "Selwyn")
        popular = sorted(many, key=lambda one: -one.popularity)
        assert found == [*(one.key for one in popular[:19]), "used"]
        # One that memory brings has all that its name says.
        search = names.NameSearch(workspace.space(), Measure(), 10, True, False)
        segment = workspace.space().segments["towns"]
        name = names.Surface("Selwyn", "selwyn", "selwyn", None)
        (few,) = search.find([name], [[name]], "towns")
        left = np.setdiff1d(np.arange(301), few.entities)[:3]
        more = search.with_more(few, left, name, segment)
        monkeypatch.setattr(names, "_MOST_BEARERS", 1000)
        (everything,) = search.find([name], [[name]], "towns")
    at = np.searchsorted(everything.entities, more.entities)
    assert len(more.entities) == 23
    for kind, values in more.evidence.items():
        assert values.tolist() == everything.evidence[kind][at].tolist()


def test_in_a_large_kb_letters_are_compared_where_nothing_bears_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    towns = [Entity("1", "Selwyn"), Entity("2", "Selwynton"), Entity("3", "Vardomir")]
    with Workspace.open(tmp_path, create=True, flags={"link.found_by": "names"}) as workspace:
        workspace.add_kb("towns", towns)
        list(workspace.link(["They went to Selwyn."], wait=False))
        mentions = ["Selwyn", "Selwynto"]
        everything = [keys(workspace, name) for name in mentions]
        monkeypatch.setattr(names, "_LARGE", 3)
        assert [keys(workspace, name) for name in mentions] == [["1"], everything[1]]
    assert "2" in everything[0]
    assert everything[1][0] == "2"
