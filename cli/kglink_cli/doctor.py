"""`kglink doctor`: is this machine, this installation and this workspace well?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kglink_cli.console import print_json, print_table, say
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.workspace.doctor import Check

_SIGNS = {"ok": "ok", "note": "note", "bad": "BAD"}


def doctor(
    context: typer.Context,
    show_licences: Annotated[
        bool, typer.Option("--licences", help="List the licence of every model, KB and dataset.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check versions, device, model, store and spaces, and say how to mend what is not well."""
    from kglink.workspace.doctor import check

    session = session_of(context)
    if show_licences:
        with session.open() as workspace:
            rows = workspace.licences()
        if as_json:
            print_json([row._asdict() for row in rows])
        else:
            print_table(("what", "name", "licence", "source"), rows)
        return
    checks = check(session.workspace)
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        _print(checks)
    if any(check.state == "bad" for check in checks):
        raise typer.Exit(1)


def _print(checks: list[Check]) -> None:
    for check in checks:
        say(f"{_SIGNS[check.state]:5}{check.what:12}{check.found}")
        if check.fix:
            say(f"{'':17}{check.fix}")
