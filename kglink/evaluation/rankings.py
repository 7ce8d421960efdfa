"""Runs the linker over annotated documents: each judged mention with its ranks, pool by pool.

*Per KB*: the pool is one KB, the mentions are those with gold in it. *Joint*: all KBs in one
list. *Judged joint*: the same, but for each mention the KBs that hold no gold for it are left out,
because a KB may hold the right entity without anybody having said so.

The joint pools may count the counterparts of a gold in other KBs as right as well; which KBs a pool
has, and what is right in a single KB, stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol

from kglink.evaluation.metrics import Rank
from kglink.linking.pipeline import BATCH_MENTIONS
from kglink.linking.stages import Stage, run_stages
from kglink.records import Candidate, Document, Entity, EntityId, Mention, MentionInText, Ranking

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


@dataclass(frozen=True, slots=True)
class Judging:
    """What counts as right besides the golds, and what else is wanted."""

    counterparts: Counterparts | None = None
    """What counts in the joint pools besides the golds themselves."""
    entities: Entities | None = None
    """Where the domains of golds are read; None: they are not wanted."""


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

    @property
    def in_text(self) -> MentionInText:
        return in_text(self.document, self.mention)


def in_text(document: Document, mention: Mention) -> MentionInText:
    """A mention of a document as candidates are looked for."""
    return MentionInText(document.text, mention.start, mention.end, document.whole)


class _Pool(NamedTuple):
    """One ranking of a mention, and what is right in it."""

    name: str
    ranking: Ranking
    right: frozenset[EntityId]

    def rank_in(self, ranking: Ranking) -> Rank:
        """Where the first right entity stands in a ranking."""
        ids = (one.id for one in ranking.candidates)
        return next((at for at, one in enumerate(ids, 1) if one in self.right), None)


class _Judged(NamedTuple):
    """A mention with its pools, and which of its golds have what was asked for."""

    place: _Place
    pools: list[_Pool]
    with_counterpart: bool
    domains: tuple[Domain, ...]


def rank_mentions(
    ranker: Ranker,
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
        _Place(document, mention, gold)
        for document in documents
        for mention in document.mentions
        if (gold := frozenset(one for one in mention.gold or () if not ranker.leaves_out(one)))
        and any(one.kb in kbs for one in gold)
    )
    waiting: list[list[_Judged]] = []

    def heads() -> Iterator[list[Ranking]]:
        """What the stages are given: the first candidates of each pool, the same ones once."""
        while batch := list(islice(places, BATCH_MENTIONS)):
            waiting.append(_judged(ranker, batch, kbs, depth, judging))
            yield ranker.described(list(_heads(waiting[-1], ranker.stage_depth).values()))

    for staged in run_stages(ranker.stages, heads()):
        batch = waiting.pop(0)
        given = ranker.stage_depth
        orders = dict(zip(_heads(batch, given), staged, strict=True))
        for judged in batch:
            mention = judged.place.mention
            ranks = {pool.name: pool.rank_in(pool.ranking) for pool in judged.pools}
            yield RankedMention(
                docs=docs,
                document=judged.place.document.id,
                start=mention.start,
                end=mention.end,
                surface=judged.place.in_text.surface,
                ranks=ranks,
                reranked=_after_stages(judged.pools, orders, given) if orders else ranks,
                with_counterpart=judged.with_counterpart,
                domains=judged.domains,
                quality=mention.quality,
                text=judged.place.document.text,
                gold=tuple(sorted(judged.place.gold)),
                candidates=_ordered_anew(judged.pools, orders, given),
            )


def _judged(
    ranker: Ranker, batch: Sequence[_Place], kbs: Sequence[str], depth: int, judging: Judging
) -> list[_Judged]:
    """The mentions of a batch with their pools, as retrieved."""
    golds = {one for place in batch for one in place.gold}
    same = judging.counterparts(golds) if judging.counterparts else {}
    known = judging.entities(golds) if judging.entities else {}
    found = ranker.joint([place.in_text for place in batch], limit=depth)
    judged = []
    for place, candidates in zip(batch, found, strict=True):
        others = {other for one in place.gold for other in same.get(one, ())}
        domains = {Domain(one.kb, known[one].type) for one in place.gold if one in known}
        judged.append(
            _Judged(
                place,
                _pools(place, candidates, place.gold | others, kbs, depth),
                any(other.kb in kbs and other not in place.gold for other in others),
                tuple(sorted(one for one in domains if one.kb in kbs)),
            )
        )
    return judged


def _pools(
    place: _Place,
    candidates: Sequence[Candidate],
    right: frozenset[EntityId],
    kbs: Sequence[str],
    depth: int,
) -> list[_Pool]:
    """What a KB has of a joint list is in the KB's own order."""
    with_gold = [kb for kb in kbs if any(one.kb == kb for one in place.gold)]

    def pool(name: str, of_kbs: Sequence[str], right: frozenset[EntityId]) -> _Pool:
        own = [one for one in candidates if one.id.kb in of_kbs]
        return _Pool(name, Ranking(place.in_text, tuple(own[:depth])), right)

    return [
        *(pool(kb, [kb], place.gold) for kb in with_gold),
        pool(JOINT, kbs, right),
        pool(JUDGED_JOINT, with_gold, right),
    ]


_Head = tuple[MentionInText, tuple[EntityId, ...]]


def _heads(batch: Sequence[_Judged], depth: int) -> dict[_Head, Ranking]:
    """The first candidates of all pools; none where no stage asks for them."""
    pools = (pool for judged in batch for pool in judged.pools) if depth else ()
    return {
        _head(pool, depth): replace(pool.ranking, candidates=pool.ranking.candidates[:depth])
        for pool in pools
    }


def _head(pool: _Pool, depth: int) -> _Head:
    return pool.ranking.mention, tuple(one.id for one in pool.ranking.candidates[:depth])


def _ordered_anew(
    pools: Sequence[_Pool], orders: Mapping[_Head, Ranking], depth: int
) -> tuple[Candidate, ...]:
    """The candidates of all KBs in the new order."""
    pool = next(one for one in pools if one.name == JOINT)
    if not orders:
        return pool.ranking.candidates
    return (*orders[_head(pool, depth)].candidates, *pool.ranking.candidates[depth:])


def _after_stages(
    pools: Sequence[_Pool], orders: Mapping[_Head, Ranking], depth: int
) -> dict[str, Rank]:
    """The ranks in the new order; what the stages were not given keeps its place."""
    found = {}
    for pool in pools:
        rank = pool.rank_in(orders[_head(pool, depth)])
        found[pool.name] = pool.rank_in(pool.ranking) if rank is None else rank
    return found
