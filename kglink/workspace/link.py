"""Linking texts, searching, and fitting how evidence is weighed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kglink.records import Candidate, Document, LinkedDocument, OnProgress, TextInput
from kglink.workspace.build import build_if_stale

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring
    from kglink.workspace.opened import Opened


def link(
    opened: Opened, texts: str | TextInput | Iterable[TextInput | str], kbs: Sequence[str] = ()
) -> Iterator[LinkedDocument]:
    """Link a text, or several, to the space; plain strings are numbered.

    A space that is missing or older than the store is built first.
    """
    given = [texts] if isinstance(texts, str | TextInput) else texts
    build_if_stale(opened)
    return opened.linker(kbs).link(
        TextInput(str(number), text) if isinstance(text, str) else text
        for number, text in enumerate(given, 1)
    )


def search(opened: Opened, text: str, *, k: int = 10, kbs: Sequence[str] = ()) -> list[Candidate]:
    """The entities of the space that a text names or describes, best first.

    A space that is missing or older than the store is built first.
    """
    from kglink.workspace.links import search

    build_if_stale(opened)
    space = opened.space()
    return search(space, opened.encoder, opened.registry, text, k, space.kbs(kbs))


def fit_scoring(
    opened: Opened,
    documents: Iterable[Document],
    *,
    progress: OnProgress = lambda _: None,
) -> Scoring:
    """Fit how the space of a trained model weighs evidence, on mentions with known answers.

    They must not be those that the model was trained on: it knows these too well. What was
    fitted is kept beside the space, for as long as it has this model.
    """
    from kglink.workspace.links import fit_space

    parts = (opened.space(), opened.encoder, opened.settings.link, opened.registry)
    return fit_space(*parts, documents, progress)
