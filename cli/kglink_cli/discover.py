"""`kglink discover` and `kglink promote`: what texts speak of and no KB has becomes entities."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console
from rich.text import Text
from typer import Argument, Option

from kglink.errors import UnknownNameError, UsageError
from kglink.text.printable import printable
from kglink.workspace.folder import LEAST_UNKNOWN, PROMOTED
from kglink_cli import shared
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, print_table, progress, say
from kglink_cli.session import open_workspace, split_names
from kglink_cli.terminal import (
    MOST_CHOICES,
    choices,
    keys,
    require_terminal,
    review_console,
    show_card,
)

if TYPE_CHECKING:
    from kglink.linking.discovery import Discovery
    from kglink.workspace import Workspace
    from kglink.workspace.discover import JudgedDiscovery
    from kglink.workspace.discoveries import DiscoveryAnswer

#: Characters of a sentence in a table.
_MOST_OF_SENTENCE = 100


def discover(
    context: typer.Context,
    source: str | None = Argument(
        None, help="A file or a folder of texts; without it: list what was found before."
    ),
    kb: list[str] | None = Option(None, help="Find what these KBs lack; by default all KBs: a,b"),
    least: float = Option(LEAST_UNKNOWN, help="Least probability that no KB has it.", min=0, max=1),
    at_least: int = Option(1, "--mentions", help="Least number of mentions to list.", min=1),
    answers: list[str] | None = Option(
        None,
        "--answer",
        help="ID=accept, ID=reject, ID=OTHER_ID (the same thing) or ID=kb:key (an entity that "
        "is there); may be repeated.",
    ),
    in_terminal: bool = Option(False, "--review", help="Judge what was found, one key for each."),
    all_: bool = Option(False, "--all", help="Also list what was rejected."),
    detector: shared.Detector = None,
    space: shared.SpaceName = None,
    as_json: shared.AsJson = False,
) -> None:
    """Find things that texts mention and no KB has, such as new people or products.

    Mentions without an entity are grouped by their names, with abbreviations and last names.
    A thing keeps its id as long as one of its names stays. `kglink promote` makes entities of the
    things that you accept; until then, NIL mentions of `kglink link` have the id.
    """
    if source is None and (kb or detector):
        raise UsageError("which texts?", hint="kglink discover FOLDER")
    flags = {"space.name": space, "link.detector": split_names(detector) or None}
    read = [_answer(one) for one in answers or ()]
    with open_workspace(context, flags) as workspace:
        if source is None:
            known = {one.discovery.id for one in workspace.discovered()}
            for name, *_ in read:  # before the first answer is kept
                if name not in known:
                    hint = "List them: kglink discover"
                    raise UnknownNameError("discovery", name, known, hint=hint)
        else:
            ensure_space(workspace)
            with progress() as tell:
                texts = workspace.texts(source)
                found = workspace.discover(texts, split_names(kb), least=least, progress=tell)
            mentions = sum(one.discovery.mentions for one in found)
            note("found", f"{counted(len(found), 'thing')} in {counted(mentions, 'mention')}")
        for said in read:
            workspace.judge_discovery(*said)
        if in_terminal:
            review(workspace, at_least)
        found = workspace.discovered()
    shown = [
        one
        for one in found
        if one.discovery.mentions >= at_least
        and (all_ or one.judged is None or one.judged.answer != "reject")
    ]
    if as_json:
        print_json([one.as_json() for one in shown])
    elif shown:
        _print(shown)
    else:
        note("nothing", "no text was found to speak of what no KB has")


def promote(
    context: typer.Context,
    kb: str = Option(PROMOTED, help="The KB that they go to; what is in another stays there."),
    as_json: shared.AsJson = False,
) -> None:
    """Turn accepted discoveries into entities, which the next `kglink link` uses.

    If you answered that a discovery is an entity of a KB, its names become aliases of that entity.
    An update of the KB removes them; promote again to add them.
    """
    with open_workspace(context) as workspace:
        with progress() as tell:
            done = workspace.promote(kb, progress=tell)
        known = workspace.store.get_entities([*done.entities, *done.renamed])
    titles = {one: entity.title for one, entity in known.items()}
    if as_json:
        shown = {one: {**one._asdict(), "title": title} for one, title in titles.items()}
        each = {"entities": done.entities, "renamed": done.renamed}
        kept = {name: [shown[one] for one in ids] for name, ids in each.items()}
        removed = [one._asdict() for one in done.removed]
        print_json({**kept, "removed": removed, "lost": done.lost})
        return
    for one in (*done.entities, *done.renamed):
        say(f"{printable(str(one))}  {printable(titles[one])}")
    for one in done.removed:
        note("removed", f"{printable(str(one))}: it is accepted no longer")
    for name in done.lost:
        fix = f"kglink discover --answer {name}=accept, or {name}=kb:key"
        note("gone", f"the entity that {name} is linked to; if it does not come back: {fix}")
    if not (done.entities or done.renamed or done.removed or done.lost):
        note("nothing", "was accepted yet: kglink discover --review")


def _answer(said: str) -> tuple[str, DiscoveryAnswer, str]:
    """The discovery, the answer, and what it is merged with or linked to."""
    name, equals, answer = said.partition("=")
    if not equals or not answer:
        raise UsageError(
            f"--answer {said!r} says nothing of a discovery",
            hint="ID=accept, ID=reject, ID=OTHER_ID or ID=kb:key",
        )
    if answer in ("accept", "reject"):
        return name, cast("DiscoveryAnswer", answer), ""
    return name, "link" if ":" in answer else "merge", answer


def _print(found: Sequence[JudgedDiscovery]) -> None:
    columns = ("id", "title", "type", "mentions", "texts", "sure", "answer", "a sentence")
    rows = []
    for one in found:
        made, said = one.discovery, one.judged
        sentence = made.examples[0].sentence if made.examples else ""
        rows.append(
            [
                made.id,
                printable(made.title, _MOST_OF_SENTENCE),
                printable(made.type),
                f"{made.mentions:,}",
                f"{made.documents:,}",
                f"{made.confidence:.2f}",
                f"{said.answer} {said.into}".strip() if said else "",
                printable(sentence, _MOST_OF_SENTENCE),
            ]
        )
    print_table(columns, rows, right=(3, 4, 5))
    if sys.stdout.isatty() and any(one.judged is None for one in found):
        note("next", "kglink discover --review, then kglink promote")


KEYS = "[a]ccept  [r]eject  [l]ink to an entity  [m]erge  [s]kip   [z] undo  [q]uit"


def review(workspace: Workspace, at_least: int = 1) -> None:
    """Show what nobody judged yet, and keep each answer."""
    require_terminal("discoveries", "Without one: kglink discover --answer ID=accept")
    found = [one for one in workspace.discovered() if one.discovery.mentions >= at_least]
    titles = {one.discovery.id: one.discovery.title for one in found}
    queue = [one.discovery for one in found if one.judged is None]
    if not queue:
        note("review", "nothing is left to judge")
        return
    console, at = review_console(), 0
    with keys() as typed:
        while at < len(queue):
            one = queue[at]
            show_card(console, f"{at + 1}/{len(queue)}  {one.id}", *_card(one), keys=KEYS)
            key = next((key for key in map(str.lower, typed) if key in "arlmszq"), "q")
            said = "skipped"
            if key == "q":
                break
            if key == "z" and at:
                workspace.judge_discovery(queue[at - 1].id, None)
                said = "taken back"
            elif key == "z":
                said = "there is nothing to take back"
            elif key in "ar":
                said = "accepted" if key == "a" else "rejected"
                workspace.judge_discovery(one.id, "accept" if key == "a" else "reject")
            elif key in "lm":
                offered = one.nearest if key == "l" else _alike(one, titles)
                chosen = _chosen(console, typed, [(str(name), title) for name, title in offered])
                if not chosen:
                    continue
                workspace.judge_discovery(one.id, "link" if key == "l" else "merge", chosen)
                said = f"is {chosen}" if key == "l" else f"merged with {chosen}"
            console.print(said, style="bold", markup=False)
            at = max(0, at + (-1 if key == "z" else 1))
    if at < len(queue):
        note("left", f"{counted(len(queue) - at, 'thing')} to judge; the same command goes on")


def _card(one: Discovery) -> Iterator[Text]:
    texts = counted(one.documents, "text")
    about = f"{counted(one.mentions, 'mention')} in {texts}, {one.confidence:.2f} unknown"
    head = Text.assemble((printable(one.title), "bold"), f"   {about}")
    if one.type:
        head.append(f"\ntype: {printable(one.type)}", style="dim")
    if names := [printable(name) for name in one.names if name != one.title]:
        head.append("\nalso: ", style="dim").append(", ".join(names))
    yield head
    for example in one.examples:
        yield Text(f"  {printable(example.sentence)}")


def _alike(one: Discovery, titles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Other discoveries, by how much their titles are like that of one."""
    from rapidfuzz import fuzz, process

    others = {name: title for name, title in titles.items() if name != one.id}
    scorer = fuzz.token_set_ratio
    found = process.extract(one.title, others, scorer=scorer, limit=MOST_CHOICES)
    return [(name, title) for title, _, name in found]


def _chosen(console: Console, typed: Iterator[str], offered: Sequence[tuple[str, str]]) -> str:
    """The one whose number is typed; empty: none, any other key."""
    if not offered:
        console.print("there is none to choose from", style="bold")
        return ""
    offered = offered[:MOST_CHOICES]
    for line in choices((*one, "") for one in offered):
        console.print(line)
    console.print("which one? any other key: none", style="dim")
    key = next(typed, "")
    number = int(key) if key.isdecimal() else 0
    return offered[number - 1][0] if 1 <= number <= len(offered) else ""
