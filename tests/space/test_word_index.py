"""The word index against a brute-force twin of the formulas, and BM25 against another library."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kglink.errors import DamagedFileError
from kglink.space import words as words_module
from kglink.space.words import MEASURES, WordIndex, WordMeasure, build_word_index, words_of

VOCABULARY = ["lung", "heart", "cancer", "of", "the", "acute", "kidney", "type", "ii", "x", "y"]


def index_of(folder: Path, texts: list[str]) -> WordIndex:
    scratch = folder / "scratch"
    scratch.mkdir()
    build_word_index(folder, texts, scratch)
    return WordIndex(folder, len(texts))


def random_texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(VOCABULARY, k=draw.randint(1, 9))) for _ in range(count)]


def bm25_twin(query: str, texts: list[str]) -> list[float]:
    """Lucene's BM25 by its formula, as a share of what the words can reach."""
    split = [text.split() for text in texts]
    mean = sum(map(len, split)) / len(split)

    def idf(word: str) -> float:
        holders = sum(word in text for text in split)
        return math.log(1 + (len(split) - holders + 0.5) / (holders + 0.5))

    def part(word: str, text: list[str]) -> float:
        tf = text.count(word)
        return idf(word) * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(text) / mean))

    most = sum(map(idf, query.split()))
    return [sum(part(word, text) for word in query.split()) / most for text in split]


def tfidf_twin(query: str, texts: list[str]) -> list[float]:
    """The cosine of the root of how often a word stands there, times its idf."""

    def vector(text: str) -> dict[str, float]:
        holders = {word: sum(word in one.split() for one in texts) for word in text.split()}
        raw = {
            word: math.sqrt(tf) * (math.log((1 + len(texts)) / (1 + holders[word])) + 1)
            for word, tf in Counter(text.split()).items()
        }
        norm = math.sqrt(sum(value**2 for value in raw.values()))
        return {word: value / norm for word, value in raw.items()}

    wanted = vector(query)
    return [sum(wanted.get(w, 0) * v for w, v in vector(text).items()) for text in texts]


TWINS: dict[WordMeasure, Callable[[str, list[str]], list[float]]] = {
    "bm25": bm25_twin,
    "tfidf": tfidf_twin,
}


@pytest.mark.parametrize("shard_words", [20, 1 << 22], ids=["many shards", "one shard"])
@pytest.mark.parametrize("measure", MEASURES)
def test_scores_and_order_are_those_of_the_formula(
    tmp_path: Path, measure: WordMeasure, shard_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_module, "SHARD_WORDS", shard_words)
    texts = random_texts(60, seed=1)
    index = index_of(tmp_path, texts)
    queries = [*random_texts(15, seed=2), "the lung of nobody", "lung lung heart"]
    everything = np.arange(len(texts))
    for query, (rows, scores) in zip(queries, index.search(queries, 7, measure), strict=True):
        expected = np.array(TWINS[measure](query, texts))
        best = sorted(expected[expected > 0], reverse=True)[:7]
        assert scores == pytest.approx(best, abs=1e-5)
        assert scores == pytest.approx(expected[rows], abs=1e-5)
        assert index.scores(query, everything, measure) == pytest.approx(expected, abs=1e-5)


def test_bm25_is_that_of_another_library(tmp_path: Path) -> None:
    bm25s = pytest.importorskip("bm25s")
    texts = random_texts(80, seed=3)
    index = index_of(tmp_path, texts)
    other = bm25s.BM25(method="lucene", k1=words_module.K1, b=words_module.B)
    other.index([text.split() for text in texts], show_progress=False)
    for query in random_texts(12, seed=4):
        theirs = other.get_scores(query.split())
        ours = index.scores(query, np.arange(len(texts)), "bm25")
        # Ours is a share of what the words can reach: one factor for a query.
        assert ours * (theirs.sum() / ours.sum()) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("measure", MEASURES)
def test_words_that_nobody_has_find_nothing_and_lower_the_score(
    tmp_path: Path, measure: WordMeasure
) -> None:
    index = index_of(tmp_path, ["lung cancer", "heart", ""])
    (rows, _), (found, _), (none, _) = index.search(["zebra", "lung", ""], 5, measure)
    assert (rows.tolist(), found.tolist(), none.tolist()) == ([], [0], [])
    alone, with_more = (
        index.scores(query, np.array([0]), measure)[0] for query in ("lung", "lung zebra")
    )
    assert 0 < with_more < alone <= 1


@pytest.mark.parametrize("shard_words", [10, 1 << 22], ids=["many shards", "one shard"])
def test_a_limited_index_finds_its_own_entities_as_the_whole_one_scores_them(
    tmp_path: Path, shard_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_module, "SHARD_WORDS", shard_words)
    texts = random_texts(40, seed=5)
    whole = index_of(tmp_path, texts)
    kept = np.array([1, 2, 9, 20, 39])
    limited = whole.limited(kept)
    for query in random_texts(6, seed=6):
        scores = whole.scores(query, kept, "bm25")
        ((rows, found),) = limited.search([query], 5, "bm25")
        assert rows.tolist() == [
            row for score, row in sorted(zip(-scores, kept.tolist(), strict=True)) if score
        ]
        assert found == pytest.approx(sorted(scores[scores > 0], reverse=True))
        assert limited.scores(query, kept, "bm25") == pytest.approx(scores)


def test_signs_of_scripts_without_spaces_are_words() -> None:
    assert words_of("肺癌 of lungs") == ["肺", "癌", "of", "lungs"]


def test_an_index_of_no_entities_finds_nothing(tmp_path: Path) -> None:
    index = index_of(tmp_path, [])
    ((rows, scores),) = index.search(["lung"], 3, "bm25")
    assert (len(rows), len(scores)) == (0, 0)


@pytest.mark.parametrize("name", ["word_hashes", "word_counts", "words0.indices", "words0.bm25"])
def test_a_damaged_index_is_refused(tmp_path: Path, name: str) -> None:
    index_of(tmp_path, random_texts(9, seed=7))
    np.save(tmp_path / f"{name}.npy", np.array([99.5, 2]))
    with pytest.raises(DamagedFileError):
        WordIndex(tmp_path, 9)
