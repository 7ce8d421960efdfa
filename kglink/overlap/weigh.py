"""All evidence of two KBs, weighed pair by pair into one probability; one-to-one assignment.

At the end the two methods without a model: a shared name, and the paper's filter by descriptions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, islice

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kglink.arrays import BoolArray, DoubleArray, IntArray
from kglink.config import OverlapSection
from kglink.errors import PluginError, errors_of
from kglink.overlap.model import OverlapModel
from kglink.overlap.names import NamedPair, folded_names
from kglink.overlap.scratch import ScratchPair, ScratchPairs
from kglink.plugins import EntityPair, PairedKBs, PairEvidence
from kglink.records import EntityId, OnProgress, Overlap, Progress, Verdict
from kglink.text.entity_text import entity_text

#: Bit in ``proposers`` of pairs judged before: they are weighed even if nothing proposes them.
JUDGED_BIT = 62
#: Digits of values that are kept.
DIGITS = 4

Verdicts = Mapping[tuple[str, str], Verdict]


@dataclass(slots=True)
class SearchCounts:
    """What a search counts as it goes."""

    candidates: int = 0
    by_name: int = 0
    by_meaning_only: int = 0
    undescribed: int = 0
    """Pairs of which one or both lack a description."""
    used_undescribed: dict[str, None] = field(default_factory=dict)
    """The evidence that knew something of such pairs."""
    missing: int = 0
    unweighed: set[str] = field(default_factory=set)
    proposed_by: Counter[str] = field(default_factory=Counter)


class Steps:
    """Reports the progress of one step after the other."""

    def __init__(self, tell: OnProgress, of: str = "") -> None:
        self._tell = tell
        self._of = f"{of}: " if of else ""
        self._now = Progress("")

    def begin(self, name: str, total: int = 0) -> None:
        """Begin a step."""
        self._now = Progress(f"{self._of}{name}", 0, total)
        self._tell(self._now)

    def add(self, count: int) -> None:
        """Report that ``count`` more are done."""
        self.reach(replace(self._now, done=self._now.done + count))

    def reach(self, part: Progress) -> None:
        """Report how far a part of this step is, which has another name for it."""
        self._now = replace(self._now, done=part.done, total=part.total)
        self._tell(self._now)


@dataclass(frozen=True, slots=True)
class Weighing:
    """The evidence for two KBs, by name, and the model that adds it up."""

    kbs: PairedKBs
    evidence: Mapping[str, PairEvidence]
    model: OverlapModel
    scratch: ScratchPairs
    tally: SearchCounts
    steps: Steps

    def run(self, judged: Iterable[tuple[str, str]]) -> None:
        """Propose, weigh, and weigh again with what the first pass found."""
        again = False
        for number, (name, evidence) in enumerate(self.evidence.items()):
            self.steps.begin(f"{name} looks for pairs")
            with errors_of(f"evidence {name!r}"):
                again |= evidence.second_pass
                self.scratch.propose(evidence.propose(self.kbs), number)
        self.scratch.propose(judged, JUDGED_BIT)
        self.tally.candidates = len(self.scratch)
        self.steps.begin("weighing", self.tally.candidates)
        self._weigh(second_pass=False)
        self.scratch.finish_pass()
        if again:
            self.steps.begin("weighing again", self.tally.candidates)
            self._weigh(second_pass=True)

    def kept(self, threshold: float, verdicts: Verdicts, *, one_to_one: bool) -> Iterator[Overlap]:
        """The pairs of at least this probability, in the order of their keys."""
        chosen = None
        if one_to_one:
            pairs = chain.from_iterable(self.scratch.batches(threshold))
            found = {(pair.left, pair.right): pair.probability for pair in pairs}
            chosen = likeliest(found, verdicts, threshold)
        for batch in self.scratch.batches(threshold):
            for pair in batch:
                if pair.proposers == 1 << JUDGED_BIT:  # Weighed to teach; no search has found it.
                    continue
                if chosen is None or (pair.left, pair.right) in chosen:
                    self.tally.by_name += pair.shares_name
                    self.tally.by_meaning_only += not pair.shares_name
                    for number, name in enumerate(self.evidence):
                        if pair.proposers >> number & 1:
                            self.tally.proposed_by[name] += 1
                    yield Overlap(
                        EntityId(self.kbs.left, pair.left),
                        EntityId(self.kbs.right, pair.right),
                        pair.probability,
                        pair.evidence,
                    )

    def _weigh(self, *, second_pass: bool) -> None:
        chosen = {
            name: evidence
            for name, evidence in self.evidence.items()
            if evidence.second_pass == second_pass
        }
        for batch in self.scratch.batches():
            lefts = self.kbs.get("left", dict.fromkeys(pair.left for pair in batch))
            rights = self.kbs.get("right", dict.fromkeys(pair.right for pair in batch))
            known = [
                (pair, EntityPair(lefts[pair.left], rights[pair.right]))
                for pair in batch
                if pair.left in lefts and pair.right in rights
            ]
            both = [entities for _, entities in known]
            lacking = [not (pair.left.description and pair.right.description) for pair in both]
            # The values of all evidence for each pair; some pairs are lacking a description.
            values: list[dict[str, float]] = [{} for _ in both]
            for name, one in chosen.items():
                with errors_of(f"evidence {name!r}"):
                    found = one.weigh(self.kbs, both)
                    _add_values(values, found, name)
                if any(compress(found, lacking)):
                    self.tally.used_undescribed[name] = None
            self.scratch.put(self._put(known, values, second_pass), second=second_pass)
            if not second_pass:
                self.tally.missing += len(batch) - len(known)
                self.tally.undescribed += sum(lacking)
            self.steps.add(len(batch))
        if second_pass:
            self.scratch.take_second()

    def _put(
        self,
        known: Sequence[tuple[ScratchPair, EntityPair]],
        values: Sequence[dict[str, float]],
        second_pass: bool,
    ) -> Iterator[ScratchPair]:
        names: dict[str, set[str]] = {}
        for (pair, entities), found in zip(known, values, strict=True):
            evidence = {**pair.evidence, **found}
            self.tally.unweighed.update(found.keys() - self.model.weights.keys())
            probability = round(self.model.probability(evidence), DIGITS)
            shares_name = pair.shares_name
            if not second_pass:
                # Pairs come in the order of their left keys: one entity, many pairs.
                if pair.left not in names:
                    names = {pair.left: set(folded_names(entities.left))}
                shares_name = not names[pair.left].isdisjoint(folded_names(entities.right))
            yield pair._replace(shares_name=shares_name, probability=probability, evidence=evidence)


def likeliest(
    found: Mapping[tuple[str, str], float], verdicts: Verdicts, least: float = 0.5
) -> set[tuple[str, str]]:
    """The likeliest pairs in which no entity is twice; what people said of a pair comes first.

    What they call correct takes its entities whether it was found or not.
    """
    sure = dict.fromkeys((pair for pair, said in verdicts.items() if said == "correct"), 1.0)
    known = {**found, **sure}
    pairs = [pair for pair in known if verdicts.get(pair) != "wrong"]
    probabilities = [known[pair] for pair in pairs]
    lefts, rights = [left for left, _ in pairs], [right for _, right in pairs]
    kept = assign_one_to_one(lefts, rights, probabilities, least)
    return {pair for pair, is_kept in zip(pairs, kept.tolist(), strict=True) if is_kept}


def _add_values(
    values: Sequence[dict[str, float]], found: Sequence[Mapping[str, float]], evidence: str
) -> None:
    """Add what evidence knows of each pair, checked."""
    if len(found) != len(values):
        raise PluginError(
            f"evidence {evidence!r} weighs {len(values)} pairs and answers for {len(found)}",
            hint="It must answer for every pair, with an empty mapping where it knows nothing.",
        )
    for known, new in zip(values, found, strict=True):
        for name, value in new.items():
            rounded = round(float(value), DIGITS)
            if not (isinstance(name, str) and -1 <= rounded <= 1):  # not a number fails here too
                raise PluginError(
                    f"evidence {evidence!r} gives {name!r} the value {value}",
                    hint="A value has a name, a text, and lies between -1 and 1.",
                )
            if name in known:
                raise PluginError(
                    f"evidence {evidence!r} gives a value {name!r}, which other evidence gives "
                    "as well",
                    hint="Leave one of the two out of overlap.evidence.",
                )
            known[name] = rounded


#: Cells of the matrix that is solved exactly; beyond it pairs are taken greedily.
MOST_CELLS = 1_000_000
_LEAST_ODDS = 1e-6
#: A pair counts a little however close it is to the least probability.
_SMALL = 1e-3


def assign_one_to_one(
    lefts: Sequence[str], rights: Sequence[str], probabilities: Sequence[float], least: float
) -> BoolArray:
    """Which of the pairs (left i, right i) are kept."""
    kept = np.zeros(len(lefts), bool)
    if not len(lefts):
        return kept
    _, left = np.unique(np.asarray(lefts, object), return_inverse=True)
    _, right = np.unique(np.asarray(rights, object), return_inverse=True)
    bounded = np.clip(np.asarray(probabilities, np.float64), _LEAST_ODDS, 1 - _LEAST_ODDS)
    floor = min(max(least, _LEAST_ODDS), 1 - _LEAST_ODDS)
    odds = np.log(bounded / (1 - bounded)) - math.log(floor / (1 - floor))
    weights: DoubleArray = np.maximum(odds, 0) + _SMALL
    # The pairs of each connected component are chosen by themselves.
    size = int(left.max()) + 1, int(right.max()) + 1
    edges = coo_matrix((np.ones(len(left)), (left, right + size[0])), shape=(sum(size),) * 2)
    labels: IntArray = connected_components(edges, directed=False)[1][left]
    order = np.argsort(labels, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        kept[rows[_best(left[rows], right[rows], weights[rows])]] = True
    return kept


def _best(left: IntArray, right: IntArray, weights: DoubleArray) -> IntArray:
    """The pairs of one component that are kept."""
    if len(left) == 1:
        return np.zeros(1, np.int64)
    _, row = np.unique(left, return_inverse=True)
    _, column = np.unique(right, return_inverse=True)
    rows, columns = int(row.max()) + 1, int(column.max()) + 1
    if rows * columns > MOST_CELLS:
        return _greedy(row, column, weights)
    matrix = np.zeros((rows, columns))
    matrix[row, column] = weights
    chosen = linear_sum_assignment(matrix, maximize=True)
    taken = set(zip(*(side.tolist() for side in chosen), strict=True))
    # A cell without a pair is worth nothing: it stands for leaving both entities alone.
    pairs = enumerate(zip(row.tolist(), column.tolist(), strict=True))
    return np.array([at for at, pair in pairs if pair in taken], np.int64)


def _greedy(row: IntArray, column: IntArray, weights: DoubleArray) -> IntArray:
    rows: set[int] = set()
    columns: set[int] = set()
    kept = []
    for at in np.lexsort((column, row, -weights)).tolist():
        if row[at] not in rows and column[at] not in columns:
            rows.add(int(row[at]))
            columns.add(int(column[at]))
            kept.append(at)
    return np.array(kept, np.int64)


# --------------------------------------------------------------------------- without a model
#: Pairs that are read, encoded and compared together.
BATCH_PAIRS = 4096
#: What a shared name alone is worth: of the pairs of DOID and NCIT that share one, 92% are right.
NAME_PROBABILITY = 0.9
#: The least cosine of the paper.
PAPER_THRESHOLD = 0.5


def same_names(
    kbs: PairedKBs, names: Iterable[NamedPair], tally: SearchCounts
) -> Iterator[Overlap]:
    """All pairs that share a name."""
    for pair in names:
        tally.candidates += 1
        yield _overlap(kbs, pair, NAME_PROBABILITY, {})


def alike_descriptions(
    kbs: PairedKBs, names: Iterable[NamedPair], threshold: float, tally: SearchCounts
) -> Iterator[Overlap]:
    """The pairs that share a name and whose descriptions have at least this cosine.

    Where one of the two has no description, the texts of both (title, type, other names,
    description) are compared instead, and the evidence says so. The probability rises in a
    straight line from .5 at the threshold to 1 at cosine 1; it is not calibrated.
    """
    pairs = iter(names)
    while batch := list(islice(pairs, BATCH_PAIRS)):
        tally.candidates += len(batch)
        lefts = kbs.get("left", dict.fromkeys(pair.left for pair in batch))
        rights = kbs.get("right", dict.fromkeys(pair.right for pair in batch))
        there = [pair for pair in batch if pair.left in lefts and pair.right in rights]
        kinds, texts = [], []
        for pair in there:
            both = lefts[pair.left], rights[pair.right]
            described = all(one.description for one in both)
            tally.undescribed += not described
            kinds.append("description" if described else "text")
            texts += [one.description if described else entity_text(one) for one in both]
        for pair, kind, cosine in zip(there, kinds, cosines(kbs, texts), strict=True):
            if cosine >= threshold:
                probability = 0.5 + 0.5 * (cosine - threshold) / max(1 - threshold, 1e-6)
                evidence = {kind: round(cosine, 4)}
                yield _overlap(kbs, pair, round(min(1.0, probability), 4), evidence)


#: The encoder with which the paper says that 0.5 parts descriptions.
PAPER_ENCODER = "RoBERTa-large (Sentence-BERT)"


def differences(settings: OverlapSection) -> list[str]:
    """What a search by the paper's method does otherwise than the paper."""
    found = [f"encoder {settings.model}, and the paper's is {PAPER_ENCODER}: overlap.model"]
    if settings.threshold != PAPER_THRESHOLD:
        found.append(f"threshold {settings.threshold:g}, and the paper's is {PAPER_THRESHOLD:g}")
    if settings.names != "strict":
        found.append(f"names are equal when {settings.names}, and the paper's strictly")
    if settings.name_kinds not in ((), ("title",)):
        found.append(f"names are {', '.join(settings.name_kinds)}, and the paper's are titles")
    if settings.one_to_one:
        found.append("one to one, and the paper's many to many")
    return found


def cosines(kbs: PairedKBs, texts: Sequence[str]) -> list[float]:
    """The cosines of texts 0 and 1, 2 and 3, and so on."""
    if not texts:
        return []
    vectors = kbs.encode(texts)
    products = np.einsum("nd,nd->n", vectors[0::2], vectors[1::2])
    return [float(value) for value in np.clip(products, -1, 1)]


def _overlap(
    kbs: PairedKBs, pair: NamedPair, probability: float, evidence: dict[str, float]
) -> Overlap:
    return Overlap(
        EntityId(kbs.left, pair.left),
        EntityId(kbs.right, pair.right),
        probability,
        {"shared_names": float(len(pair.names)), **evidence},
    )
