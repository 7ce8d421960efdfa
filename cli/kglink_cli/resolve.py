"""`kglink resolve`: what names mean, given one by one or as a column of a table."""

from __future__ import annotations

import io
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.errors import SourceError, UsageError
from kglink.files.digest import text_digest
from kglink.workspace.outputs import whole_file
from kglink_cli import shared
from kglink_cli.build import ensure_space, tell_names_alone
from kglink_cli.console import Reached, Show, counted, display, note, print_json_list, print_table
from kglink_cli.outputs import KeptChunks, opened_draft, remove_drafts, reserved
from kglink_cli.session import limit_flags, open_workspace, ray_workers, split_names

if TYPE_CHECKING:
    from kglink.linking.pipeline import Linker
    from kglink.sources import Source
    from kglink.sources.tables import Cell
    from kglink.workspace import Workspace
    from kglink.workspace.resolve import Ask, Cells, Resolved, Row
    from kglink_cli.table_files import Added

STDIN = "-"
#: Rows between two looks at the progress.
_SHOWN_EVERY = 64
_BINARY = {".xlsx": "XLSX", ".xlsm": "XLSX", ".parquet": "Parquet", ".pq": "Parquet"}
_TABLES = (".csv", ".tsv", *_BINARY)


def resolve(
    context: typer.Context,
    names: list[str] = Argument(
        ...,
        help="Names, or - for names on standard input, one per line; with --column a table.",
        metavar="NAME...",
    ),
    columns: list[str] | None = Option(
        None, "--column", help="Resolve this column of a CSV, TSV, XLSX or Parquet file."
    ),
    known: list[str] | None = Option(
        None,
        "--context",
        help='More about the names, such as "country: Poland"; with --column the name of a '
        "column. May be repeated.",
    ),
    output: shared.Output = None,
    kb: shared.KBNames = None,
    types: shared.Types = None,
    under: shared.Under = None,
    not_under: shared.NotUnder = None,
    threshold: float | None = Option(
        None,
        help="Least probability of a match: .9 gives fewer and surer ones, .1 also accepts "
        "similar names. By default .5.",
    ),
    top_k: int | None = Option(None, "--top-k", "-k", help="Candidates for each ambiguous name."),
    encoding: shared.Encoding = None,
    engine: shared.Engine = "processes",
    workers: shared.EngineWorkers = None,
    space: shared.SpaceName = None,
    as_json: shared.AsJson = False,
) -> None:
    """Find the entities of names that are not in a text, such as a column of a table.

    A name is a match, ambiguous (with its candidates), or new: no KB has it. A table keeps all its
    cells and gets columns: the status, id, title and probability of a match, the same thing in
    other KBs, and the candidates of an ambiguous name.
    """
    from kglink.workspace.resolve import Row, cell_text, resolved_rows

    on_ray = ray_workers(engine, workers)
    column = columns[0] if columns else None
    _check(names, columns or (), output, as_json, on_ray=bool(on_ray))
    flags = {
        "link.kbs": split_names(kb) or None,
        "link.top_k": top_k,
        "ingest.encoding": encoding,
        "space.name": space,
        **limit_flags(types, under, not_under),
    }
    sources = names if column else ()
    with open_workspace(context, flags) as workspace, reserved(workspace, output, sources):
        if column is not None:
            with workspace.open_source(names[0]) as source:
                if output is None:
                    _refuse_binary(source)
                read = (column, *(known or ()))
                _write_table(workspace, source, read, threshold, output, on_ray)
            return
        linker = _linker(workspace)
        words = "; ".join(known or ())
        lines = _lines(workspace.settings.ingest.encoding)
        each = (one for name in names for one in (lines if name == STDIN else [name]))
        given = (Row(cell_text(name), words) for name in each)
        longest = workspace.settings.ingest.max_name_chars
        answers = resolved_rows(linker, given, longest, threshold)
        if as_json:  # null for a line without a name, so that lines and answers go together
            print_json_list(one.as_json() if one else None for one in answers)
        else:
            _print(one for one in answers if one)


def _lines(encoding: str) -> Iterator[str]:
    """The lines of standard input, one after the other: they may be typed."""
    errors = "strict" if encoding else "replace"
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding or "utf-8-sig", errors)
    try:
        yield from stream
    except UnicodeDecodeError as error:
        raise SourceError(
            f"standard input is no {encoding}", hint="Name another --encoding."
        ) from error
    finally:
        stream.detach()


def _check(
    names: Sequence[str],
    columns: Sequence[str],
    output: Path | None,
    as_json: bool,
    *,
    on_ray: bool,
) -> None:
    why = ""
    tables = [one for one in names if one.lower().endswith(_TABLES) and Path(one).is_file()]
    if not columns and tables:
        why = f"{tables[0]} is a table, and no --column is named"
    elif not columns and on_ray:
        why = "--engine ray resolves a table, and no --column is named"
    elif not columns and output:
        why = "-o is where a table is written, and no --column is named"
    elif columns and as_json:
        why = "--column resolves one table, which has no JSON"
    elif columns and len(names) > 1:
        why = f"--column resolves one table, and {len(names)} were named"
    elif len(columns) > 1:
        why = f"--column resolves one column, and {len(columns)} were named"
    if why:
        raise UsageError(why, hint="kglink resolve --column NAME table.csv -o out.csv")


def _refuse_binary(source: Source) -> None:
    from kglink.sources.compression import PARQUET_MAGIC

    is_text = not source.is_zip and not source.head.head.startswith(PARQUET_MAGIC)
    if not is_text and sys.stdout.isatty():
        raise UsageError(f"{source.label} is no text, to be shown here", hint="-o FILE writes it.")


def _linker(workspace: Workspace) -> Linker:
    """The linker, in a space with the names of all KBs at least."""
    ensure_space(workspace, wait=workspace.waits_for_vectors(False))
    published = workspace.space()
    hint = "; `kglink build` makes them"
    tell_names_alone(workspace, published, workspace.linked_kbs(published), hint)
    return workspace.linker(space=published)


def _print(answers: Iterable[Resolved]) -> None:
    rows = []
    for one in answers:
        entity = one.entity
        shown = [entity] if entity else one.candidates if one.status == "ambiguous" else []
        what = (", ".join(one.why), " ".join(map(str, one.also)))
        first = [one.name, one.status, f"{one.probability:.2f}"]
        if not shown:
            rows.append([*first, "", "", what[0], ""])
        for at, candidate in enumerate(shown):
            head, tail = (first, what) if at == 0 else (["", "", ""], ("", ""))
            rows.append([*head, str(candidate.id), candidate.title, *tail])
    if rows:
        columns = ("name", "status", "probability", "entity", "title", "why", "also")
        print_table(columns, rows, right=(2,))


def _write_table(
    workspace: Workspace,
    source: Source,
    columns: Sequence[str],
    threshold: float | None,
    output: Path | None,
    on_ray: int,
) -> None:
    """Write a table with its answers, and say how many there are.

    The first of the columns is resolved, the others are what is known of it. Answers are kept
    beside the output until it is whole, and the same command goes on after them.
    """
    from kglink.workspace.link import job_of
    from kglink.workspace.ray_workers import spread_on_ray
    from kglink.workspace.resolve import (
        COLUMNS,
        ResolveJob,
        Resolver,
        Row,
        cell_text,
        context_text,
        resolved_cells,
    )
    from kglink_cli.table_files import opened_table, places_of, refuse_taken

    file = opened_table(source, columns)
    names = file.columns()
    wanted = places_of(source.label, names, columns)
    added = [f"{columns[0]}_{name}" for name in COLUMNS]
    refuse_taken(source.label, names, added)
    linker = _linker(workspace)
    kind = _BINARY.get(output.suffix.lower(), "text") if output else file.kind
    if kind != file.kind:
        raise UsageError(
            f"{output} would be {kind}, and {source.label} is {file.kind}",
            hint="The output is of the kind of the table: end its name so.",
        )
    began, counts = time.monotonic(), Counter[object]()
    longest = workspace.settings.ingest.max_name_chars
    kept: KeptChunks | None = None

    def ask(batches: Iterable[Sequence[Row]]) -> Iterator[dict[Row, Cells]]:
        if not on_ray:
            return map(Resolver(linker, threshold).cells, batches)
        job = ResolveJob(job_of(workspace), threshold)
        pieces = (
            (f"rows from {rows[0].name!r} on" if rows else "no rows", rows) for rows in batches
        )
        return spread_on_ray(on_ray, note)(job, pieces)

    def answers(rows: Iterable[Sequence[Cell]]) -> Iterator[Added]:
        given = (
            Row(cell_text(first), context_text(dict(zip(columns[1:], more, strict=True))))
            for first, *more in rows
        )
        asked = partial(_ask_the_rest, kept, ask) if kept is not None else ask
        for done, cells in enumerate(resolved_cells(given, longest, asked), 1):
            counts[cells[0] if cells else "empty"] += 1
            if done % _SHOWN_EVERY == 0 and file.rows is not None:
                show(Reached("rows", done, file.rows, done))
            elif done % _SHOWN_EVERY == 0:
                show(Reached("rows", source.bytes_read, source.bytes_total, done, "bytes"))
            yield cells or [""] * len(COLUMNS)

    if output is None:  # a bar would run through the table
        show: Show = lambda _: None  # noqa: E731 - the place of a bar
        file.write(sys.stdout.buffer, wanted, added, answers)
        sys.stdout.flush()
    else:
        settings = workspace.settings.model_dump(mode="json")
        made_by = [columns, threshold, workspace.state(), settings]
        with opened_draft(output, made_by) as (_, draft):
            kept = KeptChunks(draft)
            with display() as show, whole_file(workspace, output) as out:
                file.write(out.buffer, wanted, added, answers)
        remove_drafts(output)
    words = {"match": "matched", "ambiguous": "ambiguous", "new": "new", "empty": "empty"}
    shares = ", ".join(f"{counts[status]:,} {word}" for status, word in words.items())
    answered, where = counts.total() - counts["empty"], f" to {output}" if output else ""
    seconds = f"{time.monotonic() - began:.1f} s{where}"
    note("resolved", f"{answered:,} of {counts.total():,} rows: {shares}; {seconds}")
    if padded := getattr(file, "padded", 0):
        short = f"{counted(padded, 'row')} with fewer cells than the header"
        note("short", f"{short}: empty cells are added")


def _ask_the_rest(
    kept: KeptChunks, ask: Ask[Cells], batches: Iterable[Sequence[Row]]
) -> Iterator[Mapping[Row, Cells]]:
    """The answers that an interrupted run has kept, then those to what comes after them."""
    named: Iterator[tuple[str, Sequence[Row]]] = (
        (text_digest(f"{at} {rows!r}"), rows) for at, rows in enumerate(batches)
    )
    waiting: deque[tuple[str, Sequence[Row]]] = deque()
    done = 0
    for name, rows in named:
        if name not in kept:
            named = chain([(name, rows)], named)
            break
        done += len(rows)
        yield dict(zip(rows, json.loads(kept.read(name)), strict=True))

    def rest() -> Iterator[Sequence[Row]]:
        for one in named:
            waiting.append(one)
            yield one[1]

    if done:
        note("resumed", f"after {counted(done, 'name')} of an interrupted run")
    for found in ask(rest()):
        name, rows = waiting.popleft()
        kept.add(name, json.dumps([found[row] for row in rows]).encode())
        yield found
