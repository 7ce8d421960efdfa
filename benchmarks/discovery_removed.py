"""What is found of things that the KBs no longer have: a tenth of the golds is taken out of them.

    python benchmarks/discovery_removed.py WORKSPACE DOCS... [--train DOCS] [--seeds 3]
        [--share 0.1] [--most 800]

For each seed a copy of the workspace loses a share of the entities that the documents mean, each
with its counterparts: all golds of a mention go, or none. Mentions of these, and such as meant
nothing before, are NIL. Places are given. Thresholding alone: a mention is NIL where its best
candidate is too improbable, and each surface is a thing of its own. Discovered: what `kglink
discover --least L` finds, beside the same mentions with a thing for each surface. ARI is of the
mentions that were found, against what they mean; what is known and was found by mistake counts.
With --train memory learns from such documents, and the space is fitted to them, after the loss.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from kglink import Workspace
from kglink.evaluation.annotated import Place, nil_places
from kglink.evaluation.measures.clusters import adjusted_rand_index
from kglink.linking.discovery import discoveries, told_elsewhere, unknown_mentions
from kglink.records import Document, EntityId, Span, TextInput
from kglink.text.fold import fold
from kglink.workspace.folder import LEAST_UNKNOWN

#: Least probability that no KB has it: the default of `kglink discover`, and lower ones.
LEAST = (LEAST_UNKNOWN, 0.3, 0.0)
#: By place what a mention means, as the documents say it.
Meant = Mapping[Place, frozenset[EntityId]]


def main() -> None:
    """Print some rows for each source of documents: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--train", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--most", type=int, default=800, help="mentions of each source, about")
    asked = parser.parse_args()
    for docs in asked.docs:
        found: dict[str, list[list[float]]] = defaultdict(list)
        for seed in range(asked.seeds):
            with tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch) / "workspace"
                shutil.copytree(asked.workspace, copy)
                with Workspace.open(copy) as workspace:
                    rows = measured(workspace, docs, asked.train, asked.share, asked.most, seed)
                    for name, figures in rows:
                        found[name].append(figures)
                        print(docs, seed, name, [round(one, 3) for one in figures], flush=True)
        for name, runs in found.items():
            cells = [
                f"{statistics.mean(values):.3f}"
                + (f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else "")
                for values in zip(*runs, strict=True)
            ]
            print(f"| {docs} | {name} | {' | '.join(cells)} |", flush=True)


def measured(
    workspace: Workspace, docs: str, train: str, share: float, most: int, seed: int
) -> Iterator[tuple[str, list[float]]]:
    """The name and the figures of each row: mentions that are NIL, P, R, F1, things, ARI."""
    store, kbs = workspace.store, workspace.space().kbs()
    documents = some(list(store.documents(docs)), most)
    nil = nil_places(store, docs, kbs)
    golds = {
        (one.id, mention.start, mention.end): frozenset(mention.gold)
        for one in documents
        for mention in one.mentions
        if mention.gold is not None
    }
    chosen = {one.id for one in documents}
    codes: Meant = {
        (one.id, mention.start, mention.end): frozenset(mention.gold)
        for one in store.documents(docs, unresolved=True)
        if one.id in chosen
        for mention in one.mentions
        if mention.gold
    }
    taken = taken_out(golds.values(), share, seed)
    for kb in kbs:
        store.remove_entities(kb, [one.key for one in taken if one.kb == kb])
    workspace.build()
    if train:
        workspace.learn(train)
        workspace.fit(train)
    judged = golds.keys() | (nil & codes.keys())
    unknown = {at for at in judged if at in nil or golds[at] <= taken}
    inputs = [
        TextInput(one.id, one.text, tuple(Span(at.start, at.end) for at in one.mentions if
                  (one.id, at.start, at.end) in judged))
        for one in documents
    ]  # fmt: skip
    links = list(workspace.link([one for one in inputs if one.spans]))
    improbable: dict[Place, Hashable] = {
        (document.id, link.start, link.end): fold(link.surface)
        for document in links
        for link in document.links
        if link.chosen is None
    }
    yield "thresholding alone", figures(improbable, unknown, codes)
    for least in LEAST:
        mentions = [one for document in links for one in unknown_mentions(document, least)]
        things = {
            fold(name): one.id
            for one in discoveries(mentions, workspace.encoder.encode, {})
            for name in one.names
        }
        discovered: dict[Place, Hashable] = {
            (one.document, one.start, one.end): things[fold(one.name)]
            for one in told_elsewhere(mentions)
        }
        same_words: dict[Place, Hashable] = {at: improbable[at] for at in discovered}
        yield f"least {least}, by their words", figures(same_words, unknown, codes)
        yield f"least {least}, discovered", figures(discovered, unknown, codes)


def some(documents: Sequence[Document], most: int) -> list[Document]:
    """Whole documents from all places of a source, with about so many judged mentions."""
    wholes: dict[str, list[Document]] = defaultdict(list)
    for one in documents:
        wholes[one.whole].append(one)
    count = sum(mention.gold is not None for one in documents for mention in one.mentions)
    step = max(1, round(count / most))
    return [one for own in list(wholes.values())[::step] for one in own]


def taken_out(
    golds: Collection[frozenset[EntityId]], share: float, seed: int
) -> frozenset[EntityId]:
    """About a share of all golds; those of one mention stay together."""
    together: dict[EntityId, set[EntityId]] = {}
    for gold in golds:
        joined = set(gold).union(*(together.get(one, ()) for one in gold))
        for one in joined:
            together[one] = joined
    groups = sorted({tuple(sorted(group)) for group in together.values()})
    taken: set[EntityId] = set()
    for at in np.random.default_rng(seed).permutation(len(groups)):
        if len(taken) < share * len(together):
            taken.update(groups[at])
    return frozenset(taken)


def figures(
    found: Mapping[Place, Hashable], unknown: Collection[Place], codes: Meant
) -> list[float]:
    """How many mentions are NIL; P, R and F1 of those found; things found; ARI of what is found."""
    right = sum(at in unknown for at in found)
    precision, recall = right / max(1, len(found)), right / max(1, len(unknown))
    places = [at for at in found if at in codes]
    return [
        len(unknown),
        precision,
        recall,
        2 * right / max(1, len(found) + len(unknown)),
        len(set(found.values())),
        adjusted_rand_index([found[at] for at in places], [codes[at] for at in places]),
    ]


if __name__ == "__main__":
    main()
