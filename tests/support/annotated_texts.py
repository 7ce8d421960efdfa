"""Three annotated texts of two KBs, and predictions of them read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.answer_files import read_predictions
from kglink.evaluation.end_to_end import Answer
from kglink.records import EntityId, Mention

ADA = EntityId("a", "1")
FIRST = "Ada met 🌊 Bob."
TEXTS = [
    AnnotatedText(
        "docs", ("1", "1b"), FIRST, (Mention(0, 3, "Ada", (ADA,)), Mention(10, 13, "Bob", ()))
    ),
    AnnotatedText("docs", ("2",), "Ada left.", (Mention(0, 3, "Ada", (ADA,)),)),
    AnnotatedText("docs", ("3",), "Nothing.", ()),
]


class Known:
    """A store that has a few entities, one with a web address, which two KBs share."""

    def existing(self, ids: Iterable[EntityId]) -> set[EntityId]:
        return {one for one in ids if one.key in "1237"}

    def at_addresses(self, urls: Iterable[str]) -> dict[str, list[EntityId]]:
        at = {"https://a.example/1": [ADA], "https://b.example/": [ADA, EntityId("b", "1")]}
        return {url: at[url] for url in urls if url in at}


def read_file(path: Path, texts: Sequence[AnnotatedText] = TEXTS) -> list[list[Answer]]:
    return read_predictions(path, texts, {"a", "b"}, Known())
