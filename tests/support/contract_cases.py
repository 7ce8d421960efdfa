"""Running a contract on a class that is not registered, and seeing which checks fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kglink.testing import PluginContract
from kglink.testing.contracts.base import check_names, run_check


def contract_for(
    contract: type[PluginContract], make: Callable[..., object], **described: object
) -> type[PluginContract]:
    """``contract`` for what ``make`` makes, described as an author would."""
    members = {"make": lambda _, *arguments: make(*arguments), **described}
    return type("Case", (contract,), members)


def failing_checks(contract: type[PluginContract], folder: Path) -> dict[str, Exception]:
    """Every check of a contract that fails, with what it raised."""
    failures = {}
    for name in check_names(contract):
        failure = failure_of(contract, name, folder / name)
        if failure is not None:
            failures[name] = failure
    return failures


def failure_of(contract: type[PluginContract], check: str, folder: Path) -> Exception | None:
    """What one check raises; ``folder`` is made for it."""
    folder.mkdir(parents=True)
    try:
        run_check(contract, check, folder)
    except Exception as error:  # noqa: BLE001 - a wrong plugin may raise anything
        return error
    return None


def mutant_id(case: tuple[type[PluginContract], str]) -> str:
    """A test id that says which class is wrong and which check finds out."""
    contract, check = case
    made = contract.__dict__["make"].__closure__[0].cell_contents
    return f"{made.__name__}-{check}"
