"""Linking texts and searching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kglink.records import Candidate, LinkedDocument, TextInput
from kglink.workspace.build import build_if_stale

if TYPE_CHECKING:
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
