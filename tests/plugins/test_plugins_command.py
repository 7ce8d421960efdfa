"""`kglink plugins` lists what is installed, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Kglink
from typer.testing import CliRunner

from fake_distributions import ACME, FakeEnvironment, fake_environment
from kglink_cli.main import build_app


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEnvironment:
    return fake_environment(tmp_path, monkeypatch)


def test_the_list_is_a_table_with_who_brought_each(env: FakeEnvironment) -> None:
    env.install("acme-tools", "1.2", ACME)
    lines = CliRunner().invoke(build_app(), ["plugins"]).stdout.splitlines()
    assert [line.split("\t") for line in lines] == [
        ["kind", "name", "summary", "from", "extra"],
        ["kb", "acme/wiki", "A wiki", "acme-tools 1.2", ""],
        ["kb", "kglink/csv", "Columns", "kglink 9.9", ""],
        ["kb", "kglink/jsonl", "JSON lines", "kglink 9.9", ""],
    ]


def test_json_is_one_list(env: FakeEnvironment) -> None:
    code = "@hookimpl\ndef register_commands(app): pass"
    env.install("acme-tools", "1.2", code, group="kglink.commands")
    rows = json.loads(CliRunner().invoke(build_app(), ["plugins", "--json"]).stdout)
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
    folder = tmp_path / "made here"
    done = CliRunner().invoke(
        build_app(), ["plugins", "new", "wine", "--vendor", "acme", "--dir", str(folder)]
    )
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "acme/wine" in done.stderr
    assert f"cd '{folder}' && pip install -e '.[dev]' && pytest && kglink plugins" in done.stderr
    assert (folder / "kglink_wine" / "plugin.py").is_file()


@pytest.mark.filterwarnings("always::kglink.plugins.loading.PluginWarning")
def test_a_command_that_takes_the_name_of_another_is_left_out(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = """
        @hookimpl
        def register_commands(app):
            app.command("extra")(lambda: None)
            app.command("NAME")(lambda: print("not this one"))
    """
    site = FakeEnvironment(tmp_path)
    for name in ("link", "recipes"):
        acme = f"acme-{name}"
        site.install(acme, "1", code.replace("NAME", name), group="kglink.commands")
    told = kglink("--help")
    assert (
        "acme-link 1 (acme_link_plugin) is left out: the command 'link' is registered twice: "
        "by kglink and by acme-link 1 (acme_link_plugin)"
    ) in " ".join(told.err.split())
    assert "extra" not in told.out
    assert "not this one" not in kglink("recipes").out


def test_an_error_of_a_command_names_whose_it_is(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = """
        @hookimpl
        def register_commands(app):
            @app.command("menu")
            def menu():
                print("soup")
                raise ValueError("no spoon")
    """
    FakeEnvironment(tmp_path).install("acme", "1", code, group="kglink.commands")
    ran = kglink("menu", code=1)
    assert ran.out == "soup\n"
    assert "unexpected error: ValueError: no spoon" in ran.err
    assert "a bug of acme 1 (acme_plugin): --debug shows where" in " ".join(ran.err.split())


@pytest.mark.filterwarnings("always::kglink.plugins.loading.PluginWarning")
@pytest.mark.parametrize(
    ("second", "why"),
    [("register('acme/a', {})", "is registered twice"), ("register('acme/b', [1])", "is no table")],
)
def test_recipes_that_cannot_be_are_told(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, why: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    code = f"""
        @hookimpl
        def register_recipes(register):
            register("acme/a", {{"extends": "small"}})
            {second}
    """
    FakeEnvironment(tmp_path).install("acme", "1", code, group="kglink.recipes")
    ran = kglink("recipes")
    assert why in " ".join(ran.err.split())
    assert "acme/a" not in ran.out
