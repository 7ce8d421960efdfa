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
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from kglink.models import Encoder
from kglink.models.opening import packaged_minilm
from kglink.workspace import Workspace
from kglink_plugins.indexes.flat import FlatBackend

KB_FILES = {"doid": "doid.obographs.json.gz", "ncit": "ncit.obographs.json.gz"}
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
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for rows in map(int, options.rows.split(",")):
        search(rows)
    names = names_of(options.disease)[: options.names]
    model = options.model or packaged_minilm()
    encode("names", names, model)
    encode("texts", texts_of(options.disease)[: len(names) // 6], model)


def search(count: int) -> None:
    """Search on both, with one index each."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, DIM), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    plain, placed = (FlatBackend().build([rows], DIM) for _ in range(2))
    queries = rows[rng.integers(0, count, max(QUERIES))]
    queries += rng.standard_normal(queries.shape, dtype=np.float32) / 60
    # On the processor first: once a GPU is in use, every index moves there.
    told = [(fastest(partial(plain.search, queries[:n], K)), n) for n in QUERIES]
    wanted = plain.search(queries, K)
    began = time.perf_counter()
    placed.place(torch.device("cuda"))
    torch.cuda.synchronize()
    print(f"{count:,} rows: copied in {time.perf_counter() - began:.2f} s")
    found = placed.search(queries, K)
    same = np.array_equal(wanted[0], found[0]) and np.array_equal(wanted[1], found[1])
    for seconds, n in told:
        on_gpu = fastest(partial(placed.search, queries[:n], K))
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
