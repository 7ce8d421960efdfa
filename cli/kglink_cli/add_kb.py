"""`kglink add-kb`: read a source into a KB."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.errors import ShrinkError
from kglink.records import Progress
from kglink.text.printable import printable_line
from kglink.workspace.kept_options import read_random_split
from kglink_cli.console import Reached, counted, note, print_json, say, watching
from kglink_cli.kbs import tell_of_gone
from kglink_cli.session import Encoding, parse_options, session_of, split_names

if TYPE_CHECKING:
    from kglink.sources import Problems, Source
    from kglink.store import IngestSummary
    from kglink.workspace import AddedKB

EXAMPLES = 3
#: Reasons for which records were skipped that are shown.
REASONS = 10


def add_kb(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The KB's name: a-z, 0-9, - and _.")],
    source: Annotated[str, typer.Argument(help="A file, a folder, or - for standard input.")],
    adapter: Annotated[
        str, typer.Option("--adapter", "-a", help="How to read it; guessed where not told.")
    ] = "",
    links_to: Annotated[
        str | None, typer.Option("--links-to", help="KBs that the source's annotations mean: a,b")
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="train, dev or test: the split of its documents.")
    ] = "",
    split_random: Annotated[
        str,
        typer.Option(
            "--split-random",
            help="Draw this number of its mentions for train, dev and test: 6360,640,1334; other "
            "mentions are left out.",
        ),
    ] = "",
    split_seed: Annotated[
        int, typer.Option("--split-seed", help="Seed of --split-random.", min=0)
    ] = 0,
    resolve: Annotated[
        str,
        typer.Option(
            "--resolve",
            help="How annotations name entities of those KBs: key, xref (as codes that are "
            "looked up through cross-references) or title (redirects included); the adapter's "
            "own way where not told.",
        ),
    ] = "",
    options: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the adapter, key=value; may be repeated."),
    ] = None,
    licence: Annotated[
        str, typer.Option("--licence", help="The source's licence, for `doctor --licences`.")
    ] = "",
    allow_shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="Let an update remove most entities of the KB.")
    ] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add to the KB: what the source does not hold stays.")
    ] = False,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Leave out the options that were kept the last time.")
    ] = False,
    on_error: Annotated[
        str | None, typer.Option("--on-error", help="stop or skip at a bad record.")
    ] = None,
    encoding: Encoding = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read a source into a KB: entities, annotated documents, or both.

    The same name with a newer source is an update: what is new is added, what changed is
    changed, what is gone is removed (--merge: stays). Options are kept with the KB and used again,
    unless others are given. An interrupted run goes on where it stopped.
    """
    flags = {"ingest.on_error": on_error, "ingest.encoding": encoding}
    with session_of(context).open(flags, create=True) as workspace:
        opened = workspace.open_source(source)
        began = time.monotonic()
        written = _Written(opened)
        read = partial(
            workspace.add_kb,
            name,
            opened,
            adapter=adapter,
            options=parse_options(options or []),
            links_to=split_names(links_to),
            split=split,
            split_random=read_random_split(split_random, split_seed) if split_random else None,
            resolve=resolve,
            licence=licence,
            merge=merge,
            defaults=defaults,
            progress=written.take,
        )
        try:
            with watching(written.reached):
                added = read(allow_shrink=allow_shrink, on_note=note)
        except ShrinkError as error:
            if source == "-" or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            typer.confirm(f"{printable_line(error.message)}. Shall it?", abort=True, err=True)
            with watching(written.reached):
                added = read(allow_shrink=True)
        seconds = time.monotonic() - began
        gone = workspace.store.count_gone_golds(name) if added.summary.entity_tally.removed else 0
    if as_json:
        print_json(added.as_json())
    else:
        _print_summary(added, seconds)
    tell_of_gone(gone)


class _Written:
    """How far the source has been read, and how many records of it stand in the store."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._records = 0

    def take(self, written: Progress) -> None:
        self._records = written.done

    def reached(self) -> Reached:
        step = self._source.progress
        return Reached(step.name, step.done, step.total, self._records, step.unit)


def _print_summary(added: AddedKB, seconds: float) -> None:
    summary = added.summary
    if summary.resumed_from:
        note("resumed", f"after {counted(summary.resumed_from, 'record')} of an interrupted run")
    parts = [f"{summary.kb} {summary}"]
    if summary.entity_tally.seen:
        parts += [f"{summary.with_description:,} with description", f"{summary.aliases:,} aliases"]
    if summary.documents:
        parts += [counted(summary.documents, "document"), counted(summary.mentions, "mention")]
    if summary.mapping_tally.seen:
        parts.append(counted(summary.mapping_tally.seen, "mapping"))
    say("   ".join([*parts, f"{seconds:.1f} s"]))
    if added.resolve == "xref" and summary.golds:
        _tell_of_codes(summary)
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


def _tell_of_codes(summary: IngestSummary) -> None:
    """Say in which KBs codes were found."""
    counts = ", ".join(f"{count:,} in {kb}" for kb, count in summary.gold_found.items())
    note("codes", f"of {counted(summary.golds, 'code')} found: {counts}")
    empty = [kb for kb, count in summary.gold_found.items() if not count]
    if empty:
        note(
            "codes",
            f"none leads to {', '.join(empty)}: these documents do not say what is missing there",
        )


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
