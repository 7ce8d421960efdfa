"""What a user gains by correcting answers, and by adding another KB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.records import Document, Entity, EntityId, Mention
from kglink.workspace import Workspace, init_workspace

NEXT = "At noon [[Mercury]] had still not come."


def answer(kglink: Kglink, text: str) -> str | None:
    ran = kglink("link", "-", "--marked", "-f", "jsonl", stdin=text)
    (link,) = json.loads(ran.out)["entities"]
    key: str | None = link["key"]
    return key


def test_ten_corrected_answers_change_the_next_one(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    before = answer(kglink, NEXT)
    assert before == "airship_mercury"
    texts = "".join(f"Note {at}: [[Mercury]] was late again.\n" for at in range(10))
    lines = kglink("link", "-", "--lines", "--marked", "-f", "jsonl", stdin=texts).out.splitlines()
    assert len(lines) == 10
    corrected = [json.loads(line) for line in lines]
    for line in corrected:
        (link,) = line["entities"]
        link["kb"], link["key"] = "encyclopedia", "mercury_planet"
    notes = tmp_path / "notes.jsonl"
    notes.write_text("\n".join(map(json.dumps, corrected)), encoding="utf-8")
    kglink("add-kb", "notes", notes, "--links-to", "encyclopedia,lanternfall")
    kglink("learn", "notes")
    assert answer(kglink, NEXT) == "mercury_planet"
    kglink("forget", "notes")
    assert answer(kglink, NEXT) == before


@pytest.mark.slow
def test_notes_on_both_things_of_one_name_take_the_answer_from_neither(tmp_path: Path) -> None:
    birds = {
        "Heron": "A long-legged bird that fishes in shallow water.",
        "Falcon": "A bird of prey with long wings.",
        "Otter": "A mammal of rivers with thick fur that eats fish.",
    }
    lamps = {
        "Heron": "A tall floor lamp of brass.",
        "Lantern 200": "A camping lantern.",
        "Torch": "A head torch with 300 lumens and a rechargeable battery.",
    }
    notes = [
        Document("1", "The Heron stands beside the sofa.", (gold(4, "Heron", "shop:Heron"),)),
        Document("2", "A heron caught a fish.", (gold(2, "heron", "birds:Heron"),)),
    ]
    texts = ["A heron fished in the lake.", "The brass Heron is scratched."]
    with Workspace.open(tmp_path / "workspace", create=True) as workspace:
        workspace.add_kb("birds", [Entity(key, key, text, "animal") for key, text in birds.items()])
        workspace.add_kb("shop", [Entity(key, key, text, "lamp") for key, text in lamps.items()])
        workspace.add_kb("notes", notes, links_to=("birds", "shop"))
        workspace.build()
        before = [text.links[0] for text in workspace.link(texts)]
        workspace.learn("notes")
        after = [text.links[0] for text in workspace.link(texts)]
    # Each KB was meant once by this name: that speaks for neither, and against neither.
    for link, now in zip(before, after, strict=True):
        assert link.chosen
        assert now.chosen
        assert now.chosen.id == link.chosen.id
        assert now.probability == pytest.approx(link.probability, abs=0.1)


def gold(start: int, surface: str, entity: str) -> Mention:
    return Mention(start, start + len(surface), surface, (EntityId.parse(entity),))


#: Birds by their scholarly names alone, and by the names that people give them.
BIRDS = {
    "Ardea cinerea": "harnser",
    "Numenius arquata": "whaup",
    "Vanellus vanellus": "peewit",
    "Haematopus ostralegus": "mussel pecker",
    "Calidris alpina": "dunlin",
    "Fratercula arctica": "sea parrot",
}


def write(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def test_another_kb_with_overlaps_improves_the_answers_of_the_one_that_was_there(
    tmp_path: Path,
) -> None:
    folder = init_workspace(tmp_path / "workspace")
    latin = write(tmp_path / "latin.jsonl", [{"id": name, "title": name} for name in BIRDS])
    common = write(
        tmp_path / "common.jsonl",
        [
            {"id": name, "title": name, "aliases": [scholarly], "description": "A bird."}
            for scholarly, name in BIRDS.items()
        ],
    )
    notes = write(
        tmp_path / "notes.jsonl",
        [
            {
                "id": name,
                "text": f"The {name} was there.",
                "entities": [{"start": 4, "end": 4 + len(name), "kb": "latin", "key": scholarly}],
            }
            for scholarly, name in BIRDS.items()
        ],
    )
    with Workspace.open(folder) as workspace:
        workspace.add_kb("latin", latin)
        workspace.add_kb("notes", notes, links_to=["latin"])
        alone = workspace.evaluate("notes", split="", ks=(1,)).recall("latin")["R@1"]
        workspace.add_kb("common", common)
        workspace.find_overlaps()
        both = workspace.evaluate("notes", split="", ks=(1,)).recall("latin")["R@1"]
    assert alone < 0.5
    assert both == 1.0
