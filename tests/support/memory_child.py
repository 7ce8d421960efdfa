"""A process that learns many surfaces, so that a test can see how much memory that takes.

``python memory_child.py URL COUNT`` prints the peak in MiB before and after, and what it learnt.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

from kglink.records import Document, Entity, EntityId, Mention
from kglink.store import IngestJob, Store

PER_DOCUMENT = 100


def documents(count: int) -> Iterator[Document]:
    """Documents of so many mentions, each with a surface that no other mention has."""
    for first in range(0, count, PER_DOCUMENT):
        words = [f"surface{at}" for at in range(first, min(first + PER_DOCUMENT, count))]
        starts, at = [], 0
        for word in words:
            starts.append(at)
            at += len(word) + 1
        yield Document(
            str(first), " ".join(words),
            tuple(Mention(start, start + len(word), word, (EntityId("k", "all"),))
                  for start, word in zip(starts, words, strict=True)),
        )  # fmt: skip


def peak_mib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Learn, ask, and read everything."""
    url, count = sys.argv[1], int(sys.argv[2])
    with Store.open(url) as store:
        store.ingest(IngestJob("k", "jsonl", "k", "1"), [Entity("all", "All")])
        for name, size in (("few", PER_DOCUMENT), ("many", count)):
            store.ingest(IngestJob(name, "jsonl", name, "1", links_to=("k",)), documents(size))
        store.learn({"few": ""})
        store.learn({}, forgotten=["few"])
        before = peak_mib()
        store.learn({"many": ""})
        learnt = store.memory_sources()["many"]
        last = f"surface{count - 1}"
        told = [one.entity.key for one in store.meanings([last])[last]]
        told_all = sum(1 for _ in store.all_meanings())
        print(json.dumps([before, peak_mib(), learnt, told, told_all]))  # noqa: T201 - for the test


if __name__ == "__main__":
    main()
