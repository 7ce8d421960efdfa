"""Another index for a space: what is kept, published, refused; and recall counted by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hash_spaces import HERON, MERCURY, backend_of, build, job, opened, source
from kglink.config import SpaceSection
from kglink.errors import ConfigError, PluginError, SpaceError
from kglink.plugins import RowRange
from kglink.records import Entity
from kglink.space.folder import SpaceFolder
from kglink.space.index import LARGE_INDEX, IndexChoice, change_index, trial_index
from kglink.space.recall import (
    BATCH,
    IndexQueries,
    measure_index,
    parts_of,
    sample_rows,
)
from kglink.space.space import Space
from kglink_plugins.plugin import FactorySettings
from rights import as_a_plain_user

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray, VectorIndex
    from kglink.space.manifest import RowKind
    from kglink.space.segment import Segment

FP16 = IndexChoice("kglink/faiss", {"factory": "SQfp16"})
LISTS = IndexChoice("kglink/faiss", {"factory": "IVF4,Flat", "nprobe": 1})
QUERIES = np.random.default_rng(5).standard_normal((40, 8)).astype(np.float32)
ENTITIES = [Entity(f"e{at:03}", f"Name {at}", f"Text {at}.") for at in range(150)]


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    made = SpaceFolder(tmp_path, "default")
    build(made, source("kb", *ENTITIES), source("two", HERON, MERCURY))
    return made


# ------------------------------------------------------------------------------------ change
def test_a_new_version_with_the_same_vectors_and_another_index(folder: SpaceFolder) -> None:
    before = folder.manifest()
    assert before
    segments = {path: path.stat().st_mtime_ns for path in folder.segments.rglob("*")}
    change = change_index(folder, FP16, backend_of)
    after = folder.manifest()
    assert after == change.manifest
    assert (change.before, change.rebuilt) == (("kglink/flat", {}), True)
    assert (after.index, after.index_settings) == FP16
    assert after.index_bytes < before.index_bytes * 0.6
    changed = {"created", "index", "index_settings", "index_file", "libraries"}
    assert after.model_dump(exclude=changed) == before.model_dump(exclude=changed)
    assert segments == {path: path.stat().st_mtime_ns for path in folder.segments.rglob("*")}
    assert [path.name for path in folder.versions.iterdir()] == ["000002"]
    query = opened(folder).segments["kb"].vectors("text", slice(7, 8))
    assert opened(folder).nearest(query, "kb", "text", 1)[1].tolist() == [[7]]


def test_who_has_the_space_open_goes_on_with_it(folder: SpaceFolder) -> None:
    reader = opened(folder)
    query = reader.segments["kb"].vectors("alias", slice(9, 10))
    before = reader.nearest(query, "kb", "alias", 5)
    change_index(folder, FP16, backend_of)
    after = reader.nearest(query, "kb", "alias", 5)
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


def test_a_file_is_kept_where_only_searching_changes(folder: SpaceFolder) -> None:
    first = change_index(folder, LISTS, backend_of).manifest
    wider = IndexChoice(LISTS.name, {**LISTS.settings, "nprobe": 4})
    change = change_index(folder, wider, backend_of, keep_file=True)
    assert not change.rebuilt
    assert change.manifest.index_file == first.index_file
    assert folder.has_whole_index()
    exact = opened(folder).vectors(np.arange(300))
    queries = exact[::7]
    found = opened(folder).index.search(queries, 3)[1]
    wanted = np.argsort(-(queries @ exact.T), axis=1, kind="stable")[:, :3]
    assert (found[:, 0] == wanted[:, 0]).all()


def test_unfinished_segments_of_a_build_are_kept(folder: SpaceFolder) -> None:
    # Hours of encoding may lie in a draft; a change of the index must not remove it.
    draft = folder.segments / ".draft-kb-0123"
    draft.mkdir()
    change_index(folder, FP16, backend_of)
    assert draft.is_dir()


def test_a_space_that_is_being_built_is_refused(folder: SpaceFolder) -> None:
    before = folder.current
    with folder.writing(), pytest.raises(SpaceError, match="being built by another process"):
        change_index(folder, FP16, backend_of)
    assert folder.current == before


def test_what_is_not_built_or_cannot_be_built(folder: SpaceFolder, tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="not built yet"):
        change_index(SpaceFolder(tmp_path, "none"), FP16, backend_of)
    before = folder.current
    for factory, error in (("Falt", ConfigError), ("IVF5000,Flat", SpaceError)):
        with pytest.raises(error):
            change_index(folder, IndexChoice("kglink/faiss", {"factory": factory}), backend_of)
    assert folder.current == before
    assert opened(folder).index.exact


def test_a_space_that_may_not_be_written_is_told_before_an_index_is_built(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kglink.space.index._built", lambda *_: pytest.fail("an index was built"))
    for path in (folder.path / "lock", folder.versions):
        path.chmod(0o500)
        with pytest.raises(SpaceError, match="space 'default' may not be written: "):
            as_a_plain_user(lambda: change_index(folder, FP16, backend_of))
        path.chmod(0o700)


class Odd:
    """An index, and its back end, that fails in one way; it answers with nothing."""

    exact, oversampling = True, 1

    def __init__(self, way: str, size: int = 0) -> None:
        self.way, self.size = way, size

    def build(self, batches: Iterable[FloatArray], dim: int) -> Odd:
        if self.way == "building":
            raise ValueError(self.way)
        return Odd(self.way, sum(map(len, batches)) - (self.way == "one row less"))

    def save(self, path: Path) -> None:
        path.write_text(str(self.size))

    def load(self, path: Path) -> Odd:
        if self.way == "loading":
            raise ValueError(self.way)
        return Odd(self.way, int(path.read_text()))

    def search(self, queries: FloatArray, k: int, ranges: object = None) -> tuple[Any, Any]:
        if self.way == "searching":
            raise ValueError(self.way)
        rows = k - 1 if self.way == "shape" else k
        score = np.nan if self.way == "not a number" else -np.inf
        row = self.size if self.way == "rows" else -1
        shape = len(queries), rows
        return np.full(shape, score, np.float32), np.full(shape, row)


@pytest.mark.parametrize("way", ["building", "loading", "one row less"])
def test_a_back_end_that_fails_is_named_and_changes_nothing(folder: SpaceFolder, way: str) -> None:
    before = folder.current
    with pytest.raises(PluginError, match=r"index back end 'acme/odd' (failed with|made an index)"):
        change_index(folder, IndexChoice("acme/odd", {}), lambda *_: Odd(way))
    sources = [source("kb", *ENTITIES[:9], content="2")]
    work = job(folder, sources, settings=SpaceSection(index="acme/odd"))
    with pytest.raises(PluginError, match="'acme/odd'"):
        replace(work, backend_of=lambda *_: Odd(way)).build()
    assert folder.current == before


@pytest.mark.parametrize("way", ["searching", "shape", "not a number", "rows"])
def test_an_index_that_answers_wrongly_is_named(folder: SpaceFolder, way: str) -> None:
    change_index(folder, IndexChoice("acme/odd", {}), lambda *_: Odd(way))
    space = Space(folder, lambda *_: Odd(way))
    with pytest.raises(PluginError, match=r"index back end 'acme/odd' (failed with|gave)"):
        space.nearest(QUERIES, "kb", "text", 3)


def test_a_trial_belongs_to_no_space(folder: SpaceFolder) -> None:
    before = sorted(folder.path.rglob("*"))
    with trial_index(folder, FP16, backend_of) as trial:
        assert trial.index.size == opened(folder).index.size
        assert trial.bytes > 0
        assert not trial.index.exact
    assert sorted(folder.path.rglob("*")) == before


def test_a_damaged_index_is_no_whole_one(folder: SpaceFolder) -> None:
    assert folder.has_whole_index()
    assert folder.current
    path = folder.current / "index.faiss"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert not folder.has_whole_index()
    change_index(folder, IndexChoice("kglink/flat", {}), backend_of)
    assert folder.has_whole_index()


KILLED = """
import os, signal, sys
from pathlib import Path
from kglink.plugins import load_registry
from kglink.space import folder
from kglink.space.index import IndexChoice, change_index

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where, root = sys.argv[1:]
registry = load_registry(only="builtin")

class HalfWritten:
    def save(self, path):
        path.write_bytes(b"half")
        die()

class Backend:
    def build(self, batches, dim):
        return HalfWritten()

def backend_of(name, settings):
    return Backend() if where == "saving" else registry.create("index", name, settings)

if where == "before publishing":
    folder.write_atomically = die
if where == "before removing":
    folder._remove_folders = die
change_index(
    folder.SpaceFolder(Path(root), "default"), IndexChoice("kglink/faiss", {"factory": "SQfp16"}),
    backend_of,
)
"""


@pytest.mark.parametrize("where", ["saving", "before publishing", "before removing"])
def test_killed_at_any_moment_a_whole_version_stays(folder: SpaceFolder, where: str) -> None:
    program = [sys.executable, "-c", KILLED, where, str(folder.path.parent)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    index = "kglink/faiss" if where == "before removing" else "kglink/flat"
    assert opened(folder).manifest.index == index
    assert folder.damage() == []
    assert len(list(folder.versions.iterdir())) == 2
    change_index(folder, LISTS, backend_of)
    assert opened(folder).manifest.index_settings == LISTS.settings
    number = "000002" if where == "saving" else "000003"
    assert [path.name for path in folder.versions.iterdir()] == [number]


# ------------------------------------------------------------------------------ rounded codes
def test_what_rounded_codes_find_is_compared_anew(folder: SpaceFolder) -> None:
    exact = opened(folder)
    bits = IndexChoice("kglink/faiss", {"factory": "IVF4,RaBitQ2", "nprobe": 4, "oversampling": 16})
    change_index(folder, bits, backend_of)
    rounded = opened(folder)
    assert (exact.index.exact, rounded.index.exact) == (True, False)
    for kind in ("text", "alias"):
        wanted, rows = exact.nearest(QUERIES, "kb", kind, 10)
        scores, found = rounded.nearest(QUERIES, "kb", kind, 10)
        # 160 rows are fetched, and the KB has 150: all are compared.
        assert found.tolist() == rows.tolist()
        np.testing.assert_allclose(scores, wanted, rtol=1e-5)
    assert rounded.nearest(QUERIES[:0], "kb", "text", 10)[0].shape == (0, 10)
    assert rounded.nearest(QUERIES, "two", "text", 5)[1][:, 2:].tolist() == [[-1] * 3] * 40


def test_what_codes_find_by_themselves_is_less(folder: SpaceFolder) -> None:
    wanted = opened(folder).nearest(QUERIES, "kb", "text", 10)[1]
    right = {}
    for oversampling in (1, 3):
        bits: dict[str, str | int | float | bool] = {
            "factory": "IVF1,RaBitQ",
            "oversampling": oversampling,
        }
        change_index(folder, IndexChoice("kglink/faiss", bits), backend_of)
        found = opened(folder).nearest(QUERIES, "kb", "text", 10)[1]
        right[oversampling] = np.mean(
            [len({*a} & {*b}) / 10 for a, b in zip(found, wanted, strict=True)]
        )
    assert right[1] < right[3]


def test_the_index_of_a_large_space_is_a_preset() -> None:
    preset = FactorySettings.presets["rabitq"]
    assert IndexChoice("kglink/faiss", preset.settings) == LARGE_INDEX


def test_a_space_that_grows_large_gets_lists(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = source("kb", *ENTITIES), source("two", HERON, MERCURY)
    rows = opened(folder).manifest.rows
    monkeypatch.setattr("kglink.space.index.MOST_EXACT", rows)
    build(folder, *sources)
    assert opened(folder).manifest.index == "kglink/flat", "not larger than that"
    more = source("three", Entity("k1", "Kestrel"))
    build(folder, *sources, more)
    assert (opened(folder).manifest.index, opened(folder).manifest.index_settings) == LARGE_INDEX
    # Who wants it exact says so once.
    change_index(folder, IndexChoice("kglink/flat", {}), backend_of)
    build(folder, *sources, more, source("four", Entity("k2", "Merlin")))
    assert opened(folder).manifest.index == "kglink/flat"


# ------------------------------------------------------------------------------------ recall
class Forgetful:
    """An exact index that forgets the rows of some places of its answer, and rounds scores."""

    exact = False
    oversampling = 1

    def __init__(self, index: VectorIndex, forgotten: Sequence[int]) -> None:
        self.size, self._index, self._forgotten = index.size, index, list(forgotten)

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        scores, rows = self._index.search(queries, k + len(self._forgotten), ranges)
        places = [place for place in self._forgotten if place < scores.shape[1]]
        kept = np.delete(scores, places, axis=1)[:, :k], np.delete(rows, places, axis=1)[:, :k]
        return kept[0] + np.float32(0.3), kept[1]

    def save(self, path: Path) -> None:
        raise NotImplementedError


def queries_of(space: Space, count: int) -> IndexQueries:
    drawn = np.random.default_rng(3).standard_normal((count, 8)).astype(np.float32)
    return IndexQueries("drawn", {"alias": drawn, "text": drawn})


def test_recall_by_hand(folder: SpaceFolder) -> None:
    space = opened(folder)
    asked = queries_of(space, BATCH + 3)
    index = Forgetful(space.index, [0, 5])
    whole, text, alias, *others = measure_index(space, index, space.index, asked)
    for figures in (whole, text, alias):
        # The best and the sixth are missing, whatever is asked for.
        assert figures.queries == BATCH + 3
        assert figures.recall == {
            1: 0.0,
            10: pytest.approx(0.8),
            100: pytest.approx(0.98, abs=1e-3),
        }
        assert figures.index.alone > 0
        assert figures.exact.batch > 0
    # KB "two" has two texts: the best of them is missing, and there is no third.
    assert others[0].part.name == "two text"
    assert others[0].recall == {1: 0.0, 10: 0.5, 100: 0.5}


def test_an_exact_index_finds_everything_and_is_timed_once(folder: SpaceFolder) -> None:
    space = opened(folder)
    for figures in measure_index(space, space.index, space.index, queries_of(space, 5)):
        assert set(figures.recall.values()) == {1.0}
        assert figures.index is figures.exact


def test_equal_rows_are_right_in_any_order(tmp_path: Path) -> None:
    # 30 KBs' worth of one name: which of the equal rows comes is no matter of recall.
    twins = [Entity(f"e{at}", "Same", "Same.") for at in range(30)]
    folder = SpaceFolder(tmp_path, "default")
    build(folder, source("kb", *twins, *ENTITIES))
    space = opened(folder)
    best = IndexQueries("twins", {kind: space.segments["kb"].vectors(kind, slice(170, 171))
                                  for kind in ("text", "alias")})  # fmt: skip
    assert space.vectors(np.array([179])).shape == (1, 8)
    index = Forgetful(space.index, range(3))
    *_, alias = measure_index(space, index, space.index, best)
    assert alias.recall[1] == alias.recall[10] == 1.0
    assert alias.recall[100] == pytest.approx(0.97)


def test_a_row_is_left_out_of_its_own_answer(folder: SpaceFolder) -> None:
    space = opened(folder)
    rows = sample_rows(space, 20)
    spans = {(span.kb, span.kind): range(span.start, span.stop) for span in space.manifest.spans}
    names = [*spans["kb", "alias"], *spans["two", "alias"]]
    assert len(rows) == len(set(rows.tolist())) == 20
    assert set(rows.tolist()) <= set(names)
    assert sample_rows(space, 20).tolist() == rows.tolist()
    assert sample_rows(space, 10_000).tolist() == names
    vectors = space.vectors(rows)
    asked = IndexQueries("own", {"alias": vectors, "text": vectors}, own=rows)
    exact = measure_index(space, space.index, space.index, asked)
    assert all(set(figures.recall.values()) == {1.0} for figures in exact)
    # An index that misses the best row misses the query itself, where it may, and nothing else.
    alias = measure_index(space, Forgetful(space.index, [0]), space.index, asked)[2]
    inside = np.isin(rows, spans["kb", "alias"]).mean()
    assert alias.part.name == "kb alias"
    assert alias.recall[1] == pytest.approx(inside)


def test_the_parts_are_what_searches_are_limited_to(folder: SpaceFolder) -> None:
    assert [(part.name, tuple(part.rows)) for part in parts_of(opened(folder))] == [
        ("all rows", (0, 305)),
        ("kb text", (0, 150)), ("kb alias", (150, 300)),
        ("two text", (300, 302)), ("two alias", (302, 305)),
    ]  # fmt: skip


def test_vectors_of_rows_by_their_numbers(folder: SpaceFolder) -> None:
    space = opened(folder)
    rows = np.array([[0, 151, -1], [301, 304, 150]])
    found = space.vectors(rows)
    kb, two = space.segments["kb"], space.segments["two"]
    places: list[list[tuple[Segment, RowKind, int]]] = [
        [(kb, "text", 0), (kb, "alias", 1)],
        [(two, "text", 1), (two, "alias", 2), (kb, "alias", 0)],
    ]
    wanted = [[segment.vectors(kind, slice(at, at + 1))[0] for segment, kind, at in row]
              for row in places]  # fmt: skip
    wanted[0].append(np.zeros(8, dtype=np.float32))
    assert np.array_equal(found, np.array(wanted))
