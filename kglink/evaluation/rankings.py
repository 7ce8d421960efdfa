"""Runs the linker over annotated documents: each judged mention with its ranks, pool by pool.

*Per KB*: the pool is one KB, the mentions are those with gold in it. *Joint*: all KBs in one
list. *Judged joint*: the same, but for each mention the KBs that hold no gold for it are left out,
because a KB may hold the right entity without anybody having said so.

The joint pools may count the counterparts of a gold in other KBs as right as well; which KBs a pool
has, and what is right in a single KB, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kglink.evaluation.metrics import RERANKED, Rank
from kglink.linking.linker import BATCH_MENTIONS, Linker, joint_ranking
from kglink.linking.retrieve import Scored
from kglink.plugins import Reranker
from kglink.records import (
    Candidate,
    Document,
    Entity,
    EntityId,
    Mention,
    MentionInText,
    Ranking,
    Span,
)

#: Pools over all KBs; the bracket keeps them apart from a KB of that name.
JOINT = "[joint]"
JUDGED_JOINT = "[judged joint]"
#: The keys of these pools in ``kglink eval --json``.
JSON_KEYS = {JOINT: "joint", JUDGED_JOINT: "judged_joint"}

#: The same things in other KBs, for each id that has any.
Counterparts = Callable[[Iterable[EntityId]], Mapping[EntityId, Sequence[EntityId]]]
#: Entities by their ids, for their types.
Entities = Callable[[Iterable[EntityId]], Mapping[EntityId, Entity]]


class Domain(NamedTuple):
    """A type of entity within a KB."""

    kb: str
    type: str


@dataclass(frozen=True, slots=True)
class RankedMention:
    """A mention with gold in the ranked KBs, and where the first right entity stands in each pool.

    ``reranked`` is the same after re-ranking; without a reranker it is ``ranks`` itself.
    """

    docs: str
    document: str
    start: int
    end: int
    surface: str
    ranks: Mapping[str, Rank]
    reranked: Mapping[str, Rank]
    with_counterpart: bool = False
    """Whether a gold has a counterpart that counts in the joint pools."""
    domains: tuple[Domain, ...] = ()
    """Those of its golds, where they were asked for."""


@dataclass(frozen=True, slots=True)
class Judging:
    """What counts as right besides the golds, and what else is done with the candidates."""

    counterparts: Counterparts | None = None
    """What counts in the joint pools besides the golds themselves."""
    entities: Entities | None = None
    """Where the domains of golds are read; None: they are not wanted."""
    reranker: Reranker | None = None
    """Orders the first candidates of each pool anew."""


class _Place(NamedTuple):
    """A mention that is judged."""

    document: Document
    mention: Mention
    gold: frozenset[EntityId]

    @property
    def span(self) -> Span:
        return Span(self.mention.start, self.mention.end)


class _Pool(NamedTuple):
    """One ranking of a mention, and what is right in it."""

    name: str
    ranking: list[Scored]
    right: frozenset[EntityId]


def rank_mentions(
    linker: Linker,
    documents: Iterable[Document],
    kbs: Sequence[str],
    depth: int,
    judging: Judging | None = None,
    *,
    docs: str = "",
) -> Iterator[RankedMention]:
    """Rank the ``depth`` best candidates of every mention with gold in ``kbs``, its span given."""
    judging = judging or Judging()
    places = (
        _Place(document, mention, frozenset(mention.gold))
        for document in documents
        for mention in document.mentions
        if mention.gold and any(one.kb in kbs for one in mention.gold)
    )
    while batch := list(islice(places, BATCH_MENTIONS)):
        yield from _rank_batch(linker, batch, kbs, depth, judging, docs)


def _rank_batch(
    linker: Linker,
    batch: Sequence[_Place],
    kbs: Sequence[str],
    depth: int,
    judging: Judging,
    docs: str,
) -> Iterator[RankedMention]:
    texts = [(place.document.text, place.span) for place in batch]
    golds = {one for place in batch for one in place.gold}
    same = judging.counterparts(golds) if judging.counterparts else {}
    known = judging.entities(golds) if judging.entities else {}
    rankings = [
        _pools(by_kb, place.gold, place.gold.union(*(same.get(one, ()) for one in place.gold)), kbs)
        for by_kb, place in zip(linker.candidates(texts, limit=depth), batch, strict=True)
    ]
    anew = _Reranking(judging.reranker, batch, rankings) if judging.reranker else None
    for at, (place, pools) in enumerate(zip(batch, rankings, strict=True)):
        ranks = {
            pool.name: _first((one.id for one in pool.ranking[:depth]), pool.right)
            for pool in pools
        }
        mention = place.mention
        domains = {Domain(one.kb, known[one].type) for one in place.gold if one in known}
        yield RankedMention(
            docs=docs,
            document=place.document.id,
            start=mention.start,
            end=mention.end,
            surface=place.document.text[mention.start : mention.end],
            ranks=ranks,
            reranked=anew.ranks(at, ranks) if anew else ranks,
            with_counterpart=any(
                other.kb in kbs and other not in place.gold
                for one in place.gold
                for other in same.get(one, ())
            ),
            domains=tuple(sorted(one for one in domains if one.kb in kbs)),
        )


def _pools(
    by_kb: Mapping[str, list[Scored]],
    gold: frozenset[EntityId],
    right: frozenset[EntityId],
    kbs: Sequence[str],
) -> list[_Pool]:
    with_gold = [kb for kb in kbs if any(one.kb == kb for one in gold)]
    return [
        *(_Pool(kb, by_kb[kb], gold) for kb in with_gold),
        _Pool(JOINT, joint_ranking(by_kb, kbs), right),
        _Pool(JUDGED_JOINT, joint_ranking(by_kb, with_gold), right),
    ]


class _Reranking:
    """A batch's rankings with the first candidates of each in the reranker's order."""

    def __init__(
        self, reranker: Reranker, batch: Sequence[_Place], rankings: Sequence[Sequence[_Pool]]
    ) -> None:
        self._rankings = rankings
        asked: dict[tuple[int, tuple[EntityId, ...]], Ranking] = {}
        for at, (place, pools) in enumerate(zip(batch, rankings, strict=True)):
            for pool in pools:
                # The joint pools often have the same candidates: they are read once.
                asked.setdefault(
                    (at, _head(pool)),
                    Ranking(
                        MentionInText(place.document.text, place.mention.start, place.mention.end),
                        _candidates(pool),
                    ),
                )
        answers = reranker.rank(list(asked.values()))
        self._orders = dict(zip(asked, answers, strict=True))

    def ranks(self, at: int, retrieved: Mapping[str, Rank]) -> dict[str, Rank]:
        """The ranks of a mention; what the reranker was not given keeps its place."""
        found = {}
        for pool in self._rankings[at]:
            order = self._orders[at, _head(pool)]
            first = _first((one.id for one in order.candidates), pool.right)
            found[pool.name] = retrieved[pool.name] if first is None else first
        return found


def _head(pool: _Pool) -> tuple[EntityId, ...]:
    return tuple(one.id for one in pool.ranking[:RERANKED])


def _candidates(pool: _Pool) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(id=one.id, title=one.title, score=one.score, evidence=one.evidence)
        for one in pool.ranking[:RERANKED]
    )


def _first(ranking: Iterable[EntityId], right: frozenset[EntityId]) -> Rank:
    return next((at for at, one in enumerate(ranking, 1) if one in right), None)
