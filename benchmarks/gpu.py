"""What a GPU gains: exact search and encoding, beside the processor and sentence-transformers.

    python benchmarks/gpu.py ../shared/data/disease [--rows 100000,1000000] [--names 120000]

Searches random rows with the exact index on the processor and on the GPU, and checks that both
answer with the same bytes. Then encodes the names of the Disease Ontology and of NCIT, and the
texts of BC5CDR in pieces of 300 letters, with kglink and with sentence-transformers, in each
precision. Needs a GPU that torch can use.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer

from kglink.models import Encoder
from kglink.models.opening import packaged_minilm
from kglink.workspace import Workspace
from kglink_plugins.indexes.flat import FlatBackend

KB_FILES = {"doid": "doid.obographs.json.gz", "ncit": "ncit.obographs.json.gz"}
FloatArray = npt.NDArray[np.float32]

DIM, K = 384, 64
QUERIES = (1, 32, 256)
#: Letters of a text that is encoded.
_LETTERS = 300


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--model", type=Path, help="folder of the model; without: MiniLM")
    parser.add_argument("--names", type=int, default=120_000)
    options = parser.parse_args()
    # All searches of the processor come first: once a GPU is in use, every index moves there.
    known = [on_processor(rows) for rows in map(int, options.rows.split(","))]
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for one in known:
        search(one)
    names = names_of(options.disease)[: options.names]
    model = options.model or packaged_minilm()
    encode("names", names, model)
    encode("texts", texts_of(options.disease)[: len(names) // 6], model)


class Searched(NamedTuple):
    """Rows, and what the processor finds among them."""

    rows: FloatArray
    queries: FloatArray
    found: tuple[FloatArray, npt.NDArray[np.int64]]
    seconds: tuple[float, ...]


def on_processor(count: int) -> Searched:
    """Random rows, searched on the processor."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, DIM), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries = rows[rng.integers(0, count, max(QUERIES))]
    queries += rng.standard_normal(queries.shape, dtype=np.float32) / 60
    index = FlatBackend().build([rows], DIM)
    seconds = tuple(fastest(partial(index.search, queries[:n], K)) for n in QUERIES)
    return Searched(rows, queries, index.search(queries, K), seconds)


def search(known: Searched) -> None:
    """The same search on the GPU."""
    index = FlatBackend().build([known.rows], DIM)
    began = time.perf_counter()
    index.place(torch.device("cuda"))
    torch.cuda.synchronize()
    print(f"{len(known.rows):,} rows: copied in {time.perf_counter() - began:.2f} s")
    scores, found = index.search(known.queries, K)
    same = np.array_equal(known.found[0], scores) and np.array_equal(known.found[1], found)
    for seconds, n in zip(known.seconds, QUERIES, strict=True):
        on_gpu = fastest(partial(index.search, known.queries[:n], K))
        print(f"  {n:4} queries: {seconds * 1e3:8.2f} ms, on the GPU {on_gpu * 1e3:8.2f} ms")
    print(f"  the same bytes: {same}")


def encode(what: str, texts: list[str], folder: Path) -> None:
    """Texts a second, and the smallest cosine to fp32."""
    whole: Any = None
    for precision in ("fp32", "fp16", "bf16"):
        began = time.perf_counter()
        encoder = Encoder(str(folder), device="cuda", precision=precision)
        vectors = encoder.encode(texts)
        first = time.perf_counter() - began
        whole = vectors if whole is None else whole
        cosine = float(np.einsum("nd,nd->n", vectors, whole).min())
        rate = len(texts) / fastest(partial(encoder.encode, texts), times=2)
        print(f"{what} kglink {precision}: {rate:,.0f}/s, first {first:.1f} s, cosine {cosine:.5f}")
    for kind in (torch.float32, torch.bfloat16):
        model = SentenceTransformer(str(folder), device="cuda", model_kwargs={"dtype": kind})
        seconds = fastest(partial(model.encode, texts, batch_size=256), times=2)
        print(f"{what} sentence-transformers {kind}: {len(texts) / seconds:,.0f}/s")


def fastest(work: Callable[[], object], times: int = 5) -> float:
    """The least seconds of several runs."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def names_of(disease: Path) -> list[str]:
    """All names of two ontologies."""
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Workspace.open(folder, create=True) as workspace:
        for kb, file in KB_FILES.items():
            workspace.add_kb(kb, disease / "kb" / file)
            for entity in workspace.store.entities(kb):
                found += [entity.title, *(alias.surface for alias in entity.aliases)]
    return found


def texts_of(disease: Path) -> list[str]:
    """Pieces of the texts around the mentions of a corpus."""
    with gzip.open(disease / "mentions" / "bc5cdr_train.jsonl.gz", "rt", encoding="utf-8") as lines:
        whole = dict.fromkeys(json.loads(line)["context"] for line in lines)
    return [text[at : at + _LETTERS] for text in whole for at in range(0, len(text), _LETTERS)]


if __name__ == "__main__":
    main()
