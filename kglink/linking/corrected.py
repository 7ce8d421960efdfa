"""Texts that people corrected: there their word stands, whatever the evidence says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kglink.files.digest import text_digest
from kglink.linking.describe import described
from kglink.records import (
    CORRECTIONS,
    Candidate,
    Document,
    Entity,
    EntityId,
    KBAnswer,
    Link,
    LinkedDocument,
    Mention,
    MentionInText,
    Ranking,
    Rejected,
)

if TYPE_CHECKING:
    from kglink.store import Store

#: The type of a mention that somebody said is none.
NOT_A_MENTION = "no mention"
#: By the digests of texts (`text_digest`), the places that people corrected there.
Corrected = Mapping[str, Sequence[Mention]]


def corrected_documents(store: Store, name: str | None = None) -> Iterator[Document]:
    """All texts that people corrected, or the one whose digest is its ``name``.

    None where the first correction is not whole yet.
    """
    with store.snapshot() as seen:
        if any(info.name == CORRECTIONS and info.revision for info in seen.kbs()):
            for one in seen.documents(CORRECTIONS, name=name, unresolved=True):
                yield replace(one, mentions=tuple(map(_with_ids, one.mentions)))


def _with_ids(mention: Mention) -> Mention:
    """The mention, where the KB that it means was away when something was corrected last, too."""
    gold = mention.gold and tuple(
        one if one.kb else EntityId.parse(one.key) for one in mention.gold
    )
    return replace(mention, gold=gold)


def corrected_texts(store: Store) -> Corrected:
    """What people said of places, by the digests of their texts."""
    return {one.id: one.mentions for one in corrected_documents(store)}


def as_corrected(
    document: LinkedDocument,
    corrected: Corrected,
    store: Store,
    may_be_answer: Callable[[EntityId], bool],
    *,
    given: bool,
    kbs: Sequence[str] = (),
) -> LinkedDocument:
    """The document with what people said of its places; ``kbs`` answer each for itself.

    Where its mentions were ``given``, all of these are answered, and no others. An entity that may
    be no answer, because another KB is asked or it is gone, is passed over.
    """
    said = corrected.get(text_digest(document.text), ()) if corrected else ()
    if not said:
        return document
    entities = store.get_entities({gold for one in said for gold in one.gold or ()})
    said = [
        one
        for one in said
        if all(gold in entities and may_be_answer(gold) for gold in one.gold or ())
    ]
    places = {(one.start, one.end): one for one in document.links}
    if given:
        said = [one for one in said if (one.start, one.end) in places]
    if not said:
        return document

    def answered(one: Mention) -> Link:
        found = places.get((one.start, one.end))
        candidates = found.candidates if found else ()
        link = _link(document.text, one, candidates, store, entities)
        return replace(link, per_kb=_per_kb(link, found, kbs))

    if given:  # a place that was given twice is answered twice
        by_place = {(one.start, one.end): answered(one) for one in said}
        links = [by_place.get((link.start, link.end), link) for link in document.links]
    else:
        links = [link for link in document.links if not _touches(link, said)]
        links += [answered(one) for one in said if one.type != NOT_A_MENTION]
        links.sort(key=lambda link: (link.start, link.end))
    rejected = tuple(one for one in document.rejected if not _touches(one, said))
    meta = {**document.meta, "corrected": len(said)}
    return replace(document, links=tuple(links), rejected=rejected, meta=meta)


def _touches(place: Link | Rejected, said: Iterable[Mention]) -> bool:
    return any(place.start < one.end and one.start < place.end for one in said)


def _per_kb(said: Link, found: Link | None, kbs: Sequence[str]) -> tuple[KBAnswer, ...]:
    """What each KB answers: the one of what was said that, the others what was found there."""
    before = {one.kb: one for one in found.per_kb} if found and said.chosen else {}
    nothing = {kb: KBAnswer(kb, None, 1.0 if said.chosen is None else 0.0) for kb in kbs}
    own = said.chosen
    return tuple(
        KBAnswer(kb, own, 1.0) if own and own.id.kb == kb else before.get(kb, nothing[kb])
        for kb in kbs
    )


def _link(
    text: str,
    said: Mention,
    candidates: tuple[Candidate, ...],
    store: Store,
    entities: Mapping[EntityId, Entity],
) -> Link:
    """What a place means as somebody said it; what was found there stays behind as candidates."""
    chosen = None
    if said.gold:
        chosen = next((one for one in candidates if one.id == said.gold[0]), None)
        if chosen is None:
            facts = entities[said.gold[0]]
            candidate = Candidate(said.gold[0], facts.title, 1.0, facts.popularity)
            mention = MentionInText(text, said.start, said.end)
            (ranking,) = described(store, [Ranking(mention, (candidate,))], 1)
            chosen = ranking.candidates[0]
        candidates = (chosen, *(one for one in candidates if one.id != chosen.id))
    words = text[said.start : said.end]
    return Link(
        said.start, said.end, words, candidates, chosen, 1.0, probability=float(chosen is not None)
    )
