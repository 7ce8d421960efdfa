"""Names that no KB should have: one that is a whole text, and one that all entities share."""

from __future__ import annotations

from pathlib import Path

import pytest

from kglink.records import Entity
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
