"""The index of a large space beside exact search: recall, milliseconds, disk and memory.

    python benchmarks/index_scale.py WORKSPACE 1000000 10000000 [--keep FOLDER]

Rows are vectors of names: chains of the words of the workspace's names, each word as likely after
another as it is there. A word's vector is the sum of its tokens' vectors in the model of the
workspace, frequent tokens counting less, so that rows lie as near each other as names of a real KB
do. Queries are 256 further names. Seconds are those of the processor, one thread for searches.

``--keep`` writes the rows there, and finds them there the next time: 768 bytes for each.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from kglink.models.loading import load_tokenizer, load_transformer
from kglink.plugins import load_registry
from kglink.space.index import LARGE_INDEX
from kglink.space.rescored import AskedIndex
from kglink.workspace import Workspace
from kglink_plugins.indexes.rows import faiss

FloatArray = npt.NDArray[np.float32]
Rows = np.memmap[tuple[int, int], np.dtype[np.float16]]

QUERIES, ALONE, BLOCK, LONGEST = 256, 48, 65_536, 8
KS = (1, 10, 64)
FIRST, LAST, UNKNOWN = 0, 1, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--keep", type=Path, help="a folder for the rows")
    asked = parser.parse_args()
    with Workspace.open(asked.workspace) as workspace:
        words, after = chain(workspace)
        vectors = word_vectors(workspace, words)
    queries = np.concatenate(list(drawn(after, vectors, QUERIES, seed=7)))
    with ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for size in asked.sizes:
            measure(rows_of(folder / f"{size}.f16", after, vectors, size), queries, folder)


# ----------------------------------------------------------------------------------------- rows
def chain(workspace: Workspace) -> tuple[list[str], list[list[int]]]:
    """The words of all names, and after each of them those that follow, as often as they do."""
    follow: dict[str, list[str]] = defaultdict(list)
    for kb in workspace.store.kbs():
        for entity in workspace.store.entities(kb.name):
            for name in (entity.title, *(alias.surface for alias in entity.aliases)):
                words = ["", *name.split()[:LONGEST], "\n"]
                for word, after in pairwise(words):
                    follow[word].append(after)
    words = ["", "\n", *sorted({word for each in follow.values() for word in each} - {"\n"})]
    number = {word: at for at, word in enumerate(words)}
    return words, [[number[word] for word in follow.get(word, ["\n"])] for word in words]


def word_vectors(workspace: Workspace, words: list[str]) -> FloatArray:
    """The sum of each word's tokens; frequent ones, the first of the vocabulary, count less."""
    source = workspace.encoder.source
    tokenizer = load_tokenizer(source)
    table = load_transformer("AutoModel", source).get_input_embeddings().weight.detach()
    table = torch.nn.functional.normalize(table.float() - table.float().mean(0))
    table *= 1 / (1 + 1e5 / (torch.arange(len(table)) + 1000.0)).unsqueeze(1)
    tokens = [tokenizer(word, add_special_tokens=False).input_ids or [UNKNOWN] for word in words]
    found: FloatArray = torch.stack([table[ids].sum(0) for ids in tokens]).numpy()
    return found


def drawn(
    after: list[list[int]], vectors: FloatArray, count: int, seed: int
) -> Iterator[FloatArray]:
    """Names of the chain as vectors of length 1, block by block."""
    chance = random.Random(seed).random  # noqa: S311 - the same rows each time
    for first in range(0, count, BLOCK):
        found, lengths = [], []
        for _ in range(min(BLOCK, count - first)):
            name: list[int] = []
            word = FIRST
            while len(name) < LONGEST:
                choice = after[word]
                word = choice[int(chance() * len(choice))]
                if word == LAST:
                    break
                name.append(word)
            found += name or [UNKNOWN]
            lengths.append(max(1, len(name)))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        rows = np.add.reduceat(vectors[np.array(found)], starts, axis=0)
        yield rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def rows_of(path: Path, after: list[list[int]], vectors: FloatArray, size: int) -> Rows:
    """The rows of a file, which is written if it is missing."""
    shape = (size, vectors.shape[1])
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        written = np.memmap(part, np.float16, "w+", shape=shape)
        for number, block in enumerate(drawn(after, vectors, size, seed=size)):
            written[number * BLOCK : number * BLOCK + len(block)] = block
        written.flush()
        part.replace(path)
    return np.memmap(path, np.float16, "r", shape=shape)


# -------------------------------------------------------------------------------------- measure
def measure(rows: Rows, queries: FloatArray, folder: Path) -> None:
    """Build, save and open the index, and print a line of figures."""
    backend = load_registry(only="builtin").create("index", *LARGE_INDEX)
    path = folder / "index"
    began = time.process_time()
    backend.build(blocks(rows), rows.shape[1]).save(path)
    built = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lists = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    print(f"{len(rows):,} rows, {lists.nprobe} of {lists.nlist} lists: built in {built:,.0f} s, "
          f"{path.stat().st_size / 1e6:,.0f} MB, peak memory {peak:,.0f} MB")  # fmt: skip
    index = AskedIndex(
        LARGE_INDEX[0], backend.load(path), lambda wanted: rows[wanted].astype(np.float32)
    )
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    least, exact, exact_alone = exact_scores(rows, queries)
    index.search(queries, max(KS))  # Pages that are mapped come into memory once.
    for k in KS:
        scores, _ = index.search(queries, k)
        found = np.mean((scores >= least[:, k - 1 : k] - 1e-5).sum(axis=1) / k)
        print(f"  R@{k} {found:.3f}", end="")
    many = seconds(lambda: index.search(queries, max(KS))) / len(queries)
    alone = seconds(lambda: [index.search(queries[at : at + 1], max(KS)) for at in range(ALONE)])
    print(f"   ms of {len(queries)}: {1e3 * many:.2f}, exact {1e3 * exact:.1f}; "
          f"alone: {1e3 * alone / ALONE:.2f}, exact {1e3 * exact_alone:.0f}")  # fmt: skip
    path.unlink()


def blocks(rows: Rows) -> Iterable[FloatArray]:
    """The rows as a space gives them."""
    return (
        np.asarray(rows[first : first + BLOCK], np.float32) for first in range(0, len(rows), BLOCK)
    )


def exact_scores(rows: Rows, queries: FloatArray) -> tuple[FloatArray, float, float]:
    """The best scores of each query, and the seconds of comparing one of them, and one alone."""
    best, taken = np.full((len(queries), max(KS)), -np.inf, np.float32), [0.0, 0.0]
    asked = torch.from_numpy(queries)
    for block in blocks(rows):
        for which, some in enumerate((asked[:1], asked)):
            began = time.process_time()
            products = (some @ torch.from_numpy(block).T).topk(min(max(KS), len(block))).values
            taken[which] += time.process_time() - began
        both = np.concatenate([best, products.numpy()], axis=1)
        best = -np.sort(-both, axis=1)[:, : max(KS)]
    return best, taken[1] / len(queries), taken[0]


def seconds(run: Callable[[], object]) -> float:
    """What the processor takes."""
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
