"""What is shipped: wheel and sdist, and that an installed kglink is the one in the tree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from environments import Environment, fresh_environment

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "kglink": ROOT / "kglink",
    "kglink_plugins": ROOT / "plugins" / "kglink_plugins",
    "kglink_kbs": ROOT / "kbs" / "kglink_kbs",
    "kglink_cli": ROOT / "cli" / "kglink_cli",
    "kglink_papers": ROOT / "papers" / "kglink_papers",
    "kglink_doors": ROOT / "doors" / "kglink_doors",
}
#: What the wheel takes from elsewhere: the folder in its package, and where it lies in the tree.
TAKEN = {"kglink_cli": ("plugin_template", ROOT / "plugins" / "template")}

#: Imports all modules of our packages; prints their names and the folder of each package.
IMPORT_ALL = f"""
import importlib, json, pkgutil
modules, folders = [], {{}}
for name in {sorted(PACKAGES)}:
    package = importlib.import_module(name)
    folders[name] = package.__path__[0]
    modules.append(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(found.name)
        modules.append(found.name)
print(json.dumps([sorted(modules), folders]))
"""


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


# ------------------------------------------------------------------------ versions and pins
def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[headings[0] == "Unreleased"] == project()["version"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line.partition("==") for line in lines if not line.startswith("#")]
    assert all(equals for _, equals, _ in pinned)
    assert len({canonicalize_name(name) for name, _, _ in pinned}) == len(pinned)
    return {canonicalize_name(name): version for name, _, version in pinned}


def test_constraints_are_plain_pins() -> None:
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins().values())


@pytest.mark.parametrize("extra", ["", "dev", "postgres"])
def test_every_dependency_has_a_pin_that_it_allows(extra: str) -> None:
    table = project()
    wanted = table["optional-dependencies"][extra] if extra else table["dependencies"]
    pinned = pins()
    for requirement in map(Requirement, wanted):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


def test_all_that_is_installed_has_its_pin() -> None:
    """What a dependency needs is pinned too: nothing is chosen on the day of the install."""
    pinned, wrong = pins(), []
    waiting, seen = [("kglink", "dev")], set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name not in {"kglink", *pinned}:
            wrong += [] if (name, extra) in seen else [f"{name} has no pin"]
            continue
        seen.add((name, extra))
        with suppress(PackageNotFoundError):  # one for another platform, or an extra of one
            found = distribution(name)
            if name != "kglink" and found.version.partition("+")[0] != pinned[name]:
                wrong.append(f"{name} is {found.version} and not {pinned[name]}")
            for needed in map(Requirement, found.requires or ()):
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    names = canonicalize_name(needed.name)
                    waiting += [(names, more) for more in ("", *needed.extras)]
    assert len(seen) > 100
    assert wrong == []


# ------------------------------------------------------------------------------------- make
def planned(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["make", "--dry-run", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_make_installs_torch_first_and_the_rest_under_constraints(clone: Path) -> None:
    installs = [line for line in planned(clone, "test").splitlines() if "pip --" in line]
    assert [line for line in installs if "torch" in line] == installs[1:2]
    assert installs[1].endswith(f"install --quiet torch=={pins()['torch']}")
    assert all("--constraint constraints.txt" in line for line in installs[2:])
    assert '--editable ".[dev]"' in installs[-1]


def test_make_installs_only_what_has_the_stated_hashes(clone: Path) -> None:
    (clone / "hashes.txt").touch()
    plan = planned(clone, "test", "LOCK=hashes.txt").splitlines()
    first, second = [line for line in plan if "--disable-pip-version-check" in line]
    assert first.endswith("install --quiet --require-hashes --requirement hashes.txt")
    assert "--no-deps --no-build-isolation --editable ." in second


def test_the_hashes_are_those_that_pip_reports(clone: Path) -> None:
    archive = {"archive_info": {"hashes": {"sha256": "ab12"}}}
    report = [
        {"metadata": {"name": "torch", "version": "2.1+cpu"}, "download_info": archive},
        {"metadata": {"name": "kglink", "version": "0.1"}, "download_info": {"dir_info": {}}},
    ]
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec \'{sys.executable}\' "$@"\n'
        f"echo '{json.dumps({'install': report})}'\n"
    )
    (clone / ".venv" / "bin" / "python").chmod(0o755)
    (clone / ".venv" / ".installed").touch()
    subprocess.run(["make", "hashes"], cwd=clone, check=True, capture_output=True)
    assert (clone / "hashes.txt").read_text() == "torch==2.1+cpu --hash=sha256:ab12\n"


@pytest.mark.parametrize("target", ["demo", "test", "lint", "docs"])
def test_make_installs_nothing_when_all_is_up_to_date(clone: Path, target: str) -> None:
    assert "pip" in planned(clone, target)
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".installed").touch()
    plan = planned(clone, target)
    assert plan
    assert "pip" not in plan
    assert "pip" in planned(clone, target, "--what-if", "constraints.txt")


def test_make_alone_lists_the_targets(clone: Path) -> None:
    done = subprocess.run(["make"], cwd=clone, capture_output=True, text=True, check=True)
    assert re.findall(r"make (\w+)", done.stdout)[:3] == ["help", "demo", "test"]


# ------------------------------------------------------------------------------- what is built
def build(tree: Path, out: Path, *kinds: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, *kinds, tree],
        cwd=out,
        check=True,
        capture_output=True,
    )
    (built,) = (path for path in out.iterdir() if path.suffix in (".whl", ".gz"))
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "--wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "--sdist")


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_of(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.endswith(("__pycache__", "_cache")) for part in path.parts)
    }


def taken_by(package: str) -> set[str]:
    if package not in TAKEN:
        return set()
    place, folder = TAKEN[package]
    return {f"{place}/{file}" for file in files_of(folder)}


@pytest.mark.slow
def test_the_wheel_holds_the_five_packages_and_nothing_else(wheel: Path) -> None:
    shipped = contents(wheel)
    metadata = f"kglink-{project()['version']}.dist-info"
    assert {name.partition("/")[0] for name in shipped} == {*PACKAGES, metadata}
    for name, folder in PACKAGES.items():
        prefix = f"{name}/"
        inside = {path.removeprefix(prefix) for path in shipped if path.startswith(prefix)}
        assert inside == files_of(folder) | taken_by(name)
        assert "py.typed" in inside
    assert f"{metadata}/licenses/LICENSE" in shipped


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        "kglink_cli/report_page/page.html",
        "kglink_plugins/exporters/page.html",
        "kglink_plugins/exporters/page.css",
        "kglink_plugins/exporters/page.js",
        "kglink_cli/demo_data/encyclopedia.jsonl",
        "kglink_cli/demo_data/lanternfall.jsonl",
        "kglink_cli/demo_data/documents.jsonl",
        "kglink_cli/demo_data/text.txt",
        "kglink_cli/plugin_template/project/pyproject.toml",
    ],
)
def test_the_wheel_holds_what_is_no_code(wheel: Path, data: str) -> None:
    assert contents(wheel)[data]


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel_and_holds_the_tests(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for name in ("Makefile", "constraints.txt", "mkdocs.yml", "tests/project/test_packaging.py"):
        assert (tree / name).read_bytes() == (ROOT / name).read_bytes()
    out = tmp_path / "again"
    out.mkdir()
    assert contents(build(tree, out, "--wheel")) == contents(wheel)


# --------------------------------------------------------------------------------- installed
@pytest.fixture(scope="module")
def from_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("from-wheel"))


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed("--editable", ROOT, tmp_path_factory.mktemp("editable"))


def installed(*what: str | Path) -> Environment:
    *arguments, folder = what
    environment = fresh_environment(Path(folder))
    environment.install(*arguments)
    environment.borrow_packages()
    return environment


def imported(environment: Environment, cwd: Path) -> tuple[list[str], dict[str, str]]:
    modules, folders = json.loads(environment.run("python", "-c", IMPORT_ALL, cwd=cwd).stdout)
    return modules, folders


@pytest.mark.slow
def test_every_module_of_an_installed_kglink_can_be_imported(
    from_wheel: Environment, editable: Environment, tmp_path: Path
) -> None:
    modules, folders = imported(from_wheel, tmp_path)
    assert folders == {name: str(from_wheel.packages / name) for name in PACKAGES}
    again, folders = imported(editable, tmp_path)
    assert folders == {name: str(folder) for name, folder in PACKAGES.items()}
    assert modules == again
    written = {
        path.relative_to(folder.parent).with_suffix("").as_posix()
        for folder in PACKAGES.values()
        for path in folder.rglob("*.py")
        if all((parent / "__init__.py").exists() for parent in package_parents(path, folder))
    }
    assert set(modules) == {name.removesuffix("/__init__").replace("/", ".") for name in written}


def package_parents(path: Path, folder: Path) -> list[Path]:
    return [parent for parent in path.parents if parent.is_relative_to(folder)]


@pytest.mark.slow
def test_the_command_is_the_same_from_a_wheel_and_from_the_tree(
    from_wheel: Environment, editable: Environment, tmp_path: Path
) -> None:
    version = project()["version"]
    outputs = []
    for environment in (from_wheel, editable):
        assert environment.run("kglink", "--version", cwd=tmp_path).stdout == f"kglink {version}\n"
        listing = environment.run("kglink", "plugins", "--json", cwd=tmp_path).stdout
        outputs.append(json.loads(listing))
    assert outputs[0] == outputs[1]
    assert "kglink/jsonl" in json.dumps(outputs[0])
