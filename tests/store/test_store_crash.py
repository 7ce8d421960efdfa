"""kill -9 at random moments: the store opens every time, and the end is as if nothing had been."""

from __future__ import annotations

import hashlib
import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

import store_child
from kglink.store import Store
from store_support import dump

CHILD = Path(store_child.__file__)
ENTITIES = 200_000
KILLS = 20


def start(url: str, version: int) -> subprocess.Popen[bytes]:
    """A process that ingests a version of the KB."""
    command = [sys.executable, str(CHILD), url, "kb", str(ENTITIES), "--version", str(version)]
    return subprocess.Popen(command)


def ended_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process came to its end by itself; it is killed otherwise."""
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False
    assert code == 0
    return True


def assert_healthy(url: str) -> None:
    """The store opens, its pages and references are whole, and the KB says what it is."""
    with Store.open(url) as store:
        unfinished = [info.name for info in store.kbs() if not info.complete]
        assert len(store.check()) == len(unfinished)
        for info in store.kbs():
            first = next(store.entities(info.name), None)
            assert (first is None) == (info.entities == 0)


def digest(url: str) -> dict[str, str]:
    """A hash of each table."""
    return {
        table: hashlib.sha256(repr(rows).encode()).hexdigest() for table, rows in dump(url).items()
    }


@pytest.mark.slow
def test_twenty_kills_end_in_the_state_of_an_undisturbed_run(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # noqa: T201 - to repeat a failure
    chance = random.Random(seed)
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    kills = 0
    # Each version after the first is an update: it adds, changes and removes.
    for version in itertools.count(1):
        while kills < KILLS and not ended_within(start(url, version), chance.uniform(0.1, 2.0)):
            kills += 1
            assert_healthy(url)
        if kills == KILLS:
            assert ended_within(start(url, version), 120)
            break
    assert_healthy(url)
    calm = f"sqlite:///{tmp_path / 'calm.db'}"
    for step in range(1, version + 1):
        assert ended_within(start(calm, step), 120)
    assert digest(url) == digest(calm)
    with Store.open(url) as store:
        assert store.kb("kb").entities == ENTITIES
        assert store.kb("kb").revision == version
