"""What the evidence of an overlap is in the words of other tools."""

from __future__ import annotations

from kglink.overlap.exchange.lists import MANUAL
from kglink.overlap.ours import was_found
from kglink.records import Overlap

LEXICAL = "semapv:LexicalMatching"
SIMILAR = "semapv:LexicalSimilarityThresholdMatching"
SEMANTIC = "semapv:SemanticSimilarityThresholdMatching"
STRUCTURAL = "semapv:StructuralMatching"
CHAINED = "semapv:MappingChaining"
TOLD = "semapv:BackgroundKnowledgeBasedMatching"
COMPOSITE = "semapv:CompositeMatching"
UNSPECIFIED = "semapv:UnspecifiedMatching"

_VALUES = {
    LEXICAL: ("title", "name", "more_names", "shared_names", "same_words"),
    SIMILAR: ("words", "letters", "spelling"),
    SEMANTIC: ("description", "text", "texts", "near_names", "all_names", "name_in_text"),
    STRUCTURAL: ("type", "parents", "children", "children_share"),
    CHAINED: ("through",),
    TOLD: ("xref",),
}
#: What kind of reason each value of our evidence is.
REASONS = {value: reason for reason, values in _VALUES.items() for value in values}
#: Values that speak against a pair, or compare it with others: no reasons by themselves.
DOUBTS = frozenset(
    {"name_bearers", "other_numbers", "level", "worse_lead", "better_lead", "conflict"}
)
#: Evidence that is the cosine of two texts, the surest first.
_COSINES = ("description", "text", "texts")


def justification_of(overlap: Overlap) -> str:
    """Why a mapping stands in a table, as a term of the Semantic Mapping Vocabulary."""
    if overlap.verdict in ("correct", "wrong"):
        return UNSPECIFIED if told_by(overlap) else MANUAL
    if not was_found(overlap):
        return UNSPECIFIED
    spoken = {name for name, value in overlap.evidence.items() if value > 0} - DOUBTS
    reasons = {REASONS.get(name, UNSPECIFIED) for name in spoken}
    if LEXICAL in reasons:  # Names that are the same are alike as well.
        reasons.discard(SIMILAR)
    if len(reasons) > 1:
        return COMPOSITE
    return reasons.pop() if reasons else UNSPECIFIED


def told_by(overlap: Overlap) -> str:
    """Where a verdict comes from, unless a person gave it here."""
    if overlap.source == "import":
        return "an imported list"
    return f"the mappings of {overlap.source[3:]}" if overlap.source.startswith("kb:") else ""


def cosine_of(overlap: Overlap) -> float | None:
    """The cosine of the two descriptions, or of the two texts."""
    return next((overlap.evidence[name] for name in _COSINES if name in overlap.evidence), None)
