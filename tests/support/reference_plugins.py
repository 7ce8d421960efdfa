"""One small and correct plugin of each kind; the contracts must pass on them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
import torch

from kglink.errors import RecordError
from kglink.plugins import (
    DefaultWeights,
    Encoded,
    EntityPair,
    Names,
    PairedKBs,
    RowRange,
    SamplerBatch,
    SamplerPool,
)
from kglink.records import Candidate, Entity, EntityId, LinkedDocument, Ranking, Record, Span
from kglink.sources import Problems, Source, SourceHead

if TYPE_CHECKING:
    from kglink.plugins import FloatArray, IntArray


class ReferenceAdapter:
    """Reads ``key=title`` lines."""

    def read(self, source: Source, problems: Problems) -> Iterator[Record]:
        for line in source.lines(problems):
            key, equals, title = line.text.partition("=")
            if key.strip() and equals:
                yield self.entity(key, title)
            elif line.text.strip():
                self.complain(line.text, source.where(line.number), problems)

    def entity(self, key: str, title: str) -> Entity:
        return Entity(key.strip(), title.strip())

    def complain(self, text: str, where: str, problems: Problems) -> None:
        problems.report(RecordError("no key=title", where=where))


def sniff(head: SourceHead) -> float:
    return 0.9 if re.match(rb"[A-Z]\d+=", head.head) else 0.0


class ReferenceDetector:
    """Finds words that are names, exactly as they are written."""

    def __init__(self, names: Names) -> None:
        self.surfaces = {row.surface for row in names}

    def detect(self, text: str) -> list[Span]:
        words = re.finditer(r"\w+", text)
        return [Span(word.start(), word.end()) for word in words if word[0] in self.surfaces]


class ReferencePairEvidence:
    """Proposes entities with the same title and weighs the words that titles share."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        titles = {entity.title: entity.key for entity in kbs.entities("right")}
        for entity in kbs.entities("left"):
            if entity.title in titles:
                yield entity.key, titles[entity.title]

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"words": self.shared(pair)} for pair in pairs]

    def shared(self, pair: EntityPair) -> float:
        words = [set(entity.title.split()) or {entity.title} for entity in pair]
        return len(words[0] & words[1]) / len(words[0] | words[1])


class ReferenceScorer:
    """The inner product of the means of both sides."""

    def score(self, mentions: Encoded, entities: Encoded) -> torch.Tensor:
        return self.mean(mentions) @ self.mean(entities).T

    def mean(self, batch: Encoded) -> torch.Tensor:
        kept = batch.states.masked_fill(~batch.mask[..., None], 0.0)
        return kept.sum(1) / batch.mask.sum(1, keepdim=True)


class ReferenceSampler:
    """Draws from all rows but gold, each with the same chance."""

    def sample(
        self, pool: SamplerPool, batch: SamplerBatch, k: int, rng: np.random.Generator
    ) -> IntArray:
        drawn = np.full((len(batch.gold), k), -1, np.int64)
        for row in range(len(batch.gold)):
            rows = [number for number in range(len(pool)) if number not in batch.forbidden(row)]
            chosen = rng.permutation(np.array(rows, np.int64))[:k]
            drawn[row, : len(chosen)] = chosen
        return drawn


class ReferenceObjective:
    """The mean over rows of minus the log of the softmax mass on the right answers."""

    def loss(self, scores: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        some = positive.any(1)
        if not some.any():
            return scores[torch.isfinite(scores)].sum() * 0.0
        scores, positive = scores[some], positive[some]
        right = scores.masked_fill(~positive, -torch.inf).logsumexp(1)
        return (scores.logsumexp(1) - right).mean()


class ReferenceIndex:
    """Compares with every row."""

    exact = True
    oversampling = 1

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        self.size = len(rows)

    def search(
        self, queries: FloatArray, k: int, ranges: Sequence[RowRange] | None = None
    ) -> tuple[FloatArray, IntArray]:
        allowed = self.allowed(ranges)
        scores = np.full((len(queries), k), self.padding(), np.float32)
        ids = np.full((len(queries), k), -1, np.int64)
        for number, query in enumerate(queries):
            products = self.products(self.rows[allowed], query)
            best = self.order(products, allowed)[:k]
            ids[number, : len(best)] = allowed[best]
            scores[number, : len(best)] = products[best]
        return scores, ids

    def padding(self) -> float:
        return -np.inf

    def products(self, rows: FloatArray, query: FloatArray) -> FloatArray:
        return rows @ query

    def order(self, products: FloatArray, rows: IntArray) -> IntArray:
        return np.lexsort((rows, -products))

    def allowed(self, ranges: Sequence[RowRange] | None) -> IntArray:
        if ranges is None:
            return np.arange(self.size)
        parts = [np.arange(part.start, part.stop) for part in ranges]
        return np.concatenate([np.array([], np.int64), *parts])

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, self.rows, allow_pickle=False)


class ReferenceBackend:
    """Keeps the rows as they are."""

    index: type[ReferenceIndex] = ReferenceIndex

    def build(self, batches: Iterable[FloatArray], dim: int) -> ReferenceIndex:
        return self.index(np.concatenate([np.zeros((0, dim), np.float32), *batches]))

    def load(self, path: Path) -> ReferenceIndex:
        return self.index(np.load(path, mmap_mode=None, allow_pickle=False))


class ReferenceCandidateEvidence:
    """Short titles are likelier."""

    weights = DefaultWeights(untrained=0.1)

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        return [[self.value(candidate) for candidate in one.candidates] for one in mentions]

    def value(self, candidate: Candidate) -> float:
        return 1 / (1 + len(candidate.title))


class ReferenceReranker:
    """Prefers short titles."""

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        return [replace(one, candidates=self.ranked(one.candidates)) for one in rankings]

    def ranked(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        scored = [
            replace(candidate, score=self.score(candidate), evidence={"length": 1.0})
            for candidate in candidates
        ]
        return tuple(sorted(scored, key=lambda candidate: -candidate.score))

    def score(self, candidate: Candidate) -> float:
        return 1 / (1 + len(candidate.title))


class ReferenceClusterer:
    """Prefers the entities that many mentions of the run have among their candidates."""

    def rank(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        wanted = self.count(rankings)
        return [replace(one, candidates=self.ranked(one.candidates, wanted)) for one in rankings]

    def count(self, rankings: Sequence[Ranking]) -> Counter[EntityId]:
        return Counter(candidate.id for one in rankings for candidate in one.candidates)

    def ranked(
        self, candidates: tuple[Candidate, ...], wanted: Mapping[EntityId, int]
    ) -> tuple[Candidate, ...]:
        scored = [replace(one, score=self.score(one, wanted)) for one in candidates]
        return tuple(sorted(scored, key=lambda one: -one.score))

    def score(self, candidate: Candidate, wanted: Mapping[EntityId, int]) -> float:
        return wanted[candidate.id] + candidate.score / 100


class ReferenceExporter:
    """Writes JSON lines."""

    def export(self, documents: Iterable[LinkedDocument], out: TextIO) -> None:
        for document in documents:
            out.write(json.dumps(self.value(document)) + "\n")

    def value(self, document: LinkedDocument) -> dict[str, object]:
        entities = [
            {"start": link.start, "end": link.end, "text": link.surface} for link in document.links
        ]
        return {"id": document.id, "text": document.text, "entities": entities}
