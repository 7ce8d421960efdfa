"""`kglink index`: change the index of a space without encoding, and measure it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from kglink.errors import UsageError
from kglink_cli.console import note, print_json, print_table, progress
from kglink_cli.session import parse_options, session_of

if TYPE_CHECKING:
    from kglink.space.index_change import IndexChange
    from kglink.workspace import Workspace
    from kglink.workspace.index import IndexFigures
    from kglink.workspace.index_wish import IndexWish

EXACT = "flat"


def index(
    context: typer.Context,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="An index by name; --presets lists them.")
    ] = "",
    factory: Annotated[
        str, typer.Option("--factory", help="Any index by its faiss factory string.")
    ] = "",
    exact: Annotated[bool, typer.Option("--exact", help="The exact index again.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the index: ef_search=64. May be repeated."),
    ] = None,
    measure_only: Annotated[
        bool,
        typer.Option("--measure-only", help="Build it for a trial; the space stays as it is."),
    ] = False,
    queries: Annotated[
        int, typer.Option("--queries", min=0, help="Queries to measure with; 0: do not measure.")
    ] = 256,
    presets: Annotated[bool, typer.Option("--presets", help="List the presets.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give a space another index, nothing encoded anew, and measure it against exact search.

    Without a preset, a factory string or settings the space's index is measured as it is. R@k: the
    share of the exact k best rows that the index finds. Milliseconds are for each query, asked
    alone, and among 64; of the exact index and of the space's.
    """
    from kglink.workspace.index_wish import IndexWish

    if exact and preset:
        raise UsageError("--exact is a preset itself", hint="Name one of the two.")
    wish = IndexWish(EXACT if exact else preset, factory, parse_options(settings or []))
    with session_of(context).open({"space.name": space}) as workspace:
        if presets:
            _list_presets(workspace, as_json=as_json)
            return
        record, shown = _run(workspace, wish, measure_only=measure_only, queries=queries)
    if as_json:
        print_json(record)
    elif shown is not None:
        _print(shown)


def _run(
    workspace: Workspace, wish: IndexWish, *, measure_only: bool, queries: int
) -> tuple[dict[str, object], IndexFigures | None]:
    from kglink.workspace.index import change_space_index, is_never_asked, measure_space_index

    record: dict[str, object] = {"space": workspace.settings.space.name}
    if is_never_asked(workspace):
        note(
            "index",
            "texts of this space are searched by their token matrices, exactly: no search asks "
            "its index",
        )
    trial: IndexWish | None = wish
    if wish and not measure_only:
        change = change_space_index(workspace, wish, stage=_stage)
        record["published"] = change is not None
        if change is None:
            note("index", "the space has just this index: nothing was changed")
        else:
            record |= _change_record(change)
            _tell(change)
        trial = None
    if not queries:
        return record, None
    with progress() as tell:
        figures = measure_space_index(
            workspace, trial, queries=queries, stage=_stage, progress=tell
        )
    return {**record, "measured": figures.as_json()}, figures


def _stage(text: str) -> None:
    note("index", text)


def _tell(change: IndexChange) -> None:
    from kglink.space.index_choice import IndexChoice
    from kglink.workspace.index_wish import words

    manifest = change.manifest
    now = words(IndexChoice(manifest.index, manifest.index_settings))
    how = "built" if change.rebuilt else "its file kept"
    note(
        "published",
        f"{manifest.name}: {now}, {decimal(manifest.index_file.bytes)}, {how} in "
        f"{change.seconds:.1f} s; before: {words(change.before)}",
    )


def _change_record(change: IndexChange) -> dict[str, object]:
    manifest = change.manifest
    return {
        "index": manifest.index,
        "index_settings": manifest.index_settings,
        "before": {
            "index": change.before.name,
            "index_settings": dict(change.before.settings),
        },
        "rebuilt": change.rebuilt,
        "build_seconds": change.seconds,
        "bytes": manifest.index_file.bytes,
    }


def _print(figures: IndexFigures) -> None:
    from kglink.workspace.index_wish import words

    built = "" if figures.build_seconds is None else f", built in {figures.build_seconds:.1f} s"
    size = decimal(figures.bytes)
    if figures.bytes != figures.exact_bytes:
        size += f" (exact: {decimal(figures.exact_bytes)})"
    note("index", f"{words(figures.index)}, {size}{built}")
    note("queries", f"{figures.queries} {figures.asked}")
    ks = tuple(figures.parts[0].recall)
    columns = (
        "searched", "rows", *(f"R@{k}" for k in ks),
        "ms alone", "exact alone", "ms of 64", "exact of 64",
    )  # fmt: skip
    rows = [
        [
            part.part.name,
            part.part.rows.stop - part.part.rows.start,
            *(f"{part.recall[k]:.3f}" for k in ks),
            *(
                f"{ms:.2f}"
                for ms in (part.index.alone, part.exact.alone, part.index.batch, part.exact.batch)
            ),
        ]
        for part in figures.parts
    ]
    print_table(columns, rows, right=range(1, len(columns)))


def _list_presets(workspace: Workspace, *, as_json: bool) -> None:
    from kglink.workspace.index_wish import presets

    found = presets(workspace.registry)
    if as_json:
        print_json({name: asdict(one) for name, one in found.items()})
        return
    rows = [
        [name, one.index, " ".join(f"{k}={v}" for k, v in one.settings.items()), one.summary]
        for name, one in found.items()
    ]
    print_table(("preset", "index", "settings", "what it is"), rows)
