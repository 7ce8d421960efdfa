"""A tagger reads texts of any length in windows and blocks, and loses nothing at their seams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from torch import Tensor

from kglink.arrays import FloatArray
from kglink.models import tagger as tagger_module
from kglink.models.inputs import IdArray
from kglink.models.runtime import TokenEncoder
from kglink.models.source import ModelSource, describe_folder
from kglink.models.tag_inputs import WordPieces
from kglink.models.tagger import Tagger
from tiny_models import write_model


class Sure(TokenEncoder):
    """Says of "amber" that a mention begins, of "heron" that it goes on, whatever is around."""

    def __init__(self, source: ModelSource) -> None:
        pieces = WordPieces(source, 16).words("amber heron").pieces
        self._answer_of = {int(ids[0]): number for number, ids in enumerate(pieces, 1)}

    def tokens(self, ids: Sequence[IdArray], head: Callable[[Tensor], Tensor]) -> list[FloatArray]:
        return [
            np.eye(3, dtype=np.float32)[[self._answer_of.get(int(one), 0) for one in text]]
            for text in ids
        ]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return describe_folder("tiny", write_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def tagger(source: ModelSource, monkeypatch: pytest.MonkeyPatch) -> Tagger:
    monkeypatch.setattr(tagger_module, "BLOCK_WORDS", 64)
    monkeypatch.setattr(tagger_module, "SHARED_WORDS", 16)
    monkeypatch.setattr(tagger_module, "_TOGETHER", 100)
    return Tagger(WordPieces(source, 16), Sure(source), lambda states: states)


def test_no_mention_is_lost_or_found_twice_at_a_seam(tagger: Tagger) -> None:
    mention = "amber heron heron"
    texts = ["river " * before + mention + " of" * 90 for before in range(160)]
    for before, spans in enumerate(tagger.proposals(texts)):
        start = len("river ") * before
        assert [(one.start, one.end) for one in spans] == [(start, start + len(mention))]


def test_texts_keep_their_order_whatever_their_length(tagger: Tagger) -> None:
    texts = ["amber " * count for count in (0, 3, 200, 1, 0, 70)]
    assert [len(spans) for spans in tagger.proposals(texts)] == [0, 3, 200, 1, 0, 70]


def test_a_long_text_is_read_a_block_at_a_time(source: ModelSource) -> None:
    sizes: list[int] = []

    class Counted(Sure):
        def tokens(
            self, ids: Sequence[IdArray], head: Callable[[Tensor], Tensor]
        ) -> list[FloatArray]:
            sizes.append(sum(map(len, ids)))
            return super().tokens(ids, head)

    tagger = Tagger(WordPieces(source, 64), Counted(source), lambda states: states)
    (spans,) = tagger.proposals(["amber heron of the " * 20_000])
    assert len(spans) == 20_000
    assert max(sizes) < 2 * tagger_module._TOGETHER  # of 80,000 words
