"""`kglink overlap review`: a person judges pairs, one key for each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink_cli.console import counted, note, print_json
from kglink_cli.overlap_records import share_text, two_kbs
from kglink_cli.session import session_of

if TYPE_CHECKING:
    from rich.console import Console

    from kglink.overlap.review.journal import Answer
    from kglink.overlap.review.sample import Order, ReviewPlan, ReviewTable
    from kglink.overlap.review.session import Review
    from kglink.workspace import Workspace

#: Where the journals lie in the workspace.
FOLDER = "reviews"
ANSWERS: dict[str, Answer] = {"c": "correct", "w": "wrong", "u": "unclear", "s": "skip"}
KEYS = "[c]orrect  [w]rong  [u]nclear  [s]kip   [z] undo  [q]uit"


def review(
    context: typer.Context,
    left: Annotated[
        str | None, typer.Argument(help="One KB; may be left out where there are only two.")
    ] = None,
    right: Annotated[str | None, typer.Argument(help="The other KB.")] = None,
    sample: Annotated[int, typer.Option(help="How many pairs to draw.", min=1)] = 100,
    order: Annotated[
        str,
        typer.Option(help="random: a fair sample; uncertain: the pairs that a model learns from."),
    ] = "random",
    seed: Annotated[int, typer.Option(help="Another number draws another random sample.")] = 17,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the last answer back first, then go on.")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Judge nothing: print what has been judged so far.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Judge a sample of the pairs that two KBs have in common, and say how precise the list is.

    Every answer is kept at once: q, Ctrl-C or a crash ends the review, and the same command goes
    on with it. Pairs that were judged before count without being shown again; those whose title
    or description has changed since come first.
    """
    from kglink.overlap.review.sample import ReviewPlan

    with session_of(context).open() as workspace:
        first, second = _kbs(workspace, left, right)
        plan = ReviewPlan(first, second, sample, cast("Order", order), seed)
        if table:
            _print(_judged(workspace, plan), as_json=as_json)
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "a review needs a terminal: keys are read from it, and the pairs shown on it",
                hint="Verdicts from a file: kglink overlap KB KB --import FILE. "
                "The result so far: --table.",
            )
        result = _review(workspace, plan, undo=undo)
    _print(result, as_json=as_json)


def _kbs(workspace: Workspace, left: str | None, right: str | None) -> list[str]:
    """Two KBs: those named, or the only two whose overlaps were found.

    Their order is that of the store, however they were named: it is one review.
    """
    runs = workspace.store.overlap_runs()
    if left is None and right is None and len(runs) == 1:
        left, right = runs[0].left, runs[0].right
    if left is None and right is None and len(runs) > 1:
        pairs = ", ".join(f"{run.left} {run.right}" for run in runs)
        raise UsageError(
            "which two KBs?", hint=f"kglink overlap review, and one of these pairs: {pairs}."
        )
    order = [info.name for info in workspace.store.kbs()]
    return sorted(two_kbs(workspace, left, right), key=order.index)


def _judged(workspace: Workspace, plan: ReviewPlan) -> ReviewTable:
    from kglink.overlap.review.session import last_review

    found = last_review(workspace.folder / FOLDER, workspace.store, plan)
    if found is None:
        raise UsageError(
            f"there is no such review of {plan.left} and {plan.right}",
            hint="--sample, --order and --seed are part of it.",
        )
    return found.table()


def _review(workspace: Workspace, plan: ReviewPlan, *, undo: bool) -> ReviewTable:
    from kglink.overlap.review.session import open_review
    from kglink_cli.overlap_keys import keys

    with open_review(workspace.folder / FOLDER, workspace.store, plan, undo=undo) as session:
        _begin(session)
        with keys() as typed:
            _judge(workspace, session, typed)
        result = session.table()
    if result.open:
        note("left", f"{counted(result.open, 'pair')} to judge; the same command goes on")
    return result


def _begin(session: Review) -> None:
    plan, drawn = session.plan, session.journal.drawn
    what = "the least certain" if plan.order == "uncertain" else "drawn at random"
    note(
        "review",
        f"{plan.left}-{plan.right}: {len(drawn.pairs):,} of {counted(drawn.population, 'pair')}, "
        f"{what}, seed {plan.seed}",
    )
    if drawn.stale:
        count = counted(len(drawn.stale), "pair")
        note("first", f"{count} judged before a title or description changed")
    known = session.size - len(session.pending)
    if known:
        word = "going on" if session.resumed else "known"
        note(word, f"{known:,} of {session.size:,} are judged or passed over already")


def _judge(workspace: Workspace, session: Review, typed: Iterator[str]) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    while _show(workspace, session, console):
        for key in map(str.lower, typed):
            if key in ANSWERS:
                session.answer(ANSWERS[key])
                console.print(ANSWERS[key], style="bold")
                break
            if key == "z":
                undone = session.undo()
                console.print("taken back" if undone else "there is nothing to take back")
                break
            if key == "q":
                return
        else:  # the input has ended
            return


def _show(workspace: Workspace, session: Review, console: Console) -> bool:
    """Show the pair that is next; False where none is left."""
    from kglink_cli.overlap_cards import card, parents_of

    pair = session.current
    if pair is None:
        return False
    entities = workspace.store.get_entities([pair.left, pair.right])
    if len(entities) < 2:
        raise UsageError(
            f"{printable(str(pair.left))} or {printable(str(pair.right))} was removed meanwhile",
            hint="Run the same command again: it leaves this pair out.",
        )
    number = session.size - len(session.pending) + 1
    title = f"{number}/{session.size}  {session.plan.left}-{session.plan.right}"
    parents = parents_of(workspace.store, pair, entities)
    console.print()
    console.print(card(pair, entities, parents, title))
    console.print(KEYS, style="dim", markup=False)
    return True


def _print(result: ReviewTable, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
        return
    pair = f"{result.left}-{result.right}"
    counts = f"{result.correct:,} correct, {result.wrong:,} wrong, {result.unclear:,} unclear"
    lines = [f"{pair}  {counts}: precision {share_text(result.precision)}"]
    if result.unclear and result.precision_of_all:
        lines.append(
            "unclear pairs counted as not correct, as in the paper: "
            + share_text(result.precision_of_all)
        )
    if result.order == "uncertain":
        lines.append("of the least certain pairs: this says nothing of the others")
    else:
        lines.append(
            f"a random {result.drawn:,} of {counted(result.population, 'pair')}, "
            f"seed {result.seed}; {_rest(result)}"
        )
    sys.stdout.write("\n".join(lines) + "\n")


def _rest(result: ReviewTable) -> str:
    parts = [
        f"{result.before:,} judged before" if result.before else "",
        f"{result.skipped:,} passed over" if result.skipped else "",
        f"{result.open:,} still to judge" if result.open else "",
        f"{result.again:,} besides judged again" if result.again else "",
    ]
    return ", ".join(filter(None, parts)) or "all judged"
