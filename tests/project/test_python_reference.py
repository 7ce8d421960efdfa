"""The examples in the docstrings of `Workspace` do what they say; the page has every name."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kglink
from kglink import Document, Entity, EntityId, Mention, Workspace

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
VERBS = [name for name, value in vars(Workspace).items() if inspect.isfunction(value)]
#: What a reader meets first: each has an example.
SHOWN = {
    "add_kb", "kbs", "entities", "entity", "add_entity", "remove_entity", "vectors",
    "find_overlaps", "overlaps", "link", "search", "learn", "evaluate", "evaluate_end_to_end",
}  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the examples find: the public names, and a small workspace."""
    text = "A grey heron stood there."
    gold = (EntityId("birds", "h"),)
    heron = Entity("h", "heron", "A wading bird with long legs.")
    with Workspace.open(tmp_path_factory.mktemp("examples"), create=True) as workspace:
        workspace.add_kb("birds", [heron, Entity("o", "osprey", "A hawk that eats fish.")])
        workspace.add_kb("zoo", [Entity("7", "Heron", "A wading bird, cage 7.")])
        note = Document("1", text, (Mention(7, 12, "heron", gold),), split="dev")
        workspace.add_kb("notes", [note], links_to=["birds"])
        workspace.find_overlaps("birds", "zoo")
        yield {name: getattr(kglink, name) for name in kglink.__all__} | {"workspace": workspace}


def test_what_a_reader_meets_first_has_an_example() -> None:
    with_example = {name for name in VERBS if ">>>" in (getattr(Workspace, name).__doc__ or "")}
    assert with_example >= SHOWN


@pytest.mark.parametrize(
    "name", [name for name in VERBS if ">>>" in (getattr(Workspace, name).__doc__ or "")]
)
def test_an_example_does_what_it_says(names: dict[str, Any], name: str) -> None:
    text = inspect.getdoc(getattr(Workspace, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, None)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


def test_the_page_has_every_public_name_and_every_verb() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in kglink.__all__:
        assert f"## `{name}`" in page
    for name in VERBS:
        assert f"### `Workspace.{name}`" in page
