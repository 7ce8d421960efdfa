"""What a few corrections by `kglink review` change in other texts, beyond the corrected words.

    python benchmarks/corrections.py WORKSPACE DOCS [--corrections 10] [--order unsure]

WORKSPACE is copied first. The first 30 annotated documents of DOCS are linked and their wrong links
corrected as the annotation has it, in the order in which a person meets them; the next 70 are
linked before and after. KBs without vectors are asked by their names alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from kglink.evaluation.annotated import nil_places, with_nil
from kglink.records import Document, LinkedDocument, TextInput
from kglink.text.fold import fold
from kglink.workspace import Workspace
from kglink.workspace.review import LinkReview

READ, JUDGED = 30, 70


def linked(workspace: Workspace, documents: Sequence[Document]) -> list[LinkedDocument]:
    """The links of raw texts."""
    texts = [TextInput(one.id, one.text) for one in documents]
    return list(workspace.link(texts, wait=False))


def correct_wrong(review: LinkReview, documents: Sequence[Document], most: int) -> set[str]:
    """Correct so many wrong links as the annotation has it; the folded words of all of them."""
    marked = {one.text: one.mentions for one in documents}
    words: set[str] = set()
    done = 0
    while done < most and (link := review.current):
        met = [one for one in marked[link.text] if one.start < link.end and link.start < one.end]
        at_place = [one for one in met if (one.start, one.end) == (link.start, link.end)]
        gold = (at_place or met)[0].gold if met else None
        right = bool(at_place) and (link.entity in gold if gold else link.entity is None)
        if right or (met and not gold and (gold is None or not at_place)):
            review.skip()  # nobody knows what it means, or it is right
            continue
        if not met:
            said = review.no_mention()
        else:
            if not at_place:
                review.move(met[0].surface)
            said = review.choose(gold[0] if gold else None)
        words |= {fold(link.surface), fold(said.surface)}
        done += 1
    return words


def links_worth(
    documents: Sequence[Document],
    answers: Sequence[LinkedDocument],
    kbs: Collection[str],
    without: Collection[str] = (),
) -> str:
    """Precision, recall and F1 of links, strict, but for those of some words."""
    right = found = wanted = 0
    for document, answer in zip(documents, answers, strict=True):
        golds = {
            (one.start, one.end): one.gold
            for one in document.mentions
            if one.gold and any(gold.kb in kbs for gold in one.gold)
            and fold(one.surface) not in without
        }  # fmt: skip
        links = [
            one for one in answer.links if one.chosen and fold(one.surface) not in without
        ]  # fmt: skip
        wanted, found = wanted + len(golds), found + len(links)
        right += sum(
            one.chosen.id in golds.get((one.start, one.end), ()) for one in links if one.chosen
        )
    f1 = 2 * right / max(1, found + wanted)
    return f"P {right / max(1, found):.3f} R {right / max(1, wanted):.3f} F1 {f1:.3f}"


def main() -> None:
    """Print what links are worth before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("docs")
    parser.add_argument("--corrections", type=int, default=10)
    parser.add_argument("--order", choices=("text", "unsure"), default="text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "workspace"
        shutil.copytree(options.workspace, folder)
        with Workspace.open(folder) as workspace:
            workspace.build_if_stale(wait=False)
            kbs = workspace.space().kbs()
            nils = nil_places(workspace.store, options.docs, kbs)
            documents = list(with_nil(workspace.store.documents(options.docs), nils))
            read, judged = documents[:READ], documents[READ : READ + JUDGED]
            path = folder / "links.jsonl"
            lines = [json.dumps(one.as_json()) for one in linked(workspace, read)]
            path.write_text("\n".join(lines), encoding="utf-8")
            before = linked(workspace, judged)
            with workspace.review_links(path, order=options.order) as review:
                words = correct_wrong(review, read, options.corrections)
            print(f"{dict(review.result().said)}, {len(words)} different words")
            after = linked(workspace, judged)
            for name, without in (("all links", ()), ("other words", words)):
                for when, answers in (("before", before), ("after", after)):
                    print(f"{name:12} {when:7}", links_worth(judged, answers, kbs, without))


if __name__ == "__main__":
    main()
