"""Documents that a run learns from, those that it holds back, and what earlier runs learnt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kglink.evaluation.annotated import nil_places, with_nil
from kglink.evaluation.retrieval import Mentions
from kglink.records import Document, Mention
from kglink.store import Store
from kglink.training.recipe import SelectionSection
from kglink.training.run import DATA, DATA_FILE, read_settings, run_of_model

#: Most runs to follow back, each begun with the next one's model.
_MOST_RUNS = 16


class Splits(NamedTuple):
    """Which documents of a source are for training and which for choosing the best epoch."""

    source: str
    train: str
    dev: bool
    limit: int
    """Training documents whose hash is below it are held out."""

    def divided(self, store: Store) -> Iterator[tuple[Document, bool]]:
        """Each document of the source, and whether it is held back from learning."""
        for document in store.documents(self.source, self.train):
            yield document, _hash(document) < self.limit
        if self.dev:
            for document in store.documents(self.source, "dev"):
                yield document, True


def _hash(document: Document) -> int:
    """A number that is always the same for a text, whatever the seed of a run.

    So no run is judged by documents that another one has learnt from, which it may go on from.
    Documents of one title are parts of one text, such as its mentions each in its context;
    a part that is learnt from would tell what the others mean, so they stay together.
    """
    text = document.title or document.id
    return int.from_bytes(hashlib.sha256(f"0\0{text}".encode()).digest()[:8], "big")


def sources_of_documents(store: Store, docs: Sequence[str]) -> list[str]:
    """The KBs whose documents are read: these, or all with annotated documents."""
    return list(dict.fromkeys(docs)) or [info.name for info in store.kbs() if info.mentions]


def splits_of(store: Store, name: str, selection: SelectionSection) -> Splits:
    """Divide the documents of a source.

    A share of the training documents is held out where there are none to choose by: of two
    annotated texts one at least, and never all.
    """
    has = partial(store.count_documents, name)
    train = "train" if has("train") or not has("") else ""
    dev = selection.documents != "held_out" and bool(has("dev"))
    limit = 0
    if not dev and selection.documents != "dev" and selection.held_out:
        limit = int(selection.held_out * 2**64)
        lowest, highest = 2**64, -1
        for document in store.documents(name, train):
            if any(mention.gold for mention in document.mentions):
                value = _hash(document)
                lowest, highest = min(lowest, value), max(highest, value)
                if lowest < limit <= highest:
                    break
        if highest >= 0:  # it is moved until annotated texts are on both sides of it
            limit = min(max(limit, lowest + 1), highest)
    return Splits(name, train, dev, limit)


def held_back_documents(
    store: Store, docs: Sequence[str], selection: SelectionSection, kbs: Sequence[str]
) -> Iterator[Document]:
    """The documents by which a run with these settings chooses its best epoch.

    Mentions whose golds these KBs do not have are NIL, as `kglink.evaluation.annotated` tells.
    """
    for name in sources_of_documents(store, docs):
        divided = splits_of(store, name, selection).divided(store)
        chosen = (document for document, held_back in divided if held_back)
        yield from with_nil(chosen, nil_places(store, name, kbs))


def mentions_of_runs(store: Store, run: Path | None) -> list[tuple[str, Mentions]]:
    """Name and mentions of a run, then of the runs whose models it started from.

    The documents are read as the store holds them now.
    """
    found: list[tuple[str, Mentions]] = []
    while run is not None and len(found) < _MOST_RUNS:
        found.append((run.name, partial(_mentions_of_run, store, run)))
        base = Path(read_settings(run).recipe.model.base).expanduser()
        run = run_of_model(Path(), str(base))
    return found


def _mentions_of_run(store: Store, run: Path) -> Iterator[Mention]:
    """The mentions that one run learnt from."""
    settings = read_settings(run)
    # Stage S learns from those of source KBs, T from those of target KBs, and O from none.
    sides = {"S": settings.source_kbs, "T": settings.target_kbs}
    kbs = {kb for letter, side in sides.items() if letter in settings.sources for kb in side}
    facts = run / DATA / DATA_FILE
    if not kbs or not facts.is_file():
        return
    here = {info.name for info in store.kbs()}
    for one in json.loads(facts.read_text(encoding="utf-8"))["documents"]:
        if one["documents"] not in here or not one["train"]:
            continue
        splits = splits_of(store, one["documents"], settings.recipe.selection)
        for document, held_back in splits.divided(store):
            if not held_back:
                for mention in document.mentions:
                    if any(gold.kb in kbs for gold in mention.gold or ()):
                        yield mention
