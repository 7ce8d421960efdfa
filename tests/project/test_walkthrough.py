"""The walk-through, typed word for word on the public files, where they are there."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from snippets import PageRunner, blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"
FILES = "files that do not come with kglink"
CORPORA = ("ncbi_devel", "bc5cdr_development")
ABSTRACTS = ("6504332", "6794356", "8825599", "8917548", "16157917")
#: Trains every model of the page as well: many hours without a GPU.
WHOLE = bool(os.environ.get("KGLINK_TEST_HOURS"))


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.timeout(86_400 if WHOLE else 900)
def test_the_walk_through_does_what_it_says(realdata: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    runner = PageRunner(tmp_path, timeout_s=36_000 if WHOLE else 480)
    (work / "disease").symlink_to(realdata / "disease")
    (work / "abstracts").mkdir()
    for name, text in abstracts(realdata / "disease" / "corpora"):
        (work / "abstracts" / f"{name}.txt").write_text(text, encoding="utf-8")
    runs = [
        replace(block, no_run="") if block.no_run == FILES or WHOLE else block
        for block in blocks_of(PAGE)
    ]
    assert sum(not block.no_run for block in runs) >= 3
    runner.run(runs)


def abstracts(corpora: Path) -> Iterator[tuple[str, str]]:
    """The abstracts that the page links, each with its title on a line of its own."""
    for corpus in CORPORA:
        with gzip.open(corpora / f"{corpus}.PubTator.txt.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                name, _, title = line.rstrip("\n").partition("|t|")
                if name in ABSTRACTS:
                    yield name, f"{title}\n{next(lines).rstrip().partition('|a|')[2]}\n"
