"""Token matrices on disk, and the search through them against asking the scorer about all pairs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kglink.errors import DamagedSpaceError, SpaceError
from kglink.models.runtime import TokenMatrices
from kglink.plugins import Encoded, Scorer, TokenScorer
from kglink.space import token_search
from kglink.space.token_rows import (
    BITS_FILE,
    NORMS_FILE,
    STARTS_FILE,
    TokenRows,
    TokenRowsWriter,
    filled_up,
    texts_between,
)
from kglink.space.token_search import (
    TokenProducts,
    TokenSearch,
)
from kglink_plugins.plugin import DualSettings, ScorerSettings
from kglink_plugins.scorers import DualScorer, SumOfMaxScorer

DIM = 16
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


def matrices(lengths: list[int], seed: int, *, unit: bool = True) -> TokenMatrices:
    """Random tokens of texts of these lengths, with a common direction as real ones have."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(sum(lengths), DIM, generator=generator) + 1.0
    states = torch.nn.functional.normalize(states, dim=1) if unit else 3 * states
    bits = states.bfloat16().view(torch.int16).numpy()
    return TokenMatrices(bits, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def some_lengths(count: int, longest: int, seed: int) -> list[int]:
    lengths: list[int] = np.random.default_rng(seed).integers(1, longest + 1, count).tolist()
    return lengths


def written(folder: Path, *chunks: TokenMatrices) -> TokenRows:
    with TokenRowsWriter(folder, DIM) as writer:
        for chunk in chunks:
            writer.add(chunk)
        writer.finish()
    return TokenRows(folder, DIM)


def equal(one: TokenMatrices, other: TokenMatrices) -> bool:
    return np.array_equal(one.bits, other.bits) and np.array_equal(one.offsets, other.offsets)


def all_scores(scorer: Scorer, queries: TokenMatrices, entities: TokenMatrices) -> FloatArray:
    """The scorer's own scores of all pairs, every text padded to the longest of its side."""
    scores = scorer.score(as_padded(queries), as_padded(entities))
    found: FloatArray = scores.numpy()
    return found


def as_padded(texts: TokenMatrices) -> Encoded:
    lengths = np.diff(texts.offsets).tolist()
    states = torch.zeros(len(lengths), max(lengths, default=1), DIM)
    mask = torch.zeros(states.shape[:2], dtype=torch.bool)
    for row, length in enumerate(lengths):
        bits = texts.bits[texts.offsets[row] : texts.offsets[row + 1]].copy()
        states[row, :length] = torch.from_numpy(bits).view(torch.bfloat16).float()
        mask[row, :length] = True
    return Encoded(states, mask)


def best_by_sorting(
    scores: FloatArray, k: int, span: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """The twin: sort all."""
    numbers = np.arange(scores.shape[1]) if span is None else span
    found, rows = np.full((len(scores), k), -np.inf, np.float32), np.full((len(scores), k), -1)
    for at, row in enumerate(scores[:, numbers]):
        order = np.argsort(-row, kind="stable")[:k]
        found[at, : len(order)], rows[at, : len(order)] = row[order], numbers[order]
    return found, rows


# ------------------------------------------------------------------------------ on the disk
def test_what_was_written_is_read(tmp_path: Path) -> None:
    lengths = [3, 1, 4, 1, 5, 9, 2]
    whole = matrices(lengths, 1)
    rows = written(tmp_path, texts_between(whole, 0, 3), texts_between(whole, 3, 7))
    assert (len(rows), rows.tokens, rows.dim) == (7, 25, DIM)
    assert np.diff(rows.starts).tolist() == lengths
    assert equal(rows.take(np.arange(7)), whole)
    chosen = rows.take(np.array([5, 0, 5]))
    assert np.diff(chosen.offsets).tolist() == [9, 3, 9]
    assert np.array_equal(chosen.bits[9:12], whole.bits[:3])
    norms = as_padded(whole).states.norm(dim=-1)
    assert rows.norms == pytest.approx((float(norms[norms > 0].min()), float(norms.max())))
    assert (tmp_path / BITS_FILE).stat().st_size == 25 * DIM * 2


def test_a_kb_without_entities(tmp_path: Path) -> None:
    rows = written(tmp_path)
    assert (len(rows), rows.tokens) == (0, 0)
    scores, found = TokenSearch(rows, SumOfMaxScorer()).search(matrices([2], 1), 3)
    assert (scores.tolist(), found.tolist()) == ([[-np.inf] * 3], [[-1] * 3])


def test_a_writer_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    whole = matrices([2, 3, 4, 5], 2)
    for first in range(4):
        with TokenRowsWriter(tmp_path, DIM) as writer:
            assert writer.done == first
            writer.add(texts_between(whole, first, first + 1))
        with (tmp_path / BITS_FILE).open("ab") as half_written:
            half_written.write(b"junk")
        with (tmp_path / "tokens.lengths").open("ab") as half_written:
            half_written.write(b"junk")
    for _ in range(2):  # the second finds it finished
        with TokenRowsWriter(tmp_path, DIM) as writer:
            assert writer.done == 4
            writer.finish()
        assert equal(TokenRows(tmp_path, DIM).take(np.arange(4)), whole)


def test_a_writer_whose_files_are_gone_starts_again(tmp_path: Path) -> None:
    with TokenRowsWriter(tmp_path, DIM) as writer:
        writer.add(matrices([2, 3], 3))
    os.truncate(tmp_path / BITS_FILE, 10)
    with TokenRowsWriter(tmp_path, DIM) as writer:
        assert writer.done == 0


_CHILD = """
import sys
from pathlib import Path
from test_token_rows import DIM, matrices
from kglink.space.token_rows import TokenRowsWriter
with TokenRowsWriter(Path(sys.argv[1]), DIM) as writer:
    for chunk in range(writer.done // 50, 150):
        writer.add(matrices([1 + chunk % 3] * 50, chunk))
        print(writer.done, flush=True)
    writer.finish()
"""


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_added(tmp_path: Path) -> None:
    killed = 0
    while not (tmp_path / NORMS_FILE).exists():
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, tmp_path],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )
        assert child.stdout is not None
        with child, child.stdout:
            told = [child.stdout.readline() for _ in range(60)]
            child.kill()
        assert killed < 5
        killed += 1
        if told[-1]:
            with TokenRowsWriter(tmp_path, DIM) as writer:
                assert writer.done >= int(told[-1])
    assert killed >= 2
    rows = TokenRows(tmp_path, DIM)
    assert len(rows) == 150 * 50
    for chunk in range(0, 150, 13):
        wanted = matrices([1 + chunk % 3] * 50, chunk)
        assert equal(rows.take(np.arange(50 * chunk, 50 * chunk + 50)), wanted)


def test_a_full_disk_is_an_error_and_costs_nothing_that_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = matrices([2, 3, 4], 4)
    writer = TokenRowsWriter(tmp_path, DIM)
    writer.add(texts_between(whole, 0, 1))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SpaceError, match="No space left on device") as caught:
            writer.add(texts_between(whole, 1, 3))
    assert "Make room" in caught.value.hint
    assert writer.done == 1
    writer.add(texts_between(whole, 1, 3))
    writer.finish()
    assert equal(TokenRows(tmp_path, DIM).take(np.arange(3)), whole)


@pytest.mark.parametrize("name", [BITS_FILE, STARTS_FILE, NORMS_FILE])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 20)])
def test_damaged_files_are_told(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    written(tmp_path, matrices([2, 3], 5))
    harm(tmp_path / name)
    with pytest.raises(DamagedSpaceError, match=name):
        TokenRows(tmp_path, DIM)


def test_a_chunk_of_known_and_fresh_entities(tmp_path: Path) -> None:
    known = written(tmp_path, matrices([2, 3, 4], 6))
    fresh = matrices([1, 5], 7)
    chunk = filled_up(known, np.array([-1, 2, 0, -1]), fresh)
    assert np.diff(chunk.offsets).tolist() == [1, 4, 2, 5]
    assert equal(texts_between(chunk, 1, 3), known.take(np.array([2, 0])))
    assert np.array_equal(chunk.bits[:1], fresh.bits[:1])
    assert np.array_equal(chunk.bits[-5:], fresh.bits[1:])
    assert equal(
        filled_up(known, np.array([1]), texts_between(fresh, 0, 0)), known.take(np.array([1]))
    )


# -------------------------------------------------------------------------------- searching
@pytest.fixture(params=["bf16", "fp32"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    flags = frozenset({"avx512_bf16"}) if request.param == "bf16" else frozenset()
    monkeypatch.setattr(token_search, "cpu_flags", lambda: flags)
    return str(request.param)


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("unit", [True, False])
def test_it_is_the_scorer_asked_about_all_pairs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processor: str,
    metric: str,
    unit: bool,
) -> None:
    monkeypatch.setattr(token_search, "_MENTIONS", 13)
    monkeypatch.setattr(token_search, "_SCORES", 13 * 100)
    monkeypatch.setattr(token_search, "_ENTITY_TOKENS", 90)
    monkeypatch.setattr(token_search, "_MENTION_TOKENS", 20)
    monkeypatch.setattr(token_search, "_EXACT_TOKENS", 40)
    entities = matrices(some_lengths(300, 11, 8), 8, unit=unit)
    entities.bits[entities.offsets[40] : entities.offsets[80]] ^= -(2**15)  # some negative scores
    queries = matrices([25, *some_lengths(30, 9, 9)], 9, unit=unit)
    tokens = written(tmp_path, entities)
    scorer = SumOfMaxScorer(ScorerSettings.model_validate({"metric": metric}))
    wanted = all_scores(scorer, queries, entities)
    for span in (None, np.arange(30, 90), np.arange(0)):
        scores, rows = TokenSearch(tokens, scorer).search(queries, 10, span)
        best, best_rows = best_by_sorting(wanted, 10, span)
        np.testing.assert_allclose(scores, best, rtol=2e-6, atol=1e-5)
        assert (
            rows == best_rows
        ).mean() > 0.995  # two that differ in the last bit may change places
        real = rows >= 0
        assert np.array_equal(real, best_rows >= 0)
        np.testing.assert_allclose(
            scores[real], np.take_along_axis(wanted, rows, axis=1)[real], rtol=2e-6, atol=1e-5
        )


def test_by_hand(tmp_path: Path, processor: str) -> None:
    def texts(*tokens: list[list[float]]) -> TokenMatrices:
        states = torch.zeros(sum(map(len, tokens)), DIM)
        states[:, :2] = torch.tensor([token for text in tokens for token in text])
        offsets = np.concatenate([[0], np.cumsum([len(text) for text in tokens])])
        return TokenMatrices(states.bfloat16().view(torch.int16).numpy(), offsets)

    tokens = written(tmp_path, texts([[-3.0, -1.0]], [[3.0, 1.0], [-1.0, 4.0]]))
    query = texts([[1.0, 0.0], [0.0, 2.0]])
    scores, rows = TokenSearch(tokens, SumOfMaxScorer()).search(query, 3)
    # max(3, -1) + max(2, 8), and -3 - 2
    assert (scores.tolist(), rows.tolist()) == ([[11, -5, -np.inf]], [[1, 0, -1]])


def test_equal_entities_come_in_their_order(tmp_path: Path, processor: str) -> None:
    one, other = matrices([7], 10), matrices([4], 11)
    entities = [one if row % 3 else other for row in range(400)]
    tokens = written(tmp_path, *entities)
    queries = TokenMatrices(one.bits, one.offsets)
    scores, rows = TokenSearch(tokens, SumOfMaxScorer()).search(queries, 300)
    same = [row for row in range(400) if row % 3]
    assert rows[0].tolist() == [*same, *range(0, 3 * (300 - len(same)), 3)]
    assert len(set(scores[0].tolist())) == 2


def test_the_bounds_hold(tmp_path: Path) -> None:
    """What is rounded is never further off than it says; else an entity could be missed."""
    tokens = written(tmp_path, matrices(some_lengths(500, 20, 12), 12, unit=False))
    queries = matrices(some_lengths(20, 20, 13), 13, unit=False)
    for metric in ("dot", "cosine"):
        scorer = SumOfMaxScorer(ScorerSettings.model_validate({"metric": metric}))
        with ThreadPoolExecutor(1) as one:
            products = TokenProducts(queries, tokens, scorer.rule, one)
            (block,) = products.blocks(np.arange(500))
        exact = np.stack([products.exact(at, np.arange(500)) for at in range(20)])
        off = np.abs(block.scores - exact)
        assert (off <= block.errors).all()
        assert (off > 0.02 * block.errors).any()  # and they are no excuse for anything
        assert (block.errors < 0.02 * np.abs(exact).max()).all()


def test_a_scorer_without_a_rule_is_asked(tmp_path: Path) -> None:
    class Plain:
        """The same scores by another scorer, which has no rule."""

        def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
            return SumOfMaxScorer().score(mentions, entities)

    entities, queries = (
        matrices(some_lengths(600, 9, 14), 14),
        matrices(some_lengths(70, 6, 15), 15),
    )
    tokens = written(tmp_path, entities)
    assert isinstance(SumOfMaxScorer(), TokenScorer)
    assert not isinstance(Plain(), TokenScorer)
    fast = TokenSearch(tokens, SumOfMaxScorer()).search(queries, 8, np.arange(3, 590))
    slow = TokenSearch(tokens, Plain()).search(queries, 8, np.arange(3, 590))
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-5)
    assert np.array_equal(fast[1], slow[1])
    scorer = DualScorer(DualSettings(pooling="mean"))
    mean = TokenSearch(tokens, scorer).search(queries, 8)
    best = best_by_sorting(all_scores(scorer, queries, entities), 8)
    np.testing.assert_allclose(mean[0], best[0], rtol=1e-5)
    assert np.array_equal(mean[1], best[1])


def test_an_entity_without_tokens_is_never_found(tmp_path: Path) -> None:
    tokens = written(tmp_path, matrices([2, 0, 3], 16))
    for scorer in (SumOfMaxScorer(), DualScorer(DualSettings(pooling="mean"))):
        _, rows = TokenSearch(tokens, scorer).search(matrices([2], 17), 3)
        assert sorted(rows[0].tolist()) == [-1, 0, 2]


@pytest.mark.parametrize("k", [0, 1, 5])
def test_few_mentions_and_small_k(tmp_path: Path, k: int) -> None:
    tokens = written(tmp_path, matrices([2, 1, 3], 18))
    search = TokenSearch(tokens, SumOfMaxScorer())
    for count in (0, 1):
        scores, rows = search.search(matrices([2] * count, 19), k)
        assert scores.shape == rows.shape == (count, k)
        assert (rows >= 0).sum() == count * min(k, 3)


def test_memory_does_not_grow_with_the_entities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_search, "_SCORES", 20_000)
    queries = matrices([4] * 10, 20)

    def peak(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        chunk = matrices([8] * 2000, 21)
        tokens = written(folder, *[chunk] * (count // 2000))
        tracemalloc.start()
        try:
            TokenSearch(tokens, SumOfMaxScorer()).search(queries, 5)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # 20,000 entities more are 5 MB of tokens; only the table of their places may grow.
    assert peak(24_000) - peak(4_000) < 1_500_000
