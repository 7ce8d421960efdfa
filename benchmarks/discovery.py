"""How well mentions that mean nothing in the KBs are put together: ARI, for some thresholds.

    python benchmarks/discovery.py WORKSPACE DOCS...

The documents' golds are codes; a mention none of whose codes any KB has is of something unknown,
and mentions of the same codes are of the same thing. Compared are mentions of the same words, those
of the same whole name (short forms that a text explains, last names), and clusters of such names.
"""

from __future__ import annotations

import argparse

from kglink import Workspace
from kglink.evaluation.measures.clusters import adjusted_rand_index
from kglink.linking.discovery import discoveries, told_elsewhere, unknown_mentions
from kglink.records import Link, LinkedDocument
from kglink.text.fold import fold

THRESHOLDS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


def main() -> None:
    """Print a row for each source of documents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace")
    parser.add_argument("docs", nargs="+")
    asked = parser.parse_args()
    with Workspace.open(asked.workspace) as workspace:
        encode = workspace.encoder.encode
        for docs in asked.docs:
            meant = {}
            unknown = []
            for document in workspace.store.documents(docs, unresolved=True):
                links = []
                for one in document.mentions:
                    if one.gold and not any(gold.kb for gold in one.gold):
                        links.append(Link(one.start, one.end, one.surface, (), None, 1.0))
                        meant[document.id, one.start, one.end] = frozenset(one.gold)
                linked = LinkedDocument(document.id, document.text, tuple(links))
                unknown += unknown_mentions(linked, 0.0)
            gold = [meant[one.document, one.start, one.end] for one in unknown]
            surfaces = [fold(one.surface) for one in unknown]
            whole = [fold(one.name) for one in told_elsewhere(unknown)]
            rows = [
                f"same words {adjusted_rand_index(surfaces, gold):.3f}",
                f"same whole name {adjusted_rand_index(whole, gold):.3f}",
            ]
            for least in THRESHOLDS:
                found = discoveries(unknown, encode, {}, least_alike=least)
                ids = {fold(name): one.id for one in found for name in one.names}
                put = [ids[name] for name in whole]
                rows.append(f"alike {least:.2f}: {adjusted_rand_index(put, gold):.3f}")
            print(f"{docs}: {len(gold):,} mentions of {len(set(gold)):,} things; {'; '.join(rows)}")


if __name__ == "__main__":
    main()
