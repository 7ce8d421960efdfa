"""What `kglink link --cluster` brings: R@1 and F1 of given mentions, with it and without.

    python benchmarks/clustered_links.py WORKSPACE DOCS... [--texts 200] [--set power=2]

All mentions of a source's texts are linked in one run, those that mean nothing in the KBs too. R@1
is the share of mentions with an entity whose first candidate is right; F1 is of the answers, NIL
left out.
"""

from __future__ import annotations

import argparse
from itertools import islice

from kglink import Workspace
from kglink.records import Span, TextInput


def main() -> None:
    """Print a row for each source."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace")
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--texts", type=int, default=None)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    settings = dict(one.split("=", 1) for one in asked.settings)
    clustered = {"link.clusterer": "kglink/mentions", "link.clusterer_settings": settings}
    for docs in asked.docs:
        for name, flags in (("alone", {}), ("clustered", clustered)):
            with Workspace.open(asked.workspace, flags=flags) as workspace:
                documents = list(islice(workspace.store.documents(docs), asked.texts))
                inputs = [
                    TextInput(one.id, one.text, tuple(Span(m.start, m.end) for m in one.mentions))
                    for one in documents
                    if one.mentions
                ]
                golds = {
                    (one.id, mention.start, mention.end): set(mention.gold or ())
                    for one in documents
                    for mention in one.mentions
                }
                first = right = answered = 0
                for document in workspace.link(inputs):
                    for link in document.links:
                        gold = golds[document.id, link.start, link.end]
                        first += bool(link.candidates) and link.candidates[0].id in gold
                        right += link.chosen is not None and link.chosen.id in gold
                        answered += link.chosen is not None
                known = sum(map(bool, golds.values()))
                print(
                    f"{docs} {name}: {len(golds):,} mentions, {known:,} with an entity; "
                    f"R@1 {first / known:.4f}, precision {right / answered:.4f}, "
                    f"recall {right / known:.4f}, F1 {2 * right / (answered + known):.4f}",
                    *(f"({line})" for _, line in workspace.told_by_stages()),
                    flush=True,
                )


if __name__ == "__main__":
    main()
