"""What a trained reranker says: it reads a mention in its text together with each candidate."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray
from kglink.errors import UsageError
from kglink.linking.kinds import EvidenceKind
from kglink.models.hardware import Hardware
from kglink.models.head_folder import RERANKER
from kglink.plugins import DefaultWeights
from kglink.records import Candidate, Ranking

if TYPE_CHECKING:
    from kglink.models.cross_encoder import CrossEncoder


READ = EvidenceKind(
    "read",
    "answer of the trained reranker, which reads the candidate together with the mention "
    "(`link.rerank_top`)",
    DefaultWeights(untrained=0.5, trained=0.5),
)
#: The logit that counts as sure.
_SURE = 10.0


class ReadTogether:
    """1 for a candidate that is surely meant, 0 for one that surely is not or was not read.

    The first ``depth`` candidates of each KB are read, but those that lie more than ``margin``
    behind the best one of all.
    """

    weights = READ.weights

    def __init__(
        self, folder: Path, hardware: Hardware, depth: int, margin: float = math.inf
    ) -> None:
        if not RERANKER.is_there(folder):
            raise UsageError(
                f"{folder}: there is no trained reranker",
                hint="Train one with `kglink finetune --what reranker`, or link without --rerank.",
            )
        self._folder = folder
        self._hardware = hardware
        self._depth = depth
        self._margin = margin
        self._opening = threading.Lock()

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """Each mention by itself."""
        return [_values(one) for one in self.logits(mentions)]

    def logits(self, mentions: Sequence[Ranking]) -> list[FloatArray]:
        """The same without bounds, in which candidates that are all sure differ."""
        with self._opening:
            encoder = self._encoder
        read = [to_read(one.candidates, self._depth, self._margin) for one in mentions]
        found = encoder.logits(
            [
                replace(one, candidates=tuple(one.candidates[place] for place in places))
                for one, places in zip(mentions, read, strict=True)
            ]
        )
        scores = [np.full(len(one.candidates), -np.inf, np.float32) for one in mentions]
        for logits, places, own in zip(scores, read, found, strict=True):
            logits[places] = own
        return scores

    @cached_property
    def _encoder(self) -> CrossEncoder:
        from kglink.models.cross_encoder import open_cross_encoder  # which loads torch

        return open_cross_encoder(self._folder, self._hardware)


def to_read(candidates: Sequence[Candidate], depth: int, margin: float) -> list[int]:
    """The places of those that can still win: the first of each KB that are near the best of all.

    What lies further than ``margin`` behind the best one is not read.
    """
    of_kb: Counter[str] = Counter()
    places = []
    for place, one in enumerate(candidates):
        of_kb[one.id.kb] += 1
        if of_kb[one.id.kb] <= depth and candidates[0].score - one.score <= margin:
            places.append(place)
    return places


class ReadOrder:
    """Orders candidates by what the trained reranker says alone: a stage for lists of a file.

    By its logits: the evidence of two candidates that are both sure is the same.
    """

    def __init__(self, reader: ReadTogether) -> None:
        self._reader = reader

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """Each mention by itself; equal ones stay in their order."""
        ordered = []
        for ranking, logits in zip(rankings, self._reader.logits(rankings), strict=True):
            read = [
                replace(one, score=value, evidence={**one.evidence, READ.name: value})
                for one, value in zip(ranking.candidates, _values(logits), strict=True)
            ]
            order = np.argsort(-logits, kind="stable")
            ordered.append(replace(ranking, candidates=tuple(read[at] for at in order)))
        return ordered


def _values(logits: FloatArray) -> list[float]:
    """What logits are as evidence."""
    values: list[float] = np.clip((logits / _SURE + 1) / 2, 0, 1).tolist()
    return values
