"""Texts a second through a spaCy pipeline with kglink, against `Workspace.link` on the same texts.

python benchmarks/spacy_component.py [--names] [--texts N]

The texts and KBs are those of the demo; the pipeline is blank English, whose tokenizer is all that
it does besides. Both take turns in one process; the best of five counts. Seconds are those of the
processor, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import spacy

from kglink.workspace import Workspace

DATA = Path(__file__).parents[1] / "cli" / "kglink_cli" / "demo_data"
TURNS = 5


def seconds(work: Callable[[], Iterable[object]]) -> float:
    """How long all cores together work until all answers are there."""
    began = time.process_time()
    for _ in work():
        pass
    return time.process_time() - began


def main() -> None:
    """Print texts a second of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="link by names alone")
    parser.add_argument("--texts", type=int, default=400)
    asked = parser.parse_args()
    lines = (DATA / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    texts = list(islice(cycle([json.loads(line)["text"] for line in lines]), asked.texts))
    with tempfile.TemporaryDirectory() as folder:
        with Workspace.open(folder, create=True) as workspace:
            for kb in ("encyclopedia", "lanternfall"):
                workspace.add_kb(kb, DATA / f"{kb}.jsonl")
        if asked.names:
            with (Path(folder) / "kglink.toml").open("a", encoding="utf-8") as settings:
                settings.write('\n[link]\nfound_by = "names"\n')
        nlp = spacy.blank("en")
        pipe: Any = nlp.add_pipe("kglink", config={"workspace": folder})
        workspace = pipe.workspace
        runs: dict[str, Callable[[], Iterable[object]]] = {
            "workspace.link": lambda: workspace.link(texts),
            "nlp.pipe": lambda: nlp.pipe(texts),
        }
        best = {name: seconds(run) for name, run in runs.items()}
        for _ in range(TURNS):
            best = {name: min(best[name], seconds(run)) for name, run in runs.items()}
        workspace.close()
    for name, took in best.items():
        sys.stdout.write(f"{name:16} {len(texts) / took:8.1f} texts/CPU s\n")
    sys.stdout.write(f"ratio            {best['workspace.link'] / best['nlp.pipe']:8.3f}\n")


if __name__ == "__main__":
    main()
