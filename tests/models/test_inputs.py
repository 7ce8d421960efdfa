"""What towers read: windows and entity texts, token by token."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from pydantic import ValidationError
from tokenizers import processors

from kglink.errors import ConfigError, ModelError, UsageError
from kglink.models import resolve_model
from kglink.models.inputs import IdArray, Inputs, PieceTokenizer
from kglink.models.settings import InputSettings
from kglink.records import Alias, Entity, MentionInText
from tiny_models import WORDS, write_model

CLS, SEP = 101, 102
START, END, TITLE = 1, 2, 3  # [unused0] to [unused2] of BERT's vocabulary


def ids(*values: int) -> IdArray:
    return np.array(values, np.int32)


def inputs(**settings: object) -> Inputs:
    return Inputs(resolve_model(), InputSettings.model_validate(settings), rows=30522)


def entity(made: Inputs, title: IdArray, text: IdArray) -> IdArray:
    """The ids of an entity whose parts are these."""
    return made.pieces.framed(made.entity(ids(), title, text)[: made.settings.entity_tokens - 2])


@pytest.fixture(scope="module")
def minilm() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(resolve_model().path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


LEFT, RIGHT = np.arange(1000, 1040, dtype=np.int32), np.arange(2000, 2040, dtype=np.int32)


def test_the_window_of_the_specification() -> None:
    # n = 32 and |M| = 5: ql = 27 // 2 - 1 = 12 and qr = 32 - 5 - 12 - 2 = 13.
    window = inputs(mention_tokens=32).window(LEFT, ids(7, 8, 9), RIGHT)
    expected = [CLS, *range(1028, 1040), START, 7, 8, 9, END, *range(2000, 2013), SEP]
    assert window.tolist() == expected
    assert len(expected) == 32


def test_no_room_on_the_left_means_no_left() -> None:
    # n = 8 and |M| = 5: ql = 3 // 2 - 1 = 0 and qr = 8 - 5 - 0 - 2 = 1.
    window = inputs(mention_tokens=8).window(LEFT, ids(7, 8, 9), RIGHT)
    assert window.tolist() == [CLS, START, 7, 8, 9, END, 2000, SEP]


def test_a_mention_that_is_too_long_keeps_both_tags() -> None:
    window = inputs(mention_tokens=8).window(LEFT, np.arange(50, 70, dtype=np.int32), RIGHT)
    assert window.tolist() == [CLS, START, 50, 51, 52, 53, END, SEP]


@pytest.mark.parametrize(
    ("left", "right", "kept_left", "kept_right"),
    [
        (2, 40, 2, 23),
        (40, 3, 22, 3),
        (2, 3, 2, 3),
        (40, 40, 12, 13),
        (0, 40, 0, 25),
        (12, 14, 12, 13),
    ],
)
def test_what_one_side_leaves_goes_to_the_other(
    left: int, right: int, kept_left: int, kept_right: int
) -> None:
    window = inputs(mention_tokens=32).window(LEFT[40 - left :], ids(7, 8, 9), RIGHT[:right])
    on_left = range(1040 - kept_left, 1040)
    on_right = range(2000, 2000 + kept_right)
    assert window.tolist() == [CLS, *on_left, START, 7, 8, 9, END, *on_right, SEP]


def test_a_mention_in_its_text(minilm: tokenizers.Tokenizer) -> None:
    text = "The grey heron (Ardea cinerea) fishes."
    (found,) = inputs().mentions([MentionInText(text, 4, 14)])
    tokens = [minilm.id_to_token(int(row)) for row in found]
    assert tokens[:6] == ["[CLS]", "the", "[unused0]", "grey", "heron", "[unused1]"]
    assert tokens[6] == "("
    assert tokens[-2:] == [".", "[SEP]"]


def test_tags_and_frame_in_a_text_are_only_text(minilm: tokenizers.Tokenizer) -> None:
    text = "[SEP] a [unused1] b [CLS]"
    (found,) = inputs().mentions([MentionInText(text, 6, 7)])
    assert (found == SEP).sum() == 1
    assert (found == CLS).sum() == 1
    assert (found == END).sum() == 1
    assert "unused" in {minilm.id_to_token(int(row)) for row in found}


def test_long_texts_are_read_as_if_all_of_them_were_tokenised(
    minilm: tokenizers.Tokenizer,
) -> None:
    rng = random.Random(4)
    words = ["ataxia", "telangiectasia", "x", "in", "dystrophinopathy", "ß", "川", "(", "  \n"]
    pieces = PieceTokenizer(resolve_model())
    texts = [" ".join(rng.choices(words, k=rng.randint(0, 400))) for _ in range(60)]
    texts += ["y" * 90 + " ", "heron" * 300, "z" * 300 + " heron", "川" * 900]
    texts += ["heron of " + "川" * 9000, "川" * 9000 + " the heron"]
    for count in (1, 5, 40):
        for text, first, last in zip(
            texts, pieces.starts(texts, count), pieces.ends(texts, count), strict=True
        ):
            whole = minilm.encode(text, add_special_tokens=False).ids
            assert first.tolist() == whole[:count]
            assert last.tolist() == whole[max(0, len(whole) - count) :]


@pytest.mark.parametrize("text", ["\ud800", "🜍 ⁂", "\x00", " "])
def test_any_mention_has_an_input(text: str) -> None:
    (found,) = inputs().mentions([MentionInText(text, 0, len(text))])
    assert found[[0, 1, -2, -1]].tolist() == [CLS, START, END, SEP]


def test_no_mentions_and_no_entities() -> None:
    assert inputs().mentions([]) == []
    assert inputs().entities([]) == []


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2), (0, 6)])
def test_offsets_outside_the_text_are_refused(start: int, end: int) -> None:
    with pytest.raises(UsageError, match="is not in its text of 5 characters"):
        inputs().mentions([MentionInText("heron", start, end)])


def test_an_entity_is_its_title_a_tag_and_its_text() -> None:
    room = inputs(entity_tokens=8)
    assert entity(room, ids(7, 8), ids(9)).tolist() == [CLS, 7, 8, TITLE, 9, SEP]
    # Cut to n - 2 before [SEP] is added: 2 of the title, the tag, 3 of the text.
    cut = entity(room, ids(7, 8), ids(9, 10, 11, 12, 13))
    assert cut.tolist() == [CLS, 7, 8, TITLE, 9, 10, 11, SEP]
    long = entity(room, np.arange(50, 60, dtype=np.int32), ids(9))
    assert long.tolist() == [CLS, 50, 51, 52, 53, 54, 55, SEP]


def test_a_title_that_stands_twice() -> None:
    kept, stripped = inputs(), inputs(strip_title_prefix=True)
    assert entity(kept, ids(7, 8), ids(7, 8, 9)).tolist() == [CLS, 7, 8, TITLE, 7, 8, 9, SEP]
    assert entity(stripped, ids(7, 8), ids(7, 8, 9)).tolist() == [CLS, 7, 8, TITLE, 9, SEP]
    assert entity(stripped, ids(7, 8), ids(7, 9)).tolist() == [CLS, 7, 8, TITLE, 7, 9, SEP]


HERON = Entity(
    "1",
    "grey heron",
    type="bird",
    description=" A wading bird ",
    aliases=(Alias("grey heron"), Alias("ardea"), Alias("ardea"), Alias("crane"), Alias("fisher")),
)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "grey heron [unused2] bird. ardea; crane; fisher. a wading bird"),
        ({"aliases": 2}, "grey heron [unused2] bird. ardea; crane. a wading bird"),
        ({"parts": ("title",)}, "grey heron [unused2]"),
        ({"parts": ("type", "title", "description")}, "bird grey heron [unused2] a wading bird"),
        ({"parts": ("title", "description", "type")}, "grey heron [unused2] a wading bird. bird"),
        (  # as ArboEL reads UMLS
            {"parts": ("title", "type", "aliases"), "brackets": True},
            "grey heron [unused2] ( bird : ardea ; crane ; fisher )",
        ),
        (
            {"parts": ("title", "aliases"), "brackets": True, "aliases": 1},
            "grey heron [unused2] ( ardea )",
        ),
        ({"parts": ("title",), "brackets": True}, "grey heron [unused2]"),
    ],
)
def test_the_template_of_entity_texts(
    settings: dict[str, object], text: str, minilm: tokenizers.Tokenizer
) -> None:
    (found,) = inputs(**settings).entities([HERON])
    before, tag, after = text.partition("[unused2]")
    expected = [
        *minilm.encode(before, add_special_tokens=False).ids,
        TITLE,
        *minilm.encode(after, add_special_tokens=False).ids,
    ]
    assert tag
    assert found.tolist() == [CLS, *expected, SEP]


def test_cut_entities_are_known() -> None:
    texts = [Entity("", "heron", description="bird " * count) for count in (3, 4, 5, 90)]
    tokens = inputs(entity_tokens=8).tokens(texts)
    assert [len(row) for row in tokens.ids] == [7, 8, 8, 8]
    assert tokens.truncated.tolist() == [False, False, True, True]


def test_tags_that_a_vocabulary_lacks_get_rows_behind_it(tmp_path: Path) -> None:
    source = resolve_model(str(write_model(tmp_path / "tiny")))
    rows = 5 + len(WORDS)
    short = InputSettings(mention_tokens=8, entity_tokens=8, tags=("[unused0]", "[MASK]", "[E]"))
    made = Inputs(source, short, rows=rows)
    assert made.tag_ids == (rows, 4, rows + 1)
    assert made.added_tags == ("[unused0]", "[E]")
    assert made.rows == rows + 2
    again = Inputs(source, short, rows=rows + 2, tag_ids=made.tag_ids)
    assert (again.tag_ids, again.added_tags, again.rows) == (made.tag_ids, (), rows + 2)
    assert inputs().added_tags == ()
    assert inputs().rows == 30522


def test_lengths_that_the_model_does_not_read(tmp_path: Path) -> None:
    source = resolve_model(str(write_model(tmp_path / "tiny")))
    with pytest.raises(ConfigError, match=r"entity_tokens = 25, and .* reads 24 tokens"):
        Inputs(source, InputSettings(mention_tokens=24, entity_tokens=25), rows=15)


def test_a_tokenizer_that_does_not_frame_its_texts(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "one")
    path = folder / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 3)]
    )
    tokenizer.save(str(path))
    with pytest.raises(ModelError, match="puts 1 tokens around a text") as caught:
        PieceTokenizer(resolve_model(str(folder)))
    assert "like BERT" in caught.value.hint


@pytest.mark.parametrize(
    "settings",
    [
        {"parts": ("type",)},
        {"parts": ("title", "title")},
        {"parts": ("title", "colour")},
        {"tags": ("[a]", "[a]", "[b]")},
        {"mention_tokens": 4},
        {"aliases": -1},
        {"window": 64},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        InputSettings.model_validate(settings)


def test_a_long_text_without_spaces_is_read_next_to_the_mention() -> None:
    left, right = "\u5c71" * 6000 + "\u6c34" * 100, "\u706b" * 100 + "\u5c71" * 6000
    text = f"{left}heron{right}"
    (found,) = inputs(mention_tokens=24).mentions([MentionInText(text, 6100, 6105)])
    (near,) = inputs(mention_tokens=24).mentions(
        [MentionInText(f"{left[-100:]}heron{right[:100]}", 100, 105)]
    )
    assert found.tolist() == near.tolist()
