"""Tokenizers made to explode are refused before they are loaded; published ones are not."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from kglink.errors import ModelError
from kglink.models import Encoder
from kglink.models.opening import packaged_minilm
from kglink.models.source import describe_folder
from kglink.models.tokenizer_check import LIMITS, check_tokenizer
from tiny_models import write_model, write_tokenizer

Values = dict[str, Any]


@pytest.fixture
def plain(tmp_path: Path) -> Values:
    write_tokenizer(tmp_path / "tokenizer.json")
    value: Values = json.loads((tmp_path / "tokenizer.json").read_text())
    return value


def replace(pattern: Values, content: str) -> Values:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*normalizers: Values) -> Values:
    return {"normalizer": {"type": "Sequence", "normalizers": list(normalizers)}}


def split(pattern: str) -> Values:
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"pre_tokenizer": step}


def frame(*pieces: Values, ids: int = 1) -> Values:
    special = {"[CLS]": {"id": "[CLS]", "ids": [2] * ids, "tokens": ["[CLS]"] * ids}}
    both = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    template = {"type": "TemplateProcessing", "single": list(pieces), "pair": both}
    return {"post_processor": template | {"special_tokens": special}}


def table(longest: str) -> Values:
    """A table of SentencePiece that puts this text in the place of some character."""
    raw = (4).to_bytes(4, "little") + bytes(4) + longest.encode() + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(raw).decode()}


TEXT = {"Sequence": {"id": "A", "type_id": 0}}
CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
NESTED: Values = {"type": "Lowercase"}
for _ in range(20):
    NESTED = {"type": "Sequence", "normalizers": [NESTED, replace({"String": "a"}, "aa")]}
BOMBS: dict[str, tuple[Values, str]] = {
    "doubling": (sequence(*[replace({"String": "a"}, "aa")] * 20), "growth is 1,048,576"),
    "nested doubling": ({"normalizer": NESTED}, "growth is 1,048,576"),
    "long content": (sequence(replace({"String": "a"}, "b" * 99)), "growth is 99"),
    "between all characters": (sequence(replace({"Regex": ""}, "b" * 30)), "growth is 31"),
    "long beginning": (sequence({"type": "Prepend", "prepend": "b" * 99}), "growth is 99"),
    "bytes of bytes": (sequence(*[{"type": "ByteLevel"}] * 5), "growth is 32"),
    "table": (sequence(table("b" * 4096)), "growth is 65"),
    "tables": (sequence(table("bb"), table("cc")), "growth is 128"),
    "many steps": (sequence(*[{"type": "Lowercase"}] * 2000), "parts is 2,016"),
    "doubled text": (frame(TEXT, TEXT), "frame is"),
    "long frame": (frame(TEXT, *[CLS] * 30, ids=30), "frame is 900"),
    "padding": (
        {"padding": {"strategy": {"Fixed": 10**8}, "pad_to_multiple_of": None}},
        "padding is 100,000,000",
    ),
    "nested repetition": (split("(a+)+$"), "endless time"),
    "choice repeated": (split("(?:a|a)*b"), "endless time"),
    "counted": (split("(a{1,9}){1,99}"), "endless time"),
    "optional repeated": (split("(?:(a)?){40}"), "endless time"),
    "in a normalizer": (sequence(replace({"Regex": r"(\s*x?)*y"}, "")), "endless time"),
    "many in a row": (split("a*(a*(a+a*)a*)a*b"), "endless time"),
    "calling itself": (split(r"(?<n>a|b\g<n>c)"), "endless time"),
    "hidden": (split("(?x)( a+ # (\n)+"), "endless time"),
    "class": (split(r"([)\]]a+)+"), "endless time"),
    "long pattern": (split("a" * 5000), "pattern is 5,000"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_before_it_is_loaded(plain: Values, bomb: str, tmp_path: Path) -> None:
    changed, message = BOMBS[bomb]
    folder = write_model(tmp_path / "model")
    (folder / "tokenizer.json").write_text(json.dumps(plain | changed))
    with pytest.raises(ModelError, match=message):
        describe_folder("model", folder)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_input_chars_per_word", 10**9, "word is 1,000,000,000"),
        ("continuing_subword_prefix", "#" * 65, "affix is 65"),
    ],
)
def test_a_model_of_words_that_explodes_is_refused(
    plain: Values, key: str, value: object, message: str
) -> None:
    plain["model"][key] = value
    with pytest.raises(ModelError, match=message):
        check_tokenizer(Path("tokenizer.json"), plain)


def test_words_and_added_tokens_are_counted_together(plain: Values) -> None:
    count = len(plain["model"]["vocab"]) + 4
    plain["added_tokens"] = [{"id": 5, "content": "heron"}] * 4
    check_tokenizer(Path("t"), plain, {**LIMITS, "tokens": count})
    with pytest.raises(ModelError, match=f"tokens is {count}, and at most {count - 1}"):
        check_tokenizer(Path("t"), plain, {**LIMITS, "tokens": count - 1})


#: What widely used tokenizers split texts with.
PUBLISHED = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{M}]+(?i:'s|'t|'re|'ve)?|\s*[\r\n]+|\s+",
    r"[\p{Lu}&&[^\p{Han}]]*[\p{Ll}&&[^\p{Han}]]+",
    r" {2,}",
)


@pytest.mark.parametrize("pattern", PUBLISHED)
def test_published_patterns_are_read(plain: Values, pattern: str) -> None:
    check_tokenizer(Path("t"), plain | split(pattern))
    check_tokenizer(Path("t"), plain | sequence(table("ﷺ"), replace({"Regex": pattern}, "▁")))


def test_the_default_tokenizer_is_read() -> None:
    path = packaged_minilm() / "tokenizer.json"
    check_tokenizer(path, json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"normalizer": 7, "model": "x", "padding": [1], "added_tokens": "abc"},
        {"post_processor": {"single": [7, "A"], "pair": 3, "special_tokens": None}},
        {"normalizer": {"precompiled_charsmap": "%"}, "pre_tokenizer": [{"pattern": "x"}]},
    ],
)
def test_what_is_no_tokenizer_is_left_to_its_library(value: object) -> None:
    check_tokenizer(Path("t"), value)


def test_a_pattern_that_gives_up_on_a_text_ends_in_a_sentence(
    plain: Values, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The regular expressions of the library panic after ten million steps."""
    folder = write_model(tmp_path / "model", max_position_embeddings=24)
    plain |= split("a*a*a*a*$")
    (folder / "tokenizer.json").write_text(json.dumps(plain))
    encoder = Encoder(str(folder), device="cpu", precision="fp32")
    with pytest.raises(ModelError, match="cannot read a text"):
        encoder.encode(["a" * 500 + "!"])
    capfd.readouterr()  # what the panic prints


def doubled(count: int) -> Callable[[str], str]:
    normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Replace("a", "aa") for _ in range(count)]
    )
    return normalizer.normalize_str


def test_growth_is_what_the_library_does() -> None:
    assert doubled(4)("a") == "a" * 16
    assert re.fullmatch("a*", doubled(3)("aa"))
