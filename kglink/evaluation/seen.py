"""Which surfaces a model has seen: those of the mentions that it, or somebody, learnt from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import get_args

from kglink.errors import UnknownNameError, UsageError
from kglink.records import Document, Mention, Split
from kglink.store import Store
from kglink.text.fold import fold
from kglink.training.data import DATA_FACTS
from kglink.training.run import DATA, SETTINGS, RunSettings, read_settings
from kglink.training.splits import splits_of

#: ``--seen-in auto``: what the space's model was trained on, or the split train of the documents.
AUTO = "auto"
#: Runs that began with one another's models are followed so far back.
_MOST_RUNS = 16


@dataclass(frozen=True, slots=True)
class Learnt:
    """Mentions that were learnt from; ``words`` says which, in the terms of ``--seen-in``."""

    words: tuple[str, ...]
    mentions: Callable[[], Iterator[Mention]]
    """All of them, a page of documents at a time."""


def seen_surfaces(learnt: Learnt, evaluated: Iterable[Document]) -> frozenset[str]:
    """The folded surfaces of evaluated mentions that were learnt from."""
    wanted = {
        folded(mention.surface)
        for document in evaluated
        for mention in document.mentions
        if mention.gold
    }
    return frozenset(
        surface for mention in learnt.mentions() if (surface := folded(mention.surface)) in wanted
    )


def folded(surface: str) -> str:
    """What makes two surfaces the same."""
    return fold(surface) or surface


def find_learnt(
    store: Store, seen_in: str, docs: Sequence[str], split: str, run: Path | None
) -> Learnt | None:
    """What ``--seen-in`` names; None for nothing, or where ``auto`` finds nothing."""
    if seen_in == AUTO:
        return _of_run(store, run) if run is not None else _of_train(store, docs, split)
    named = [_read_name(store, text.strip()) for text in seen_in.split(",") if text.strip()]
    return _of_splits(store, named) if named else None


def check_annotated(store: Store, name: str) -> None:
    """Refuse a KB that has no annotated documents."""
    if not store.kb(name).mentions:
        annotated = [info.name for info in store.kbs() if info.mentions]
        raise UnknownNameError("source of annotated documents", name, annotated)


def run_of_model(workspace: Path, model: str) -> Path | None:
    """The folder of the run that made a model, by where the space says that the model lies."""
    run = (workspace / model).parent
    return run if model and (run / SETTINGS).is_file() else None


def _of_run(store: Store, run: Path) -> Learnt | None:
    """What a run, and the runs whose model it began with, learnt from as the store holds it now."""
    parts: list[tuple[str, Callable[[], Iterator[Mention]]]] = []
    behind: Path | None = run
    while behind is not None and len(parts) < _MOST_RUNS:
        told = read_settings(behind)
        parts.append((behind.name, partial(_mentions_of_run, store, behind, told)))
        behind = _run_behind(told)
    parts = [(name, mentions) for name, mentions in parts if next(mentions(), None)]
    if not parts:
        return None
    words = tuple(f"run {name}" for name, _ in parts)
    return Learnt(words, lambda: chain.from_iterable(mentions() for _, mentions in parts))


def _run_behind(told: RunSettings) -> Path | None:
    """The run whose model another one began with."""
    folder = Path(told.recipe.model.base).expanduser().parent
    return folder if (folder / SETTINGS).is_file() else None


def _mentions_of_run(store: Store, run: Path, told: RunSettings) -> Iterator[Mention]:
    """The mentions that a run itself learnt from."""
    # Stage S learns from those of source KBs, T from those of target KBs, and O from none.
    sides = {"S": told.source_kbs, "T": told.target_kbs}
    kbs = frozenset(kb for letter, side in sides.items() if letter in told.sources for kb in side)
    facts = run / DATA / DATA_FACTS
    if not kbs or not facts.is_file():
        return
    here = {info.name for info in store.kbs()}
    for one in json.loads(facts.read_text(encoding="utf-8"))["documents"]:
        if one["documents"] in here and one["train"]:
            splits = splits_of(store, one["documents"], told.recipe.selection, told.seed)
            learnt = store.documents(one["documents"], splits.train)
            yield from _annotated((one for one in learnt if not splits.is_held_out(one)), kbs)


def _annotated(
    documents: Iterable[Document], kbs: frozenset[str] | None = None
) -> Iterator[Mention]:
    """The mentions with a gold, in one of these KBs or in any."""
    for document in documents:
        for mention in document.mentions:
            golds = mention.gold or ()
            if golds and (kbs is None or any(one.kb in kbs for one in golds)):
                yield mention


def _of_train(store: Store, docs: Sequence[str], split: str) -> Learnt | None:
    """The split train of the documents, where it is not what is evaluated."""
    if split in ("", "train"):
        return None
    return _of_splits(store, [(name, "train") for name in docs if _has(store, name, "train")])


def _of_splits(store: Store, named: Sequence[tuple[str, str | None]]) -> Learnt | None:
    words = tuple(name if split is None else f"{name}:{split}" for name, split in named)

    def mentions() -> Iterator[Mention]:
        return chain.from_iterable(
            _annotated(store.documents(name, split)) for name, split in named
        )

    return Learnt(words, mentions) if named else None


def _read_name(store: Store, text: str) -> tuple[str, str | None]:
    """``NAME:SPLIT``; a name alone is the split train, or all documents where none is of it."""
    name, colon, split = text.partition(":")
    check_annotated(store, name)
    if not colon:
        return name, "train" if _has(store, name, "train") else None
    if split not in get_args(Split) or not _has(store, name, split):
        raise UsageError(
            f"{name!r} has no documents in the split {split!r}",
            hint=f"--seen-in {name} takes its split train, or all of its documents.",
        )
    return name, split


def _has(store: Store, name: str, split: str) -> bool:
    return next(store.documents(name, split), None) is not None
