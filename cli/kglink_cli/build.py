"""`kglink build`: make the joint space of all KBs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.config import SpaceSection
from kglink.errors import UnknownNameError
from kglink.workspace.spaces import answers
from kglink_cli.console import counted, note, print_json, progress
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.space.build import BuildReport
    from kglink.space.space import Space
    from kglink.workspace import Workspace
    from kglink.workspace.opened import NamesAlone


def build(
    context: typer.Context,
    space: Annotated[str | None, typer.Option("--space", help="Name of the space.")] = None,
    index: Annotated[
        str | None, typer.Option("--index", help="Index back end (`kglink plugins`).")
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", help="A folder, or a name: in the place of the space's own model."),
    ] = "",
    words: Annotated[
        bool | None,
        typer.Option(
            "--words/--no-words",
            help="Index the words of names and texts as well, for --by bm25 and tfidf; without it: "
            "where the space has such an index.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Reuse nothing: encode everything again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Build the joint space of all KBs; only what changed since the last build is encoded."""
    flags = {
        "space.name": space,
        "space.index": index,
        "space.words": None if words is None else ("yes" if words else "no"),
    }
    with session_of(context).open(flags) as workspace:
        report = build_with_progress(workspace, model=model, fresh=fresh)
    if as_json:
        print_json(report.manifest.model_dump(mode="json"))


def ensure_space(workspace: Workspace, *, wait: bool = True) -> None:
    """Build the space where it is missing or older than the store, and say so.

    Without ``wait`` the names of KBs that are new in it are enough. Where there are spaces, another
    name is taken for a slip, which would take long to build; `kglink build` makes new ones.
    """
    for kb, revision in workspace.joint_space.unfinished().items():
        used = f"revision {revision} is used" if revision else "nothing of it is used"
        note(
            "unfinished",
            f"the add-kb of {kb} is not done, {used}: run it again (--on-error skip passes over "
            "bad records), or `kglink kbs remove`",
        )
    if not answers(workspace, wait=wait):
        _refuse_slip(workspace)
        if any(kb.entities for kb in workspace.kbs()):
            note("space", "some KBs are not in it yet, or changed: building it now")
        began = time.monotonic()
        with progress() as tell:
            made = workspace.build_if_stale(wait=wait, progress=tell)
        if made is not None:
            _tell_built(workspace, made, time.monotonic() - began)
        elif not answers(workspace, wait=wait):
            note("space", "another process is building it: the version before it is used")


def tell_names_alone(
    workspace: Workspace, space: Space, kbs: Sequence[str], hint: str = ""
) -> NamesAlone | None:
    """Say which of some KBs have no vectors yet."""
    found = workspace.names_alone(space, kbs)
    if found:
        share = f"{found.vectors / max(1, found.of):.0%} of {found.of:,} vectors are made"
        note("names", f"{', '.join(found.kbs)}: answered by names alone, {share}{hint}")
    return found


def _refuse_slip(workspace: Workspace) -> None:
    """Refuse a name that no space has, unless it is that of the first or of the default space."""
    name, known = workspace.settings.space.name, [one.name for one in workspace.spaces()]
    if known and name not in (*known, SpaceSection().name):
        hint = f"`kglink build --space {name}` makes it."
        raise UnknownNameError("space", name, known, hint=hint)


def build_with_progress(
    workspace: Workspace, *, model: str = "", fresh: bool = False
) -> BuildReport:
    """Build with a progress bar and a summary on standard error."""
    began = time.monotonic()
    with progress() as tell:
        made = workspace.build(model=model, fresh=fresh, progress=tell)
    _tell_built(workspace, made, time.monotonic() - began)
    return made


def _tell_built(workspace: Workspace, made: BuildReport, seconds: float) -> None:
    manifest = made.manifest
    entities = sum(info.entities for info in workspace.store.kbs())
    size = f"{made.index_bytes / 2**20:,.0f} MB"
    note(
        "space",
        f"{manifest.name}: {counted(entities, 'entity')} of {counted(len(manifest.kbs), 'KB')}, "
        f"{counted(made.encoded_rows, 'vector')} encoded, {made.reused_rows:,} kept, index {size}, "
        f"{seconds:.1f} s",
    )
    if made.truncated_texts:
        note("cut", f"{counted(made.truncated_texts, 'text')} longer than the model reads")
    sys.stderr.flush()
