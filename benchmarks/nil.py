"""Mentions that mean nothing in the KBs: NIL's F1 and how sure answers are, fitted and not.

    python benchmarks/nil.py WORKSPACE TRAIN=DEV... [--most 1500]

The workspace is one of `benchmarks/evidence.py --keep`. What is fitted and learnt is of TRAIN, the
figures are of DEV, mentions given, about so many of each. A mention is NIL where the documents say
so, or where their gold is in no KB (`kglink.evaluation.annotated`). An answer in a KB that has
nothing annotated for a mention of something is judged by nobody and left out.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence

from kglink import Workspace
from kglink.evaluation.annotated import nil_places, with_nil
from kglink.evaluation.measures.end_to_end import Reliability
from kglink.linking.fit import fit_rankings, judged_rankings
from kglink.linking.memory import Memory
from kglink.linking.scoring import SCORING_FILE, write_scoring
from kglink.records import Document, Span, TextInput


def main() -> None:
    """Print a row for each pair of documents and each way of being prepared for them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace")
    parser.add_argument("pairs", nargs="+", metavar="TRAIN=DEV")
    parser.add_argument("--most", type=int, default=1500)
    asked = parser.parse_args()
    with Workspace.open(asked.workspace) as workspace:
        for train, dev in (pair.split("=") for pair in asked.pairs):
            for name in workspace.store.memory_sources():
                workspace.forget(name)
            for learnt in (False, True):
                if learnt:
                    workspace.learn(train)
                kept = workspace.space().folder.path / SCORING_FILE
                kept.unlink(missing_ok=True)
                judge(workspace, dev, asked.most, "learnt" if learnt else "as it comes")
                fit(workspace, train, asked.most, learnt=learnt)
                judge(workspace, dev, asked.most, "learnt, fitted" if learnt else "fitted")
                kept.unlink()


def some(workspace: Workspace, docs: str, most: int) -> list[Document]:
    """Whole documents from all places of a corpus, with about so many judged mentions."""
    places = nil_places(workspace.store, docs, workspace.space().kbs())
    wholes: dict[str, list[Document]] = defaultdict(list)
    for one in with_nil(workspace.store.documents(docs), places):
        wholes[one.whole].append(one)
    count = sum(len(list(judged(one))) for own in wholes.values() for one in own)
    step = max(1, round(count / most))
    return [one for own in list(wholes.values())[::step] for one in own]


def judged(document: Document) -> Iterator[Span]:
    """The mentions of which somebody said what they mean."""
    return (Span(one.start, one.end) for one in document.mentions if one.gold is not None)


def fit(workspace: Workspace, train: str, most: int, *, learnt: bool) -> None:
    """What `kglink fit` does, but for the judge of spans, which are given here."""
    space, store = workspace.space(), workspace.store
    search = workspace.link_setup().changed(found_by="all").search(scoring="default")

    def memory(part: Sequence[Document]) -> Memory | None:
        return store.memory_without(part) if learnt else store

    rankings = judged_rankings(search, some(workspace, train, most), space.kbs(), memory)
    scoring = fit_rankings(rankings, search.scoring)
    write_scoring(space.folder.path, workspace.encoder.info.fingerprint, scoring)


def judge(workspace: Workspace, dev: str, most: int, name: str) -> None:
    """One row."""
    documents = [one for one in some(workspace, dev, most) if any(judged(one))]
    golds = {
        (one.id, mention.start, mention.end): set(mention.gold)
        for one in documents
        for mention in one.mentions
        if mention.gold is not None
    }
    calibration, of_nil = Reliability(), Reliability()
    counts = {"right": 0, "wrong": 0, "missed": 0}
    inputs = [TextInput(one.id, one.text, tuple(judged(one))) for one in documents]
    for document in workspace.link(inputs):
        for link in document.links:
            gold = golds[document.id, link.start, link.end]
            if link.chosen is None:
                counts["wrong" if gold else "right"] += 1
                of_nil.add(link.confidence, right=not gold)
            elif not gold:
                counts["missed"] += 1
            if link.chosen and gold and all(one.kb != link.chosen.id.kb for one in gold):
                continue
            calibration.add(
                link.confidence, right=link.chosen.id in gold if link.chosen else not gold
            )
    found, meant = counts["right"] + counts["wrong"], counts["right"] + counts["missed"]
    precision, recall = counts["right"] / max(1, found), counts["right"] / max(1, meant)
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    print(
        f"| {dev} | {name} | {len(golds)} | {meant} | {precision:.3f} | {recall:.3f} | {f1:.3f} "
        f"| {calibration.ece:.3f} | {of_nil.ece or 0:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
