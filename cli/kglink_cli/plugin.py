"""The commands of kglink."""

from __future__ import annotations

from collections.abc import Callable

import typer

from kglink_cli import (
    add_kb,
    build,
    candidates,
    demo,
    discover,
    distill,
    doctor,
    evaluate,
    explain,
    export,
    finetune,
    index,
    init,
    kbs,
    link,
    memory,
    model,
    overlap,
    recipes,
    report,
    resolve,
    runs,
    search,
    settings,
    show,
    spaces,
    trust,
)
from kglink_cli.examples import add_examples
from kglink_cli.plugins_command import app as plugins_app

#: Commands that Python has another name for.
_NAMES = {"add_kb": "add-kb", "evaluate": "eval"}
#: The commands of `kglink --help` in groups, in the order in which people meet them.
_BEGIN = "Add knowledge bases"
_LINK = "Link texts"
_LEARN = "Measure, and learn from annotated texts"
_TRAIN = "Train models"
_KEEP = "Look after spaces and the workspace"


def add_commands(app: typer.Typer) -> None:
    """Add every command, in the order of the journey."""
    _add(app, _BEGIN, demo.demo, init.init, add_kb.add_kb)
    app.add_typer(kbs.app(), name="kbs", rich_help_panel=_BEGIN)
    _add(app, _BEGIN, show.show)
    app.add_typer(overlap.app(), name="overlap", rich_help_panel=_BEGIN)
    _add(app, _LINK, link.link, resolve.resolve, search.search, explain.explain)
    _add(app, _LINK, discover.discover, discover.promote)
    _add(app, _LEARN, evaluate.evaluate, memory.learn, memory.forget, memory.fit)
    _add(app, _LEARN, candidates.candidates)
    _add(app, _TRAIN, finetune.finetune, recipes.recipes, runs.runs, report.report)
    _add(app, _TRAIN, distill.distill)
    app.add_typer(model.app(), name="model", rich_help_panel=_TRAIN)
    _add(app, _KEEP, build.build, spaces.spaces, index.index, export.export)
    _add(app, _KEEP, settings.settings, trust.trust, doctor.doctor)
    app.add_typer(plugins_app(), name="plugins", rich_help_panel=_KEEP)
    add_examples(app)


def _add(app: typer.Typer, panel: str, *commands: Callable[..., None]) -> None:
    for command in commands:
        name = _NAMES.get(command.__name__, command.__name__)
        app.command(name, rich_help_panel=panel)(command)
