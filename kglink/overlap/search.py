"""Finding the overlap of two KBs, by names, as the joint-space paper does, or by all evidence.

The method of the paper: candidate pairs by strict equality of names, then a filter on the cosine
of sentence embeddings of the descriptions. `full` weighs all evidence into one probability, with
a model that learns from what people said of pairs. Every search is kept as a run: while neither
KB nor settings have changed it need not be made again.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Literal, Protocol

from kglink.arrays import FloatArray
from kglink.config import OverlapSection
from kglink.errors import UsageError
from kglink.files.digest import digest_of
from kglink.files.manifest import now
from kglink.overlap.model import OverlapModel, Values, fit
from kglink.overlap.names import NameJoin, NameRules
from kglink.overlap.scratch import ScratchPairs
from kglink.overlap.weigh import (
    SearchCounts,
    Steps,
    Verdicts,
    Weighing,
    alike_descriptions,
    likeliest,
    same_names,
)
from kglink.plugins import EntityVectors, PairEvidence, Side
from kglink.records import Entity, EntityId, OnProgress, Overlap, OverlapRun, Spread
from kglink.store import KBInfo, Store

RowKind = Literal["text", "alias"]


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """Candidates and kept pairs, as in the paper's Table 1, and what they rest on."""

    left: str
    right: str
    method: str
    candidates: int
    kept: int
    by_name: int = 0
    """Kept pairs whose entities share a name."""
    by_meaning_only: int = 0
    """Kept pairs whose entities share none."""
    proposed_by: Mapping[str, int] = field(default_factory=dict)
    """Kept pairs that each kind of evidence proposed."""
    notes: tuple[str, ...] = ()
    """What was passed over or left out, in words."""
    model: str = ""
    """The model that weighed the evidence; empty where none did."""
    seconds: float = 0.0
    current: bool = False
    """Nothing had changed since the last search, whose counts these are."""


class SpaceVectors(Protocol):
    """What a search reads of the joint space."""

    def at(self, store: Store) -> SpaceVectors:
        """The same vectors, of the KBs as ``store`` holds them."""
        ...

    def ready(self, kb: str) -> bool:
        """Whether a KB's vectors are there, or few enough to be made."""
        ...

    def get(self, kb: str, rows: RowKind) -> EntityVectors | None:
        """The vectors of a KB's rows of one kind, made where they are missing; None: not ready."""
        ...


@dataclass(frozen=True, slots=True)
class OverlapTools:
    """All that a search works with."""

    store: Store
    settings: OverlapSection
    encode: Callable[[Sequence[str]], FloatArray]
    """Gives the unit vector of each text, encoded now or before."""
    encoder: str
    """The encoder's fingerprint: changes whenever the vectors would."""
    space: SpaceVectors
    evidence: Mapping[str, Callable[[], PairEvidence]]
    """Makes the evidence that `full` weighs, by name."""
    model: OverlapModel
    """What `full` adds it up with."""
    device: str = "auto"
    """Where neighbours are looked for: the setting ``encoder.device``."""
    spread: Spread | None = None
    """Has vectors compared by the workers of a cluster."""
    kept: Path | None = None
    """The folder for what they found, until all is found."""

    @property
    def is_full(self) -> bool:
        """Whether evidence is weighed by the model."""
        return self.settings.method == "full"

    @property
    def name_kinds(self) -> tuple[str, ...]:
        """The names that are compared without a model; the paper's method compares titles."""
        titles = ("title",) if self.settings.method == "paper" else ()
        return self.settings.name_kinds or titles

    @property
    def rules(self) -> NameRules:
        """How names are compared; `full` folds them and leaves the rest to the evidence."""
        settings = self.settings
        return NameRules(
            match="folded" if self.is_full else settings.names,
            kinds=() if self.is_full else self.name_kinds,
            strip_disambiguator=settings.strip_disambiguator,
            strip_both=settings.method != "paper",
            max_pairs=settings.max_name_pairs,
        )

    def run_of(self, left: KBInfo, right: KBInfo, candidates: int, kept: int) -> OverlapRun:
        """A search of these KBs that ends now."""
        return OverlapRun(
            left=left.name,
            right=right.name,
            method=self.settings.method,
            settings_fingerprint=self.fingerprint(left.name, right.name),
            candidates=candidates,
            kept=kept,
            left_revision=left.revision,
            right_revision=right.revision,
            finished_at=now(),
        )

    def fingerprint(self, *kbs: str) -> str:
        """The same for searches that find the same in the same KBs.

        Verdicts and the overlaps with a third KB are not in it: a search is made anew for
        their sake only on demand.
        """
        settings = self.settings
        facts: list[object] = [settings.method, settings.strip_disambiguator]
        facts += [settings.max_name_pairs, settings.one_to_one]
        if settings.method != "names":
            facts += [settings.threshold, self.encoder]
        if self.is_full:
            facts += [list(self.evidence), dict(settings.evidence_settings)]
            facts += [self.model.fingerprint, [self.space.ready(kb) for kb in kbs]]
        else:
            facts += [settings.names, list(self.name_kinds)]
        return digest_of(facts)


def find_all_overlaps(
    tools: OverlapTools, *, fresh: bool = False, progress: OnProgress = lambda _: None
) -> Iterator[OverlapReport]:
    """The overlaps of all KBs, two by two; where nothing changed since the last run, its counts."""
    names = [info.name for info in tools.store.kbs() if info.entities]
    for left, right in combinations(names, 2):
        current = None if fresh else current_report(tools, left, right)
        yield current or find_overlaps(tools, left, right, progress=progress)


def find_overlaps(
    tools: OverlapTools, left: str, right: str, *, progress: OnProgress = lambda _: None
) -> OverlapReport:
    """Find and store the overlaps of two KBs; verdicts that people gave stay."""
    started = time.monotonic()
    with open_search(tools, left, right, progress) as search:
        kept = tools.store.save_overlaps(
            search.left, search.right, search.found(), lambda kept: search.run(tools.store, kept)
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
    for run in tools.store.overlap_runs():
        if (run.left, run.right) == (first.name, second.name):
            again = tools.run_of(first, second, run.candidates, run.kept)
            if replace(again, finished_at=run.finished_at) == run:
                return OverlapReport(
                    left, right, run.method, run.candidates, run.kept, current=True
                )
    return None


@contextlib.contextmanager
def open_search(
    tools: OverlapTools, left: str, right: str, progress: OnProgress = lambda _: None
) -> Iterator[Search]:
    """A search that sees one state of the store to its end, whatever is written meanwhile."""
    with tools.store.snapshot() as seen, contextlib.closing(ScratchPairs()) as scratch:
        frozen = replace(tools, store=seen, space=tools.space.at(seen))
        yield Search(frozen, left, right, scratch, progress)


class Search:
    """One search of two KBs: the one that comes first in the alphabet is on the left.

    It is what evidence sees of them (`kglink.plugins.PairedKBs`): the store, the kept vectors of
    texts and the joint space.
    """

    def __init__(
        self,
        tools: OverlapTools,
        left: str,
        right: str,
        scratch: ScratchPairs,
        progress: OnProgress,
    ) -> None:
        first, second = (tools.store.kb(name) for name in sorted((left, right)))
        self.infos = first, second
        if left == right:
            raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
        for info in self.infos:
            if not info.entities:
                raise UsageError(
                    f"KB {info.name!r} has no entities",
                    hint="It may hold documents only: `kglink kbs` says what each KB holds.",
                )
        self.tally = SearchCounts()
        self._changed: list[str] = []
        self._tools, self._scratch = tools, scratch
        self._steps = Steps(progress, f"{left}-{right}")
        self.left, self.right = first.name, second.name
        self.report: OnProgress = self._steps.reach
        self.encode, self.device, self.spread = tools.encode, tools.device, tools.spread
        self.kept = tools.kept and tools.kept / f"compared-{first.name}-{second.name}"
        self.probability, self.partners = scratch.probability, scratch.partners
        self._names = NameJoin(tools.store, self.left, self.right, tools.rules, self.report)

    # --------------------------------------------------------------- what evidence sees
    def entities(self, side: Side) -> Iterator[Entity]:
        """All entities of one side in the order of their keys."""
        return self._tools.store.entities(self._kb(side))

    def get(self, side: Side, keys: Iterable[str]) -> dict[str, Entity]:
        """Some entities of one side."""
        kb = self._kb(side)
        found = self._tools.store.get_entities(EntityId(kb, key) for key in keys)
        return {entity_id.key: entity for entity_id, entity in found.items()}

    def shared_names(self) -> Iterator[tuple[str, str, str]]:
        """Left key, right key and the folded name that both bear."""
        return ((left, right, name) for left, right, names in self._names for name in names)

    def vectors(self, side: Side, rows: RowKind) -> EntityVectors | None:
        """The vectors of one side in the joint space."""
        return self._tools.space.get(self._kb(side), rows)

    def overlaps_through(self) -> Iterator[tuple[str, str, str, float]]:
        """Left key, right key, a third KB, and how probably both are the same entity of it."""
        store = self._tools.store
        for third in (info.name for info in store.kbs()):
            if third in (self.left, self.right):
                continue
            by_third: dict[str, list[tuple[str, float]]] = defaultdict(list)
            for overlap in store.overlaps(third, self.right):
                by_third[overlap.left.key].append((overlap.right.key, _believed(overlap)))
            for overlap in store.overlaps(self.left, third) if by_third else ():
                for key, other in by_third.get(overlap.right.key, ()):
                    yield overlap.left.key, key, third, _believed(overlap) * other

    def _kb(self, side: Side) -> str:
        return self.left if side == "left" else self.right

    # ------------------------------------------------------------------- what is found
    def found(self) -> Iterator[Overlap]:
        """The pairs to keep."""
        verdicts, settings = self.verdicts(), self._tools.settings
        if self._tools.is_full:
            yield from self.weigh(verdicts).kept(
                settings.threshold, verdicts, one_to_one=settings.one_to_one
            )
            return
        self._steps.begin("comparing entities that share a name")
        if settings.method == "names":
            by_name = same_names(self, self._names, self.tally)
        else:
            by_name = alike_descriptions(self, self._names, settings.threshold, self.tally)
        if settings.one_to_one:
            found = {(one.left.key, one.right.key): one for one in by_name}
            chosen = likeliest({pair: one.probability for pair, one in found.items()}, verdicts)
            by_name = (one for pair, one in found.items() if pair in chosen)
        yield from by_name

    def weigh(self, verdicts: Verdicts) -> Weighing:
        """All pairs that are proposed or were judged, weighed."""
        evidence = {name: make() for name, make in self._tools.evidence.items()}
        weighing = Weighing(
            self, evidence, self._tools.model, self._scratch, self.tally, self._steps
        )
        weighing.run(verdicts)
        return weighing

    def verdicts(self) -> Verdicts:
        """What was said of pairs of these KBs, by their keys."""
        judged = self._tools.store.overlaps(self.left, self.right, judged=True)
        return {(one.left.key, one.right.key): one.verdict for one in judged if one.verdict}

    def run(self, store: Store, kept: int) -> OverlapRun | None:
        """The record of this search; None where a KB changed in the store while it ran."""
        now = {info.name: info for info in store.kbs()}
        self._changed = [info.name for info in self.infos if now.get(info.name) != info]
        if self._changed:
            return None
        return self._tools.run_of(*self.infos, self.tally.candidates, kept)

    def notes(self) -> Iterator[str]:
        """What was passed over or left out."""
        for name in self._changed:
            yield f"{name} has changed while it was searched: the next search does it again"
        if passed_over := self._names.note():
            yield passed_over
        if self.tally.missing:
            yield f"{self.tally.missing:,} pairs name entities that are not in these KBs"
        if self._tools.settings.method == "names":
            return
        if self.tally.undescribed:
            used = "their titles, types and other names were compared instead"
            if self._tools.is_full:
                used = f"what was left is {_listed(self.tally.used_undescribed) or 'nothing'}"
            lacking = f"{self.tally.undescribed:,} of {self.tally.candidates:,} pairs lack a"
            yield f"{lacking} description: {used}"
        if self._tools.is_full:
            yield from self._notes_of_evidence()

    def _notes_of_evidence(self) -> Iterator[str]:
        if not self.tally.candidates:
            yield f"none of the evidence in use proposed a pair: {_listed(self._tools.evidence)}"
        for info in self.infos:
            if not info.with_description:
                yield f"no entity of {info.name} has a description"
            if not self._tools.space.ready(info.name):
                yield (
                    f"the vectors of {info.name} are not built, and are more than "
                    "overlap.max_encoded_rows: neighbours were left out; `kglink build` makes "
                    "them, if the space's model is overlap.model"
                )
        if self.tally.unweighed:
            names = ", ".join(sorted(self.tally.unweighed))
            yield f"the model has no weight for {names}: `kglink overlap train` finds one"


def _listed(evidence: Iterable[str]) -> str:
    return ", ".join(name.removeprefix("kglink/") for name in evidence)


def _believed(overlap: Overlap) -> float:
    if overlap.verdict == "correct":
        return 1.0
    return 0.0 if overlap.verdict == "wrong" else overlap.probability


#: Verdicts of each kind, at least, without which nothing can be learnt.
LEAST_VERDICTS = 5
#: Fewer pairs judged wrong than this: the rivals of pairs judged correct stand in for them.
FEW_WRONG = 20
#: How much a rival counts against a pair that somebody judged.
RIVAL_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Training:
    """A model, and what it was trained on."""

    model: OverlapModel
    correct: int
    wrong: int
    rivals: int
    """Pairs taken for wrong because one of their entities is in a pair judged correct."""
    kbs: tuple[tuple[str, str], ...]


def _too_few(correct: int, wrong: int) -> UsageError:
    return UsageError(
        f"{correct} pairs are judged correct and {wrong} wrong: too few to learn from",
        hint=f"Judge at least {LEAST_VERDICTS} of each with `kglink overlap review KB KB`, "
        "or import a list.",
    )


def train(
    tools: OverlapTools, *, prior: OverlapModel, progress: OnProgress = lambda _: None
) -> Training:
    """Fit a model to all verdicts of the store; an unclear one teaches nothing.

    The evidence is weighed anew for every two KBs with verdicts, so that pairs which no search
    had found teach as well. A list of correct pairs alone, such as an imported one, says what is
    wrong by what it does not hold: other pairs of the same entities.
    """
    values: list[Values] = []
    said: list[bool] = []
    rivals: list[Values] = []
    judged, known = Counter[tuple[str, str]](), 0
    for one in tools.store.overlaps(judged=True):
        if one.verdict != "unclear":
            known += 1
            left, right = sorted((one.left.kb, one.right.kb))
            judged[left, right] += one.verdict == "correct"
    if (correct := judged.total()) < LEAST_VERDICTS:  # weighing would change nothing
        raise _too_few(correct, known - correct)
    for left, right in judged:
        with open_search(tools, left, right, progress) as search:
            verdicts = search.verdicts()
            correct_pairs = [pair for pair, verdict in verdicts.items() if verdict == "correct"]
            lefts, rights = ({pair[side] for pair in correct_pairs} for side in (0, 1))
            for pair in chain.from_iterable(search.weigh(verdicts).scratch.batches(0.0)):
                verdict = verdicts.get((pair.left, pair.right))
                if verdict in ("correct", "wrong"):
                    values.append(pair.evidence)
                    said.append(verdict == "correct")
                elif verdict is None and (pair.left in lefts or pair.right in rights):
                    rivals.append(pair.evidence)
    correct, wrong = sum(said), said.count(False)
    if wrong >= FEW_WRONG:
        rivals = []
    if correct < LEAST_VERDICTS or wrong + len(rivals) < LEAST_VERDICTS:
        raise _too_few(correct, wrong)
    model = fit(
        [*values, *rivals],
        [*said, *(False for _ in rivals)],
        prior,
        evidence=tuple(tools.evidence),
        sample_weights=[*(1.0 for _ in values), *(RIVAL_WEIGHT for _ in rivals)],
    )
    model = model.model_copy(update={"correct": correct, "wrong": wrong})
    return Training(model, correct, wrong, len(rivals), tuple(judged))
