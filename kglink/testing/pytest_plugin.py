"""What kglink adds to pytest: the option ``--kglink-contracts``, and nothing without it.

Every pytest of an environment with kglink loads this module, so it imports next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from _pytest.terminal import TerminalReporter

    from kglink.plugins import Plugin

CONTRACTS = "kglink.testing.contracts"
OPTION = "--kglink-contracts"
INSTALLED = Path(__file__).with_name("installed.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("kglink").addoption(
        OPTION,
        action="store_true",
        help="check the installed third-party plugins of kglink by the contract of their kind, "
        "and say which have no contract test in this run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let contracts show the values of failed asserts; with the option, collect their checks."""
    if CONTRACTS not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(CONTRACTS)
    # A worker of pytest-xdist gets the argument from its controller.
    if config.getoption(OPTION) and str(INSTALLED) not in config.args:
        config.args.append(str(INSTALLED))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each check of each installed plugin."""
    if "kglink_contract" not in metafunc.fixturenames:
        return
    from kglink.testing.contracts.base import installed_plugins
    from kglink.testing.installed import undescribed_checks

    cases = list(undescribed_checks(installed_plugins()))
    ids = [f"{contract.kind}-{contract.plugin}-{check}" for contract, check in cases]
    metafunc.parametrize(("kglink_contract", "kglink_check"), cases, ids=ids)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """With the option, say by what each third-party plugin was tested."""
    if not config.getoption(OPTION):
        return
    from kglink.testing.contracts.base import installed_plugins

    terminalreporter.section("kglink contracts")
    third_party = [
        plugin for plugin in installed_plugins().plugins() if not plugin.provider.builtin
    ]
    for plugin in third_party:
        terminalreporter.line(f"{plugin.title}: {_tested_by(plugin)}")
    if not third_party:
        terminalreporter.line("no third-party plugin of kglink is installed here")


def _tested_by(plugin: Plugin) -> str:
    tests = sorted(_contract_tests(plugin))
    if tests:
        return f"tested by {', '.join(tests)}"
    if plugin.kind == "kb":
        return "NOT TESTED: subclass kglink.testing.KBAdapterContract with a sample of its format"
    return "general checks only: subclass its contract in kglink.testing to check its values"


def _contract_tests(plugin: Plugin) -> Iterator[str]:
    """The subclasses of contracts that the test modules of this run define for a plugin."""
    from kglink.testing.contracts.base import PluginContract

    pending = PluginContract.__subclasses__()
    while pending:
        contract = pending.pop()
        pending.extend(contract.__subclasses__())
        own_test = not contract.generic and not contract.__module__.startswith(CONTRACTS)
        if own_test and (contract.kind, contract.plugin) == (plugin.kind, plugin.name):
            yield contract.__name__
