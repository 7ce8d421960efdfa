"""What a detector learns from: documents in which all mentions are annotated.

Where only some mentions are marked, as in a wiki that links the first one, an unmarked word is
unknown and no counterexample, so such documents are passed over. Mentions of types that hardly
ever mean an entity of the KBs (the chemicals of a corpus whose diseases are linked) are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from kglink.evaluation.annotated import AnnotatedText, annotation_of, linked_types, merged_texts
from kglink.records import Document
from kglink.store import Store
from kglink.training.documents import sources_of_documents, splits_of
from kglink.training.recipe import SelectionSection

#: So many documents tell whether all are annotated whole or in part.
_JUDGED_BY = 500
#: A detector learns from so many mentions at least, and so many more judge it.
LEAST_MENTIONS, LEAST_HELD_OUT = 100, 10
#: A run that trains other things too trains a detector from so many mentions on: one that has
#: learnt from fewer is hardly ever better than the dictionary.
WORTH_MENTIONS = 500


@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text and the places of all its mentions."""

    text: str
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TaggedTexts:
    """The texts of a run; ``passed_over`` says of other documents why they are not used."""

    train: tuple[TaggedText, ...]
    held_out: tuple[TaggedText, ...]
    documents: tuple[str, ...]
    kbs: tuple[str, ...]
    types: tuple[str, ...]
    passed_over: tuple[str, ...]

    def too_few(self, least: int = LEAST_MENTIONS) -> str:
        """Why no detector can be learnt from them; empty where one can."""
        found = [sum(len(one.places) for one in part) for part in (self.train, self.held_out)]
        if found[0] >= least and found[1] >= LEAST_HELD_OUT:
            return ""
        why = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return (
            f"{found[0]:,} mentions to learn from and {found[1]:,} held back in documents that "
            f"are annotated whole; {least} and {LEAST_HELD_OUT} are needed{why}"
        )


def tagged_texts(
    store: Store, docs: Sequence[str], selection: SelectionSection, seed: int
) -> TaggedTexts:
    """The annotated documents of a store, divided as those of the other stages are."""
    parts: tuple[list[TaggedText], list[TaggedText]] = ([], [])
    used: list[str] = []
    passed_over: list[str] = []
    kbs: set[str] = set()
    types: set[str] = set()
    for name in sources_of_documents(store, docs):
        splits = splits_of(store, name, selection, seed)
        sample = list(islice(store.documents(name, splits.train), _JUDGED_BY))
        sample += islice(store.documents(name, "dev"), _JUDGED_BY) if splits.dev else ()
        texts = merged_texts(name, sample)
        wanted = linked_types(texts)
        if partial := annotation_of(texts).partial:
            passed_over.append(f"{name}: {partial}")
        elif not wanted:
            passed_over.append(f"{name}: no mention means an entity of a KB here")
        else:
            used.append(name)
            types |= wanted
            divided: tuple[list[Document], list[Document]] = ([], [])
            for document, held_back in splits.divided(store):
                divided[held_back].append(document)
            for part, documents in zip(parts, divided, strict=True):
                whole = merged_texts(name, documents)
                part += [_tagged(text, wanted) for text in whole]
                for text in whole:
                    golds = [gold for one in text.mentions for gold in one.gold or ()]
                    kbs |= {gold.kb for gold in golds if gold.kb}
    return TaggedTexts(
        tuple(parts[0]),
        tuple(parts[1]),
        tuple(used),
        tuple(sorted(kbs)),
        tuple(sorted(types - {""})),
        tuple(passed_over),
    )


def whole_texts(docs: str, documents: Iterable[Document]) -> list[TaggedText]:
    """The texts of some documents of one source; none where they are annotated in part."""
    texts = merged_texts(docs, documents)
    if annotation_of(texts).partial:
        return []
    wanted = linked_types(texts)
    return [_tagged(text, wanted) for text in texts] if wanted else []


def _tagged(text: AnnotatedText, types: Iterable[str]) -> TaggedText:
    wanted = set(types)
    places = {(one.start, one.end) for one in text.mentions if one.type in wanted}
    return TaggedText(text.text, tuple(sorted(places)))
