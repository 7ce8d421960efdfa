"""How frequent English words are, and which of them are written with a capital."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kglink.models.opening import packaged_minilm

#: A word that is not among this number of words is as rare as any.
MOST_RANKED = 25_000


@cache
def word_ranks() -> Mapping[str, int]:
    """The place of each whole word in the vocabulary of MiniLM, the most frequent word first.

    The vocabulary was made from English texts of all kinds, words in the order of frequency.
    """
    tokenizer = json.loads((packaged_minilm() / "tokenizer.json").read_text(encoding="utf-8"))
    places: Mapping[str, int] = tokenizer["model"]["vocab"]
    words = (word for word in sorted(places, key=places.__getitem__) if word.isalpha())
    return {word: rank for rank, word in enumerate((one for one in words if len(one) > 1), 1)}


@cache
def proper_words() -> frozenset[str]:
    """Frequent words that English texts write with a capital: ``poland``, ``chicago``.

    Made by `benchmarks/proper_words.py`. The months and the days of the week are not among them: a
    text that has one seldom means the thing of that name.
    """
    table = files("kglink.models").joinpath("proper_words.txt")
    return frozenset(table.read_text(encoding="utf-8").split())


def commonness(word: str) -> float:
    """From 0 of a name, or of a word that is not ranked, to 1 of the most frequent word.

    In orders of magnitude. ``word`` is in lower case.
    """
    rank = None if word in proper_words() else word_ranks().get(word)
    return 0.0 if rank is None else max(0.0, 1 - math.log(rank) / math.log(MOST_RANKED))
