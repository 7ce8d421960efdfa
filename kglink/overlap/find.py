"""Finding the overlap of two KBs: by names, as the joint-space paper does, or by all evidence.

The method of the paper: candidate pairs by strict equality of names, then a filter on the cosine
of sentence embeddings of the descriptions. `full` weighs all evidence into one probability. Every
search is kept as a run: while neither KB nor settings have changed it need not be made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.overlap.assign import assign_one_to_one
from kglink.overlap.names import NameJoin
from kglink.overlap.paired import StoreKBs
from kglink.overlap.plain import alike_descriptions, same_names
from kglink.overlap.report import OverlapReport, Tally
from kglink.overlap.scratch import ScratchPairs
from kglink.overlap.tools import OverlapTools
from kglink.overlap.weigh import Progress, Stage, Verdicts, Weighing
from kglink.records import Overlap

if TYPE_CHECKING:
    from kglink.store import KBInfo, Store

__all__ = [
    "OverlapReport",
    "OverlapTools",
    "Search",
    "find_all_overlaps",
    "find_overlaps",
]


def find_all_overlaps(
    tools: OverlapTools,
    *,
    fresh: bool = False,
    progress: Progress = lambda pairs: None,
    stage: Stage = lambda text: None,
) -> Iterator[OverlapReport]:
    """The overlaps of all KBs, two by two; where nothing changed since the last run, its counts."""
    names = [info.name for info in tools.store.kbs() if info.entities]
    for left, right in combinations(names, 2):
        current = None if fresh else current_report(tools, left, right)
        yield current or find_overlaps(tools, left, right, progress=progress, stage=stage)


def find_overlaps(
    tools: OverlapTools,
    left: str,
    right: str,
    *,
    progress: Progress = lambda pairs: None,
    stage: Stage = lambda text: None,
) -> OverlapReport:
    """Find and store the overlaps of two KBs; verdicts that people gave stay."""
    started = time.monotonic()
    with Search(tools, left, right, lambda what: stage(f"{left}-{right}: {what}")) as search:
        first, second = search.infos
        kept = tools.store.save_overlaps(
            first.name,
            second.name,
            search.found(progress),
            run=lambda kept: tools.run_of(first, second, search.tally.candidates, kept),
        )
        tally = search.tally
        return OverlapReport(
            left=left,
            right=right,
            method=tools.settings.method,
            candidates=tally.candidates,
            kept=kept,
            by_name=tally.by_name if tools.is_full else kept,
            by_meaning_only=tally.by_meaning_only,
            proposed_by=dict(tally.proposed_by),
            notes=tuple(search.notes()),
            model=tools.model.title if tools.is_full else "",
            seconds=round(time.monotonic() - started, 3),
        )


def current_report(tools: OverlapTools, left: str, right: str) -> OverlapReport | None:
    """The counts of the last run of two KBs; None where something has changed since."""
    first, second = (tools.store.kb(name) for name in sorted((left, right)))
    if not (first.complete and second.complete):
        return None
    for run in tools.store.overlap_runs():
        if (run.left, run.right) == (first.name, second.name):
            now = tools.run_of(first, second, run.candidates, run.kept)
            facts = (run.settings_fingerprint, run.left_revision, run.right_revision)
            if facts == (now.settings_fingerprint, now.left_revision, now.right_revision):
                return OverlapReport(
                    left, right, run.method, run.candidates, run.kept, current=True
                )
    return None


class Search:
    """One search of two KBs: the one that comes first in the alphabet is on the left."""

    def __init__(
        self, tools: OverlapTools, left: str, right: str, stage: Stage = lambda text: None
    ) -> None:
        self.infos = _checked_kbs(tools.store, left, right)
        self.tally = Tally()
        self._tools = tools
        self._stage = stage
        first, second = (info.name for info in self.infos)
        self._names = NameJoin(tools.store, first, second, tools.rules)
        self._scratch = ScratchPairs()
        self.kbs = StoreKBs(
            tools.store,
            self._names,
            first,
            second,
            encode=tools.texts.encode,
            vectors_of=tools.space.get,
            scratch=self._scratch,
        )

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.__exit__()
        self._tools.texts.flush()

    def found(self, progress: Progress) -> Iterator[Overlap]:
        """The pairs to keep."""
        verdicts = self.verdicts()
        if self._tools.is_full:
            yield from self._by_all_evidence(verdicts, progress)
        elif self._tools.settings.one_to_one:
            yield from _one_to_one(list(self._by_name(progress)), verdicts)
        else:
            yield from self._by_name(progress)

    def weigh(self, verdicts: Verdicts, progress: Progress) -> Weighing:
        """All pairs that are proposed or were judged, weighed."""
        evidence = {name: make() for name, make in self._tools.evidence.items()}
        weighing = Weighing(self.kbs, evidence, self._tools.model, self._scratch, self.tally)
        weighing.run(verdicts, progress, self._stage)
        return weighing

    def verdicts(self) -> Verdicts:
        """What was said of pairs of these KBs, by their keys."""
        judged = self._tools.store.overlaps(self.kbs.left, self.kbs.right, judged=True)
        return {(one.left.key, one.right.key): one.verdict for one in judged if one.verdict}

    def notes(self) -> Iterator[str]:
        """What was passed over or left out."""
        if passed_over := self._names.passed_over.note():
            yield passed_over
        if self.tally.missing:
            yield f"{self.tally.missing:,} pairs name entities that are not in these KBs"
        if self._tools.settings.method == "names":
            return
        if self.tally.undescribed:
            yield (
                f"{self.tally.undescribed:,} pairs lack a description: their titles, types and "
                "other names were compared instead"
            )
        if self._tools.is_full:
            yield from self._notes_of_evidence()

    def _notes_of_evidence(self) -> Iterator[str]:
        for info in self.infos:
            if not info.with_description:
                yield (
                    f"no entity of {info.name} has a description: what is left are names, and "
                    "what else the evidence reads"
                )
            if not self._tools.space.ready(info.name):
                yield (
                    f"the vectors of {info.name} are not built, and are more than "
                    "overlap.max_encoded_rows: neighbours were left out; `kglink build` makes them"
                )
        if self.tally.unweighed:
            names = ", ".join(sorted(self.tally.unweighed))
            yield f"the model has no weight for {names}: `kglink overlap train` finds one"

    def _by_all_evidence(self, verdicts: Verdicts, progress: Progress) -> Iterator[Overlap]:
        settings = self._tools.settings
        weighing = self.weigh(verdicts, progress)
        yield from weighing.kept(settings.threshold, verdicts, one_to_one=settings.one_to_one)

    def _by_name(self, progress: Progress) -> Iterator[Overlap]:
        self._stage("comparing entities that share a name")
        settings = self._tools.settings
        if settings.method == "names":
            return same_names(self.kbs, self._names, self.tally, progress)
        return alike_descriptions(self.kbs, self._names, settings.threshold, self.tally, progress)


def _checked_kbs(store: Store, left: str, right: str) -> tuple[KBInfo, KBInfo]:
    """Two different KBs with entities, in the order of their names."""
    first, second = (store.kb(name) for name in sorted((left, right)))
    if left == right:
        raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    for info in (first, second):
        if not info.entities:
            raise UsageError(
                f"KB {info.name!r} has no entities",
                hint="It may hold documents only: `kglink kbs` says what each KB holds.",
            )
    return first, second


def _one_to_one(found: list[Overlap], verdicts: Verdicts) -> Iterator[Overlap]:
    """The likeliest set of pairs in which no entity is twice."""
    right_ones = [one for one in found if verdicts.get((one.left.key, one.right.key)) != "wrong"]
    probabilities = [
        1.0 if verdicts.get((one.left.key, one.right.key)) == "correct" else one.probability
        for one in right_ones
    ]
    lefts, rights = [one.left.key for one in right_ones], [one.right.key for one in right_ones]
    kept = assign_one_to_one(lefts, rights, probabilities, least=0.5)
    return (one for one, is_kept in zip(right_ones, kept, strict=True) if is_kept)
