"""Texts to token ids, many at once, cut to the model's length and counted where cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from kglink.encoding.models import ModelSource
from kglink.errors import ModelError

#: Texts that the tokenizer holds at once: its own records need about 100 bytes a token.
_SLICE = 2048
#: A longer text is cut before it is tokenised, so that a 50 MB description costs nothing.
_MAX_CHARS_PER_TOKEN = 64


class Tokens(NamedTuple):
    """Token ids of n texts, one array each, and which of the texts were cut."""

    ids: list[npt.NDArray[np.int32]]
    truncated: npt.NDArray[np.bool_]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of tokens of each text."""
        return np.fromiter((len(ids) for ids in self.ids), np.int64, len(self.ids))


class TextTokenizer:
    """A model's fast tokenizer, set to its length and to no padding."""

    def __init__(self, source: ModelSource) -> None:
        self.max_tokens = source.max_tokens
        self._tokenizer = _load(source)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(source.max_tokens)

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """Tokenise on all cores."""
        ids: list[npt.NDArray[np.int32]] = []
        truncated = np.zeros(len(texts), dtype=bool)
        for start in range(0, len(texts), _SLICE):
            part = texts[start : start + _SLICE]
            cut = [self._cut(text) for text in part]
            for row, encoding in enumerate(self._tokenizer.encode_batch_fast(cut), start):
                ids.append(np.array(encoding.ids, dtype=np.int32))
                full = len(encoding.ids) >= self.max_tokens
                truncated[row] = full and bool(encoding.overflowing)
            truncated[start : start + len(part)] |= [len(text) > self._max_chars for text in part]
        return Tokens(ids, truncated)

    @property
    def _max_chars(self) -> int:
        return self.max_tokens * _MAX_CHARS_PER_TOKEN

    def _cut(self, text: str) -> str:
        """At most ``_max_chars`` of a text, lone surrogates (no real characters) replaced."""
        text = text[: self._max_chars]
        if text.isascii():
            return text
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(source: ModelSource) -> tokenizers.Tokenizer:
    """Read tokenizer.json directly; only a folder without one needs transformers."""
    path = source.path / "tokenizer.json"
    if not path.is_file():
        return _convert(source)
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust library raises this very class
        raise ModelError(f"{path}: the tokenizer cannot be read: {error}") from error


def _convert(source: ModelSource) -> tokenizers.Tokenizer:
    """Let transformers build the fast tokenizer from an older vocabulary file."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source.path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"{source.path}: the tokenizer cannot be read: {error}") from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        raise ModelError(
            f"{source.path}: {type(tokenizer).__name__} is no fast tokenizer",
            hint="Save a fast one beside the weights (tokenizer.json).",
        )
    return backend
