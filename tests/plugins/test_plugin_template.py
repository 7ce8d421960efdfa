"""`kglink plugins new` writes projects that install, are listed, and pass their own tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from fake_distributions import FakeEnvironment
from kglink.errors import UnknownNameError, UsageError
from kglink.plugins import HOOKS, HOOKS_OF_GROUP, KINDS, Kind
from kglink_cli.plugins_command import IN_CLONE, PACKAGED, write_project
from snippets import blocks_of

ROOT = Path(__file__).parents[2]
LEFTOVERS = re.compile(r"my(plugin|vendor)|MYKIND")


def texts(folder: Path) -> dict[str, str]:
    """Every file of a folder with its text."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


# ---------------------------------------------------------------------------------- writing
@pytest.mark.parametrize("kind", KINDS)
def test_a_project_has_the_files_of_its_kind_under_its_own_names(
    tmp_path: Path, kind: Kind
) -> None:
    project = write_project("wine-list", "acme", kind, tmp_path / "made")
    assert sorted(texts(project)) == [
        "README.md",
        "kglink_wine_list/__init__.py",
        "kglink_wine_list/plugin.py",
        "pyproject.toml",
        "tests/test_plugin.py",
    ]
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    assert settings["project"]["name"] == "kglink-wine-list"
    assert settings["project"]["entry-points"]["kglink"] == {"wine-list": "kglink_wine_list.plugin"}
    plugin = (project / "kglink_wine_list" / "plugin.py").read_text()
    assert '"acme/wine-list"' in plugin
    assert f"def {KINDS[kind].hook}(register: Register) -> None:" in plugin
    assert f"({KINDS[kind].contract}):" in (project / "tests" / "test_plugin.py").read_text()
    assert not LEFTOVERS.search("".join(texts(project).values()))


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown kind of plugin 'smapler'") as caught:
        write_project("wine", "acme", "smapler", tmp_path / "made")
    assert "Did you mean 'sampler'?" in caught.value.hint


def test_the_folder_is_named_after_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_project("wine_list", "acme") == tmp_path / "kglink-wine-list"
    assert [path.name for path in tmp_path.iterdir()] == ["kglink-wine-list"]


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_project("wine", "acme", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("name", "vendor", "message"),
    [
        ("Wine", "acme", "'Wine' cannot be the name of a plugin"),
        ("acme/wine", "acme", "'acme/wine' cannot be the name of a plugin"),
        ("", "acme", "'' cannot be the name of a plugin"),
        ("../wine", "acme", "cannot be the name of a plugin"),
        ("1wine", "acme", "cannot be the name of a plugin"),
        ("wine-", "acme", "cannot be the name of a plugin"),
        ("wein\u00e4", "acme", "cannot be the name of a plugin"),
        ("wine", "ACME", "'ACME' cannot be the name of a vendor"),
        ("wine", "kglink", "the vendor name 'kglink' is kept for kglink itself"),
        ("plugins", "acme", "the plugin name 'plugins' is kept for kglink itself"),
    ],
)
def test_a_bad_name_is_refused(tmp_path: Path, name: str, vendor: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        write_project(name, vendor, folder=tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_the_template_of_a_clone_is_the_one_that_the_wheel_ships() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    ((source, target),) = shipped.items()
    assert ROOT / source == IN_CLONE
    assert f"kglink_cli/{PACKAGED.name}" == target


@pytest.mark.slow
# ------------------------------------------------------------------------- every kind's tests
def test_the_tests_of_every_kind_pass(tmp_path: Path) -> None:
    """All projects as if they were installed, their tests and contracts in one run."""
    site = FakeEnvironment(tmp_path)
    for kind in KINDS:
        project = write_project(f"my-{kind}", "acme", kind, tmp_path / kind)
        package = f"kglink_my_{kind.replace('-', '_')}"
        (project / package).rename(tmp_path / package)
        site.describe(f"kglink-my-{kind}", "1", f"{package}.plugin")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"),
            *("--kglink-contracts", "--import-mode=importlib"),
            *(f"{kind}/tests" for kind in KINDS),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in KINDS:
        assert re.search(f"'acme/my-{kind}': tested by Test", done.stdout)


@pytest.mark.slow
def test_the_examples_of_the_guide_hold_the_contracts(tmp_path: Path) -> None:
    """The guide's programs as if they were installed: every kind but adapters, and a command."""
    site = FakeEnvironment(tmp_path)
    guide = blocks_of(ROOT / "docs" / "plugins.md")
    programs = [one.body for one in guide if one.language == "python" and "hookimpl" in one.body]
    examples = [one for one in programs if "def register_kbs" not in one]
    assert len(examples) == len(HOOKS) - 1
    for number, program in enumerate(examples):
        module = f"guide_example_{number}"
        (tmp_path / f"{module}.py").write_text(program, encoding="utf-8")
        group = next(one for one, hooks in HOOKS_OF_GROUP.items() if any(
            f"def {hook}(" in program for hook in hooks))  # fmt: skip
        site.describe(f"guide-example-{number}", "1", module, group=group)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", *command],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "tests").mkdir()
    tested = run("pytest", "-q", "-p", "no:cacheprovider", "--kglink-contracts", "tests")
    for name, kind in KINDS.items():
        assert name == "kb" or f"{kind.word} 'acme/" in tested
    assert run("kglink_cli", "menu") == "soup\n"


# ------------------------------------------------------------------------------- installing
class Environment:
    """A throw-away environment with kglink as a wheel, and a new plugin beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.project = folder / "kglink-wine-list"
        venv.create(folder / "venv", with_pip=False)
        purelib = Path(self.ask("import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        # Our dependencies are borrowed: there is no network in a test.
        borrowed = sysconfig.get_path("purelib")
        (purelib / "borrowed.pth").write_text(f"import site; site.addsitedir({borrowed!r})\n")
        self.install(ROOT)
        self.kglink("plugins", "new", "wine-list", "--vendor", "acme", "--dir", str(self.project))
        self.install(self.project)

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        hidden = ("PYTHONPATH", "KGLINK_PLUGINS", "KGLINK_WORKSPACE")
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env={name: value for name, value in os.environ.items() if name not in hidden},
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, code: str) -> str:
        done = self.run(str(self.python), "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kglink(self, *arguments: str) -> str:
        done = self.run(str(self.python.with_name("kglink")), *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, project: Path) -> None:
        pip = (sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet")
        offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
        done = self.run(*pip, *offline, "--force-reinstall", str(project))
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("plugin"))


def test_the_new_plugin_is_listed_with_its_distribution(environment: Environment) -> None:
    rows: list[dict[str, Any]] = json.loads(environment.kglink("plugins", "--json"))
    row = next(row for row in rows if row["name"] == "acme/wine-list")
    assert row == {
        "kind": "kb",
        "name": "acme/wine-list",
        "summary": "Entities, one per line: key = title | alias : description",
        "extra": "",
        "settings": ["comment"],
        "module": "kglink_wine_list.plugin",
        "distribution": "kglink-wine-list",
        "version": "0.1.0",
        "builtin": False,
    }
    listed = environment.kglink("plugins").splitlines()
    assert any("acme/wine-list" in line and "kglink-wine-list 0.1.0" in line for line in listed)


def test_the_new_plugin_is_guessed_from_its_format(environment: Environment) -> None:
    (environment.folder / "wines.txt").write_text("w1 = Barolo | Nebbiolo : Red.\nw2 = Soave\n")
    code = """
from kglink.plugins import load_registry
from kglink.sources import Source
print(load_registry().guess_kb(Source.open_path("wines.txt").head).name)
"""
    assert environment.ask(code) == "acme/wine-list\n"


@pytest.mark.slow
def test_the_tests_of_the_new_plugin_pass(environment: Environment) -> None:
    command = (str(environment.python), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    done = environment.run(*command, "--kglink-contracts", cwd=environment.project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "KB adapter 'acme/wine-list': tested by TestLineAdapter" in done.stdout


def test_failed_contracts_show_their_values(environment: Environment) -> None:
    test = environment.folder / "test_wrong.py"
    test.write_text(
        "from kglink.records import Entity\n"
        "from kglink.testing import KBAdapterContract\n"
        "class TestWrong(KBAdapterContract):\n"
        "    plugin = 'acme/wine-list'\n"
        "    source_text = 'a = Ada | A\\n'\n"
        "    expected = (Entity('a', 'Bob'),)\n"
    )
    command = (str(environment.python), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    done = environment.run(*command, str(test))
    assert done.returncode == 1
    assert "test_reads_the_expected_records" in done.stdout
    assert "title='Ada'" in done.stdout
    assert "title='Bob'" in done.stdout
