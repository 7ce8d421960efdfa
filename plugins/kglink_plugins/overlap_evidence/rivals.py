"""Rivals: how far a pair leads the other pairs of its entities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kglink.plugins import EntityPair, PairedKBs, PluginSettings, Side

#: Log odds beyond which a pair counts as no surer.
MOST_ODDS = 8.0
#: Entities whose best pairs are remembered.
MOST_REMEMBERED = 200_000


class RivalEvidence:
    """Weighs how far a pair leads the other pairs of its entities after the first pass."""

    second_pass = True

    def __init__(self, settings: PluginSettings) -> None:
        #: The best pair of an entity, and the log odds of the best and of the next one.
        self._best: dict[tuple[Side, str], tuple[str, float, float]] = {}

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        """Nothing: it weighs what others propose."""
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        """The values of pairs.

        ``worse_lead`` and ``better_lead``: how much larger their log odds are than those of the
        best other pair of the one entity, and of the other one, as shares of the most that counts.
        """
        return [self._weighed(kbs, pair) for pair in pairs]

    def _weighed(self, kbs: PairedKBs, pair: EntityPair) -> Mapping[str, float]:
        known = kbs.probability(pair.left.key, pair.right.key)
        if known is None:
            return {}
        odds = log_odds(known)
        leads = sorted(
            (
                self._lead(kbs, "left", pair.left.key, pair.right.key, odds),
                self._lead(kbs, "right", pair.right.key, pair.left.key, odds),
            )
        )
        return {"worse_lead": leads[0], "better_lead": leads[1]}

    def _lead(self, kbs: PairedKBs, side: Side, key: str, other: str, odds: float) -> float:
        best = self._best.get((side, key))
        if best is None:
            if len(self._best) >= MOST_REMEMBERED:
                self._best.clear()
            best = self._best[side, key] = _best(kbs.partners(side, key))
        rival = best[2] if best[0] == other else best[1]
        return max(-1.0, min(1.0, (odds - rival) / MOST_ODDS))


def log_odds(probability: float) -> float:
    """Log odds, no surer than `MOST_ODDS`."""
    if not 0 < probability < 1:
        return MOST_ODDS if probability >= 1 else -MOST_ODDS
    odds = math.log(probability / (1 - probability))
    return max(-MOST_ODDS, min(MOST_ODDS, odds))


def _best(partners: Mapping[str, float]) -> tuple[str, float, float]:
    """The best and the next pair; where there is none, it is as sure as a pair can be wrong."""
    ranked = sorted(partners.items(), key=lambda one: (-one[1], one[0]))[:2]
    odds = [log_odds(probability) for _, probability in ranked]
    first, second = (*odds, -MOST_ODDS, -MOST_ODDS)[:2]
    return ranked[0][0] if ranked else "", first, second
