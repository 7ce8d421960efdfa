"""The commands as their users meet them: what they print, where, and how they end."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink import EntityId, Workspace
from kglink.linking.kinds import RETRIEVED

Records = list[dict[str, Any]]

ENTITIES: Records = [
    {"id": "m1", "title": "Mercury", "description": "The planet near the Sun.", "type": "planet"},
    {"id": "m2", "title": "Mercury", "description": "A metal that is liquid when it is warm."},
    {"id": "v1", "name": "Venus", "synonyms": ["Morning Star", "Evening Star"]},
]  # fmt: skip


def write_jsonl(path: Path, records: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder without a workspace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGLINK_WORKSPACE", raising=False)
    return tmp_path


def test_from_nothing_to_linked_text(kglink: Kglink, here: Path) -> None:
    write_jsonl(here / "planets.jsonl", ENTITIES)
    added = kglink("add-kb", "planets", "planets.jsonl")
    assert "made" in added.err
    assert (here / "kglink.toml").exists()
    assert "guessed from the content" in added.err
    assert added.out.startswith("planets +3 ~0 -0 =0   2 with description")
    linked = kglink("link", "-", "--format", "jsonl", stdin="The Evening Star and MERCURY.")
    (line,) = linked.out.splitlines()
    record = json.loads(line)
    assert record["text"] == "The Evening Star and MERCURY."
    found = [(one["text"], one["kb"], one["start"]) for one in record["entities"]]
    assert found == [("Evening Star", "planets", 4), ("MERCURY", "planets", 21)]
    assert record["entities"][0]["key"] == "v1"
    assert {one["key"] for one in record["entities"][1]["candidates"][:2]} == {"m1", "m2"}
    assert "building it now" in linked.err


def test_a_catalogue_is_read_without_a_word_about_its_columns(kglink: Kglink, here: Path) -> None:
    (here / "catalogue.csv").write_text(
        'SKU;Product name;Price;Other names\nAJ3000;AquaJet 3000;99,90;"AJ3000;AquaJet"\n'
        "AJ4000;AquaJet 4000;119,90;\n"
    )
    added = kglink("add-kb", "products", "catalogue.csv")
    assert (
        "columns    SKU is key; Product name is title; Other names is aliases split at ';'\n"
        "not read   Price (--set FIELD=COLUMN reads one)\n"
    ) in added.err
    shown = json.loads(kglink("export", "products").out.splitlines()[0])
    assert json.loads(kglink("export", "products", "-o", "-").out.splitlines()[0]) == shown
    assert not (here / "-").exists()
    assert [alias["surface"] for alias in shown["aliases"]] == ["AquaJet 3000", "AJ3000", "AquaJet"]
    (here / "bad.csv").write_text("Colour;Price\nred;1,5\n")
    refused = kglink("add-kb", "colours", "bad.csv", code=1).err
    assert "--set key=COLUMN --set title=COLUMN" in refused


def test_a_merge_leaves_what_the_source_does_not_hold(kglink: Kglink, here: Path) -> None:
    (here / "all.csv").write_text("id,title\n1,Saw\n2,Axe\n")
    (here / "more.csv").write_text("id,title\n2,Hatchet\n3,Rasp\n")
    kglink("add-kb", "tools", "all.csv")
    assert "tools +1 ~1 -0 =0" in kglink("add-kb", "tools", "more.csv", "--merge").out
    entities = map(json.loads, kglink("export", "tools").out.splitlines())
    assert {one["id"]: one["title"] for one in entities} == {
        "1": "Saw",
        "2": "Hatchet",
        "3": "Rasp",
    }
    kglink("link", "-", stdin="A rasp.")
    assert "tools +0 ~0 -1 =2" in kglink("add-kb", "tools", "more.csv").out


def test_hints_do_not_run_into_each_other(kglink: Kglink, here: Path) -> None:
    (here / "latin.csv").write_bytes("id,title\n1,T\n2,caf\xe9\n".encode("latin-1"))
    refused = kglink("add-kb", "cafes", "latin.csv", code=1).err
    assert "gb18030 (Chinese), cp949 (Korean). --on-error skip passes over" in refused


def test_an_update_says_what_changed(kglink: Kglink, here: Path) -> None:
    source = write_jsonl(here / "planets.jsonl", ENTITIES)
    kglink("add-kb", "planets", source)
    changed = [ENTITIES[0] | {"description": "Small."}, ENTITIES[2], {"id": "e", "title": "Earth"}]
    write_jsonl(source, changed)
    updated = kglink("add-kb", "planets", source, "--json")
    summary = json.loads(updated.out)
    assert {key: summary[key] for key in ("added", "changed", "removed", "unchanged")} == {
        "added": 1, "changed": 1, "removed": 1, "unchanged": 1,
    }  # fmt: skip
    assert summary["adapter"] == "kglink/jsonl"


def test_kbs_lists_shows_and_removes(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "planets", write_jsonl(here / "p.jsonl", ENTITIES), "--licence", "CC0-1.0")
    (info,) = json.loads(kglink("kbs", "--json").out)
    assert {"name", "adapter", "source", "revision", "entities", "with_description", "aliases",
            "documents", "mentions"} <= set(info)  # fmt: skip
    assert (info["name"], info["entities"], info["aliases"]) == ("planets", 3, 5)
    assert "Morning Star" in kglink("kbs", "show", "planets").out
    assert "planets" in kglink("kbs").out
    removed = kglink("kbs", "remove", "planets", "--yes").err
    assert "3 entities and 0 documents" in removed
    assert "the space" in removed
    assert json.loads(kglink("kbs", "--json").out) == []


def test_removing_asks_first(kglink: Kglink, here: Path) -> None:
    kglink("add-kb", "planets", write_jsonl(here / "p.jsonl", ENTITIES))
    kglink("kbs", "remove", "planets", stdin="n\n", code=1)
    assert len(json.loads(kglink("kbs", "--json").out)) == 1


def test_a_removal_that_was_killed_is_finished_by_the_command_that_doctor_names(
    kglink: Kglink, here: Path
) -> None:
    kglink("add-kb", "planets", write_jsonl(here / "p.jsonl", ENTITIES))
    with closing(sqlite3.connect(here / "kglink.db")) as store, store:
        store.execute("UPDATE kbs SET removing = 1")  # what a removal does first
    assert "run kglink kbs remove again" in kglink("doctor", code=1).out
    assert "3 entities" in kglink("kbs", "remove", "planets", "--yes").err
    assert "0 KBs, 0 entities" in kglink("doctor").out
    kglink("kbs", "remove", "planets", "--yes", code=2)


def test_mentions_of_what_was_removed_are_told(kglink: Kglink, here: Path) -> None:
    birds = [{"id": name, "title": name} for name in ("heron", "owl", "wren")]
    write_jsonl(here / "birds.jsonl", birds)
    mentions = [
        {"start": 0, "end": 5, "gold": ["birds:heron"]},
        {"start": 7, "end": 10, "gold": ["birds:owl"]},
    ]
    write_jsonl(here / "notes.jsonl", [{"id": "n", "text": "Heron, owl", "mentions": mentions}])
    kglink("add-kb", "birds", "birds.jsonl")
    kglink("add-kb", "notes", "notes.jsonl", "--links-to", "birds")
    write_jsonl(here / "birds.jsonl", birds[1:])
    write_jsonl(here / "zoo.jsonl", birds)
    kglink("add-kb", "zoo", "zoo.jsonl")
    with Workspace.open(here) as workspace:
        workspace.find_overlaps()
        for name in ("heron", "owl"):
            pair = EntityId("birds", name), EntityId("zoo", name)
            workspace.store.set_verdict(*pair, "correct")
    told = kglink("add-kb", "birds", "birds.jsonl").err
    assert "1 mention of documents meant what was removed" in told
    assert "1 verdict on overlaps of what was removed: kept" in told
    assert "2 mentions of documents meant" in kglink("kbs", "remove", "birds", "--yes").err


def test_an_update_names_the_commands_whose_work_is_of_the_kb_before(
    kglink: Kglink, here: Path
) -> None:
    owl = [{"id": "owl", "title": "Owl"}]
    for name in ("birds", "zoo"):
        write_jsonl(here / f"{name}.jsonl", owl)
        assert "next " not in kglink("add-kb", name, f"{name}.jsonl").err
    gold = {"start": 0, "end": 3, "gold": "birds:owl"}
    note = {"id": "n", "text": "Owl", "split": "dev", "entities": [gold]}
    write_jsonl(here / "birds.jsonl", [*owl, note])
    kglink("add-kb", "birds", "birds.jsonl", "--links-to", "birds")
    with Workspace.open(here) as workspace:
        workspace.find_overlaps()
        workspace.learn("birds", split="dev")
    assert "next " not in kglink("add-kb", "birds", "birds.jsonl").err
    (here / "discoveries.json").write_text("{")
    write_jsonl(here / "birds.jsonl", [*owl, note, {"id": "wren", "title": "Wren"}])
    told = kglink("add-kb", "birds", "birds.jsonl").err
    again = "kglink overlap, kglink learn birds --split dev"
    assert f"next       run again: {again} (made from birds before this update)" in told
    assert f"birds has been updated since it was learnt: {again[16:]}" in kglink("learn").err


@pytest.mark.parametrize("output_format", ["json", "jsonl"])
def test_machine_readable_output_is_alone_on_standard_output(
    kglink: Kglink, demo: Path, output_format: str
) -> None:
    ran = kglink("link", "-", "--format", output_format, stdin="Heron saw the Mercury.")
    value = json.loads(ran.out)
    record = value[0] if output_format == "json" else value
    assert set(record) == {"id", "text", "entities", "meta"}
    assert {"start", "end", "text", "kb", "key", "title", "url", "score", "confidence", "nil",
            "candidates", "also"} <= set(record["entities"][0])  # fmt: skip


def test_the_table_for_people(kglink: Kglink, demo: Path) -> None:
    ran = kglink("link", "-", stdin="In Cornwall a heron met Amber.")
    assert "encyclopedia:cornwall" in ran.out or "lanternfall:cornwall" in ran.out
    assert "also" in ran.out
    assert "linked" in ran.out.splitlines()[-1]


def test_marked_mentions(kglink: Kglink, demo: Path) -> None:
    ran = kglink("link", "-", "--marked", "-f", "jsonl", stdin="Mr [[Turner]] met Heron.")
    record = json.loads(ran.out)
    assert record["text"] == "Mr Turner met Heron."
    assert [(one["start"], one["text"]) for one in record["entities"]] == [(3, "Turner")]


def test_given_spans_and_a_folder(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    (texts / "inner").mkdir(parents=True)
    given: dict[str, Any] = {
        "id": "g1",
        "text": "Mr Turner met Heron.",
        "entities": [{"start": 3, "end": 9}],
    }
    write_jsonl(texts / "b.jsonl", [given, {"id": "g2", "text": "Cornwall"}])
    (texts / "a.txt").write_text("Skerrow Light", encoding="utf-8")
    (texts / "inner" / "c.txt.gz").write_bytes(gzip.compress(b"the Mercury"))
    (texts / "picture.bin").write_bytes(b"\x00\x01")
    (texts / ".hidden").write_text("Heron", encoding="utf-8")
    ran = kglink("link", texts, "-f", "jsonl")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [record["id"] for record in records] == ["a.txt", "g1", "g2", "inner/c.txt.gz"]
    assert [one["text"] for one in records[1]["entities"]] == ["Turner"]
    assert "1 file that is not text" in ran.err


def test_explain_shows_the_evidence(kglink: Kglink, demo: Path) -> None:
    ran = kglink("link", "-", "--explain", "-f", "json", stdin="Heron counts the lamps.")
    evidence = json.loads(ran.out)[0]["entities"][0]["candidates"][0]["evidence"]
    asked = {"numbers", "document", "broader", "siblings"}
    assert set(evidence) == {one.name for one in RETRIEVED} | asked
    assert "alias" in kglink("link", "-", "--explain", stdin="Heron counts the lamps.").out


def test_top_k_threshold_and_kb(kglink: Kglink, demo: Path) -> None:
    arguments = ("link", "-", "-f", "json", "--top-k", "2", "--kb", "encyclopedia")
    (record,) = json.loads(kglink(*arguments, stdin="A heron.").out)
    (one,) = record["entities"]
    assert len(one["candidates"]) == 2
    assert {candidate["kb"] for candidate in one["candidates"]} == {"encyclopedia"}
    (record,) = json.loads(kglink(*arguments, "--threshold", "1", stdin="A heron.").out)
    assert not any(one["kb"] for one in record["entities"])


def test_a_page_and_a_file(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    kglink("link", "-", "-o", page, stdin="Heron met a heron.")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.glob(".*partial")) == []


def test_after_a_bad_line_is_mended_the_whole_file_is_linked(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    texts = write_jsonl(
        tmp_path / "t.jsonl", [{"id": f"d{at}", "text": f"Heron {at}"} for at in range(9)]
    )
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    kglink("link", texts, "-o", whole)
    lines = texts.read_text(encoding="utf-8").splitlines(keepends=True)
    texts.write_text("".join([*lines[:5], "{broken\n"]), encoding="utf-8")
    kglink("link", texts, "-o", output, code=1)
    assert not output.exists()
    assert list(tmp_path.glob(".*partial")) == []  # nothing was answered
    texts.write_text("".join(lines), encoding="utf-8")
    kglink("link", texts, "-o", output)
    assert output.read_bytes() == whole.read_bytes()


def test_search(kglink: Kglink, demo: Path) -> None:
    found = json.loads(kglink("search", "Fresnel lens", "--json", "-k", "3").out)
    assert found[0]["title"] == "Fresnel lens"
    assert len(found) == 3
    assert "fresnel_lens" in kglink("search", "Fresnel lens").out
    only = json.loads(kglink("search", "lighthouse", "--kb", "lanternfall", "--json").out)
    assert {one["kb"] for one in only} == {"lanternfall"}


def test_overlap_as_json(kglink: Kglink, demo_copy: Path) -> None:
    pairs = json.loads(kglink("overlap", "encyclopedia", "lanternfall", "--json").out)
    assert all(
        set(pair) == {"left", "right", "probability", "evidence", "verdict"} for pair in pairs
    )
    assert {"left": "encyclopedia:heron", "right": "lanternfall:grey_heron"}.items() <= next(
        pair for pair in pairs if pair["left"] == "encyclopedia:heron"
    ).items()
    looser = json.loads(kglink("overlap", "--threshold", "0.3", "--json").out)
    assert len(looser) > len(pairs)


@pytest.mark.slow
def test_eval(kglink: Kglink, demo: Path) -> None:
    result = json.loads(kglink("eval", "--docs", "docs", "--split", "test", "--json").out)
    assert result["kbs"] == ["encyclopedia", "lanternfall"]
    assert set(result["metrics"]["kb"]) == {"encyclopedia", "lanternfall"}
    assert 0 < result["metrics"]["joint"]["R@1"] <= result["metrics"]["joint"]["R@32"] <= 1
    assert "joint" in kglink("eval", "--docs", "docs", "--split", "test").out


def test_build_again_encodes_nothing(kglink: Kglink, demo_copy: Path) -> None:
    ran = kglink("build", "--json")
    assert "0 vectors encoded" in ran.err
    assert json.loads(ran.out)["segments"].keys() == {"encyclopedia", "lanternfall"}


def test_settings_say_where_a_value_comes_from(
    kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_TOP_K", "9")
    resolved = json.loads(kglink("settings", "--json").out)
    assert resolved["settings"]["link"]["top_k"] == 9
    assert resolved["origins"]["link.top_k"] == "KGLINK_LINK_TOP_K"
    assert "link.top_k" in kglink("settings").out


def test_doctor_finds_a_healthy_workspace_and_a_damaged_one(
    kglink: Kglink, demo_copy: Path
) -> None:
    checks = json.loads(kglink("doctor", "--json").out)
    assert {"python", "libraries", "device", "memory", "plugins", "minilm", "store", "space"} <= {
        check["what"] for check in checks
    }
    assert not [check for check in checks if check["state"] == "bad"]
    titles = next(demo_copy.glob("spaces/default/segments/*/titles.utf8"))
    raw = bytearray(titles.read_bytes())
    raw[0] ^= 1
    titles.write_bytes(raw)
    assert "kglink build --fresh" in kglink("doctor", code=1).out


def test_licences_of_everything(kglink: Kglink, demo: Path) -> None:
    rows = json.loads(kglink("doctor", "--licences", "--json").out)
    assert {(row["what"], row["name"], row["licence"]) for row in rows} == {
        ("model", "minilm", "apache-2.0"),
        ("KB", "encyclopedia", "CC0-1.0"),
        ("KB", "lanternfall", "CC0-1.0"),
        ("dataset", "docs", "not said"),
    }


def test_init_and_workspace_option(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kglink("init", "one")
    again = kglink("init", "one", code=2)
    assert "is a workspace already" in again.err
    assert kglink("--workspace", "one", "kbs", "--json").out.strip() == "[]"
    assert "kglink init" in kglink("kbs", code=2).err
    assert "no workspace" in kglink("--workspace", here, "kbs", code=2).err
    assert "two" in kglink("--workspace", "two", "init").err
    assert not (here / "kglink.toml").exists()
    assert kglink("--workspace", "two", "kbs", "--json").out.strip() == "[]"
    monkeypatch.setenv("KGLINK_WORKSPACE", "three")
    assert f"made {here / 'three'}" in kglink("init").err
    assert f"made {here / 'four'}" in kglink("init", "four").err


def test_add_kb_makes_the_workspace_that_is_named(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(here / "planets.jsonl", ENTITIES)
    added = kglink("--workspace", "new/one", "add-kb", "planets", "planets.jsonl")
    assert f"made {here / 'new' / 'one' / 'kglink.toml'}" in added.err
    assert "made" not in kglink("-w", "new/one", "add-kb", "again", "planets.jsonl").err
    monkeypatch.setenv("KGLINK_WORKSPACE", "two")
    assert f"made {here / 'two'}" in kglink("add-kb", "planets", "planets.jsonl").err
    assert not (here / "kglink.toml").exists()
    told = kglink("-w", "three", "kbs", code=2).err  # other commands make none
    assert f"kglink init {here / 'three'}" in " ".join(told.split())


def test_version_help_and_completion(kglink: Kglink) -> None:
    assert kglink("--version").out.startswith("kglink ")
    told = kglink("--help").out
    groups = re.findall("─ ([A-Z][a-z ,]+) ─", told)
    assert groups == [
        "Options", "Add knowledge bases", "Link texts", "Measure, and learn from annotated texts",
        "Train models", "Look after spaces and the workspace", "Serve a workspace",
    ]  # fmt: skip
    assert told.index("add-kb") < told.index("│ link ") < told.index("│ finetune ")
    assert "--links-to" in kglink("add-kb", "--help").out


def test_a_file_is_added_before_it_is_learnt_from(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    (tmp_path / "my notes.jsonl").write_text("{}\n")
    for command in ("learn", "fit"):
        told = kglink(command, tmp_path / "my notes.jsonl", code=2).err
        assert "is a file" in told
        assert "kglink add-kb NAME '" in told
