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

from kglink.evaluation.annotated import united_mentions
from kglink.linking.pipeline import whole_documents
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

#: A judged mention: its document, and the golds that can be found.
_Place = tuple[Document, Mention, frozenset[EntityId]]


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

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[Ranking]:
        """The candidates of each mention, all KBs in one list, ``limit`` of each at most."""
        ...

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """The rankings with what the store says of their first candidates."""
        ...


def in_text(document: Document, mention: Mention) -> MentionInText:
    """A mention of a document as candidates are looked for."""
    return MentionInText(document.text, mention.start, mention.end, document.whole)


#: A mention with the first candidates that stages order anew.
_Head = tuple[MentionInText, tuple[EntityId, ...]]


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
        own = enumerate(self.first(candidates, depth), 1)
        return next((at for at, one in own if one.id in self.right), None)


class _Judged(NamedTuple):
    """A mention as retrieved, with all its candidates and its pools."""

    ranked: RankedMention
    found: Ranking
    pools: list[_Pool]

    def heads(self, given: int) -> dict[str, Ranking]:
        """For each pool the first candidates."""
        mention, candidates = self.found.mention, self.found.candidates
        return {one.name: Ranking(mention, one.first(candidates, given)) for one in self.pools}

    def reranked(self, orders: Mapping[_Head, Ranking], given: int) -> RankedMention:
        """The mention in the order of stages; what these were not given keeps its place."""
        ranks, candidates = dict(self.ranked.ranks), self.ranked.candidates
        heads = self.heads(given)
        for pool in self.pools:
            anew = orders[_key(heads[pool.name])].candidates
            ranks[pool.name] = pool.rank_in(anew, given) or ranks[pool.name]
            if pool.name == JOINT:
                candidates = (*anew, *candidates[given:])
        return replace(self.ranked, reranked=ranks, candidates=candidates)


def _key(head: Ranking) -> _Head:
    """What stages answer alike."""
    return head.mention, tuple(one.id for one in head.candidates)


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

    Where stages read more than these, they get more: the mention is judged as it is linked.
    ``counterparts`` count in the joint pools besides the golds themselves; where ``entities`` are
    read, the domains of golds are given.
    """
    places = (
        (document, mention, gold)
        for document in documents
        for mention in united_mentions(document)
        if (gold := frozenset(one for one in mention.gold or () if not ranker.leaves_out(one)))
        and any(one.kb in kbs for one in gold)
    )
    waiting: list[list[_Judged]] = []
    given = ranker.stage_depth

    def heads_of(batch: Iterable[_Judged]) -> dict[_Head, Ranking]:
        heads = (head for one in batch for head in one.heads(given).values() if given)
        return {_key(head): head for head in heads}

    def batches() -> Iterator[list[Ranking]]:
        """What the stages are given: the first candidates of each pool, the same ones once."""
        for batch in whole_documents(places, lambda place: id(place[0])):
            golds = {one for _, _, gold in batch for one in gold}
            same = counterparts(golds) if counterparts else {}
            known = entities(golds) if entities else {}
            asked = [in_text(document, mention) for document, mention, _ in batch]
            found = zip(batch, ranker.joint(asked, limit=max(depth, given)), strict=True)
            waiting.append([_judged(docs, *one, kbs, depth, same, known) for one in found])
            yield ranker.described(list(heads_of(waiting[-1]).values()))

    for staged in run_stages(ranker.stages, batches()):
        batch = waiting.pop(0)
        orders = dict(zip(heads_of(batch), staged, strict=True))
        for judged in batch:
            yield judged.reranked(orders, given) if given else judged.ranked


def _judged(
    docs: str,
    place: _Place,
    found: Ranking,
    kbs: Sequence[str],
    depth: int,
    same: Mapping[EntityId, Sequence[EntityId]],
    known: Mapping[EntityId, Entity],
) -> _Judged:
    """A mention with its pools, as retrieved: each KB with gold, all KBs, all KBs with gold."""
    (document, mention, gold), candidates = place, found.candidates
    others = {other for one in gold for other in same.get(one, ())}
    domains = {Domain(one.kb, known[one].type) for one in gold if one in known}
    with_gold = {one.kb for one in gold}
    joint = _Pool(JOINT, frozenset(kbs), gold | others)
    pools = [_Pool(kb, frozenset([kb]), gold) for kb in kbs if kb in with_gold]
    pools += [joint, _Pool(JUDGED_JOINT, frozenset(with_gold.intersection(kbs)), gold | others)]
    ranks = {pool.name: pool.rank_in(candidates, depth) for pool in pools}
    ranked = RankedMention(
        *(docs, document.id, mention.start, mention.end),
        document.text[mention.start : mention.end],
        ranks=ranks,
        reranked=ranks,
        with_counterpart=any(other.kb in kbs and other not in gold for other in others),
        domains=tuple(sorted(one for one in domains if one.kb in kbs)),
        quality=mention.quality,
        text=document.text,
        gold=tuple(sorted(gold)),
        candidates=joint.first(candidates, depth),
    )
    return _Judged(ranked, found, pools)
