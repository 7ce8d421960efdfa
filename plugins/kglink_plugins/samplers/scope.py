"""Where a mention's negatives come from: all entities, its own domains, the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kglink.plugins import SamplerBatch, SamplerPool
from kglink_plugins.samplers.draw import IntArray, Rows


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
        yield Scope(np.array(mentions, np.int64), _rows_of(pool, sorted(domains)))


def batch_golds(pool: SamplerPool, batch: SamplerBatch) -> Iterator[Scope]:
    """Every mention draws from the right answers of all mentions of the batch."""
    rows = sorted(set().union(*batch.gold))
    yield Scope(np.arange(len(batch.gold)), Rows(np.array(rows, np.int64)))


def by_mention(scopes: Iterable[Scope]) -> list[Rows]:
    """The rows of each mention, in the order of the mentions."""
    found = {mention: rows for mentions, rows in scopes for mention in mentions.tolist()}
    return [found[mention] for mention in range(len(found))]


def _rows_of(pool: SamplerPool, domains: list[int]) -> Rows:
    if not domains:
        return Rows(range(len(pool)))
    parts = [pool.by_domain[domain] for domain in domains]
    return Rows(parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts)))
