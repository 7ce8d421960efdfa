"""Installed distributions made up for a test: a module and its metadata in a folder."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEADER = "import kglink\nfrom kglink.hookspecs import hookimpl\n"


class FakeEnvironment:
    """A folder of ``sys.path`` that looks like a site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def install(
        self, distribution: str, version: str, code: str, *, module: str = "", entry: str = "main"
    ) -> str:
        """Write a module and its distribution; returns the module's name."""
        module = module or distribution.replace("-", "_") + "_plugin"
        (self.folder / f"{module}.py").write_text(HEADER + textwrap.dedent(code))
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        with (info / "entry_points.txt").open("a") as entries:
            entries.write(f"[kglink]\n{entry} = {module}\n")
        self.modules.add(module)
        importlib.invalidate_caches()
        return module


@contextmanager
def fake_environment(folder: Path) -> Iterator[FakeEnvironment]:
    """A fake environment at the front of ``sys.path``, taken away again."""
    environment = FakeEnvironment(folder)
    sys.path.insert(0, str(folder))
    try:
        yield environment
    finally:
        sys.path.remove(str(folder))
        for module in environment.modules:
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
