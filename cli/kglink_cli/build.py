"""`kglink build`, `distill`, `index` and `model export`: make a space, and give its models away."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.filesize import decimal
from typer import Argument, Option

from kglink.config import SpaceSection
from kglink.errors import UnknownNameError, UsageError
from kglink_cli import shared
from kglink_cli.console import counted, note, print_json, print_table, progress
from kglink_cli.session import open_workspace, parse_options, ray_workers

if TYPE_CHECKING:
    from kglink.space.build import BuildReport
    from kglink.space.space import Space
    from kglink.workspace import Workspace
    from kglink.workspace.index import IndexFigures
    from kglink.workspace.opened import NamesAlone


def build(
    context: typer.Context,
    space: shared.SpaceName = None,
    index: str | None = Option(None, help="Index back end (`kglink plugins`); else the space's."),
    model: str = Option("", help="Model to use instead of the space's own: a folder, or a name."),
    words: bool | None = Option(
        None,
        "--words/--no-words",
        help="Also index the words of names and texts, for --found-by bm25 and tfidf; by default "
        "if the space has such an index.",
        show_default=False,
    ),
    fresh: bool = Option(False, "--fresh", help="Reuse nothing: encode everything again."),
    engine: shared.Engine = "processes",
    workers: shared.EngineWorkers = None,
    as_json: bool = Option(False, "--json", help="Print the manifest as JSON."),
) -> None:
    """Build the joint space of all KBs; only what changed since the last build is encoded."""
    on_ray = ray_workers(engine, workers, "Alone a build uses all cores.")
    flags = {
        "space.name": space,
        "space.index": index,
        "space.words": None if words is None else ("yes" if words else "no"),
    }
    with open_workspace(context, flags) as workspace:
        report = build_with_progress(workspace, model=model, fresh=fresh, ray_workers=on_ray)
    if as_json:
        print_json(report.manifest.model_dump(mode="json"))


def ensure_space(workspace: Workspace, kbs: Sequence[str] = (), *, wait: bool = True) -> None:
    """Build the space where it is missing or older than the store, and say so.

    Without ``wait``, new KBs need only their names in it. Unknown ``kbs`` are an error, not a long
    build, and so is an unknown name where there are other spaces; `kglink build` makes new ones.
    """
    from kglink.workspace.spaces import answers

    for kb in (one for one in workspace.kbs() if one.updating or not one.complete):
        used = f"revision {kb.revision} is used" if kb.revision else "nothing of it is used"
        again = "run it again (add-kb --on-error skip passes over bad records)"
        what = f"an update of {kb.name} is not done, {used}"
        note("unfinished", f"{what}: {again}, or `kglink kbs remove`")
    if not answers(workspace, wait=wait):
        name, known = workspace.settings.space.name, [one.name for one in workspace.spaces()]
        if known and name not in (*known, SpaceSection().name):
            hint = f"`kglink build --space {name}` makes it."
            raise UnknownNameError("space", name, known, hint=hint)
        for wanted in kbs:
            workspace.kb(wanted)
        if any(kb.entities for kb in workspace.kbs()):
            note("space", "some KBs are not in it yet, or changed: building it now")
        began = time.monotonic()
        with progress() as tell:
            made = workspace.build_if_stale(wait=wait, progress=tell)
        if made is not None:
            _tell_built(workspace, made, time.monotonic() - began)
        elif not answers(workspace, wait=wait):
            why = workspace.no_build_why or "another process builds it, or changes a KB"
            note("space", f"{why}; the version before it is used")


def tell_names_alone(
    workspace: Workspace, space: Space, kbs: Sequence[str], hint: str = ""
) -> NamesAlone | None:
    """Say which of some KBs have no vectors yet."""
    found = workspace.names_alone(space, kbs)
    if found:
        share = f"{found.vectors / max(1, found.of):.0%} of {found.of:,} vectors are made"
        note("names", f"{', '.join(found.kbs)}: answered by names alone, {share}{hint}")
    return found


def build_with_progress(
    workspace: Workspace, *, model: str = "", fresh: bool = False, ray_workers: int = 0
) -> BuildReport:
    """Build with a progress bar and a summary on standard error."""
    from kglink.linking.scoring import SCORING_FILE, read_scoring

    began = time.monotonic()
    with progress() as tell:
        made = workspace.build(
            model=model, fresh=fresh, ray_workers=ray_workers, progress=tell, on_note=note
        )
    _tell_built(workspace, made, time.monotonic() - began)
    fitted, own = workspace.joint_space.folder.path, made.manifest.model.fingerprint
    if model and (fitted / SCORING_FILE).exists() and read_scoring(fitted, own) is None:
        note("fit", "what was fitted is of another model and does not count: `kglink fit DOCS`")
    return made


def _tell_built(workspace: Workspace, made: BuildReport, seconds: float) -> None:
    from kglink.space.index import LARGE_INDEX, MOST_EXACT

    manifest = made.manifest
    entities = sum(info.entities for info in workspace.store.kbs())
    size = f"{made.index_bytes / 2**20:,.0f} MB"
    note(
        "space",
        f"{manifest.name}: {counted(entities, 'entity')} of {counted(len(manifest.kbs), 'KB')}, "
        f"{counted(made.encoded_rows, 'vector')} encoded, {made.reused_rows:,} kept, index {size}, "
        f"{seconds:.1f} s",
    )
    if manifest.rows > MOST_EXACT and (manifest.index, manifest.index_settings) == LARGE_INDEX:
        note(
            "index",
            f"approximate, for there are more than {MOST_EXACT:,} vectors: `kglink index` measures "
            "how much it finds, `kglink index --exact` makes it exact",
        )
    if made.truncated_texts:
        note("cut", f"{counted(made.truncated_texts, 'text')} longer than the model reads")
    sys.stderr.flush()


def distill(
    context: typer.Context,
    space: shared.SpaceName = None,
    into: str = Option("static", help="Name of the new space; a distilled one is replaced."),
    as_json: shared.AsJson = False,
) -> None:
    """Make a space with a static model, which reads mentions many times faster on a CPU.

    The static model has one vector for each token and no transformer. It learns from the vectors
    of the space, which the new space shares. Likeness: the mean cosine to the held-out vectors of
    names, and of longer texts. Use it with kglink link --space NAME.
    """
    began = time.monotonic()
    with open_workspace(context, {"space.name": space}) as workspace:
        source = workspace.settings.space.name
        with progress() as tell:
            made = workspace.distill(into, progress=tell)
    student = made.student
    if as_json:
        names = ("names", "texts", "names_like", "texts_like")
        figures = {name: getattr(student, name) for name in names}
        print_json({"space": made.name, "from": source, "tokens": len(student.table), **figures})
        return
    likes = (("names", student.names_like), ("texts", student.texts_like))
    likenesses = ", ".join(f"{what} {like:.3f}" for what, like in likes if like is not None)
    note(
        "space",
        f"{made.name}: the vectors of {source}, read by {len(student.table):,} tokens that learnt "
        f"from {student.names:,} names and {student.texts:,} texts in "
        f"{time.monotonic() - began:.1f} s",
    )
    if likenesses:
        note("likeness", f"{likenesses} (1: as the model of {source} itself)")


EXACT = "flat"


def index(
    context: typer.Context,
    space: shared.SpaceName = None,
    preset: str = Option("", help="Name of a preset; --presets lists them."),
    factory: str = Option("", help="Faiss factory string of an index."),
    exact: bool = Option(False, "--exact", help="Use the exact index."),
    settings: list[str] | None = Option(
        None, "--set", help="A setting of the index: ef_search=64. May be repeated."
    ),
    queries: int = Option(256, min=0, help="Queries to measure with; 0: do not measure."),
    presets: bool = Option(False, "--presets", help="List the presets."),
    as_json: shared.AsJson = False,
) -> None:
    """Change the index of a space without encoding again, and compare it with exact search.

    Without a preset, a factory string or settings, the present index is measured. R@k: the share
    of the exact k best rows that the index finds. Milliseconds per query, for one query and for 64
    together, of the exact index and of the space's.
    """
    from kglink.space.index import IndexChoice
    from kglink.workspace.index import index_words

    if exact and preset:
        raise UsageError("--exact is a preset itself", hint="Name one of the two.")
    wanted = {"preset": EXACT if exact else preset, "factory": factory}
    changes, tell_index = parse_options(settings), partial(note, "index")
    with open_workspace(context, {"space.name": space}) as workspace:
        if presets:
            found = workspace.index_presets()
            if as_json:
                print_json({name: asdict(one) for name, one in found.items()})
                return
            rows = [
                [name, one.index, index_words(IndexChoice("", one.settings)).strip(), one.summary]
                for name, one in found.items()
            ]
            print_table(("preset", "index", "settings", "what it is"), rows)
            return
        record: dict[str, object] = {"space": workspace.settings.space.name}
        if not workspace.is_index_asked():
            how = "texts of this space are searched by their token matrices, exactly"
            note("index", f"{how}: no search asks its index")
        if any(wanted.values()) or changes:
            change = workspace.change_index(**wanted, settings=changes, stage=tell_index)
            record["published"] = change is not None
            if change is None:
                note("index", "the space has just this index: nothing was changed")
            else:
                manifest, before = change.manifest, change.before
                record |= {
                    "index": manifest.index,
                    "index_settings": manifest.index_settings,
                    "before": {"index": before.name, "index_settings": dict(before.settings)},
                    "rebuilt": change.rebuilt,
                    "build_seconds": change.seconds,
                    "bytes": manifest.index_bytes,
                }
                now = index_words(IndexChoice(manifest.index, manifest.index_settings))
                how = "built" if change.rebuilt else "its file kept"
                note(
                    "published",
                    f"{manifest.name}: {now}, {decimal(manifest.index_bytes)}, {how} in "
                    f"{change.seconds:.1f} s; before: {index_words(before)}",
                )
        figures = None
        if queries:
            with progress() as tell:
                figures = workspace.measure_index(queries=queries, stage=tell_index, progress=tell)
            record["measured"] = figures.as_json()
    if as_json:
        print_json(record)
    elif figures is not None:
        _print(figures)


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
    rows: list[list[object]] = []
    for one in figures.parts:
        part, ours, exactly = one.part, one.index, one.exact
        recall = (f"{one.recall[k]:.3f}" for k in ks)
        ms = (ours.alone, exactly.alone, ours.batch, exactly.batch)
        rows.append(
            [part.name, part.rows.stop - part.rows.start, *recall, *(f"{took:.2f}" for took in ms)]
        )
    print_table(columns, rows, right=range(1, len(columns)))


def export(
    context: typer.Context,
    folder: Path = Argument(help="The new folder.", file_okay=False),
    space: shared.SpaceName = None,
) -> None:
    """Write a space's trained towers and reranker as folders for sentence-transformers.

    `SentenceTransformer` and `CrossEncoder` open them with the same vectors and scores.
    """
    with open_workspace(context, {"space.name": space}) as workspace:
        names = workspace.export_model(folder)
    for name in names:
        note("written", str(folder / name))
