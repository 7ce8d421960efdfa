"""`kglink learn`, `forget`, `fit` and `review`: what documents and people say, without training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from typer import Argument, Option

from kglink.errors import KglinkError, UsageError
from kglink.records import CORRECTIONS, EntityId
from kglink.text.printable import printable
from kglink.workspace.folder import PROMOTED
from kglink_cli import shared
from kglink_cli.build import ensure_space
from kglink_cli.console import counted, note, print_json, progress, say, say_cells
from kglink_cli.session import open_workspace, split_names
from kglink_cli.terminal import MOST_CHOICES, choices, keys, review_console, show_card, typed_line

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring
    from kglink.store.memory import Learnt
    from kglink.workspace import Workspace
    from kglink.workspace.memory import Correction
    from kglink.workspace.review import LinkReview, LinkToReview

#: What `fit` fits, each with the values in which a change of it is seen.
_FITTED: Mapping[str, Callable[[Scoring], object]] = {
    "the weights of evidence": lambda one: (one.weights, one.weights_by_kb),
    "how sure answers are": lambda one: (
        one.calibration, one.calibration_by_kb, one.presence, one.presence_by_kb,
    ),
    "the judge of which words are mentions": lambda one: one.spans,
    "the threshold": lambda one: one.threshold,
}  # fmt: skip

Docs = Annotated[list[str], Argument(help="KBs of annotated documents: a b, or a,b.")]
Split = Annotated[
    str, Option("--split", help="train, dev or test; else train, or all if none is train.")
]


def learn(
    context: typer.Context,
    docs: list[str] = Argument(
        (), help="KBs of annotated documents: a b, or a,b; without it: list what was learnt."
    ),
    split: Split = "",
    as_json: shared.AsJson = False,
) -> None:
    """Remember what words mean in annotated documents; the next link uses it.

    It takes seconds, and no model is trained. If you learn the same documents again, the new
    result replaces the old one. The order in which documents are learnt changes nothing.
    """
    names = split_names(docs or None)
    with open_workspace(context) as workspace:
        if names:
            with progress() as tell:
                workspace.learn(names, split=split, progress=tell)
        learnt = workspace.store.learnt()
        revisions = {info.name: info.revision for info in workspace.store.kbs()}
    for one in learnt:
        if one.source in names and not one.surfaces and one.source != CORRECTIONS:
            note(
                "passed over",
                f"{one.source}: the same words mean one thing here and another there, as if "
                "annotated at random; memory holds nothing of it",
            )
        elif one.source in names:
            surfaces = counted(one.surfaces, "surface")
            note("learnt", f"what {surfaces} mean{'s' * (one.surfaces == 1)} in {one.source}")
    if as_json:
        print_json([{"docs": one.source, "surfaces": one.surfaces} for one in learnt])
    elif not names:
        for one in learnt:
            say_cells(one.source, counted(one.surfaces, "surface"))
        if not learnt:
            note("memory", "nothing was learnt yet: kglink learn DOCS")
    _tell_of_changed(learnt, revisions)


def _tell_of_changed(learnt: Sequence[Learnt], revisions: Mapping[str, int]) -> None:
    """Name the sources of memory that are not what they were when they were counted."""
    for one in learnt:
        if one.source not in revisions:
            note(
                "gone",
                f"{one.source} was removed: what was learnt from it stays as it was counted; "
                f"kglink forget {one.source} drops it",
            )
        elif one.revision != revisions[one.source]:
            note(
                "changed",
                f"{one.source} has been updated since it was learnt: {one.command}",
            )


def forget(context: typer.Context, docs: Docs) -> None:
    """Forget what surfaces meant in the documents of a KB."""
    names = split_names(docs)
    with open_workspace(context) as workspace:
        with progress() as tell:
            workspace.forget(names, progress=tell)
        for name in names:
            note("forgotten", f"what surfaces mean in {name}")


def fit(
    context: typer.Context,
    docs: Docs,
    split: Split = "",
    rerank: shared.Rerank = None,
    clustered: bool = Option(
        False, "--cluster", help="Choose how kglink link --cluster clusters, if at all."
    ),
    space: shared.SpaceName = None,
    as_json: shared.AsJson = False,
) -> None:
    """Fit the weights of evidence and the probabilities to annotated documents.

    No model is trained. New weights are kept only if they put more right answers first in
    documents that they were not fitted to. If the documents are annotated completely, the default
    of kglink link --threshold becomes the one with the best F1. Links with --rerank have their own
    weights. With --cluster the weights stay: it only chooses the settings of kglink link --cluster.
    """
    from kglink.linking.fit_judge import LinksKept

    with open_workspace(context, {"space.name": space, "link.rerank_top": rerank}) as workspace:
        ensure_space(workspace)
        if clustered:
            with progress() as tell:
                choice = workspace.fit_clusterer(split_names(docs), split=split, progress=tell)
            note("cluster", str(choice))
            if as_json:
                print_json(choice.model_dump(mode="json", exclude={"format", "fingerprint"}))
            return
        was = workspace.link_setup().search().scoring
        with progress() as tell:
            scoring = workspace.fit(split_names(docs), split=split, progress=tell)
        now = workspace.link_setup().search().scoring
    before, after = scoring.recall
    note(
        "fitted",
        f"on {counted(scoring.mentions, 'mention')}: R@1 {before:.3f} before, {after:.3f} after",
    )
    for label, is_changed in (("changed", True), ("unchanged", False)):
        parts = [name for name, part in _FITTED.items() if (part(was) != part(now)) == is_changed]
        if parts:
            note(label, ", ".join(parts))
    words = f"{scoring.threshold:g}: these documents are annotated in part and tell no better"
    if scoring.links is not None:
        right, wrong, wanted = scoring.links
        words = (
            f"{scoring.threshold:g} is the best for these documents: "
            f"{counted(right + wrong, 'link')}, {right:,} right and {wrong:,} wrong, of "
            f"{counted(wanted, 'mention')} with an answer"
        )
    note("threshold", words)
    weights = dict(scoring.weights.by_kind)
    if as_json:
        print_json(
            {
                "mentions": scoring.mentions,
                "before": before,
                "after": after,
                "weights": weights,
                "threshold": scoring.threshold,
                "links": scoring.links and LinksKept(*scoring.links)._asdict(),
            }
        )
    else:
        for name, weight in weights.items():
            say_cells(name, f"{weight:.3f}")


# -------------------------------------------------------------------------------------- review
KEYS = (
    "[a]ccept  [1]-[9] another one  [f]ind one  [b]order  [n]o entity  [x] no mention  "
    "[e] new entity  [s]kip   [z] undo  [q]uit"
)
#: Characters of the text on each side of a link, and of a title.
_MOST_AROUND, _MOST_OF_TITLE = 240, 100


def review(
    context: typer.Context,
    links: Path = Argument(
        ..., help="What `kglink link --format jsonl` (or json) wrote.", metavar="LINKS"
    ),
    order: str = Option("text", help="text: the order of the file; unsure: least sure first."),
    kb: str = Option(PROMOTED, help="The KB that new entities go to."),
    as_json: bool = Option(False, "--json", help="Print the answers as JSON."),
) -> None:
    """Judge links one by one; answers hold in that text, and are learnt for others.

    Every answer is kept at once: after q, Ctrl-C or a crash, the same command goes on with the
    remaining links. All answers are learnt together when the review ends. Without a terminal the
    keys are read from standard input; after f, b and e a line of words follows.
    """
    if sys.stdin.isatty() and not sys.stderr.isatty():
        raise UsageError(
            "links are shown on standard error, which is no terminal",
            hint="Leave its redirection out, or pipe the keys in.",
        )
    with open_workspace(context) as workspace:
        ensure_space(workspace, wait=False)
        piped = nullcontext(character for line in sys.stdin for character in line)
        reading = keys() if sys.stdin.isatty() else piped
        with workspace.review_links(links, order=order) as session, reading as typed:  # type: ignore[arg-type]  # checked there
            texts = len({one.text for one in session.links})
            note("review", f"{counted(len(session.links), 'link')} in {counted(texts, 'text')}")
            if session.before:
                note("known", f"{counted(session.before, 'link')} judged before")
            _Reviewing(workspace, session, typed, kb).judge()
            result = session.result()
            if result.corrections:
                note("learning", "what was said, together with all that was learnt before")
        if result.open:
            note("left", f"{counted(result.open, 'link')} to judge; the same command goes on")
    if as_json:
        print_json(result.as_json())
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in result.said.items())
    say(f"{counted(sum(result.said.values()), 'link')} judged" + (f": {counts}" if counts else ""))
    if result.corrections:
        note("learnt", "kglink link knows it now; kglink export corrections writes it out")


@dataclass
class _Reviewing:
    """A review at the terminal, or of keys that are piped in."""

    workspace: Workspace
    session: LinkReview
    typed: Iterator[str]
    kb: str

    def __post_init__(self) -> None:
        self.is_shown = sys.stdin.isatty()
        self.console = review_console(quiet=not self.is_shown)
        self.asked = 0

    def judge(self) -> None:
        """Go on until all links are judged, or the keys end."""
        while link := self.session.current:
            offered = self._show(link)
            key = next((one.lower() for one in self.typed if not one.isspace()), "q")
            self.asked += 1
            if key == "q":
                return
            try:
                self._answer(link, key, offered)
            except KglinkError as error:
                # What follows in a pipe was meant for another link.
                if not self.is_shown:
                    where = f"key {self.asked:,} of standard input, {key!r}"
                    raise UsageError(f"{where}: {error.message}", hint=error.hint) from error
                self._tell(f"{error.message}. {error.hint or ''}")

    def _answer(self, link: LinkToReview, key: str, offered: Sequence[EntityId]) -> None:
        session = self.session
        says: dict[str, Callable[[], Correction]] = {
            "a": session.accept,
            "n": lambda: session.choose(None),
            "x": session.no_mention,
            "e": lambda: session.new_entity(
                self._line(f"title of the new entity (Enter: {link.surface}):") or link.surface,
                self.kb,
            ),
            "f": self._found,
            **dict.fromkeys("123456789", lambda: session.choose(_numbered(key, offered))),
        }
        if key in says:
            said = says[key]()
            nothing = "no entity (NIL)" if said.is_mention else "no mention"
            self._tell(str(said.entity) if said.entity else nothing)
        elif key == "s":
            session.skip()
            self._tell("skipped")
        elif key == "z":
            self._tell("taken back" if session.undo() else "there is nothing to take back")
        elif key == "b":
            session.move(self._line(f"words of the mention instead of {link.surface!r}:"))
        elif not self.is_shown:
            raise UsageError("it means nothing", hint=f"The keys are: {KEYS}")

    def _found(self) -> Correction:
        """Choose an entity that is searched for."""
        words = self._line("words of its name, or kb:key:")
        entity = EntityId.parse(words)
        if words and self.workspace.store.existing([entity]):
            return self.session.choose(entity)
        found = self.workspace.search(words, k=MOST_CHOICES, wait=False) if words else []
        if not found:
            raise UsageError(f"no entity is found by {words!r}", hint="Type a name or kb:key.")
        offered = [one.id for one in found]
        if self.is_shown:
            self.console.print(*self._choices(offered), sep="\n")
            self.console.print("which one?", style="dim")
        key = next((one for one in self.typed if not one.isspace()), "")
        return self.session.choose(_numbered(key, offered))

    def _line(self, asked: str) -> str:
        def echo(text: str) -> None:
            if self.is_shown:
                self.console.file.write(text)
                self.console.file.flush()

        echo(printable(asked) + " ")
        return typed_line(self.typed, echo)

    def _tell(self, what: str) -> None:
        self.console.print(printable(what), style="bold", markup=False)

    def _show(self, link: LinkToReview) -> list[EntityId]:
        """Show a link in its text; returns the candidates in the order of their numbers."""
        offered = list(self.workspace.store.existing(link.candidates))
        offered.sort(key=link.candidates.index)
        offered = offered[:MOST_CHOICES]
        if not self.is_shown:
            return offered
        before = link.text[max(0, link.start - _MOST_AROUND) : link.start]
        after = link.text[link.end : link.end + _MOST_AROUND]
        text = Text(_one_line(before), style="")
        text.append(_one_line(link.surface), "bold reverse").append(_one_line(after))
        known = self.workspace.store.get_entities([link.entity] if link.entity else [])
        answer = "no entity (NIL)"
        if link.entity is not None:
            one = known.get(link.entity)
            title = printable(one.title, _MOST_OF_TITLE) if one else "(in no KB any more)"
            answer = f"{printable(str(link.entity))}  {title}"
        answered = Text.assemble("\nlinked to ", (answer, "bold"), f"   {link.confidence:.2f} sure")
        where = f"{self.session.number}/{len(self.session.links)}  {printable(link.document)}"
        show_card(self.console, where, text, answered, *self._choices(offered), keys=KEYS)
        return offered

    def _choices(self, offered: Sequence[EntityId]) -> Iterator[Text]:
        known = self.workspace.store.get_entities(offered)
        return choices((str(one), known[one].title, known[one].description) for one in offered)


def _numbered(key: str, offered: Sequence[EntityId]) -> EntityId:
    number = int(key) if key.isdecimal() else 0
    if not 1 <= number <= len(offered):
        there = f"1 to {len(offered)}" if offered else "none"
        raise UsageError(f"there is no candidate {key!r}", hint=f"The candidates: {there}.")
    return offered[number - 1]


def _one_line(text: str) -> str:
    """A part of a text, its spaces at the ends kept."""
    shown = printable(text)
    left = " " if text[:1].isspace() else ""
    right = " " if text[-1:].isspace() and shown else ""
    return left + shown + right
