"""`kglink kbs`: list, show and remove KBs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kglink.text.printable import printable
from kglink_cli.console import counted, note, print_json, print_table, say
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.store import KBInfo

COLUMNS = (
    "name", "entities", "described", "aliases", "documents", "mentions", "mappings", "rev",
    "adapter",
)  # fmt: skip


def app() -> typer.Typer:
    """The commands under ``kglink kbs``."""
    kbs = typer.Typer(help="List, show and remove KBs.", invoke_without_command=True)
    kbs.callback()(list_kbs)
    kbs.command("show")(show)
    kbs.command("remove")(remove)
    return kbs


def list_kbs(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the KBs of this workspace."""
    if context.invoked_subcommand:
        return
    with session_of(context).open() as workspace:
        infos = workspace.kbs()
    if as_json:
        print_json([info.as_json() for info in infos])
    elif infos:
        print_table(COLUMNS, [_row(info) for info in infos], right=range(1, 8))
    else:
        note("empty", "no KB yet: kglink add-kb NAME SOURCE")


def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The KB.")],
    examples: Annotated[int, typer.Option(help="How many entities to show.", min=0)] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one KB: what it holds, where it comes from, a few entities."""
    from kglink.workspace.kept_options import written

    with session_of(context).open() as workspace:
        info = workspace.kb(name)
        entities = workspace.entities(name, limit=examples)
    if as_json:
        print_json(info.as_json())
        return
    for key, value in info.as_json().items():
        say(f"{key:17} {written(info.options) if key == 'options' else value}")
    for entity in entities:
        also = ", ".join(alias.surface for alias in entity.aliases if alias.kind != "title")
        say("", f"{name}:{entity.key}  {entity.title}")
        if also:
            say(f"  also: {also}")
        if entity.description:
            say(f"  {printable(entity.description)}")


def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The KB.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a KB with its documents and overlaps; spaces keep it until they are built again."""
    with session_of(context).open() as workspace:
        info = workspace.kb(name)
        held = f"{counted(info.entities, 'entity')} and {counted(info.documents, 'document')}"
        if not yes:
            typer.confirm(f"Remove {name} with {held}?", abort=True, err=True)
        workspace.remove_kb(name)
        gone = workspace.store.count_gone_golds(name)
    rest = "; `kglink build` takes it out of the space" if info.entities else ""
    note("removed", f"{name} with {held}{rest}")
    tell_of_gone(gone)


def tell_of_gone(golds: int) -> None:
    """Tell of documents whose mentions meant entities that were removed."""
    if golds:
        what = f"{counted(golds, 'mention')} of documents meant what was removed"
        note("gold", f"{what}: nothing learns from it or is judged by it")


def _row(info: KBInfo) -> list[object]:
    unfinished = info.updating or not info.complete
    name = f"{info.name} (unfinished)" if unfinished else info.name
    return [
        name, info.entities, info.with_description, info.aliases, info.documents, info.mentions,
        info.mappings, info.revision, info.adapter,
    ]  # fmt: skip
