"""A ready cross-encoder reads mention and candidate: any `CrossEncoder` of sentence-transformers.

Weights are read from safetensors alone, and code that a folder brings is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from torch import nn

from kglink.errors import ModelError
from kglink.models.inputs import readable
from kglink.models.loading import library_errors, load_sentences
from kglink.models.opening import resolve_model
from kglink.records import Alias, Candidate, Entity, Ranking
from kglink.text.entity_text import entity_text
from kglink.text.words import mention_window
from kglink_plugins.plugin import CrossEncoderSettings

FloatArray = npt.NDArray[np.float64]
#: The kind of evidence of its answer.
EVIDENCE = "cross_encoder"


class CrossEncoderReranker:
    """Adds to each score the probability of its candidate among those of the mention."""

    def __init__(self, settings: CrossEncoderSettings) -> None:
        named = settings.folder.expanduser()
        source = resolve_model(str(named.resolve() if named.is_dir() else named))
        self._model = load_sentences("CrossEncoder", source, activation_fn=nn.Identity())
        if self._model.num_labels != 1:
            raise ModelError(
                f"{source.name}: has {self._model.num_labels} labels",
                hint="A cross-encoder that orders has one: how well two texts fit.",
            )
        self._settings = settings
        self._name = source.name

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Each mention by itself; of equal candidates the earlier one stays first."""
        pairs = []
        for ranking in rankings:
            one = ranking.mention
            window = mention_window(one.text, one.start, one.end, self._settings.context_chars)
            words = readable(f"{one.surface}: {window}")
            pairs += [(words, self._text_of(candidate)) for candidate in ranking.candidates]
        with library_errors("fails on a batch of pairs", self._name):
            scores = self._model.predict(pairs, show_progress_bar=False) if pairs else []
        logits = np.asarray(scores, np.float64)
        stops = np.cumsum([len(one.candidates) for one in rankings])
        parts = np.split(logits, stops[:-1]) if rankings else []
        return [self._ranked(one, own) for one, own in zip(rankings, parts, strict=True)]

    def _text_of(self, candidate: Candidate) -> str:
        names = tuple(Alias(surface) for surface in candidate.aliases)
        entity = Entity(
            candidate.id.key, candidate.title, candidate.description, candidate.type, aliases=names
        )
        text = entity_text(entity, description_chars=self._settings.description_chars)
        return readable(text)

    def _ranked(self, ranking: Ranking, logits: FloatArray) -> Ranking:
        if not len(logits):
            return ranking
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        scored = [
            replace(
                one,
                score=one.score + self._settings.weight * share,
                evidence={**one.evidence, EVIDENCE: round(share, 4)},
            )
            for one, share in zip(ranking.candidates, shares.tolist(), strict=True)
        ]
        return replace(ranking, candidates=tuple(sorted(scored, key=lambda one: -one.score)))
