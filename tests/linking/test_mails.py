"""What is found in texts that a person has marked: mails to a shop, and the text of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kglink.records import TextInput
from kglink.workspace import Workspace, init_workspace
from marked_mails import EXAMPLES, Places, marked_texts

ROOT = Path(__file__).parents[2]
DEMO_TEXT = ROOT / "cli" / "kglink_cli" / "demo_data" / "text.txt"
#: All that the KBs of the demo have in its text, in reading order, counted by hand, and the right
#: keys of each.
IN_THE_DEMO = (
    ("Lizard", "lizard_point the_lizard"),
    ("lighthouse", "lighthouse"),
    ("Fresnel lens", "fresnel_lens"),
    ("mercury", "mercury_element quicksilver"),
    ("heron", "heron grey_heron"),
    ("seal", "seal_animal"),
    ("saffron bun", "saffron_bun tea_treat_bun"),
    ("foghorn", "foghorn"),
    ("First Wick", "ep_first_wick"),
    ("Heron", "isolde_heron"),
    ("Amber", "amber_tregenza"),
    ("Skerrow Light", "skerrow_light"),
    ("Mercury", "airship_mercury"),
    ("Gloam Harbour", "gloam_harbour"),
    ("Turner", "silas_turner"),
    ("Penzance", "penzance"),
    ("amber", "amber amber_resin"),
    ("Turner", "jmw_turner"),
    ("Mercury", "mercury_planet"),
    ("Cornwall", "cornwall"),
)


def links_of(workspace: Workspace, text: str) -> Places:
    """The key of what each place that was found was linked to; empty where to nothing."""
    (document,) = workspace.link([TextInput("t", text)])
    return {
        (link.start, link.end): link.chosen.id.key if link.chosen else "" for link in document.links
    }


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


def test_the_text_of_the_demo(demo_master: Path) -> None:
    text = DEMO_TEXT.read_text(encoding="utf-8")
    with Workspace.open(demo_master) as workspace:
        links = links_of(workspace, text)
    places: dict[tuple[int, int], list[str]] = {}
    end = 0
    for surface, keys in IN_THE_DEMO:
        start = text.index(surface, end)
        end = start + len(surface)
        places[start, end] = keys.split()
    found = links.keys() & places.keys()
    right = [place for place in found if links[place] in places[place]]
    assert len(found) >= 0.9 * max(len(places), len(links)), "mentions"
    assert len(right) >= 0.8 * max(len(places), len(links)), "links"
