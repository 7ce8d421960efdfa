"""`kglink show`: one entity, with all that the workspace knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kglink.text.printable import printable
from kglink_cli.console import counted, print_json, say
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from kglink.records import EntityId
    from kglink.workspace.entities import EntityView

#: How many names, children and counterparts are shown; --json has all.
MOST_SHOWN = 12


def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The entity: KB:KEY, or a key of one KB alone.")],
    examples: Annotated[int, typer.Option(help="How many mentions to show.", min=0)] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one entity: names, place in its KB, counterparts in others, mentions in documents."""
    with session_of(context).open() as workspace:
        view = workspace.entity(name, examples=examples)
    if as_json:
        print_json(view.as_json())
    else:
        say(*_lines(view))


def _lines(view: EntityView) -> Iterator[str]:
    entity = view.entity
    yield f"{view.id}  {entity.title}"
    for label, value in (("type", entity.type), ("url", entity.url)):
        if value:
            yield f"{label:10} {value}"
    names = (f"{one.surface} ({one.kind})" for one in entity.aliases if one.kind != "title")
    yield from _listed("also", names, "; ")
    if entity.description:
        yield f"{'described':10} {printable(entity.description)}"
    yield from _listed("in", (_titled(*one) for one in view.parents), "; ")
    yield from _listed("holds", (_titled(*one) for one in view.children), "; ")
    for counterpart in view.counterparts:
        said = f"judged {counterpart.verdict}" if counterpart.verdict else "not judged"
        shared = ", ".join(counterpart.shared_names) or "no name"
        probability = f"{counterpart.probability:.2f}".removeprefix("0")
        yield (
            f"{'same as':10} {_titled(counterpart.id, counterpart.title)}   {probability}, {said}; "
            f"shared: {shared}"
        )
    yield from _listed("codes", entity.xrefs, ", ")
    mentions = view.mentions
    if mentions.mentions:
        of = counted(mentions.documents, "document")
        yield f"{'mentions':10} {mentions.mentions:,} in {of}"
    for one in mentions.examples:
        yield f"{'':10} {one.kb} {one.document}: {one.left}[{one.surface}]{one.right}"


def _titled(entity: EntityId, title: str) -> str:
    return f"{entity} {title}".rstrip()


def _listed(label: str, values: Iterable[str], separator: str) -> Iterator[str]:
    every = list(values)
    if every:
        more = f"{separator}and {len(every) - MOST_SHOWN:,} more" if every[MOST_SHOWN:] else ""
        yield f"{label:10} {separator.join(every[:MOST_SHOWN])}{more}"
