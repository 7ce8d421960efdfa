"""Installed distributions made up for a test: a module and its metadata in a folder."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

HEADER = "import kglink\nfrom kglink.plugins import hookimpl\n"
BUILTIN = """
    from kglink.plugins import PluginSettings

    class Columns(PluginSettings):
        delimiter: str = ","
        columns: tuple[str, ...] = ()
        rename: dict[str, str] = {}
        skip: int = 0

    @hookimpl
    def register_kbs(register):
        register("kglink/jsonl", lambda settings: ("jsonl", settings), summary="JSON lines",
                 sniff=lambda head: 0.9 if head.head.startswith(b"{") else 0.0)
        register("kglink/csv", lambda settings: ("csv", settings), settings=Columns,
                 summary="Columns", sniff=lambda head: 0.4)
"""
ACME = """
    @hookimpl
    def register_kbs(register):
        register("acme/wiki", lambda settings: "wiki", summary="A wiki")
"""


class FakeEnvironment:
    """A folder of ``sys.path`` that looks like a site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        distribution: str,
        version: str,
        code: str,
        *,
        module: str = "",
        entry: str = "main",
        group: str = "kglink",
    ) -> str:
        """Write a module and its distribution; returns the module's name."""
        module = module or distribution.replace("-", "_") + "_plugin"
        (self.folder / f"{module}.py").write_text(HEADER + textwrap.dedent(code))
        self.describe(distribution, version, module, entry=entry, group=group)
        sys.modules.pop(module, None)  # another test may have used the name
        importlib.invalidate_caches()
        return module

    def describe(
        self,
        distribution: str,
        version: str,
        module: str,
        *,
        entry: str = "main",
        group: str = "kglink",
    ) -> None:
        """Write the metadata of a distribution whose module is there."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        with (info / "entry_points.txt").open("a") as entries:
            entries.write(f"[{group}]\n{entry} = {module}\n")


def fake_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, builtin: str = BUILTIN
) -> FakeEnvironment:
    """An environment of our own plugins alone, at the front of ``sys.path`` during a test."""
    monkeypatch.delenv("KGLINK_PLUGINS", raising=False)
    monkeypatch.delenv("KGLINK_TRACE_HOOKS", raising=False)
    monkeypatch.syspath_prepend(folder)
    environment = FakeEnvironment(folder)
    environment.install("kglink", "9.9", builtin, module="fake_builtin")
    return environment
