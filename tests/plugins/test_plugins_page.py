"""The plugins that docs/plugins.md shows register under every hook and hold to their contracts.

The walk through a KB adapter is run, command by command, with all other pages.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

from contract_cases import failing_checks
from kglink import testing
from kglink.plugins import (
    HOOKS,
    HOOKS_OF_GROUP,
    KINDS,
    Kind,
    PluginHooks,
    PluginModule,
    Provider,
    Registry,
)
from kglink.testing.contracts import base
from kglink.testing.contracts.base import PluginContract
from kglink.testing.installed import contract_of, undescribed

PAGE_PROVIDER = Provider("unknown", "?", "page", builtin=False)
PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The plugins of the page as one module, as if they were the installed ones.

    Its programs with an output are no plugins; the tests of the documentation run them.
    """
    module = ModuleType("page")
    for block, output in re.findall(r"```python\n(.*?)```(\n\n```text)?", PAGE, re.DOTALL):
        if not output:
            program = compile(block, "docs/plugins.md", "exec")
            exec(program, vars(module))  # noqa: S102 - our own page
    entries = [EntryPoint("page", "page", group) for group in HOOKS_OF_GROUP]
    monkeypatch.setattr("kglink.plugins.loading.entry_points", lambda group: entries)
    registry = Registry([PluginModule(PAGE_PROVIDER, lambda: module)])
    monkeypatch.setattr(base, "installed_plugins", lambda: registry)
    return module


def registry() -> Registry:
    return base.installed_plugins()


def test_the_page_implements_every_hook(page: ModuleType) -> None:
    shown = re.findall(r"^def (register_\w+)\(", PAGE, re.MULTILINE)
    assert sorted(shown) == sorted(HOOKS)
    assert set(registry().providers()[0].hooks) == set(HOOKS) - {"register_kbs"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "kb"])
def test_the_plugin_of_the_page_holds_to_its_contract(
    page: ModuleType, kind: Kind, tmp_path: Path
) -> None:
    (name,) = registry().names(kind)
    assert failing_checks(undescribed(kind, name), tmp_path) == {}


def test_the_command_of_the_page_works(page: ModuleType) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    PluginHooks(PAGE_PROVIDER, page, "kglink.commands").call("register_commands", app=app)
    assert CliRunner().invoke(app, ["menu"]).stdout == "soup\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_contract_is_on_the_page_with_all_that_can_be_described(kind: Kind) -> None:
    contract = contract_of(kind)
    assert contract.__name__ in testing.__all__
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{contract.__name__}`"))
    described = {
        name
        for one in contract.__mro__
        if issubclass(one, PluginContract) and one is not PluginContract
        for name in {*vars(one), *vars(one).get("__annotations__", {})}
        if not name.startswith(("_", "test_")) and name not in ("kind", "make", "sniff", "read")
    }
    assert set(re.findall(r"`(\w+)(?:\(\))?`", row)) - {contract.__name__} == described


def test_every_hook_of_a_kind_stands_in_the_order_of_the_listing() -> None:
    order = re.findall(r"^### `(\w+)\(", PAGE, re.MULTILINE)
    assert order == list(HOOKS)
