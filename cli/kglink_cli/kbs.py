"""`kglink add-kb`, `plan`, `kbs` and `export`: KBs read, listed, removed and written."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.errors import KglinkError, ShrinkError, UsageError
from kglink.records import EntityId, Progress
from kglink.text.printable import printable, printable_line
from kglink.workspace import find_workspace, init_workspace
from kglink.workspace.kept_options import read_random_split
from kglink.workspace.outputs import PACKED
from kglink_cli import shared
from kglink_cli.console import (
    Reached,
    counted,
    display,
    note,
    print_json,
    print_table,
    progress,
    say,
)
from kglink_cli.session import (
    open_workspace,
    parse_options,
    ray_workers,
    refuse_ignored,
    split_names,
)

if TYPE_CHECKING:
    from kglink.sources import Problems
    from kglink.workspace import AddedKB, Workspace
    from kglink.workspace.plan import Plan

EXAMPLES = 3
#: Names of tables, which `kglink export` does not write.
_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
#: Reasons for which records were skipped that are shown.
REASONS = 10


def add_kb(
    context: typer.Context,
    name: str = Argument(..., help="The KB's name: a-z, 0-9, - and _."),
    source: str = Argument(..., help="A file, a folder, or - for standard input."),
    adapter: shared.Adapter = "",
    links_to: list[str] | None = Option(None, help="KBs that its annotations refer to: a,b"),
    split: str = Option("", help="Split of its documents: train, dev or test."),
    split_random: str = Option(
        "",
        help="Numbers of mentions to draw for train, dev and test, such as 6360,640,1334; the "
        "rest is left out.",
    ),
    split_seed: int | None = Option(None, help="Seed of --split-random; by default 0.", min=0),
    resolve: str = Option(
        "",
        help="How annotations name entities: key, title (redirects included), or xref (codes, "
        "looked up through cross-references); by default as the format does.",
    ),
    options: shared.AdapterOptions = None,
    licence: str = Option("", help="The source's licence, for `doctor --licences`."),
    allow_shrink: bool = Option(
        False, "--allow-shrink", help="Let an update remove more than half of the entities."
    ),
    merge: bool = Option(False, "--merge", help="Keep entities that the source does not have."),
    defaults: bool = Option(False, "--defaults", help="Ignore the options of the last time."),
    on_error: shared.OnError = None,
    encoding: shared.Encoding = None,
    engine: shared.Engine = "processes",
    workers: shared.EngineWorkers = None,
    as_json: bool = Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Read a source into a KB: entities, annotated documents, or both.

    If the KB exists, this is an update: entities are added, changed, and removed if the source
    does not have them any more (--merge keeps them). Options are kept with the KB for later
    updates. After an interruption the same command goes on where it stopped.
    """
    flags = {"ingest.on_error": on_error, "ingest.encoding": encoding}
    on_ray = ray_workers(engine, workers, "Of a dump of MediaWiki: --set workers=N.")
    if split_random:
        refuse_ignored("beside --split-random", {"--split": split})
    else:
        refuse_ignored("without --split-random", {"--split-seed": split_seed is not None})
    with open_workspace(context, flags, create=True) as workspace:
        opened = workspace.open_source(source)
        began = time.monotonic()
        records = 0

        def take(written: Progress) -> None:
            nonlocal records
            records = written.done

        def reached() -> Reached:
            step = opened.progress
            return Reached(step.name, step.done, step.total, records, step.unit)

        read = partial(
            workspace.add_kb,
            name,
            opened,
            adapter=adapter,
            options=parse_options(options),
            links_to=split_names(links_to),
            split=split,
            split_random=read_random_split(split_random, split_seed or 0) if split_random else None,
            resolve=resolve,
            licence=licence,
            merge=merge,
            defaults=defaults,
            ray_workers=on_ray,
            progress=take,
        )
        try:
            with display(reached):
                added = read(allow_shrink=allow_shrink, on_note=note)
        except ShrinkError as error:
            if source == "-" or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            typer.confirm(f"{printable_line(error.message)}. Shall it?", abort=True, err=True)
            with display(reached):
                added = read(allow_shrink=True)
        if as_json:
            print_json(added.as_json())
        else:
            _print_summary(added, time.monotonic() - began)
        if added.summary.entity_tally.removed:
            _tell_of_gone(workspace, name)
        _tell_of_older(workspace, name, added.summary.revision)


def _print_summary(added: AddedKB, seconds: float) -> None:
    summary = added.summary
    if summary.resumed_from:
        note("resumed", f"after {counted(summary.resumed_from, 'record')} of an interrupted run")
    parts = [f"{summary.kb} {summary}"]
    if summary.entity_tally.seen:
        parts += [
            f"{summary.with_description:,} with description",
            counted(summary.aliases, "alias"),
        ]
    if summary.documents:
        parts += [counted(summary.documents, "document"), counted(summary.mentions, "mention")]
    if summary.mapping_tally.seen:
        parts.append(counted(summary.mapping_tally.seen, "mapping"))
    say("   ".join([*parts, f"{seconds:.1f} s"]))
    if added.resolve == "xref" and summary.golds:  # say in which KBs codes were found
        counts = ", ".join(f"{count:,} in {kb}" for kb, count in summary.gold_found.items())
        note("codes", f"of {counted(summary.golds, 'code')} found: {counts}")
        if empty := ", ".join(kb for kb, count in summary.gold_found.items() if not count):
            why = "these documents do not say what is missing there"
            note("codes", f"none leads to {empty}: {why}")
    if summary.gold_unresolved:
        few = summary.unresolved_examples
        more = ", ..." if len(few) < summary.gold_unresolved else ""
        note(
            "gold",
            f"{summary.gold_unresolved:,} not found in the linked KBs ({', '.join(few)}{more}); "
            "--links-to says in which KBs entities are looked for, --resolve by what: key, xref "
            "or title",
        )
    if summary.mappings_unresolved:
        note("mappings", f"{summary.mappings_unresolved:,} join no entities of two linked KBs")
    _print_problems(added.problems)


def _print_problems(problems: Problems) -> None:
    for what, count in problems.passed_over.most_common():
        note("left out", f"{count:,} x {what}")
    for reason, count in problems.mended.most_common():
        note("mended", f"{count:,} x {reason}")
    if not problems.counts:
        return
    note("skipped", f"{counted(problems.total, 'bad record')}:")
    for reason, count in problems.counts.most_common(REASONS):
        note("", f"{count:,} x {reason}")
    if len(problems.counts) > REASONS:
        note("", f"and {len(problems.counts) - REASONS:,} other reasons (all: --json)")
    for example in problems.examples[:EXAMPLES]:
        note("", f"e.g. {example.splitlines()[0]}")


def plan(
    context: typer.Context,
    source: str = Argument(..., help="A file, a folder, or - for standard input."),
    adapter: shared.Adapter = "",
    options: shared.AdapterOptions = None,
    machines: int = Option(1, min=1, help="Number of machines that make the vectors."),
    encoding: shared.Encoding = None,
    on_error: shared.OnError = None,
    as_json: bool = Option(False, "--json", help="Print the plan as JSON."),
) -> None:
    """Say how much time, disk and memory a source will take as a KB; nothing is kept.

    Measured on this machine with the first 10,000 entities, and scaled to the size of the source.
    """
    from kglink.workspace import Workspace

    with ExitStack() as opened:
        folder = find_workspace(named=context.obj)
        if folder is None:
            folder = init_workspace(Path(opened.enter_context(TemporaryDirectory())))
        flags = {"ingest.encoding": encoding, "ingest.on_error": on_error}
        workspace = opened.enter_context(Workspace.open(folder, flags=flags))
        with progress() as show:
            planned = workspace.plan(
                workspace.open_source(source),
                adapter=adapter,
                options=parse_options(options),
                machines=machines,
                progress=show,
                on_note=note,
            )
    if as_json:
        print_json(planned.as_json())
    else:
        print_plan(planned)


def print_plan(planned: Plan) -> None:
    """What each step takes, as a table."""
    about = "" if planned.is_counted else "about "
    note("plan", f"{about}{planned.entities:,} entities with {planned.names:,} names")
    rows = []
    for step in planned.steps:
        times = [_time(step.seconds), _time(step.seconds_divided)][: planned.machines]
        sizes = (f"{size:,.0f} MB" for size in (step.disk_mb, step.memory_mb))
        rows.append([step.name, *times, *sizes])
    divided = [f"on {planned.machines} machines"] * (planned.machines > 1)
    columns = ["step", "time", *divided, "disk", "memory"]
    print_table(columns, rows, right=range(1, len(columns)))


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


#: The facts of a KB that are listed, each below the name of its column.
LISTED = {
    "name": "name", "entities": "entities", "with_description": "described", "aliases": "aliases",
    "documents": "documents", "mentions": "mentions", "mappings": "mappings", "revision": "rev",
    "adapter": "adapter",
}  # fmt: skip


def list_kbs(context: typer.Context, as_json: shared.AsJson = False) -> None:
    """List the KBs of this workspace."""
    if context.invoked_subcommand:
        return
    with open_workspace(context) as workspace:
        infos = workspace.kbs()
    if as_json:
        print_json([info.as_json() for info in infos])
    elif infos:
        rows = [[getattr(info, fact) for fact in LISTED] for info in infos]
        for row, info in zip(rows, infos, strict=True):
            if info.updating or not info.complete:
                row[0] += " (unfinished)"
        print_table(tuple(LISTED.values()), rows, right=range(1, 8))
    else:
        note("empty", "no KB yet: kglink add-kb NAME SOURCE")


def show(
    context: typer.Context,
    name: str = Argument(..., help="The KB."),
    examples: int = Option(3, help="How many entities to show.", min=0),
    as_json: shared.AsJson = False,
) -> None:
    """Show one KB: what it holds, where it comes from, a few entities."""
    from kglink.workspace.kept_options import written

    with open_workspace(context) as workspace:
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
    name: str = Argument(..., help="The KB."),
    yes: shared.Yes = False,
) -> None:
    """Remove a KB with its documents and overlaps; spaces keep it until they are built again."""
    with open_workspace(context) as workspace:
        info = workspace.store.kb(name, half_removed=True)
        held = f"{counted(info.entities, 'entity')} and {counted(info.documents, 'document')}"
        if not yes:
            typer.confirm(f"Remove {name} with {held}?", abort=True, err=True)
        workspace.remove_kb(name)
        rest = "; `kglink build` takes it out of the space" if info.entities else ""
        note("removed", f"{name} with {held}{rest}")
        if name in workspace.store.memory_sources():
            note("memory", f"what was learnt from {name} stays: `kglink forget {name}` drops it")
        _tell_of_gone(workspace, name)


def _tell_of_gone(workspace: Workspace, name: str) -> None:
    """Tell of golds and verdicts whose entities were removed from a KB."""
    if verdicts := workspace.store.count_resting(name):
        what = f"{counted(verdicts, 'verdict')} on overlaps of what was removed"
        note("verdicts", f"{what}: kept, and shown again once it is back")
    if golds := workspace.store.count_gone_golds(name):
        what = f"{counted(golds, 'mention')} of documents meant what was removed"
        what += ": what memory learnt of it stays, no model learns from it or is judged by it"
        note("gold", what)


def _tell_of_older(workspace: Workspace, name: str, now: int) -> None:
    """Name the commands whose work is of a KB as it was before an update."""
    store = workspace.store
    runs = store.overlap_runs()
    compared = {run.left_revision for run in runs if run.left == name}
    compared |= {run.right_revision for run in runs if run.right == name}
    older = ["kglink overlap"] * bool(compared - {now})
    older += [one.command for one in store.learnt() if one.source == name and one.revision != now]
    if older:
        note("next", f"run again: {', '.join(older)} (made from {name} before this update)")
    if _lacks_names(workspace, name):
        note("next", f"kglink promote: entities of {name} lack names of discoveries")


def _lacks_names(workspace: Workspace, name: str) -> bool:
    """Whether discoveries that are linked to entities of a KB have names which these lack."""
    from kglink.workspace.discoveries import end_of_merges, read_discoveries

    try:
        kept = read_discoveries(workspace.folder)
    except KglinkError:
        return False  # the KB was read all the same; whoever asks for discoveries is told
    linked = [
        (EntityId.parse(said.into), one.names)
        for one in kept.found
        if (said := end_of_merges(one.id, kept.answers)[1]) and said.answer == "link"
    ]
    known = workspace.store.get_entities(entity for entity, _ in linked if entity.kb == name)
    return any(
        {*names} - {known[one].title, *(alias.surface for alias in known[one].aliases)}
        for one, names in linked
        if one in known
    )


def export(
    context: typer.Context,
    kb: str = Argument(..., help="The KB."),
    output_format: str = Option(
        "jsonl", "--format", "-f", help="jsonl, which add-kb reads back; nif: documents for GERBIL."
    ),
    output: shared.PackedOutput = None,
    split: str = Option("", help="Write only documents of this split: train, dev or test."),
    only: str = Option("", help="Write only entities, documents or mappings."),
) -> None:
    """Write a KB's entities and documents to a file that add-kb reads without loss.

    Each line is one JSON object. Annotations name KBs: also export the KBs that the documents link
    to, and add them under the same names before the documents.
    """
    unpacked = output.with_suffix("") if output and output.suffix.lower() in PACKED else output
    if unpacked is not None and unpacked.suffix.lower() in _TABLES:
        raise UsageError(
            f"{output} would be no table: exports are JSON lines or NIF",
            hint="Name it .jsonl, or with --format nif .ttl.",
        )
    with open_workspace(context) as workspace:
        info = workspace.kb(kb)
        if info.updating:
            note("unfinished", f"an update of {kb} is not done: this is revision {info.revision}")
        visible = output is not None or not sys.stdout.isatty()
        with progress(visible=visible) as tell:
            written = workspace.export(
                *(kb, output or sys.stdout),
                only=only,
                split=split,
                form=output_format,
                progress=tell,
            )
    where = f" to {output}" if output else ""
    note("exported", f"{counted(written, 'record')} of {kb}{where}")
    if output is not None and output_format == "jsonl":
        # What the KB was told is not in its records. A gold that nobody answers to must not find
        # an entity of another KB.
        words = ["kglink", "add-kb", info.name, str(output)]
        words += ["--links-to", ",".join(info.links_to)] if info.links_to else []
        words += ["--licence", info.licence] if info.licence else []
        note("read back", shlex.join(words))
