"""How near the counterparts of a joint space are: MRR and ACS over its accepted overlaps.

Each overlap asks twice, once from each side: the query is the text vector of one member, the
answer is the other, and all entities of the space are ranked by the cosine of their text vectors.
The paper asks with the member of its target KB and leaves the query itself in the ranking, where
it stands first, so that no MRR is above 1/2; the figure without it is given beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from kglink.arrays import DoubleArray, FloatArray, IntArray
from kglink.errors import SpaceError
from kglink.evaluation.significance import ROUNDS, RandomizationTest, randomization_test
from kglink.records import OnProgress, Progress
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.store import Store

#: A pair that nobody judged is accepted from this probability on.
LEAST_PROBABILITY = 0.5

#: What is measured of each overlap.
FIGURES = ("MRR", "MRR_without_self", "ACS")

#: Queries and rows that are compared at a time: they bound the memory.
_QUERIES, _ROWS = 1024, 8192
#: Cosines that differ by less are equal: the last bits of a product depend on its place in a block.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class OverlapFigures:
    """The overlaps of two KBs, asked for with the members of one of them."""

    queries: str
    answers: str
    overlaps: int
    mrr: float
    """Mean of 1 / rank of the counterpart, the query itself at rank 1, as in the paper."""
    mrr_without_self: float
    """The same without the query in the ranking."""
    acs: float
    """Average cosine similarity of the two members."""

    def as_json(self) -> dict[str, object]:
        """As ``kglink eval --json`` prints it."""
        values = asdict(self)
        names = {"mrr": "MRR", "mrr_without_self": "MRR_without_self", "acs": "ACS"}
        return {names.get(name, name): value for name, value in values.items()}


class Side(NamedTuple):
    """One member of each pair: rows of one KB's texts."""

    kb: str
    rows: IntArray


def evaluate_overlaps(
    space: Space,
    store: Store,
    kbs: Sequence[str],
    *,
    least: float = LEAST_PROBABILITY,
    progress: OnProgress = lambda _: None,
) -> list[OverlapFigures]:
    """MRR and ACS of each two KBs that have accepted overlaps, asked from both sides.

    The ranked entities are those of ``kbs``. Overlaps of entities that the space does not hold
    are passed over.
    """
    _check_texts(space)
    segments = {kb: space.segments[kb] for kb in kbs}
    found = []
    for left, right in combinations(kbs, 2):
        sides = _accepted(store, segments[left], segments[right], least)
        if not len(sides[0].rows):
            continue
        # The later KB asks first: the papers' source KB is there before their targets.
        for queries, answers in (sides[::-1], sides):
            means = (
                float(one.mean()) for one in _values(segments, queries, answers, progress=progress)
            )
            found.append(OverlapFigures(queries.kb, answers.kb, len(queries.rows), *means))
    return found


def overlap_values(
    space: Space, store: Store, *, queries: str, answers: str, least: float = LEAST_PROBABILITY
) -> dict[str, DoubleArray]:
    """The `FIGURES` of each accepted overlap of two KBs, all entities of both ranked."""
    _check_texts(space)
    segments = {kb: space.segments[kb] for kb in space.segments if kb in (queries, answers)}
    right, asking = _accepted(store, segments[answers], segments[queries], least)
    if not len(asking.rows):
        raise SpaceError(
            f"{queries} and {answers} have no accepted overlap",
            hint=f"`kglink overlap {answers} {queries}` looks for some.",
        )
    return dict(zip(FIGURES, _values(segments, asking, right), strict=True))


@dataclass(frozen=True, slots=True)
class OverlapTest:
    """One figure of the overlaps that two spaces both hold; the other space is on the right."""

    queries: str
    answers: str
    figure: str
    test: RandomizationTest

    def as_json(self) -> dict[str, object]:
        """As ``kglink eval --json`` prints it."""
        names = {"queries": self.queries, "answers": self.answers, "figure": self.figure}
        return {**names, **self.test.as_json()}


def compare_overlaps(
    spaces: tuple[Space, Space],
    store: Store,
    kbs: Sequence[str],
    *,
    least: float = LEAST_PROBABILITY,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> list[OverlapTest]:
    """Test MRR and ACS of one space against those of another, overlap by overlap."""
    for space in spaces:
        _check_texts(space)
    both = [kb for kb in kbs if all(kb in space.segments for space in spaces)]
    parts = [{kb: space.segments[kb] for kb in both} for space in spaces]
    found = []
    for left, right in combinations(both, 2):
        sides = [_accepted(store, part[left], part[right], least) for part in parts]
        # The keys of both members of each overlap.
        pairs = [
            [
                (part[left].keys[one], part[right].keys[other])
                for one, other in zip(own[0].rows.tolist(), own[1].rows.tolist(), strict=True)
            ]
            for part, own in zip(parts, sides, strict=True)
        ]
        shared = set(pairs[0]) & set(pairs[1])
        if not shared:
            continue
        kept = [[pair in shared for pair in own] for own in pairs]
        for queries, answers in ((1, 0), (0, 1)):
            values = [
                _values(part, *(Side(own[at].kb, own[at].rows[mask]) for at in (queries, answers)))
                for part, own, mask in zip(parts, sides, kept, strict=True)
            ]
            names = sides[0][queries].kb, sides[0][answers].kb
            for figure, ours, theirs in zip(FIGURES, *values, strict=True):
                test = randomization_test(ours, theirs, rounds=rounds, seed=seed)
                found.append(OverlapTest(*names, figure, test))
    return found


def _values(
    segments: Mapping[str, Segment],
    queries: Side,
    answers: Side,
    *,
    progress: OnProgress = lambda _: None,
) -> list[DoubleArray]:
    """The `FIGURES` of each overlap, whose means are those of `OverlapFigures`."""
    found, done = [], 0
    for part in ranks_of_counterparts(segments, queries, answers):
        found.append(part)
        done += len(part[0])
        progress(Progress(f"overlaps of {queries.kb} and {answers.kb}", done, len(queries.rows)))
    ranks = np.concatenate([part for part, _ in found])
    cosines = np.concatenate([part for _, part in found]).astype(np.float64)
    # Nothing is nearer to the query than itself, and of equals it is first.
    return [1 / (ranks + 1), 1 / ranks, cosines]


def ranks_of_counterparts(
    segments: Mapping[str, Segment], queries: Side, answers: Side
) -> Iterator[tuple[IntArray, FloatArray]]:
    """For some pairs after the other: ranks without the query itself, and cosines of the pairs.

    Of equal cosines the earlier KB, then the smaller row comes first.
    """
    order = list(segments)
    earlier = order[: order.index(answers.kb)]
    for first in range(0, len(queries.rows), _QUERIES):
        part = slice(first, first + _QUERIES)
        asking, right = queries.rows[part], answers.rows[part]
        vectors = _unit(segments[queries.kb].vectors("text", asking))
        cosines = np.einsum("pd,pd->p", vectors, _unit(segments[answers.kb].vectors("text", right)))
        ahead = np.zeros(len(asking), dtype=np.int64)
        for kb, segment in segments.items():
            # The row that an answer would have in this KB: rows before it win ties with it.
            border = np.array([segment.row_count("text") if kb in earlier else 0])
            place = right if kb == answers.kb else border
            for start in range(0, segment.row_count("text"), _ROWS):
                rows = _unit(segment.vectors("text", slice(start, start + _ROWS)))
                scores = vectors @ rows.T
                if kb == queries.kb:
                    columns = asking - start
                    here = np.flatnonzero((columns >= 0) & (columns < scores.shape[1]))
                    scores[here, columns[here]] = -np.inf
                # How many of a block come before each answer; columns below ``before`` win ties.
                before = place - start
                difference = scores - cosines[:, None]
                larger = difference > _ROUNDING
                equal = np.abs(difference) <= _ROUNDING
                wins = np.arange(scores.shape[1]) < before[:, None]
                count: IntArray = (larger | (equal & wins)).sum(axis=1)
                ahead += count
        yield ahead + 1, cosines


def _check_texts(space: Space) -> None:
    if not space.has_rows("text"):
        raise SpaceError(
            f"space {space.folder.name!r} has no vectors of texts, which overlaps are compared by",
            hint='Build it with space.rows = ["text", "alias"].',
        )


def _accepted(store: Store, left: Segment, right: Segment, least: float) -> tuple[Side, Side]:
    """The accepted pairs of two KBs as rows, in the order of their names."""
    pairs = [
        (left.row(overlap.left.key), right.row(overlap.right.key))
        for overlap in store.overlaps(left.kb, right.kb)
        if overlap.is_accepted(least)
    ]
    rows = np.array([pair for pair in pairs if min(pair) >= 0], np.int64).reshape(-1, 2)
    return Side(left.kb, rows[:, 0]), Side(right.kb, rows[:, 1])


def _unit(vectors: FloatArray) -> FloatArray:
    """The same directions with length one; a vector of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
