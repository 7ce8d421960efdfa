"""The papers' data in the layout of their releases, small enough for a test."""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kglink_papers.data import Layout

WORDS = (
    "amber",
    "heron",
    "river",
    "lantern",
    "stone",
    "copper",
    "tower",
    "meadow",
    "falcon",
    "ember",
)


def write_zeshel(folder: Path, layout: Layout, pages: int = 7) -> Path:
    """Sixteen worlds; every page mentions two others, in the file that its world is of.

    Each mention of validation and test has five candidates, most of them with the right one.
    """
    parts = {kb: name for name in ("train", "val", "test") for kb in layout.parts[name]["kbs"]}
    files: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("train", "heldout_train_seen", "heldout_train_unseen", "val", "test")
    }
    for kb, part in parts.items():
        wanted = ("train", "heldout_train_seen", "heldout_train_unseen")[
            : 3 if part == "train" else 1
        ]
        stems = wanted if part == "train" else (part,)
        _write_world(folder, kb, pages, [files[stem] for stem in stems])
    for stem, mentions in files.items():
        _write(folder / "mentions" / f"{stem}.json", mentions)
    rng = random.Random("tfidf")
    for stem in ("train", "val", "test"):
        lists = [
            {"mention_id": one["mention_id"], "tfidf_candidates": rng.sample(_ids(one, pages), 5)}
            for one in files[stem]
        ]
        _write(folder / "tfidf_candidates" / f"{stem}.json", lists)
    return folder


def _ids(mention: Mapping[str, object], pages: int) -> list[str]:
    return [f"{str(mention['corpus'])[:6].upper()}{at:010d}" for at in range(pages)]


def _catalogue(rng: random.Random, titles: Sequence[str]) -> list[dict[str, object]]:
    """The pages of Wikipedia with these titles, as BLINK's catalogue has them."""
    return [
        {
            "text": f" {title} is {' '.join(rng.choices(WORDS, k=8))} .",
            "idx": f"https://en.wikipedia.org/wiki?curid={100 + at}",
            "title": title,
            "entity": title,
        }
        for at, title in enumerate(titles)
    ]


def write_wikipedia(folder: Path, pages: int = 30) -> Path:
    """A catalogue of Wikipedia, TAC's part of it, and mentions of both benchmarks."""
    rng = random.Random("wikipedia and benchmarks")
    titles = _titles(rng, pages)
    pages_of = _catalogue(rng, titles)
    _write(folder / "wikipedia" / "entity.jsonl", pages_of)
    _write(folder / "tac" / "entity.jsonl", pages_of[: pages // 2])
    counts = {"tac/train": 300, "tac/test": 30, "wikilinksned/train": 300, "wikilinksned/valid": 30,
              "wikilinksned/test": 30}  # fmt: skip
    for stem, count in counts.items():
        lines: list[dict[str, object]] = []
        for at in range(count):
            gold = rng.randrange(pages // 2)
            lines.append(
                {
                    "context_left": f"{rng.choice(WORDS)} near",
                    "mention": titles[gold].lower(),
                    "context_right": f"{rng.choice(WORDS)} .",
                    "query_id": f"{stem}-{at}",
                    "label_id": str(100 + gold),
                    "Wikipedia_ID": str(100 + gold),
                    "Wikipedia_title": titles[gold],
                }
            )
        _write(folder / f"{stem}.jsonl", lines)
    return folder


def write_medmentions(folder: Path, concepts: int = 24) -> Path:
    """Concepts of UMLS with two names each, and abstracts with three mentions each."""
    rng = random.Random("umls")
    titles = _titles(rng, 2 * concepts)
    names, types = [], []
    for at in range(concepts):
        cui = f"C{at:07d}"
        for number, title in enumerate(titles[2 * at : 2 * at + 2]):
            first = ("P", "PF", "Y") if not number else ("S", "VO", "N")
            names.append(
                f"{cui}|ENG|{first[0]}|L{at}|{first[1]}|S{at}{number}|{first[2]}|A{at}{number}||||"
                f"MSH|MH|D{at}|{title}|0|N||\n"
            )
        types.append(f"{cui}|T033|A2.2|Finding|AT{at}||\n")
    (folder / "umls").mkdir(parents=True)
    (folder / "umls" / "MRCONSO.RRF").write_text("".join(names), encoding="utf-8")
    (folder / "umls" / "MRSTY.RRF").write_text("".join(types), encoding="utf-8")
    abstracts, lists = [], {"trng": 60, "dev": 15, "test": 15}
    number = 0
    for stem, count in lists.items():
        ids = [str(1000 + number + at) for at in range(count)]
        number += count
        (folder / f"corpus_pubtator_pmids_{stem}.txt").write_text("\n".join(ids) + "\n")
        for pmid in ids:
            title, rows = "They saw", []
            abstract = ""
            for _ in range(3):
                # Half of the concepts are those that the training's texts speak of.
                at = rng.randrange(concepts // 2 if stem == "trng" else concepts)
                surface = titles[2 * at + rng.randrange(2)].lower()
                start = len(title) + 1 + len(abstract)
                rows.append(f"{pmid}\t{start}\t{start + len(surface)}\t{surface}\tT033\tC{at:07d}")
                abstract += f"{surface} near the {rng.choice(WORDS)}. "
            abstracts.append("\n".join([f"{pmid}|t|{title}", f"{pmid}|a|{abstract}", *rows]) + "\n")
    (folder / "corpus_pubtator.txt").write_text("\n".join(abstracts), encoding="utf-8")
    return folder


def write_fandom(folder: Path, pages: int = 12) -> Path:
    """A general KB with comments, and a wiki of half of its titles with its links."""
    rng = random.Random("fandom")
    titles = _titles(rng, 2 * pages)

    def entities(own: Sequence[str]) -> list[dict[str, object]]:
        return [{"id": f"e{at}", "title": title, "description": f"{title} {rng.choice(WORDS)}"}
                for at, title in enumerate(own)]  # fmt: skip

    def documents(own: Sequence[str], kb: str, split: str, count: int) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for at in range(count):
            gold = rng.randrange(len(own))
            text = f"Near the {rng.choice(WORDS)} is {own[gold]} ."
            start = text.index(own[gold])
            mention = {"start": start, "end": start + len(own[gold]), "text": own[gold],
                       "gold": [f"{kb}:e{gold}"]}  # fmt: skip
            found.append(
                {"id": f"{kb}-{split}-{at}", "text": text, "entities": [mention], "split": split}
            )
        return found

    def lines(records: Sequence[Mapping[str, object]]) -> str:
        return "".join(json.dumps(one) + "\n" for one in records)

    _write_packed(folder / "general" / "general.jsonl.gz", lines(entities(titles)))
    comments = lines(documents(titles, "general", "train", 20))
    _write_packed(folder / "general" / "documents" / "reddit-comments.jsonl.gz", comments)
    own = titles[:pages]
    _write(folder / "fandom" / "beverly_hills_cop.jsonl", entities(own))
    links = [*documents(own, "bhcop", "train", 20), *documents(own, "bhcop", "test", 12)]
    _write(folder / "fandom" / "beverly_hills_cop_documents.jsonl", links)
    return folder


def write_joint(folder: Path, layout: Layout, pages: int = 12) -> Path:
    """A catalogue of Wikipedia, four worlds that have half of their titles from it, and Reddit."""
    rng = random.Random("wikipedia")
    titles = _titles(rng, 3 * pages)
    entities = _catalogue(rng, titles)
    _write(folder / "wikipedia" / "entity.jsonl", entities)
    mentions: list[dict[str, object]] = []
    for kb in layout.targets.values():
        _write_world(folder / "zeshel", kb, pages, [mentions], shared=titles[: pages // 2])
    _write(folder / "zeshel" / "mentions" / "train.json", mentions)
    _write_reddit(folder / "reddit_el.zip", rng.sample(titles, 12))
    return folder


def write_disease(folder: Path, diseases: int = 12) -> Path:
    """Two ontologies of the same names, and mentions of both; one record of them is bad."""
    rng = random.Random("disease")
    titles = _titles(rng, diseases)
    places = rng.choices(WORDS, k=diseases)
    nodes = [
        {
            "id": f"http://purl.obolibrary.org/obo/DOID_{at}",
            "type": "CLASS",
            "lbl": title.lower(),
            "meta": {"definition": {"val": f"A disease of the {places[at]}."}},
        }
        for at, title in enumerate(titles)
    ]
    terms = "".join(
        f'\n[Term]\nid: HP:{at:07d}\nname: {title}\ndef: "Of the {places[at]}." [HPO:x]\n'
        for at, title in enumerate(titles)
    )
    _write_packed(
        folder / "kb" / "doid.obographs.json.gz", json.dumps({"graphs": [{"nodes": nodes}]})
    )
    _write_packed(folder / "kb" / "hp.obo.gz", f"format-version: 1.2\n{terms}")
    for stem in ("ncbi_train", "bc5cdr_train", "st21pv_train", "ncbi_dev", "bc5cdr_dev"):
        records: list[dict[str, object]] = []
        for at, title in enumerate(titles):
            context = f"Near the {rng.choice(WORDS)} they suffer from {title.lower()} and fall ill."
            start = context.index(title.lower())
            records.append(
                {
                    "id": f"{stem}-{at}",
                    "doc": f"{stem}-{at // 2}",
                    "context": context,
                    "start": start,
                    "end": start + len(title),
                    "mention": title.lower()
                    if records or stem != "ncbi_train"
                    else "no such words",
                    "gold": {"doid": [f"DOID:{at}"], "hp": [f"HP:{at:07d}"]},
                }
            )
        lines = "".join(f"{json.dumps(one)}\n" for one in records)
        _write_packed(folder / "mentions" / f"{stem}.jsonl.gz", lines)
    return folder


def _write_world(
    folder: Path,
    kb: str,
    pages: int,
    files: Sequence[list[dict[str, object]]],
    shared: Sequence[str] = (),
) -> None:
    rng = random.Random(kb)
    titles = list(dict.fromkeys([*shared, *_titles(rng, pages)]))[:pages]
    ids = [f"{kb[:6].upper()}{at:010d}" for at in range(pages)]
    documents = []
    for at, title in enumerate(titles):
        words = [*title.split(), "is", *rng.choices(WORDS, k=4)]
        for mentions in files:
            for _ in range(2):
                gold = rng.randrange(pages)
                surface = titles[gold].split()
                start = len(words)
                words += [*surface, rng.choice(WORDS), "."]
                mentions.append(
                    {
                        "category": "LOW_OVERLAP",
                        "text": " ".join(surface),
                        "start_index": start,
                        "end_index": start + len(surface) - 1,
                        "context_document_id": ids[at],
                        "label_document_id": ids[gold],
                        "mention_id": f"{kb}{at}{start}",
                        "corpus": kb,
                    }
                )
        documents.append({"document_id": ids[at], "title": title, "text": " ".join(words)})
    _write(folder / "documents" / f"{kb}.json", documents)


def _write_reddit(path: Path, titles: Sequence[str]) -> None:
    """Posts of one annotation each, of all three tiers."""
    posts, tiers = [], {"gold": [], "silver": [], "bronze": []}  # type: tuple[list[str], dict[str, list[str]]]
    for at, title in enumerate(titles):
        posts.append(f"p{at}\tsub\tWe saw {title} there")
        fields = (f"p{at}", "sub", title, title.replace(" ", "_"), 7, 7 + len(title), title.lower())
        tiers[("gold", "silver", "bronze")[at % 3]].append("\t".join(map(str, fields)))
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("posts.tsv", "".join(f"{one}\n" for one in posts))
        out.writestr("comments.tsv", "c0\tt1_c0\tt3_p0\tsub\tNothing is annotated here\n")
        for tier, lines in tiers.items():
            out.writestr(f"{tier}_post_annotations.tsv", "".join(f"{one}\n" for one in lines))
            out.writestr(f"{tier}_comment_annotations.tsv", "")


def _titles(rng: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(word.capitalize() for word in rng.sample(WORDS, 2))] = None
    return list(found)


def _write(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def _write_packed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
