"""The KBs of a workspace: added, listed, exported and removed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO, get_args
from uuid import uuid4

from kglink.errors import UsageError
from kglink.files.digest import file_digest, text_digest
from kglink.plugins import WritesRecords
from kglink.records import CodeMapping, Document, Entity, OnProgress, Progress, Record, Split
from kglink.shown import ShownList
from kglink.sources import OnNote, Problems, Source, read_records
from kglink.sources.reading import MADE_OF, malformed
from kglink.store import IngestJob, IngestSummary, KBInfo, Resolve
from kglink.store.kbs import IN_MEMORY
from kglink.workspace.folder import SCRATCH_FOLDER, check_known, named
from kglink.workspace.kept_options import SPLITS, RandomSplit, how_to_read
from kglink.workspace.opened import Opened
from kglink.workspace.outputs import opened_output
from kglink.workspace.ray_workers import spread_on_ray


@dataclass(frozen=True, slots=True)
class AddedKB:
    """What `Workspace.add_kb` did."""

    summary: IngestSummary
    adapter: str
    problems: Problems
    resolve: Resolve = "key"
    """How golds name the entities of linked KBs."""

    def as_json(self) -> dict[str, object]:
        """What `kglink add-kb --json` says."""
        summary = self.summary
        fields = (
            "kb", "revision", "added", "changed", "removed", "unchanged", "with_description",
            "aliases", "documents", "mentions", "golds", "gold_unresolved", "mappings_unresolved",
            "resumed_from",
        )  # fmt: skip
        return {
            **{name: getattr(summary, name) for name in fields},
            "gold_found": dict(summary.gold_found),
            "unresolved_examples": list(summary.unresolved_examples),
            "mappings": summary.mapping_tally.seen,
            "adapter": self.adapter,
            "notes": self.problems.notes,
            "left_out": dict(self.problems.passed_over),
            "mended": dict(self.problems.mended),
            "skipped": dict(self.problems.counts),
            "examples": self.problems.examples,
        }


def add_kb(
    opened: Opened,
    name: str,
    source: str | Path | Source | Iterable[Record],
    *,
    adapter: str = "",
    options: Mapping[str, object] | None = None,
    links_to: str | Sequence[str] = (),
    split: str = "",
    split_random: RandomSplit | None = None,
    resolve: str = "",
    licence: str = "",
    allow_shrink: bool = False,
    merge: bool = False,
    defaults: bool = False,
    ray_workers: int = 0,
    progress: OnProgress = lambda _: None,
    on_note: OnNote = lambda label, text: None,
) -> AddedKB:
    """Read a source into KB ``name``; an existing KB gets the content of the source.

    A source is a file, a folder, or records in memory: any iterable of `Entity`, `Document` and
    `CodeMapping`. With ``merge`` entities that the source lacks stay. An interrupted run goes on
    where it stopped, if it reads a file.

    ``split`` is the split of documents without one; ``split_random`` draws the split of each
    mention of a file or folder.
    ``resolve`` says how golds name entities of the KBs ``links_to``: by ``key``, by ``xref``, as
    codes that are looked up through cross-references, or by ``title``, redirects included; empty:
    the adapter's own way.
    A source that would remove most entities of the KB is refused unless ``allow_shrink``.
    The options of a file or folder (adapter, options, links, splits, and flags for
    ``ingest.on_error`` and ``ingest.encoding``) are kept with the KB, except secrets, and used the
    next time if you give none; ``defaults`` ignores them.
    ``ray_workers`` is the number of workers on a Ray cluster that parse a dump, if its adapter can.
    ``on_note`` gets notes on how the source is read, such as which column of a table is what.

    >>> gnome = Entity("g", "gnome", "A small person.", aliases=(Alias("dwarf"),))
    >>> added = workspace.add_kb("garden", [gnome])
    >>> print(added.summary)
    +1 ~0 -0 =0
    """
    links_to = named(links_to)
    ingest = opened.settings.ingest
    job = partial(
        IngestJob,
        kb=name,
        licence=licence,
        batch_size=ingest.batch_size,
        longest_name=ingest.max_name_chars,
        allow_shrink=allow_shrink,
        merge=merge,
    )
    if isinstance(source, Entity | Document | CodeMapping):
        raise UsageError(
            f"a KB is made of many records, not of one {type(source).__name__}",
            hint="add_entity adds one; or give a list.",
        )
    if not isinstance(source, str | Path | Source):
        if split_random:
            raise UsageError("a random split needs a file: it reads its records twice")
        if adapter or options:
            raise UsageError("records in memory need no adapter, and take no adapter options")
        problems = Problems(ingest.on_error, on_note=on_note)
        given = job(
            adapter=IN_MEMORY,
            source="records in memory",
            fingerprint=uuid4().hex,
            links_to=links_to,
            split=check_known("split", split, get_args(Split)),
            resolve=checked_resolve(resolve or "key", links_to),
            problems=problems,
        )
        summary = opened.store.ingest(given, _checked_records(source), progress=progress)
        return AddedKB(summary, IN_MEMORY, problems, given.resolve)
    if not isinstance(source, Source):
        source = opened.open_source(source)
    said = {
        "--adapter": adapter,
        "--links-to": list(links_to),
        "--split": split,
        "--split-random": list(split_random.counts) if split_random else "",
        "--split-seed": split_random.seed if split_random else "",
        "--resolve": resolve,
        **(options or {}),
    }
    how = how_to_read(opened, name, source, said, defaults=defaults, merge=merge, on_note=on_note)
    split_random, links_to = how.split_random, how.links_to
    problems = Problems(how.on_error, on_note=on_note)
    reader = opened.registry.create("kb", how.adapter, how.settings)
    values = how.settings.model_dump(mode="json")
    resolve = how.resolve or (getattr(reader, "resolve", "key") if links_to else "key")
    facts = [how.adapter, values, [*links_to], how.split, resolve, merge]
    facts += [[*split_random.counts, split_random.seed]] if split_random else []
    facts += [source.limits.encoding] if source.limits.encoding else []
    facts += _code_of(reader)
    # The same for the same content read in the same way: such a job can be resumed.
    fingerprint = text_digest(source.fingerprint() + json.dumps(facts, sort_keys=True))
    read = job(
        adapter=how.adapter,
        source=source.name,
        fingerprint=fingerprint,
        settings=values,
        options=how.kept,
        links_to=links_to,
        split=check_known("split", how.split, get_args(Split)),
        resolve=checked_resolve(resolve, links_to),
        problems=problems,
    )
    if ray_workers:
        if not getattr(reader, "spreads", False):
            hint = "Leave --engine ray out: it parses exports of MediaWiki (docs/cluster.md)."
            raise UsageError(f"{how.adapter} reads a source in one process", hint=hint)
        source.spread = spread_on_ray(ray_workers, on_note)
    source.scratch_in = opened.folder / SCRATCH_FOLDER / read.fingerprint
    records: Iterable[Record] = read_records(how.adapter, reader.read, source, problems)
    if split_random:
        drawn = split_random.drawn(
            read_records(how.adapter, reader.read, source, Problems(how.on_error))
        )
        records = split_random.divided(records, drawn)
        counts = zip(SPLITS, split_random.counts, strict=True)
        shown = ", ".join(f"{count:,} {split}" for split, count in counts)
        on_note("split", f"{shown} mentions, drawn with seed {split_random.seed}")
    summary = opened.store.ingest(read, records, progress=progress)
    source.drop_scratch()
    return AddedKB(summary, how.adapter, problems, read.resolve)


def _code_of(reader: object) -> list[str]:
    """Digests of an adapter's module and, in a package, those beside it: mended, it begins anew."""
    module = sys.modules.get(type(reader).__module__)
    file = Path(getattr(module, "__file__", None) or "")
    is_in_package = "." in type(reader).__module__ or hasattr(module, "__path__")
    beside = file.parent.glob("*.py") if is_in_package and file.is_file() else [file]
    return sorted(file_digest(one) for one in beside if one.is_file())


def _checked_records(records: Iterable[Record]) -> Iterator[Record]:
    if not isinstance(records, Iterable):
        raise UsageError(f"a KB is not read from the type {type(records).__name__}", hint=MADE_OF)
    number = 0
    for number, record in enumerate(records, 1):
        if wrong := malformed(record):
            raise UsageError(f"record {number:,}: {wrong.what}", hint=wrong.fix)
        yield record
    if not number:
        raise UsageError("no record was given", hint=MADE_OF)


def checked_resolve(resolve: str, links_to: Sequence[str]) -> Resolve:
    """How golds are resolved; refused where there is no such way, or no KB to look in."""
    way: Resolve = check_known("way to resolve golds", resolve, get_args(Resolve))
    if resolve != "key" and not links_to:
        raise UsageError(
            f"resolving by {resolve} needs the KBs to look in", hint="Name them: --links-to KB,KB"
        )
    return way


def kbs(opened: Opened) -> list[KBInfo]:
    """All KBs, in the order in which they were added.

    >>> [(info.name, info.entities, info.documents) for info in workspace.kbs()][:3]
    [('birds', 2, 0), ('zoo', 1, 0), ('notes', 0, 1)]
    """
    return ShownList(opened.store.kbs())


def kb(opened: Opened, name: str) -> KBInfo:
    """One KB: its content and its source."""
    return opened.store.kb(name)


def remove_kb(opened: Opened, name: str) -> KBInfo:
    """Remove a KB with its documents and overlaps; spaces keep it until they are built again.

    It also finishes a removal that was stopped.
    """
    info = opened.store.kb(name, half_removed=True)
    opened.store.remove_kb(name)
    return info


PARTS = ("entities", "documents", "mappings")
FORMS = ("jsonl", "nif")


def export(
    opened: Opened,
    kb: str,
    output: str | Path | TextIO,
    *,
    only: str = "",
    split: str = "",
    form: str = "jsonl",
    progress: OnProgress = lambda _: None,
) -> int:
    """Write a KB without loss, for ``add_kb``; returns the number of records.

    ``only`` is one of `PARTS`, ``split`` that of the documents; empty: all. A gold names its KB:
    export the KBs that documents link to as well, and add them first. The ``form`` ``nif``, for
    GERBIL, has the documents alone.
    """
    check_known("part", only, ("", *PARTS))
    check_known("split", split, ("", *SPLITS))
    overlaps = "Overlaps are written by `kglink overlap --export pairs.sssom.tsv`."
    check_known("format", form, FORMS, hint=overlaps)
    opened.store.kb(kb)
    written = 0

    def counted() -> Iterator[Record]:
        nonlocal written
        for written, record in enumerate(records, 1):
            yield record
            if written % 1000 == 0:
                progress(Progress("exporting", written, total))

    writer = opened.registry.create("kb", f"kglink/{form}")
    with opened_output(opened, output) as out:
        records, total = _records(opened, kb, only, split, form)
        if isinstance(writer, WritesRecords):  # as all of `FORMS` do
            writer.write(counted(), out, opened.store.get_entities)
    return written


def _records(
    opened: Opened, kb: str, only: str, split: str, form: str
) -> tuple[Iterator[Record], int]:
    """What is written, and how many records that is at most."""
    if form != "nif":
        info = opened.store.kb(kb)
        total = info.entities + info.documents + info.mappings
        return opened.store.records(kb, (only,) if only else PARTS, split or None), total
    if only not in ("", "documents"):
        raise UsageError(f"NIF holds no {only}", hint="It holds documents.")
    total = opened.store.count_documents(kb, split or None)
    if not total:
        which = f" in the split {split!r}" if split else ""
        hint = "`kglink kbs` says which KBs have documents."
        raise UsageError(f"{kb!r} has no documents{which}", hint=hint)
    return opened.store.documents(kb, split or None), total
