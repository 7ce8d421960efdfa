"""`kglink overlap`: find, judge and share the entities that KBs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from kglink.errors import UsageError
from kglink.text.printable import printable
from kglink.workspace.overlaps import LEAST_CONFIDENCE, VERDICTS
from kglink_cli import shared
from kglink_cli.console import (
    counted,
    note,
    print_json,
    print_json_list,
    print_table,
    progress,
    say,
)
from kglink_cli.overlap_review import evidence_text, found_text, pair_name, print_list
from kglink_cli.session import open_workspace, ray_workers, refuse_ignored, split_names

if TYPE_CHECKING:
    from kglink.overlap.search import OverlapReport
    from kglink.records import Overlap
    from kglink.workspace import Workspace

HELP = """Find the entities that KBs have in common: of every pair of KBs, or of two that you name.

Two KBs that have not changed since they were last compared are skipped. Verdicts of people stay.
`--export`, `--import` and `--compare` write, save and compare lists of pairs; the commands below
judge and list the pairs. (If a KB has the name of such a command, write two dashes before it:
`kglink overlap -- show other_kb`.)"""


_GOES_WITH = {
    "--verdict": {"--export"},
    "--author": {"--export"},
    "--licence": {"--export"},
    "--min-probability": {"--export", "--compare"},
    "--min-confidence": {"--import", "--compare"},
}


class OverlapGroup(TyperGroup):
    """A group that is a command as well: two names that are no commands are KBs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words for a command's only where the first of them is one."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, ["", "", *args])  # no KBs: the command has its own
        ctx.allow_interspersed_args = True
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The usage of a command under this one does not begin with the KBs of the search."""
        params = super().get_params(ctx)
        is_own = ctx.command is self
        return [one for one in params if is_own or one.param_type_name != "argument"]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A third name is one too many, whatever it is."""
        if args[0] not in self.commands or ctx.params.get("left"):
            raise UsageError(
                f"{args[0]!r} is one name too many: an overlap is that of two KBs",
                hint=f"The commands are: {', '.join(self.commands)}.",
            )
        return super().resolve_command(ctx, args)


def overlap(
    context: typer.Context,
    left: str = Argument("", help="One KB; without it: every pair of KBs."),
    right: str = Argument("", help="The other KB."),
    method: str | None = Option(
        None, help="full (all evidence; the default), paper (names, then descriptions) or names."
    ),
    threshold: float | None = Option(
        None, help="Least score of a pair: probability, or cosine (paper); by default 0.5."
    ),
    evidence: list[str] | None = Option(None, help="Evidence to weigh: a,b (`kglink plugins`)."),
    one_to_one: bool | None = Option(
        None, "--one-to-one/--many-to-many", help="Keep an entity in one pair at most."
    ),
    fresh: bool = Option(False, "--fresh", help="Also compare KBs that have not changed."),
    engine: shared.Engine = "processes",
    workers: shared.EngineWorkers = None,
    export: Path | None = Option(None, help="Write overlaps to this .sssom.tsv or .tsv file."),
    import_list: Path | None = Option(None, "--import", help="Save a file's pairs as verdicts."),
    compare: Path | None = Option(None, help="Compare overlaps with this file; store nothing."),
    min_confidence: float | None = Option(
        None, help="Leave out rows of a list less confident than this (0.5).", min=0, max=1
    ),
    min_probability: float | None = Option(
        None, help="Export or compare only pairs that are at least this probable.", min=0, max=1
    ),
    verdict: list[str] | None = Option(
        None, help="Export only these: correct,wrong,unclear,unjudged."
    ),
    author: str = Option("", help="Who judged, for SSSOM: a name, or orcid:0000-0000-0000-0000."),
    licence: str = Option("", help="Address of the licence of an exported SSSOM table."),
    as_json: shared.AsJson = False,
) -> None:
    """The callback of the group; its help is `HELP`."""
    if context.invoked_subcommand:
        return
    searching: dict[str, object] = {
        "overlap.method": method,
        "overlap.threshold": threshold,
        "overlap.evidence": split_names(evidence) or None,
        "overlap.one_to_one": one_to_one,
    }
    listing = {"--export": export, "--import": import_list, "--compare": compare}
    details = {
        "--verdict": verdict,
        "--author": author or None,
        "--licence": licence or None,
        "--min-probability": min_probability,
        "--min-confidence": min_confidence,
    }
    on_ray = ray_workers(engine, workers)
    own = {"overlap.fresh": fresh or None, "overlap.engine": on_ray or None}
    _check_together(searching | own, listing, details)
    if method in ("paper", "names"):
        unread = {
            "--evidence": evidence,
            "--threshold": method == "names" and threshold is not None,
        }
        refuse_ignored(f"beside --method {method}", unread)
    kbs = (left or None, right or None)
    with open_workspace(context, searching) as workspace:
        if export:
            written = workspace.export_overlaps(
                export,
                *kbs,
                verdicts=split_names(verdict),
                min_probability=min_probability or 0.0,
                author=author,
                licence=licence,
            )
            if as_json:
                print_json({"path": str(export), "pairs": written})
            note("exported", f"{counted(written, 'pair')} to {export}")
        elif listed := import_list or compare:
            least = LEAST_CONFIDENCE if min_confidence is None else min_confidence
            if import_list:
                found = workspace.import_overlaps(listed, *kbs, min_confidence=least)
            else:
                found = workspace.compare_overlaps(
                    listed,
                    *kbs,
                    min_confidence=least,
                    min_probability=min_probability or 0.0,
                )
            print_list(found, listed, as_json=as_json)
        else:
            _find(workspace, kbs, fresh=fresh, on_ray=on_ray, as_json=as_json)


def _check_together(
    searching: Mapping[str, object],
    listing: Mapping[str, Path | None],
    details: Mapping[str, object],
) -> None:
    """Lists are read and written instead of a search, and what goes with one goes with no other."""
    named = [name for name, path in listing.items() if path]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} do not go together", hint="One after the other.")
    flags = [
        "--" + name.partition(".")[2].replace("_", "-")
        for name, value in searching.items()
        if value is not None
    ]
    if named and flags:
        raise UsageError(
            f"{named[0]} searches for nothing, so {', '.join(flags)} has no effect on it",
            hint=f"Run `kglink overlap` with {', '.join(flags)} first.",
        )
    for flag, value in details.items():
        if value is not None and not set(named) & _GOES_WITH[flag]:
            raise UsageError(
                f"{flag} goes with {' or '.join(sorted(_GOES_WITH[flag]))} alone",
                hint="A search is steered by --threshold, --method and --evidence.",
            )


def _find(
    workspace: Workspace,
    kbs: tuple[str | None, str | None],
    *,
    fresh: bool,
    on_ray: int,
    as_json: bool,
) -> None:
    with progress() as tell:
        reports = workspace.find_overlaps(
            *kbs, fresh=fresh, ray_workers=on_ray, progress=tell, on_note=note
        )
    if not reports:
        raise UsageError(
            "there are no two KBs with entities yet", hint="Add one: kglink add-kb NAME SOURCE."
        )
    _tell_how(workspace, reports)
    if as_json:
        found = (workspace.overlaps(one.left, one.right) for one in reports)
        print_json_list(one.as_json() for one in chain.from_iterable(found))
        return
    width = max(len(pair_name(one)) for one in reports)
    for one in reports:
        say(f"{pair_name(one):{width}}  {found_text(one)}")


def _tell_how(workspace: Workspace, reports: list[OverlapReport]) -> None:
    """How the pairs were found, and what was left out, on standard error."""
    from kglink.overlap.weigh import differences

    settings = workspace.settings.overlap
    searched = [one for one in reports if not one.current]
    ways = {
        "names": "names: entities that share a name",
        "paper": f"paper: a title in common, cosine of the descriptions {settings.threshold:g}",
        "full": f"full: all evidence, probability {settings.threshold:g}",
    }
    if searched:
        model = searched[0].model
        note("method", ways[settings.method] + (f", model {model}" if model else ""))
        for difference in differences(settings) if settings.method == "paper" else ():
            note("differs", difference)
    for one in searched:
        for text in one.notes:
            note(pair_name(one), text)
    if len(searched) < len(reports):
        what = "is" if len(reports) - len(searched) == 1 else "are"
        pairs = counted(len(reports) - len(searched), "pair")
        note("current", f"{pairs} of KBs {what} as found before; --fresh compares again")


# ------------------------------------------------------------------------------ show and train
def show(
    context: typer.Context,
    left: str | None = Argument(None, help="One KB; without it: all."),
    right: str | None = Argument(None, help="The other KB."),
    verdict: list[str] | None = Option(None, help="Only these: correct,wrong,unclear,unjudged."),
    stale: bool = Option(False, "--stale", help="Only verdicts older than a pair's present texts."),
    min_probability: float = Option(0.0, help="Only pairs at least this probable.", min=0, max=1),
    limit: int = Option(50, help="Largest number of pairs to show; 0: all.", min=0),
    as_json: shared.AsJson = False,
) -> None:
    """List overlaps that were found, with what speaks for them."""
    verdicts = split_names(verdict) or VERDICTS
    with open_workspace(context) as workspace:
        found = workspace.overlaps(
            left, right, verdicts=verdicts, stale=stale, min_probability=min_probability
        )
        if as_json:
            print_json_list(one.as_json() for one in islice(found, limit or None))
            return
        shown = list(islice(found, limit or None))
        rows = _rows(workspace, shown)
        more = next(found, None) is not None
    if not shown:
        note("nothing", "there is no such overlap: kglink overlap finds them")
        return
    print_table(("probability", "left", "title", "right", "title", "verdict", "evidence"), rows)
    if more:
        note("more", f"these are the first {limit:,}; --limit shows more, --export writes all")


def train(context: typer.Context, as_json: shared.AsJson = False) -> None:
    """Learn from all verdicts how evidence is weighed; searches from now on use what was learnt."""
    with open_workspace(context) as workspace, progress() as tell:
        trained = workspace.train_overlap_model(progress=tell)
    pairs = [f"{left}-{right}" for left, right in trained.kbs]
    if as_json:
        counts = {name: getattr(trained, name) for name in ("correct", "wrong", "rivals")}
        weights = {name: one.model_dump() for name, one in trained.model.weights.items()}
        kbs = [list(pair) for pair in trained.kbs]
        print_json({**counts, "kbs": kbs, "bias": trained.model.bias, "weights": weights})
        return
    rivals = f" and {trained.rivals:,} rivals of correct pairs" if trained.rivals else ""
    say(
        f"trained on {trained.correct:,} correct and {trained.wrong:,} wrong pairs{rivals} of "
        f"{', '.join(pairs)}"
    )
    note("next", "kglink overlap weighs evidence with this model")


def _rows(workspace: Workspace, shown: list[Overlap]) -> list[list[object]]:
    ids = [entity for one in shown for entity in (one.left, one.right)]
    known = workspace.store.get_entities(ids)

    def row(one: Overlap) -> list[object]:
        titles = [
            printable(known[end].title) if end in known else "" for end in (one.left, one.right)
        ]
        verdict = f"{one.verdict} (stale)" if one.stale else one.verdict or ""
        return [
            f"{one.probability:.2f}", printable(str(one.left)), titles[0],
            printable(str(one.right)), titles[1],
            verdict, evidence_text(one),
        ]  # fmt: skip

    return [row(one) for one in shown]
