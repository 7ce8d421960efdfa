"""`kglink search`, `show` and `explain`: entities, and why a mention was linked as it was."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from kglink.errors import UsageError
from kglink.sources import Problems
from kglink.text.printable import printable
from kglink_cli import shared
from kglink_cli.build import ensure_space, tell_names_alone
from kglink_cli.console import counted, note, print_json, print_table, say
from kglink_cli.session import limit_flags, open_workspace, split_names, tell_reranker, tell_stages

if TYPE_CHECKING:
    from kglink.records import EntityId
    from kglink.workspace.entities import EntityView


def search(
    context: typer.Context,
    text: str = Argument(..., help="A name, or a description in words."),
    kb: shared.KBNames = None,
    types: shared.Types = None,
    under: shared.Under = None,
    not_under: shared.NotUnder = None,
    top_k: int = Option(10, "--top-k", "-k", help="Number of entities to show.", min=1),
    space: shared.SpaceName = None,
    as_json: shared.AsJson = False,
) -> None:
    """Find entities that a text names or describes, in all KBs."""
    from kglink.workspace.link import found_shape

    flags = {
        "link.kbs": split_names(kb) or None,
        "space.name": space,
        **limit_flags(types, under, not_under),
    }
    with open_workspace(context, flags) as workspace:
        ensure_space(workspace)
        published = workspace.space()
        tell_names_alone(workspace, published, workspace.linked_kbs(published))
        found = workspace.search(text, k=top_k)
        facts = workspace.store.get_entities([one.id for one in found])
    if as_json:
        print_json(found_shape(found, facts))
    elif found:
        described = {key: entity.description for key, entity in facts.items()}
        rows = [
            [f"{one.score:.2f}", str(one.id), one.title, described.get(one.id, "")[:100]]
            for one in found
        ]
        print_table(("score", "entity", "title", "description"), rows)
    else:
        note("nothing", "no entity is like that")


#: How many names, children and counterparts are shown; --json has all.
MOST_SHOWN = 12


def show(
    context: typer.Context,
    name: str = Argument(..., help="The entity: KB:KEY, or a key of one KB alone."),
    examples: int = Option(3, help="How many mentions to show.", min=0),
    as_json: shared.AsJson = False,
) -> None:
    """Show one entity: names, place in its KB, counterparts in others, mentions in documents."""
    with open_workspace(context) as workspace:
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
        named = ", ".join(counterpart.shared_names) or "no name"
        probability = f"{counterpart.probability:.2f}".removeprefix("0")
        yield (
            f"{'same as':10} {_titled(counterpart.id, counterpart.title)}   {probability}, {said}; "
            f"shared: {named}"
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


_SPAN = re.compile(r"(\d+):(\d+)")


def explain(
    context: typer.Context,
    text: str = Argument(
        ..., help="The text, or - for standard input, read as `kglink link` does."
    ),
    surface: str = Option("", "--surface", "-s", help="The mention's words, at any place."),
    span: str = Option("", help="The mention's characters: START:END, from 0."),
    kb: shared.KBNames = None,
    types: shared.Types = None,
    under: shared.Under = None,
    not_under: shared.NotUnder = None,
    top_k: shared.TopK = None,
    threshold: float | None = Option(None, help="Least probability of a link."),
    rerank: shared.Rerank = None,
    encoding: shared.Encoding = None,
    space: shared.SpaceName = None,
    as_json: shared.AsJson = False,
) -> None:
    """Show why a mention is linked as it is: the evidence of each candidate.

    A cell shows the value of the evidence, and what it adds to the score: the value times its
    weight. Lines below say what decided, and what would change the answer.
    """
    if surface and span:
        raise UsageError("--surface and --span both say where the mention is", hint="Give one.")
    place = _SPAN.fullmatch(span)
    if span and not place:
        raise UsageError(f"--span {span!r} is no place", hint="Write START:END, such as 3:9.")
    if os.path.isfile(text):  # noqa: PTH113 - of a text that is no path it says no
        raise UsageError(
            f"{text!r} is a file, not a text", hint=f"kglink explain - < {shlex.quote(text)}"
        )
    flags = {
        **limit_flags(types, under, not_under),
        "link.top_k": top_k,
        "link.threshold": threshold,
        "link.rerank_top": rerank,
        "ingest.encoding": encoding,
        "space.name": space,
    }
    with open_workspace(context, flags) as workspace:
        # Standard input is read as `kglink link` reads it: the offsets are the same.
        read = workspace.texts("-", problems=Problems(how_to_skip="")) if text == "-" else ()
        texts = [one.text for one in read] if text == "-" else [text]
        if len(texts) != 1:
            raise UsageError(f"standard input holds {len(texts):,} texts", hint="Give it one.")
        ensure_space(workspace)
        tell_reranker(workspace)
        found = workspace.explain(
            texts[0],
            surface=surface,
            span=(int(place[1]), int(place[2])) if place else None,
            kbs=split_names(kb),
        )
        tell_stages(workspace)
    if as_json:
        print_json([one.as_json() for one in found])
        return
    for number, one in enumerate(found):
        if number:
            say("")
        link = one.link
        say(f"{link.surface}  characters {link.start} to {link.end}")
        if link.candidates:
            columns, rows = one.evidence()
            print_table(columns, rows)
        say(*one.verdict())
    if not found:
        note("nothing", "no mention was found; --surface or --span says where it is")
