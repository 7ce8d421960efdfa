"""Why a mention was linked as it was: what decided, and what would have to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kglink.linking.scoring import Scoring
from kglink.records import Candidate, Link, json_number, json_value
from kglink.shown import escaped, table

#: No kind of evidence has a larger value.
_MOST = 1.0


class Difference(NamedTuple):
    """How much more a kind of evidence adds to one candidate's score than to another's."""

    kind: str
    by: float


class Change(NamedTuple):
    """A candidate would be as good as the first one if its evidence of a kind had this value."""

    candidate: Candidate
    kind: str
    value: float
    wanted: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A link, and how its candidates were weighed."""

    link: Link
    scoring: Scoring
    threshold: float
    found: bool = True
    """Whether the mention is found in its text; else it was answered as if it were given."""

    @property
    def probability(self) -> float:
        """How likely the first candidate is right."""
        return self.link.probability

    def weights(self) -> Mapping[str, Mapping[str, float]]:
        """For each KB among the candidates what a kind of evidence counts there, if it does."""
        kbs = dict.fromkeys(one.id.kb for one in self.link.candidates)
        return {
            kb: {
                kind: weight
                for kind, weight in self.scoring.weights_in(kb).by_kind.items()
                if weight
            }
            for kb in kbs
        }

    def decided(self) -> list[Difference]:
        """What puts the first candidate before the second; what speaks against it is negative."""
        if len(self.link.candidates) < 2:
            return []
        first, second = self.link.candidates[:2]
        kinds = dict.fromkeys((*first.parts, *second.parts))
        shares = (
            Difference(kind, round(first.parts.get(kind, 0.0) - second.parts.get(kind, 0.0), 4))
            for kind in kinds
        )
        return sorted((one for one in shares if one.by), key=lambda one: -one.by)

    def changes(self) -> list[Change]:
        """For each other candidate the evidence of a kind that would make it as good as the first.

        Of the kinds that could, the one that has to grow the least. One that scores as high, and
        stands behind because its KB answers later or a reranker said so, lacks no evidence.
        """
        found, weights = [], self.weights()
        for other in self.link.candidates[1:]:
            missing = self.link.candidates[0].score - other.score
            wanted = [
                Change(other, kind, value, round(value + missing / weight, 4))
                for kind, weight in weights[other.id.kb].items()
                if weight > 0
                and (value := other.evidence.get(kind, 0.0)) + missing / weight <= _MOST
            ]
            if missing > 0 and wanted:
                found.append(min(wanted, key=lambda one: one.wanted - one.value))
        return found

    def evidence(self) -> tuple[list[str], list[list[str]]]:
        """The columns and rows of a table: the evidence of each candidate, and what it adds."""
        candidates = self.link.candidates
        kinds = dict.fromkeys(kind for one in candidates for kind in one.evidence)
        rows = [
            [
                kind,
                *(_cell(one.evidence.get(kind, 0), one.parts.get(kind, 0)) for one in candidates),
            ]
            for kind in kinds
            if any(one.evidence.get(kind) for one in candidates)
        ]
        rows.append(["score", *(_cell(one.score, 0) for one in candidates)])
        rows.append(["title", *(one.title for one in candidates)])
        return ["evidence", *(str(one.id) for one in candidates)], rows

    def verdict(self) -> list[str]:
        """The answer, what decided, and what would have to change, a line each."""
        link = self.link
        if not link.candidates:
            return ["answer   NIL: no entity is like that"]
        first = link.candidates[0]
        sure = f"{self.probability:.2f} probable, threshold {self.threshold:.2f}"
        answer = (
            str(link.chosen.id)
            if link.chosen
            else f"NIL, {link.confidence:.2f} sure: {first.id} is not likely enough"
        )
        lines = [f"answer   {answer} ({sure})"]
        if not self.found:
            passed = "`kglink link` passes over these words: answered as if it were told"
            lines.append(f"given    {passed}")
        if shares := self.decided():
            parts = ", ".join(f"{kind} {by:+.2f}" for kind, by in shares)
            lines.append(f"decided  against {link.candidates[1].id}: {parts}")
        lines += [
            f"change   {change.candidate.id} would be as good with {change.kind} "
            f"{change.wanted:.2f} (it is {change.value:.2f})"
            for change in self.changes()
        ]
        if not link.chosen:
            lines.append(f"change   a threshold of {self.probability:.2f} would link it")
        return lines

    def _repr_html_(self) -> str:
        shown = table(*self.evidence()) if self.link.candidates else ""
        lines = "\n".join(map(escaped, self.verdict()))
        return f"<b>{escaped(self.link.surface)}</b>{shown}<pre>{lines}</pre>"

    def as_json(self) -> dict[str, object]:
        """A plain dictionary, as ``kglink explain --json`` prints it."""
        return {
            **self.link.as_json(explain=True),
            "probability": json_number(self.probability),
            "threshold": self.threshold,
            "found": self.found,
            "weights": json_value(self.weights()),
            "decided": [one._asdict() for one in self.decided()],
            "changes": [
                {
                    **change.candidate.id._asdict(),
                    "evidence": change.kind,
                    "value": change.value,
                    "wanted": change.wanted,
                }
                for change in self.changes()
            ],
        }


def _cell(value: float, adds: float) -> str:
    shown = f"{round(value, 2) + 0.0:.2f}"  # no "-0.00"
    return f"{shown} {adds:+.2f}" if adds else shown
