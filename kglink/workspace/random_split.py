"""Mentions divided among train, dev and test at random, each on its own, always in the same way.

The joint-space paper draws so from the mentions of one world. A document whose mentions fall into
several splits becomes one document in each, of the same text and title.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kglink.errors import UsageError
from kglink.records import Document, Record, Split

SPLITS: tuple[Split, Split, Split] = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class RandomSplit:
    """How many mentions each split gets, and the seed that draws them."""

    train: int
    dev: int
    test: int
    seed: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Of train, dev and test."""
        return self.train, self.dev, self.test

    def drawn(self, records: Iterable[Record]) -> dict[int, Split]:
        """The split of each mention that is drawn, by its draw; reads all records."""
        draws = sorted(
            self._draw(record, number)
            for record in records
            if isinstance(record, Document)
            for number in range(len(record.mentions))
        )
        wanted = sum(self.counts)
        if wanted > len(draws):
            raise UsageError(
                f"a random split of {wanted:,} mentions, and the source has {len(draws):,}",
                hint="Ask for that number or fewer: --split-random TRAIN,DEV,TEST.",
            )
        splits = (split for split, n in zip(SPLITS, self.counts, strict=True) for _ in range(n))
        return dict(zip(draws, splits, strict=False))

    def divided(self, records: Iterable[Record], drawn: dict[int, Split]) -> Iterator[Record]:
        """The records, each document once for each split that mentions of it are in."""
        for record in records:
            if not isinstance(record, Document):
                yield record
                continue
            own = [drawn.get(self._draw(record, at)) for at in range(len(record.mentions))]
            for split in SPLITS:
                pairs = zip(record.mentions, own, strict=True)
                if mentions := tuple(mention for mention, its in pairs if its == split):
                    yield replace(
                        record,
                        id=f"{record.id}/{split}",
                        mentions=mentions,
                        title=record.whole,
                        split=split,
                    )

    def _draw(self, document: Document, number: int) -> int:
        """A number of chance for a mention, the same whenever the source is read."""
        named = f"{self.seed}\0{document.id}\0{number}".encode()
        return int.from_bytes(hashlib.blake2b(named, digest_size=16).digest())


def read_random_split(text: str, seed: int = 0) -> RandomSplit:
    """A split as the command line names it: `6360,640,1334`."""
    parts = text.split(",")
    if len(parts) != len(SPLITS) or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(
            f"--split-random is {text!r}",
            hint="Three numbers of mentions, of train, dev and test: --split-random 6360,640,1334.",
        )
    train, dev, test = map(int, parts)
    return RandomSplit(train, dev, test, seed)
