"""`kglink index`: change the index of a space without encoding, and measure it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from kglink.errors import UsageError
from kglink.workspace.shapes import index_change_shape
from kglink_cli.console import note, print_json, print_table, progress
from kglink_cli.session import parse_options, session_of

if TYPE_CHECKING:
    from kglink.space.index import IndexChange
    from kglink.workspace import Workspace
    from kglink.workspace.index import IndexFigures

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
    if exact and preset:
        raise UsageError("--exact is a preset itself", hint="Name one of the two.")
    wanted = {"preset": EXACT if exact else preset, "factory": factory}
    changes = parse_options(settings or [])
    with session_of(context).open({"space.name": space}) as workspace:
        if presets:
            _list_presets(workspace, as_json=as_json)
            return
        record: dict[str, object] = {"space": workspace.settings.space.name}
        if not workspace.is_index_asked():
            note(
                "index",
                "texts of this space are searched by their token matrices, exactly: no search "
                "asks its index",
            )
        if any(wanted.values()) or changes:
            change = workspace.change_index(**wanted, settings=changes, stage=_stage)
            record["published"] = change is not None
            if change is None:
                note("index", "the space has just this index: nothing was changed")
            else:
                record |= index_change_shape(change)
                _tell(change)
        figures = None
        if queries:
            with progress() as tell:
                figures = workspace.measure_index(queries=queries, stage=_stage, progress=tell)
            record["measured"] = figures.as_json()
    if as_json:
        print_json(record)
    elif figures is not None:
        _print(figures)


def _stage(text: str) -> None:
    note("index", text)


def _tell(change: IndexChange) -> None:
    from kglink.space.index import IndexChoice
    from kglink.workspace.index import index_words

    manifest = change.manifest
    now = index_words(IndexChoice(manifest.index, manifest.index_settings))
    how = "built" if change.rebuilt else "its file kept"
    note(
        "published",
        f"{manifest.name}: {now}, {decimal(manifest.index_bytes)}, {how} in "
        f"{change.seconds:.1f} s; before: {index_words(change.before)}",
    )


def _print(figures: IndexFigures) -> None:
    from kglink.workspace.index import index_words

    size = decimal(figures.bytes)
    if figures.bytes != figures.exact_bytes:
        size += f" (exact: {decimal(figures.exact_bytes)})"
    note("index", f"{index_words(figures.index)}, {size}")
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
    found = workspace.index_presets()
    if as_json:
        print_json({name: asdict(one) for name, one in found.items()})
        return
    rows = [
        [name, one.index, " ".join(f"{k}={v}" for k, v in one.settings.items()), one.summary]
        for name, one in found.items()
    ]
    print_table(("preset", "index", "settings", "what it is"), rows)
