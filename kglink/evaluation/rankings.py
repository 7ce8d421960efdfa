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
from typing import NamedTuple, Protocol

from kglink.linking.pipeline import BATCH_MENTIONS
from kglink.linking.stages import Stage, run_stages
from kglink.records import Candidate, Document, Entity, EntityId, Mention, MentionInText, Ranking

#: Where the first right entity stands, counted from 1; None: nowhere.
Rank = int | None

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
    quality: str = ""
    """What its source says of the annotation: a tier of Reddit's, a held-out file of ZESHEL's."""
    text: str = ""
    """Of its document."""
    gold: tuple[EntityId, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    """Those of all KBs in one list, after re-ranking."""


class Ranker(Protocol):
    """What ranks the candidates of mentions: a linker, or lists of a file."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What orders the first candidates anew."""
        ...

    @property
    def stage_depth(self) -> int:
        """How many first candidates the stages order anew; 0 without stages."""
        ...

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity cannot be an answer."""
        ...

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[list[Candidate]]:
        """The candidates of each mention, all KBs in one list, ``limit`` of each at most."""
        ...

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with what the store says of their first candidates."""
        ...


class _Place(NamedTuple):
    """A mention that is judged."""

    document: Document
    mention: Mention
    gold: frozenset[EntityId]


def in_text(document: Document, mention: Mention) -> MentionInText:
    """A mention of a document as candidates are looked for."""
    return MentionInText(document.text, mention.start, mention.end, document.whole)


class _Pool(NamedTuple):
    """Some KBs, and what is right in them."""

    name: str
    kbs: frozenset[str]
    right: frozenset[EntityId]

    def first(self, candidates: Iterable[Candidate], most: int) -> tuple[Candidate, ...]:
        """The first of its KBs; what a KB has of a joint list is in the KB's own order."""
        return tuple(islice((one for one in candidates if one.id.kb in self.kbs), most))

    def rank_in(self, candidates: Iterable[Candidate], depth: int) -> Rank:
        """Where the first right entity stands among the first ``depth`` of its KBs."""
        own = islice((one.id for one in candidates if one.id.kb in self.kbs), depth)
        return next((at for at, one in enumerate(own, 1) if one in self.right), None)


class _Judged(NamedTuple):
    """A mention with its candidates and pools, and which of its golds have what was asked for."""

    place: _Place
    mention: MentionInText
    candidates: Sequence[Candidate]
    pools: list[_Pool]
    with_counterpart: bool
    domains: tuple[Domain, ...]


def rank_mentions(
    ranker: Ranker,
    documents: Iterable[Document],
    kbs: Sequence[str],
    depth: int,
    *,
    docs: str = "",
    counterparts: Counterparts | None = None,
    entities: Entities | None = None,
) -> Iterator[RankedMention]:
    """Rank the ``depth`` best candidates of every mention with gold in ``kbs``, its span given.

    ``counterparts`` count in the joint pools besides the golds themselves; where ``entities`` are
    read, the domains of golds are told.
    """
    places = (
        _Place(document, mention, gold)
        for document in documents
        for mention in document.mentions
        if (gold := frozenset(one for one in mention.gold or () if not ranker.leaves_out(one)))
        and any(one.kb in kbs for one in gold)
    )
    waiting: list[list[_Judged]] = []
    given = min(ranker.stage_depth, depth)

    def heads() -> Iterator[list[Ranking]]:
        """What the stages are given: the first candidates of each pool, the same ones once."""
        while batch := list(islice(places, BATCH_MENTIONS)):
            waiting.append(_judged(ranker, batch, kbs, depth, counterparts, entities))
            yield ranker.described(list(_heads(waiting[-1], given).values()))

    for staged in run_stages(ranker.stages, heads()):
        batch = waiting.pop(0)
        orders = dict(zip(_heads(batch, given), staged, strict=True))
        for judged in batch:
            mention, found = judged.place.mention, judged.candidates
            ranks = {pool.name: pool.rank_in(found, depth) for pool in judged.pools}
            yield RankedMention(
                docs=docs,
                document=judged.place.document.id,
                start=mention.start,
                end=mention.end,
                surface=judged.mention.surface,
                ranks=ranks,
                reranked=_after_stages(judged, orders, given, ranks) if orders else ranks,
                with_counterpart=judged.with_counterpart,
                domains=judged.domains,
                quality=mention.quality,
                text=judged.place.document.text,
                gold=tuple(sorted(judged.place.gold)),
                candidates=_ordered_anew(judged, orders, given, depth),
            )


def _judged(
    ranker: Ranker,
    batch: Sequence[_Place],
    kbs: Sequence[str],
    depth: int,
    counterparts: Counterparts | None,
    entities: Entities | None,
) -> list[_Judged]:
    """The mentions of a batch with their pools, as retrieved."""
    golds = {one for place in batch for one in place.gold}
    same = counterparts(golds) if counterparts else {}
    known = entities(golds) if entities else {}
    mentions = [in_text(place.document, place.mention) for place in batch]
    found = ranker.joint(mentions, limit=depth)
    judged = []
    for place, mention, candidates in zip(batch, mentions, found, strict=True):
        others = {other for one in place.gold for other in same.get(one, ())}
        domains = {Domain(one.kb, known[one].type) for one in place.gold if one in known}
        judged.append(
            _Judged(
                place,
                mention,
                candidates,
                [*_pools(place.gold, place.gold | others, kbs)],
                any(other.kb in kbs and other not in place.gold for other in others),
                tuple(sorted(one for one in domains if one.kb in kbs)),
            )
        )
    return judged


def _pools(
    gold: frozenset[EntityId], right: frozenset[EntityId], kbs: Sequence[str]
) -> Iterator[_Pool]:
    with_gold = {one.kb for one in gold}
    for kb in kbs:
        if kb in with_gold:
            yield _Pool(kb, frozenset([kb]), gold)
    yield _Pool(JOINT, frozenset(kbs), right)
    yield _Pool(JUDGED_JOINT, frozenset(with_gold.intersection(kbs)), right)


_Head = tuple[MentionInText, tuple[EntityId, ...]]


def _heads(batch: Sequence[_Judged], given: int) -> dict[_Head, Ranking]:
    """The first candidates of all pools; none where no stage asks for them."""
    if not given:
        return {}
    firsts = (
        (judged.mention, pool.first(judged.candidates, given))
        for judged in batch
        for pool in judged.pools
    )
    return {_head(mention, first): Ranking(mention, first) for mention, first in firsts}


def _head(mention: MentionInText, first: Iterable[Candidate]) -> _Head:
    return mention, tuple(one.id for one in first)


def _ordered_anew(
    judged: _Judged, orders: Mapping[_Head, Ranking], given: int, depth: int
) -> tuple[Candidate, ...]:
    """The candidates of all KBs in the new order."""
    pool = next(one for one in judged.pools if one.name == JOINT)
    found = pool.first(judged.candidates, depth)
    if not orders:
        return found
    return (*orders[_head(judged.mention, found[:given])].candidates, *found[given:])


def _after_stages(
    judged: _Judged, orders: Mapping[_Head, Ranking], given: int, before: Mapping[str, Rank]
) -> dict[str, Rank]:
    """The ranks in the new order; what the stages were not given keeps its place."""
    found = {}
    for pool in judged.pools:
        head = _head(judged.mention, pool.first(judged.candidates, given))
        rank = pool.rank_in(orders[head].candidates, given)
        found[pool.name] = before[pool.name] if rank is None else rank
    return found
