"""Texts to token ids, many at once, cut to the model's length and counted where cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from kglink.errors import ModelError
from kglink.models.models import ModelSource

#: Texts that the tokenizer holds at once: its own records need about 100 bytes a token.
_SLICE = 2048
#: As many characters for each piece are tokenised at first; rarely too few.
_LIKELY_CHARS = 6
#: A longer text is cut before it is tokenised, so that a 50 MB description costs nothing.
_MAX_CHARS_PER_TOKEN = 64

#: What a tokenizer may consist of; tokenizer.json alone says all, the others are for other tools.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)

IdArray = npt.NDArray[np.int32]


class Tokens(NamedTuple):
    """Token ids of n texts, one array each, and which of the texts were cut."""

    ids: list[IdArray]
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
        ids: list[IdArray] = []
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
        return _no_surrogates(text[: self._max_chars])


class PieceTokenizer:
    """A model's tokenizer without its frame: the pieces at a text's beginning or end.

    Of a long text only as much is tokenised as is asked for.
    """

    def __init__(self, source: ModelSource) -> None:
        self._tokenizer = _load(source)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.frame = _frame(source, self._tokenizer)
        # A text that says "[SEP]" says these five characters, and does not end the input.
        self._tokenizer.encode_special_tokens = True

    def id_of(self, token: str) -> int | None:
        """The vocabulary row of a token."""
        row = self._tokenizer.token_to_id(token)
        return None if row is None else int(row)

    def starts(self, texts: Sequence[str], count: int) -> list[IdArray]:
        """The first ``count`` pieces of each text."""
        return [ids[:count] for ids in self._enough(texts, count, _first_words)]

    def ends(self, texts: Sequence[str], count: int) -> list[IdArray]:
        """The last ``count`` pieces of each text."""
        return [ids[max(0, len(ids) - count) :] for ids in self._enough(texts, count, _last_words)]

    def _enough(
        self, texts: Sequence[str], count: int, cut: Callable[[str, int], str]
    ) -> list[IdArray]:
        """The pieces of a part of each text that has at least ``count``, or of all of it."""
        parts = [cut(text, _LIKELY_CHARS * (count + 8)) for text in texts]
        found = self._pieces(parts)
        short = [
            row
            for row, ids in enumerate(found)
            if len(ids) < count and len(parts[row]) < len(texts[row])
        ]
        most = _MAX_CHARS_PER_TOKEN * (count + 8)
        again = self._pieces([cut(texts[row], most) or texts[row][:most] for row in short])
        for row, ids in zip(short, again, strict=True):
            found[row] = ids
        return found

    def _pieces(self, texts: Sequence[str]) -> list[IdArray]:
        found: list[IdArray] = []
        for start in range(0, len(texts), _SLICE):
            part = [_no_surrogates(text) for text in texts[start : start + _SLICE]]
            encodings = self._tokenizer.encode_batch_fast(part, add_special_tokens=False)
            found += [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
        return found


def tokenizer_files(source: ModelSource) -> dict[str, bytes]:
    """A tokenizer's files by name, tokenizer.json always among them."""
    found = {
        name: (source.path / name).read_bytes()
        for name in TOKENIZER_FILES
        if (source.path / name).is_file()
    }
    if "tokenizer.json" not in found:
        found["tokenizer.json"] = _load(source).to_str(pretty=True).encode()
    return found


def _frame(source: ModelSource, tokenizer: tokenizers.Tokenizer) -> tuple[int, int]:
    """What stands before and after a text ([CLS], [SEP]): all that an empty text consists of."""
    ids = tokenizer.encode("").ids
    if len(ids) != 2:
        raise ModelError(
            f"{source.name}: its tokenizer puts {len(ids)} tokens around a text and not two, "
            "[CLS] and [SEP]",
            hint="Towers are made of encoders like BERT.",
        )
    return ids[0], ids[1]


def _first_words(text: str, most: int) -> str:
    """The whole words among a text's first characters: where it is one long word, none."""
    part = text[:most]
    return part if len(part) == len(text) else part.rpartition(" ")[0]


def _last_words(text: str, most: int) -> str:
    """The whole words among a text's last characters: where it is one long word, none."""
    part = text[max(0, len(text) - most) :]
    return part if len(part) == len(text) else part.partition(" ")[2]


def _no_surrogates(text: str) -> str:
    """Lone surrogates (no real characters) replaced."""
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
