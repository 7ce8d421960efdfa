"""What several test files share."""

from __future__ import annotations

import functools
import gc
import io
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoints, PathDistribution
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

# Before torch is loaded: cores that share the small products of tiny models only wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from kglink.workspace import Workspace, init_workspace
from kglink_cli.main import run

ROOT = Path(__file__).resolve().parent.parent

# How long one example takes is the machine's affair: time is tested where it is meant.
settings.register_profile("kglink", deadline=None)
settings.load_profile("kglink")


def pytest_configure() -> None:
    """Read once what every command reads, and what stays: signatures, installed entry points."""
    read = vars(Distribution)["entry_points"].fget
    installed = functools.cache(lambda path: read(PathDistribution(path)))

    def entry_points(one: Distribution) -> EntryPoints:
        path = getattr(one, "_path", None)
        stays = isinstance(path, Path) and path.is_relative_to(sys.prefix)
        found: EntryPoints = installed(path) if stays else read(one)
        return found

    PathDistribution.entry_points = property(entry_points)  # type: ignore[assignment]  # typed without a setter
    signature = typer.main.get_params_from_function  # type: ignore[attr-defined]  # not exported
    typer.main.get_params_from_function = functools.cache(signature)  # type: ignore[attr-defined]  # not exported


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What imports make stays to the end: no test's search for unused cycles goes through it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep nothing in the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def realdata() -> Path:
    """The folder of the public data files: ``KGLINK_REALDATA``, or ``shared/data`` beside us."""
    folder = Path(os.environ.get("KGLINK_REALDATA") or ROOT.parent / "shared" / "data")
    if not (folder / "disease").is_dir():
        pytest.skip(f"no public data files in {folder}; KGLINK_REALDATA names their folder")
    return folder


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


Kglink = Callable[..., Ran]


@pytest.fixture
def kglink(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kglink:
    """Run a command line in this process: ``kglink("link", "-", stdin="text")``."""

    def run_command(*arguments: str | Path, stdin: str | bytes = "", code: int = 0) -> Ran:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["kglink", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        capsys.readouterr()
        ended = 0
        try:
            run()
        except SystemExit as stop:
            ended = int(stop.code or 0)
        ran = Ran(ended, *capsys.readouterr())
        assert ran.code == code, ran
        assert "Traceback" not in ran.err
        return ran

    return run_command


@pytest.fixture(scope="session")
def demo_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's KBs in a built workspace; read it, do not change it."""
    folder = init_workspace(tmp_path_factory.mktemp("demo"))
    data = ROOT / "cli" / "kglink_cli" / "demo_data"
    with Workspace.open(folder) as workspace:
        for kb in ("encyclopedia", "lanternfall"):
            workspace.add_kb(kb, data / f"{kb}.jsonl", licence="CC0-1.0")
        links_to = ("encyclopedia", "lanternfall")
        workspace.add_kb("docs", data / "documents.jsonl", links_to=links_to)
        workspace.find_overlaps()
        workspace.build()
    return folder


@pytest.fixture
def demo(demo_master: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo workspace as the one that commands find; read it, do not change it."""
    monkeypatch.setenv("KGLINK_WORKSPACE", str(demo_master))
    return demo_master


@pytest.fixture
def demo_copy(demo_master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the demo workspace that may be changed."""
    folder = tmp_path / "workspace"
    shutil.copytree(demo_master, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    return folder
