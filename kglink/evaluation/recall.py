"""Recall of retrieval: how often a right entity is among the first k.

*Per KB*: the pool is one KB, the mentions are those with gold in it. *Joint*: all KBs in one
list. *Judged joint*: the same, but for each mention the KBs that hold no gold for it are left out,
because a KB may hold the right entity without anybody having said so.

The joint pools may count the counterparts of a gold in other KBs as right as well; which KBs a pool
has, and what is right in a single KB, stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kglink.linking.linker import BATCH_MENTIONS, Linker, joint_ranking
from kglink.linking.retrieve import Scored
from kglink.records import Document, EntityId, Span

#: Pools over all KBs; the bracket keeps them apart from a KB of that name.
JOINT = "[joint]"
JUDGED_JOINT = "[judged joint]"
#: The keys of these pools in ``kglink eval --json``.
JSON_KEYS = {JOINT: "joint", JUDGED_JOINT: "judged_joint"}

#: The same things in other KBs, for each id that has any.
Counterparts = Callable[[Iterable[EntityId]], Mapping[EntityId, Sequence[EntityId]]]


@dataclass
class RecallReport:
    """Hits at each k, for every KB and jointly.

    ``with_counterparts`` is the number of mentions of which a gold has a counterpart that counts
    in the joint pools; None: none counts there.
    """

    ks: tuple[int, ...]
    with_counterparts: int | None = None
    mentions: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hits: dict[str, dict[int, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )

    def add(self, pool: str, ranking: Sequence[EntityId], gold: frozenset[EntityId]) -> None:
        """Count one mention in one pool."""
        self.mentions[pool] += 1
        rank = next((at for at, one in enumerate(ranking, 1) if one in gold), None)
        for k in self.ks:
            self.hits[pool][k] += rank is not None and rank <= k

    def recall(self, pool: str) -> dict[str, float]:
        """``{"R@1": ...}`` of one pool."""
        return {f"R@{k}": self.hits[pool][k] / self.mentions[pool] for k in self.ks}

    def pools(self) -> list[str]:
        """The KBs in their order, then the joint pools."""
        joint = [pool for pool in (JOINT, JUDGED_JOINT) if pool in self.mentions]
        return [*sorted(self.mentions.keys() - set(joint)), *joint]

    def as_json(self) -> dict[str, object]:
        """The metrics in the shape of ``kglink eval --json``."""
        joint = {
            key: self.recall(pool) if pool in self.mentions else {}
            for pool, key in JSON_KEYS.items()
        }
        kbs = [pool for pool in self.pools() if pool not in JSON_KEYS]
        return joint | {"kb": {kb: self.recall(kb) for kb in kbs}}


def evaluate_recall(
    linker: Linker,
    documents: Iterable[Document],
    kbs: Sequence[str],
    ks: Sequence[int],
    counterparts: Counterparts | None = None,
) -> RecallReport:
    """Rank the candidates of every mention with a known answer, its span given.

    ``counterparts`` finds what counts in the joint pools besides the golds themselves.
    """
    report = RecallReport(tuple(sorted(ks)), None if counterparts is None else 0)
    judged = (
        (document.text, Span(mention.start, mention.end), frozenset(mention.gold))
        for document in documents
        for mention in document.mentions
        if mention.gold
    )
    while batch := list(islice(judged, BATCH_MENTIONS)):
        rankings = linker.candidates([(text, span) for text, span, _ in batch], limit=max(ks))
        golds = {one for _, _, gold in batch for one in gold}
        same = counterparts(golds) if counterparts else {}
        for (_, _, gold), by_kb in zip(batch, rankings, strict=True):
            right = gold.union(*(same.get(one, ()) for one in gold))
            _count(report, gold, right, by_kb, kbs)
    return report


def _count(
    report: RecallReport,
    gold: frozenset[EntityId],
    right: frozenset[EntityId],
    by_kb: Mapping[str, Sequence[Scored]],
    kbs: Sequence[str],
) -> None:
    with_gold = [kb for kb in kbs if any(one.kb == kb for one in gold)]
    for kb in with_gold:
        report.add(kb, [one.id for one in by_kb[kb]], gold)
    if not with_gold:
        return
    if report.with_counterparts is not None:
        report.with_counterparts += any(one.kb in kbs for one in right - gold)
    for pool, members in ((JOINT, kbs), (JUDGED_JOINT, with_gold)):
        report.add(pool, [one.id for one in joint_ranking(by_kb, members)], right)
