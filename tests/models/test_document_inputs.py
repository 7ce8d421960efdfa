"""One reading of a document for all its mentions: windows, seams, and what is learnt."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch

from kglink.errors import UsageError
from kglink.models import Encoder, resolve_model
from kglink.models.bi_encoder import load_bi_encoder
from kglink.models.document_inputs import DocumentInputs, without_marks
from kglink.models.hardware import choose_hardware
from kglink.models.inputs import IdArray, PieceTokenizer
from kglink.models.settings import BiEncoderSettings
from kglink.models.tower import LaidTexts
from kglink.records import MentionInText

SENTENCE = "The Heron sailed past the grey lighthouse, and Osprey-class boats followed her. "


@pytest.fixture(scope="module")
def pieces() -> PieceTokenizer:
    return PieceTokenizer(resolve_model())


@pytest.fixture(scope="module")
def words() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(resolve_model().path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def found_in(text: str, pattern: str) -> list[MentionInText]:
    return [MentionInText(text, one.start(), one.end()) for one in re.finditer(pattern, text)]


def read(pieces: PieceTokenizer, mentions: list[MentionInText]) -> list[tuple[IdArray, IdArray]]:
    """For each mention its own tokens, and the window that they stand in."""
    windows, numbers = DocumentInputs(pieces, 64, 512).windows(mentions)
    spans = [(one.ids[start:stop], one.ids) for one in windows for start, stop in one.spans]
    return [spans[number] for number in numbers]


def test_a_short_text_is_one_window_for_all_its_mentions(
    pieces: PieceTokenizer, words: tokenizers.Tokenizer
) -> None:
    mentions = found_in(SENTENCE, "Osprey-class|Heron|grey lighthouse")
    windows, numbers = DocumentInputs(pieces, 64, 512).windows(mentions[::-1])
    (window,) = windows
    assert window.ids.tolist() == words.encode(SENTENCE).ids
    told = [words.decode(window.ids[start:stop].tolist()) for start, stop in window.spans]
    assert [told[number] for number in numbers] == ["osprey - class", "grey lighthouse", "heron"]


def test_no_mention_is_lost_at_a_seam(pieces: PieceTokenizer, words: tokenizers.Tokenizer) -> None:
    text = SENTENCE * 60
    mentions = found_in(text, r"\w+")
    for mention, (own, window) in zip(mentions, read(pieces, mentions), strict=True):
        assert words.decode(own.tolist()) == mention.surface.lower()
        assert len(window) <= 3 * 64
    # Words on both sides: 16 tokens at least, where the text has as many.
    windows, _ = DocumentInputs(pieces, 64, 512).windows(mentions)
    inner = [span for one in windows[1:-1] for span in ((s, len(one.ids)) for s in one.spans)]
    assert min(min(start, length - stop) for (start, stop), length in inner) >= 16
    assert {len(one.ids) % 16 for one in windows} == {0}
    # All of it is read once, and a third at most twice.
    assert sum(len(one.ids) for one in windows) < 1.35 * len(words.encode(text).ids)


def test_of_a_long_text_only_the_parts_with_mentions_are_read(pieces: PieceTokenizer) -> None:
    text = f"Heron {SENTENCE.replace('Heron', 'Boat') * 2000} Heron"
    windows, numbers = DocumentInputs(pieces, 64, 512).windows(found_in(text, "Heron"))
    assert numbers.tolist() == [0, 1]
    assert sum(len(one.ids) for one in windows) <= 2 * 3 * 64


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("   x", 0, 2),
        ("\u200b\u200b", 0, 1),
        ("\ud83d\ude00 the Heron", 7, 12),
        ("鷺" * 900, 450, 453),
        ("x" * 9000, 0, 9000),
        (SENTENCE * 50, 0, 80 * 50),
        ("Herons", 0, 5),
    ],
    ids=["spaces", "no sign", "surrogates", "no spaces", "one word", "all of it", "half a word"],
)
def test_each_mention_has_a_token(pieces: PieceTokenizer, text: str, start: int, end: int) -> None:
    ((own, window),) = read(pieces, [MentionInText(text, start, end)])
    assert 0 < len(own) <= len(window) <= 3 * 64


def test_surrogates_do_not_move_what_comes_behind_them(
    pieces: PieceTokenizer, words: tokenizers.Tokenizer
) -> None:
    ((own, _),) = read(pieces, [MentionInText("\ud83d\ude00 the Heron", 7, 12)])
    assert words.decode(own.tolist()) == "heron"


def test_marks_are_taken_out_and_a_text_without_any_is_one_span() -> None:
    marked = np.array([101, 7, 1, 8, 9, 2, 6, 102], np.int32)
    assert without_marks(marked, 1, 2).ids.tolist() == [101, 7, 8, 9, 6, 102]
    assert without_marks(marked, 1, 2).spans == [(2, 4)]
    assert without_marks(marked[[0, 1, 7]], 1, 2).spans == [(0, 3)]


def test_what_is_learnt_from_a_window_is_read_from_the_document(tmp_path: Path) -> None:
    fp32 = choose_hardware("cpu", "fp32", 1)
    settings = BiEncoderSettings(pooling="span")
    model = load_bi_encoder(settings=settings, hardware=fp32).eval()
    model.save(tmp_path / "model")
    mentions = found_in(SENTENCE, "Heron|Osprey|boats")
    marked = model.inputs.mentions(mentions)
    with torch.no_grad():
        learnt = model.encode(marked, "mention").states[:, 0].numpy()
    encoder = Encoder(str(tmp_path / "model"), precision="fp32")
    np.testing.assert_allclose(encoder.encode_mentions(mentions), learnt, atol=1e-5)
    assert encoder.encode_mentions([]).shape == (0, learnt.shape[1])
    # By hand: the mean of the states of "osprey" in the sentence as it stands, of length one.
    (osprey,) = found_in(SENTENCE, "Osprey")
    (window,), _ = DocumentInputs(model.inputs.pieces, 64, 512).windows([osprey])
    (start, stop) = window.spans[0]
    with torch.no_grad():
        texts = LaidTexts(torch.from_numpy(window.ids), [len(window.ids)])
        states = model.mention.snapshot(fp32).states(texts)
    by_hand = states[start:stop].mean(dim=0)
    np.testing.assert_allclose(learnt[1], (by_hand / by_hand.norm()).numpy(), atol=1e-5)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2), (0, 6)])
def test_offsets_outside_the_text_are_refused(pieces: PieceTokenizer, start: int, end: int) -> None:
    with pytest.raises(UsageError, match="is not in its text of 5 characters"):
        DocumentInputs(pieces, 32, 64).windows([MentionInText("heron", start, end)])
