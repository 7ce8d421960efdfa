"""The lists of a large KB's tokens, against a comparison with all entities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kglink.errors import DamagedSpaceError
from kglink.models.runtime import TokenMatrices
from kglink.space import token_lists, token_search
from kglink.space.token_lists import CENTROIDS_FILE, write_token_lists
from kglink.space.token_rows import TokenRows, TokenRowsWriter
from kglink.space.token_search import TokenSearch
from kglink_plugins.plugin import ScorerSettings
from kglink_plugins.scorers import SumOfMaxScorer

DIM, TOPICS = 24, 60
STARTS, ENTITIES = "token_list_starts.npy", "token_list_entities.npy"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KB of 2,000 entities is a large one, of which few are compared."""
    monkeypatch.setattr(token_lists, "LEAST_TOKENS", 1000)
    monkeypatch.setattr(token_lists, "_WRITTEN", 3000)
    monkeypatch.setattr(token_lists, "_SORTED", 2000)
    monkeypatch.setattr(token_search, "COMPARED", 50)
    monkeypatch.setattr(token_search, "_LISTED", 7)


def texts(count: int, seed: int, *, length: float = 1.0) -> TokenMatrices:
    """Texts of 3 to 9 tokens; a token is near one of some directions, and each text has a few."""
    chance = np.random.default_rng(seed)
    directions = np.random.default_rng(0).normal(size=(TOPICS, DIM))
    lengths = chance.integers(3, 10, count)
    own = np.repeat(chance.integers(TOPICS, size=(count, 3)), lengths, axis=0)
    topics = own[np.arange(len(own)), chance.integers(3, size=len(own))]
    states = directions[topics] + 0.3 * chance.normal(size=(len(own), DIM))
    states *= length / np.linalg.norm(states, axis=1, keepdims=True)
    bits = torch.from_numpy(states).bfloat16().view(torch.int16).numpy()
    return TokenMatrices(bits, np.concatenate([[0], np.cumsum(lengths)]))


def written(folder: Path, matrices: TokenMatrices) -> TokenRows:
    folder.mkdir(exist_ok=True)
    with TokenRowsWriter(folder, DIM) as writer:
        writer.add(matrices)
        writer.finish()
    return TokenRows(folder, DIM)


def listed(folder: Path, matrices: TokenMatrices) -> TokenRows:
    tokens = written(folder, matrices)
    assert list(write_token_lists(tokens))[-1] == tokens.tokens
    return tokens


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("processor", [{"avx512_bf16"}, set()])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_nearly_the_same_entities_as_when_all_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, processor: set[str]
) -> None:
    monkeypatch.setattr(token_lists, "cpu_flags", lambda: processor)
    entities, queries = texts(2000, 1, length=1.0 if metric == "cosine" else 3.0), texts(40, 2)
    scorer = SumOfMaxScorer(ScorerSettings.model_validate({"metric": metric}))
    all_scores, all_rows = TokenSearch(written(tmp_path / "whole", entities), scorer).search(
        queries, 10
    )
    tokens = listed(tmp_path / "lists", entities)
    search = TokenSearch(tokens, scorer)
    scores, rows = search.search(queries, 10)
    same = [len(set(one) & set(other)) for one, other in zip(all_rows, rows, strict=True)]
    assert np.mean(same) > 9.7
    assert (rows[:, 0] == all_rows[:, 0]).mean() > 0.97
    for at in range(40):  # what is found has its exact score
        np.testing.assert_array_equal(scores[at], search.scores(queries, at, rows[at]))
        known = np.isin(rows[at], all_rows[at])
        np.testing.assert_array_equal(
            scores[at][known], all_scores[at][np.isin(all_rows[at], rows[at])]
        )


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_entities_of_one_and_the_same_text_are_found(tmp_path: Path, share: float) -> None:
    entities = texts(2000, 1)
    lengths = np.diff(entities.offsets)
    same = np.flatnonzero(lengths == 5)
    one = slice(entities.offsets[same[0]], entities.offsets[same[0] + 1])
    for at in same[: int(share * len(same))]:
        entities.bits[entities.offsets[at] : entities.offsets[at + 1]] = entities.bits[one]
    query = TokenMatrices(entities.bits[one], np.array([0, 5]))
    _, rows = TokenSearch(listed(tmp_path, entities), SumOfMaxScorer()).search(query, 10)
    assert rows[0].tolist() == same[:10].tolist()
    nothing = TokenMatrices(np.empty((0, DIM), np.int16), np.array([0, 0]))
    _, rows = TokenSearch(TokenRows(tmp_path, DIM), SumOfMaxScorer()).search(nothing, 10)
    assert rows[0].tolist() == [*range(10)]


def test_vectors_of_many_lengths_have_no_lists_for_cosines(tmp_path: Path) -> None:
    entities, queries = texts(2000, 1), texts(20, 2)
    states = torch.from_numpy(entities.bits).view(torch.bfloat16)
    states *= torch.from_numpy(np.random.default_rng(3).uniform(0.5, 2, (len(states), 1)))
    scorer = SumOfMaxScorer(ScorerSettings.model_validate({"metric": "cosine"}))
    _, rows = TokenSearch(listed(tmp_path / "lists", entities), scorer).search(queries, 10)
    _, all_rows = TokenSearch(written(tmp_path / "whole", entities), scorer).search(queries, 10)
    assert rows.tolist() == all_rows.tolist()


def test_some_of_the_entities(tmp_path: Path) -> None:
    entities, queries = texts(2000, 1), texts(20, 2)
    search = TokenSearch(listed(tmp_path, entities), SumOfMaxScorer())
    some = np.sort(np.random.default_rng(5).permutation(2000)[:900])
    _, rows = search.search(queries, 10, some)
    assert np.isin(rows, some).all()
    twin = TokenSearch(written(tmp_path / "twin", entities), SumOfMaxScorer())
    _, expected = twin.search(queries, 10, some)
    assert (rows == expected).mean() > 0.95
    few = some[:50]  # not more than are compared anyway: exact
    for span in (few, np.arange(300, 380)):
        for one, other in zip(
            search.search(queries, 5, span), twin.search(queries, 5, span), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_a_list_holds_the_entities_whose_tokens_are_nearest_to_its_centroid(tmp_path: Path) -> None:
    entities = texts(2000, 1)
    tokens = listed(tmp_path, entities)
    centroids, starts = np.load(tmp_path / CENTROIDS_FILE), np.load(tmp_path / STARTS)
    found = np.load(tmp_path / ENTITIES)
    states = torch.from_numpy(entities.bits).view(torch.bfloat16).float().numpy()
    distances = ((states[:, None] - centroids[None]) ** 2).sum(axis=2)
    owners = np.repeat(np.arange(2000), np.diff(entities.offsets))
    nearest = distances.argmin(axis=1)
    pairs = {(int(at), int(owner)) for at, owner in zip(nearest, owners, strict=True)}
    got = {
        (at, int(one)) for at in range(len(centroids)) for one in found[starts[at] : starts[at + 1]]
    }
    assert len(got) == len(found)
    # Rounded to bf16, few tokens have another centroid, which is about as near.
    assert len(got & pairs) > 0.97 * len(pairs)
    assert len(centroids) % 128 == 0
    assert tokens.tokens == len(states)


def test_it_goes_on_where_it_was_stopped_with_the_same_lists(tmp_path: Path) -> None:
    entities = texts(2000, 1)
    listed(tmp_path / "whole", entities)
    for stop in (1, 2, 4):
        folder = tmp_path / str(stop)
        tokens = written(folder, entities)
        work = write_token_lists(tokens)
        reached = [next(work) for _ in range(stop)][-1]
        del work  # which closes the file
        with (folder / "tokens.nearest").open("ab") as out:
            out.write(b"\1\2")  # a number that was half written
        assert next(write_token_lists(tokens)) > reached or stop == 1
        (rest := list(write_token_lists(tokens)))[-1:]
        assert rest[-1] == tokens.tokens
        assert files(folder) == files(tmp_path / "whole")
        (folder / "tokens.nearest").write_bytes(b"left by a kill")
        assert list(write_token_lists(tokens)) == []
        assert not (folder / "tokens.nearest").exists()


def test_a_small_kb_has_none(tmp_path: Path) -> None:
    tokens = written(tmp_path, texts(20, 1))
    assert list(write_token_lists(tokens)) == []
    assert not list(tmp_path.glob("token_list*"))


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        (STARTS, lambda path: np.save(path, np.load(path)[::-1])),
        (STARTS, lambda path: np.save(path, np.load(path)[1:])),
        (ENTITIES, lambda path: np.save(path, np.load(path)[1:])),
        (ENTITIES, lambda path: path.write_bytes(b"")),
        (CENTROIDS_FILE, lambda path: np.save(path, np.load(path)[1:])),
    ],
)
def test_damaged_lists_are_told(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    tokens = listed(tmp_path, texts(2000, 1))
    harm(tmp_path / name)
    with pytest.raises(DamagedSpaceError, match="token_"):
        TokenSearch(tokens, SumOfMaxScorer())
