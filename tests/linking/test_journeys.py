"""What a user gains by correcting answers, and by adding another KB."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Kglink

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
