"""The word index of made-up entities: how long a build takes, its memory, and how fast it is.

    python benchmarks/words.py 1000000

Each entity has 60 words out of 200,000, a few of them very common. Prints the peak of memory beside
what the process had before, and the seconds of a search for 256 mentions of three words each.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kglink.space.words import WordIndex, build_word_index

VOCABULARY = [f"w{number}" for number in range(200_000)]
WORDS, MENTIONS, K = 60, 256, 64


def texts(count: int, draw: random.Random) -> Iterator[str]:
    for _ in range(count):
        chosen = (int(draw.paretovariate(0.6)) % len(VOCABULARY) for _ in range(WORDS))
        yield " ".join(VOCABULARY[number] for number in chosen)


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entities", type=int)
    count = parser.parse_args().entities
    draw = random.Random(1)  # noqa: S311 - made-up texts
    made = sum(1 for _ in texts(min(count, 10_000), draw))
    with tempfile.TemporaryDirectory() as name:
        folder, scratch = Path(name), Path(name) / "scratch"
        scratch.mkdir()
        before, began = peak_mb(), time.perf_counter()
        list(texts(made, draw))
        drawing = (time.perf_counter() - began) * count / made
        began = time.perf_counter()
        build_word_index(folder, texts(count, draw), scratch)
        seconds = time.perf_counter() - began - drawing
        size = sum(path.stat().st_size for path in folder.glob("word*")) >> 20
        print(f"build   {count / seconds:,.0f} entities/s, {size:,} MB on disk")
        print(f"memory  {before} MB before, {peak_mb()} MB at most")
        index = WordIndex(folder, count)
        mentions = [" ".join(draw.sample(VOCABULARY[:5000], 3)) for _ in range(MENTIONS)]
        began = time.perf_counter()
        index.search(mentions, K, "bm25")
        print(f"search  {MENTIONS / (time.perf_counter() - began):,.0f} mentions/s")


if __name__ == "__main__":
    main()
