"""Presets, lists that suit the rows, and graphs and lists searched within ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kglink.errors import ConfigError
from kglink.plugins import IndexSettings, RowRange, VectorIndex, load_registry
from kglink.workspace.index import presets_of
from kglink_plugins.indexes.factory import FactoryBackend, suitable_lists
from kglink_plugins.indexes.flat import FlatBackend
from kglink_plugins.indexes.rows import faiss
from kglink_plugins.plugin import FactorySettings

FloatArray = npt.NDArray[np.float32]

ROWS, DIM, K = 3000, 24, 10


def unit_rows(count: int, seed: int) -> FloatArray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


VECTORS, QUERIES = unit_rows(ROWS, 0), unit_rows(40, 1)
PRESETS = presets_of(load_registry(only="builtin"))


def built(rows: FloatArray, **settings: Any) -> VectorIndex:
    return FactoryBackend(FactorySettings(**settings)).build([rows], rows.shape[1])


def recall(
    index: VectorIndex,
    ranges: list[RowRange] | None,
    rows: FloatArray = VECTORS,
    queries: FloatArray = QUERIES,
    k: int = K,
) -> float:
    wanted = FlatBackend().build([rows], DIM).search(queries, k, ranges)[1]
    found = index.search(queries, k, ranges)[1]
    return float(np.mean([np.isin(*pair).mean() for pair in zip(wanted, found, strict=True)]))


def test_the_graphs_are_those_of_blinks_table_7() -> None:
    # 128 links, 200 nodes while building, 256 and 128 while searching.
    for name, effort in (("hnsw-accurate", 256), ("hnsw-fast", 128)):
        settings = dict(PRESETS[name].settings)
        assert settings == {"factory": "HNSW128", "ef_construction": 200, "ef_search": effort}
        made = FactoryBackend(FactorySettings.model_validate(settings))._empty(DIM, 0)
        assert made.hnsw.nb_neighbors(1) == 128
        assert (made.hnsw.efConstruction, made.hnsw.efSearch) == (200, effort)


def test_every_preset_has_settings_that_its_back_end_takes_and_words_for_people() -> None:
    registry = load_registry(only="builtin")
    assert next(iter(PRESETS)) == "flat"
    for preset in PRESETS.values():
        registry.settings_for("index", preset.index, preset.settings)
        assert preset.summary


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("rows", [1, 2, 30, 400])
def test_presets_work_for_any_number_of_rows(name: str, rows: int) -> None:
    preset = PRESETS[name]
    backend = load_registry(only="builtin").create("index", preset.index, preset.settings)
    index = backend.build([VECTORS[:rows]], DIM)
    _, found = index.search(VECTORS[:rows], 1)
    assert (found[:, 0] == np.arange(rows)).mean() >= 0.99


def test_suitable_lists_by_hand() -> None:
    # A list for 39 rows at least, and four times the root of the rows at most.
    assert [suitable_lists(rows) for rows in (0, 1, 38, 78, 390)] == [1, 1, 1, 2, 10]
    assert [suitable_lists(rows) for rows in (40_000, 1_000_000)] == [800, 4000]


def test_lists_in_a_factory_string_suit_the_rows_that_are_learnt_from() -> None:
    index = built(VECTORS, factory="IVF{lists},Flat")
    assert faiss.downcast_index(index._index).nlist == 3000 // 39  # type: ignore[attr-defined]  # looked into
    fewer = built(VECTORS, factory="IVF{lists},Flat", train_rows=390)
    assert faiss.downcast_index(fewer._index).nlist == 10  # type: ignore[attr-defined]  # looked into


@pytest.fixture(scope="module")
def graph() -> VectorIndex:
    """A graph that is too small for its rows, as HNSW128 is for millions."""
    return built(VECTORS, factory="HNSW8", ef_search=48)


def plain(index: VectorIndex) -> Any:
    """faiss's own index, which knows nothing of scanning and of looking further."""
    return index._index  # type: ignore[attr-defined]  # looked into


def plain_recall(index: VectorIndex, first: int, last: int) -> float:
    selector = faiss.IDSelectorRange(first, last)
    params = faiss.SearchParametersHNSW(sel=selector, efSearch=48)
    found = plain(index).search(QUERIES, K, params=params)[1]
    wanted = FlatBackend().build([VECTORS], DIM).search(QUERIES, K, [RowRange(first, last)])[1]
    return float(np.mean([np.isin(*pair).mean() for pair in zip(wanted, found, strict=True)]))


def test_a_small_range_of_a_graph_is_searched_row_by_row(graph: VectorIndex) -> None:
    # 150 of 3,000 rows: 48 x 8 rows would be visited for a twentieth of the answer.
    assert plain_recall(graph, 1000, 1150) < 0.75
    assert recall(graph, [RowRange(1000, 1150)]) == 1
    assert recall(graph, [RowRange(1000, 1075), RowRange(2000, 2075)]) == 1


def test_a_large_range_of_a_graph_is_looked_into_further(graph: VectorIndex) -> None:
    # Half of the rows, more than would be visited: the graph is walked, over twice as many.
    whole = recall(graph, None)
    assert whole < 1
    half = recall(graph, [RowRange(0, 1500)])
    assert half < 1, "the graph was not walked"
    assert half > plain_recall(graph, 0, 1500)
    assert half > whole - 0.03


def test_scores_of_rows_that_were_scanned_are_those_of_the_rows(graph: VectorIndex) -> None:
    scores, rows = graph.search(QUERIES, K, [RowRange(1000, 1150)])
    np.testing.assert_allclose(scores, np.einsum("qkd,qd->qk", VECTORS[rows], QUERIES), atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_a_range_far_from_the_query_is_found_by_scanning() -> None:
    # All of the first 1,500 rows lie on the other side: a walk would end before it saw one.
    rows = VECTORS.copy()
    rows[:, 0] = np.where(np.arange(ROWS) < 1500, -3, 3)
    index = built(rows, factory="HNSW8", ef_search=16)
    queries = rows[2000:2005]
    wanted = FlatBackend().build([rows], DIM).search(queries, K, [RowRange(0, 1500)])
    scores, found = index.search(queries, K, [RowRange(0, 1500)])
    assert found.tolist() == wanted[1].tolist()
    np.testing.assert_allclose(scores, wanted[0], atol=1e-5)


@pytest.mark.parametrize("codes", ["HNSW8,SQ8", "PCA12,HNSW8"])
def test_graphs_of_codes_and_of_transformed_rows_take_ranges(codes: str) -> None:
    index = built(VECTORS, factory=codes, ef_search=64)
    scores, found = index.search(QUERIES, K, [RowRange(1000, 1150)])
    assert ((found >= 1000) & (found < 1150)).all()
    assert np.isfinite(scores).all()


def test_more_lists_are_looked_into_for_a_share_of_the_rows() -> None:
    index = built(VECTORS, factory="IVF{lists},Flat", nprobe=8)
    whole, tenth = recall(index, None), recall(index, [RowRange(0, 300)])
    assert whole < 0.9
    assert tenth == 1  # 80 lists, and there are 76


def test_a_query_is_answered_alone_as_among_others(graph: VectorIndex) -> None:
    for ranges in ([RowRange(1000, 1150)], [RowRange(0, 1500)], None):
        scores, rows = graph.search(QUERIES, K, ranges)
        for at in (0, 17):
            alone = graph.search(QUERIES[at : at + 1], K, ranges)
            assert alone[1][0].tolist() == rows[at].tolist()
            np.testing.assert_allclose(alone[0][0], scores[at], atol=1e-6)


def test_settings_that_search_alone_reads_are_set_when_a_file_is_opened(tmp_path: Path) -> None:
    lists = built(VECTORS, factory="IVF8,Flat", nprobe=1)
    lists.save(tmp_path / "lists")
    every = FactoryBackend(FactorySettings(factory="IVF8,Flat", nprobe=8)).load(tmp_path / "lists")
    assert recall(lists, None) < 0.9
    assert recall(every, None) == 1
    graph = built(VECTORS, factory="HNSW8", ef_search=8)
    graph.save(tmp_path / "graph")
    wider = FactoryBackend(FactorySettings(factory="HNSW8", ef_search=300)).load(tmp_path / "graph")
    assert recall(wider, None) > recall(graph, None) + 0.05


def test_as_many_lists_are_looked_into_as_it_takes_to_find_the_nearest_rows(tmp_path: Path) -> None:
    centres = 8 * unit_rows(30, 2)
    apart = np.concatenate([centre + unit_rows(100, at) for at, centre in enumerate(centres)])
    lists = {}
    for name, rows in {"apart": apart, "everywhere": VECTORS}.items():
        index = built(rows, factory="IVF{lists},Flat")
        index.save(tmp_path / name)
        lists[name] = faiss.read_index(str(tmp_path / name)).nprobe
        asked = (rows[::20] + unit_rows(len(rows[::20]), 99) / 20).astype(np.float32)
        assert recall(index, None, rows, asked, 64) >= 0.96
    assert lists["apart"] <= 12
    assert 40 < lists["everywhere"] < 76


def test_a_graph_of_centres_finds_as_many_lists_as_are_asked_for() -> None:
    index = built(VECTORS, factory="IVF64_HNSW8,Flat")
    assert recall(index, None) > 0.96
    assert recall(built(VECTORS, factory="IVF64_HNSW8,Flat", nprobe=64), None) == 1


def test_lists_are_not_searched_by_distances() -> None:
    with pytest.raises(ConfigError, match="cannot be searched by distances"):
        built(VECTORS, factory="IVF8,Flat", distances=True)


def test_a_file_keeps_how_many_lists_are_enough_whatever_it_was_opened_with(tmp_path: Path) -> None:
    made = built(VECTORS, factory="IVF{lists},Flat", nprobe=1)
    made.save(tmp_path / "lists")
    enough = FactoryBackend(FactorySettings(factory="IVF{lists},Flat")).load(tmp_path / "lists")
    assert recall(made, None) < 0.3
    assert recall(enough, None) > 0.96


class OwnSettings(IndexSettings):
    """Settings of a third party's back end, without presets."""


def test_a_back_end_without_presets_has_none() -> None:
    assert OwnSettings.presets == {}
    assert OwnSettings.search_only == frozenset()
