"""What the towers read: a mention in its window, an entity as its title and its text.

The mention window is BLINK's, [CLS] left [Ms] mention [Me] right [SEP], the entity text
[CLS] title [ENT] text [SEP]. Tags are inserted by their ids and never looked for in texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kglink.errors import ConfigError, UsageError
from kglink.models.models import ModelSource
from kglink.models.settings import InputSettings
from kglink.models.tokenise import IdArray, PieceTokenizer, Tokens
from kglink.models.written import write_entity
from kglink.records import Entity

#: Characters on each side of a mention for every token of its window.
_REACH = 128


class MentionText(NamedTuple):
    """The mention ``text[start:end]`` and the text that it stands in."""

    text: str
    start: int
    end: int

    def near(self, tokens: int) -> MentionText:
        """The same with more of its text than a window of so many tokens ever holds, not a book."""
        reach = _REACH * (tokens + 8)
        first = max(0, self.start - reach)
        near = self.text[first : self.end + reach]
        return MentionText(near, self.start - first, self.end - first)


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
        self._check_lengths(source)
        self._pieces = PieceTokenizer(source)
        first, last = self._pieces.frame
        self._first, self._last = _ids([first]), _ids([last])
        known = [self._pieces.id_of(tag) for tag in self.settings.tags]
        self.added_tags: tuple[str, ...] = ()
        if tag_ids is None:
            self.added_tags = tuple(
                tag for tag, row in zip(self.settings.tags, known, strict=True) if row is None
            )
            new = iter(range(rows, rows + len(self.added_tags)))
            tag_ids = [next(new) if row is None else row for row in known]
        start, end, title = tag_ids
        self.tag_ids = (start, end, title)
        self.rows = max(rows, *(row + 1 for row in self.tag_ids))
        self._start, self._end, self._title = (_ids([row]) for row in self.tag_ids)

    def mentions(self, mentions: Sequence[MentionText]) -> list[IdArray]:
        """The token ids of each mention's window."""
        for mention in mentions:
            if not 0 <= mention.start < mention.end <= len(mention.text):
                raise UsageError(
                    f"a mention from {mention.start} to {mention.end} is not in its text of "
                    f"{len(mention.text)} characters",
                    hint="Offsets are half-open: text[start:end] is the mention.",
                )
        room = self.settings.mention_tokens
        lefts = self._pieces.ends([text[:start] for text, start, _ in mentions], room)
        middles = self._pieces.starts([text[start:end] for text, start, end in mentions], room)
        rights = self._pieces.starts([text[end:] for text, _, end in mentions], room)
        return [
            self.window(left, middle, right)
            for left, middle, right in zip(lefts, middles, rights, strict=True)
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
        return np.concatenate([self._first, kept, marked, right[:for_right], self._last])

    def entities(self, entities: Iterable[Entity]) -> list[IdArray]:
        """The token ids of each entity's title and text."""
        return self.tokens(entities).ids

    def tokens(self, entities: Iterable[Entity]) -> Tokens:
        """The token ids of each entity, and which of them were cut."""
        written = [write_entity(entity, self.settings) for entity in entities]
        room = self.settings.entity_tokens
        columns = [self._pieces.starts(list(texts), room) for texts in zip(*written, strict=True)]
        whole = [self._inner(*row) for row in zip(*columns, strict=True)]
        cut = np.fromiter((len(inner) > room - 2 for inner in whole), np.bool_, len(whole))
        return Tokens([self._framed(inner) for inner in whole], cut)

    def entity(self, title: IdArray, text: IdArray, *, before: IdArray | None = None) -> IdArray:
        """Title and text as one input, cut before the last token is added."""
        return self._framed(self._inner(_ids([]) if before is None else before, title, text))

    def _inner(self, before: IdArray, title: IdArray, text: IdArray) -> IdArray:
        if self.settings.strip_title_prefix and np.array_equal(text[: len(title)], title):
            text = text[len(title) :]
        return np.concatenate([before, title, self._title, text])

    def _framed(self, inner: IdArray) -> IdArray:
        room = self.settings.entity_tokens - 2
        return np.concatenate([self._first, inner[:room], self._last])

    def _check_lengths(self, source: ModelSource) -> None:
        for name in ("mention_tokens", "entity_tokens"):
            if getattr(self.settings, name) > source.max_tokens:
                raise ConfigError(
                    f"{name} = {getattr(self.settings, name)}, and {source.name} reads "
                    f"{source.max_tokens} tokens",
                    hint=f"Give {name} of at most {source.max_tokens}.",
                )


def _ids(values: Sequence[int]) -> IdArray:
    return np.array(values, dtype=np.int32)
