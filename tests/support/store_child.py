"""A process that the tests of the store start, watch and kill.

``python store_child.py URL KB COUNT [options]`` ingests COUNT entities.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
from collections.abc import Iterator

from kglink.errors import KglinkError
from kglink.records import Alias, Entity
from kglink.sources import Problems
from kglink.store import IngestJob, Store


def records(count: int, version: int) -> Iterator[Entity]:
    """Small entities; from one version to the next a third changes and a fifth is another."""
    for number in range(count):
        key = f"{number}v{version % 2}" if number % 5 == 0 else f"{number}"
        title = f"Thing {number} {version % 2}" if number % 3 == 0 else f"Thing {number}"
        yield Entity(key, title, aliases=(Alias(f"T{number}"),))


def waiting(entities: Iterator[Entity], count: int) -> Iterator[Entity]:
    """Say so after ``count`` records, and wait for a line before going on."""
    for number, entity in enumerate(entities):
        if number == count:
            print("waiting", flush=True)  # noqa: T201 - the parent reads it
            sys.stdin.readline()
        yield entity


def main() -> int:
    """Run one ingest; 1 where the store refuses it, with its words on standard error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("kb")
    parser.add_argument("count", type=int)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=2000)
    parser.add_argument("--wait-after", type=int)
    parser.add_argument("--largest-file", type=int, help="a full disk, in bytes")
    parser.add_argument("--on-error", choices=["stop", "skip"], default="stop")
    given = parser.parse_args()
    if given.largest_file:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.largest_file, given.largest_file))
    job = IngestJob(
        given.kb, "none", "child", str(given.version), batch_size=given.batch_size,
        problems=Problems(given.on_error),
    )  # fmt: skip
    entities = records(given.count, given.version)
    if given.wait_after is not None:
        entities = waiting(entities, given.wait_after)
    try:
        with Store.open(given.url) as store:
            store.ingest(job, entities)
    except KglinkError as error:
        sys.stderr.write(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
