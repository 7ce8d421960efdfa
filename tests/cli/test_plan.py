"""`kglink plan`: what a source will take, and what it took."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Kglink

from kglink import Workspace
from kglink.workspace.folder import folder_size
from kglink.workspace.plan import Plan


def lines(count: int) -> Iterator[str]:
    """A catalogue of things with names of their own."""
    draw = random.Random(count)
    words = [f"{one}{two}{three}" for one in "bdfgk" for two in "aeiou" for three in "lmnprst"]
    for number in range(count):
        title, alias, about = (" ".join(draw.choices(words, k=k)) for k in (3, 2, 20))
        record = {"id": f"E{number}", "title": title, "aliases": [alias], "description": about}
        yield json.dumps(record) + "\n"


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 60,000 entities, in a folder without a workspace."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "catalogue.jsonl"
    path.write_text("".join(lines(60_000)), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_plan_is_what_the_whole_takes(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kglink.space.index.MOST_EXACT", 100_000)
    with Workspace.open(tmp_path / "here", create=True) as workspace:
        planned = workspace.plan(catalogue, records=3000)
        assert workspace.kbs() == []
        workspace.add_kb("catalogue", catalogue)
        list(workspace.link(["Nothing."], wait=False))
        (info,) = workspace.kbs()
    reading, names, vectors = planned.steps
    assert not planned.is_counted
    assert planned.entities == pytest.approx(info.entities, rel=0.1)
    assert planned.names == pytest.approx(info.aliases, rel=0.1)
    store = sum(path.stat().st_size for path in (tmp_path / "here").glob("kglink.db*"))
    assert 1 / 2 < reading.disk_mb / (store / 1e6) < 2
    spaces, _ = folder_size(tmp_path / "here" / "spaces")
    assert 1 / 2 < names.disk_mb / (spaces / 1e6) < 2
    # Three vectors of 384 numbers for each entity: two bytes for a number, two bits in the index.
    assert 1 / 2 < vectors.disk_mb / (3 * info.entities * (768 + 132) / 1e6) < 2


@pytest.mark.slow
def test_a_short_source_is_counted_and_nothing_is_kept(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with gzip.open(tmp_path / "few.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(lines(30))
    ran = kglink("plan", "few.jsonl.gz", "--machines", "4", "--json")
    found = json.loads(ran.out)
    assert (found["entities"], found["is_counted"], found["machines"]) == (30, True, 4)
    assert [step["name"] for step in found["steps"]] == ["read and store", "names", "vectors"]
    vectors = found["steps"][2]
    assert vectors["seconds_divided"] == pytest.approx(vectors["seconds"] / 4)
    table = kglink("plan", "few.jsonl.gz").out.splitlines()
    assert table[0].split("\t") == ["step", "time", "disk", "memory"]
    assert len(table) == 1 + 3
    assert [path.name for path in tmp_path.iterdir()] == ["few.jsonl.gz"]


@pytest.mark.slow
def test_settings_that_mean_the_workspaces_own_kbs_do_not_matter(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.jsonl").write_text("".join([*lines(20), "broken\n"]), encoding="utf-8")
    kglink("init")
    own = '[link]\nkbs = ["birds"]\ntypes = ["x"]\ndetector = "learned"\nprefer = ["birds"]\n'
    (tmp_path / "kglink.toml").write_text(own, encoding="utf-8")
    assert "few.jsonl" in kglink("plan", "few.jsonl", code=1).err
    found = json.loads(kglink("plan", "few.jsonl", "--on-error", "skip", "--json").out)
    assert found["entities"] == 20


def test_entities_of_one_key_are_one(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{number % 5},Bird {number}\n" for number in range(3000))
    (tmp_path / "birds.csv").write_text(f"id,title\n{rows}")
    found = json.loads(kglink("plan", "birds.csv", "--on-error", "skip", "--json").out)
    assert found["entities"] == 5
    assert all(step["seconds"] < 60 for step in found["steps"])


@pytest.mark.slow
def test_no_kb_of_the_workspace_says_how_a_source_is_read(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kglink("init")
    (tmp_path / "tools.csv").write_text("SKU,nm\n1,Saw\n")
    (tmp_path / "birds.csv").write_text("id,title\n1,Heron\n")
    kglink("add-kb", "plan", "tools.csv", "--set", "key=SKU", "--set", "title=nm")
    ran = kglink("plan", "birds.csv", "--json")
    assert json.loads(ran.out)["entities"] == 1
    assert "SKU" not in ran.err


def test_a_source_without_entities_is_refused(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.jsonl").write_text('{"id": "1", "text": "A text.", "mentions": []}\n')
    ran = kglink("plan", "notes.jsonl", code=2)
    assert "notes.jsonl has no entity" in ran.err


def test_times_are_shown_as_people_say_them(capsys: pytest.CaptureFixture[str]) -> None:
    from kglink.workspace.plan import PlannedStep
    from kglink_cli.kbs import print_plan

    steps = tuple(PlannedStep("names", own, own / 2, 1234.5, 10) for own in (90, 600, 9000))
    print_plan(Plan(3, 4, is_counted=False, machines=2, steps=steps))
    table = [line.split("\t")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["time", "on 2 machines"]
    assert table[1:] == [["90 s", "45 s"], ["10 min", "5 min"], ["2.5 h", "75 min"]]
