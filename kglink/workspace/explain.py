"""Explaining how a mention was linked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import Span, TextInput

if TYPE_CHECKING:
    from kglink.linking.explain import Explanation
    from kglink.workspace.opened import Opened


def explain(
    opened: Opened,
    text: str,
    *,
    surface: str = "",
    span: tuple[int, int] | None = None,
    kbs: str | Sequence[str] = (),
) -> list[Explanation]:
    """Why mentions of a text are linked as they are.

    The mention is at ``span``, or wherever ``surface`` stands; of neither, all that the detector
    finds. What it finds there is answered as when the text is linked, anything else as a given
    mention. A space that is missing or older than the store is built first.
    """
    from kglink.linking.explain import Explanation

    spans = _spans(text, surface, span)
    linker = opened.fresh_linker(kbs)
    (document,) = linker.link([TextInput("", text)])
    found = {(one.start, one.end): one for one in document.links}
    links = found
    if spans is not None:
        missed = tuple(one for one in spans if (one.start, one.end) not in found)
        for given in linker.link([TextInput("", text, missed)]) if missed else ():
            links = found | {(one.start, one.end): one for one in given.links}
        links = {(one.start, one.end): links[one.start, one.end] for one in spans}
    return [
        Explanation(link, linker.scoring, linker.threshold, found=place in found)
        for place, link in links.items()
    ]


def _spans(text: str, surface: str, span: tuple[int, int] | None) -> tuple[Span, ...] | None:
    if span is not None:
        return (Span(*span),)
    if not surface:
        return None
    found = []
    at = text.find(surface)
    while at >= 0:
        found.append(Span(at, at + len(surface)))
        at = text.find(surface, at + len(surface))
    if not found:
        raise UsageError(
            f"{surface!r} does not stand in the text", hint="A surface is written as in the text."
        )
    return tuple(found)
