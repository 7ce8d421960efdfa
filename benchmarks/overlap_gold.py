"""Curated pairs of the disease KBs, and what a list of found pairs is worth by them.

A found pair is **right** if curators made it, and **wrong** if they did not but gave one of its
two entities another counterpart in the other KB; where they gave neither one, it is not counted,
as the curated lists are incomplete. Pairs that touch an entity of ``unjudged.txt`` are left out of
everything. *One-to-one* figures are the same over the curated pairs whose entities have no other
counterpart: found pairs that touch none of their entities are not counted.

**First place**: of the curated one-to-one pairs, the share whose right entity has the highest
score of all entities of its KB (unjudged ones left out), seen from either side; equal scores share
the place. A pair that was never found is not first.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

Pair = tuple[str, str]


class Quality(NamedTuple):
    """Counts of right and wrong pairs."""

    right: int
    wrong: int
    wanted: int

    @property
    def precision(self) -> float:
        """Share of the counted pairs that are right."""
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        """Share of the curated pairs that were found."""
        return self.right / max(self.wanted, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / max(self.right + self.wrong + self.wanted, 1)

    def __str__(self) -> str:
        return f"{self.precision:.3f} {self.recall:.3f} {self.f1:.3f}"


@dataclass(frozen=True)
class Gold:
    """The curated pairs of two KBs: all of them, the one-to-one ones, those without a name."""

    pairs: frozenset[Pair]
    one_to_one: frozenset[Pair]
    shares_name: frozenset[Pair]
    unjudged: frozenset[str]

    @property
    def nameless(self) -> frozenset[Pair]:
        """One-to-one pairs that share no name."""
        return self.one_to_one - self.shares_name

    def judged(self, found: Iterable[Pair]) -> list[Pair]:
        """Found pairs that are right or wrong."""
        lefts, rights = _sides(self.pairs)
        return [one for one in self._known(found) if one[0] in lefts or one[1] in rights]

    def quality(self, found: Iterable[Pair], *, one_to_one: bool = False) -> Quality:
        """What a list of pairs is worth."""
        wanted = self.one_to_one if one_to_one else self.pairs
        lefts, rights = _sides(wanted)
        known = set(self._known(found))
        right = len(known & wanted)
        touching = sum(left in lefts or other in rights for left, other in known)
        return Quality(right, touching - right, len(wanted))

    def first(self, scores: Mapping[Pair, float], wanted: frozenset[Pair]) -> tuple[float, float]:
        """The share of ``wanted`` that is in the first place, from the left and from the right."""
        known = {pair: scores[pair] for pair in self._known(scores)}
        shares = []
        for side in (0, 1):
            best: dict[str, list[float]] = defaultdict(lambda: [-1.0, 0.0])
            for pair, score in known.items():
                top = best[pair[side]]
                if score > top[0]:
                    top[:] = [score, 1.0]
                elif score == top[0]:
                    top[1] += 1
            first = (
                1 / best[pair[side]][1]
                for pair in wanted
                if known.get(pair, -2.0) == best[pair[side]][0]
            )
            shares.append(sum(first) / len(wanted))
        return shares[0], shares[1]

    def _known(self, found: Iterable[Pair]) -> list[Pair]:
        return [one for one in found if self.unjudged.isdisjoint(one)]


def read_gold(disease: Path) -> dict[Pair, Gold]:
    """The curated pairs by the names of the KBs, in lower case and in the order of the alphabet."""
    unjudged = frozenset((disease / "overlap" / "unjudged.txt").read_text().split())
    rows: dict[Pair, list[tuple[Pair, bool, bool]]] = defaultdict(list)
    with (disease / "overlap" / "gold_pairs.tsv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            ends = sorted((row[f"kb_{side}"].lower(), row[f"id_{side}"]) for side in "ab")
            (left_kb, left), (right_kb, right) = ends
            flags = row["one_to_one"] == "1", row["shared_name"] == "1"
            rows[left_kb, right_kb].append(((left, right), *flags))
    return {
        kbs: Gold(
            frozenset(pair for pair, _, _ in found),
            frozenset(pair for pair, one_to_one, _ in found if one_to_one),
            frozenset(pair for pair, _, shared in found if shared),
            unjudged,
        )
        for kbs, found in rows.items()
    }


def _sides(pairs: Iterable[Pair]) -> tuple[set[str], set[str]]:
    listed = list(pairs)
    return {left for left, _ in listed}, {right for _, right in listed}
