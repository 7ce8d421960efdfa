"""What a model reads: texts as token ids; for towers, mentions in windows and entities as texts.

The mention window is BLINK's, [CLS] left [Ms] mention [Me] right [SEP], the entity text
[CLS] title [ENT] text [SEP]. Tags are inserted by their ids and never looked for in texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from kglink.arrays import IntArray
from kglink.errors import ConfigError, ModelError, UsageError
from kglink.models.loading import keeping_interrupts, library_errors, load_tokenizer
from kglink.models.model_json import parsed_json, read_small
from kglink.models.settings import InputSettings
from kglink.models.source import ModelSource, read_config
from kglink.records import Entity, MentionInText
from kglink.text.entity_text import entity_parts
from kglink.text.plain import with_common_signs

#: Texts that the tokenizer holds at once: its own records need about 100 bytes a token.
_SLICE = 2048
#: As many characters for each piece are tokenised at first; rarely too few.
_LIKELY_CHARS = 6
#: A longer text is cut before it is tokenised, so that a 50 MB description costs nothing.
MAX_CHARS_PER_TOKEN = 64
#: A longer word is cut with its text.
_LONGEST_WORD = 64
_UNREADABLE = "the tokenizer cannot read a text"
#: A word that hardly any vocabulary has: a sign of the rarest of Chinese names. It is read once, to
#: know the tokens around a text as well.
_RARE = "\U0002a6d6"

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


def check_places(mentions: Iterable[MentionInText]) -> None:
    """Refuse mentions that do not stand in their texts."""
    for mention in mentions:
        if not 0 <= mention.start < mention.end <= len(mention.text):
            raise UsageError(
                f"a mention from {mention.start} to {mention.end} is not in its text of "
                f"{len(mention.text)} characters",
                hint="Offsets are half-open: text[start:end] is the mention.",
            )


class Inputs:
    """Turns mentions and entities into token ids with one model's tokenizer.

    ``tag_ids`` are rows of the word embeddings. Tags that the vocabulary lacks get rows behind
    all that the model has; ``added_tags`` names them, and the towers are made with ``rows`` rows.
    """

    def __init__(
        self,
        source: ModelSource,
        settings: InputSettings | None = None,
        *,
        rows: int,
        tag_ids: Sequence[int] | None = None,
    ) -> None:
        self.source = source
        self.settings = settings or InputSettings()
        for name in ("mention_tokens", "entity_tokens"):
            if getattr(self.settings, name) > source.max_tokens:
                raise ConfigError(
                    f"{name} = {getattr(self.settings, name)}, and {source.name} reads "
                    f"{source.max_tokens} tokens",
                    hint=f"Give {name} of at most {source.max_tokens}.",
                )
        self.pieces = PieceTokenizer(source)
        known = [self.pieces.id_of(tag) for tag in self.settings.tags]
        self.added_tags: tuple[str, ...] = ()
        if tag_ids is None:
            self.added_tags = tuple(
                tag for tag, row in zip(self.settings.tags, known, strict=True) if row is None
            )
            new = iter(range(rows, rows + len(self.added_tags)))
            tag_ids = [next(new) if row is None else row for row in known]
        elif not all(0 <= row < rows for row in tag_ids):
            raise ModelError(
                f"{source.name}: its tags are rows {tuple(tag_ids)} of a vocabulary of {rows}",
                hint="The folder is damaged: copy it anew, or take an earlier checkpoint.",
            )
        start, end, title = tag_ids
        self.tag_ids = (start, end, title)
        self.rows = max(rows, *(row + 1 for row in self.tag_ids))
        self._start, self._end, self._title = (_ids([row]) for row in self.tag_ids)

    def mentions(self, mentions: Sequence[MentionInText]) -> list[IdArray]:
        """The token ids of each mention's window."""
        check_places(mentions)
        room = self.settings.mention_tokens
        reach = MAX_CHARS_PER_TOKEN * 2 * (room + 8)
        lefts = [one.text[max(0, one.start - reach) : one.start] for one in mentions]
        rights = [one.text[one.end : one.end + reach] for one in mentions]
        return [
            self.window(left, middle, right)
            for left, middle, right in zip(
                self.pieces.ends(lefts, room),
                self.pieces.starts([one.surface for one in mentions], room),
                self.pieces.starts(rights, room),
                strict=True,
            )
        ]

    def window(self, left: IdArray, mention: IdArray, right: IdArray) -> IdArray:
        """BLINK's window: both sides get the same room, and what one leaves goes to the other."""
        room = self.settings.mention_tokens
        marked = np.concatenate([self._start, mention[: room - 4], self._end])
        for_left = max(0, (room - len(marked)) // 2 - 1)
        for_right = max(0, room - len(marked) - for_left - 2)
        if len(left) <= for_left and len(right) > for_right:
            for_right += for_left - len(left)
        elif len(left) > for_left and len(right) <= for_right:
            for_left += for_right - len(right)
        # A slice of the last 0 tokens would be all of them.
        kept = left[max(0, len(left) - for_left) :]
        return self.pieces.framed(kept, marked, right[:for_right])

    def entities(self, entities: Iterable[Entity]) -> list[IdArray]:
        """The token ids of each entity's title and text."""
        return self.tokens(entities).ids

    def tokens(self, entities: Iterable[Entity]) -> Tokens:
        """The token ids of each entity, and which of them were cut."""
        settings = self.settings
        written = [
            entity_parts(entity, settings.parts, settings.aliases, brackets=settings.brackets)
            for entity in entities
        ]
        room = self.settings.entity_tokens
        columns = [self.pieces.starts(list(texts), room) for texts in zip(*written, strict=True)]
        whole = [self.entity(*row) for row in zip(*columns, strict=True)]
        cut = np.fromiter((len(inner) > room - 2 for inner in whole), np.bool_, len(whole))
        return Tokens([self.pieces.framed(inner[: room - 2]) for inner in whole], cut)

    def entity(self, before: IdArray, title: IdArray, text: IdArray) -> IdArray:
        """All of an entity, without its frame."""
        if self.settings.strip_title_prefix and np.array_equal(text[: len(title)], title):
            text = text[len(title) :]
        return np.concatenate([before, title, self._title, text])


class TextTokenizer:
    """A model's fast tokenizer, set to its length and to no padding."""

    def __init__(self, source: ModelSource) -> None:
        self._name, self.max_tokens = source.name, source.max_tokens
        self._tokenizer = _load(source)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(source.max_tokens)

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """Tokenise on all cores."""
        most = self.max_tokens * MAX_CHARS_PER_TOKEN
        truncated = np.fromiter((len(text) > most for text in texts), np.bool_, len(texts))
        ids: list[IdArray] = []
        parts = (readable(text[:most]) for text in texts)
        for encoding in _encodings(self._tokenizer.encode_batch_fast, parts, self._name):
            full = len(encoding.ids) >= self.max_tokens
            truncated[len(ids)] |= full and bool(encoding.overflowing)
            ids.append(_ids(encoding.ids))
        return Tokens(ids, truncated)


class PieceTokenizer:
    """A model's tokenizer without its frame: the pieces at a text's beginning or end.

    Of a long text only as much is tokenised as is asked for.
    """

    def __init__(self, source: ModelSource) -> None:
        self._name, self._tokenizer = source.name, _load(source)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # What stands around a text ([CLS], [SEP]) is all that an empty text consists of.
        frame = self._tokenizer.encode("").ids
        if len(frame) != 2:
            raise ModelError(
                f"{source.name}: its tokenizer puts {len(frame)} tokens around a text and not two, "
                "[CLS] and [SEP]",
                hint="Towers are made of encoders like BERT.",
            )
        self._first, self._last = _ids(frame[:1]), _ids(frame[1:])
        # A text that says "[SEP]" says these five characters, and does not end the input.
        self._tokenizer.encode_special_tokens = True

    def framed(self, *parts: IdArray) -> IdArray:
        """Pieces as one input, [CLS] before them and [SEP] behind."""
        return np.concatenate([self._first, *parts, self._last])

    def id_of(self, token: str) -> int | None:
        """The vocabulary row of a token."""
        row = self._tokenizer.token_to_id(token)
        return None if row is None else int(row)

    def starts(self, texts: Sequence[str], count: int) -> list[IdArray]:
        """The first ``count`` pieces of each text."""
        return [ids[:count] for ids in self._enough(texts, count, last=False)]

    def ends(self, texts: Sequence[str], count: int) -> list[IdArray]:
        """The last ``count`` pieces of each text."""
        return [ids[max(0, len(ids) - count) :] for ids in self._enough(texts, count, last=True)]

    def with_places(self, texts: Sequence[str]) -> list[tuple[IdArray, IntArray]]:
        """The pieces of whole texts, and from where to where each stands in its text."""
        whole = partial(self._tokenizer.encode_batch, add_special_tokens=False)
        return [
            (_ids(one.ids), np.array(one.offsets, np.int64).reshape(-1, 2))
            for one in _encodings(whole, texts, self._name)
        ]

    def _enough(self, texts: Sequence[str], count: int, *, last: bool) -> list[IdArray]:
        """The pieces of a part of each text that has at least ``count``, or of all of it."""
        parts = [
            _whole_words(_end(text, _LIKELY_CHARS * (count + 8), last), text, last)
            for text in texts
        ]
        found = self._pieces(parts)
        short = [
            row
            for row, ids in enumerate(found)
            if len(ids) < count and len(parts[row]) < len(texts[row])
        ]
        most = MAX_CHARS_PER_TOKEN * (count + 8)
        ends = [(_end(texts[row], most, last), texts[row]) for row in short]
        again = self._pieces([_whole_words(part, text, last) or part for part, text in ends])
        for row, ids in zip(short, again, strict=True):
            found[row] = ids
        return found

    def _pieces(self, texts: Iterable[str]) -> list[IdArray]:
        fast = partial(self._tokenizer.encode_batch_fast, add_special_tokens=False)
        return [_ids(one.ids) for one in _encodings(fast, map(readable, texts), self._name)]


def _encodings(
    encode: Callable[[list[str]], list[Any]], texts: Iterable[str], name: str
) -> Iterator[Any]:
    waiting = iter(texts)
    while part := list(islice(waiting, _SLICE)):
        with library_errors(_UNREADABLE, name):
            found = encode(part)
        yield from found


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


def _end(text: str, most: int, last: bool) -> str:
    """The first characters of a text, or its last."""
    return text[max(0, len(text) - most) :] if last else text[:most]


def _whole_words(part: str, text: str, last: bool) -> str:
    """A text's beginning or end without the word that the cut may go through.

    Empty where that word is long, as in scripts without spaces.
    """
    if len(part) == len(text):
        return part
    if last:
        return part[part.find(" ", 0, _LONGEST_WORD) + 1 :] if " " in part[:_LONGEST_WORD] else ""
    return part[: max(0, part.rfind(" ", max(0, len(part) - _LONGEST_WORD)))]


def readable(text: str) -> str:
    """Signs that hardly any vocabulary has as the common ones; lone surrogates replaced."""
    if text.isascii():
        return text
    common = with_common_signs.__wrapped__(text)  # its cache is for few texts, asked again
    return common.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(source: ModelSource) -> tokenizers.Tokenizer:
    """Read tokenizer.json directly; only a folder without one needs transformers."""
    path = source.path / "tokenizer.json"
    if not path.is_file():
        tokenizer: tokenizers.Tokenizer = load_tokenizer(source).backend_tokenizer
    else:
        raw = read_small(path)
        parsed_json(path, raw)
        with keeping_interrupts(), library_errors("the tokenizer cannot be read", path):
            tokenizer = tokenizers.Tokenizer.from_str(raw.decode())
    rows = read_config(source.path).get("vocab_size") or 1 << 31
    # What frames a text need not be in the vocabulary.
    with library_errors(_UNREADABLE, path):
        probed = tokenizer.encode(_RARE).ids
    highest = max([*tokenizer.get_vocab().values(), *probed], default=0)
    if highest >= rows:
        raise ModelError(
            f"{path}: the tokenizer has token {highest}, and the model {rows}",
            hint="Give tokenizer and weights of one and the same model.",
        )
    return tokenizer


def _ids(values: Sequence[int]) -> IdArray:
    return np.array(values, dtype=np.int32)
