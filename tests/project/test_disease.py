"""The three real ontologies: counted, added, built, and an abstract linked with exact offsets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import Kglink

from disease_kbs import KB_FILES, disease_entities, write_disease_jsonl

COUNTS = {"doid": (8_906, 5_269), "ncit": (20_385, 17_241), "hp": (10_972, 7_940)}


@pytest.mark.realdata
@pytest.mark.parametrize("kb", KB_FILES)
def test_the_helper_reads_the_live_entities(realdata: Path, kb: str) -> None:
    entities = list(disease_entities(kb, realdata / "disease"))
    described = sum(1 for entity in entities if entity.get("description"))
    assert (len(entities), described) == COUNTS[kb]


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_ontologies_and_an_abstract(
    realdata: Path, kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    # Names come from the name index; short texts keep the build within a minute.
    monkeypatch.setenv("KGLINK_SPACE_ROWS", "text")
    monkeypatch.setenv("KGLINK_SPACE_DESCRIPTION_CHARS", "0")
    for kb, (entities, described) in COUNTS.items():
        source = write_disease_jsonl(kb, realdata / "disease", tmp_path / f"{kb}.jsonl")
        added = json.loads(kglink("add-kb", kb, source, "--json").out)
        assert (added["added"], added["with_description"]) == (entities, described)
    abstract = _abstract(realdata / "disease" / "corpora" / "bc5cdr_development.PubTator.txt.gz")
    ran = kglink("link", "-", "--format", "jsonl", stdin=abstract)
    record = json.loads(ran.out)
    assert record["text"] == abstract
    assert len(record["entities"]) >= 5
    # A phenotype that a disease KB bears too is the disease: this text names more of those.
    assert {entity["kb"] for entity in record["entities"] if not entity["nil"]} == {"doid", "ncit"}
    offered = {one["kb"] for entity in record["entities"] for one in entity["candidates"]}
    assert offered == set(COUNTS)
    for entity in record["entities"]:
        assert abstract[entity["start"] : entity["end"]] == entity["text"]
    surfaces = {entity["text"].lower() for entity in record["entities"]}
    assert {"atrial flutter", "congestive heart failure"} <= surfaces


def _abstract(corpus: Path) -> str:
    """Title and text of the first abstract of a PubTator file."""
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        title, text = (next(lines).rstrip("\n").split("|", 2)[2] for _ in range(2))
    return f"{title} {text}"
