"""The data of a protocol: what is learnt and judged of them, and how they get into a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as read_dataclass

from kglink.errors import SourceError, UsageError
from kglink.records import OnProgress
from kglink.sources import OnNote
from kglink.workspace.kbs import add_kb
from kglink.workspace.kept_options import read_random_split
from kglink.workspace.opened import Opened

#: For dataclasses read from our TOML files: unknown keys are refused.
READ = ConfigDict(extra="forbid")
_KB, _TARGET, _DATA = "{kb}", "{target}", "{data}"
#: Which mentions a figure is of: those whose entity training has seen, or has not; empty: all.
Mentions = Literal["", "seen", "unseen"]


class Column(NamedTuple):
    """A column of a table: `test R@64`."""

    name: str
    part: str
    metric: str
    average: Literal["", "micro", "macro"] = ""
    """Empty: that of the table."""
    mentions: Mentions = ""
    depth: int = 0
    """How many candidates a cross-encoder reads; 0: as many as its recipe says."""

    @property
    def is_of_overlaps(self) -> bool:
        """Whether the figure is one of overlaps, not of mentions."""
        return self.metric in ("MRR", "ACS")

    @property
    def is_count(self) -> bool:
        """Whether the figure is a number of things in the data."""
        return self.metric in ("mentions", "pairs", "kept pairs")

    @property
    def is_of_clusters(self) -> bool:
        """Whether the figure is of mentions that were clustered."""
        return self.metric in ("linked accuracy", "mention R@64") or "ARI" in self.metric

    @property
    def is_one_value(self) -> bool:
        """Whether the figure is of all mentions together, so that no mention has a value."""
        return self.is_count or (self.is_of_clusters and self.metric != "linked accuracy")


class Part(NamedTuple):
    """What figures are of: mentions of documents, searched in some KBs, or overlaps."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    documents: str = ""
    """How the ids of the documents begin."""
    gold: str = ""
    """The KB that a gold of each mention is of; empty: any."""


class Training(NamedTuple):
    """What a recipe learns from."""

    source_kbs: tuple[str, ...]
    target_kbs: tuple[str, ...]
    docs: tuple[str, ...]


@read_dataclass(frozen=True, slots=True, config=READ)
class SourceOfKBs:
    """What KBs are added from, as `kglink add-kb` is told; ``{kb}`` is the name of the KB."""

    names: tuple[str, ...]
    path: str
    adapter: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    links_to: tuple[str, ...] = ()
    split: str = ""
    split_random: Mapping[str, str] = field(default_factory=dict)
    """How many mentions of a KB are drawn for train, dev and test."""
    bad_records: bool = False
    """Whether the files are known to have bad records, which are left out and counted."""


@read_dataclass(frozen=True, slots=True, config=READ)
class Layout:
    """Data of a protocol: the KBs, and what is learnt from and judged of them."""

    name: str
    title: str
    shape: str
    """How the folder must look."""
    needs: tuple[str, ...]
    """Files that it must have; ``{kb}`` stands for each KB."""
    kbs: tuple[SourceOfKBs, ...]
    source_kbs: str = ""
    target_kbs: str = ""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    """What the names of rows say."""
    docs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    judged: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def training(self, part: str, sources: str) -> Training:
        """What the model of a column learns from: one for each target, where that is learnt."""
        if target := self.targets.get(part):
            if sources == "S":
                return Training((self.source,), (), tuple(self.docs["source"]))
            docs = dict.fromkeys((*self.docs["source"], *_named(self.docs["target"], target)))
            return Training((self.source,), (target,), tuple(docs))
        kbs = [self._kbs_of(one) for one in (self.source_kbs, self.target_kbs)]
        sides = [self.parts.get(one, {}).get("docs") for one in (self.source_kbs, self.target_kbs)]
        used = (kb for own, named in zip(sides, kbs, strict=True) for kb in own or named)
        return Training(kbs[0], kbs[1], tuple(used))

    def parts_of(self, column: Column, row: str) -> list[Part]:
        """What a figure is of; several are judged one after the other, each in its own KB."""
        if (target := self.targets.get(column.part)) and not column.is_count:
            kbs = (self.source, target)
            if column.is_of_overlaps:
                return [Part((), "", kbs)]
            side = row.rpartition(", ")[2]
            judged = _named(self.judged[side], target)
            return [Part(judged, "test", kbs, gold=target if side == "target" else self.source)]
        values = self.parts.get(column.part) or next(
            one for one in self.parts.values() if column.part in one.get("kbs", ())
        )
        each = self._kbs_of(values.get("of", column.part)) or (column.part,)
        docs, split, documents = values.get("docs"), values["split"], values.get("documents", "")
        return [Part(tuple(docs or (kb,)), split, (kb,), documents) for kb in each]

    def mentions(self, part: str) -> int:
        """How many mentions the paper has of a part; 0: nobody says so."""
        return int(self.parts.get(part, {}).get("mentions", 0))

    def _kbs_of(self, part: str) -> tuple[str, ...]:
        return tuple(self.parts.get(part, {}).get("kbs", ()))


def _named(docs: Sequence[str], target: str) -> tuple[str, ...]:
    return tuple(one.replace(_TARGET, target) for one in docs)


# --------------------------------------------------------------------------- into a workspace
def missing_kbs(opened: Opened, layout: Layout) -> list[str]:
    """The KBs of a layout that the workspace does not have whole."""
    whole = {info.name for info in opened.store.kbs() if info.complete and not info.updating}
    return [kb for source in layout.kbs for kb in source.names if kb not in whole]


def check_folder(
    layout: Layout, folder: Path | None, missing: Sequence[str], more: Sequence[str] = ()
) -> None:
    """Refuse a folder that does not hold the data, before anything is added.

    ``more``: files that are read each time, and not added.
    """
    if not (missing or more):
        return
    shape = f"It is {layout.shape}."
    if folder is None:
        lacks = missing or more
        some = ", ".join(lacks[:3]) + (", ..." if len(lacks) > 3 else "")
        raise UsageError(
            f"the workspace does not have {some}: the data are {layout.title}",
            hint=f"Name them: --data DIR. {shape}",
        )
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder", hint=f"--data names one. {shape}")
    needs = [
        one.replace(_KB, kb)
        for one in (*(layout.needs if missing else ()), *more)
        for kb in (layout.kbs[0].names if _KB in one else ("",))
    ]
    lacking = [one for one in needs if not list(folder.glob(f"{one}*"))]
    if lacking:
        left = len(lacking) - 1
        others = f" and {left} other file{'s' * (left > 1)}" if left else ""
        raise SourceError(
            f"{folder} does not hold {layout.title}: it lacks {lacking[0]}{others}", hint=shape
        )


def add_data(
    opened: Opened, layout: Layout, folder: Path | None, progress: OnProgress, on_note: OnNote
) -> None:
    """Add the KBs that the workspace does not have; an interrupted one goes on where it was."""
    missing = missing_kbs(opened, layout)
    if folder is None:
        return
    for source in layout.kbs:
        own = opened.with_settings({"ingest.on_error": "skip"} if source.bad_records else {})
        for kb in source.names:
            if kb not in missing:
                continue
            drawn = source.split_random.get(kb)
            added = add_kb(
                own,
                kb,
                folder / source.path.replace(_KB, kb),
                adapter=source.adapter,
                options={
                    key: value.replace(_KB, kb).replace(_DATA, str(folder.resolve()))
                    if isinstance(value, str)
                    else value
                    for key, value in source.options.items()
                },
                links_to=source.links_to,
                split=source.split,
                split_random=read_random_split(drawn) if drawn else None,
                progress=progress,
            )
            summary, bad = added.summary, added.problems.total
            line = f"{kb}: {summary.added:,} records, {summary.mentions:,} mentions"
            if bad:
                line += f", {bad:,} bad record{'s' * (bad > 1)} left out"
            if lost := summary.gold_unresolved:
                line += f", {lost:,} golds that these KBs do not have"
            on_note("added", line)
