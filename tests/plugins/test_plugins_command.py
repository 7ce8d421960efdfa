"""`kglink plugins` lists what is installed, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fake_distributions import ACME, FakeEnvironment, fake_environment
from kglink.errors import PluginError
from kglink_cli.plugins_command import app, refuse_taken_commands


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    return fake_environment(tmp_path, monkeypatch)


def test_the_list_is_a_table_with_who_brought_each(env: FakeEnvironment) -> None:
    env.install("acme-tools", "1.2", ACME)
    lines = CliRunner().invoke(app(), []).stdout.splitlines()
    assert [line.split("\t") for line in lines] == [
        ["kind", "name", "summary", "from", "extra"],
        ["kb", "acme/wiki", "A wiki", "acme-tools 1.2", ""],
        ["kb", "kglink/csv", "Columns", "kglink 9.9", ""],
        ["kb", "kglink/jsonl", "JSON lines", "kglink 9.9", ""],
    ]


def test_json_is_one_list(env: FakeEnvironment) -> None:
    env.install("acme-tools", "1.2", "@hookimpl\ndef register_commands(app): pass")
    rows = json.loads(CliRunner().invoke(app(), ["--json"]).stdout)
    assert rows[0] == {
        "kind": "kb",
        "name": "kglink/csv",
        "summary": "Columns",
        "extra": "",
        "settings": ["delimiter", "columns", "rename", "skip"],
        "module": "fake_builtin",
        "distribution": "kglink",
        "version": "9.9",
        "builtin": True,
    }
    assert [(row["kind"], row["name"], row["distribution"]) for row in rows[1:]] == [
        ("kb", "kglink/jsonl", "kglink"),
        ("commands", "acme_tools_plugin", "acme-tools"),
    ]


def test_new_says_what_it_made_and_what_to_do_next(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    done = CliRunner().invoke(app(), ["new", "wine", "--vendor", "acme", "--dir", str(folder)])
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "acme/wine" in done.stderr
    assert f"cd {folder} && pip install -e '.[dev]' && pytest && kglink plugins" in done.stderr
    assert (folder / "kglink_wine" / "adapter.py").is_file()


def command() -> None:
    """A command."""


def test_a_command_that_takes_the_name_of_another_is_refused() -> None:
    kglink = typer.Typer()
    kglink.command("link")(command)
    kglink.add_typer(app(), name="plugins")
    refuse_taken_commands(kglink)
    kglink.command("plugins")(command)
    with pytest.raises(PluginError) as caught:
        refuse_taken_commands(kglink)
    assert caught.value.message == (
        f"the command 'plugins' is registered twice: "
        f"by {command.__module__} and by kglink_cli.plugins_command"
    )
