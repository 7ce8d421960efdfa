"""Retrieval on annotated documents of a store, and what of them a model has learnt from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import get_args

from kglink.config import AUTO
from kglink.errors import UsageError
from kglink.evaluation.measures.retrieval import RERANKED, RetrievalReport
from kglink.evaluation.rankings import RankedMention, Ranker, rank_mentions
from kglink.records import Document, EntityId, Mention, OnProgress, Progress, Split
from kglink.store import Store
from kglink.text.fold import fold


@dataclass(frozen=True, slots=True)
class Question:
    """What is evaluated, and how: mentions whose places are given, or ``end_to_end`` raw texts."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...] = ()
    ks: tuple[int, ...] = (1,)
    counterparts: bool = False
    domains: bool = False
    seen_in: str = AUTO
    file: Path | None = None
    """A file whose lists or answers are judged instead of what the workspace's space finds."""
    end_to_end: bool = False
    complete: bool | None = None
    """Whether all mentions are annotated; None: as it seems from the annotation."""
    per_kb: bool = True
    """Whether raw texts are linked to each KB alone as well."""

    def __post_init__(self) -> None:
        if not self.ks or not all(isinstance(k, Integral) and k >= 1 for k in self.ks):
            raise UsageError(f"ks = {self.ks}: R@k wants ranks from 1 on", hint="Such as (1, 5).")

    @property
    def depth(self) -> int:
        """How many candidates are ranked."""
        return max(RERANKED, *self.ks)


def judged_split(store: Store, docs: Sequence[str], split: str | None) -> str:
    """The split that is judged; None: dev, or all where no document says of which split it is."""
    if split is not None:
        return split
    named = any(_splits(store, name) for name in docs)
    return "dev" if named else ""


def check_documents(store: Store, docs: Sequence[str], split: str) -> None:
    """Refuse documents that are not there."""
    if split not in get_args(Split):
        raise UsageError(f"unknown split {split!r}", hint="There is: train, dev, test.")
    for name in docs:
        check_annotated(store, name)
        if not store.count_documents(name, split or None):
            there = ", ".join(_splits(store, name)) or "none"
            if others := store.count_documents(name, ""):
                there += f"; {others:,} of its documents are of none"
            raise UsageError(
                f"{name!r} has no documents in the split {split!r}",
                hint=f'Splits that it has: {there}. --split "" takes all documents.',
            )


def _splits(store: Store, name: str) -> list[str]:
    return [one for one in get_args(Split) if one and store.count_documents(name, one)]


def evaluate_retrieval(
    store: Store,
    ranker: Ranker,
    question: Question,
    *,
    least: int = 0,
    runs: Sequence[tuple[str, Mentions]] | None = None,
    progress: OnProgress = lambda _: None,
    each: Callable[[RankedMention], None] = lambda mention: None,
) -> RetrievalReport:
    """Rank the candidates of every mention with a known answer, its span given.

    ``least`` candidates are looked at in any case, whichever ranks are asked for.
    ``runs`` are the mentions that each run behind the space's model learnt from, with its name.
    ``each`` is called for every mention, in the order in which documents are read.
    """
    seen = learnt_from(store, question, runs)
    report = RetrievalReport(
        question.ks, counterparts=question.counterparts, seen_in=seen.words if seen else ()
    )
    done = 0
    total = sum(store.count_documents(name, question.split or None) for name in question.docs)

    def counted(name: str) -> Iterator[Document]:
        nonlocal done
        for document in store.documents(name, question.split or None):
            yield document
            done += 1
            progress(Progress("documents", done, total))

    for name in question.docs:
        for mention in rank_mentions(
            *(ranker, counted(name), question.kbs, max(question.depth, least)),
            docs=name,
            counterparts=store.counterparts if question.counterparts else None,
            entities=store.get_entities if question.domains else None,
        ):
            report.add_to_slices(
                mention,
                is_seen=seen is not None and seen.has_seen(mention.surface),
                is_seen_entity=seen is not None and seen.times(mention.gold) > 0,
            )
            each(mention)
    if not report.mentions:
        raise UsageError(
            f"no mention of {', '.join(question.docs)} has its gold in {' or '.join(question.kbs)}",
            hint="Golds are found when documents are added: add the KBs first, name them with "
            "--links-to, and say with --resolve how entities are named: key, xref or title.",
        )
    return report


#: Reads mentions, a page of documents at a time.
Mentions = Callable[[], Iterator[Mention]]


@dataclass(frozen=True, slots=True)
class LearntMentions:
    """Mentions that were learnt from; ``words`` says which, in the terms of ``--seen-in``."""

    words: tuple[str, ...]
    parts: tuple[Mentions, ...]
    """The mentions of each run, of some splits, and of memory, which may be the same ones."""


class LearntFrom:
    """What of the evaluated mentions was learnt from: their surfaces, and their golds how often."""

    def __init__(self, learnt: LearntMentions, evaluated: Iterable[Document]) -> None:
        self.words = learnt.words
        golds: set[EntityId] = set()
        wanted: set[str] = set()
        for document in evaluated:
            for mention in document.mentions:
                wanted.add(folded(mention.surface))
                golds.update(mention.gold or ())
        self._times: Counter[EntityId] = Counter()
        self._surfaces: set[str] = set()
        for mentions in learnt.parts:
            times: Counter[EntityId] = Counter()
            for mention in mentions():
                times.update(golds.intersection(mention.gold or ()))
                if (surface := folded(mention.surface)) in wanted:
                    self._surfaces.add(surface)
            self._times |= times  # the larger count: parts may hold the same mentions

    def has_seen(self, surface: str) -> bool:
        """Whether a surface was learnt from."""
        return folded(surface) in self._surfaces

    def times(self, golds: Iterable[EntityId]) -> int:
        """How many mentions that were learnt from mean one of these entities."""
        return max((self._times[gold] for gold in golds), default=0)


def learnt_from(
    store: Store, question: Question, runs: Sequence[tuple[str, Mentions]] | None
) -> LearntFrom | None:
    """What of the evaluated mentions was learnt from, as `find_learnt` has it."""
    learnt = find_learnt(store, question.seen_in, question.docs, question.split, runs)
    documents = (store.documents(name, question.split or None) for name in question.docs)
    return LearntFrom(learnt, chain.from_iterable(documents)) if learnt else None


def folded(surface: str) -> str:
    """What makes two surfaces the same."""
    return fold(surface) or surface


def find_learnt(
    store: Store,
    seen_in: str,
    docs: Sequence[str],
    split: str,
    runs: Sequence[tuple[str, Mentions]] | None = None,
) -> LearntMentions | None:
    """What ``--seen-in`` names; None for nothing, or where ``auto`` finds nothing.

    ``runs`` are what each run behind the space's model learnt from; None: the model has no run.
    """
    if seen_in == AUTO:
        if runs is not None:
            some = [(f"run {name}", mentions) for name, mentions in runs if next(mentions(), None)]
            learnt = LearntMentions(tuple(name for name, _ in some), tuple(own for _, own in some))
        else:  # the split train of the documents, where it is not what is evaluated
            others = docs if split not in ("", "train") else ()
            trained = [(name, "train") for name in others if store.count_documents(name, "train")]
            learnt = _of_splits(store, trained)
        # What `kglink learn` reads of the sources that memory has learnt from.
        annotated = {info.name for info in store.kbs() if info.mentions}
        names = [_read_name(store, one) for one in store.memory_sources() if one in annotated]
        other = _of_splits(store, names)
        if not set(other.words) <= set(learnt.words):
            words = dict.fromkeys((*learnt.words, *other.words))
            learnt = LearntMentions(tuple(words), learnt.parts + other.parts)
    else:
        names = [_read_name(store, text.strip()) for text in seen_in.split(",") if text.strip()]
        learnt = _of_splits(store, names)
    return learnt if learnt.words else None


def check_annotated(store: Store, name: str) -> None:
    """Refuse a KB that has no annotated documents."""
    if not store.kb(name).mentions:
        annotated = [info.name for info in store.kbs() if info.mentions]
        raise UsageError(
            f"no mention of {name!r} is annotated",
            hint=f"Annotated documents: {', '.join(annotated) or 'there are none yet'}. "
            f"`kglink add-kb {name} DUMP --set documents=400` makes documents of a wiki's pages.",
        )


def _of_splits(store: Store, named: Sequence[tuple[str, str | None]]) -> LearntMentions:
    words = tuple(name if split is None else f"{name}:{split}" for name, split in named)

    def mentions() -> Iterator[Mention]:
        documents = chain.from_iterable(store.documents(name, split) for name, split in named)
        return (one for document in documents for one in document.mentions if one.gold)

    return LearntMentions(words, (mentions,) if named else ())


def _read_name(store: Store, text: str) -> tuple[str, str | None]:
    """``NAME:SPLIT``; a name alone is the split train, or all documents where none is of it."""
    name, colon, split = text.partition(":")
    check_annotated(store, name)
    if not colon:
        return name, "train" if store.count_documents(name, "train") else None
    if split not in get_args(Split) or not store.count_documents(name, split):
        raise UsageError(
            f"{name!r} has no documents in the split {split!r}",
            hint=f"--seen-in {name} takes its split train, or all of its documents.",
        )
    return name, split
