"""MRR and ACS of overlaps: by hand, on perfect spaces, and against every cosine there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kglink.errors import SpaceError
from kglink.evaluation.measures import overlaps as overlaps_module
from kglink.evaluation.measures.overlaps import (
    FIGURES,
    OverlapFigures,
    compare_overlaps,
    evaluate_overlaps,
)
from kglink.records import EntityId, Overlap
from kglink.space.folder import SpaceFolder
from kglink.space.manifest import RowKind
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.store import Store
from kglink.workspace import Workspace
from store_support import entity, job

FloatArray = npt.NDArray[np.float32]
#: Rows of each KB's texts, the first of key 0.
Rows = Mapping[str, Sequence[Sequence[float]]]
StoreOf = Callable[[Rows, Sequence[Overlap]], Store]
FiguresOf = Callable[[Rows, Sequence[Overlap]], dict[tuple[str, str], OverlapFigures]]


class Keys(list[str]):
    """Keys in their order."""

    def find(self, text: str) -> int:
        """The place of a key; -1 if it is not there."""
        return self.index(text) if text in self else -1


class Texts(Segment):
    """A KB of which only the text vectors are known."""

    def __init__(self, kb: str, rows: Sequence[Sequence[float]]) -> None:
        self.kb = kb
        self.keys: Any = Keys(str(at) for at in range(len(rows)))
        self._vectors = {"text": np.array(rows, np.float16)}


class HandMadeSpace(Space):
    """A space of such KBs."""

    def __init__(self, rows: Rows, kinds: Sequence[RowKind] = ("text",)) -> None:
        self.folder = SpaceFolder(Path(), "made")
        self.segments = {kb: Texts(kb, vectors) for kb, vectors in rows.items()}
        self._kinds = kinds

    def has_rows(self, kind: RowKind, kb: str = "") -> bool:
        return kind in self._kinds


@pytest.fixture
def store_of(tmp_path: Path) -> Iterator[StoreOf]:
    """Makes a store with some KBs and overlaps."""
    with ExitStack() as opened:
        numbers = count()

        def make(rows: Rows, pairs: Sequence[Overlap]) -> Store:
            url = f"sqlite:///{tmp_path}/{next(numbers)}.db"
            store = opened.enter_context(Store.open(url))
            for kb, vectors in rows.items():
                records = [entity(str(at)) for at in range(len(vectors))]
                store.ingest(job(kb, fingerprint=kb), records)
            for left, right in sorted({(one.left.kb, one.right.kb) for one in pairs}):
                own = [one for one in pairs if (one.left.kb, one.right.kb) == (left, right)]
                store.save_overlaps(left, right, own)
            return store

        yield make


@pytest.fixture
def figures(store_of: StoreOf) -> FiguresOf:
    """Evaluates a hand-made space: the figures by who asks and who answers."""

    def evaluated(rows: Rows, pairs: Sequence[Overlap]) -> dict[tuple[str, str], OverlapFigures]:
        found = evaluate_overlaps(HandMadeSpace(rows), store_of(rows, pairs), list(rows))
        return {(one.queries, one.answers): one for one in found}

    return evaluated


def pair(left: str, right: str, probability: float = 0.9, **said: str) -> Overlap:
    return Overlap(EntityId.parse(left), EntityId.parse(right), probability, **said)  # type: ignore[arg-type]  # a verdict


def test_three_overlaps_by_hand(figures: FiguresOf) -> None:
    # Directions at 0, 90 and 180 degrees; b:0 lies on a:0, b:1 between a:1 and a:0, b:2 on a:1.
    rows = {"a": [[1, 0], [0, 2], [-3, 0]], "b": [[2, 0], [3, 4], [0, 1]]}
    found = figures(rows, [pair("a:0", "b:0"), pair("a:1", "b:1"), pair("a:2", "b:2")])
    asked = found["b", "a"]
    # From b:0 its a:0 is first. From b:1 (.6, .8): a:1 and b:2 (.8 each), a:0 and b:0 (.6 each):
    # a comes before b, so a:1 is first. From b:2 (0, 1): a:1, b:1, then at 0 a:0 before a:2.
    assert asked.mrr_without_self == pytest.approx((1 + 1 + 1 / 4) / 3)
    assert asked.mrr == pytest.approx((1 / 2 + 1 / 2 + 1 / 5) / 3)
    back = found["a", "b"]
    # From a:0: b:0. From a:1: b:2, then b:1 (.8). From a:2: at 0 a:1 and b:2, a:1 first.
    assert back.mrr_without_self == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert back.mrr == pytest.approx((1 / 2 + 1 / 3 + 1 / 3) / 3)
    assert asked.acs == back.acs == pytest.approx((1 + 0.8 + 0) / 3)
    assert asked.overlaps == back.overlaps == 3
    assert list(found) == [("b", "a"), ("a", "b")]


def test_a_perfect_space_has_one_half_with_itself_and_one_without(figures: FiguresOf) -> None:
    vectors = np.eye(6).tolist()
    rows = {"a": vectors, "b": vectors, "c": (-np.eye(6)).tolist()}
    for one in figures(rows, [pair(f"a:{at}", f"b:{at}") for at in range(6)]).values():
        assert one.mrr == 0.5
        assert one.mrr_without_self == 1.0
        assert one.acs == pytest.approx(1.0)


def test_lengths_do_not_matter_and_zeros_are_no_direction(figures: FiguresOf) -> None:
    rng = np.random.default_rng(3)
    plain = rng.normal(size=(2, 8, 4))
    longer = plain * rng.uniform(0.5, 8, size=(2, 8, 1))
    pairs = [pair(f"a:{at}", f"b:{at}") for at in range(7)]
    first = figures({"a": plain[0].tolist(), "b": plain[1].tolist()}, pairs)
    second = figures({"a": longer[0].tolist(), "b": longer[1].tolist()}, pairs)
    for place, one in first.items():
        assert one.mrr == second[place].mrr
        assert one.acs == pytest.approx(second[place].acs, abs=1e-3)
    nothing = figures({"a": [[0, 0], [1, 0]], "b": [[0, 1], [1, 1]]}, [pair("a:0", "b:0")])
    assert nothing["a", "b"].acs == 0


def test_two_spaces_are_tested_overlap_by_overlap(store_of: StoreOf) -> None:
    """The means are those of the figures, of the overlaps that both hold; p against all flips."""
    rng = np.random.default_rng(8)
    near = rng.normal(size=(9, 6))
    rows = {"a": near.tolist(), "b": (near + rng.normal(size=(9, 6)) / 4).tolist()}
    worse = {"a": rng.normal(size=(9, 6)).tolist(), "b": rng.normal(size=(8, 6)).tolist()}
    pairs = [pair(f"a:{at}", f"b:{at}") for at in range(9)]
    store = store_of(rows, pairs)
    spaces = HandMadeSpace(rows), HandMadeSpace(worse)
    tests = compare_overlaps(spaces, store, ["a", "b"], rounds=4000)
    assert [(one.queries, one.answers, one.figure) for one in tests] == [
        *(("b", "a", name) for name in FIGURES),
        *(("a", "b", name) for name in FIGURES),
    ]
    kept = {one.left.key for one in pairs[:8]}
    for one in tests:
        assert one.test.items == len(kept) == 8
        sides = {"MRR": "mrr", "MRR_without_self": "mrr_without_self", "ACS": "acs"}
        there = evaluate_overlaps(spaces[1], store, ["a", "b"])
        by_side = {(own.queries, own.answers): own for own in there}
        wanted = getattr(by_side[one.queries, one.answers], sides[one.figure])
        assert one.test.right == pytest.approx(wanted)
    acs = tests[2].test
    cosines = []
    for own in (rows, worse):
        x, y = (np.array(own[kb])[:8].astype(np.float16).astype(float) for kb in "ab")
        lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        cosines.append((x * y).sum(axis=1) / lengths)
    differences = cosines[0] - cosines[1]
    flips = np.array(list(product([1, -1], repeat=8))) @ differences
    exact = (np.abs(flips) >= abs(differences.sum()) - 1e-9).mean()
    assert acs.difference == pytest.approx(differences.mean(), abs=1e-3)
    assert acs.p == pytest.approx(exact, abs=0.02)
    assert acs.is_significant()
    same = compare_overlaps((spaces[0], spaces[0]), store, ["a", "b"])
    assert {one.test.p for one in same} == {1.0}


def test_what_is_accepted_counts_and_nothing_else(figures: FiguresOf) -> None:
    rows = {"a": np.eye(5).tolist(), "b": np.eye(5).tolist()}
    pairs = [
        pair("a:0", "b:0", 0.5),
        pair("a:1", "b:1", 0.49),
        pair("a:2", "b:2", 0.1, verdict="correct"),
        pair("a:3", "b:3", 0.99, verdict="wrong"),
        pair("a:4", "b:4", 0.8, verdict="unclear"),
    ]
    assert {one.overlaps for one in figures(rows, pairs).values()} == {3}


def test_only_the_wanted_kbs_are_ranked_and_what_the_space_lacks_is_passed_over(
    store_of: StoreOf,
) -> None:
    rows = {"a": [[1, 0], [0, 1]], "b": [[1, 1], [0, 1]], "c": [[1, 0]]}
    stored = {**rows, "b": [*rows["b"], [0, 0]]}
    store = store_of(stored, [pair("a:0", "b:0"), pair("a:1", "b:2")])
    space = HandMadeSpace(rows)
    both = evaluate_overlaps(space, store, ["a", "b"])
    all_three = evaluate_overlaps(space, store, ["a", "b", "c"])
    assert evaluate_overlaps(space, store, ["a", "c"]) == []
    # c:0 lies where a:0 does, and stands before b:0 in its ranking.
    assert [one.mrr_without_self for one in both] == [1, 1]
    assert [one.mrr_without_self for one in all_three] == [1, 1 / 2]
    assert [one.overlaps for one in all_three] == [1, 1]


def test_a_space_without_texts_is_refused(store_of: StoreOf) -> None:
    rows = {"a": [[1.0]], "b": [[1.0]]}
    with pytest.raises(SpaceError, match="no vectors of texts"):
        evaluate_overlaps(HandMadeSpace(rows, ["alias"]), store_of(rows, []), ["a", "b"])


def brute_force(rows: Mapping[str, FloatArray], query: EntityId, answer: EntityId) -> int:
    """The rank of an answer by every cosine in double precision; the query is left out."""

    def unit(vector: FloatArray) -> npt.NDArray[np.float64]:
        double = vector.astype(np.float64)
        scaled: npt.NDArray[np.float64] = double / np.sqrt((double * double).sum())
        return scaled

    asked = unit(rows[query.kb][int(query.key)])
    names = [EntityId(kb, str(at)) for kb, found in rows.items() for at in range(len(found))]
    cosines = [round(float(unit(row) @ asked), 6) for found in rows.values() for row in found]
    order = sorted(range(len(names)), key=lambda at: (-cosines[at], at))
    return [names[at] for at in order if names[at] != query].index(answer) + 1


@pytest.mark.parametrize("blocks", [(1024, 8192), (3, 5)])
def test_any_blocks_give_the_ranks_of_every_cosine(
    blocks: tuple[int, int], figures: FiguresOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlaps_module, "_QUERIES", blocks[0])
    monkeypatch.setattr(overlaps_module, "_ROWS", blocks[1])
    rng = np.random.default_rng(11)
    # Few values, so that many cosines are equal.
    sizes = {"a": 8, "b": 10, "c": 7}
    made = {kb: rng.integers(-1, 2, (size, 3)) + 0.0 for kb, size in sizes.items()}
    for vectors in made.values():
        vectors[~vectors.any(axis=1)] = 1.0
    pairs = [pair(f"a:{at}", f"b:{at + 2}") for at in range(8)]
    pairs += [pair(f"b:{at}", f"c:{at}") for at in range(7)]
    rows = {kb: vectors.astype(np.float32) for kb, vectors in made.items()}
    found = figures({kb: vectors.tolist() for kb, vectors in made.items()}, pairs)
    assert len(found) == 4
    for (queries, answers), one in found.items():
        sides = [
            (side, other)
            for pair_ in pairs
            for side, other in ((pair_.left, pair_.right), (pair_.right, pair_.left))
            if (side.kb, other.kb) == (queries, answers)
        ]
        ranks = [brute_force(rows, *asked) for asked in sides]
        assert one.mrr_without_self == pytest.approx(np.mean([1 / rank for rank in ranks]))
        assert one.mrr == pytest.approx(np.mean([1 / (rank + 1) for rank in ranks]))
        assert max(ranks) > 5


def test_the_demo_against_every_cosine(demo_master: Path) -> None:
    with Workspace.open(demo_master) as workspace:
        found = workspace.evaluate_overlaps()
        space = workspace.space()
        pairs = [
            one for one in workspace.store.overlaps("encyclopedia", "lanternfall")
            if one.probability >= 0.5
        ]  # fmt: skip
        numbers = {
            EntityId(kb, key): str(at)
            for kb, segment in space.segments.items()
            for at, key in enumerate(segment.keys)
        }
        rows = {kb: one.vectors("text", slice(None)) for kb, one in space.segments.items()}
    ranks = [
        brute_force(
            rows,
            EntityId(one.right.kb, numbers[one.right]),
            EntityId(one.left.kb, numbers[one.left]),
        )
        for one in pairs
    ]
    assert [(one.queries, one.answers) for one in found] == [
        ("lanternfall", "encyclopedia"), ("encyclopedia", "lanternfall"),
    ]  # fmt: skip
    assert found[0].overlaps == len(pairs) > 20
    assert found[0].mrr_without_self == pytest.approx(np.mean([1 / rank for rank in ranks]))
    # The entity itself stands first for its own text, so every answer is one rank lower.
    assert found[0].mrr == pytest.approx(np.mean([1 / (rank + 1) for rank in ranks]))
    assert 0.4 < found[0].acs == found[1].acs < 1
