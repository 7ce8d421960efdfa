"""`kglink overlap --export`, `--import` and `--compare`: lists of pairs, read and written."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.workspace.outputs import whole_file
from kglink_cli.console import counted, note, print_json
from kglink_cli.overlap_records import short, two_kbs
from kglink_cli.session import split_names

if TYPE_CHECKING:
    from kglink.overlap.exchange.matching import ListFigures, MatchedList
    from kglink.records import Overlap
    from kglink.workspace import Workspace

Named = tuple[str | None, str | None]

VERDICTS = ("correct", "wrong", "unclear", "unjudged")
LEAST_CONFIDENCE = 0.5
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+")
_PACKED = (".gz", ".bz2")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, and what is said of it."""

    min_probability: float
    verdicts: str | None
    author: str
    licence: str


# ------------------------------------------------------------------------------------- export
def export_overlaps(
    workspace: Workspace, named: Named, path: Path, options: ExportOptions, *, as_json: bool
) -> None:
    """Write the overlaps of two KBs, or of all, in the format that the file's name says."""
    from kglink.overlap.exchange.write import NO_LICENCE, SetInfo, write_paper, write_sssom

    is_sssom = _is_sssom(path)
    chosen = _verdicts(options.verdicts, is_sssom)
    if options.licence and not _ADDRESS.fullmatch(options.licence):
        raise UsageError(
            f"--licence {options.licence!r} is no address",
            hint="Such as https://creativecommons.org/publicdomain/zero/1.0/",
        )
    store = workspace.store
    kbs = two_kbs(workspace, *named) if any(named) else None
    if kbs is None and not store.overlap_runs() and next(store.overlaps(), None) is None:
        raise UsageError("there are no overlaps to export", hint="Find them: kglink overlap")
    found = store.overlaps(*(kbs or ()), min_probability=options.min_probability)
    wanted = (one for one in found if (one.verdict or "unjudged") in chosen)
    about = SetInfo(
        kbs=kbs or tuple(info.name for info in store.kbs() if info.entities),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=version("kglink"),
        author=options.author,
        licence=options.licence or NO_LICENCE,
    )
    with whole_file(path) as out:
        if is_sssom:
            written = write_sssom(wanted, store.get_entities, out, about)
        else:
            written = write_paper(wanted, store.get_entities, out)
    if as_json:
        print_json({"path": str(path), "pairs": written})
    note("exported", f"{counted(written, 'pair')} to {path}")


def _is_sssom(path: Path) -> bool:
    """What a file's name says of its format."""
    name = path.name.lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    if name.endswith(".sssom.tsv"):
        return True
    if name.endswith(".tsv"):
        return False
    raise UsageError(
        f"the name {path.name!r} says no format",
        hint="NAME.sssom.tsv is SSSOM, NAME.tsv the plain table; .gz or .bz2 may follow.",
    )


def _verdicts(told: str | None, is_sssom: bool) -> frozenset[str]:
    """A plain table cannot say that a pair is wrong, so it holds none unless they are wanted."""
    chosen = split_names(told)
    for name in chosen:
        if name not in VERDICTS:
            raise UsageError(f"unknown verdict {name!r}", hint=f"There is: {', '.join(VERDICTS)}.")
    if chosen:
        return frozenset(chosen)
    return frozenset(VERDICTS if is_sssom else {*VERDICTS} - {"wrong"})


# ------------------------------------------------------------------------- import and compare
def import_list(
    workspace: Workspace, named: Named, path: Path, confidence: float | None, *, as_json: bool
) -> None:
    """Compare a list with ours, then take it in as verdicts."""
    from kglink.overlap.exchange.matching import import_verdicts

    listed = _read(workspace, named, path, confidence)
    figures = _figures(workspace, listed, 0.0)
    done = import_verdicts(listed, workspace.store)
    if as_json:
        counts = {"set": done.set, "agreed": done.agreed, "conflicts": done.conflicts}
        print_json(_as_json(listed, figures) | {"verdicts": counts})
        return
    _print(listed, figures, path)
    note("imported", f"{counted(done.set, 'verdict')} set, {done.agreed:,} stood already")
    if done.conflicts:
        note("kept", f"{counted(done.conflicts, 'verdict')} of a review here, judged otherwise")
        for example in done.examples:
            note("", example)


def compare_list(
    workspace: Workspace,
    named: Named,
    path: Path,
    confidence: float | None,
    least: float,
    *,
    as_json: bool,
) -> None:
    """Compare a list with those of ours that are probable enough, and change nothing."""
    listed = _read(workspace, named, path, confidence)
    figures = _figures(workspace, listed, least)
    if figures is None:
        raise UsageError(
            f"there are no overlaps of {listed.left} and {listed.right} to compare",
            hint=f"Find them: kglink overlap {listed.left} {listed.right}",
        )
    if as_json:
        print_json(_as_json(listed, figures))
    else:
        _print(listed, figures, path)


def _read(workspace: Workspace, named: Named, path: Path, least: float | None) -> MatchedList:
    from kglink.overlap.exchange.lists import PairList
    from kglink.overlap.exchange.matching import match_list

    left, right = two_kbs(workspace, *named)
    confidence = LEAST_CONFIDENCE if least is None else least
    with workspace.open_source(path) as source:
        listed = match_list(PairList(source, confidence), workspace.store.get_entities, left, right)
    if not listed.verdicts:
        raise _nothing_in(listed, path)
    return listed


def _nothing_in(listed: MatchedList, path: Path) -> UsageError:
    example = f", such as {listed.examples[0]}" if listed.examples else ""
    left_out = [f"{count:,} {reason}" for reason, count in listed.left_out.items()]
    if listed.rows:
        hint = (
            f"It has {counted(listed.rows, 'row')} with a verdict; ids are keys of these KBs, "
            f"{listed.left}:KEY, or codes that they know."
        )
    else:
        hint = f"Left out: {', '.join(left_out)}." if left_out else "It has no rows."
    return UsageError(
        f"{path} holds no pair of entities of {listed.left} and {listed.right}{example}", hint=hint
    )


def _figures(workspace: Workspace, listed: MatchedList, least: float) -> ListFigures | None:
    """How ours agree with a list; None where nobody has looked for overlaps yet."""
    from kglink.overlap.exchange.matching import compare_overlaps

    store, kbs = workspace.store, (listed.left, listed.right)
    searched = any({run.left, run.right} == {*kbs} for run in store.overlap_runs())
    ours: Iterator[Overlap] = store.overlaps(*kbs, min_probability=least)
    if not searched and not any(one.was_found for one in store.overlaps(*kbs)):
        return None
    return compare_overlaps(ours, listed)


def _as_json(listed: MatchedList, figures: ListFigures | None) -> dict[str, object]:
    return {
        "left": listed.left,
        "right": listed.right,
        "rows": listed.rows,
        "matched": len(listed.verdicts),
        "unmatched": listed.unmatched,
        "unknown_ids": listed.unknown,
        "left_out": dict(listed.left_out),
        "figures": figures.as_json() if figures else None,
    }


def _print(listed: MatchedList, figures: ListFigures | None, path: Path) -> None:
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
    sys.stdout.write("\n".join(lines) + "\n")


def _share(value: float | None) -> str:
    return "unknown" if value is None else short(value)
