"""A ready cross-encoder of Hugging Face, from a folder of the user's, reads mention and candidate.

Weights are read from safetensors alone, and code that a folder brings is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from kglink.errors import ModelError
from kglink.models.loading import library_errors, load_tokenizer, load_transformer
from kglink.models.source import describe_folder
from kglink.records import Alias, Candidate, Entity, Ranking
from kglink.text.entity_text import entity_text
from kglink.text.words import mention_window
from kglink_plugins.plugin import CrossEncoderSettings

FloatArray = npt.NDArray[np.float64]
#: Pairs that are read at once.
_BATCH = 32
#: The kind of evidence of its answer.
EVIDENCE = "cross_encoder"


class CrossEncoderReranker:
    """Adds to each score the probability of its candidate among those of the mention."""

    def __init__(self, settings: CrossEncoderSettings) -> None:
        folder = settings.folder.expanduser()
        source = describe_folder(str(folder), folder)
        self._tokenizer = load_tokenizer(source)
        self._model = load_transformer("AutoModelForSequenceClassification", source)
        if self._model.config.num_labels != 1:
            raise ModelError(
                f"{folder}: has {self._model.config.num_labels} labels",
                hint="A cross-encoder that orders has one: how well two texts fit.",
            )
        self._settings = settings
        self._name = source.name
        self._length = source.max_tokens

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Each mention by itself; of equal candidates the earlier one stays first."""
        pairs = [
            (self._words(one), _text_of(candidate, self._settings.description_chars))
            for one in rankings
            for candidate in one.candidates
        ]
        logits = self._logits(pairs)
        stops = np.cumsum([len(one.candidates) for one in rankings])
        parts = np.split(logits, stops[:-1]) if rankings else []
        return [self._ranked(one, own) for one, own in zip(rankings, parts, strict=True)]

    def _words(self, ranking: Ranking) -> str:
        """The mention, and the text around it."""
        mention = ranking.mention
        window = mention_window(
            mention.text, mention.start, mention.end, self._settings.context_chars
        )
        return f"{mention.surface}: {window}"

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """How well the two texts of each pair fit; those of one length are read together."""
        logits = np.empty(len(pairs))
        order = sorted(range(len(pairs)), key=lambda at: sum(map(len, pairs[at])))
        for first in range(0, len(order), _BATCH):
            places = order[first : first + _BATCH]
            with library_errors("the tokenizer cannot read a text", self._name):
                batch = self._tokenizer(
                    [pairs[at][0] for at in places],
                    [pairs[at][1] for at in places],
                    truncation="longest_first",
                    max_length=self._length,
                    padding=True,
                    return_tensors="pt",
                )
            with torch.inference_mode():
                logits[places] = self._model(**batch).logits[:, 0].double().numpy()
        return logits

    def _ranked(self, ranking: Ranking, logits: FloatArray) -> Ranking:
        if not len(logits):
            return ranking
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        told = [
            replace(
                one,
                score=one.score + self._settings.weight * share,
                evidence={**one.evidence, EVIDENCE: round(share, 4)},
            )
            for one, share in zip(ranking.candidates, shares.tolist(), strict=True)
        ]
        return replace(ranking, candidates=tuple(sorted(told, key=lambda one: -one.score)))


def _text_of(candidate: Candidate, description_chars: int) -> str:
    names = tuple(Alias(surface) for surface in candidate.aliases)
    entity = Entity(
        candidate.id.key, candidate.title, candidate.description, candidate.type, aliases=names
    )
    return entity_text(entity, description_chars=description_chars)
