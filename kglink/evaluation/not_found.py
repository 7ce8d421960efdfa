"""Mentions whose gold was found in no KB: something that the KBs lack, which is NIL.

Somebody said what such a mention means, and none of the KBs that its documents link to has it. It
is taken for NIL where the KBs are about such things, by the type of the mention, and no entity of
theirs bears its words: else the gold may be one that cross-references do not lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from kglink.evaluation.annotated import linked_types, merged_texts
from kglink.records import Document, Mention
from kglink.store import Store
from kglink.text.fold import fold

#: A mention's document, start and end.
Place = tuple[str, int, int]


def nil_places(store: Store, docs: str, kbs: Collection[str]) -> frozenset[Place]:
    """The mentions of a source of documents that are NIL because no KB has their golds."""
    surfaces = {
        (document.id, one.start, one.end): one.surface
        for document in store.documents(docs, unresolved=True)
        for one in document.mentions
        if one.gold and not any(gold.kb for gold in one.gold)
    }
    if not surfaces:
        return frozenset()
    documents = list(store.documents(docs))
    types = linked_types(merged_texts(docs, documents), kbs)
    folded = {surface: fold(surface) for surface in surfaces.values()}
    named = {name for kb in kbs for name in store.count_bearers(kb, folded.values())}
    wanted = (
        (document.id, one.start, one.end)
        for document in documents
        for one in document.mentions
        if one.gold is None and one.type in types
    )
    return frozenset(at for at in wanted if at in surfaces and folded[surfaces[at]] not in named)


def with_nil(documents: Iterable[Document], places: Collection[Place]) -> Iterator[Document]:
    """The documents, the mentions at these places NIL."""

    def judged(document: Document, one: Mention) -> Mention:
        return replace(one, gold=()) if (document.id, one.start, one.end) in places else one

    for document in documents:
        mentions = tuple(judged(document, one) for one in document.mentions)
        yield replace(document, mentions=mentions) if mentions != document.mentions else document
