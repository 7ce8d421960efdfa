"""Given mentions linked: how many in a second of one core, how many rightly, how surely.

``python benchmarks/given_mentions.py WORKSPACE DOCS [DOCS ...] [--mentions 400] [--window 256]``
links the annotated mentions of stored documents (the first so many of each), and prints mentions
for a second of computing time, R@1 over all KBs, and the calibration error of the probabilities.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from kglink.records import Span, TextInput
from kglink.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace")
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--mentions", type=int, default=400)
    parser.add_argument("--window", type=int, default=None)
    options = parser.parse_args()
    flags = {"link.window_chars": options.window}
    with Workspace.open(options.workspace, flags=flags) as workspace:
        for docs in options.docs:
            measure(workspace, docs, options.mentions)


def measure(workspace: Workspace, docs: str, most: int) -> None:
    texts, golds = [], []
    for document in workspace.store.documents(docs):
        annotated = (one for one in document.mentions if one.gold)
        mentions = sorted(annotated, key=lambda one: (one.start, one.end))
        spans = tuple(Span(one.start, one.end) for one in mentions)
        texts.append(TextInput(document.id, document.text, spans))
        golds += [set(one.gold or ()) for one in mentions]
        if len(golds) >= most:
            break
    list(workspace.link(texts[:1]))  # loads the model
    clock, began = time.perf_counter(), time.process_time()
    links = [link for document in workspace.link(texts) for link in document.links]
    seconds, clock = time.process_time() - began, time.perf_counter() - clock
    told = [
        (link.probability, bool(link.candidates) and link.candidates[0].id in gold)
        for link, gold in zip(links, golds, strict=True)
    ]
    print(
        f"{docs}: {len(links)} mentions, {len(links) / seconds:.0f} for a second of one core, "
        f"{len(links) / clock:.0f} a second, "
        f"R@1 {sum(right for _, right in told) / len(told):.4f}, "
        f"calibration error {calibration_error(told):.3f}"
    )


def calibration_error(told: list[tuple[float, bool]]) -> float:
    """The mean distance of probability and truth over ten steps."""
    steps = defaultdict(list)
    for probability, right in told:
        steps[min(9, int(10 * probability))].append(probability - right)
    return sum(abs(sum(step)) for step in steps.values()) / len(told)


if __name__ == "__main__":
    main()
