"""Mentions read by the encoder: their words as names, and the same words in their text.

A plain encoder reads a name and a window of characters as two texts. A trained one reads the name
through its tower for entities, as an entity of which nothing else is known, and the mention in its
text through its tower for mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kglink.records import MentionInText
from kglink.text.abbreviations import long_form_of
from kglink.text.words import mention_window

if TYPE_CHECKING:
    from kglink.models.runtime import TokenMatrices
    from kglink.models.settings import BiEncoderSettings

FloatArray = npt.NDArray[np.float32]


class ReadMentions(NamedTuple):
    """The vectors of a batch of mentions; what was not asked for is None."""

    names: FloatArray | None
    """A vector for each surface, all of them different."""
    contexts: list[FloatArray | None]
    """A vector for each mention in its text; None: it has no text but itself."""
    tokens: TokenMatrices | None = None
    """The vectors of all tokens of each mention in its text."""


class Reader(Protocol):
    """Turns mentions into vectors."""

    @property
    def trained(self) -> BiEncoderSettings | None:
        """How the vectors are to be compared; None: they are of a plain encoder, of length one."""
        ...

    def read(
        self,
        surfaces: Sequence[str],
        mentions: Sequence[MentionInText],
        *,
        names: bool,
        contexts: bool,
        tokens: bool,
    ) -> ReadMentions:
        """The vectors of some surfaces and of some mentions in their texts, as far as wanted."""
        ...

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with what is read around them, than is read."""
        ...


class TextEncoder(Protocol):
    """What the reading of plain texts needs of an encoder."""

    @property
    def max_tokens(self) -> int:
        """The longest text that is read to its end."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of some texts are longer than that."""
        ...

    def encode_queries(self, texts: list[str]) -> FloatArray:
        """One vector for each text, as one that is looked for."""
        ...


class MentionEncoder(TextEncoder, Protocol):
    """What a trained encoder has beside it."""

    @property
    def trained(self) -> BiEncoderSettings | None:
        """How its towers are pooled, compared and fed."""
        ...

    def encode_mentions(self, mentions: Sequence[MentionInText]) -> FloatArray:
        """One vector for each mention in its text."""
        ...

    def mention_matrices(self, mentions: Sequence[MentionInText]) -> TokenMatrices:
        """The vectors of all tokens of each mention in its text."""
        ...


class PlainReader:
    """Mentions as a plain encoder reads them, in windows of ``window_chars`` characters.

    A mention that is its whole text has no context: the same words again would be no evidence.
    ``repeat_alone`` reads them all the same, for a search by description.
    """

    trained = None

    def __init__(
        self, encoder: TextEncoder, window_chars: int, *, repeat_alone: bool = False
    ) -> None:
        self._encoder = encoder
        self._window_chars = window_chars
        self._repeat_alone = repeat_alone

    def read(
        self,
        surfaces: Sequence[str],
        mentions: Sequence[MentionInText],
        *,
        names: bool,
        contexts: bool,
        tokens: bool,
    ) -> ReadMentions:
        """The vectors of surfaces and windows, encoded together."""
        around = [self._context(mention) for mention in mentions] if contexts else []
        own = list(surfaces) if names else []
        vectors = self._encoder.encode_queries([*own, *around])
        found: list[FloatArray | None] = [None] * len(mentions)
        for at, text in enumerate(around):
            found[at] = vectors[len(own) + at] if text else None
        return ReadMentions(vectors[: len(own)] if names else None, found)

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        texts = [max(one.surface, self._context(one), key=len) for one in mentions]
        return _count_long(texts, self._encoder)

    def _context(self, mention: MentionInText) -> str:
        """The text around a mention, itself included; empty where there is none."""
        text, start, end = mention.text, mention.start, mention.end
        if self._repeat_alone:
            return text
        if not self._window_chars:
            return ""
        window = mention_window(text, start, end, self._window_chars)
        return window if window.strip() != mention.surface.strip() else ""


class TrainedReader:
    """Mentions as the towers of a trained model read them."""

    def __init__(self, encoder: MentionEncoder) -> None:
        self._encoder = encoder
        self.trained = encoder.trained

    def read(
        self,
        surfaces: Sequence[str],
        mentions: Sequence[MentionInText],
        *,
        names: bool,
        contexts: bool,
        tokens: bool,
    ) -> ReadMentions:
        """Surfaces as names, and mentions in their texts."""
        own = self._encoder.encode_queries(list(surfaces)) if names else None
        found: list[FloatArray | None] = [None] * len(mentions)
        if contexts:
            found = list(self._encoder.encode_mentions(mentions))
        return ReadMentions(
            own, found, self._encoder.mention_matrices(mentions) if tokens else None
        )

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer than the encoder reads; windows are cut to fit it."""
        return _count_long([mention.surface for mention in mentions], self._encoder)


def _count_long(texts: Sequence[str], encoder: TextEncoder) -> int:
    # A token is a letter or sign at least, and two are marks: a short text needs no counting.
    most = encoder.max_tokens - 3
    long = [text for text in texts if len(text) > most and len("".join(text.split())) > most]
    return encoder.count_truncated(long) if long else 0


def long_forms_of(mentions: Sequence[MentionInText]) -> list[str]:
    """What each mention is short for: in its own text, or in another window of its document."""
    texts: dict[str, dict[str, None]] = {}
    for mention in mentions:
        texts.setdefault(mention.document or mention.text, {})[mention.text] = None
    return [
        next(
            filter(
                None,
                (
                    mention.name or long_form_of(mention.surface, text)
                    for text in (mention.text, *texts[mention.document or mention.text])
                ),
            ),
            "",
        )
        for mention in mentions
    ]
