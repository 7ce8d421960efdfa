"""`kglink plugins`: list the plugins of this environment, and write the project of one's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from kglink.errors import UnknownNameError, UsageError
from kglink.files.atomic import atomic_folder
from kglink.plugins import Registry, find_modules, setting_keys
from kglink.plugins.hooks import KINDS, PluginKind
from kglink.plugins.loading import PluginModule, Provider, guarded, offered
from kglink.text.printable import printable_line
from kglink_cli import shared
from kglink_cli.console import note, print_json, print_table

COLUMNS = ("kind", "name", "summary", "from", "extra")


def list_plugins(context: typer.Context, as_json: shared.AsJson = False) -> None:
    """List all plugins with the distribution that brings each."""
    if context.invoked_subcommand:
        return
    from kglink.plugins import load_registry

    rows = list(_rows(load_registry()))
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            row["from"] = f"{row['distribution']} {row['version']}"
        print_table(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def _rows(registry: Registry) -> Iterator[dict[str, Any]]:
    for plugin in registry.plugins():
        yield {
            "kind": plugin.kind,
            "name": plugin.name,
            "summary": plugin.summary,
            "extra": plugin.extra,
            "settings": setting_keys(plugin.settings),
            **_origin(plugin.provider),
        }
    for group in ("kglink.recipes", "kglink.commands"):
        for module in find_modules(group):
            kind, name = group.removeprefix("kglink."), module.provider.module
            row = {"kind": kind, "name": name, "summary": "", "extra": "", "settings": []}
            yield row | _origin(module.provider)


def _origin(provider: Provider) -> dict[str, Any]:
    names = ("module", "distribution", "version", "builtin")
    return {name: getattr(provider, name) for name in names}


def new(
    name: str = Argument(..., help="Name of the plugin, in lower case, such as my-format."),
    vendor: str = Option("local", help="Its maker: the plugin is VENDOR/NAME."),
    kind: str = Option("kb", help=f"What it is: {', '.join(KINDS)}."),
    folder: Path | None = Option(None, "--dir", help="The folder to make; by default kglink-NAME."),
) -> None:
    """Write the project of a new plugin: it works, and its tests pass."""
    project = write_project(name, vendor, kind, folder)
    note("made", f"{project}, which registers {vendor}/{name}")
    note(
        "next",
        f"cd {shlex.quote(str(project))} && pip install -e '.[dev]' && pytest && kglink plugins",
    )


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
        added = offered("kglink.commands", "command", _commands_of, self.commands)
        for command in added.values():
            command.rich_help_panel = command.rich_help_panel or "From plugins"
        self.commands.update(added)


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
    app = typer.Typer()
    module.hooks("kglink.commands").call("register_commands", app=app)
    with guarded(module.provider, f"the commands of {module.provider} cannot be read"):
        commands = typer.main.get_group(app).commands
    for command in commands.values():
        command.invoke = partial(_invoked, module.provider, command.invoke)  # type: ignore[method-assign]  # of this one
    return commands


def _invoked(provider: Provider, invoke: Callable[[Any], Any], ctx: Any) -> Any:
    """Run a command of a plugin; its errors note whose it is."""
    try:
        return invoke(ctx)
    except Exception as error:
        error.add_note(f"of {provider}")
        raise


#: The templates of a wheel lie in this package; those of a clone in the folder plugins/template.
PACKAGED = Path(__file__).parent / "plugin_template"
IN_CLONE = Path(__file__).parents[2] / "plugins" / "template"

NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
OWN_VENDOR = "kglink"
#: Their packages would carry the names of ours.
OWN_PACKAGES = frozenset({"cli", "kbs", "plugins"})


def write_project(name: str, vendor: str, kind: str = "kb", folder: Path | None = None) -> Path:
    """Write a working project that registers ``vendor/name``; returns its new folder."""
    known = next((one for one in KINDS.values() if one.name == kind), None)
    if known is None:
        raise UnknownNameError("kind of plugin", kind, KINDS)
    _check("plugin", name, OWN_PACKAGES)
    _check("vendor", vendor, frozenset({OWN_VENDOR}))
    target = (folder or Path(distribution_of(name))).absolute()
    if target.exists():
        raise UsageError(f"{target} exists already", hint="Name another folder with --dir.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as project:
        _fill(PACKAGED if PACKAGED.is_dir() else IN_CLONE, project, known, name, vendor)
    return target


def distribution_of(name: str) -> str:
    """The distribution, and by default the folder, of the plugin ``name``."""
    return f"kglink-{name.replace('_', '-')}"


def _check(what: str, name: str, taken: frozenset[str]) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a {what}",
            hint="Lower-case letters and digits, with '-' or '_' between them: my-format. "
            "The vendor is given by --vendor.",
        )
    if name in taken:
        raise UsageError(f"the {what} name {name!r} is kept for kglink itself")


def _fill(templates: Path, project: Path, kind: PluginKind, name: str, vendor: str) -> None:
    """Write what all projects have, and the plugin of a kind with its tests."""
    package = f"kglink_{name.replace('-', '_')}"
    sources = {
        f"{package}/plugin.py": templates / kind.name / "plugin.py",
        "tests/test_plugin.py": templates / kind.name / "test_plugin.py",
        f"{package}/__init__.py": templates / "project" / "kglink_myplugin" / "__init__.py",
        "README.md": templates / "project" / "README.md",
        "pyproject.toml": templates / "project" / "pyproject.toml",
    }
    own_names = {
        "kglink-myplugin": distribution_of(name),
        "kglink_myplugin": package,
        "myvendor/myplugin": f"{vendor}/{name}",
        "myplugin": name,
        "MYKIND": kind.word,
    }
    for target, source in sources.items():
        text = re.sub(
            "|".join(own_names),
            lambda match: own_names[match[0]],
            source.read_text(encoding="utf-8"),
        )
        (project / target).parent.mkdir(parents=True, exist_ok=True)
        (project / target).write_text(text, encoding="utf-8")
