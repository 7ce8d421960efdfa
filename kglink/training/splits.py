"""Which documents are learnt from, and which ones a run holds back to choose by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kglink.records import Document
from kglink.store import Store
from kglink.training.recipe import SelectionSection


class Splits(NamedTuple):
    """Which documents of a source serve for what."""

    train: str
    dev: bool
    held_out: float
    seed: int

    def is_held_out(self, document: Document) -> bool:
        """Whether a training document is kept back: by chance, and always the same ones.

        Documents of one title are parts of one text, such as its mentions each in its context;
        a part that is learnt from would tell what the others mean, so they stay together.
        """
        text = document.title or document.id
        digest = hashlib.sha256(f"{self.seed}\0{text}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.held_out * 2**64


def sources_of_documents(store: Store, docs: Sequence[str]) -> list[str]:
    """The KBs whose annotated documents are read: these, or all."""
    return list(docs) or [info.name for info in store.kbs() if info.mentions]


def splits_of(store: Store, name: str, selection: SelectionSection, seed: int) -> Splits:
    """How the documents of a source are divided."""

    def has(split: str) -> bool:
        return next(store.documents(name, split), None) is not None

    train = "train" if has("train") or not has("") else ""
    dev = selection.documents != "held_out" and has("dev")
    held_out = 0.0 if dev or selection.documents == "dev" else selection.held_out
    return Splits(train, dev, held_out, seed)


def held_back_documents(
    store: Store, docs: Sequence[str], selection: SelectionSection, seed: int
) -> Iterator[Document]:
    """The documents that a run with these settings chooses its best epoch by."""
    for name in sources_of_documents(store, docs):
        splits = splits_of(store, name, selection, seed)
        for document in store.documents(name, splits.train):
            if splits.is_held_out(document):
                yield document
        if splits.dev:
            yield from store.documents(name, "dev")
