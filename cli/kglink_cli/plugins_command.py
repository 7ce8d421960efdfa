"""`kglink plugins`: list the plugins of this environment, and begin one's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kglink.errors import KglinkError, PluginError
from kglink.plugins.kinds import KINDS
from kglink.plugins.loading import PluginModule, PluginWarning, find_modules, guarded
from kglink.text.printable import printable_line
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
    from kglink.plugins import load_registry

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
    kind: Annotated[str, typer.Option(help=f"What it is: {', '.join(KINDS)}.")] = "kb",
    folder: Annotated[
        Path | None, typer.Option("--dir", help="The folder to make; else kglink-NAME.")
    ] = None,
) -> None:
    """Write the project of a new plugin: it works, and its tests pass."""
    project = write_project(name, vendor, kind, folder)
    note("made", f"{project}, which registers {vendor}/{name}")
    note("next", f"cd {project} && pip install -e '.[dev]' && pytest && kglink plugins")


class CommandGroup(TyperGroup):
    """The commands of kglink; those of third parties are imported when one is asked for.

    A third-party module that fails is left out, and a `PluginWarning` says why.
    """

    _complete = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        self._add_third_parties()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name."""
        if cmd_name not in self.commands:
            self._add_third_parties()
        return super().get_command(ctx, cmd_name)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options before the command."""
        with _printable_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's own options, and run it."""
        with _printable_errors():
            return super().invoke(ctx)

    def _add_third_parties(self) -> None:
        if self._complete:
            return
        self._complete = True
        brought_by = dict.fromkeys(self.commands, "kglink")
        for module in find_modules("kglink.commands"):
            try:
                added = _commands_of(module)
                for name in added:
                    if name in brought_by:
                        raise PluginError(
                            f"the command {name!r} is registered twice: by {brought_by[name]} "
                            f"and by {module.provider}",
                            hint=module.provider.remedy,
                        )
            except KglinkError as error:
                told = f"{module.provider} is left out: {error.message}. {error.hint}"
                warnings.warn(told, PluginWarning, stacklevel=2)
            else:
                for command in added.values():
                    command.rich_help_panel = command.rich_help_panel or "From plugins"
                self.commands.update(added)
                brought_by |= dict.fromkeys(added, str(module.provider))


@contextmanager
def _printable_errors() -> Iterator[None]:
    """What typer says of words that it does not know is no command to a terminal."""
    try:
        yield
    except Exception as error:
        if isinstance(error, typer.BadParameter.__mro__[2]):  # the base of what typer itself says
            error.message = printable_line(error.message)  # type: ignore[attr-defined]  # typer vendors the class without types
        raise


def _commands_of(module: PluginModule) -> Mapping[str, Any]:
    """The commands that a third-party module adds."""
    app = typer.Typer()
    hooks = module.hooks("kglink.commands")
    if "register_commands" in hooks.provider.hooks:
        hooks.call("register_commands", app=app)
    with guarded(module.provider, f"the commands of {module.provider} cannot be read"):
        return typer.main.get_group(app).commands
