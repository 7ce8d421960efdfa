"""A person says what discoveries are, one key for each; every answer is kept at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.rule import Rule
from rich.text import Text

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink_cli.console import counted, note
from kglink_cli.overlap_keys import keys

if TYPE_CHECKING:
    from kglink.linking.discovery import Discovery
    from kglink.workspace import Workspace

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


class _Reviewing:
    """A review that is under way."""

    def __init__(
        self,
        workspace: Workspace,
        queue: Sequence[Discovery],
        everything: Sequence[Discovery],
        typed: Iterator[str],
    ) -> None:
        self._workspace = workspace
        self._queue = queue
        self._everything = everything
        self._typed = typed
        self._console = Console(stderr=True, highlight=False)

    def judge(self) -> int:
        """Go through the queue; how many were shown and answered."""
        at = 0
        while at < len(self._queue):
            one = self._queue[at]
            self._show(one, at)
            key = next((key for key in map(str.lower, self._typed) if key in "arlmszq"), "q")
            if key == "q":
                return at
            if key == "z":
                at = self._undo(at)
            elif key == "s" or self._answer(one, key):
                at += 1
        return at

    def _answer(self, one: Discovery, key: str) -> bool:
        """Keep an answer; False where none was chosen after all."""
        if key == "a":
            self._workspace.judge_discovery(one.id, "accept")
            self._say("accepted")
        elif key == "r":
            self._workspace.judge_discovery(one.id, "reject")
            self._say("rejected")
        elif key == "l":
            entity = self._choice([(str(id_), title) for id_, title in one.nearest])
            if not entity:
                return False
            self._workspace.judge_discovery(one.id, "link", entity)
            self._say(f"is {entity}")
        else:
            other = self._choice(self._alike(one))
            if not other:
                return False
            self._workspace.judge_discovery(one.id, "merge", other)
            self._say(f"merged with {other}")
        return True

    def _undo(self, at: int) -> int:
        if not at:
            self._say("there is nothing to take back")
            return at
        self._workspace.judge_discovery(self._queue[at - 1].id, None)
        self._say("taken back")
        return at - 1

    def _alike(self, one: Discovery) -> list[tuple[str, str]]:
        """The other discoveries whose names are most alike."""
        from rapidfuzz import fuzz, process

        others = {other.id: other.title for other in self._everything if other.id != one.id}
        found = process.extract(one.title, others, scorer=fuzz.token_set_ratio, limit=_MOST_CHOICES)
        return [(name, title) for title, _, name in found]

    def _choice(self, offered: Sequence[tuple[str, str]]) -> str:
        """The one whose number is typed; empty: none, any other key."""
        if not offered:
            self._say("there is none to choose from")
            return ""
        for number, (name, title) in enumerate(offered[:_MOST_CHOICES], 1):
            self._console.print(
                Text.assemble(f"  {number}  ", (printable(name), "cyan"), f"  {printable(title)}")
            )
        self._console.print("which one? any other key: none", style="dim")
        key = next(self._typed, "")
        chosen = int(key) - 1 if key.isdecimal() else -1
        return offered[chosen][0] if 0 <= chosen < len(offered[:_MOST_CHOICES]) else ""

    def _show(self, one: Discovery, at: int) -> None:
        texts = counted(one.documents, "text")
        about = f"{counted(one.mentions, 'mention')} in {texts}, {one.confidence:.2f} unknown"
        head = Text.assemble((printable(one.title), "bold"), f"   {about}")
        if one.type:
            head.append(f"\ntype: {printable(one.type)}", style="dim")
        if names := [printable(name) for name in one.names if name != one.title]:
            head.append("\nalso: ", style="dim").append(", ".join(names))
        lines = [Text(f"  {printable(example.sentence)}") for example in one.examples]
        rule = Rule(f"{at + 1}/{len(self._queue)}  {one.id}", align="left", characters="-",
                    style="dim")  # fmt: skip
        self._console.print()
        self._console.print(Group(rule, head, *lines))
        self._console.print(KEYS, style="dim", markup=False)

    def _say(self, what: str) -> None:
        self._console.print(what, style="bold", markup=False)
