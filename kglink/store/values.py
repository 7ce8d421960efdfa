"""What the store is given and what it answers with, beside the records themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from kglink.errors import StoreError
from kglink.records import AliasKind, Split
from kglink.shown import Shown
from kglink.sources import Problems, SourceLimits

#: How the entities of golds are found: by their keys, through cross-references, or by titles
#: and redirects.
Resolve = Literal["key", "xref", "title"]


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One source to be read into one KB.

    ``fingerprint`` stands for the source's content; the same job after an interruption goes on
    where the last one stopped. ``split`` and ``language`` fill in for records that say none.
    ``resolve`` says how the golds of its documents name entities of the KBs ``links_to``.
    ``options`` are kept with the KB for the next update, and decide nothing here.
    ``allow_shrink``: it may remove most entities of the KB. ``merge``: it adds to the KB and
    changes it; what it does not hold stays.
    """

    kb: str
    adapter: str
    source: str
    fingerprint: str
    settings: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    links_to: tuple[str, ...] = ()
    split: Split = ""
    licence: str = ""
    language: str = ""
    resolve: Resolve = "key"
    batch_size: int = 2000
    longest_name: int = SourceLimits().max_name_chars
    allow_shrink: bool = False
    merge: bool = False
    problems: Problems = field(default_factory=Problems)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Numbers that are added and subtracted one by one."""

    def __add__(self, other: Self) -> Self:
        return self._with(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._with(other, -1)

    def _with(self, other: Self, sign: int) -> Self:
        names = [one.name for one in fields(self)]
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in names}
        return replace(self, **sums)


@dataclass(frozen=True, slots=True)
class Tally(_Counts):
    """How many records of one kind an ingest has added, changed, removed, left alone."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0

    def __str__(self) -> str:
        return f"+{self.added:,} ~{self.changed:,} -{self.removed:,} ={self.unchanged:,}"

    @property
    def seen(self) -> int:
        """How many records the source brought."""
        return self.added + self.changed + self.unchanged

    @property
    def altered(self) -> int:
        """How many records of the store are other than before."""
        return self.added + self.changed + self.removed


@dataclass(frozen=True, slots=True)
class Totals(_Counts):
    """How much a KB holds."""

    entities: int = 0
    with_description: int = 0
    aliases: int = 0
    documents: int = 0
    mentions: int = 0
    mappings: int = 0


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """The result of reading a source: what changed, and what the KB has now.

    ``resumed_from`` is the number of records that an interrupted run had stored before. The tallies
    include them. ``unresolved_examples`` are a few of the golds that were not found. ``gold_found``
    counts, for each linked KB, the ``golds`` of the documents that were found.
    """

    kb: str
    revision: int
    added: int
    changed: int
    removed: int
    unchanged: int
    aliases: int
    with_description: int
    documents: int
    mentions: int
    gold_unresolved: int
    resumed_from: int
    document_tally: Tally = Tally()
    mapping_tally: Tally = Tally()
    mappings_unresolved: int = 0
    unresolved_examples: tuple[str, ...] = ()
    golds: int = 0
    gold_found: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [str(self.entity_tally)] if self.entity_tally != Tally() else []
        if self.document_tally != Tally():
            parts.append(f"documents {self.document_tally}")
        if self.mapping_tally != Tally():
            parts.append(f"mappings {self.mapping_tally}")
        return ", ".join(parts)

    @property
    def entity_tally(self) -> Tally:
        """Added, changed, removed and unchanged entities as one value."""
        return Tally(self.added, self.changed, self.removed, self.unchanged)


@dataclass(frozen=True, slots=True)
class KBInfo(Shown):
    """A summary of a KB, at its last complete revision.

    ``complete`` is False until its first ``add_kb`` has finished: nothing of it can be read before.
    ``updating`` is True while a later one is unfinished: readers see the revision before it.
    """

    name: str
    adapter: str
    source: str
    revision: int
    entities: int
    with_description: int
    aliases: int
    documents: int
    mentions: int
    licence: str
    links_to: tuple[str, ...]
    updated_at: str
    complete: bool
    updating: bool = False
    mappings: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    """The options of its last reading, which an update uses again."""
    last_id: int = 0
    """The highest internal number of an entity so far."""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        shown = asdict(self) | {"links_to": list(self.links_to)}
        del shown["last_id"]
        return shown


@dataclass(frozen=True, slots=True)
class StoredAlias:
    """A name of an entity as the store holds it, with its folded form."""

    key: str
    surface: str
    folded: str
    kind: AliasKind
    count: int


def json_of(text: str, kind: type, column: str) -> Any:
    """A list or an object that a column of the store holds as JSON."""
    try:
        value: object = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise StoreError(
            f"the store is damaged: {column} holds {text[:60]!r}, which is no JSON {kind.__name__}",
            hint="Restore it from a copy, or remove it and add the KBs again.",
        )
    return value
