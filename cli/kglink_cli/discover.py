"""`kglink discover` and `kglink promote`: what texts speak of and no KB has becomes entities."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer
from rich.console import Console, Group
from rich.rule import Rule
from rich.text import Text
from typer import Argument, Option

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink.workspace.folder import LEAST_UNKNOWN, PROMOTED
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, print_table, progress, say
from kglink_cli.overlap_keys import keys
from kglink_cli.session import open_workspace, split_names

if TYPE_CHECKING:
    from kglink.linking.discovery import Discovery
    from kglink.workspace import Workspace
    from kglink.workspace.discover import JudgedDiscovery

#: Characters of a sentence in a table.
_MOST_OF_SENTENCE = 100


def discover(
    context: typer.Context,
    source: str | None = Argument(
        None, help="A file or a folder of texts; none: list what was found before."
    ),
    kb: str | None = Option(None, help="Unknown to these KBs: a,b"),
    least: float = Option(LEAST_UNKNOWN, help="Least probability that no KB has it.", min=0, max=1),
    at_least: int = Option(1, "--mentions", help="Least number of mentions to list.", min=1),
    answers: list[str] | None = Option(
        None,
        "--answer",
        help="ID=accept, ID=reject, ID=OTHER_ID (the same thing) or ID=kb:key (an entity that "
        "is there); may be repeated.",
    ),
    in_terminal: bool = Option(False, "--review", help="Judge what was found, one key for each."),
    all_: bool = Option(False, "--all", help="List what was rejected too."),
    detector: str | None = Option(None, help="What finds the mentions (`kglink plugins`)."),
    space: str | None = Option(None, help="Name of the space."),
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """Find what texts speak of and no KB has, such as people or products that are new.

    Mentions without an entity are put together by their names, abbreviations and last names
    included. Each thing keeps its id while one of its names stays. What you accept becomes an
    entity with `kglink promote`; NIL mentions of `kglink link` bear the id in the meantime.
    """
    if source is None and (kb or detector):
        raise UsageError("which texts?", hint="kglink discover FOLDER")
    flags = {"space.name": space, "link.detector": split_names(detector) or None}
    with open_workspace(context, flags) as workspace:
        if source is not None:
            ensure_space(workspace)
            with progress() as tell:
                texts = workspace.texts(source)
                found = workspace.discover(texts, split_names(kb), least=least, progress=tell)
            mentions = sum(one.discovery.mentions for one in found)
            note("found", f"{counted(len(found), 'thing')} in {counted(mentions, 'mention')}")
        for said in answers or ():
            _answer(workspace, said)
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
    kb: str = Option(PROMOTED, help="The KB that they go to."),
    as_json: bool = Option(False, "--json", help="Print JSON."),
) -> None:
    """Make entities of the discoveries that were accepted: the next `kglink link` has them.

    The names of a discovery that is an entity of a KB become other names of that entity, until the
    KB is read anew; promoting again brings them back.
    """
    with open_workspace(context) as workspace:
        with progress() as tell:
            done = workspace.promote(kb, progress=tell)
        known = workspace.store.get_entities([*done.entities, *done.renamed])
    titles = {one: entity.title for one, entity in known.items()}
    if as_json:
        shown = {one: {**one._asdict(), "title": title} for one, title in titles.items()}
        each = {"entities": done.entities, "renamed": done.renamed}
        print_json({name: [shown[one] for one in ids] for name, ids in each.items()})
        return
    for one in (*done.entities, *done.renamed):
        say(f"{printable(str(one))}  {printable(titles[one])}")
    if not (done.entities or done.renamed):
        note("nothing", "was accepted yet: kglink discover --review")


def _answer(workspace: Workspace, said: str) -> None:
    name, equals, answer = said.partition("=")
    if not equals or not answer:
        raise UsageError(
            f"--answer {said!r} says nothing of a discovery",
            hint="ID=accept, ID=reject, ID=OTHER_ID or ID=kb:key",
        )
    if answer in ("accept", "reject"):
        workspace.judge_discovery(name, answer)  # type: ignore[arg-type]  # just compared
    else:
        workspace.judge_discovery(name, "link" if ":" in answer else "merge", answer)


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
_MOST_CHOICES = 9


def review(workspace: Workspace, at_least: int = 1) -> None:
    """Show what nobody judged yet, and keep each answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "a review needs a terminal: keys are read from it, and the discoveries shown on it",
            hint="Without one: kglink discover --answer ID=accept",
        )
    found = [one for one in workspace.discovered() if one.discovery.mentions >= at_least]
    queue = [one.discovery for one in found if one.judged is None]
    if not queue:
        note("review", "nothing is left to judge")
        return
    everything = [one.discovery for one in found]
    with keys() as typed:
        at = _Reviewing(workspace, queue, everything, typed).judge()
    if at < len(queue):
        note("left", f"{counted(len(queue) - at, 'thing')} to judge; the same command goes on")


@dataclass
class _Reviewing:
    """A review that is under way."""

    workspace: Workspace
    queue: Sequence[Discovery]
    everything: Sequence[Discovery]
    typed: Iterator[str]
    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    def judge(self) -> int:
        """Go through the queue; how many were shown and answered."""
        at = 0
        while at < len(self.queue):
            one = self.queue[at]
            texts = counted(one.documents, "text")
            about = f"{counted(one.mentions, 'mention')} in {texts}, {one.confidence:.2f} unknown"
            head = Text.assemble((printable(one.title), "bold"), f"   {about}")
            if one.type:
                head.append(f"\ntype: {printable(one.type)}", style="dim")
            if names := [printable(name) for name in one.names if name != one.title]:
                head.append("\nalso: ", style="dim").append(", ".join(names))
            lines = [Text(f"  {printable(example.sentence)}") for example in one.examples]
            rule = Rule(f"{at + 1}/{len(self.queue)}  {one.id}", align="left", characters="-",
                        style="dim")  # fmt: skip
            self.console.print()
            self.console.print(Group(rule, head, *lines))
            self.console.print(KEYS, style="dim", markup=False)
            key = next((key for key in map(str.lower, self.typed) if key in "arlmszq"), "q")
            if key == "q":
                return at
            if key == "z" and at:
                at -= 1
                self.workspace.judge_discovery(self.queue[at].id, None)
                self._say("taken back")
            elif key == "z":
                self._say("there is nothing to take back")
            elif key == "s" or self._answer(one, key):
                at += 1
        return at

    def _answer(self, one: Discovery, key: str) -> bool:
        """Keep an answer; False where none was chosen after all."""
        from rapidfuzz import fuzz, process

        if key in "ar":
            accepted = key == "a"
            self.workspace.judge_discovery(one.id, "accept" if accepted else "reject")
            self._say("accepted" if accepted else "rejected")
            return True
        if key == "l":
            offered = [(str(entity), title) for entity, title in one.nearest]
        else:
            others = {other.id: other.title for other in self.everything if other.id != one.id}
            scorer = fuzz.token_set_ratio
            found = process.extract(one.title, others, scorer=scorer, limit=_MOST_CHOICES)
            offered = [(name, title) for title, _, name in found]
        chosen = self._choice(offered)
        if chosen:
            self.workspace.judge_discovery(one.id, "link" if key == "l" else "merge", chosen)
            self._say(f"is {chosen}" if key == "l" else f"merged with {chosen}")
        return bool(chosen)

    def _choice(self, offered: Sequence[tuple[str, str]]) -> str:
        """The one whose number is typed; empty: none, any other key."""
        if not offered:
            self._say("there is none to choose from")
            return ""
        for number, (name, title) in enumerate(offered[:_MOST_CHOICES], 1):
            self.console.print(
                Text.assemble(f"  {number}  ", (printable(name), "cyan"), f"  {printable(title)}")
            )
        self.console.print("which one? any other key: none", style="dim")
        key = next(self.typed, "")
        chosen = int(key) - 1 if key.isdecimal() else -1
        return offered[chosen][0] if 0 <= chosen < len(offered[:_MOST_CHOICES]) else ""

    def _say(self, what: str) -> None:
        self.console.print(what, style="bold", markup=False)
