"""What is found in texts that a person has marked: mails to a shop, texts of the demo's series."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.records import TextInput
from kglink.workspace import Workspace, init_workspace
from marked_mails import EXAMPLES, Places, marked_texts

ROOT = Path(__file__).parents[2]
DEMO_TEXT = ROOT / "cli" / "kglink_cli" / "demo_data" / "text.txt"


def ids_of(workspace: Workspace, text: str) -> Places:
    """What each place that was found was linked to, by KB and key; empty where to nothing."""
    (document,) = workspace.link([TextInput("t", text)])
    return {
        (link.start, link.end): str(link.chosen.id) if link.chosen else ""
        for link in document.links
    }


def links_of(workspace: Workspace, text: str) -> Places:
    """The same by key alone."""
    return {place: link.partition(":")[2] for place, link in ids_of(workspace, text).items()}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with Workspace.open(init_workspace(tmp_path_factory.mktemp("shop"))) as workspace:
        workspace.add_kb("garden", EXAMPLES / "garden.csv")
        workspace.build()
        yield workspace


def test_mails_about_a_catalogue(shop: Workspace) -> None:
    mails = list(marked_texts(EXAMPLES / "garden-mails.txt"))
    assert len(mails) == 5
    right = found = wanted = 0
    for text, places in mails:
        links = links_of(shop, text)
        right += len(links.items() & places.items())
        found += len(links)
        wanted += len(places)
    assert wanted == 24
    assert right >= 0.8 * wanted, "recall"
    assert right >= 0.8 * found, "precision"


def test_texts_of_fans_after_learning(demo_copy: Path) -> None:
    """Six texts that speak of both KBs of the demo, marked before they were linked."""
    texts = list(marked_texts(EXAMPLES / "fan-texts.txt"))
    assert len(texts) == 6
    right = found = wanted = 0
    with Workspace.open(demo_copy) as workspace:
        workspace.learn("docs")
        for text, places in texts:
            links = ids_of(workspace, text)
            right += sum(link in places.get(place, "").split() for place, link in links.items())
            found += len(links)
            wanted += len(places)
        demo = DEMO_TEXT.read_text(encoding="utf-8")
        shown = {demo[slice(*place)]: link for place, link in ids_of(workspace, demo).items()}
    assert wanted == 88
    assert right >= 0.85 * max(wanted, found)
    # The text of the demo is made of paragraphs in which every link is right.
    golds = {
        text[slice(*place)]: ids.split() for text, places in texts for place, ids in places.items()
    }
    assert len(shown) == 21
    assert all(link in golds[surface] for surface, link in shown.items())
