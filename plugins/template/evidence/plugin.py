"""Candidates whose type is a word of the mention's text are likelier.

Use it: set link.more_evidence to myvendor/myplugin, in kglink.toml or as KGLINK_LINK_MORE_EVIDENCE
`kglink fit DOCS` finds out how much it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kglink.plugins import DefaultWeights, PluginSettings, Register, hookimpl
from kglink.records import Candidate, Ranking


class TypeInText:
    """1 where the text names the candidate's type."""

    weights = DefaultWeights(untrained=0.05, trained=0.05)

    def __init__(self, settings: PluginSettings) -> None:
        pass

    def values(self, mentions: Sequence[Ranking]) -> list[list[float]]:
        """For each mention a value for each of its candidates."""
        return [
            [self._value(one, mention.mention.text) for one in mention.candidates]
            for mention in mentions
        ]

    def _value(self, candidate: Candidate, text: str) -> float:
        return float(candidate.type.lower() in text.lower().split()) if candidate.type else 0.0


@hookimpl
def register_evidence(register: Register) -> None:
    """Offer the evidence."""
    register("myvendor/myplugin", TypeInText, summary="The text names the candidate's type")
