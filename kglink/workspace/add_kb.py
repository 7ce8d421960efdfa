"""Adding a KB to a workspace: its adapter is found, its settings checked, its source read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from kglink.errors import UsageError
from kglink.records import OnProgress, Split
from kglink.sources import Problems, Source

if TYPE_CHECKING:
    from kglink.store import IngestSummary, Resolve
    from kglink.workspace.workspace import Workspace

#: Where adapters keep what must outlive an interruption; a folder for each unfinished job.
SCRATCH_FOLDER = ".scratch"


@dataclass(frozen=True, slots=True)
class AddedKB:
    """What `Workspace.add_kb` did."""

    summary: IngestSummary
    adapter: str
    problems: Problems


@dataclass(frozen=True, slots=True)
class Told:
    """What `Workspace.add_kb` is told of a source; empty values are found out."""

    name: str
    adapter: str
    options: Mapping[str, object]
    links_to: tuple[str, ...]
    split: str
    resolve: str
    licence: str


def add_kb(
    workspace: Workspace,
    source: Source,
    told: Told,
    *,
    progress: OnProgress,
) -> AddedKB:
    """Read a source into a KB, going on where an interrupted run of the same job stopped."""
    from kglink.store import IngestJob

    registry, ingest = workspace.registry, workspace.settings.ingest
    plugin = registry.get("kb", told.adapter or registry.guess_kb(source.head).name)
    settings = registry.settings_for("kb", plugin.name, told.options)
    reader = registry.create("kb", plugin.name, settings)
    values = settings.model_dump(mode="json")
    resolve = told.resolve
    if not resolve:
        resolve = getattr(reader, "resolve", "key") if told.links_to else "key"
    problems = Problems(ingest.on_error)
    job = IngestJob(
        kb=told.name,
        adapter=plugin.name,
        source=source.name,
        fingerprint=_job_fingerprint(
            source, plugin.name, values, [*told.links_to], told.split, resolve
        ),
        settings=values,
        links_to=told.links_to,
        split=_split(told.split),
        resolve=_resolve(resolve, told.links_to),
        licence=told.licence,
        batch_size=ingest.batch_size,
        problems=problems,
    )
    source.scratch_in = workspace.folder / SCRATCH_FOLDER / job.fingerprint
    summary = workspace.store.ingest(job, reader.read(source, problems), progress=progress)
    source.drop_scratch()
    return AddedKB(summary, plugin.name, problems)


def _split(split: str) -> Split:
    if split not in get_args(Split):
        raise UsageError(f"unknown split {split!r}", hint="There is: train, dev, test.")
    return split  # type: ignore[return-value]  # just checked


def _resolve(resolve: str, links_to: Sequence[str]) -> Resolve:
    from kglink.store import Resolve

    if resolve not in get_args(Resolve):
        ways = ", ".join(get_args(Resolve))
        raise UsageError(f"unknown way to resolve golds: {resolve!r}", hint=f"There is: {ways}.")
    if resolve != "key" and not links_to:
        raise UsageError(
            f"--resolve {resolve} needs the KBs to look in", hint="Name them: --links-to KB,KB"
        )
    return resolve  # type: ignore[return-value]  # just checked


def _job_fingerprint(source: Source, *facts: object) -> str:
    """The same for the same content read in the same way: such a job can be resumed."""
    digest = hashlib.blake2b(source.fingerprint().encode(), digest_size=16)
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()
