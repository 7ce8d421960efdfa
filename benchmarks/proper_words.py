"""Writes `kglink/models/proper_words.txt`: frequent English words that texts write with a capital.

    python benchmarks/proper_words.py FILE ...

FILE is any text, JSON lines, PubTator or MediaWiki XML, packed with gzip or bzip2 or not; its signs
and keys do no harm. A word of MiniLM's vocabulary is taken where it was seen three times at least
inside of sentences, nine of ten times with a capital. Words in capitals do not count.

Made of the descriptions of the general KB, two small Wikipedias, the wikis of Zeshel's sample, the
texts of a Fandom wiki, the train abstracts of diseases and `wned-wiki`: 1.6 million words.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kglink.models import word_ranks

LEAST_SEEN = 3
LEAST_SHARE = 0.9
DATES = frozenset((
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december", "monday", "tuesday", "wednesday", "thursday", "friday",
    "saturday", "sunday",
))  # fmt: skip
_MARKUP = re.compile(r"\{\{[^{}]*\}\}|<[^>]*>|\[\[(?:[^\[\]|]*\|)?|\]\]|'''?|==+")
_WORD_OR_END = re.compile(r"[.!?:;\n\"“(—–]|[^\W\d_]+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    lower, capital = Counter[str](), Counter[str]()
    for path in parser.parse_args().files:
        for word in inner_words(path):
            if word.islower():
                lower[word] += 1
            elif word[0].isupper() and word[1:].islower():
                capital[word.lower()] += 1
    found = sorted(
        word
        for word, rank in word_ranks.word_ranks().items()
        if rank <= word_ranks.MOST_RANKED
        and word not in DATES
        and capital[word] >= LEAST_SEEN
        and capital[word] >= LEAST_SHARE * (capital[word] + lower[word])
    )
    target = Path(word_ranks.__file__).with_name("proper_words.txt")
    target.write_text("\n".join(found) + "\n", encoding="utf-8")
    print(f"{len(found):,} words of {sum(lower.values()) + sum(capital.values()):,} read")


def inner_words(path: Path) -> Iterator[str]:
    """The words of a file that begin no sentence."""
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            first = True
            for found in _WORD_OR_END.finditer(_MARKUP.sub("", line)):
                if not found[0].isalpha():
                    first = True
                    continue
                if not first:
                    yield found[0]
                first = False


if __name__ == "__main__":
    main()
