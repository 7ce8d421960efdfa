"""The vectors of remembered surfaces: like ones by a brute-force twin, kept, made anew, damaged."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kglink.records import EntityId
from kglink.space.remembered import (
    LEAST_ALIKE,
    LikeSurface,
    RememberedSurface,
    RememberedVectors,
    remembered_vectors,
)

DIM = 8
FloatArray = npt.NDArray[np.float32]


def surface(number: int, spelling: str = "") -> RememberedSurface:
    return RememberedSurface(f"key {number}", f"words {number}", spelling or f"Words {number}")


class Encoder:
    """A vector for each text, the same for the same text; what was asked for is told."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        self.read += texts
        return np.array([self.one(text) for text in texts], dtype=np.float32)

    @staticmethod
    def one(text: str) -> FloatArray:
        rng = np.random.default_rng(sum(text.encode()))
        vector: FloatArray = (rng.random(DIM) * 3).astype(np.float32)
        return vector


def nothing(_: Collection[str]) -> dict[str, list[EntityId]]:
    """No surface ever meant anything."""
    return {}


def kept(folder: Path, state: str, some: list[RememberedSurface], encode: Encoder) -> object:
    return remembered_vectors(
        folder, state, "model", DIM, lambda most: some[:most], encode, nothing
    )


def test_like_surfaces_are_those_of_a_twin_that_compares_all() -> None:
    encode, some = Encoder(), [surface(number) for number in range(300)]
    found = RememberedVectors([], np.empty((0, DIM), np.float16)).with_surfaces(some, encode)
    asked = [surface(number) for number in (3, 50, 299)]
    queries = encode([one.surface for one in asked])
    for one, query, like in zip(
        asked, queries, found.like([one.key for one in asked], queries), strict=True
    ):
        cosines = {}
        for other in some:
            vector = encode.one(other.surface)
            cosine = float(query @ vector / np.linalg.norm(query) / np.linalg.norm(vector))
            if other.key != one.key and cosine >= LEAST_ALIKE + 0.001:
                cosines[other] = cosine
        best = sorted(cosines, key=lambda other: -cosines[other])[:8]
        assert like[0].cosine > 0.8
        assert [round(near.cosine, 2) for near in like] == pytest.approx(
            [cosines[other] for other in best], abs=0.01
        )
        assert {near.remembered for near in like[:4]} <= set(best)


def test_own_words_and_unlike_ones_say_nothing() -> None:
    some = [surface(1), surface(1, "WORDS 1"), surface(2), surface(3)]
    vectors = np.eye(DIM, dtype=np.float16)[[0, 0, 0, 1]]
    found = RememberedVectors(some, vectors)
    query = np.eye(DIM, dtype=np.float32)[:1] * 7  # of any length
    assert found.like(["key 1"], query) == [[LikeSurface(surface(2), 1.0)]]
    assert found.like([], np.empty((0, DIM), np.float32)) == []
    empty = RememberedVectors([], np.empty((0, DIM), np.float16))
    assert empty.like(["key 1"], query) == [[]]
    assert empty.judged(nothing).trust == 1


def test_like_words_are_trusted_as_far_as_they_mean_the_same() -> None:
    """Of 90 surfaces the nearest one is known for each: pairs that mean one thing, or do not."""
    angles = np.repeat(np.arange(45) * 0.1, 2) + np.tile([0.0, 0.01], 45)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)
    found = RememberedVectors([surface(at) for at in range(90)], vectors)

    def trust(same: int) -> float:
        def meant(keys: Collection[str]) -> dict[str, list[EntityId]]:
            numbers = [(key, int(key.removeprefix("key "))) for key in keys]
            means = {key: at // 2 if at < 2 * same else at for key, at in numbers}
            return {key: [EntityId("kb", str(at))] for key, at in means.items()}

        return found.judged(meant).trust

    assert trust(45) == 1
    assert trust(20) == pytest.approx((40 + 6) / 100 / 0.6)
    assert trust(0) == pytest.approx(6 / 100 / 0.6)
    assert found.judged(nothing).trust == 1
    # What two KBs have says nothing of each other.
    apart = found.judged(
        lambda keys: {key: [EntityId(f"kb {int(key[4:]) % 2}", key)] for key in keys}
    )
    assert apart.trust == 1


def test_only_new_surfaces_are_encoded(tmp_path: Path) -> None:
    encode = Encoder()
    first = kept(tmp_path / "memory", "one", [surface(1), surface(2)], encode)
    assert encode.read == ["Words 1", "Words 2"]
    kept(tmp_path / "memory", "one", [surface(9)], encode)  # kept of this very state
    assert encode.read == ["Words 1", "Words 2"]
    kept(tmp_path / "memory", "two", [surface(3), surface(2)], encode)
    assert encode.read == ["Words 1", "Words 2", "Words 3"]
    again = kept(tmp_path / "memory", "two", [], encode)
    query = encode(["Words 2"])
    assert isinstance(first, RememberedVectors)
    assert isinstance(again, RememberedVectors)
    of_two = [one.remembered for one in again.like(["x"], query)[0]]
    assert of_two[0] == surface(2)
    assert surface(1) not in of_two


@pytest.mark.parametrize(
    "name", ["memory.json", "vectors.npy", "key.utf8", "surface.offsets.npy", "folded.utf8"]
)
def test_what_is_damaged_is_made_again(tmp_path: Path, name: str) -> None:
    folder, some = tmp_path / "memory", [surface(1), surface(2)]
    kept(folder, "one", some, Encoder())
    (folder / name).write_bytes(b"\x93NUMPY not what was written")
    encode = Encoder()
    kept(folder, "one", some, encode)
    assert encode.read == ["Words 1", "Words 2"]
    kept(folder, "one", some, encode)
    assert len(encode.read) == 2


def test_vectors_of_before_like_words_were_judged_are_kept(tmp_path: Path) -> None:
    encode, some = Encoder(), [surface(1), surface(2)]
    folder = tmp_path / "memory"
    kept(folder, "one", some, encode)
    said = json.loads((folder / "memory.json").read_text("utf-8"))
    del said["trust"]
    (folder / "memory.json").write_text(json.dumps(said | {"format": 1}), "utf-8")
    kept(folder, "one", some, encode)
    assert encode.read == ["Words 1", "Words 2"]
    assert json.loads((folder / "memory.json").read_text("utf-8"))["trust"] == 1


def test_another_model_reads_all_surfaces_again(tmp_path: Path) -> None:
    encode, some = Encoder(), [surface(1)]
    remembered_vectors(tmp_path / "m", "one", "model", DIM, lambda most: some, encode, nothing)
    remembered_vectors(tmp_path / "m", "one", "other", DIM, lambda most: some, encode, nothing)
    assert encode.read == ["Words 1", "Words 1"]


def test_where_nothing_can_be_written_they_are_made_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder can be made here")
    encode = Encoder()
    for _ in range(2):
        kept(tmp_path / "file" / "memory", "one", [surface(1)], encode)
    assert encode.read == ["Words 1", "Words 1"]
