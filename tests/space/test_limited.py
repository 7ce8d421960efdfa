"""A limited space answers as if it held no other entities: twins that compare one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from hash_spaces import HashEncoder, build, opened, source
from kglink.config import SpaceSection
from kglink.records import Alias, Entity, EntityId
from kglink.space import names
from kglink.space import space as space_module
from kglink.space.folder import SpaceFolder
from kglink.space.manifest import RowKind
from kglink.space.space import Space, SpaceNames, limited_space, ranges_of

COUNT, K = 300, 12
BACKENDS = {
    "flat": ("kglink/flat", {}),
    "sq8": ("kglink/faiss", {"factory": "SQ8"}),
    "ivf": ("kglink/faiss", {"factory": "IVF8,Flat", "nprobe": 1}),
    "hnsw": ("kglink/faiss", {"factory": "HNSW8", "ef_search": 4}),
}
#: Every fifth entity, which are never the nearest by chance; some keys that no entity has.
KEPT = [f"e{number:03}" for number in range(0, COUNT, 5)]


@pytest.fixture(scope="module", params=BACKENDS)
def space(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Space:
    entities = [
        Entity(f"e{n:03}", f"thing {n} of {n % 7}", aliases=(Alias(f"name {n * n}"),))
        for n in range(COUNT)
    ]
    index, settings = BACKENDS[request.param]
    section = SpaceSection(index=index, index_settings=settings)
    folder = SpaceFolder(tmp_path_factory.mktemp("limited"), "default")
    build(folder, source("other", *entities[:9]), source("kb", *entities), settings=section)
    return opened(folder)


def queries() -> np.ndarray:
    return HashEncoder().encode([f"query {n}" for n in range(40)])


def limited_to_kept(space: Space) -> Space:
    return limited_space(space, {"kb": iter(["a", *KEPT, "e0001", "z"])})


@pytest.mark.parametrize("kind", ["text", "alias"])
@pytest.mark.parametrize("block", [16, 1 << 14])
def test_nearest_rows_are_those_of_all_left_in_every_back_end(
    space: Space, kind: RowKind, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_module, "_BLOCK", block)
    segment = space.segments["kb"]
    kept = {segment.row(key) for key in KEPT}
    rows = [
        row
        for row in range(segment.row_count(kind))
        if (row if kind == "text" else int(segment.entity_of(np.array([row]))[0])) in kept
    ]
    products = queries() @ segment.vectors(kind, np.array(rows)).T
    scores, found = limited_to_kept(space).nearest(queries(), "kb", kind, K)
    for query, order in enumerate(np.lexsort((np.broadcast_to(rows, products.shape), -products))):
        assert found[query].tolist() == [rows[at] for at in order[:K]]
        assert scores[query] == pytest.approx(products[query][order[:K]], abs=1e-6)
    # What is not limited answers as before.
    before = space.nearest(queries(), "other", kind, 3)
    after = limited_to_kept(space).nearest(queries(), "other", kind, 3)
    assert np.array_equal(before[1], after[1])


@pytest.mark.parametrize("shard", [7, 500_000])
def test_similar_and_exact_names_are_those_of_all_left(
    space: Space, shard: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = space.segments["kb"].names
    asked = ["thing 5 of 5", "name 25", "thing", "zz"]
    rows = limited_to_kept(space).segments["kb"].alias_rows
    assert rows is not None
    vectors = names.weighted(names.gram_counts([whole.folded[int(row)] for row in rows]), whole.idf)
    cosines = (names.weighted(names.gram_counts(asked), whole.idf) @ vectors.T).toarray()
    monkeypatch.setattr(names, "SHARD_ROWS", shard)
    if shard == 7:  # too few rows to keep what is left of the shards
        monkeypatch.setattr(whole, "_shards", _cut(whole._shards[0], shard))
    found = whole.limited(rows).similar(asked, K)
    for query, (own, similar) in enumerate(found):
        assert set(own.tolist()) <= set(rows.tolist())
        best = np.sort(cosines[query][cosines[query] > 0])[::-1][:K]
        assert np.sort(similar)[::-1] == pytest.approx(best, abs=1e-5)
    left = whole.limited(rows)
    assert [len(left.exact(name)) for name in asked] == [1, 1, 0, 0]
    assert not len(left.exact("name 36"))
    assert len(whole.exact("name 36")) == 1


def _cut(shard: sp.csr_matrix, size: int) -> list[sp.csr_matrix]:
    return [shard[:, first : first + size] for first in range(0, shard.shape[1], size)]


def test_keys_and_names_of_others_are_not_there(space: Space) -> None:
    few = limited_to_kept(space)
    segment = few.segments["kb"]
    assert segment.row("e005") == space.segments["kb"].row("e005")
    assert segment.row("e006") == segment.row("nothing") == -1
    assert few.leaves_out(EntityId("kb", "e006"))
    assert not few.leaves_out(EntityId("kb", "e005"))
    assert not few.leaves_out(EntityId("other", "nothing"))
    told, all_names = SpaceNames(few, ["kb"]), SpaceNames(space, ["kb"])
    assert len(list(told)) == len(told) == 2 * len(KEPT)
    assert {row.surface for row in told} < {row.surface for row in all_names}
    assert told.fingerprint != all_names.fingerprint
    assert (
        told.fingerprint != SpaceNames(limited_space(space, {"kb": KEPT[1:]}), ["kb"]).fingerprint
    )
    assert told.fingerprint == SpaceNames(limited_to_kept(space), ["kb"]).fingerprint


def test_ranges() -> None:
    assert ranges_of(np.array([1, 2, 3, 7, 9, 10])) == [(1, 4), (7, 8), (9, 11)]
    assert ranges_of(np.array([4])) == [(4, 5)]
