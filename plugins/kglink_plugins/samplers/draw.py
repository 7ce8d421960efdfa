"""Where negatives come from, and drawing at random without replacement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kglink.arrays import IntArray
from kglink.plugins import SamplerBatch, SamplerPool


class Rows:
    """Rows that may be drawn: all of a pool, or some in ascending order."""

    def __init__(self, rows: range | IntArray) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, places: IntArray) -> IntArray:
        """The rows that stand at these places."""
        return places + self._rows.start if isinstance(self._rows, range) else self._rows[places]

    def part(self, start: int, stop: int) -> IntArray:
        """The rows from one place to another."""
        return self.at(np.arange(start, min(stop, len(self))))

    def places(self, rows: Iterable[int]) -> IntArray:
        """The places of those of ``rows`` that are here, in ascending order."""
        wanted = np.unique(np.fromiter(rows, np.int64))
        if isinstance(self._rows, range):
            return wanted[(wanted >= self._rows.start) & (wanted < self._rows.stop)]
        places = self._rows.searchsorted(wanted)
        inside = places < len(self._rows)
        inside[inside] = self._rows[places[inside]] == wanted[inside]
        return places[inside]


def draw(rows: Rows, forbidden: Iterable[int], k: int, rng: np.random.Generator) -> IntArray:
    """At most ``k`` of the rows, each set of them with the same chance; fewer where few are left.

    Numbers are drawn among as many as are left (NumPy takes Floyd's algorithm where these are
    many), then moved past the forbidden places: nothing has to be tried twice.
    """
    barred = rows.places(forbidden)
    left = len(rows) - len(barred)
    chosen = rng.choice(left, min(k, left), replace=False)
    shift = (barred - np.arange(len(barred))).searchsorted(chosen, side="right")
    return rows.at(chosen + shift)


class Scope(NamedTuple):
    """Mentions that draw from the same rows."""

    mentions: IntArray
    rows: Rows


def whole_pool(pool: SamplerPool, batch: SamplerBatch) -> Iterator[Scope]:
    """Every mention draws from all entities."""
    yield Scope(np.arange(len(batch.gold)), Rows(range(len(pool))))


def own_domains(pool: SamplerPool, batch: SamplerBatch) -> Iterator[Scope]:
    """A mention draws from the domains of its right answers; one without any, from all."""
    mentions_of: dict[frozenset[int], list[int]] = {}
    for mention, gold in enumerate(batch.gold):
        domains = frozenset(pool.domains[list(gold)].tolist())
        mentions_of.setdefault(domains, []).append(mention)
    for domains, mentions in mentions_of.items():
        rows: range | IntArray = range(len(pool))
        if domains:
            parts = [pool.by_domain[domain] for domain in domains]
            rows = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        yield Scope(np.array(mentions, np.int64), Rows(rows))


def batch_golds(pool: SamplerPool, batch: SamplerBatch) -> Iterator[Scope]:
    """Every mention draws from the right answers of all mentions of the batch."""
    rows = sorted(set().union(*batch.gold))
    yield Scope(np.arange(len(batch.gold)), Rows(np.array(rows, np.int64)))
