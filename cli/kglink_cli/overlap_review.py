"""`kglink overlap review`: a person judges pairs; overlaps and lists of them in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from kglink.errors import UsageError
from kglink.text.entity_text import shared_names
from kglink.text.printable import printable
from kglink_cli.console import counted, note, print_json, say
from kglink_cli.session import open_workspace
from kglink_cli.terminal import keys, require_terminal, review_console, show_card

if TYPE_CHECKING:
    from kglink.overlap.review.journal import Answer, ReviewTable, Share
    from kglink.overlap.review.session import Review
    from kglink.overlap.search import OverlapReport
    from kglink.records import Entity, EntityId, Overlap
    from kglink.store import Store
    from kglink.workspace import Workspace
    from kglink.workspace.overlaps import ComparedList


def pair_name(report: OverlapReport) -> str:
    """``doid-ncit``."""
    return f"{report.left}-{report.right}"


def found_text(report: OverlapReport) -> str:
    """``4,212 pairs (3,790 by name, 422 by meaning only)``."""
    kept = counted(report.kept, "pair")
    if report.current:
        return f"{kept} (nothing has changed)"
    if report.method != "full":
        return f"{kept} of {report.candidates:,} that share a name"
    return f"{kept} ({report.by_name:,} by name, {report.by_meaning_only:,} by meaning only)"


def evidence_text(overlap: Overlap) -> str:
    """``description .61  name 1.00``."""
    return "  ".join(f"{name} {short(value)}" for name, value in sorted(overlap.evidence.items()))


def short(value: float) -> str:
    """``.98`` for 0.98; what is not below one is written out."""
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.2f}"


def share_text(share: Share | None) -> str:
    """``.98 (95% interval .93 to .99)``."""
    if share is None:
        return "unknown"
    return f"{short(share.value)} (95% interval {short(share.low)} to {short(share.high)})"


def print_list(found: ComparedList, path: Path, *, as_json: bool) -> None:
    """Say how a list agrees with ours, and what was taken in of it."""
    if as_json:
        print_json(found.as_json())
        return
    _print(found, path)
    done = found.imported
    if done is None:
        return
    note("imported", f"{counted(done.set, 'verdict')} set, {done.agreed:,} stood already")
    if done.conflicts:
        note("kept", f"{counted(done.conflicts, 'verdict')} of a review here, judged otherwise")
        for example in done.examples:
            note("", example)


def _print(found: ComparedList, path: Path) -> None:
    listed, figures = found.listed, found.figures
    for reason, count in listed.left_out.items():
        note("left out", f"{count:,} {reason}")
    if listed.one_kb:
        note("left out", f"{counted(listed.one_kb, 'pair')} that are not of these two KBs")
    if listed.contradicted:
        pairs = counted(len(listed.contradicted), "pair")
        last = next(reversed(listed.contradicted.values()))
        note("disagrees", f"with itself on {pairs}: the last row of each counts, such as {last}")
    if listed.unknown:
        examples = ", ".join(listed.examples)
        note("unknown", f"{counted(listed.unknown, 'id')} that neither KB holds: {examples}")
    pair = f"{listed.left}-{listed.right}"
    if figures is None:
        note("compared", f"nobody has looked for overlaps of {pair} yet: kglink overlap")
        return
    wrong = f" and {figures.denied:,} wrong" if figures.denied else ""
    lines = [
        f"{pair}  {counted(figures.listed, 'pair')}{wrong} in {path.name}, "
        f"{figures.ours:,} of ours, {figures.both:,} in both",
        f"precision  {_share(figures.precision)} of ours; {_share(figures.precision_known)} of the "
        f"{figures.ours_known:,} that touch an entity of the list",
        f"recall     {_share(figures.recall)}",
        f"F1         {_share(figures.f1)}; {_share(figures.f1_known)} by the second precision",
    ]
    if figures.denied:
        lines.append(f"wrong      {figures.denied_found:,} of {figures.denied:,} are among ours")
    say(*lines)


def _share(value: float | None) -> str:
    return "unknown" if value is None else short(value)


ANSWERS: dict[str, Answer] = {"c": "correct", "w": "wrong", "u": "unclear", "s": "skip"}
MOST_NAMES = 12
#: Characters of a description, of a title, and of another name.
MOST_CHARACTERS = 1500
MOST_OF_TITLE = 300
MOST_OF_NAME = 100
KEYS = "[c]orrect  [w]rong  [u]nclear  [s]kip   [z] undo  [q]uit"


def review(
    context: typer.Context,
    left: str | None = Argument(None, help="One KB; may be left out where there are only two."),
    right: str | None = Argument(None, help="The other KB."),
    sample: int = Option(100, help="How many pairs to draw.", min=1),
    order: str = Option(
        "random", help="random: a fair sample; uncertain: the pairs that teach the model most."
    ),
    seed: int = Option(17, help="Seed of the random sample."),
    undo: bool = Option(False, "--undo", help="Take back the last answer first, then go on."),
    table: bool = Option(False, "--table", help="Only print what has been judged so far."),
    as_json: bool = Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Judge a sample of the pairs that two KBs have in common, and say how precise the list is.

    Every answer is kept at once: q, Ctrl-C or a crash ends the review, and the same command goes
    on with it. Pairs that were judged before count without being shown again; those whose title
    or description has changed since come first.
    """
    wanted: dict[str, Any] = {"sample": sample, "order": order, "seed": seed}
    with open_workspace(context) as workspace:
        if table:
            _print_of_overlap_review(
                workspace.reviewed_overlaps(left, right, **wanted), as_json=as_json
            )
            return
        opening = workspace.review_overlaps(left, right, **wanted, undo=undo)
        require_terminal(
            "pairs",
            "Verdicts from a file: kglink overlap KB KB --import FILE. The result so far: --table.",
        )
        with opening as session:
            _begin(session)
            with keys() as typed:
                _judge(workspace, session, typed)
            result = session.table()
        if result.open:
            note("left", f"{counted(result.open, 'pair')} to judge; the same command goes on")
    _print_of_overlap_review(result, as_json=as_json)


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
    console = review_console()
    while pair := session.current:
        entities = workspace.store.get_entities([pair.left, pair.right])
        if len(entities) < 2:
            raise UsageError(
                f"{printable(str(pair.left))} or {printable(str(pair.right))} was removed "
                "meanwhile",
                hint="Run the same command again: it leaves this pair out.",
            )
        number = session.size - len(session.pending) + 1
        title = f"{number}/{session.size}  {session.plan.left}-{session.plan.right}"
        content = card(pair, entities, parents_of(workspace.store, pair, entities))
        show_card(console, title, *content, keys=KEYS)
        key = next((one for one in map(str.lower, typed) if one in ANSWERS or one in "zq"), "q")
        if key == "q":
            return
        if key == "z":
            said = "taken back" if session.undo() else "there is nothing to take back"
        else:
            said = ANSWERS[key]
            session.answer(ANSWERS[key])
        console.print(said, style="bold")


def _print_of_overlap_review(result: ReviewTable, *, as_json: bool) -> None:
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
    say(*lines)


def _rest(result: ReviewTable) -> str:
    parts = [
        f"{result.before:,} judged before" if result.before else "",
        f"{result.skipped:,} passed over" if result.skipped else "",
        f"{result.open:,} still to judge" if result.open else "",
        f"{result.again:,} besides judged again" if result.again else "",
    ]
    return ", ".join(filter(None, parts)) or "all judged"


# --------------------------------------------------------------------------------------- cards
def parents_of(store: Store, overlap: Overlap, entities: Mapping[EntityId, Entity]) -> list[str]:
    """The titles of what each of the two entities belongs to."""
    found = []
    for name in (overlap.left, overlap.right):
        wanted = [name._replace(key=key) for key in entities[name].parents]
        known = store.get_entities(wanted)
        found.append(
            ", ".join(printable(known[one].title, MOST_OF_NAME) for one in wanted if one in known)
        )
    return found


def card(
    overlap: Overlap, entities: Mapping[EntityId, Entity], parents: Iterable[str]
) -> tuple[RenderableType, ...]:
    """A pair as it is shown: both entities, the evidence, and what was said of it before."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    sides = zip((overlap.left, overlap.right), parents, strict=True)
    table.add_row(*(_entity(name, entities[name], within) for name, within in sides))
    weighed = Text.assemble((f"probability {short(overlap.probability)}", "bold"), "   ")
    weighed.append(evidence_text(overlap) or "no evidence: it was only told")
    if shared := shared_names(entities[overlap.left], entities[overlap.right]):
        names = ", ".join(printable(name, MOST_OF_NAME) for name in shared[:MOST_NAMES])
        weighed.append(f"\nshared name{'s' * (len(shared) > 1)}: ").append(names, "bold")
    if overlap.stale:
        said = f"judged {overlap.verdict} before a title or description changed"
        weighed.append(f"\n{said}", style="yellow")
    return table, Text(), weighed


def _entity(name: EntityId, entity: Entity, parents: str) -> Text:
    title = printable(entity.title, MOST_OF_TITLE)
    text = Text.assemble((printable(str(name)), "cyan"), "\n", (title, "bold"), "\n")
    names = dict.fromkeys(printable(alias.surface, MOST_OF_NAME) for alias in entity.aliases)
    names.pop(printable(entity.title, MOST_OF_NAME), None)
    shown = ", ".join(list(names)[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown += f", and {len(names) - MOST_NAMES:,} more"
    for label, value in (
        ("type", printable(entity.type, MOST_OF_NAME)),
        ("also", shown),
        ("in", parents),
    ):
        if value:
            text.append(f"{label}: ", style="dim").append(f"{value}\n")
    description = printable(entity.description, MOST_CHARACTERS)
    return text.append(description or "(no description)")
