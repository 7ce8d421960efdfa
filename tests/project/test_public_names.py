"""The public names are sorted, complete, and cost nothing until they are used."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kglink
import kglink.testing
from kglink import errors, plugins, records

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", [kglink, kglink.testing], ids=lambda module: module.__name__)
def test_public_names_are_sorted_and_there(module: ModuleType) -> None:
    names = module.__all__
    assert names == sorted(names)
    assert set(names) <= set(dir(module))
    for name in names:
        if name not in ("Workspace", "__version__", "hookimpl"):  # these have a test of their own
            assert getattr(module, name).__name__ == name


def test_every_record_is_public() -> None:
    classes = {
        name
        for name, value in vars(records).items()
        if isinstance(value, type)
        and value.__module__ == records.__name__
        and (dataclasses.is_dataclass(value) or issubclass(value, tuple))
    }
    assert classes <= set(kglink.__all__)
    assert {"Entity", "EntityId", "LinkedDocument"} <= classes
    for name in classes:
        assert getattr(kglink, name) is getattr(records, name)


def test_the_names_are_those_of_their_rooms() -> None:
    assert kglink.hookimpl is plugins.hookimpl
    assert kglink.KglinkError is errors.KglinkError
    assert kglink.PluginSettings is plugins.PluginSettings


def test_workspace_comes_from_its_room() -> None:
    from kglink.workspace import Workspace

    assert kglink.Workspace is Workspace


def test_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"version of {name}")
    assert kglink.__version__ == "version of kglink"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'kglink' has no attribute 'Entiti'"):
        kglink.Entiti  # type: ignore[attr-defined] # noqa: B018 - this is the point
    with pytest.raises(AttributeError, match=r"'kglink\.testing' has no attribute 'Nothing'"):
        kglink.testing.Nothing  # type: ignore[attr-defined] # noqa: B018 - this is the point


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_kglink_loads_no_library_but_the_standard_one() -> None:
    loaded = loaded_by("import kglink")
    assert "kglink" in loaded
    assert {"torch", "faiss", "numpy", "pydantic", "pluggy", "kglink.records"}.isdisjoint(loaded)


def test_hookimpl_and_records_load_nothing_heavy() -> None:
    loaded = loaded_by("from kglink import Entity, KglinkError, hookimpl")
    assert {"pluggy", "kglink.records"} <= loaded
    assert {"torch", "faiss", "numpy", "pydantic"}.isdisjoint(loaded)


def test_the_pytest_plugin_loads_next_to_nothing() -> None:
    loaded = loaded_by("import kglink.testing.pytest_plugin")
    assert {"torch", "numpy", "pydantic", "pytest", "kglink.plugins.registry"}.isdisjoint(loaded)


def test_the_contract_of_kb_adapters_loads_no_torch() -> None:
    loaded = loaded_by("from kglink.testing import KBAdapterContract")
    assert {"torch", "numpy", "faiss"}.isdisjoint(loaded)
