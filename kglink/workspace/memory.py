"""Learning what surfaces mean, and fitting how evidence is weighed, without any training."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import Document, OnProgress
from kglink.workspace.named import named

#: So many documents tell whether all are annotated whole or in part.
_JUDGED_BY = 500

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring
    from kglink.store.memory import Unmarked
    from kglink.workspace.opened import Opened


def learn(opened: Opened, docs: str, *, split: str = "") -> int:
    """Remember what surfaces mean in annotated documents; returns how many surfaces they tell.

    Of no split: those of the split train, or all where there is none. Learning from the same
    documents again takes the place of what was remembered of them.

    >>> workspace.learn("notes")
    1
    """
    found = opened.store.learn(
        docs,
        _documents(opened, docs, split),
        _unmarked(opened, docs, split),
        kbs=opened.store.kb(docs).links_to,
    )
    if not found:
        if others := [one for one in opened.store.memory_sources() if one != docs]:
            raise UsageError(
                f"{docs!r} tells nothing that memory does not know from {', '.join(others)}",
                hint="A document that was learnt as one of another source counts once. If these "
                "are other texts, their golds were not found: see --links-to and --resolve.",
            )
        raise UsageError(
            f"{docs!r} says of no mention what it means",
            hint="Golds are found when documents are added: add the KBs first, name them with "
            "--links-to, and say with --resolve how entities are named: key, xref or title.",
        )
    return found


def forget(opened: Opened, docs: str) -> None:
    """Forget what surfaces meant in the documents of a KB."""
    opened.store.forget(docs)


def fit(
    opened: Opened,
    docs: str | Sequence[str],
    *,
    split: str = "",
    progress: OnProgress = lambda _: None,
) -> Scoring:
    """Fit how the space weighs evidence to annotated documents; nothing is trained.

    What memory has learnt from these documents does not count while they are judged. Mentions
    whose golds no KB has are NIL, as `kglink.evaluation.not_found` tells.
    """
    from kglink.workspace.fitting import is_remembered

    names = named(docs)
    documents = judged_documents(opened, names, split)
    remembered = is_remembered(opened.store, names)
    return fit_scoring(opened, documents, remembered=remembered, progress=progress)


def fit_scoring(
    opened: Opened,
    documents: Iterable[Document],
    *,
    remembered: bool = False,
    progress: OnProgress = lambda _: None,
) -> Scoring:
    """Fit how the space weighs evidence, on mentions with known answers.

    They must not be those that the space's model was trained on: it knows these too well.
    ``remembered``: memory was learnt from these documents. What was fitted is kept beside the
    space, for as long as it has this model.
    """
    from kglink.workspace.fitting import fit_space

    parts = (opened.space(), opened.encoder, opened.settings.link, opened.store, opened.registry)
    return fit_space(*parts, documents, progress, remembered=remembered).scoring


def judged_documents(opened: Opened, names: Sequence[str], split: str) -> list[Document]:
    """The documents of some sources; mentions whose golds no KB of the space has are NIL."""
    from kglink.evaluation.not_found import nil_places, with_nil

    kbs = opened.space().kbs()
    return [
        one
        for name in names
        for one in with_nil(_documents(opened, name, split), nil_places(opened.store, name, kbs))
    ]


def _unmarked(opened: Opened, name: str, split: str) -> Unmarked:
    """The names of KBs that stand in documents and are not annotated there.

    Nothing, where the documents are annotated in part: what is not marked is then unknown.
    """
    from kglink.evaluation.annotated import annotation_of, merged_texts
    from kglink.linking.detect import proposals
    from kglink.workspace.build import build_if_stale
    from kglink.workspace.detectors import without_auto
    from kglink.workspace.linker import detectors_of

    sample = list(islice(_documents(opened, name, split), _JUDGED_BY))
    if annotation_of(merged_texts(name, sample)).partial:
        return lambda document: ()
    build_if_stale(opened)
    space, link = opened.space(), without_auto(opened.settings.link)
    detectors = detectors_of(space, space.kbs(), link, opened.store, opened.registry)

    def unmarked(document: Document) -> Iterator[str]:
        for span in proposals(document.text, detectors):
            marked = (one for one in document.mentions if one.start < span.end)
            if not any(span.start < one.end for one in marked):
                yield document.text[span.start : span.end]

    return unmarked


def _documents(opened: Opened, name: str, split: str) -> Iterator[Document]:
    """The documents of a split; of none named those to train with, or all."""
    from kglink.evaluation.seen import check_annotated

    store = opened.store
    if Path(name).exists() and name not in (info.name for info in store.kbs()):
        raise UsageError(
            f"{name!r} is a file, and no name of a KB of annotated documents",
            hint=f"Add it first: `kglink add-kb NAME {shlex.quote(name)} --links-to KB`; its NAME "
            "is then what is learnt from.",
        )
    check_annotated(store, name)
    if not split and next(store.documents(name, "train"), None) is not None:
        split = "train"
    return store.documents(name, split or None)
