"""Names alone, vectors alone, and both: R@1 per KB on the disease corpora, and linking speed.

    python benchmarks/fusion.py ../shared/data/disease [--keep FOLDER]

Adds DOID, NCIT and HP, builds the space, and ranks the gold mentions of the dev documents with
three sets of weights. Weights and calibration were chosen on the train documents. The mentions'
places are given; a KB's figure is over the mentions that have an answer in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kglink import TextInput, Workspace
from kglink.evaluation.measures.retrieval import Figures
from kglink.evaluation.rankings import JOINT, JUDGED_JOINT, rank_mentions
from kglink.linking.candidates import CandidateSearch
from kglink.linking.kinds import Weights
from kglink.linking.pipeline import Linker
from kglink.linking.reading import MentionReader
from kglink.linking.scoring import ALIAS_SCORING, PLAIN_SCORING, Scoring
from kglink.space.space import Space

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from disease_kbs import KB_FILES, write_disease_jsonl

CORPORA = ("ncbi_dev", "bc5cdr_dev")
KBS = tuple(KB_FILES)
RANKS = (1, 5, 32)
WEIGHTS = {
    "names alone": Weights.of(similar=0.85, title=0.15),
    "alias vectors alone": ALIAS_SCORING.weights,
    "both": PLAIN_SCORING.weights,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    parser.add_argument("--keep", type=Path, help="workspace to keep, or to use again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made) / "workspace"
        with Workspace.open(folder, create=True, flags={"ingest.on_error": "skip"}) as workspace:
            prepare(workspace, arguments.disease)
            measure(workspace)


def prepare(workspace: Workspace, disease: Path) -> None:
    """Add the KBs and corpora, and build the space, where that was not done before."""
    for kb in KBS:
        source = write_disease_jsonl(kb, disease, workspace.folder / f"{kb}.jsonl")
        print("add-kb", workspace.add_kb(kb, source).summary)
    for corpus in CORPORA:
        source = disease / "mentions" / f"{corpus}.jsonl.gz"
        added = workspace.add_kb(corpus, source, links_to=KBS, split="dev")
        print("add-kb", corpus, added.summary, dict(added.problems.counts))
    began = time.monotonic()
    report = workspace.build()
    seconds = time.monotonic() - began
    print(f"build  {report.encoded_rows:,} vectors in {seconds:.1f} s")


def measure(workspace: Workspace) -> None:
    """Print recall for each set of weights, and the speed of linking."""
    space = workspace.space()
    for corpus in CORPORA:
        print(f"\n{corpus:22}", *(f"{kb:>14} " for kb in (*KBS, "mean", "joint", "judged")))
        for name, weights in WEIGHTS.items():
            linker = linker_with(workspace, space, weights)
            documents = workspace.store.documents(corpus, "dev")
            report = Figures(RANKS)
            for mention in rank_mentions(linker, documents, KBS, max(RANKS)):
                report.add(mention)
            recalls = [report.recall(kb) for kb in KBS]
            mean = {rank: sum(one[rank] for one in recalls) / len(KBS) for rank in recalls[0]}
            shown = [*recalls, mean, report.recall(JOINT), report.recall(JUDGED_JOINT)]
            cells = ("/".join(f"{share:.3f}"[1:] for share in one.values()) for one in shown)
            print(f"{name:22}", *(f"{cell:>15}" for cell in cells))
    texts = [TextInput(d.id, d.text) for d in islice(abstracts(workspace), 300)]
    linker = workspace.linker(space=space)
    list(linker.link(texts[:5]))
    began = time.monotonic()
    mentions = sum(len(document.links) for document in linker.link(texts))
    seconds = time.monotonic() - began
    print(f"\nlink   {mentions:,} detected mentions in {seconds:.1f} s: {mentions / seconds:.0f}/s")


def linker_with(workspace: Workspace, space: Space, weights: Weights) -> Linker:
    """A linker that scores with these weights."""
    link = workspace.settings.link
    reader = MentionReader(workspace.encoder, link.window_chars)
    scoring = Scoring(weights)
    search = CandidateSearch(space, reader, candidates=link.candidates, scoring=scoring)
    plain = workspace.linker(space=space)
    return Linker(search, lambda: plain.detectors, workspace.store, KBS, link, judge=plain.judge)


def abstracts(workspace: Workspace) -> Iterator[TextInput]:
    """The contexts of the BC5CDR mentions as texts."""
    for document in workspace.store.documents("bc5cdr_dev"):
        yield TextInput(document.id, document.text)


if __name__ == "__main__":
    main()
