"""Which evidence a search gathers, and what it counts: by what is asked for, and what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kglink.config import FoundBy
from kglink.linking.kinds import EvidenceKind
from kglink.linking.scoring import (
    ALIAS_SCORING,
    ALONE,
    MENTION_SCORING,
    PLAIN_SCORING,
    TRAINED_SCORING,
    Scoring,
)
from kglink.space.space import Space
from kglink.space.words import MEASURES, WordMeasure


class EvidenceUsed(NamedTuple):
    """Which evidence a search gathers."""

    names: bool
    name_vectors: bool
    contexts: bool
    """Whether mentions in their texts are compared with the texts of entities."""
    texts_bring: bool
    """Whether texts find candidates; else they only score those names found."""
    words: WordMeasure | None = None
    """How the words of mentions and entities are compared; None: they are not."""


def chosen_scoring(
    space: Space,
    fitted: Scoring | None,
    found_by: FoundBy,
    asked: Iterable[EvidenceKind],
    *,
    trained: bool,
) -> Scoring:
    """How evidence counts: as it was fitted, or by default for a plain or a trained encoder."""
    if found_by in ALONE:
        return ALONE[found_by]
    if found_by == "vectors":
        return MENTION_SCORING if trained and space.has_rows("text") else ALIAS_SCORING
    scoring = fitted or (TRAINED_SCORING if trained else PLAIN_SCORING)
    alone = space.manifest.names_alone
    scoring = scoring.by_names(alone, beside=not space.segments.keys() <= set(alone))
    return scoring.with_kinds(asked, trained=trained)


def evidence_used(
    space: Space, scoring: Scoring, found_by: FoundBy, *, like_memory: bool
) -> EvidenceUsed:
    """What must be gathered for such a scoring; ``like_memory`` compares the vectors of names."""
    has_texts, has_names = space.has_rows("text"), space.has_rows("alias")
    alone = found_by == "vectors"
    words = next((one for one in MEASURES if one == found_by), None)
    if words:
        return EvidenceUsed(False, False, False, False, words)
    # A fit found that words count, or not; where nothing was fitted they are there to be seen.
    is_counted = scoring.counts("bm25") or "bm25" not in scoring.weights.by_kind
    has_words = found_by == "all" and all(one.words for one in space.segments.values())
    words = "bm25" if has_words and is_counted else None
    if found_by == "names" or not (has_texts or has_names):
        return EvidenceUsed(True, False, False, False, words)
    if scoring is MENTION_SCORING:
        return EvidenceUsed(names=False, name_vectors=False, contexts=True, texts_bring=True)
    return EvidenceUsed(
        names=not alone,
        name_vectors=alone or not has_texts or scoring.counts("alias") or like_memory,
        contexts=not alone and has_texts,
        # Where the context counts for every candidate, it must be able to bring candidates.
        texts_bring=has_texts and (not has_names or scoring.counts("context")),
        words=words,
    )
