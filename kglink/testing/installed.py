"""The tests that ``pytest --kglink-contracts`` adds: installed plugins against their contracts."""

from __future__ import annotations

from pathlib import Path

from kglink.testing.contracts.base import PluginContract, run_check


def test_installed_plugin(
    kglink_contract: type[PluginContract], kglink_check: str, tmp_path: Path
) -> None:
    """A plugin of which nothing but the name is known passes a check of its kind's contract."""
    run_check(kglink_contract, kglink_check, tmp_path)
