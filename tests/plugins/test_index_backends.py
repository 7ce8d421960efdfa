"""All index back ends against one oracle: every row compared in numpy, ids and scores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kglink.errors import ConfigError, DamagedSpaceError, SpaceError, UsageError
from kglink.plugins import IndexBackend, RowRange, VectorIndex
from kglink_plugins.indexes import gpu
from kglink_plugins.indexes.factory import FactoryBackend, FactoryIndex
from kglink_plugins.indexes.flat import FlatBackend, FlatIndex
from kglink_plugins.indexes.rows import faiss, merge_ranges
from kglink_plugins.plugin import FactorySettings

FloatArray = npt.NDArray[np.float32]


class DeviceBackend(FlatBackend):
    """The exact index as it is searched on a GPU, on a device that every machine has."""

    def build(self, batches: Iterable[FloatArray], dim: int) -> FlatIndex:
        index = super().build(batches, dim)
        index.place(torch.device("cpu"))
        return index

    def load(self, path: Path) -> FlatIndex:
        index = super().load(path)
        index.place(torch.device("cpu"))
        return index


ROWS, DIM = 1200, 24
RANGES = [RowRange(700, 760), RowRange(10, 40), RowRange(30, 60), RowRange(90, 90)]
#: How far a score may lie from the inner product, by what the index keeps of a row.
BACKENDS: dict[str, tuple[IndexBackend, float]] = {
    "flat": (FlatBackend(), 1e-6),
    "flat on a device": (DeviceBackend(), 1e-6),
    "factory-Flat": (FactoryBackend(FactorySettings(factory="Flat")), 1e-6),
    "SQfp16": (FactoryBackend(FactorySettings(factory="SQfp16")), 1e-3),
    "SQbf16": (FactoryBackend(FactorySettings(factory="SQbf16")), 1e-2),
    "IVF8": (FactoryBackend(FactorySettings(factory="IVF8,Flat", nprobe=8)), 1e-6),
    "HNSW32": (FactoryBackend(FactorySettings(factory="HNSW32", ef_search=ROWS)), 1e-6),
    "distances": (FactoryBackend(FactorySettings(factory="Flat", distances=True)), 1e-5),
    "HNSW32-distances": (
        FactoryBackend(FactorySettings(factory="HNSW32", ef_search=ROWS, distances=True)),
        1e-5,
    ),
    "rotated": (FactoryBackend(FactorySettings(factory="RR24,SQfp16")), 1e-3),
}


def unit_rows(count: int, seed: int = 0) -> FloatArray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


VECTORS, QUERIES = unit_rows(ROWS), unit_rows(9, seed=1)


def batches(rows: FloatArray, size: int = 500) -> Iterator[FloatArray]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def oracle(
    queries: FloatArray, rows: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
) -> tuple[list[list[float]], list[list[int]]]:
    """Scores and rows by comparing everything, in double precision."""
    chosen = range(len(rows))
    allowed = sorted({i for r in ranges for i in range(*r)} if ranges is not None else chosen)
    scores, ids = [], []
    for query in queries.astype(np.float64):
        score = {row: float(rows[row].astype(np.float64) @ query) for row in allowed}
        best = sorted(allowed, key=lambda row: (-score[row], row))[:k]
        lack = k - len(best)
        ids.append(best + [-1] * lack)
        scores.append([score[row] for row in best] + [-np.inf] * lack)
    return scores, ids


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS), scope="module")
def case(request: pytest.FixtureRequest) -> tuple[IndexBackend, float, VectorIndex]:
    backend, tolerance = request.param
    return backend, tolerance, backend.build(batches(VECTORS), DIM)


@pytest.mark.parametrize("k", [1, 10, 64])
@pytest.mark.parametrize(
    "ranges", [None, RANGES, RANGES[:1], [RowRange(0, ROWS)]], ids=["all", "many", "one", "whole"]
)
def test_ids_and_scores_are_the_oracles(
    case: tuple[IndexBackend, float, VectorIndex], k: int, ranges: list[RowRange] | None
) -> None:
    _, tolerance, index = case
    scores, rows = index.search(QUERIES, k, ranges)
    expected_scores, expected_rows = oracle(QUERIES, VECTORS, k, ranges)
    assert (scores.dtype.name, rows.dtype.name) == ("float32", "int64")
    np.testing.assert_allclose(scores, expected_scores, atol=tolerance)
    if tolerance < 1e-5:
        assert rows.tolist() == expected_rows
    else:
        # Rounded rows may change places where their true scores are closer than the rounding.
        true = np.where(rows < 0, -np.inf, np.einsum("qkd,qd->qk", VECTORS[rows], QUERIES))
        np.testing.assert_allclose(true, expected_scores, atol=tolerance)
        assert [len(set(row)) for row in rows.tolist()] == [len(set(r)) for r in expected_rows]


def test_what_was_saved_answers_alike(
    case: tuple[IndexBackend, float, VectorIndex], tmp_path: Path
) -> None:
    backend, _, index = case
    index.save(tmp_path / "rows.index")
    loaded = backend.load(tmp_path / "rows.index")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.index"]
    assert (loaded.size, loaded.exact) == (index.size, index.exact) == (ROWS, index.exact)
    for ranges in (None, RANGES):
        scores, rows = index.search(QUERIES, 20, ranges)
        loaded_scores, loaded_rows = loaded.search(QUERIES, 20, ranges)
        assert np.array_equal(scores, loaded_scores)
        assert np.array_equal(rows, loaded_rows)


def test_fewer_rows_than_asked_for(case: tuple[IndexBackend, float, VectorIndex]) -> None:
    *_, index = case
    scores, rows = index.search(QUERIES, 12, [RowRange(5, 8), RowRange(100, 101)])
    assert [set(row) for row in rows.tolist()] == [{5, 6, 7, 100, -1}] * len(QUERIES)
    assert (rows[:, 4:] == -1).all()
    assert np.isneginf(scores[:, 4:]).all()
    assert np.isfinite(scores[:, :4]).all()


@pytest.mark.parametrize("factory", ["Flat", "HNSW32"])
def test_distances_find_the_largest_products_of_rows_of_any_length(
    factory: str, tmp_path: Path
) -> None:
    """BLINK's reduction: with one coordinate more all rows have one length."""
    lengths = np.random.default_rng(2).uniform(0.1, 20, (ROWS, 1)).astype(np.float32)
    rows = VECTORS * lengths
    settings = FactorySettings(factory=factory, distances=True, ef_search=ROWS)
    FactoryBackend(settings).build(batches(rows), DIM).save(tmp_path / "index")
    found = FactoryBackend(settings).load(tmp_path / "index")
    assert found.size == ROWS
    scores, ids = found.search(QUERIES, 10)
    wanted, best = oracle(QUERIES, rows, 10)
    assert ids.tolist() == best
    np.testing.assert_allclose(scores, wanted, atol=1e-3)
    with pytest.raises(SpaceError, match="damaged"):
        FactoryBackend(FactorySettings(factory=factory)).load(tmp_path / "index")


@pytest.mark.parametrize("ranges", [[], [RowRange(7, 7)]], ids=["no-range", "empty-range"])
def test_no_rows_take_part(
    case: tuple[IndexBackend, float, VectorIndex], ranges: list[RowRange]
) -> None:
    *_, index = case
    scores, rows = index.search(QUERIES, 3, ranges)
    assert rows.tolist() == [[-1, -1, -1]] * len(QUERIES)
    assert np.isneginf(scores).all()


def test_no_queries(case: tuple[IndexBackend, float, VectorIndex]) -> None:
    *_, index = case
    scores, rows = index.search(QUERIES[:0], 3)
    assert scores.shape == rows.shape == (0, 3)


def test_an_empty_index(case: tuple[IndexBackend, float, VectorIndex], tmp_path: Path) -> None:
    backend, *_ = case
    for rows in ([], [VECTORS[:0]]):
        index = backend.build(rows, DIM)
        index.save(tmp_path / "empty")
        for one in (index, backend.load(tmp_path / "empty")):
            assert one.size == 0
            assert one.search(QUERIES, 2)[1].tolist() == [[-1, -1]] * len(QUERIES)


@pytest.mark.parametrize("k", [1, 3, 8, 30, 150])
def test_equal_scores_the_smaller_row_first(
    case: tuple[IndexBackend, float, VectorIndex], k: int
) -> None:
    # Rows 3, 103, 203, ... are one vector, the best of all, wherever they stand.
    rows = VECTORS.copy()
    rows[3::100] = QUERIES[0]
    index = case[0].build(batches(rows), DIM)
    (scores,), (found,) = index.search(QUERIES[:1], k)
    pairs = list(zip(-scores, found, strict=True))
    assert pairs == sorted(pairs)
    if index.exact:
        assert found[:12].tolist() == list(range(3, ROWS, 100))[:k]
    else:
        assert set(found[: min(k, 12)].tolist()) <= set(range(3, ROWS, 100))


@pytest.mark.parametrize("count", [2, 9, 40, 1000])
def test_ties_at_the_border_however_many(count: int) -> None:
    rows = np.concatenate([np.tile(VECTORS[0], (count, 1)), VECTORS[1:300]])
    order = np.random.default_rng(5).permutation(len(rows))
    twins = np.flatnonzero(order < count)
    index = FlatBackend().build(batches(rows[order]), DIM)
    k = max(1, count - 1)
    scores, found = index.search(VECTORS[:1], k)
    assert found[0].tolist() == twins[:k].tolist()
    assert len(set(scores[0].tolist())) == 1


def test_a_query_is_answered_alone_as_among_others() -> None:
    index = FlatBackend().build(batches(VECTORS), DIM)
    queries = unit_rows(300, seed=4)
    scores, rows = index.search(queries, 10)
    for number in (0, 1, 150, 299):
        alone = index.search(queries[number : number + 1], 10)
        assert np.array_equal(alone[0][0], scores[number])
        assert np.array_equal(alone[1][0], rows[number])


@pytest.mark.parametrize("ranges", [None, RANGES])
def test_a_device_answers_as_the_processor_does(
    ranges: Sequence[RowRange] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_SCORES", 64 * 100)  # blocks of a hundred rows
    monkeypatch.setattr(gpu, "_COPIED", 700)
    queries = unit_rows(64, seed=4)
    rows = np.concatenate([VECTORS, VECTORS[:300]])  # every fifth is there twice
    plain = FlatBackend().build(batches(rows), DIM)
    placed = FlatBackend().build(batches(rows), DIM)
    placed.place(torch.device("cpu"))
    for k in (1, 10, 200):
        wanted, found = (one.search(queries, k, ranges) for one in (plain, placed))
        assert np.array_equal(wanted[0], found[0])
        assert np.array_equal(wanted[1], found[1])


def test_rows_are_placed_where_the_encoder_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    index = FlatBackend().build(batches(VECTORS), DIM)
    wanted = index.search(QUERIES, 5)
    monkeypatch.setattr(gpu, "device_in_use", lambda: torch.device("cpu"))
    asked: list[int] = []
    nearest = gpu.GpuRows.nearest

    def noted(self: gpu.GpuRows, queries: FloatArray, count: int, spans: Any) -> Any:
        asked.append(len(queries))
        return nearest(self, queries, count, spans)

    monkeypatch.setattr(gpu.GpuRows, "nearest", noted)
    found = index.search(QUERIES, 5)
    assert asked
    assert np.array_equal(wanted[0], found[0])
    assert np.array_equal(wanted[1], found[1])


def test_a_gpu_without_memory_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    index = FlatBackend().build(batches(VECTORS), DIM)
    wanted = index.search(QUERIES, 5)
    index.place(torch.device("cpu"))

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "topk", full)
    for _ in range(2):
        found = index.search(QUERIES, 5)
        assert np.array_equal(wanted[0], found[0])
        assert np.array_equal(wanted[1], found[1])


def test_rows_that_do_not_fit_a_gpu_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 2000))
    assert gpu.GpuRows.of(VECTORS, torch.device("cuda")) is None


def test_a_large_k_for_many_queries() -> None:
    index = FlatBackend().build(batches(VECTORS), DIM)
    scores, rows = index.search(QUERIES, ROWS + 5)
    expected = oracle(QUERIES, VECTORS, ROWS + 5)
    np.testing.assert_allclose(scores, expected[0], atol=1e-6)
    assert (np.sort(rows[:, :ROWS], axis=1) == np.arange(ROWS)).all()


@pytest.mark.parametrize(
    ("queries", "k", "ranges", "error", "message"),
    [
        (QUERIES[:, :5], 3, None, SpaceError, r"shape \(9, 5\) for an index of dimension 24"),
        (QUERIES[0], 3, None, SpaceError, r"shape \(24,\)"),
        (np.full((1, DIM), np.nan), 3, None, SpaceError, "query 0 holds NaN or infinity"),
        (np.full((1, DIM), np.inf), 3, None, SpaceError, "query 0 holds NaN or infinity"),
        (QUERIES, 0, None, UsageError, "k = 0"),
        (QUERIES, 3, [RowRange(0, ROWS + 1)], SpaceError, r"\[0, 1201\) does not fit"),
        (QUERIES, 3, [RowRange(-1, 5)], SpaceError, r"\[-1, 5\) does not fit"),
        (QUERIES, 3, [RowRange(9, 5)], SpaceError, r"\[9, 5\) does not fit"),
    ],
)
def test_senseless_searches_are_refused(
    case: tuple[IndexBackend, float, VectorIndex],
    queries: Any,
    k: int,
    ranges: list[RowRange] | None,
    error: type[Exception],
    message: str,
) -> None:
    *_, index = case
    with pytest.raises(error, match=message):
        index.search(queries, k, ranges)


def test_senseless_rows_are_refused(case: tuple[IndexBackend, float, VectorIndex]) -> None:
    backend, *_ = case
    spoilt = VECTORS.copy()
    spoilt[777, 3] = np.nan
    with pytest.raises(SpaceError, match="vector 777 holds NaN"):
        backend.build(batches(spoilt), DIM)
    with pytest.raises(SpaceError, match=r"shape \(500, 24\) for an index of dimension 9"):
        backend.build(batches(VECTORS), 9)


LOAD_EVERY_PREFIX = """
import sys
from pathlib import Path
from kglink.errors import SpaceError
from kglink_plugins.indexes.factory import FactoryBackend
path = Path(sys.argv[1])
whole = path.read_bytes()
cuts = {*range(0, 400, 3), *range(0, len(whole), len(whole) // 50), len(whole) - 1}
for cut in sorted(cuts):
    path.write_bytes(whole[:cut])
    try:
        FactoryBackend().load(path)
    except SpaceError:
        continue
    sys.exit(f"{cut} of {len(whole)} bytes were accepted")
"""


def test_truncated_files_are_refused_and_never_crash(
    case: tuple[IndexBackend, float, VectorIndex], tmp_path: Path
) -> None:
    # In a process of its own: faiss itself dies of some of these with a segmentation fault.
    *_, index = case
    index.save(tmp_path / "rows")
    program = [sys.executable, "-c", LOAD_EVERY_PREFIX, str(tmp_path / "rows")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("content", [b"", b"IxFI", b"not an index at all" * 9, b"\x00" * 4096])
def test_other_files_are_refused(
    case: tuple[IndexBackend, float, VectorIndex], tmp_path: Path, content: bytes
) -> None:
    backend, *_ = case
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(SpaceError, match="no whole index") as caught:
        backend.load(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_missing_files_and_folders_are_named(
    case: tuple[IndexBackend, float, VectorIndex], tmp_path: Path
) -> None:
    backend, _, index = case
    with pytest.raises(SpaceError, match="none: the index cannot be read"):
        backend.load(tmp_path / "none")
    with pytest.raises(SpaceError, match="cannot be written"):
        index.save(tmp_path / "no" / "folder" / "rows")


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    FlatBackend().build(batches(VECTORS), DIM).save(path)
    data = bytearray(path.read_bytes())
    data[4] ^= 1  # the dimension in faiss's header
    path.write_bytes(data)
    with pytest.raises(SpaceError, match=r"damaged|no whole index"):
        FlatBackend().load(path)


def test_the_flat_back_end_opens_flat_files_only(tmp_path: Path) -> None:
    FactoryBackend(FactorySettings(factory="SQfp16")).build([VECTORS], DIM).save(tmp_path / "sq")
    with pytest.raises(SpaceError, match="IndexScalarQuantizer, not a flat one"):
        FlatBackend().load(tmp_path / "sq")


def test_saving_over_an_open_file_leaves_its_reader_intact(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    FlatBackend().build([VECTORS], DIM).save(path)
    reader = FlatBackend().load(path)
    before = reader.search(QUERIES, 5)
    FlatBackend().build([VECTORS[:3]], DIM).save(path)
    reader.save(path)
    for one in (reader, FlatBackend().load(path)):
        assert np.array_equal(one.search(QUERIES, 5)[1], before[1])


def test_files_stay_readable_by_plain_faiss(tmp_path: Path) -> None:
    FlatBackend().build([VECTORS], DIM).save(tmp_path / "rows")
    plain = faiss.read_index(str(tmp_path / "rows"))
    assert np.array_equal(plain.reconstruct_n(0, ROWS), VECTORS)


def test_two_builds_of_a_trained_index_are_equal(tmp_path: Path) -> None:
    backend = FactoryBackend(FactorySettings(factory="IVF8,SQfp16", train_rows=400))
    for name in ("a", "b"):
        backend.build(batches(VECTORS), DIM).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_filter_far_from_the_query_still_finds_its_rows() -> None:
    # One list of eight is looked into; the rows asked for lie in the others.
    backend = FactoryBackend(FactorySettings(factory="IVF8,Flat", nprobe=1))
    index = backend.build([VECTORS], DIM)
    found = index.search(QUERIES, 5, [RowRange(0, 5)])[1]
    assert np.sort(found, axis=1).tolist() == [[0, 1, 2, 3, 4]] * len(QUERIES)


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        ("Falt", ConfigError, "faiss cannot make an index 'Falt' of dimension 24"),
        ("PQ7", ConfigError, "faiss cannot make an index 'PQ7'"),
        ("HNSW0", ConfigError, "too few neighbours"),  # with these faiss ends the process
        ("IVF4_HNSW1,Flat", ConfigError, "too few neighbours"),
        ("IVF5000,Flat", SpaceError, "cannot build IVF5000,Flat: .*5000"),
    ],
)
def test_impossible_factories(factory: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FactoryBackend(FactorySettings(factory=factory)).build([VECTORS], DIM)


def test_an_index_without_filters_says_so() -> None:
    index = FactoryBackend(FactorySettings(factory="NSG16")).build([VECTORS], DIM)
    with pytest.raises(SpaceError, match="IndexNSGFlat cannot be searched") as caught:
        index.search(QUERIES, 5, RANGES)
    assert "kglink/flat" in caught.value.hint


def test_merge_ranges() -> None:
    ranges = [RowRange(8, 9), RowRange(0, 3), RowRange(2, 5), RowRange(5, 6), RowRange(7, 7)]
    assert merge_ranges(ranges, 10) == [RowRange(0, 6), RowRange(8, 9)]
    assert merge_ranges(None, 10) == [RowRange(0, 10)]
    assert merge_ranges(None, 0) == []


MAPPED = """
import sys
from pathlib import Path
import numpy as np
from kglink_plugins.indexes.flat import FlatBackend
from kglink.plugins import RowRange

def own_memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(l for l in lines if l.startswith("RssAnon")).split()[1]) >> 10

before = own_memory()
index = FlatBackend().load(Path(sys.argv[1]))
index.search(np.ones((1, index.dim), np.float32), 5)
print(index.size, own_memory() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_a_loaded_flat_index_is_mapped_not_read(tmp_path: Path) -> None:
    rows = np.ones((100, 384), np.float32)
    FlatBackend().build((rows for _ in range(500)), 384).save(tmp_path / "rows")  # 73 MiB
    program = [sys.executable, "-c", MAPPED, str(tmp_path / "rows")]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    size, mebibytes = map(int, done.stdout.split())
    assert size == 50_000
    assert mebibytes < 20


def test_lists_that_name_rows_outside_of_the_index_are_refused(tmp_path: Path) -> None:
    backend = FactoryBackend(FactorySettings(factory="IVF4,Flat"))
    rows = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    backend.build([rows], 8).save(tmp_path / "index")
    index = faiss.read_index(str(tmp_path / "index"))
    for number in range(index.nlist):
        count = index.invlists.list_size(number)
        faiss.rev_swig_ptr(index.invlists.get_ids(number), count)[:] = 10**9
    damaged = FactoryIndex(index, FactorySettings())
    with pytest.raises(DamagedSpaceError, match="rows that it does not have"):
        damaged.search(rows[:2], 3)
