"""The commands of kglink."""

from __future__ import annotations

import typer

from kglink_cli import (
    add_kb,
    build,
    candidates,
    convert,
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
    overlap,
    recipes,
    report,
    reproduce,
    runs,
    settings,
    show,
    spaces,
    trust,
)
from kglink_cli.examples import add_examples
from kglink_cli.plugins_command import app as plugins_app


def add_commands(app: typer.Typer) -> None:
    """Add every command, in the order of the journey."""
    app.command("demo")(demo.demo)
    app.command("init")(init.init)
    app.command("add-kb")(add_kb.add_kb)
    app.add_typer(kbs.app(), name="kbs")
    app.command("show")(show.show)
    app.add_typer(overlap.app(), name="overlap")
    app.command("finetune")(finetune.finetune)
    app.command("recipes")(recipes.recipes)
    app.command("convert")(convert.convert)
    app.command("runs")(runs.runs)
    app.command("report")(report.report)
    app.command("reproduce")(reproduce.reproduce)
    app.command("learn")(memory.learn)
    app.command("forget")(memory.forget)
    app.command("fit")(memory.fit)
    app.command("build")(build.build)
    app.command("spaces")(spaces.spaces)
    app.command("index")(index.index)
    app.command("distill")(distill.distill)
    # More sources than one are told in our words, and what to do.
    app.command("link")(link.link)
    app.command("discover")(discover.discover)
    app.command("promote")(discover.promote)
    app.command("explain")(explain.explain)
    app.command("export")(export.export)
    app.command("search")(link.search)
    app.command("candidates")(candidates.candidates)
    app.command("eval")(evaluate.evaluate)
    app.command("settings")(settings.settings)
    app.command("trust")(trust.trust)
    app.command("doctor")(doctor.doctor)
    app.add_typer(plugins_app(), name="plugins")
    add_examples(app)
