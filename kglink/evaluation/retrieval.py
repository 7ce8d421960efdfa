"""Retrieval on annotated documents of a store, from the names of things to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import get_args

from kglink.errors import UsageError
from kglink.evaluation.measures.retrieval import RERANKED, RetrievalReport
from kglink.evaluation.rankings import RankedMention, Ranker, rank_mentions
from kglink.evaluation.seen import AUTO, LearntFrom, Mentions, check_annotated, find_learnt
from kglink.records import Document, OnProgress, Progress, Split
from kglink.store import Store


@dataclass(frozen=True, slots=True)
class Question:
    """What is evaluated, and which figures are wanted."""

    docs: tuple[str, ...]
    split: str
    kbs: tuple[str, ...]
    ks: tuple[int, ...]
    counterparts: bool = False
    domains: bool = False
    seen_in: str = AUTO
    candidates: Path | None = None
    """A file whose lists are judged instead of what the workspace's space finds."""

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
    """The splits that documents of a KB are of."""
    return [one for one in get_args(Split) if one and store.count_documents(name, one)]


def evaluate_retrieval(
    store: Store,
    ranker: Ranker,
    question: Question,
    *,
    runs: Sequence[tuple[str, Mentions]] | None = None,
    progress: OnProgress = lambda _: None,
    each: Callable[[RankedMention], None] = lambda mention: None,
) -> RetrievalReport:
    """Rank the candidates of every mention with a known answer, its span given.

    ``runs`` are the mentions that each run behind the space's model learnt from, with its name.
    ``each`` is called for every mention, in the order in which documents are read.
    """
    check_documents(store, question.docs, question.split)
    learnt = find_learnt(store, question.seen_in, question.docs, question.split, runs)
    documents = chain.from_iterable(
        store.documents(name, question.split or None) for name in question.docs
    )
    seen = LearntFrom(learnt, documents) if learnt else None
    report = RetrievalReport(
        question.ks, counterparts=question.counterparts, seen_in=learnt.words if learnt else ()
    )
    for mention in _ranked(store, ranker, question, progress):
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


def _ranked(
    store: Store, ranker: Ranker, question: Question, progress: OnProgress
) -> Iterator[RankedMention]:
    done = 0
    total = sum(store.count_documents(name, question.split or None) for name in question.docs)

    def counted(name: str) -> Iterator[Document]:
        nonlocal done
        for document in store.documents(name, question.split or None):
            yield document
            done += 1
            progress(Progress("documents", done, total))

    for name in question.docs:
        documents = counted(name)
        yield from rank_mentions(
            *(ranker, documents, question.kbs, question.depth),
            docs=name,
            counterparts=store.counterparts if question.counterparts else None,
            entities=store.get_entities if question.domains else None,
        )
