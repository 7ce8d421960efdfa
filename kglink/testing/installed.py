"""The tests that ``pytest --kglink-contracts`` adds: installed plugins against their contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kglink import testing
from kglink.errors import PluginError
from kglink.plugins import KINDS, Kind, Registry
from kglink.testing.contracts.base import PluginContract, check_names, run_check


def test_installed_plugin(
    kglink_contract: type[PluginContract], kglink_check: str, tmp_path: Path
) -> None:
    """A plugin of which nothing but the name is known passes a check of its kind's contract."""
    run_check(kglink_contract, kglink_check, tmp_path)


def contract_of(kind: Kind) -> type[PluginContract]:
    """The contract of a kind; loads what its checks need, torch for some."""
    contract: type[PluginContract] = getattr(testing, KINDS[kind].contract)
    return contract


def undescribed(kind: Kind, plugin: str) -> type[PluginContract]:
    """The contract for a registered plugin of which only the name is known."""
    contract = contract_of(kind)
    return type(f"Installed{contract.__name__}", (contract,), {"plugin": plugin, "generic": True})


def undescribed_checks(registry: Registry) -> Iterator[tuple[type[PluginContract], str]]:
    """Every check that needs no sample data, for every third-party plugin but KB adapters.

    A module that cannot be loaded is an error here: its author runs this.
    """
    if registry.left_out():
        raise PluginError("\n".join(registry.left_out()))
    for plugin in registry.plugins():
        if plugin.kind != "kb" and not plugin.provider.builtin:
            contract = undescribed(plugin.kind, plugin.name)
            for name in check_names(contract):
                yield contract, name
