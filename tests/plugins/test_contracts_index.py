"""The contract of index back ends: correct ones pass, each wrong one fails its check."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from contract_cases import contract_for, failing_checks, failure_of, mutant_id
from kglink.plugins import RowRange
from kglink.testing import IndexBackendContract, PluginContract
from kglink.testing.contracts.base import check_names
from kglink.testing.contracts.index import scan
from reference_plugins import ReferenceBackend, ReferenceIndex

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray


def index(index: type[ReferenceIndex], **described: object) -> type[PluginContract]:
    backend = type(index.__name__, (ReferenceBackend,), {"index": index})
    return contract_for(IndexBackendContract, backend, **described)


class Approximate(ReferenceIndex):
    """Never looks at every 40th row."""

    exact = False

    def allowed(self, ranges: Sequence[RowRange] | None) -> IntArray:
        rows = super().allowed(ranges)
        return np.delete(rows, np.flatnonzero(rows % 40 == 39))


@pytest.mark.parametrize("correct", [ReferenceIndex, Approximate])
def test_a_correct_plugin_passes(correct: type[ReferenceIndex], tmp_path: Path) -> None:
    assert failing_checks(index(correct), tmp_path) == {}


class Cosine(ReferenceIndex):
    def products(self, rows: FloatArray, query: FloatArray) -> FloatArray:
        return super().products(rows / np.linalg.norm(rows, axis=1, keepdims=True), query)


class Distance(ReferenceIndex):
    """The right order is taken from distances, which differ where lengths do."""

    def order(self, products: FloatArray, rows: IntArray) -> IntArray:
        return np.lexsort((rows, (self.rows[rows] ** 2).sum(1) - 2 * products))


class OffScores(ReferenceIndex):
    def products(self, rows: FloatArray, query: FloatArray) -> FloatArray:
        return super().products(rows, query) + np.float32(0.5)


class ZeroPadding(ReferenceIndex):
    def padding(self) -> float:
        return 0.0


class LaterRowFirst(ReferenceIndex):
    def order(self, products: FloatArray, rows: IntArray) -> IntArray:
        return np.lexsort((-rows, -products))


class IgnoresRanges(ReferenceIndex):
    def allowed(self, ranges: Sequence[RowRange] | None) -> IntArray:
        return super().allowed(None)


class FiltersAfterwards(ReferenceIndex):
    """Looks at the best ten of all rows, and only then at the ranges."""

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        scores, ids = super().search(queries, k)
        outside = ~np.isin(ids, self.allowed(ranges))
        return np.where(outside, np.float32(-np.inf), scores), np.where(outside, -1, ids)


class EmptyRangesMeanAll(ReferenceIndex):
    def allowed(self, ranges: Sequence[RowRange] | None) -> IntArray:
        return super().allowed(ranges or None)


class LosesTheEndOnSaving(ReferenceIndex):
    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, self.rows[:-1], allow_pickle=False)


class SavesTwoFiles(ReferenceIndex):
    def save(self, path: Path) -> None:
        super().save(path)
        path.with_suffix(".ids").write_bytes(b"")


class NeedsARow(ReferenceIndex):
    def __init__(self, rows: FloatArray) -> None:
        super().__init__(rows)
        self.first = rows[0]


class NormalisesQueries(ReferenceIndex):
    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        answer = super().search(queries, k, ranges)
        queries /= 2
        return answer


class ReadsRawMemory(ReferenceIndex):
    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        raw = np.frombuffer(queries.tobytes("A"), np.float32).reshape(queries.shape)
        return super().search(raw, k, ranges)


class BestOfTheBatch(ReferenceIndex):
    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        scores, ids = super().search(queries, k, ranges)
        return scores - scores.max(initial=0), ids


class HalfRecall(Approximate):
    def allowed(self, ranges: Sequence[RowRange] | None) -> IntArray:
        return super().allowed(ranges)[::2]


class ApproximateScores(Approximate):
    def products(self, rows: FloatArray, query: FloatArray) -> FloatArray:
        return super().products(rows, query) + np.float32(0.25)


class ReversesBatches(ReferenceBackend):
    def build(self, batches: Iterable[FloatArray], dim: int) -> ReferenceIndex:
        return super().build(list(batches)[::-1], dim)


class Wrong64Bit(ReferenceIndex):
    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[Any, IntArray]:
        scores, ids = super().search(queries, k, ranges)
        return scores.astype(np.float64), ids


MUTANTS = [
    (index(Cosine), "test_finds_what_a_scan_finds"),
    (index(Distance), "test_finds_what_a_scan_finds"),
    (index(OffScores), "test_finds_what_a_scan_finds"),
    (index(Wrong64Bit), "test_finds_what_a_scan_finds"),
    (index(HalfRecall), "test_finds_what_a_scan_finds"),
    (index(ApproximateScores), "test_finds_what_a_scan_finds"),
    (index(ZeroPadding), "test_pads_where_fewer_rows_exist"),
    (index(IgnoresRanges), "test_searches_the_given_ranges_alone"),
    (index(FiltersAfterwards), "test_searches_the_given_ranges_alone"),
    (index(EmptyRangesMeanAll), "test_searches_the_given_ranges_alone"),
    (index(LaterRowFirst), "test_puts_the_smaller_row_first_among_equals"),
    (
        contract_for(IndexBackendContract, ReversesBatches),
        "test_does_not_care_how_rows_are_batched",
    ),
    (index(LosesTheEndOnSaving), "test_answers_the_same_after_saving_and_loading"),
    (index(SavesTwoFiles), "test_answers_the_same_after_saving_and_loading"),
    (index(NeedsARow), "test_an_empty_index_answers_with_nothing"),
    (index(NormalisesQueries), "test_takes_any_layout_of_queries_and_leaves_them_alone"),
    (index(ReadsRawMemory), "test_takes_any_layout_of_queries_and_leaves_them_alone"),
    (index(BestOfTheBatch), "test_each_query_is_answered_as_if_alone"),
]


@pytest.mark.parametrize("case", MUTANTS, ids=mutant_id)
def test_a_wrong_plugin_fails(case: tuple[type[PluginContract], str], tmp_path: Path) -> None:
    contract, check = case
    assert failure_of(contract, check, tmp_path / "check") is not None


def test_every_check_fails_for_some_wrong_plugin() -> None:
    assert set(check_names(index(ReferenceIndex))) == {check for _, check in MUTANTS}


def test_the_scan_is_right_by_hand() -> None:
    """Rows (1,0) (0,1) (2,0) (1,1) against the query (1,0): 1, 0, 2, 1."""
    rows = np.array([[1, 0], [0, 1], [2, 0], [1, 1]], np.float32)
    scores, ids = scan(rows, rows[:1], 3)
    assert ids.tolist() == [[2, 0, 3]]
    assert scores.tolist() == [[2.0, 1.0, 1.0]]
    scores, ids = scan(rows, rows[:1], 3, [RowRange(3, 4), RowRange(0, 1)])
    assert ids.tolist() == [[0, 3, -1]]
    assert scores.tolist() == [[1.0, 1.0, -math.inf]]
