"""What the evidence of an overlap is in the words of other tools."""

from __future__ import annotations

from kglink.overlap.exchange.lists import MANUAL
from kglink.overlap.ours import was_found
from kglink.records import Overlap

LEXICAL = "semapv:LexicalMatching"
SEMANTIC = "semapv:SemanticSimilarityThresholdMatching"
COMPOSITE = "semapv:CompositeMatching"
UNSPECIFIED = "semapv:UnspecifiedMatching"

#: Parts of the names of evidence that compares names, or meanings.
_OF_NAMES = ("name", "title", "alias")
_OF_MEANING = ("description", "text", "cosine", "neighbour")
#: Evidence that is the cosine of two texts, the surest first.
_COSINES = ("description", "text")


def justification_of(overlap: Overlap) -> str:
    """Why a mapping stands in a table, as a term of the Semantic Mapping Vocabulary."""
    if overlap.verdict in ("correct", "wrong"):
        return UNSPECIFIED if told_by(overlap) else MANUAL
    if not was_found(overlap):
        return UNSPECIFIED
    spoken = {name for name, value in overlap.evidence.items() if value > 0}
    lexical = {name for name in spoken if is_of_names(name)}
    semantic = {name for name in spoken if is_of_meaning(name)}
    if spoken == lexical:
        return LEXICAL
    return SEMANTIC if spoken == semantic else COMPOSITE


def told_by(overlap: Overlap) -> str:
    """Where a verdict comes from, unless a person gave it here."""
    if overlap.source == "import":
        return "an imported list"
    return f"the mappings of {overlap.source[3:]}" if overlap.source.startswith("kb:") else ""


def is_of_names(evidence: str) -> bool:
    """Whether evidence of this name compares names."""
    return any(part in evidence for part in _OF_NAMES)


def is_of_meaning(evidence: str) -> bool:
    """Whether evidence of this name compares vectors of texts."""
    return any(part in evidence for part in _OF_MEANING)


def cosine_of(overlap: Overlap) -> float | None:
    """The cosine of the two descriptions, or of the two texts."""
    return next((overlap.evidence[name] for name in _COSINES if name in overlap.evidence), None)
