"""A server on a copy of the demo; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Server, serving


@pytest.fixture(scope="module")
def server(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve") / "workspace"
    shutil.copytree(demo_master, folder)
    with serving(folder, "--body-mb", "0.5", "--seconds", "60", "--log") as running:
        assert running.process.stderr
        log = threading.Thread(target=running.process.stderr.read)  # a full pipe would stop it
        log.start()
        yield running
    log.join()
