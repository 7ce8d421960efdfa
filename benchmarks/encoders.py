"""Encoders beside each other: R@1 and R@64 by names and by contexts, and texts a second.

    python benchmarks/encoders.py minilm minilm:int8 FOLDER ... [--data FOLDER] [--most 500]

Mentions of the dev sets are looked for among the entities that are right for one of them and every
25th other one: their surface among all names, and a window around them among all entity texts.
A model is a name or a folder, with a precision behind a colon. One core each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from encode import DATA, read_terms

from kglink.models import Encoder
from kglink.text.words import mention_window

FloatArray = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], FloatArray]
WINDOW = 256


class Asked(NamedTuple):
    """A mention: its surface, the window around it, and the keys that are right."""

    surface: str
    window: str
    gold: frozenset[str]


class TestSet(NamedTuple):
    """Mentions and the entities among which they are looked for."""

    name: str
    mentions: list[Asked]
    names: list[tuple[str, str]]
    """Names with the key of their entity."""
    texts: list[tuple[str, str]]


def disease(data: Path, most: int) -> TestSet:
    """BC5CDR and NCBI dev in the Disease Ontology."""
    mentions = [
        one
        for corpus in ("bc5cdr_dev", "ncbi_dev")
        for one in _disease_mentions(data / "disease" / "mentions" / f"{corpus}.jsonl.gz")
    ]
    terms = read_terms(data / "disease" / "kb" / "doid.obographs.json.gz")
    entities = [(term.id, term.names, term.text) for term in terms]
    return _test_set("disease", mentions, entities, most)


def general(data: Path, most: int) -> TestSet:
    """Tweeki and WNED-Wiki in an encyclopedic KB."""
    mentions = [
        one
        for name in ("tweeki", "wned-wiki")
        for one in _general_mentions(data / "general" / "documents" / f"{name}.jsonl.gz")
    ]
    entities = []
    for line in _lines(data / "general" / "general.jsonl.gz"):
        names = [line["title"], *_surfaces(line.get("aliases", ()))]
        entities.append((line["id"], names, f"{'; '.join(names)}. {line.get('description', '')}"))
    return _test_set("general", mentions, entities, most)


def _test_set(
    name: str, mentions: list[Asked], entities: list[tuple[str, list[str], str]], most: int
) -> TestSet:
    mentions = mentions[:: max(1, len(mentions) // most)][:most]
    gold = frozenset().union(*(one.gold for one in mentions))
    kept = [one for at, one in enumerate(entities) if one[0] in gold or at % 25 == 0]
    names = [(own, key) for key, all_of_it, _ in kept for own in all_of_it]
    return TestSet(name, mentions, names, [(text, key) for key, _, text in kept])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _surfaces(aliases: Sequence[Any]) -> list[str]:
    return [one if isinstance(one, str) else one["surface"] for one in aliases]


def _disease_mentions(path: Path) -> Iterator[Asked]:
    for line in _lines(path):
        if gold := line["gold"].get("doid"):
            window = mention_window(line["context"], line["start"], line["end"], WINDOW)
            yield Asked(line["mention"], window, frozenset(gold))


def _general_mentions(path: Path) -> Iterator[Asked]:
    for line in _lines(path):
        text = line["text"]
        for one in line["entities"]:
            if gold := [key.partition(":")[2] for key in one.get("gold", ())]:
                window = mention_window(text, one["start"], one["end"], WINDOW)
                yield Asked(text[one["start"] : one["end"]], window, frozenset(gold))


def recall(found: FloatArray, keys: list[str], mentions: list[Asked]) -> tuple[float, float]:
    """R@1 and R@64, an entity counting by its best row."""
    ranks = []
    for scores, mention in zip(found, mentions, strict=True):
        order = list(dict.fromkeys(keys[row] for row in np.argsort(-scores, kind="stable")[:640]))
        ranks.append(next((at for at, key in enumerate(order) if key in mention.gold), 999))
    return float(np.mean([at < 1 for at in ranks])), float(np.mean([at < 64 for at in ranks]))


def measured(queries: Encode, documents: Encode, sets: list[TestSet]) -> Iterator[str]:
    """The figures of one model."""
    for one in sets:
        for queried, rows in (
            ([mention.surface for mention in one.mentions], one.names),
            ([mention.window for mention in one.mentions], one.texts),
        ):
            began = time.process_time()
            vectors = documents([text for text, _ in rows])
            rate = len(rows) / (time.process_time() - began)
            first, most = recall(
                queries(queried) @ vectors.T, [key for _, key in rows], one.mentions
            )
            yield f"{one.name} {first:.3f} {most:.3f} {rate:,.0f}/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, default=DATA.parent)
    parser.add_argument("--most", type=int, default=500)
    options = parser.parse_args()
    sets = [disease(options.data, options.most), general(options.data, options.most)]
    for one in sets:
        print(f"{one.name}: {len(one.mentions)} mentions, {len(one.names):,} names, "
              f"{len(one.texts):,} texts")  # fmt: skip
    for named in options.models:
        model, _, precision = named.partition(":")
        encoder = Encoder(model, device="cpu", precision=precision or "fp32", threads=1)
        encoder.encode(["the first text"])
        size = sum(path.stat().st_size for path in encoder.source.weights) >> 20
        print(f"{Path(model).name:20} {precision or 'fp32'} {size} MiB", flush=True)
        for told in measured(encoder.encode_queries, encoder.encode, sets):
            print("   ", told, flush=True)


if __name__ == "__main__":
    main()
