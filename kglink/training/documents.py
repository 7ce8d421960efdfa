"""Documents that a run learns from, those that it holds back, and what earlier runs learnt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kglink.records import Document, Mention
from kglink.store import Store
from kglink.training.recipe import SelectionSection
from kglink.training.run import DATA, DATA_FACTS, SETTINGS, read_settings

#: Runs that began with one another's models are followed so far back.
_MOST_RUNS = 16


class Splits(NamedTuple):
    """Which documents of a source are for training and which for choosing the best epoch."""

    train: str
    dev: bool
    held_out: float
    seed: int

    def is_held_out(self, document: Document) -> bool:
        """Whether a training document is held out: chosen by a hash, so always the same ones.

        Documents of one title are parts of one text, such as its mentions each in its context;
        a part that is learnt from would tell what the others mean, so they stay together.
        """
        text = document.title or document.id
        digest = hashlib.sha256(f"{self.seed}\0{text}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.held_out * 2**64


def sources_of_documents(store: Store, docs: Sequence[str]) -> list[str]:
    """The KBs whose documents are read: these, or all with annotated documents."""
    return list(docs) or [info.name for info in store.kbs() if info.mentions]


def splits_of(store: Store, name: str, selection: SelectionSection, seed: int) -> Splits:
    """Divide the documents of a source."""

    def has(split: str) -> bool:
        return next(store.documents(name, split), None) is not None

    train = "train" if has("train") or not has("") else ""
    dev = selection.documents != "held_out" and has("dev")
    held_out = 0.0 if dev or selection.documents == "dev" else selection.held_out
    return Splits(train, dev, held_out, seed)


def held_back_documents(
    store: Store, docs: Sequence[str], selection: SelectionSection, seed: int
) -> Iterator[Document]:
    """The documents by which a run with these settings chooses its best epoch."""
    for name in sources_of_documents(store, docs):
        splits = splits_of(store, name, selection, seed)
        for document in store.documents(name, splits.train):
            if splits.is_held_out(document):
                yield document
        if splits.dev:
            yield from store.documents(name, "dev")


def mentions_of_runs(store: Store, run: Path) -> list[tuple[str, Callable[[], Iterator[Mention]]]]:
    """Name and mentions of a run, then of the runs whose models it started from.

    The documents are read as the store holds them now.
    """
    found: list[tuple[str, Callable[[], Iterator[Mention]]]] = []
    while len(found) < _MOST_RUNS and (run / SETTINGS).is_file():
        found.append((run.name, partial(_mentions_of_run, store, run)))
        run = Path(read_settings(run).recipe.model.base).expanduser().parent
    return found


def _mentions_of_run(store: Store, run: Path) -> Iterator[Mention]:
    """The mentions that one run learnt from."""
    told = read_settings(run)
    # Stage S learns from those of source KBs, T from those of target KBs, and O from none.
    sides = {"S": told.source_kbs, "T": told.target_kbs}
    kbs = {kb for letter, side in sides.items() if letter in told.sources for kb in side}
    facts = run / DATA / DATA_FACTS
    if not kbs or not facts.is_file():
        return
    here = {info.name for info in store.kbs()}
    for one in json.loads(facts.read_text(encoding="utf-8"))["documents"]:
        if one["documents"] not in here or not one["train"]:
            continue
        splits = splits_of(store, one["documents"], told.recipe.selection, told.seed)
        for document in store.documents(one["documents"], splits.train):
            if not splits.is_held_out(document):
                for mention in document.mentions:
                    if any(gold.kb in kbs for gold in mention.gold or ()):
                        yield mention
