"""Mentions that are searched together: their surfaces, and their texts as far as these decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kglink.arrays import FloatArray
from kglink.linking.contexts import (
    Contexts,
    Measure,
    PooledContexts,
    TokenContexts,
    TokenSearchOf,
)
from kglink.linking.evidence_used import EvidenceUsed
from kglink.linking.memory import Recalled
from kglink.linking.names import Surface
from kglink.linking.reading import MentionReader, ReadMentions, long_forms_of
from kglink.records import MentionInText
from kglink.space.remembered import of_length_one
from kglink.space.space import Space
from kglink.text.fold import fold
from kglink.text.full_names import full_name_of
from kglink.text.name_words import name_key
from kglink.text.places import place_of

if TYPE_CHECKING:
    from kglink.store.likeness import Likeness


#: Mentions that `BatchReader.vectors` encodes at once.
_READ_TOGETHER = 512


class Batch(NamedTuple):
    """Mentions that are searched together."""

    surfaces: list[Surface]
    """All different ones, of mentions and of what they are short for."""
    forms: list[list[Surface]]
    """For each mention its own words and, if any, its full name (long form, whole name, place)."""
    contexts: Contexts
    unread: frozenset[int] = frozenset()
    """The mentions whose text was not read, because it would decide nothing."""
    recalled: Recalled = Recalled()
    """What memory knows of the surfaces."""
    likeness: Sequence[Likeness] = ()
    """For each mention how its text weighs the sources of memory."""
    cased: Sequence[bool] = ()
    """For each mention whether its text has capitals, so that small letters say something."""


class BatchReader:
    """Reads mentions for a search: all their texts, or those that can decide something."""

    def __init__(
        self,
        space: Space,
        reader: MentionReader,
        use: EvidenceUsed,
        measure: Measure,
        token_search: TokenSearchOf | None,
    ) -> None:
        self._space = space
        self._reader = reader
        self._use = use
        self._measure = measure
        compares_tokens = reader.trained is not None and reader.trained.compares_tokens
        self._token_search = token_search if compares_tokens else None

    @property
    def reads_all(self) -> bool:
        """Whether the texts of all mentions are read: where they bring candidates."""
        return self._use.texts_bring or self._token_search is not None

    def read(
        self, mentions: Sequence[MentionInText], likeness: Sequence[Likeness]
    ) -> tuple[Batch, list[int]]:
        """Read the mentions; returns the batch, and the index of each mention in it.

        Mentions share an entry if words, full names, likeness to memory's sources and ``cased``
        are equal. Where all texts are read, each has its own.
        """
        own = [mention.surface for mention in mentions]
        long = self._full_names(mentions) if self._use.names else [""] * len(mentions)
        texts = list(dict.fromkeys([*own, *filter(None, long)]))
        read = self._read(texts, mentions if self.reads_all else ())
        surfaces: dict[str, Surface] = {}
        for at, text in enumerate(texts):
            folded = fold(text) or text
            vector = None if read.names is None else read.names[at]
            surfaces[text] = Surface(text, folded, name_key(folded), vector)
        has_capitals = {text: not text.islower() for text in {one.text for one in mentions}}
        cased = [has_capitals[one.text] for one in mentions]
        alike = list(zip(own, long, likeness, cased, strict=True))
        kept = alike if self.reads_all else list(dict.fromkeys(alike))
        place_of = {words: place for place, words in enumerate(kept)}
        places = list(range(len(kept))) if self.reads_all else [place_of[one] for one in alike]
        contexts: Contexts
        if self._token_search is not None and read.tokens is not None:
            contexts = TokenContexts(self._space, self._measure, read.tokens, self._token_search)
        else:
            names = [surfaces[text].vector for text in own]
            contexts = PooledContexts(self._space, self._measure, read.contexts, names)
        batch = Batch(
            list(surfaces.values()),
            [[surfaces[one] for one in ([own, full] if full else [own])] for own, full, *_ in kept],
            contexts,
            likeness=[of for _, _, of, _ in kept],
            cased=[has for *_, has in kept],
        )
        return batch, places

    def with_windows(
        self,
        batch: Batch,
        places: Sequence[int],
        mentions: Sequence[MentionInText],
        opens: Callable[[int], bool],
    ) -> tuple[Batch, list[int], list[int]]:
        """Read the texts of those mentions for which they can decide something.

        Each of these gets an entry of its own. Returns the new batch, the old index of each of its
        entries, and the new index of each of ``mentions``.
        """
        is_open = [self._use.contexts and opens(at) for at in range(len(batch.forms))]
        row_of: dict[int, int] = {}
        rows: list[int] = []
        read: dict[int, MentionInText] = {}
        new_places: list[int] = []
        for place, mention in zip(places, mentions, strict=True):
            if is_open[place] or place not in row_of:
                row_of[place] = len(rows)
                if is_open[place]:
                    read[len(rows)] = mention
                rows.append(place)
            new_places.append(row_of[place])
        vectors: list[FloatArray | None] = [None] * len(rows)
        if read:
            found = self._read((), list(read.values())).contexts
            for row, vector in zip(read, found, strict=True):
                vectors[row] = vector
        expanded = batch._replace(
            forms=[batch.forms[row] for row in rows],
            likeness=[batch.likeness[row] for row in rows],
            cased=[batch.cased[row] for row in rows],
            contexts=PooledContexts(self._space, self._measure, vectors, vectors),
            unread=frozenset(range(len(rows))) - read.keys(),
        )
        return expanded, rows, new_places

    def vectors(self, mentions: Sequence[MentionInText]) -> tuple[FloatArray, FloatArray]:
        """The vectors of mentions as names, and in their texts, all of length one, or zeros."""
        names, contexts = [], []
        for start in range(0, len(mentions), _READ_TOGETHER):
            some = mentions[start : start + _READ_TOGETHER]
            long = long_forms_of(some)
            surfaces = [full or one.surface for one, full in zip(some, long, strict=True)]
            read = self._reader.read(surfaces, some, names=True, contexts=True, tokens=False)
            if read.names is not None:
                names.append(of_length_one(read.names))
                none = np.zeros(read.names.shape[1], dtype=np.float32)
                found = [none if one is None else one for one in read.contexts]
                contexts.append(of_length_one(np.stack(found)))
        dim = self._space.manifest.model.dim
        empty = [np.empty((0, dim), dtype=np.float32)]
        return np.concatenate(names or empty), np.concatenate(contexts or empty)

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        if not (self._use.name_vectors or self._use.contexts):
            return 0
        return self._reader.count_truncated(mentions)

    def _full_names(self, mentions: Sequence[MentionInText]) -> list[str]:
        """What each mention stands for: an abbreviation, a part of a name of its text, "Danish"."""

        @cache
        def is_name(name: str) -> bool:
            return self._space.has_name(fold(name))

        return [
            long
            or full_name_of(one.surface, one.start, one.text, is_name)
            or place_of(one.surface, one.start, one.text, is_name)
            for one, long in zip(mentions, long_forms_of(mentions), strict=True)
        ]

    def _read(self, texts: Sequence[str], mentions: Sequence[MentionInText]) -> ReadMentions:
        if not (self._use.name_vectors or self._use.contexts):
            return ReadMentions(None, [None] * len(mentions))
        return self._reader.read(
            texts,
            mentions,
            names=self._use.name_vectors,
            contexts=self._use.contexts and self._token_search is None,
            tokens=self._use.contexts and self._token_search is not None,
        )
