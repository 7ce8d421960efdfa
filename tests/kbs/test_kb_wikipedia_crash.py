"""kill -9 at random moments of an ingest: the end is as if nothing had been."""

from __future__ import annotations

import bz2
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wiki_child
from kglink.workspace import init_workspace
from store_support import dump
from worlds import World, WorldSettings, write_mediawiki_xml

CHILD = Path(wiki_child.__file__)
PAGES = 3000
KILLS = 5


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "world.xml.bz2"
    with bz2.open(path, "wt", encoding="utf-8") as out:
        write_mediawiki_xml(out, World(WorldSettings(entities=PAGES)))
    return path


def start(workspace: Path, source: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(CHILD), str(workspace), str(source)])


def calm_run(folder: Path, source: Path) -> float:
    """Ingest undisturbed; how long that takes."""
    init_workspace(folder)
    began = time.monotonic()
    assert start(folder, source).wait() == 0
    return time.monotonic() - began


def kill_at(folder: Path, source: Path, seconds: float) -> bool:
    """Whether an ingest was killed after so long; it has ended by itself otherwise."""
    child = start(folder, source)
    try:
        assert child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return True
    return False


@pytest.mark.slow
def test_kills_end_in_the_state_of_an_undisturbed_run(export: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # noqa: T201 - to repeat a failure
    chance = random.Random(seed)
    seconds = calm_run(tmp_path / "calm", export)
    init_workspace(tmp_path / "killed")
    kills = 0
    # The first comes early: the calm run may have been slowed by other work.
    while kills < KILLS and kill_at(
        tmp_path / "killed", export, chance.uniform(0.3, seconds if kills else seconds / 4)
    ):
        kills += 1
    assert start(tmp_path / "killed", export).wait() == 0
    assert kills > 0
    killed, calm = (
        dump(f"sqlite:///{tmp_path / name / 'kglink.db'}") for name in ("killed", "calm")
    )
    assert killed == calm
    assert len(calm["entities"]) == PAGES
    assert len(calm["documents"]) == 200
    assert not (tmp_path / "killed" / ".scratch").exists()
