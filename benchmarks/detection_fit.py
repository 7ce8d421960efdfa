"""Fits the default weights of the dictionary detector, and those of the judge of spans.

    python benchmarks/detection_fit.py WORKSPACE --docs pt_ncbi_train,pt_bc5cdr_training
        [--general FOLDER] [--write]

Two logistic models: how probably a place is a mention by its words and names (`weights.json` of the
detector), and by what detector and linker say together (`judge.json`). They learn from abstracts
of a workspace that are annotated whole, and, so that they are no judges of diseases alone, from the
train documents of the demo, mails to a bicycle shop and texts about people (`detection_texts/`),
which weigh as much as some hundreds of abstracts. Texts count once for every choice of their KBs,
each alone, in pairs and so on, with the same weight in all: what is fitted to three KBs alone finds
little with one. A mention whose golds are all in KBs that were not chosen is left out there: who
marked it did not say that the chosen ones lack it. ``--general`` adds news, tweets and Wikipedia
(`general_sets.py`, made in that folder) with an encyclopedic KB of two sizes, by its names. It
prints the weights, and for each kind of text
and choice of KBs strict precision, recall and F1 of detection with all texts, and without those of
its own kind.

Measured on the train abstracts of NCBI Disease and BC5CDR (diseases), DOID, HP and NCIT.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from general_sets import BY_NAMES, DATA, SIZES, general_workspace

from kglink.linking.fit_judge import logistic
from kglink.linking.judge import FACTS, default_weights
from kglink.linking.pipeline import Linker
from kglink.records import Document, Mention, Ranking
from kglink.workspace import Workspace, init_workspace
from kglink_plugins.detectors.dictionary import detector as dictionary
from kglink_plugins.detectors.dictionary.variants import Facts

FloatArray = npt.NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT / "benchmarks" / "detection_texts"
DEMO = ROOT / "cli" / "kglink_cli" / "demo_data"
NAME = "kglink/dictionary"
#: How much a place of each kind of small texts weighs beside one of an abstract.
WEIGHTS = {"bicycles": (50.0, 4.0), "people": (25.0, 4.0), "demo": (15.0, 2.5)}
#: The same of the general sets.
GENERAL = {"wiki-fair-v2-no-coref": 2.0, "oke-2016-train": 4.0, "msnbc-updated": 4.0, "tweeki": 4.0}
PRIOR = 3.0


class Sample(NamedTuple):
    """Facts of the places of some texts, whether each is a mention, and how much it weighs."""

    facts: FloatArray
    right: npt.NDArray[np.bool_]
    weight: float


def fitted(samples: Sequence[Sample]) -> FloatArray:
    """The weights of a logistic model, the last of them its bias."""
    facts = np.concatenate([np.c_[one.facts, np.ones(len(one.facts))] for one in samples])
    right = np.concatenate([one.right for one in samples]).astype(np.float64)
    weight = np.concatenate([np.full(len(one.right), one.weight) for one in samples])
    prior = np.append(np.full(facts.shape[1] - 1, PRIOR), 0.0)
    return logistic(facts, right, weight, np.zeros(facts.shape[1]), prior)


def table(names: Sequence[str], values: FloatArray) -> dict[str, float]:
    return {name: round(float(value), 2) for name, value in zip(names, values, strict=True)}


def dictionary_of(linker: Linker) -> dictionary.NameDetector:
    detector = linker.detectors[NAME]
    assert isinstance(detector, dictionary.NameDetector)  # noqa: S101 the only one that is asked
    return detector


class Texts(NamedTuple):
    """Annotated texts of one kind with a choice of KBs, and how much a place in them weighs.

    What a text of an encyclopedia marks as a thing that the KB lacks is neither right nor wrong.
    """

    source: str
    kbs: tuple[str, ...]
    linker: Linker
    documents: list[Document]
    detector_weight: float
    judge_weight: float
    nil_is_open: bool = False

    def marked(self, document: Document) -> Marked:
        """The places of a text that are mentions, and those of which nobody said it."""
        absent = {
            (one.start, one.end)
            for one in document.mentions
            if (one.gold or self.nil_is_open)
            and not any(gold.kb in self.kbs for gold in one.gold or ())
        }
        return Marked({(one.start, one.end) for one in document.mentions} - absent, absent)


class Marked(NamedTuple):
    """The places of mentions, and those of mentions that only absent KBs have."""

    right: set[tuple[int, int]]
    absent: set[tuple[int, int]]


def places(texts: Texts) -> Sample:
    """What the dictionary knows of all places that it could propose."""
    detector = dictionary_of(texts.linker)
    facts, right = [], []
    for document in texts.documents:
        marked = texts.marked(document)
        plain = texts.linker.read(document.text)
        for found in detector.places(plain.text):
            place = plain.place(found.start, found.end)
            if place not in marked.absent:
                facts.append(found.facts)
                right.append(place in marked.right)
    return Sample(np.array(facts, dtype=np.float64), np.array(right), texts.detector_weight)


def rankings(texts: Texts) -> Iterator[list[Ranking]]:
    """For each document its proposals with their candidates."""
    for document in texts.documents:
        absent, plain = texts.marked(document).absent, texts.linker.read(document.text)
        yield [
            one
            for one in texts.linker.proposed(plain.text)
            if plain.place(one.mention.start, one.mention.end) not in absent
        ]


def judged(found: Sequence[list[Ranking]], texts: Texts) -> Sample:
    """What the judge knows of all proposals."""
    facts, right = [], []
    for own, document in zip(found, texts.documents, strict=True):
        marked = texts.marked(document).right
        for one in own:
            told = texts.linker.judge.facts(one, {})
            facts.append([told.get(name, 0.0) for name in FACTS if name != "bias"])
            right.append((one.mention.start, one.mention.end) in marked)
    return Sample(np.array(facts, dtype=np.float64), np.array(right), texts.judge_weight)


def measured(found: Sequence[list[Ranking]], texts: Texts, weights: Mapping[str, float]) -> str:
    judge = replace(texts.linker.judge, weights=weights)
    right = answers = golds = 0
    for own, document in zip(found, texts.documents, strict=True):
        marked = texts.marked(document).right
        kept = {(one.mention.start, one.mention.end) for one in judge.keep(own, None)}
        right, answers, golds = (
            right + len(kept & marked), answers + len(kept), golds + len(marked)
        )  # fmt: skip
    f1 = 2 * right / max(1, answers + golds)
    return f"P {right / max(1, answers):.3f}  R {right / max(1, golds):.3f}  F1 {f1:.3f}"


def small_texts(name: str) -> list[Document]:
    """Texts with marked mentions: [[like this]]."""
    documents: list[Document] = []
    for marked in (TEXTS / f"{name}.txt").read_text(encoding="utf-8").split("\n---\n"):
        text, mentions = "", []
        for part in re.split(r"(\[\[.+?\]\])", marked):
            surface = part[2:-2] if part.startswith("[[") else part
            if surface != part:
                mentions.append(Mention(len(text), len(text) + len(surface), surface))
            text += surface
        documents.append(Document(f"{name}-{len(documents)}", text, tuple(mentions)))
    return documents


def small_workspace(name: str, folder: Path) -> tuple[Workspace, list[Document]]:
    workspace = Workspace.open(init_workspace(folder / name))
    if name == "demo":
        for kb in ("encyclopedia", "lanternfall"):
            workspace.add_kb(kb, DEMO / f"{kb}.jsonl")
        workspace.add_kb("docs", DEMO / "documents.jsonl")
        documents = list(workspace.store.documents("docs", "train"))
    else:
        workspace.add_kb(name, TEXTS / f"{name}.csv")
        documents = small_texts(name)
    workspace.build()
    return workspace, documents


def abstracts(workspace: Workspace, name: str) -> list[Document]:
    """Documents of a source, without the mentions of chemicals that no KB here has."""
    return [
        Document(one.id, one.text, tuple(m for m in one.mentions if m.type != "Chemical"))
        for one in workspace.store.documents(name, workspace.store.learning_split(name, ""))
    ]


def choices(
    source: str,
    workspace: Workspace,
    documents: Sequence[Document],
    detector_weight: float = 1.0,
    judge_weight: float = 1.0,
) -> Iterator[Texts]:
    """The texts with every choice of the KBs, which together weigh as much as one."""
    kbs = workspace.space().kbs()
    chosen = [own for size in range(1, len(kbs) + 1) for own in combinations(kbs, size)]
    for own in chosen:
        weights = detector_weight / len(chosen), judge_weight / len(chosen)
        yield Texts(source, own, workspace.linker(own), list(documents), *weights)


def general_texts(folder: Path) -> Iterator[Texts]:
    """Sets that are annotated whole, each with both sizes of the general KB by names alone."""
    for size in SIZES:
        place = general_workspace(folder, DATA, size)
        workspace = Workspace.open(place, flags=BY_NAMES)
        workspace.build_if_stale(wait=False)
        for name, weight in GENERAL.items():
            documents = list(workspace.store.documents(name))
            linker = workspace.linker(("general",))
            yield Texts(name, ("general",), linker, documents, weight / 2, weight / 2, True)


def write(path: Path, values: Mapping[str, float]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def fit_detector(texts: Sequence[Texts]) -> dict[str, float]:
    weights = table((*Facts._fields, "bias"), fitted(list(map(places, texts))))
    for one in texts:
        dictionary_of(one.linker).weigh(weights)
    return weights


def fit_judge(texts: Sequence[Texts]) -> dict[str, float]:
    """The judge's weights; prints what they do, and what others' do that saw no such text."""
    facts = (*(name for name in FACTS if name != "bias"), "bias")
    known = {name: default_weights()[name] for name in ("known", "kind")}
    found = [list(rankings(one)) for one in texts]
    parts = [judged(own, one) for own, one in zip(found, texts, strict=True)]
    weights = table(facts, fitted(parts)) | known
    for own, one in zip(found, texts, strict=True):
        others = [
            part for part, other in zip(parts, texts, strict=True) if other.source != one.source
        ]
        rows = (
            measured(own, one, each) for each in (weights, table(facts, fitted(others)) | known)
        )
        print(f"{one.source:20} {', '.join(one.kbs):28}", "   without it  ".join(rows))
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--docs", default="pt_ncbi_train,pt_bc5cdr_training")
    parser.add_argument("--general", type=Path, help="folder of workspaces of the general KB")
    parser.add_argument("--most", type=int, default=100, help="abstracts for the judge")
    parser.add_argument("--write", action="store_true", help="write the two tables")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workspace.open(options.workspace) as workspace:
        texts = [
            one
            for name in options.docs.split(",")
            for one in choices(name, workspace, abstracts(workspace, name))
        ]
        for name, weights in WEIGHTS.items():
            texts += choices(name, *small_workspace(name, Path(folder)), *weights)
        if options.general:
            texts += general_texts(options.general)
        detector = fit_detector(texts)
        judge = fit_judge([one._replace(documents=one.documents[: options.most]) for one in texts])
        print(json.dumps({"detector": detector, "judge": judge}, indent=1))
        if options.write:
            write(Path(dictionary.__file__).with_name("weights.json"), detector)
            write(ROOT / "kglink" / "linking" / "judge.json", judge)


if __name__ == "__main__":
    main()
