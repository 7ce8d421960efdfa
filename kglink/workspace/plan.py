"""What a source will take as a KB: measured on its first records, and scaled to all of it."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kglink.errors import UsageError
from kglink.records import Entity, OnProgress, Progress
from kglink.sources import OnNote, Problems, Source, read_records
from kglink.space.index import LARGE_INDEX, chosen_index
from kglink.space.names import SHARD_ROWS
from kglink.workspace.detectors import DICTIONARY
from kglink.workspace.folder import SPACES_FOLDER, folder_size, init_workspace
from kglink.workspace.kbs import add_kb
from kglink.workspace.kept_options import how_to_read
from kglink.workspace.link import link
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build

#: Entities that are read into the scratch workspaces, for names and, fewer, for vectors.
RECORDS, WITH_VECTORS = 10_000, 240
#: Stretches of the file whose entities are counted: bytes are read a megabyte at a time.
_STRETCHES = 4
#: Memory for each name while names are compiled, and for each of a shard of the name index.
_BYTES_OF_NAME, _BYTES_IN_SHARD = 130, 500
#: What the index of a large space holds of a row beside two bits for each number.
_BYTES_IN_LISTS = 36
_KB = "plan"
#: Settings of the workspace that mean its own KBs and models.
_UNLIMITED: Mapping[str, object] = {
    "link.kbs": (), "link.types": (), "link.under": (), "link.not_under": (), "link.prefer": (),
    "link.detector": (DICTIONARY,), "link.detector_settings": {}, "link.rerank_top": 0,
    "link.reranker": "", "link.clusterer": "", "link.more_evidence": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What one step takes for the whole source."""

    name: str
    seconds: float
    seconds_divided: float
    """On all machines together."""
    disk_mb: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a source will take, step by step."""

    entities: int
    names: int
    is_counted: bool
    """Whether all entities were counted; else their number is an estimate."""
    machines: int
    steps: tuple[PlannedStep, ...]

    def as_json(self) -> dict[str, object]:
        """What `kglink plan --json` says."""
        return asdict(self)


class _Sample(NamedTuple):
    """The first entities of a source, how many it has, and the seconds of reading one."""

    entities: Sequence[Entity]
    total: int
    is_counted: bool
    seconds: float


class _Cost(NamedTuple):
    """What some entities took in a workspace of their own, ``rows`` being their vectors."""

    entities: int
    names: int
    rows: int
    stored: float
    linked: float
    store_mb: float
    space_mb: float
    memory_mb: float


def plan(
    opened: Opened,
    source: str | Path | Source,
    *,
    adapter: str = "",
    options: Mapping[str, object] | None = None,
    machines: int = 1,
    records: int = RECORDS,
    progress: OnProgress = lambda _: None,
    on_note: OnNote = lambda label, text: None,
) -> Plan:
    """Estimate time, disk and memory for a source from its first ``records`` entities.

    They are read into workspaces that are removed; this one stays as it is. Several ``machines``
    share the work on the vectors.
    """
    if not isinstance(source, Source):
        source = opened.open_source(source)
    sample = _sample(opened, source, {"--adapter": adapter, **(options or {})}, records, on_note)
    if not sample.entities:
        raise UsageError(f"{source.label} has no entity", hint="Documents alone need no plan.")
    count = len(sample.entities)
    few = min(WITH_VECTORS, count)
    # The first of two loads what both need; models come last, for they take memory.
    sizes = [(max(few, count // 5), False), (count, False), (max(1, few // 6), True), (few, True)]
    costs = []
    with TemporaryDirectory(prefix="kglink-plan-") as made:
        for number, (size, vectors) in enumerate(sizes):
            progress(Progress("measuring", number, len(sizes)))
            own = sample.entities[:size]
            costs.append(_cost(opened, Path(made) / str(number), own, vectors=vectors))
    return _scaled(opened, sample, costs, machines)


def _sample(
    opened: Opened, source: Source, given: Mapping[str, object], most: int, on_note: OnNote
) -> _Sample:
    """Read the first entities, and on for as long as it takes to know how long one is."""
    # Without a name: no KB of the workspace says how its source is read.
    how = how_to_read(opened, "", source, given, defaults=True, merge=False, on_note=on_note)
    reader = opened.registry.create("kb", how.adapter, how.settings)
    kept: dict[str, Entity] = {}  # by key: of records with the same one a KB has one entity
    count = read = 0
    places = [(0, 0)]
    began = time.perf_counter()
    for record in read_records(how.adapter, reader.read, source, Problems(how.on_error)):
        if not isinstance(record, Entity):
            continue
        count += 1
        if len(kept) < most:
            kept.setdefault(record.key, record)
            read = count
        # An adapter that reads all of a file first is read to its end.
        if places[-1][1] != source.bytes_read < source.bytes_total:
            places.append((count, source.bytes_read))
        if count >= most and len(places) > _STRETCHES and source.bytes_read < source.bytes_total:
            break
    else:
        total = round(count * len(kept) / max(1, read))
        seconds = (time.perf_counter() - began) / max(1, total)
        return _Sample([*kept.values()], total, read == count or len(kept) == read, seconds)
    (first, start), (last, end) = places[1], places[-1]
    records = source.bytes_total * (last - first) / (end - start)
    seconds = (time.perf_counter() - began) / count * read / len(kept)
    return _Sample([*kept.values()], round(records * len(kept) / read), False, seconds)


def _cost(opened: Opened, folder: Path, entities: Sequence[Entity], *, vectors: bool) -> _Cost:
    """Store some entities in a new workspace, and link a text by their names or their vectors."""
    info = opened.joint_space.encoder.info
    model = info.path or info.name
    own = opened.folder / model
    flags = {
        "store.url": "sqlite:///kglink.db", "link.found_by": "names", "link.workers": 1,
        "encoder.model": str(own) if own.is_dir() else model, **_UNLIMITED,
    }  # fmt: skip
    resolved = replace(opened.resolved.changed(flags), trusted=True)
    with Opened(init_workspace(folder), resolved, opened.registry) as scratch:
        began = time.perf_counter()
        add_kb(scratch, _KB, entities)
        stored = time.perf_counter()
        rows = scratch.joint_space.missing_rows(_KB) or 0
        if vectors:
            build(scratch)
        else:
            list(link(scratch, ["."], wait=False))
        linked = time.perf_counter()
        kb = scratch.store.kb(_KB)
    spaces = folder_size(folder / SPACES_FOLDER)[0] / 1e6
    store = folder_size(folder)[0] / 1e6 - spaces
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = stored - began, linked - stored
    return _Cost(kb.entities, kb.aliases, rows, *times, store, spaces, memory)


def _scaled(opened: Opened, sample: _Sample, costs: Sequence[_Cost], machines: int) -> Plan:
    """The plan for the whole source. Times grow with it, disk as it grew from sample to sample."""
    fewer, named, few, encoded = costs
    total = sample.total
    names, rows = (round(own * total / named.entities) for own in (named.names, named.rows))

    def disk(less: _Cost, more: _Cost, field: str) -> float:
        one, other = (float(getattr(own, field)) for own in (less, more))
        if less.entities == more.entities:
            return other * total / more.entities
        return other + (other - one) * (total - more.entities) / (more.entities - less.entities)

    space = disk(fewer, named, "space_mb")
    reading = (sample.seconds + named.stored / named.entities) * total
    naming, encoding = (one.linked / one.entities * total for one in (named, encoded))
    of_names = min(names, SHARD_ROWS) * _BYTES_IN_SHARD + names * _BYTES_OF_NAME
    vectors = disk(few, encoded, "space_mb") - space
    dim = opened.joint_space.encoder.info.dim
    of_vectors = rows * dim * 2
    if chosen_index(opened.settings.space, None, rows) == LARGE_INDEX:
        of_vectors = rows * (dim // 4 + _BYTES_IN_LISTS)
        vectors -= (rows * dim * 4 - of_vectors) / 1e6
    stored, used = disk(fewer, named, "store_mb"), named.memory_mb
    steps = (
        PlannedStep("read and store", reading, reading, stored, used),
        PlannedStep("names", naming, naming, space, used + of_names / 1e6),
        PlannedStep(
            "vectors",
            encoding,
            encoding / machines,
            max(0.0, vectors),
            encoded.memory_mb + of_vectors / 1e6,
        ),
    )
    return Plan(total, names, sample.is_counted, machines, steps)
