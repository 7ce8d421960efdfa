"""Neighbours between two KBs equal those of a plain comparison of everything with everything."""

from __future__ import annotations

import dataclasses
import pickle
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kglink.overlap import compared, neighbours
from kglink.overlap.neighbours import Neighbours, cosines, nearest_neighbours
from kglink.records import Progress, Spread
from kglink.testing.contracts.pair_evidence import ListedVectors

DIM = 12
IntArray = npt.NDArray[np.int64]


def vectors(entities: int, seed: int, *, most_rows: int = 1) -> ListedVectors:
    """Random directions; with ``most_rows`` over 1 some entities have none, some several."""
    rng = np.random.default_rng(seed)
    counts = np.ones(entities, int) if most_rows == 1 else rng.integers(0, most_rows, entities)
    rows = rng.normal(size=(int(counts.sum()), DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    keys = [f"e{number:04d}" for number in range(entities)]
    return ListedVectors(keys, np.repeat(np.arange(entities), counts), rows)


def best_cosines(left: ListedVectors, right: ListedVectors) -> npt.NDArray[np.float32]:
    """The (left entities, right entities) matrix, -inf where one has no rows."""
    products = left.rows(slice(None)) @ right.rows(slice(None)).T
    table = np.full((len(left.keys), len(right.keys)), -np.inf, np.float32)
    for row, one in enumerate(left.owners):
        for column, other in enumerate(right.owners):
            table[one, other] = max(table[one, other], products[row, column])
    return table


def plain_neighbours(
    table: npt.NDArray[np.float32], k: int
) -> dict[tuple[int, int], tuple[float, float, bool]]:
    """Cosine, csls and whether mutual, of each pair that is among the k nearest of one side."""
    near: dict[tuple[int, int], float] = {}
    means: list[dict[int, float]] = []
    for turned, sheet in enumerate((table, table.T)):
        mean = {}
        for entity, row in enumerate(sheet):
            best = sorted(np.flatnonzero(np.isfinite(row)), key=lambda at: -row[at])[:k]
            mean[entity] = sum(float(row[at]) for at in best) / max(1, len(best))
            for other in best:
                pair = (int(other), entity) if turned else (entity, int(other))
                near[pair] = float(row[other])
        means.append(mean)
    csls = {pair: 2 * cos - means[0][pair[0]] - means[1][pair[1]] for pair, cos in near.items()}
    best_of: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (left, right), value in csls.items():
        best_of[0, left].append(value)
        best_of[1, right].append(value)
    return {
        pair: (near[pair], value, value == max(best_of[0, pair[0]] + best_of[1, pair[1]]))
        for pair, value in csls.items()
    }


def as_table(found: Neighbours) -> dict[tuple[int, int], tuple[float, float, bool]]:
    columns = (found.left, found.right, found.cosine, found.csls, mutual(found))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(left, right): (cosine, csls, both) for left, right, cosine, csls, both in rows}


def mutual(found: Neighbours) -> npt.NDArray[np.bool_]:
    """Which pairs are each other's nearest."""
    both: npt.NDArray[np.bool_] = (found.left_rank == 0) & (found.right_rank == 0)
    return both


def elsewhere(job: Any, pieces: Iterable[tuple[str, Any]]) -> Generator[Any]:
    """What the workers of a cluster do: all that goes there and comes back is pickled."""
    sent = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own
    sent.load()
    for _, given in pieces:
        yield pickle.loads(pickle.dumps(sent.do(pickle.loads(pickle.dumps(given)))))  # noqa: S301 - ours


@pytest.mark.parametrize("most_rows", [1, 5])
@pytest.mark.parametrize("sizes", [(60, 45), (45, 60), (3, 50), (1, 1)])
@pytest.mark.parametrize("block", [7, 4096])
@pytest.mark.parametrize("spread", [None, elsewhere])
def test_neighbours_equal_brute_force(
    sizes: tuple[int, int],
    most_rows: int,
    block: int,
    spread: Spread | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", block)
    monkeypatch.setattr(neighbours, "CHUNK_PAIRS", 11)
    monkeypatch.setattr(neighbours, "CHUNK_ROWS", 5)
    monkeypatch.setattr(neighbours, "PART_ROWS", 20)
    left, right = (vectors(size, seed, most_rows=most_rows) for seed, size in enumerate(sizes))
    wanted = plain_neighbours(best_cosines(left, right), k=4)
    found = as_table(nearest_neighbours(left, right, k=4, precision="fp32", spread=spread))
    assert found.keys() == wanted.keys()
    for pair, values in wanted.items():
        assert found[pair] == pytest.approx(values, abs=1e-5)


def test_a_cluster_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is compared once, whenever the run stops, and other vectors begin anew."""
    monkeypatch.setattr(neighbours, "PART_ROWS", 10)
    monkeypatch.setattr(compared, "_EVERY_S", 0.0)
    monkeypatch.setattr(compared, "_EVERY_TIMES", 0.0)
    left, right = vectors(90, 1, most_rows=3), vectors(45, 2, most_rows=3)
    done: list[str] = []

    def run(left: ListedVectors, most: int = 99) -> Neighbours:
        def stopping(job: Any, pieces: Iterable[tuple[str, Any]]) -> Generator[Any]:
            for at, piece in enumerate(pieces):
                if at == most:
                    raise KeyboardInterrupt
                yield from elsewhere(job, [piece])
                done.append(piece[0])

        return nearest_neighbours(
            left, right, k=4, precision="fp32", spread=stopping, kept=tmp_path / "kept"
        )

    def same(found: Neighbours) -> bool:
        return all(
            np.array_equal(getattr(found, one.name), getattr(whole, one.name))
            for one in dataclasses.fields(found)
        )

    whole = nearest_neighbours(left, right, k=4, precision="fp32", spread=elsewhere)
    assert same(run(left))
    parts, done[:] = list(done), []
    assert len(parts) > 5
    for most in (3, 1, 0):
        with pytest.raises(KeyboardInterrupt):
            run(left, most)
    assert same(run(left))
    assert done == parts
    assert not (tmp_path / "kept").exists()
    for damage in ("damaged", "other"):
        with pytest.raises(KeyboardInterrupt):
            run(left, 3)
        if damage == "damaged":
            kept = tmp_path / "kept" / compared.KEPT_FILE
            kept.write_bytes(kept.read_bytes()[:-9] + b"nothing..")
            done.clear()
            assert same(run(left))
            assert done == parts
        else:
            done.clear()
            run(vectors(90, 7, most_rows=3))
            assert done[0].startswith("rows 0 ")


@pytest.mark.slow
def test_whatever_is_damaged_in_what_was_kept_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared, "_EVERY_S", 0.0)
    arrays = [np.arange(6.0).reshape(2, 3), np.arange(2)]
    kept = compared.Compared(tmp_path / "kept", "as ever", arrays, arrays)
    kept.add(b"a part")
    path = tmp_path / "kept" / compared.KEPT_FILE
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (1, 8, 64):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            found = [np.zeros_like(one) for one in arrays]
            again = compared.Compared(tmp_path / "kept", "as ever", arrays, found)
            if again.resume([b"a part"]):  # of a date, or what else says nothing
                assert all(np.array_equal(*both) for both in zip(found, arrays, strict=True))


@pytest.mark.parametrize("spread", [None, elsewhere])
def test_half_precision_finds_the_same(
    spread: Spread | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", 32)
    left, right = vectors(150, 1, most_rows=4), vectors(100, 2, most_rows=4)
    exact = as_table(nearest_neighbours(left, right, k=5, precision="fp32"))
    monkeypatch.setattr(neighbours, "PART_ROWS", 90)
    at_half = nearest_neighbours(left, right, k=5, device="cpu", precision="bf16", spread=spread)
    rough = as_table(at_half)
    assert rough.keys() == exact.keys()
    assert all(rough[pair] == pytest.approx(exact[pair], abs=1e-5) for pair in exact)


def test_what_does_not_fit_into_memory_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = vectors(90, 1), vectors(80, 2)
    kept = as_table(nearest_neighbours(left, right, k=3, precision="fp32"))
    monkeypatch.setattr(neighbours, "READY_BYTES", 0)
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", 16)
    again = as_table(nearest_neighbours(left, right, k=3, precision="fp32"))
    assert again.keys() == kept.keys()
    assert all(again[pair] == pytest.approx(kept[pair], abs=1e-6) for pair in kept)


def test_a_side_without_rows_has_no_neighbours() -> None:
    nothing = ListedVectors([], np.empty(0, np.int64), np.empty((0, DIM), np.float32))
    for pair in ((nothing, vectors(3, 1)), (vectors(3, 1), nothing), (nothing, nothing)):
        assert as_table(nearest_neighbours(*pair, k=3)) == {}


def test_a_hub_loses_to_a_closer_friend() -> None:
    """By hand: the hub h is nearest to a, b and c; only c, which has no other, keeps it."""

    def at(degrees: list[float]) -> npt.NDArray[np.float32]:
        radians = np.deg2rad(degrees)
        return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)

    left = ListedVectors(["a", "b", "c"], np.arange(3), at([10.0, -10.0, 0.0]))
    right = ListedVectors(["h", "x", "y"], np.arange(3), at([0.0, 21.0, -21.0]))
    by_cosine = best_cosines(left, right)
    assert by_cosine.argmax(axis=1).tolist() == [0, 0, 0]
    found = nearest_neighbours(left, right, k=3, precision="fp32")
    both = mutual(found)
    assert list(zip(found.left[both], found.right[both], strict=True)) == [(0, 1), (1, 2), (2, 0)]


def test_cosines_take_the_best_rows_of_both() -> None:
    left, right = vectors(20, 5, most_rows=4), vectors(30, 6, most_rows=4)
    table = best_cosines(left, right)
    lefts, rights = np.nonzero(np.isfinite(table))
    assert cosines(left, right, lefts, rights) == pytest.approx(table[lefts, rights], abs=1e-6)


def test_progress_tells_the_rows_of_the_larger_side() -> None:
    told: list[Progress] = []
    nearest_neighbours(vectors(9, 1), vectors(8, 2), k=2, progress=told.append)
    assert told == [Progress("comparing vectors", 9, 9)]
