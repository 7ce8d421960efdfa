"""The general KB, its nine annotated sets and a small wiki, for `general.py` and `answers.py`.

The KB comes in two sizes: whole (35,754 entities), and 5,402 of them, which are all golds of the
sets, the most popular, and as many others by the order of a hash.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from kglink.records import Document
from kglink.workspace import Workspace

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
WHOLE, SMALL = 35_754, 5_402
SIZES = (SMALL, WHOLE)
#: Sets that share texts are one family: none is learnt from where another is measured. The first
#: of a family has the texts of the others, so that it alone is learnt from.
FAMILIES = (
    ("wiki-fair-v2-no-coref", "wiki-fair-v2"),
    ("oke-2016-train", "oke-2015-train"),
    ("msnbc-updated",),
    ("tweeki",),
    ("rss-500",),
    ("reddit-comments",),
    ("wned-wiki",),
)
SETS = tuple(chain(*FAMILIES))
#: Some mentions of these are not annotated: what they invent is unknown.
PARTIAL = frozenset(("rss-500", "reddit-comments", "wned-wiki"))
#: The KB is searched by its names; its vectors are in another space of the workspace.
BY_NAMES = {"space.name": "names"}


def general_workspace(folder: Path, data: Path, size: int) -> Path:
    """The folder of a workspace with the general KB and the nine sets, made where it is missing."""
    place = folder / f"general-{size}"
    # One mention of `wned-wiki` ends behind its text.
    with Workspace.open(place, create=True, flags={"ingest.on_error": "skip"}) as workspace:
        if "general" not in held(workspace):
            source = data / "general" / "general.jsonl.gz"
            if size == SMALL:
                source = smaller(data, place / "general.jsonl")
            workspace.add_kb("general", source)
        for name in SETS:
            if name not in held(workspace):
                workspace.add_kb(name, set_file(data, name), links_to="general")
    return place


def wiki_workspace(folder: Path, data: Path, beside: int = 0) -> Path:
    """A workspace with the wiki, with all vectors; ``beside`` a general KB of so many entities."""
    place = folder / f"wiki-{beside}"
    wiki = data / "fandom" / "beverly_hills_cop.jsonl"
    with Workspace.open(place, create=True) as workspace:
        if "bhcop" not in held(workspace):
            workspace.add_kb("bhcop", wiki)
            workspace.add_kb("pages", wiki.with_stem(f"{wiki.stem}_documents"), links_to="bhcop")
        if not beside or "general" not in held(workspace):
            workspace.build_if_stale()
        if beside and "general" not in held(workspace):
            source = data / "general" / "general.jsonl.gz"
            if beside == SMALL:
                source = smaller(data, place / "general.jsonl")
            workspace.add_kb("general", source)
    return place


def held(workspace: Workspace) -> set[str]:
    """The KBs that were added to their end."""
    return {info.name for info in workspace.kbs() if info.complete}


def set_file(data: Path, name: str) -> Path:
    """Where a set lies."""
    return data / "general" / "documents" / f"{name}.jsonl.gz"


def smaller(data: Path, target: Path) -> Path:
    """Write the KB of 5,402 entities."""
    with gzip.open(data / "general" / "general.jsonl.gz", "rt", encoding="utf-8") as lines:
        by_key = {json.loads(line)["id"]: line for line in lines}
    golds = sorted({key for name in SETS for key in golds_of(set_file(data, name))})
    popularity = {key: json.loads(line).get("popularity", 0) for key, line in by_key.items()}
    popular = sorted(by_key, key=lambda key: (-popularity[key], key))
    drawn = sorted(by_key, key=lambda key: hashlib.sha256(key.encode()).digest())
    chosen = dict.fromkeys(golds)
    middle = (len(chosen) + SMALL) // 2
    for order, most in ((popular, middle), (drawn, SMALL)):
        chosen.update(dict.fromkeys(_more(order, chosen, most - len(chosen))))
    target.write_text("".join(by_key[key] for key in chosen), encoding="utf-8")
    return target


def _more(order: Iterable[str], chosen: dict[str, None], count: int) -> list[str]:
    return [key for key in order if key not in chosen][:count]


def golds_of(path: Path) -> Iterable[str]:
    """The keys of all golds of a set."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            for mention in json.loads(line)["entities"]:
                yield from (gold.partition(":")[2] for gold in mention.get("gold") or ())


def sample(documents: Iterable[Document], most: int) -> Sequence[Document]:
    """So many documents at most, from all places alike."""
    every = list(documents)
    count = min(most, len(every))
    return [every[at * len(every) // count] for at in range(count)]
