"""Mentions read by the encoder: their words as names, and the same words in their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kglink.records import MentionInText
from kglink.text.abbreviations import long_form_of
from kglink.text.words import mention_window

if TYPE_CHECKING:
    from kglink.models import Encoder
    from kglink.models.runtime import TokenMatrices
    from kglink.plugins import FloatArray


class ReadMentions(NamedTuple):
    """The vectors of a batch of mentions; what was not asked for is None."""

    names: FloatArray | None
    """A vector for each surface, all of them different."""
    contexts: list[FloatArray | None]
    """A vector for each mention in its text; None: it has no text but itself."""
    tokens: TokenMatrices | None = None
    """The vectors of all tokens of each mention in its text."""


class MentionReader:
    """Turns mentions into vectors.

    A plain encoder reads a name and a window of ``window_chars`` characters as two texts. A mention
    that is its whole text has no context: the same words again would be no evidence.
    ``repeat_alone`` reads them all the same, for a search by description. A trained encoder reads
    the name through its tower for entities, as an entity of which nothing else is known, and the
    mention in its text, in windows of its own, through its tower for mentions.
    """

    def __init__(self, encoder: Encoder, window_chars: int, *, repeat_alone: bool = False) -> None:
        self._encoder = encoder
        self._window_chars = window_chars
        self._repeat_alone = repeat_alone
        #: How the vectors are to be compared; None: they are of a plain encoder, of length one.
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
        """The vectors of some surfaces and of some mentions in their texts, as far as wanted."""
        own = list(surfaces) if names else []
        found: list[FloatArray | None] = [None] * len(mentions)
        if self.trained:
            vectors = self._encoder.encode_queries(own) if names else None
            if contexts:
                found = list(self._encoder.encode_mentions(mentions))
            matrices = self._encoder.mention_matrices(mentions) if tokens else None
            return ReadMentions(vectors, found, matrices)
        around = [self._context(mention) for mention in mentions] if contexts else []
        together = self._encoder.encode_queries([*own, *around])
        for at, text in enumerate(around):
            found[at] = together[len(own) + at] if text else None
        return ReadMentions(together[: len(own)] if names else None, found)

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads.

        The windows of a trained encoder are cut to fit it.
        """
        around = [""] * len(mentions) if self.trained else map(self._context, mentions)
        texts = [
            max(one.surface, text, key=len) for one, text in zip(mentions, around, strict=True)
        ]
        # A token is a letter or sign at least, and two are marks: a short text needs no counting.
        most = self._encoder.max_tokens - 3
        long = [text for text in texts if len(text) > most and len("".join(text.split())) > most]
        return self._encoder.count_truncated(long) if long else 0

    def _context(self, mention: MentionInText) -> str:
        """The text around a mention, itself included; empty where there is none."""
        text, start, end = mention.text, mention.start, mention.end
        if self._repeat_alone:
            return text
        if not self._window_chars:
            return ""
        window = mention_window(text, start, end, self._window_chars)
        return window if window.strip() != mention.surface.strip() else ""


def long_forms_of(mentions: Sequence[MentionInText]) -> list[str]:
    """What each mention is short for: in its own text, or in another window of its document."""
    texts: dict[str, dict[str, None]] = {}
    for mention in mentions:
        texts.setdefault(mention.document or mention.text, {})[mention.text] = None
    forms = []
    for mention in mentions:
        own_first = dict.fromkeys((mention.text, *texts[mention.document or mention.text]))
        found = (mention.name or long_form_of(mention.surface, text) for text in own_first)
        forms.append(next(filter(None, found), ""))
    return forms
