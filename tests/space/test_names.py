"""The name index against a brute-force twin."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kglink.files.tables import StringTable, StringWriter
from kglink.space import names as names_module
from kglink.space.names import (
    BUCKETS,
    NameIndex,
    build_name_index,
    gram_counts,
    inverse_frequency,
    weighted,
)

WORDS = ["lung", "heart", "cancer", "of", "the", "acute", "kidney", "type", "ii", "x", "y", "zo"]


def index_of(folder: Path, folded: list[str]) -> NameIndex:
    with StringWriter(folder / "folded") as table:
        for name in folded:
            table.add(name)
    build_name_index(folder, folder)
    return NameIndex(folder)


def random_names(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(count)]


def trigrams(name: str) -> Counter[str]:
    padded = f"\x1f{name}\x1f"
    return Counter(padded[at : at + 3] for at in range(len(padded) - 2))


def brute_cosines(query: str, names: list[str]) -> np.ndarray:
    """The same formula in plain Python, on the trigrams themselves instead of their hashes."""
    frequency = Counter(gram for name in names for gram in trigrams(name))

    def vector(name: str) -> dict[str, float]:
        idf = {
            gram: np.log((1 + len(names)) / (1 + frequency[gram])) + 1 for gram in trigrams(name)
        }
        raw = {gram: np.sqrt(count) * idf[gram] for gram, count in trigrams(name).items()}
        norm = np.sqrt(sum(value**2 for value in raw.values()))
        return {gram: value / norm for gram, value in raw.items()}

    wanted = vector(query)
    return np.array([sum(wanted.get(g, 0) * v for g, v in vector(n).items()) for n in names])


@pytest.mark.parametrize("shard_rows", [7, 1000])
def test_similar_names_are_those_of_the_brute_force(
    tmp_path: Path, shard_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "SHARD_ROWS", shard_rows)
    names = random_names(60, seed=1)
    index = index_of(tmp_path, names)
    queries = [*random_names(15, seed=2), "lungs", "q"]
    for query, (rows, cosines) in zip(queries, index.similar(queries, 5), strict=True):
        expected = brute_cosines(query, names)
        best = sorted(expected[expected > 0], reverse=True)[:5]
        assert cosines == pytest.approx(best, abs=1e-5)
        assert cosines == pytest.approx(expected[rows], abs=1e-5)


def test_idf_counts_the_names_that_hold_a_trigram() -> None:
    counts = gram_counts(["ab", "ab", "cd"])
    idf = inverse_frequency(np.bincount(counts.indices, minlength=BUCKETS), 3)
    twice = counts[0].indices[0]
    once = counts[2].indices[0]
    assert idf[twice] == pytest.approx(np.log(4 / 3) + 1)
    assert idf[once] == pytest.approx(np.log(4 / 2) + 1)


def test_a_repeated_trigram_counts_by_its_square_root() -> None:
    counts = gram_counts(["aaaaa"])
    assert sorted(counts.data) == [1, 1, 3]
    row = weighted(counts, np.ones(BUCKETS, dtype=np.float32))
    assert sorted(row.data**2) == pytest.approx([1 / 5, 1 / 5, 3 / 5])


def test_exact_names_give_all_rows_and_nothing_else(tmp_path: Path) -> None:
    index = index_of(tmp_path, ["mercury", "amber", "mercury", "", "müsli"])
    assert index.exact("mercury").tolist() == [0, 2]
    assert index.exact("müsli").tolist() == [4]
    assert index.exact("").tolist() == [3]
    assert index.exact("mercur").tolist() == []


def test_a_hash_that_collides_is_not_a_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "text_hash", len)
    index = index_of(tmp_path, ["abc", "xyz", "no"])
    assert index.exact("xyz").tolist() == [1]
    assert index.exact("zzz").tolist() == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=20))
def test_strings_come_back_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    stem = tmp_path_factory.mktemp("strings") / "table"
    with StringWriter(stem) as table:
        for text in texts:
            table.add(text)
    read = StringTable(stem)
    assert list(read) == texts
    assert [read[at] for at in range(len(read))] == texts


def test_an_empty_table(tmp_path: Path) -> None:
    with StringWriter(tmp_path / "none"):
        pass
    assert list(StringTable(tmp_path / "none")) == []


def test_strings_are_found_taken_and_compared_by_their_bytes(tmp_path: Path) -> None:
    texts = sorted(
        ["", "a", "a\0", "a\0b", "ab", "b", "z", "\u00e4", "\u00e4b", "\u4e2d", "\U0001f600"]
    )
    with StringWriter(tmp_path / "table") as out:
        for text in texts:
            out.add(text)
    table = StringTable(tmp_path / "table")
    assert [table.find(text) for text in texts] == [*range(len(texts))]
    assert [table.find(text) for text in ("\0", "aa", "zz", "\uffff", "\ud800")] == [-1] * 5
    rows = np.array([3, 0, 9, 3, 1, 2])
    assert table.take(rows) == [texts[at] for at in rows]
    assert table.take(np.empty(0, np.int64)) == []
    for text in (*texts, "\ud800", "\u00e4c"):
        assert table.equal(rows, text).tolist() == [texts[at] == text for at in rows]
        assert table.equal(np.empty(0, np.int64), text).tolist() == []
