"""`kglink plugins`: list the plugins of this environment, and begin one's own."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from kglink.errors import PluginError
from kglink.plugins import load_registry
from kglink.workspace.shapes import plugin_shapes
from kglink_cli.console import note, print_json, print_table
from kglink_cli.plugin_project import write_project

COLUMNS = ("kind", "name", "summary", "from", "extra")


def app() -> typer.Typer:
    """The commands under ``kglink plugins``."""
    plugins = typer.Typer(
        help="List plugins, or begin one of your own.", invoke_without_command=True
    )
    plugins.callback()(list_plugins)
    plugins.command("new")(new)
    return plugins


def list_plugins(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List all plugins with the distribution that brings each."""
    if context.invoked_subcommand:
        return
    rows = plugin_shapes(load_registry())
    if as_json:
        print_json(rows)
    else:
        print_table(
            COLUMNS,
            [
                (
                    row["kind"],
                    row["name"],
                    row["summary"],
                    f"{row['distribution']} {row['version']}",
                    row["extra"],
                )
                for row in rows
            ],
        )


def new(
    name: Annotated[str, typer.Argument(help="Its name: lower case, such as my-format.")],
    vendor: Annotated[
        str, typer.Option(help="Who makes it; users may write VENDOR/NAME.")
    ] = "local",
    folder: Annotated[
        Path | None, typer.Option("--dir", help="The folder to make; else kglink-NAME.")
    ] = None,
) -> None:
    """Write the project of a new KB adapter: it works, and its tests pass."""
    project = write_project(name, vendor, folder)
    note("made", f"{project}, which registers {vendor}/{name}")
    note("next", f"cd {project} && pip install -e '.[dev]' && pytest && kglink plugins")


def refuse_taken_commands(kglink: typer.Typer) -> None:
    """Raise where two commands of the app have one name: typer would silently take the last."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for command in kglink.registered_commands:
        if command.callback is not None:
            name = command.name or command.callback.__name__.replace("_", "-")
            modules[name].append(command.callback.__module__)
    for group in kglink.registered_groups:
        callback = group.typer_instance and group.typer_instance.registered_callback
        brought_by = callback.callback.__module__ if callback and callback.callback else "?"
        modules[str(group.name)].append(brought_by)
    for name, brought_by_all in modules.items():
        if len(brought_by_all) > 1:
            raise PluginError(
                f"the command {name!r} is registered twice: by {' and by '.join(brought_by_all)}",
                hint="Uninstall one of the two, or leave one out with KGLINK_PLUGINS.",
            )
