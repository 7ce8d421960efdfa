"""Three annotated texts of two KBs, and predictions of them read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.measures.end_to_end import Answer
from kglink.evaluation.predictions import read_predictions
from kglink.plugins import load_registry
from kglink.records import EntityId, Mention
from kglink.store import Store

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

    def named(
        self, texts: Iterable[str], kbs: Sequence[str], resolve: str
    ) -> dict[str, list[EntityId]]:
        at = {"https://a.example/1": [ADA], "https://b.example/": [ADA, EntityId("b", "1")]}
        at |= {"a:1": [ADA], "2": [EntityId("a", "2")]}
        return {name: at[name] for name in texts if name in at and resolve == "key"}


def read_file(path: Path, texts: Sequence[AnnotatedText] = TEXTS) -> list[list[Answer]]:
    return read_predictions(
        path, load_registry(only="builtin"), texts, ["a", "b"], cast("Store", Known())
    )
