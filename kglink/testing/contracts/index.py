"""The contract of index back ends: every answer equals brute force, ids and scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.plugins import RowRange, VectorIndex
from kglink.testing.contracts.base import PluginContract

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray

DIM = 16
RangeList = Sequence[RowRange] | None


class IndexBackendContract(PluginContract):
    """An index answers as a scan over all rows would, ties included.

    The vectors have small whole numbers as values: inner products are exact in float32, and
    many are equal. An index with ``exact = False`` may miss some of the best rows.
    """

    kind = "index"
    recall_floor: float = 0.9
    """What part of the best rows an index that is not exact must find."""
    score_tolerance: float = 0.0
    """How far its scores may lie from the inner products."""

    def test_finds_what_a_scan_finds(self) -> None:
        rows, queries = vectors(300, seed=1), vectors(20, seed=2)
        index = self.make().build([rows], DIM)
        assert index.size == 300
        assert isinstance(index.oversampling, int)
        assert index.oversampling >= 1
        for k in (1, 5, 64):
            self._compare(index, rows, queries, k)

    def test_pads_where_fewer_rows_exist(self) -> None:
        rows, queries = vectors(7, seed=3), vectors(4, seed=4)
        index = self.make().build([rows], DIM)
        scores, ids = index.search(queries, 12)
        assert ids.shape == scores.shape == (4, 12)
        assert (ids[:, 7:] == -1).all()
        assert np.isneginf(scores[:, 7:]).all()
        self._compare(index, rows, queries, 12)

    def test_searches_the_given_ranges_alone(self) -> None:
        rows, queries = vectors(200, seed=5), vectors(10, seed=6)
        index = self.make().build([rows], DIM)
        range_lists: list[RangeList] = [
            [RowRange(0, 200)],
            [RowRange(50, 90)],
            [RowRange(150, 200), RowRange(0, 3)],
            [RowRange(199, 200)],
            [RowRange(20, 20)],
            [],
        ]
        for ranges in range_lists:
            self._compare(index, rows, queries, 10, ranges)

    def test_puts_the_smaller_row_first_among_equals(self) -> None:
        rows = np.repeat(vectors(1, seed=7), 40, axis=0)
        scores, ids = self.make().build([rows], DIM).search(rows[:1], 10)
        assert len(set(scores[0].tolist())) == 1, "equal rows must score the same"
        if self.make().build([rows], DIM).exact:
            assert ids[0].tolist() == list(range(10))
        else:
            assert ids[0].tolist() == sorted(set(ids[0].tolist()))

    def test_does_not_care_how_rows_are_batched(self) -> None:
        rows, queries = vectors(90, seed=8), vectors(6, seed=9)
        backend = self.make()
        whole = backend.build([rows], DIM)
        for cuts in ([30, 60], [1, 1, 89], list(range(1, 90))):
            parts = iter(np.split(rows, cuts))
            index = backend.build(parts, DIM)
            assert index.size == 90
            if index.exact:
                _same(index.search(queries, 9), whole.search(queries, 9))
            else:
                self._compare(index, rows, queries, 9)

    def test_answers_the_same_after_saving_and_loading(self, tmp_path: Path) -> None:
        rows, queries = vectors(120, seed=10), vectors(8, seed=11)
        backend = self.make()
        built = backend.build([rows], DIM)
        built.save(tmp_path / "index")
        assert [path.name for path in tmp_path.iterdir()] == ["index"], "one file"
        loaded = self.make().load(tmp_path / "index")
        assert (loaded.size, loaded.exact) == (built.size, built.exact)
        for ranges in (None, [RowRange(10, 60)]):
            _same(loaded.search(queries, 7, ranges), built.search(queries, 7, ranges))

    def test_an_empty_index_answers_with_nothing(self, tmp_path: Path) -> None:
        index = self.make().build([], DIM)
        assert index.size == 0
        index.save(tmp_path / "empty")
        for empty in (index, self.make().load(tmp_path / "empty")):
            scores, ids = empty.search(vectors(2, seed=12), 3)
            assert ids.tolist() == [[-1] * 3] * 2
            assert np.isneginf(scores).all()

    def test_takes_any_layout_of_queries_and_leaves_them_alone(self) -> None:
        rows, queries = vectors(60, seed=13), vectors(10, seed=14)
        index = self.make().build([rows], DIM)
        wanted = index.search(queries, 5)
        layouts = (
            np.asfortranarray(queries),
            np.repeat(queries, 2, axis=0)[::2],
            np.repeat(queries, 2, axis=1)[:, ::2],
        )
        for layout in layouts:
            before = layout.copy()
            _same(index.search(layout, 5), wanted)
            assert (layout == before).all(), "queries were changed"
        scores, ids = index.search(queries[:0], 5)
        assert scores.shape == ids.shape == (0, 5)

    def test_each_query_is_answered_as_if_alone(self) -> None:
        rows, queries = vectors(80, seed=15), vectors(5, seed=16)
        index = self.make().build([rows], DIM)
        scores, ids = index.search(queries, 6)
        for row, query in enumerate(queries):
            _same(index.search(query[None], 6), (scores[row : row + 1], ids[row : row + 1]))

    def _compare(
        self,
        index: VectorIndex,
        rows: FloatArray,
        queries: FloatArray,
        k: int,
        ranges: RangeList = None,
    ) -> None:
        scores, ids = index.search(queries, k, ranges)
        assert scores.dtype == np.dtype(np.float32)
        assert ids.dtype == np.dtype(np.int64)
        wanted_scores, wanted_ids = scan(rows, queries, k, ranges)
        if index.exact:
            np.testing.assert_array_equal(ids, wanted_ids)
            np.testing.assert_allclose(scores, wanted_scores, atol=self.score_tolerance, rtol=0)
            return
        # What holds for every answer, also of an index that may miss rows.
        allowed = set(_allowed(len(rows), ranges))
        for query, row_ids, row_scores in zip(queries, ids.tolist(), scores.tolist(), strict=True):
            real = [row for row in row_ids if row != -1]
            assert row_ids == real + [-1] * (len(row_ids) - len(real)), "-1 only at the end"
            assert len(real) == len(set(real)), "a row was found twice"
            assert set(real) <= allowed, "a row outside the ranges"
            order = list(zip([-score for score in row_scores], row_ids, strict=True))[: len(real)]
            assert order == sorted(order), "best first, the smaller row first among equals"
            for row, score in zip(real, row_scores, strict=False):
                assert abs(score - float(np.dot(rows[row], query))) <= self.score_tolerance, (
                    "not its score"
                )
            assert all(score == -np.inf for score in row_scores[len(real) :])
        found = scores >= wanted_scores[:, -1:] - self.score_tolerance
        assert found.mean() >= self.recall_floor, f"recall {found.mean():.2f}"


def vectors(count: int, seed: int) -> FloatArray:
    """Vectors of whole numbers from -3 to 3, none of them zero, of many lengths."""
    drawn = np.random.default_rng(seed).integers(-3, 4, (count, DIM)).astype(np.float32)
    drawn[:, 0] += (drawn == 0).all(axis=1)
    return drawn


def scan(
    rows: FloatArray, queries: FloatArray, k: int, ranges: RangeList = None
) -> tuple[FloatArray, IntArray]:
    """The answer by comparing every query with every row."""
    scores = np.full((len(queries), k), -np.inf, np.float32)
    ids = np.full((len(queries), k), -1, np.int64)
    allowed = _allowed(len(rows), ranges)
    for number, query in enumerate(queries):
        products = {row: float(np.dot(rows[row], query)) for row in allowed}
        best = sorted(allowed, key=lambda row: (-products[row], row))[:k]
        ids[number, : len(best)] = best
        scores[number, : len(best)] = [products[row] for row in best]
    return scores, ids


def _allowed(size: int, ranges: RangeList) -> list[int]:
    if ranges is None:
        return list(range(size))
    return [row for part in ranges for row in range(part.start, part.stop)]


def _same(left: tuple[FloatArray, IntArray], right: tuple[FloatArray, IntArray]) -> None:
    np.testing.assert_array_equal(left[1], right[1])
    np.testing.assert_array_equal(left[0], right[0])
