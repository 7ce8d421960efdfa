"""Who imports whom, and what the front door does not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from kglink.records import Entity
from kglink.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "faiss",
    "transformers",
    "tokenizers",
    "sentence_transformers",
    "scipy",
    "sklearn",
    "sparse_dot_topn",
    "sqlalchemy",
)

LOADED_BY_COMMAND = """
import json, sys
from kglink_cli.main import run
sys.argv = ["kglink", *sys.argv[1:]]
try:
    run()
except SystemExit as stop:
    assert not stop.code, stop.code
finally:
    sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""


def test_the_rules_of_who_may_import_whom_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exit_code = lint_imports(no_cache=True, no_logo=True)
    told = capsys.readouterr().out
    assert exit_code == 0, told
    assert "5 kept, 0 broken" in told


def heavy_among(modules: str) -> list[str]:
    return [name for name in json.loads(modules.splitlines()[-1]) if name in HEAVY]


def test_import_kglink_loads_nothing_heavy() -> None:
    code = "import json, sys, kglink; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy_among(done.stdout) == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["link", "--help"], ["plugins"], ["plugins", "--json"]],
    ids=" ".join,
)
def test_a_light_command_loads_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY_COMMAND, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert heavy_among(done.stderr) == []
    assert not list(tmp_path.iterdir())


def test_a_link_by_names_waits_for_nothing_that_it_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "names")
    (tmp_path / "note.txt").write_text("A grey heron.", encoding="utf-8")
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("1", "Grey heron")])
        workspace.build()
    done = subprocess.run(
        [sys.executable, "-c", LOADED_BY_COMMAND, "link", "note.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "birds:1" in done.stdout
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert loaded & {"torch", "scipy.optimize", "transformers", "tokenizers"} == set()
