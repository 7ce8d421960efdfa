"""The table of evidence: what speaks for a candidate, what it counts, and who is ranked first.

Retrieval gives the kinds that stand here; each kind of a plugin is one row more. The default
weights, of a space that was not fitted, were chosen on the train documents of NCBI Disease and
BC5CDR (gold spans, each of DOID, NCIT and HP for itself) and of the demo, those of `alias`, `case`
and `rarer` on raw dev abstracts and general texts as well; those of a trained space by leaving one
corpus out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.linking.names import Found
from kglink.plugins import DefaultWeights
from kglink.records import Candidate, EntityId
from kglink.space.segment import Segment

#: By kind a value for each candidate, from 0 (or -1, of a cosine) to 1.
Evidence = Mapping[str, FloatArray]


class EvidenceKind(NamedTuple):
    """A row of the table."""

    name: str
    what: str
    weights: DefaultWeights = DefaultWeights()


#: What retrieval gives, in the order in which it is shown.
RETRIEVED = (
    EvidenceKind(
        "name",
        "cosine of the trigrams of the mention and of the candidate's most similar name",
        DefaultWeights(untrained=0.06),
    ),
    EvidenceKind(
        "similar",
        "the fourth power of `name`, because a half-equal name says little",
        DefaultWeights(untrained=0.03, trained=0.13),
    ),
    EvidenceKind("exact", "1 if a name of the candidate is the mention, in any case or accent"),
    EvidenceKind("title", "1 if that name is the title", DefaultWeights(untrained=0.01)),
    EvidenceKind(
        "case",
        "1 if that name equals the mention exactly, or in the capitals of a headline",
        DefaultWeights(untrained=0.15, trained=0.15),
    ),
    EvidenceKind(
        "alias",
        "cosine of the vectors of the mention and of the candidate's nearest name",
        DefaultWeights(untrained=0.45),
    ),
    EvidenceKind(
        "context",
        "cosine of the vectors of the mention in its text and of the candidate's text",
        DefaultWeights(trained=0.72),
    ),
    EvidenceKind(
        "named_context",
        "`context`, only for candidates that have the mention's name",
        DefaultWeights(untrained=0.3),
    ),
    EvidenceKind(
        "expanded",
        "1 if the mention stands for a name of the candidate: as an abbreviation that the text "
        "defines, or as a word for a place (`Italian`)",
        DefaultWeights(untrained=0.09, trained=0.13),
    ),
    EvidenceKind(
        "common",
        "share of the uses of this name that meant the candidate (from the links of a wiki)",
        DefaultWeights(untrained=0.18, trained=0.26),
    ),
    EvidenceKind(
        "rarer",
        "popularity of the candidate divided by that of the most popular entity with this name, "
        "minus 1; 0 if the KB has no popularity",
        DefaultWeights(untrained=0.04),
    ),
    EvidenceKind(
        "memory",
        "certainty, from annotated documents, that the surface means the candidate; lower if "
        "several things have this name, or if the mention lacks the capital that it had there",
        DefaultWeights(untrained=0.8, trained=1.0),
    ),
    EvidenceKind(
        "like_memory",
        "the same for similar words, times the cosine of their vectors and that of the mention; "
        "lower if similar words seldom mean the same in these documents (`Georgia`, `Georgia "
        "Tech`)",
        DefaultWeights(untrained=0.2, trained=0.2),
    ),
    EvidenceKind(
        "nil",
        "certainty, from annotated documents, that the KB lacks what the surface means; it "
        "lowers the confidence, not the score; lower if the KB has this name",
    ),
    EvidenceKind(
        "counterpart",
        "score of the counterpart in another KB minus this one, times how sure the pair is",
        DefaultWeights(untrained=0.3, trained=0.43),
    ),
    EvidenceKind(
        "subject",
        "number of names in the text that only KBs about the candidate's subject have, divided by "
        "the highest such number, minus 1; 0 if KBs about only one subject have the mention's name",
        DefaultWeights(untrained=0.1, trained=0.1),
    ),
)

#: What the word index of a space gives, where it has one (`space.words`).
OF_WORDS = (
    EvidenceKind(
        "bm25",
        "BM25 of the mention's words in the candidate's names and text, as a share of what these "
        "words can reach (spaces with an index of words)",
    ),
    EvidenceKind(
        "tfidf",
        "TF-IDF, a cosine, of the mention's words and of the candidate's names and text "
        "(`link.found_by` = `tfidf` alone)",
    ),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each kind of evidence counts; a kind that is not named counts nothing."""

    by_kind: Mapping[str, float]

    @classmethod
    def of(cls, **by_kind: float) -> Weights:
        """The weights of retrieved kinds by name."""
        return cls(by_kind)

    @classmethod
    def default(cls, kinds: Iterable[EvidenceKind], *, trained: bool) -> Weights:
        """What kinds count where nothing was fitted."""
        chosen = {one.name: one.weights.trained if trained else one.weights.untrained
                  for one in kinds}  # fmt: skip
        return cls({name: weight for name, weight in chosen.items() if weight})

    def __getitem__(self, kind: str) -> float:
        return self.by_kind.get(kind, 0.0)

    def score(self, evidence: Evidence) -> FloatArray:
        """The weighted sum of the evidence, rounded so that equal evidence makes equal scores."""
        count = len(next(iter(evidence.values())))
        total = np.zeros(count, dtype=np.float32)
        for kind, values in evidence.items():
            if weight := self[kind]:
                total += np.float32(weight) * values
        return np.asarray(np.round(total, 5), dtype=np.float32)

    def parts(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """What each kind that counts adds to the score of one candidate."""
        weights = self.by_kind
        return {
            kind: round(weights[kind] * value, 4)
            for kind, value in evidence.items()
            if weights.get(kind)
        }


def ranked(
    segment: Segment, found: Found, weights: Weights, most: int
) -> tuple[IntArray, list[Candidate]]:
    """The best candidates of a mention in one KB, and their places in what was found.

    Equal scores are ordered by popularity, then by key.
    """
    scores = weights.score(found.evidence)
    popularity = segment.popularity[found.entities]
    places = np.lexsort((found.entities, -popularity, -scores))[:most]
    columns = np.stack([values[places] for values in found.evidence.values()], axis=1)
    rounded = columns.astype(np.float64).round(4).tolist()
    rows = found.entities[places]
    keys, titles = segment.keys.take(rows), segment.titles.take(rows)
    candidates = []
    for at, (place, values) in enumerate(zip(places.tolist(), rounded, strict=True)):
        evidence = dict(zip(found.evidence, values, strict=True))
        score, parts = float(scores[place]), weights.parts(evidence)
        if place in found.described:
            known = found.described[place]
            candidates.append(replace(known, score=score, evidence=evidence, parts=parts))
            continue
        candidates.append(
            Candidate(
                id=EntityId(segment.kb, keys[at]),
                title=titles[at],
                score=score,
                popularity=float(popularity[place]),
                evidence=evidence,
                parts=parts,
            )
        )
    return places, candidates


def joint_ranking(by_kb: Mapping[str, Sequence[Candidate]], kbs: Sequence[str]) -> list[Candidate]:
    """The candidates of all KBs in one list: by score, then popularity, then KB order, then key."""
    together = [one for kb in kbs for one in by_kb.get(kb, ())]
    return sorted(together, key=lambda one: (-one.score, -one.popularity))
