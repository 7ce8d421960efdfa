"""`kglink add-kb --engine ray`: a wiki's dump makes the rows of one process."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.workspace import Workspace, init_workspace
from kglink_kbs.mediawiki import adapter as mediawiki
from kglink_kbs.mediawiki.plan import write_packed
from worlds import World, WorldSettings, write_mediawiki_xml

pytest_plugins = ["cluster_fixtures"]


def rows_of(workspace: Path) -> list[str]:
    """All rows of all tables, without times and what a store draws for itself."""
    with closing(sqlite3.connect(workspace / "kglink.db")) as store:
        lines = [line for line in store.iterdump() if line.startswith("INSERT INTO")]
    rows = (re.sub(r"'\d{4}-\d\d-\d\dT[^']*'", "?", line) for line in lines)
    return [row for row in rows if '"store_state"' not in row]


@pytest.mark.slow
def test_a_dump_that_a_cluster_parses_makes_the_rows_of_one_process(
    tmp_path: Path, cluster: Any, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    with (whole := tmp_path / "world.xml").open("w", encoding="utf-8") as out:
        write_mediawiki_xml(out, World(WorldSettings(entities=400)))
    header, *pages = whole.read_text().replace("</mediawiki>\n", "").split("  <page>\n")
    bad = "    <title>Bad</title>\n    <ns>0</ns>\n    <id>no number</id>\n  </page>\n"
    pages = ["  <page>\n" + text for text in [*pages[:90], bad, *pages[90:]]]
    for at, part in enumerate((pages[:250], pages[250:])):
        (dump / f"{at}.xml").write_text(header + "".join(part) + "</mediawiki>\n")
    monkeypatch.setattr(mediawiki, "LEAST_PIECE", 20_000)
    notes: list[str] = []
    kept: list[Path] = []
    tell, write = mediawiki._Reading._tell, write_packed

    def writing(path: Path, parts: Any) -> None:
        kept.append(path)
        write(path, parts)

    monkeypatch.setattr(mediawiki, "write_packed", writing)

    def stopping(reading: Any, about: dict[str, Any]) -> None:
        tell(reading, about)
        if len(kept) == 5:
            raise KeyboardInterrupt

    def losing(reading: Any, about: dict[str, Any]) -> None:
        tell(reading, about)
        if len(nodes) == 2:
            for node in nodes:
                cluster.remove_node(node, allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=1))

    found, problems = {}, {}
    for name in ("alone", "cluster"):
        folder = init_workspace(tmp_path / name)
        more: dict[str, Any] = {"on_note": lambda label, text: notes.append(f"{label}: {text}")}
        if name == "cluster":
            more["ray_workers"] = 2
            monkeypatch.setattr(mediawiki._Reading, "_tell", stopping)
            with (
                Workspace.open(folder, flags={"ingest.on_error": "skip"}) as workspace,
                pytest.raises(KeyboardInterrupt),
            ):
                workspace.add_kb("w", dump, adapter="wikipedia", options={"documents": 50}, **more)
            monkeypatch.setattr(mediawiki._Reading, "_tell", losing)
        with Workspace.open(folder, flags={"ingest.on_error": "skip"}) as workspace:
            added = workspace.add_kb(
                "w", dump, adapter="wikipedia", options={"documents": 50}, **more
            )
        assert added.summary.documents == 50
        found[name] = rows_of(folder)
        problems[name] = added.problems.examples, added.problems.passed_over
        assert not (folder / ".scratch").exists()
    assert sum('INTO "entities"' in row for row in found["alone"]) == 400
    assert found["cluster"] == found["alone"]
    assert len(kept) == len({*kept}) > 10  # what was there after the stop is not parsed again
    assert problems["cluster"] == problems["alone"]
    assert problems["alone"][0]
    assert any("lost a worker of" in line and "from byte" in line for line in notes), notes


def test_what_one_process_reads_is_not_given_to_a_cluster(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "birds.csv").write_text("id,title\n1,Heron\n")
    told = kglink("add-kb", "birds", "birds.csv", "--engine", "ray", code=2).err
    assert "kglink/csv reads a source in one process" in told
    assert "--engine ray" in kglink("add-kb", "birds", "birds.csv", "--workers", 2, code=2).err
