"""Encoding rate against sentence-transformers with its defaults, and what bf16 costs in recall.

    python benchmarks/encode.py [--texts 10000] [--runs 3] [--data FOLDER]

Both encode the same entity texts (name; synonyms; definition) with the same weights, in turn, in
one process. Recall: the mention surfaces of BC5CDR dev against every alias of the Disease
Ontology, an entity counting by its best alias; vectors of sentence-transformers (fp32) are the
reference. Without the data folder the texts are synthetic and the recall is left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.models import Encoder, resolve_model

FloatArray = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], FloatArray]
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "disease"


class Term(NamedTuple):
    """An ontology term."""

    id: str
    names: list[str]
    definition: str

    @property
    def text(self) -> str:
        """Name, synonyms and definition."""
        return "; ".join([*self.names, self.definition] if self.definition else self.names)


def read_terms(path: Path) -> Iterator[Term]:
    """The live terms of an OBO Graphs file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        nodes = json.load(file)["graphs"][0]["nodes"]
    for node in nodes:
        meta = node.get("meta", {})
        if node.get("type") == "CLASS" and "lbl" in node and not meta.get("deprecated"):
            names = [node["lbl"], *(synonym["val"] for synonym in meta.get("synonyms", []))]
            key = node["id"].rpartition("/")[2].replace("_", ":")
            yield Term(key, names, meta.get("definition", {}).get("val", ""))


def entity_texts(data: Path, count: int) -> list[str]:
    """``count`` texts spread evenly over two ontologies, or made up where there are none."""
    if not data.is_dir():
        return synthetic_texts(count)
    terms = [
        term for kb in ("doid", "ncit") for term in read_terms(data / f"kb/{kb}.obographs.json.gz")
    ]
    return [terms[i * len(terms) // count].text for i in range(min(count, len(terms)))]


def synthetic_texts(count: int) -> list[str]:
    """Texts of 3 to 120 words with the skewed lengths of real definitions."""
    rng = np.random.default_rng(0)
    letters = list("aeioulnrst")
    words = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(5000)]
    lengths = np.minimum(rng.lognormal(3, 0.8, count).astype(int) + 3, 120)
    return [" ".join(rng.choice(words, length)) for length in lengths]


def recall_at_10(encode: Encode, data: Path) -> float:
    """R@10 of mention surfaces against all aliases of the Disease Ontology."""
    terms = list(read_terms(data / "kb" / "doid.obographs.json.gz"))
    aliases = [(name, row) for row, term in enumerate(terms) for name in term.names]
    mentions = list(read_mentions(data / "mentions" / "bc5cdr_dev.jsonl.gz"))
    entities = np.array([row for _, row in aliases])
    scores = encode([name for name, _ in mentions]) @ encode([name for name, _ in aliases]).T
    hits = 0
    for (_, gold), row in zip(mentions, scores, strict=True):
        best: dict[int, None] = {}
        for alias in np.argsort(-row, kind="stable"):
            best.setdefault(int(entities[alias]))
            if len(best) == 10:
                break
        hits += any(terms[entity].id in gold for entity in best)
    return hits / len(mentions)


def read_mentions(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Surface and gold of every mention with an entity in the Disease Ontology."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record: dict[str, Any] = json.loads(line)
            if gold := record["gold"].get("doid"):
                yield record["mention"], frozenset(gold)


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()

    start = time.perf_counter()
    encoder = Encoder()
    first = encoder.encode(["the first text"])
    loaded = time.perf_counter() - start
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(resolve_model().path), device=encoder.hardware.device)
    texts = entity_texts(options.data, options.texts)
    tokens = sum(map(len, encoder._loaded.tokenise(texts).ids))
    encoder.encode(texts[:200])
    reference.encode(texts[:200])
    ours, theirs = [], []
    for _ in range(options.runs):
        theirs.append(seconds(lambda: reference.encode(texts)))
        ours.append(seconds(lambda: encoder.encode(texts)))
    print(f"{encoder.hardware}; {len(texts):,} texts, {tokens:,} tokens, {first.shape[1]} dims")
    print(f"import, load and first vector: {loaded:.2f} s")
    for name, times in (("sentence-transformers", theirs), ("kglink", ours)):
        median = statistics.median(times)
        print(f"{name:22} {len(texts) / median:8,.0f} texts/s {tokens / median:10,.0f} tokens/s")
    print(f"ratio, median of {options.runs}: {statistics.median(ratios(theirs, ours)):.2f}")
    sample = texts[:1000]
    cosines = (encoder.encode(sample) * np.asarray(reference.encode(sample))).sum(axis=1)
    print(f"cosine of both vectors of a text: mean {cosines.mean():.5f}, least {cosines.min():.5f}")
    if options.data.is_dir():
        before = recall_at_10(lambda t: np.asarray(reference.encode(list(t))), options.data)
        after = recall_at_10(encoder.encode, options.data)
        print(f"R@10 {before:.4f} -> {after:.4f} ({after - before:+.4f})")


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
    """Speed-up of each pair of neighbouring runs."""
    return [slow / fast for slow, fast in zip(theirs, ours, strict=True)]


if __name__ == "__main__":
    main()
