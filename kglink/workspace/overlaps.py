"""The entities that KBs have in common: found, listed, judged, and passed on as lists."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import OnProgress, Overlap
from kglink.sources import OnNote
from kglink.workspace.folder import REVIEWS_FOLDER, check_known, check_probability, named
from kglink.workspace.ray_workers import spread_on_ray

if TYPE_CHECKING:
    from kglink.overlap.exchange.matching import ImportReport, ListFigures, MatchedList
    from kglink.overlap.review.journal import Order, ReviewPlan, ReviewTable
    from kglink.overlap.review.session import Review
    from kglink.overlap.search import OverlapReport, Training
    from kglink.store import Store
    from kglink.workspace.opened import Opened

VERDICTS = ("correct", "wrong", "unclear", "unjudged")
#: Rows of a list that are less confident are left out.
LEAST_CONFIDENCE = 0.5
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+")


# --------------------------------------------------------------------------------------- find
def find_overlaps(
    opened: Opened,
    left: str | None = None,
    right: str | None = None,
    *,
    fresh: bool = False,
    ray_workers: int = 0,
    progress: OnProgress = lambda _: None,
    on_note: OnNote = lambda label, text: None,
) -> list[OverlapReport]:
    """Find the overlaps of one pair of KBs, or of all pairs.

    Pairs whose KBs and settings have not changed since their last search are skipped (``current``
    in the report), unless ``fresh``. ``ray_workers`` is the number of workers on a Ray cluster that
    compare vectors; ``on_note`` gets news of lost ones.

    >>> [report.kept for report in workspace.find_overlaps("birds", "zoo")]
    [1]
    """
    from kglink.overlap.search import find_all_overlaps, find_overlaps
    from kglink.workspace.overlap_tools import overlap_tools

    if (left is None) != (right is None):
        raise UsageError(
            f"overlap needs two KBs or none, and {left or right} alone is named",
            hint=f"Name the other one as well: kglink overlap {left or right} OTHER. "
            "Without names all KBs are compared, two by two.",
        )
    tools = overlap_tools(opened, progress)
    if ray_workers:
        if tools.settings.method != "full":
            raise UsageError(
                f"--engine ray: the method {tools.settings.method!r} compares nothing on a cluster",
                hint="Workers compare vectors, as `--method full` does.",
            )
        tools = replace(tools, spread=spread_on_ray(ray_workers, on_note))
    if left is not None and right is not None:
        return [find_overlaps(tools, left, right, progress=progress)]
    return list(find_all_overlaps(tools, fresh=fresh, progress=progress))


def train_overlap_model(opened: Opened, *, progress: OnProgress = lambda _: None) -> Training:
    """Fit the overlap model to the verdicts of people; later searches use it."""
    from kglink.overlap.model import default_model
    from kglink.overlap.search import train
    from kglink.workspace.overlap_tools import keep_model, overlap_tools

    tools = overlap_tools(opened, progress)
    # Always from the default model: verdicts that were learnt from must not count twice.
    trained = train(tools, prior=default_model(tools.evidence), progress=progress)
    keep_model(opened.folder, trained.model)
    return trained


# --------------------------------------------------------------------------------------- list
def overlaps(
    opened: Opened,
    left: str | None = None,
    right: str | None = None,
    *,
    verdicts: str | Sequence[str] = VERDICTS,
    stale: bool = False,
    min_probability: float = 0.0,
) -> Iterator[Overlap]:
    """The overlaps of two KBs, or of all; ``stale``: only those with a stale verdict.

    >>> [(str(one.left), str(one.right)) for one in workspace.overlaps("birds", "zoo")]
    [('birds:h', 'zoo:7')]
    """
    chosen = named(verdicts)
    check_probability(min_probability, "min_probability")
    for name in chosen:
        check_known("verdict", name, VERDICTS)
    kbs = two_kbs(opened.store, left, right) if left or right else ()
    found = opened.store.overlaps(*kbs, min_probability=min_probability, stale=stale)
    return (one for one in found if (one.verdict or "unjudged") in chosen)


def two_kbs(store: Store, left: str | None, right: str | None) -> tuple[str, str]:
    """The two KBs that are named, as they are named, or the only two that there are."""
    infos = {info.name: info for info in store.kbs()}
    if left and right:
        names = [store.kb(left).name, store.kb(right).name]
        if left == right:
            raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    elif left or right:
        raise UsageError("overlap needs two KBs or none", hint=f"{left or right!r} alone is named.")
    else:
        names = [name for name, info in infos.items() if info.entities]
    if len(names) != 2:
        there = f"Name two of these: {', '.join(names)}." if names else "There is none."
        raise UsageError("which two KBs?", hint=there)
    for name in names:
        if not infos[name].entities:
            raise UsageError(f"{name!r} has no entities", hint="kglink add-kb adds some.")
    return names[0], names[1]


# ------------------------------------------------------------------------------------- review
def review_overlaps(
    opened: Opened,
    left: str | None = None,
    right: str | None = None,
    *,
    sample: int = 100,
    order: Order = "random",
    seed: int = 17,
    undo: bool = False,
) -> AbstractContextManager[Review]:
    """Begin or continue the review of a sample; every answer is saved at once.

    ``undo`` takes the last answer back first.
    """
    from kglink.overlap.review.session import open_review

    plan = _review_plan(opened.store, left, right, sample, order, seed)
    return open_review(opened.folder / REVIEWS_FOLDER, opened.store, plan, undo=undo)


def reviewed_overlaps(
    opened: Opened,
    left: str | None = None,
    right: str | None = None,
    *,
    sample: int = 100,
    order: Order = "random",
    seed: int = 17,
) -> ReviewTable:
    """The results of a review so far."""
    from kglink.overlap.review.journal import Journal, journals
    from kglink.overlap.review.session import last_review

    plan = _review_plan(opened.store, left, right, sample, order, seed)
    folder = opened.folder / REVIEWS_FOLDER
    found = last_review(folder, opened.store, plan)
    if found is None:
        plans = [one.plan for one in map(Journal.open, journals(folder, plan.left, plan.right))]
        each = {f"--sample {one.sample} --order {one.order} --seed {one.seed}" for one in plans}
        there = "; ".join(sorted(each)) or "none yet, `kglink overlap review` begins one"
        what = f"there is no such review of {plan.left} and {plan.right}"
        raise UsageError(what, hint=f"There is: {there}.")
    return found.table()


def _review_plan(
    store: Store, left: str | None, right: str | None, sample: int, order: Order, seed: int
) -> ReviewPlan:
    """The review of two KBs: those named, or the only two whose overlaps were found.

    Their order is that of the alphabet, however they were named: it is one review, also where one
    of them is removed and added again.
    """
    from kglink.overlap.review.journal import ReviewPlan

    runs = store.overlap_runs() if left is None and right is None else []
    if len(runs) == 1:
        left, right = runs[0].left, runs[0].right
    if len(runs) > 1:
        pairs = ", ".join(f"{run.left} {run.right}" for run in runs)
        raise UsageError(
            "which two KBs?", hint=f"kglink overlap review, and one of these pairs: {pairs}."
        )
    first, second = sorted(two_kbs(store, left, right))
    return ReviewPlan(first, second, sample, order, seed)


# -------------------------------------------------------------------------------------- lists
@dataclass(frozen=True, slots=True)
class ComparedList:
    """A list of pairs beside ours; ``figures`` is None where nobody has looked for overlaps."""

    listed: MatchedList
    figures: ListFigures | None
    imported: ImportReport | None = None
    """What was taken in as verdicts; None: nothing was."""

    def as_json(self) -> dict[str, object]:
        """What `kglink overlap --compare --json` and `--import --json` say."""
        listed, done = self.listed, self.imported
        record: dict[str, object] = {
            "left": listed.left,
            "right": listed.right,
            "rows": listed.rows,
            "matched": len(listed.verdicts),
            "unmatched": listed.unmatched,
            "unknown_ids": listed.unknown,
            "left_out": dict(listed.left_out),
            "figures": self.figures.as_json() if self.figures else None,
        }
        if done is not None:
            record["verdicts"] = {
                "set": done.set, "agreed": done.agreed, "conflicts": done.conflicts,
            }  # fmt: skip
        return record


def export_overlaps(
    opened: Opened,
    path: str | Path,
    left: str | None = None,
    right: str | None = None,
    *,
    verdicts: str | Sequence[str] = (),
    min_probability: float = 0.0,
    author: str = "",
    licence: str = "",
) -> int:
    """Write the overlaps of two KBs, or of all, in the format of the file's name.

    NAME.sssom.tsv is SSSOM, NAME.tsv the plain table. Without ``verdicts`` all pairs are written,
    but no wrong ones to a plain table. Returns the number of pairs written.
    """
    from kglink.overlap.exchange.write import NO_LICENCE, SetInfo, write_paper, write_sssom
    from kglink.workspace.outputs import PACKED, whole_file

    path, store = Path(path), opened.store
    name = path.name.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    if not name.endswith(".tsv"):
        raise UsageError(
            f"the name {path.name!r} says no format",
            hint="NAME.sssom.tsv is SSSOM, NAME.tsv the plain table; .gz or .bz2 may follow.",
        )
    is_sssom = name.endswith(".sssom.tsv")
    chosen = verdicts or (VERDICTS if is_sssom else [one for one in VERDICTS if one != "wrong"])
    if licence and not _ADDRESS.fullmatch(licence):
        raise UsageError(
            f"--licence {licence!r} is no address",
            hint="Such as https://creativecommons.org/publicdomain/zero/1.0/",
        )
    kbs = two_kbs(store, left, right) if left or right else ()
    if not kbs and not store.overlap_runs() and next(store.overlaps(), None) is None:
        raise UsageError("there are no overlaps to export", hint="Find them: kglink overlap")
    wanted = overlaps(opened, *kbs, verdicts=chosen, min_probability=min_probability)
    about = SetInfo(
        kbs=kbs or tuple(info.name for info in store.kbs() if info.entities),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=version("kglink"),
        author=author,
        licence=licence or NO_LICENCE,
    )
    with whole_file(opened, path) as out:
        if is_sssom:
            return write_sssom(wanted, store.get_entities, out, about)
        return write_paper(wanted, store.get_entities, out)


def import_overlaps(
    opened: Opened,
    path: str | Path,
    left: str | None = None,
    right: str | None = None,
    *,
    min_confidence: float = LEAST_CONFIDENCE,
) -> ComparedList:
    """Compare a list with the overlaps found here, then import it as verdicts."""
    from kglink.overlap.exchange.matching import import_verdicts

    listed = _read_list(opened, path, left, right, min_confidence)
    figures = _figures(opened.store, listed, 0.0)
    return ComparedList(listed, figures, import_verdicts(listed, opened.store))


def compare_overlaps(
    opened: Opened,
    path: str | Path,
    left: str | None = None,
    right: str | None = None,
    *,
    min_confidence: float = LEAST_CONFIDENCE,
    min_probability: float = 0.0,
) -> ComparedList:
    """Compare a list with the overlaps found here, and change nothing."""
    check_probability(min_probability, "min_probability")
    listed = _read_list(opened, path, left, right, min_confidence)
    figures = _figures(opened.store, listed, min_probability)
    if figures is None:
        raise UsageError(
            f"there are no overlaps of {listed.left} and {listed.right} to compare",
            hint=f"Find them: kglink overlap {listed.left} {listed.right}",
        )
    return ComparedList(listed, figures)


def _read_list(
    opened: Opened, path: str | Path, left: str | None, right: str | None, confidence: float
) -> MatchedList:
    from kglink.overlap.exchange.lists import PairList
    from kglink.overlap.exchange.matching import match_list

    check_probability(confidence, "min_confidence")
    kbs = two_kbs(opened.store, left, right)
    with opened.open_source(path) as source:
        listed = match_list(PairList(source, confidence), opened.store.get_entities, *kbs)
    if listed.verdicts:
        return listed
    example = f", such as {listed.examples[0]}" if listed.examples else ""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in listed.left_out.items())
    hint = f"Left out: {left_out}." if left_out else "It has no rows."
    if listed.rows:
        rows = f"It has {listed.rows:,} row{'s' * (listed.rows != 1)} with a verdict"
        hint = f"{rows}; ids are keys of these KBs, {listed.left}:KEY, or codes that they know."
    raise UsageError(
        f"{path} holds no pair of entities of {listed.left} and {listed.right}{example}", hint=hint
    )


def _figures(store: Store, listed: MatchedList, least: float) -> ListFigures | None:
    """How ours agree with a list; None where nobody has looked for overlaps yet."""
    from kglink.overlap.exchange.matching import compare_overlaps

    kbs = (listed.left, listed.right)
    searched = any({run.left, run.right} == {*kbs} for run in store.overlap_runs())
    ours = store.overlaps(*kbs, min_probability=least)
    if not searched and not any(one.was_found for one in store.overlaps(*kbs)):
        return None
    return compare_overlaps(ours, listed)
