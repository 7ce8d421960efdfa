"""Texts of another kind are known by their words: demo and disease abstracts, crossed."""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from kglink.models.tag_inputs import unknown_share, vocabulary


def demo_texts() -> list[str]:
    lines = files("kglink_cli").joinpath("demo_data", "documents.jsonl").read_text("utf-8")
    return [json.loads(line)["text"] for line in lines.splitlines()]


def abstracts(realdata: Path) -> list[str]:
    corpus = realdata / "disease" / "corpora" / "ncbi_devel.PubTator.txt.gz"
    lines = gzip.decompress(corpus.read_bytes()).decode().splitlines()
    return [line.split("|a|", 1)[1] for line in lines if "|a|" in line]


def share_of_foreign(own: list[str], others: list[str]) -> float:
    """How many other texts are foreign where a detector has learnt from most of its own."""
    most = len(own) * 9 // 10
    known = vocabulary(own[:most])
    usual = np.quantile([unknown_share(text, known) for text in own[most:]], 0.99)
    return float(np.mean([unknown_share(text, known) > usual for text in others]))


def test_demo_and_disease_texts_are_foreign_to_each_other(realdata: Path) -> None:
    demo, disease = demo_texts(), abstracts(realdata)
    assert share_of_foreign(demo, disease) > 0.9
    assert share_of_foreign(disease, demo) > 0.6  # of a corpus ten times as large: 0.92
    assert share_of_foreign(disease, disease[-10:]) < 0.2


def test_the_share_of_unknown_words() -> None:
    known = vocabulary(["The amber heron, the Grey wren", "and the river in the north"])
    words = "amber heron grey wren the river north and"
    assert unknown_share(words, known) == 0
    assert unknown_share(words.upper(), known) == 0
    assert unknown_share(f"{words} kestrel crow", known) == pytest.approx(0.2)
    # A few words say nothing, nor do numbers and single letters.
    assert unknown_share("kestrel crow", known) == 0
    assert unknown_share("12 a 3 b 4 c 5 d 6 e", known) == 0
    assert unknown_share(words, vocabulary([])) == 0
