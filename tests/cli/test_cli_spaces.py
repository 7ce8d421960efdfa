"""`kglink spaces` and `kglink index` as their users meet them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.linking.scoring import PLAIN_SCORING, write_scoring
from kglink.records import Entity
from kglink.space.folder import SpaceFolder
from kglink.workspace import Workspace
from tiny_models import bert_weights, write_model


@pytest.fixture
def two(demo_copy: Path) -> Path:
    """The demo with another space: the same, but for its index."""
    spaces = demo_copy / "spaces"
    shutil.copytree(spaces / "default", spaces / "twofold")
    manifest = next((spaces / "twofold" / "versions").glob("*/manifest.json"))
    manifest.write_text(manifest.read_text().replace('"name": "default"', '"name": "twofold"'))
    return demo_copy


def read(kglink: Kglink, *arguments: str) -> Any:
    return json.loads(kglink(*arguments, "--json").out)


# ------------------------------------------------------------------------------------ spaces
def test_the_list(kglink: Kglink, two: Path) -> None:
    listed = read(kglink, "spaces")
    assert [space["name"] for space in listed] == ["default", "twofold"]
    first, other = listed
    with Workspace.open(two) as workspace:
        entities = {info.name: info.entities for info in workspace.store.kbs() if info.entities}
    assert {share["kb"]: share["entities"] for share in first["kbs"]} == entities
    assert first["entities"] == sum(entities.values())
    assert first["rows"] == sum(share["rows"] for share in first["kbs"]) > first["entities"]
    assert first["kinds"] == ["text", "alias"]
    assert (first["model"], first["run"], first["dim"]) == ("minilm", "", 384)
    assert (first["index"], first["index_settings"]) == ("kglink/flat", {})
    assert first["bytes"] == sum(
        path.stat().st_size for path in (two / "spaces" / "default").rglob("*") if path.is_file()
    )
    assert (first["used"], other["used"]) == (True, False)
    assert (first["current"], other["current"]) == (True, True)
    lines = kglink("spaces").out.splitlines()
    assert lines[0].split("\t")[:4] == ["", "name", "KBs", "entities"]
    assert lines[1].split("\t")[:3] == ["*", "default", "encyclopedia,lanternfall"]
    assert lines[2].split("\t")[0] == ""


def test_a_space_that_is_behind_the_store_and_one_without_its_model(
    kglink: Kglink, two: Path
) -> None:
    manifest = next((two / "spaces" / "twofold" / "versions").glob("*/manifest.json"))
    record = json.loads(manifest.read_text())
    record["model"] |= {"name": "runs/gone/model", "path": "runs/gone/model"}
    manifest.write_text(json.dumps(record))
    kglink("kbs", "remove", "lanternfall", "--yes")
    first, other = read(kglink, "spaces")
    assert first["current"] is False
    assert (other["current"], other["run"]) == (None, "gone")
    assert "model" in other["problem"]
    assert "twofold" in kglink("spaces").err


def test_one_space_whole(kglink: Kglink, two: Path) -> None:
    shown = kglink("spaces", "twofold").out
    assert "model        minilm" in shown
    assert "current      yes" in shown
    assert "kglink/flat, " in shown
    assert read(kglink, "spaces", "twofold")["name"] == "twofold"
    ran = kglink("spaces", "twofald", code=2)
    assert "Did you mean 'twofold'?" in ran.err


def test_a_build_with_another_model_says_that_what_was_fitted_is_not_of_it(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(tmp_path))
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("o", "osprey")])
        tiny = workspace.build(model=str(write_model(tmp_path / "tiny"))).manifest.model
        write_scoring(workspace.joint_space.folder.path, tiny.fingerprint, PLAIN_SCORING)
    assert "kglink fit" not in kglink("build", "--model", tiny.path).err
    changed = bert_weights()
    changed["embeddings.LayerNorm.bias"][0] += 1
    other = write_model(tmp_path / "other", changed)
    assert "of another model" in kglink("build", "--model", str(other)).err
    assert "kglink fit" not in kglink("build", "--model", tiny.path).err


def test_a_damaged_space_is_listed_and_can_be_deleted(kglink: Kglink, two: Path) -> None:
    next((two / "spaces" / "twofold" / "versions").glob("*/manifest.json")).write_text("{")
    listed = read(kglink, "spaces")
    assert "not JSON" in listed[1]["problem"]
    assert listed[1]["bytes"] > 0
    assert "cannot be compared" in kglink("spaces", "--compare", "default", "twofold", code=2).err
    kglink("spaces", "--delete", "twofold", "--yes")
    assert [space["name"] for space in read(kglink, "spaces")] == ["default"]


def test_nothing_there(kglink: Kglink, tmp_path: Path) -> None:
    kglink("init", tmp_path / "new")
    where = ("--workspace", str(tmp_path / "new"))
    assert "kglink build" in kglink(*where, "spaces").err
    assert read(kglink, *where, "spaces") == []
    assert "not built yet" in kglink(*where, "index", code=1).err


def test_a_slip_in_the_name_of_a_space_builds_none(kglink: Kglink, two: Path) -> None:
    for words in (("link", "-"), ("eval", "--docs", "docs"), ("explain", "Heron")):
        ran = kglink(*words, "--space", "twofld", code=2)
        assert "unknown space 'twofld'" in ran.err
        assert "Did you mean 'twofold'?" in ran.err
        assert "`kglink build --space twofld` makes it." in ran.err
    assert len(read(kglink, "spaces")) == 2


def test_two_spaces_beside_each_other(kglink: Kglink, two: Path) -> None:
    same = read(kglink, "spaces", "--compare", "default", "twofold")
    assert (same["left"], same["right"], same["differences"]) == ("default", "twofold", [])
    assert "differ in nothing" in kglink("spaces", "--compare", "default", "twofold").err
    kglink("index", "--space", "twofold", "--preset", "sq8", "--queries", "0")
    found = read(kglink, "spaces", "--compare", "default", "twofold")
    differ = {one["what"]: (one["left"], one["right"]) for one in found["differences"]}
    assert differ["index"] == ("kglink/flat", "kglink/faiss")
    assert differ["index: factory"] == (None, "SQ8")
    assert differ["index bytes"][0] > 3 * differ["index bytes"][1]
    sets = {"index: factory", "index: oversampling"}
    assert set(differ) == {"index", *sets, "index bytes", "bytes"}
    assert "itself" in kglink("spaces", "--compare", "twofold", "twofold", code=2).err


@pytest.mark.slow
def test_both_are_evaluated_on_the_same_mentions(kglink: Kglink, two: Path) -> None:
    kglink("index", "--space", "twofold", "--preset", "fp16", "--queries", "0")
    words = ("spaces", "--compare", "default", "twofold", "--docs", "docs", "--split", "")
    record = read(kglink, *words)["evaluation"]
    own = read(kglink, "eval", "--docs", "docs", "--split", "", "--k", "1,10,64")
    for side in ("left", "right"):
        assert record[side]["joint"]["R@1"] == pytest.approx(own["metrics"]["joint"]["R@1"])
    assert record["mentions"] == own["mentions"]
    for tests in record["tests"].values():
        for test in tests.values():
            # The same model in both, and an index that rounds: no figure may differ.
            assert test["left"] == test["right"]
            assert test["p"] == 1
            assert not test["significant"]
    table = kglink(*words).out
    assert "paired randomization test" in table
    assert "[joint]" in table


def test_deleting_asks_and_is_whole(kglink: Kglink, two: Path) -> None:
    kglink("spaces", "--delete", "twofold", stdin="n\n", code=1)
    assert (two / "spaces" / "twofold").is_dir()
    ran = kglink("spaces", "--delete", "twofold", stdin="y\n")
    assert "removed" in ran.err
    assert not (two / "spaces" / "twofold").exists()
    assert [path.name for path in (two / "spaces").iterdir()] == ["default"]


def test_the_space_of_the_settings_is_deleted_on_an_explicit_yes_alone(
    kglink: Kglink, two: Path
) -> None:
    refused = kglink("spaces", "--delete", "default", stdin="y\n", code=2)
    assert "the settings name" in refused.err
    assert (two / "spaces" / "default").is_dir()
    assert "warning" in kglink("spaces", "--delete", "default", "--yes").err
    assert not (two / "spaces" / "default").exists()
    assert read(kglink, "spaces")[0]["name"] == "twofold"


def test_a_reader_of_a_deleted_space_goes_on(kglink: Kglink, two: Path) -> None:
    with Workspace.open(two, flags={"space.name": "twofold"}) as workspace:
        before = workspace.search("heron", k=3)
        space = workspace.space()
        kglink("spaces", "--delete", "twofold", "--yes")
        segment = space.segments["encyclopedia"]
        query = segment.vectors("alias", slice(3, 4))
        assert space.nearest(query, "encyclopedia", "alias", 1)[1].tolist() == [[3]]
        assert segment.names.exact("heron").tolist()
    assert before


def test_a_space_that_is_being_built_is_not_deleted(kglink: Kglink, two: Path) -> None:
    with SpaceFolder(two / "spaces", "twofold").writing():
        ran = kglink("spaces", "--delete", "twofold", "--yes", code=1)
    assert "being built by another process" in ran.err
    assert (two / "spaces" / "twofold" / "CURRENT").is_file()


def test_one_thing_at_a_time(kglink: Kglink, two: Path) -> None:
    kglink("spaces", "twofold", "--delete", "twofold", code=2)
    kglink("spaces", "--docs", "docs", code=2)
    assert len(read(kglink, "spaces")) == 2


# ------------------------------------------------------------------------------------- index
def test_the_index_of_a_space_is_measured_as_it_is(kglink: Kglink, demo: Path) -> None:
    record = read(kglink, "index", "--queries", "20")
    assert set(record) == {"space", "measured"}
    measured = record["measured"]
    assert measured["index"] == "kglink/flat"
    assert measured["queries"] == 20
    assert "annotated documents" in measured["asked"]
    names = [(part["kb"], part["kind"]) for part in measured["parts"]]
    assert names == [("", ""), ("encyclopedia", "text"), ("encyclopedia", "alias"),
                     ("lanternfall", "text"), ("lanternfall", "alias")]  # fmt: skip
    for part in measured["parts"]:
        assert part["recall"] == {"R@1": 1, "R@10": 1, "R@100": 1}
        assert part["ms"] == part["exact_ms"]


def test_another_index_without_encoding(
    kglink: Kglink, demo_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("something was encoded")

    monkeypatch.setattr("kglink.models.encoder.Encoder.encode", fail)
    linked = ("search", "heron", "--json")
    ran = read(kglink, "index", "--preset", "ivf", "--set", "nprobe=2", "--queries", "0")
    assert ran["published"] is True
    assert ran["rebuilt"] is True
    assert ran["index_settings"] == {"factory": "IVF{lists},Flat", "nprobe": 2}
    assert ran["before"] == {"index": "kglink/flat", "index_settings": {}}
    again = read(kglink, "index", "--set", "nprobe=5", "--queries", "0")
    assert (again["rebuilt"], again["index_settings"]["nprobe"]) == (False, 5)
    same = kglink("index", "--set", "nprobe=5", "--queries", "0")
    assert "nothing was changed" in same.err
    (space,) = read(kglink, "spaces")
    assert (space["index"], space["index_settings"]["nprobe"]) == ("kglink/faiss", 5)
    assert space["current"] is True
    monkeypatch.undo()
    monkeypatch.setenv("KGLINK_WORKSPACE", str(demo_copy))
    assert "building" not in kglink(*linked).err
    # A build after a change of a KB keeps the index that the space was given.
    kglink("kbs", "remove", "lanternfall", "--yes")
    kglink("build")
    (space,) = read(kglink, "spaces")
    assert (space["index"], space["index_settings"]["nprobe"]) == ("kglink/faiss", 5)
    exact = read(kglink, "index", "--exact", "--queries", "0")
    assert (exact["index"], exact["index_settings"]) == ("kglink/flat", {})


def test_another_index_is_measured_beside_an_exact_one(kglink: Kglink, demo_copy: Path) -> None:
    ran = kglink("index", "--preset", "sq8", "--queries", "30")
    header, *rows = [line.split("\t") for line in ran.out.splitlines()]
    assert header[:5] == ["searched", "rows", "R@1", "R@10", "R@100"]
    assert rows[0][0] == "all rows"
    assert all(0.9 <= float(cell) <= 1 for row in rows for cell in row[2:5])
    assert "factory=SQ8" in ran.err
    assert "exact: " in ran.err


def test_without_documents_the_queries_are_rows(kglink: Kglink, demo_copy: Path) -> None:
    assert "the space" not in kglink("kbs", "remove", "docs", "--yes").err
    words = ("index", "--factory", "SQfp16", "--queries", "25")
    measured = read(kglink, *words)["measured"]
    assert "each less itself" in measured["asked"]
    assert measured["queries"] == 25
    for part in measured["parts"]:
        assert part["recall"]["R@10"] > 0.98


def test_what_cannot_be(kglink: Kglink, demo_copy: Path) -> None:
    ran = kglink("index", "--preset", "hnsw", code=2)
    assert "hnsw-fast" in ran.err
    kglink("index", "--preset", "ivf", "--factory", "SQ8", code=2)
    kglink("index", "--preset", "ivf", "--exact", code=2)
    assert "has no setting 'ef'" in kglink("index", "--preset", "ivf", "--set", "ef=3", code=2).err
    assert "cannot make an index" in kglink("index", "--factory", "Falt", code=2).err
    kglink("index", "--queries", "-1", code=2)
    assert read(kglink, "spaces")[0]["index"] == "kglink/flat"


def test_settings_that_would_put_another_index_in_its_place(
    kglink: Kglink, demo_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_SPACE_INDEX", "kglink/flat")
    ran = kglink("index", "--preset", "sq8", code=2)
    assert "space.index (KGLINK_SPACE_INDEX)" in ran.err
    monkeypatch.setenv("KGLINK_SPACE_INDEX", "kglink/faiss")
    settings = '{"factory": "SQ8", "oversampling": 2}'
    monkeypatch.setenv("KGLINK_SPACE_INDEX_SETTINGS", settings)
    kglink("index", "--preset", "sq8", "--queries", "0")
    assert read(kglink, "spaces")[0]["current"] is True


def test_the_presets(kglink: Kglink, demo: Path) -> None:
    listed = read(kglink, "index", "--presets")
    assert {"flat", "hnsw-fast", "hnsw-accurate", "ivf", "sq8"} <= set(listed)
    assert listed["hnsw-fast"]["settings"]["ef_search"] == 128
    assert "BLINK" in kglink("index", "--presets").out
