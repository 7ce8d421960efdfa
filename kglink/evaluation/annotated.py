"""Annotated texts that whole answers are judged by: their mentions, and whether these are all.

Records that share one text are one text here, with the mentions of all of them: many data sets have
a record for each mention.

A mention whose gold was found in no KB means something that the KBs lack, which is NIL: where the
KBs are about such things, by the type of the mention, and no entity of theirs bears its words. Else
the gold may be one that cross-references do not lead to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kglink.records import Document, EntityId, Mention
from kglink.store import Store
from kglink.text.fold import fold

#: Texts are annotated in part where this share of the places that bear an annotated surface
#: are not annotated. Of surfaces of the same text it is 2% at most in abstracts that people
#: annotated fully, and about a half where each record marks one mention; of those of other texts up
#: to 9% in sets that are annotated whole, and 34% and more in others.
MOST_UNMARKED = 0.2

#: Fewer places with surfaces that other texts annotate say nothing of a source; nor do surfaces
#: that fewer texts annotate.
_LEAST_PLACES, _SEVERAL = 30, 2

#: So many documents of a source show whether all are annotated whole.
JUDGED_BY = 500

#: Longer texts with a single mention each are hardly ever annotated whole, in words.
MOST_WORDS_OF_ONE = 50

#: A type of mentions is about the entities of KBs where this share of them means one.
LEAST_LINKED = 0.1


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    """A text with the mentions of all records that hold it, in reading order."""

    docs: str
    ids: tuple[str, ...]
    """Of all records, in the order in which they were read; the first names the text."""
    text: str
    mentions: tuple[Mention, ...]

    @property
    def id(self) -> str:
        """The id of its first record."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What the annotation of some texts is like."""

    records: int
    texts: int
    mentions: int
    marked: int
    """Places that bear a surface annotated in the same text, and are annotated."""
    unmarked: int
    """Such places that are not, and lie in no annotated mention."""
    texts_with_several: int
    """Texts with more than one mention."""
    words: int
    """Of all texts."""
    pages: bool = False
    """The texts are pages about entities, and their mentions link to each other."""
    marked_elsewhere: int = 0
    """Places that bear a surface annotated in several others of the texts, and are annotated."""
    unmarked_elsewhere: int = 0
    """Such places that are not, and lie in no annotated mention."""

    @property
    def partial(self) -> str:
        """Why the texts seem to be annotated in part; empty where nothing speaks for it."""
        several = self.texts > 1 or self.words > MOST_WORDS_OF_ONE
        if several and self.mentions and not self.texts_with_several:
            return "no text has more than one mention"
        if self.pages:
            return "the texts are pages that link to each other, and a page links a name once"
        places = self.marked + self.unmarked
        if self.unmarked > MOST_UNMARKED * places:
            return (
                f"of {places:,} places with an annotated surface {self.unmarked:,} are not "
                "annotated themselves"
            )
        places = self.marked_elsewhere + self.unmarked_elsewhere
        if places >= _LEAST_PLACES and self.unmarked_elsewhere > MOST_UNMARKED * places:
            return (
                f"of {places:,} places with a surface that other texts annotate "
                f"{self.unmarked_elsewhere:,} are not annotated"
            )
        return ""


def merged_texts(docs: str, documents: Iterable[Document]) -> list[AnnotatedText]:
    """The texts of documents, in the order of their first records."""
    ids: dict[str, list[str]] = {}
    mentions: dict[str, dict[tuple[int, int], Mention]] = {}
    for document in documents:
        ids.setdefault(document.text, []).append(document.id)
        add_united(mentions.setdefault(document.text, {}), document.mentions)
    return [
        AnnotatedText(docs, tuple(ids[text]), text, tuple(known[place] for place in sorted(known)))
        for text, known in mentions.items()
    ]


def without_golds(text: AnnotatedText, left_out: Callable[[EntityId], bool]) -> AnnotatedText:
    """The text without some golds; a mention that has no other is one that nobody said."""

    def limited(mention: Mention) -> Mention:
        if not mention.gold or not any(map(left_out, mention.gold)):
            return mention
        return replace(mention, gold=tuple(o for o in mention.gold if not left_out(o)) or None)

    return replace(text, mentions=tuple(map(limited, text.mentions)))


def linked_types(texts: Iterable[AnnotatedText], kbs: Collection[str] = ()) -> set[str]:
    """The types of mentions that mean entities of some KBs (none named: of any).

    A type counts where at least `LEAST_LINKED` of its mentions do: the corpus's other types are
    about things that the KBs are not about.
    """
    all_mentions: Counter[str] = Counter()
    linked: Counter[str] = Counter()
    for text in texts:
        for one in text.mentions:
            all_mentions[one.type] += 1
            linked[one.type] += any(not kbs or gold.kb in kbs for gold in one.gold or ())
    return {name for name, count in all_mentions.items() if linked[name] >= LEAST_LINKED * count}


def of_linked_types(
    texts: Sequence[AnnotatedText], kbs: Collection[str]
) -> tuple[list[AnnotatedText], Counter[str]]:
    """The texts with the mentions of `linked_types`, and how many there are of each other type."""
    wanted = linked_types(texts, kbs)
    others = Counter(one.type for text in texts for one in text.mentions if one.type not in wanted)
    if not wanted or not others:
        return list(texts), Counter()
    return [
        replace(text, mentions=tuple(one for one in text.mentions if one.type in wanted))
        for text in texts
    ], others


def annotation_of(texts: Sequence[AnnotatedText]) -> Annotation:
    """Counts of what is annotated, and of what is not though its words are elsewhere."""
    return Annotation(
        records=sum(len(text.ids) for text in texts),
        texts=len(texts),
        mentions=sum(len(text.mentions) for text in texts),
        texts_with_several=sum(len(text.mentions) > 1 for text in texts),
        words=sum(len(text.text.split()) for text in texts),
        pages=_are_pages(texts),
        **_counted(texts),
    )


def is_annotated_whole(docs: str, documents: Iterable[Document]) -> bool:
    """Whether all mentions in the documents of a source are annotated, as the first ones show."""
    return not annotation_of(merged_texts(docs, islice(documents, JUDGED_BY))).partial


def _are_pages(texts: Sequence[AnnotatedText]) -> bool:
    """Whether texts are about the entities that others of them mean, as a wiki's pages are."""
    about = {EntityId(text.docs, one) for text in texts for one in text.ids}
    others = False
    for text in texts:
        own = {EntityId(text.docs, one) for one in text.ids}
        golds = {gold for mention in text.mentions for gold in mention.gold or ()}
        if any(gold.kb != text.docs for gold in golds):
            return False
        others = others or not (golds - own).isdisjoint(about)
    return others


def add_united(known: dict[tuple[int, int], Mention], mentions: Iterable[Mention]) -> None:
    """Add mentions by their places; those of one place are one mention."""
    for mention in mentions:
        place = mention.start, mention.end
        known[place] = _united(known[place], mention) if place in known else mention


def united_mentions(document: Document) -> Iterable[Mention]:
    """The mentions of a document, each place once."""
    known: dict[tuple[int, int], Mention] = {}
    add_united(known, document.mentions)
    return known.values()


def _united(left: Mention, right: Mention) -> Mention:
    """Two records of one mention: it means what any of them says, and NIL where all say so."""
    if left.gold is None or right.gold is None:
        return left if right.gold is None else right
    return replace(left, gold=tuple(dict.fromkeys(left.gold + right.gold)))


#: The pieces of a text at which a surface may begin.
_PIECE = re.compile(r"\w+|\W")
_IN_WORD = re.compile(r"\w")
#: Longer surfaces are not looked for again.
_LONGEST = 100


def _counted(texts: Sequence[AnnotatedText]) -> dict[str, int]:
    """Count the places with a surface that the same text annotates, or others of its source.

    Those are annotated, or lie in or across a mention that is; or they are not. A place counts for
    each surface that it bears. Surfaces that a single other text annotates say nothing: its mention
    may be a mistake. Nor do texts of no named source say anything of each other.
    """
    surfaces = [{text.text[one.start : one.end] for one in text.mentions} for text in texts]
    annotating: Counter[tuple[str, str]] = Counter()
    lengths: dict[str, set[int]] = defaultdict(set)
    for text, own in zip(texts, surfaces, strict=True):
        annotating.update((text.docs, surface) for surface in own)
        for surface in own:
            if (first := _PIECE.match(surface)) and len(surface) <= _LONGEST:
                lengths[first[0]].add(len(surface))
    counts = dict.fromkeys(("marked", "unmarked", "marked_elsewhere", "unmarked_elsewhere"), 0)
    for text, own in zip(texts, surfaces, strict=True):
        covered = bytearray(len(text.text))
        for one in text.mentions:
            covered[one.start : one.end] = b"\1" * (one.end - one.start)
        counts["marked"] += len({(one.start, one.end) for one in text.mentions})
        for piece in _PIECE.finditer(text.text):
            start = piece.start()
            for end in (start + length for length in lengths.get(piece[0], ())):
                surface = text.text[start:end]
                is_own, known = surface in own, annotating[text.docs, surface]
                others = known - is_own if text.docs else 0
                if (is_own or others >= _SEVERAL) and _stands_alone(text.text, start, end):
                    is_marked = covered.find(1, start, end) >= 0
                    counts["unmarked"] += is_own and not is_marked
                    kind = "marked_elsewhere" if is_marked else "unmarked_elsewhere"
                    counts[kind] += others >= _SEVERAL
    return counts


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the words of a place begin and end there."""
    begins = not start or not _IN_WORD.match(text, start - 1)
    return end <= len(text) and begins and not _IN_WORD.match(text, end)


#: A mention's document, start and end.
Place = tuple[str, int, int]


def nil_places(store: Store, docs: str, kbs: Collection[str]) -> frozenset[Place]:
    """The mentions of a source of documents that are NIL because no KB has their golds."""
    documents = list(store.documents(docs))
    types = linked_types(merged_texts(docs, documents), kbs)
    wanted = {
        (document.id, one.start, one.end)
        for document in documents
        for one in united_mentions(document)  # a place of which something is known is not NIL
        if one.gold is None and one.type in types
    }
    folded = {
        at: fold(one.surface)
        for document in (store.documents(docs, unresolved=True) if wanted else ())
        for one in document.mentions
        if one.gold and (at := (document.id, one.start, one.end)) in wanted
    }
    named = {name for kb in kbs for name in store.count_bearers(kb, folded.values())}
    return frozenset(at for at, name in folded.items() if name not in named)


def with_nil(documents: Iterable[Document], places: Collection[Place]) -> Iterator[Document]:
    """The documents, the mentions at these places NIL."""

    def judged(document: Document, one: Mention) -> Mention:
        is_nil = one.gold is None and (document.id, one.start, one.end) in places
        return replace(one, gold=()) if is_nil else one

    for document in documents:
        mentions = tuple(judged(document, one) for one in document.mentions)
        yield replace(document, mentions=mentions) if mentions != document.mentions else document
