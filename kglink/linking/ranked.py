"""From evidence to ranked candidates: best first, each with its score and what that is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kglink.linking.kinds import Weights
from kglink.linking.names import Found
from kglink.records import Candidate, EntityId
from kglink.space.segment import Segment

IntArray = npt.NDArray[np.int64]
#: For each KB the candidates of a mention, best first.
ByKB = Mapping[str, Sequence[Candidate]]


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
    candidates = []
    for place, values in zip(places.tolist(), rounded, strict=True):
        evidence = dict(zip(found.evidence, values, strict=True))
        score, parts = float(scores[place]), weights.parts(evidence)
        if place in found.described:
            known = found.described[place]
            candidates.append(replace(known, score=score, evidence=evidence, parts=parts))
            continue
        row = found.entities[place]
        candidates.append(
            Candidate(
                id=EntityId(segment.kb, segment.keys[row]),
                title=segment.titles[row],
                score=score,
                popularity=float(segment.popularity[row]),
                evidence=evidence,
                parts=parts,
            )
        )
    return places, candidates


def joint_ranking(by_kb: ByKB, kbs: Sequence[str]) -> list[Candidate]:
    """All KBs in one list: by score, then popularity, then KB order, then key."""
    together = [one for kb in kbs for one in by_kb.get(kb, ())]
    return sorted(together, key=lambda one: (-one.score, -one.popularity))
