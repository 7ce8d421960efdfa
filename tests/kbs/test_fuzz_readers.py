"""What `benchmarks/fuzz.py` fuzzes: every adapter, with settings that it takes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from kglink.errors import UsageError
from kglink.plugins import load_registry

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fuzzed() -> dict[str, Any]:
    module = runpy.run_path(str(ROOT / "benchmarks" / "fuzz_readers.py"))
    return {name: reader for name, reader in module["READERS"].items() if name != module["CLEANER"]}


def test_every_adapter_is_fuzzed(fuzzed: dict[str, Any]) -> None:
    names = {name.removeprefix("kglink/") for name in load_registry(only="builtin").names("kb")}
    assert fuzzed.keys() == names


def test_the_settings_are_those_of_the_adapters(fuzzed: dict[str, Any]) -> None:
    registry = load_registry(only="builtin")
    for name, reader in fuzzed.items():
        assert all(registry.settings_for("kb", name, raw) for raw in reader.settings)
    with pytest.raises(UsageError):
        registry.settings_for("kb", "jsonl", {"no such": 1})


def test_the_seeds_are_there(fuzzed: dict[str, Any]) -> None:
    for reader in fuzzed.values():
        assert (ROOT / "tests" / "kbs" / f"{reader.tests}.py").is_file()
        assert bool(reader.files) == bool(reader.parts)
