"""`kglink overlap --export`, `--import` and `--compare`: lists of pairs, read and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kglink_cli.console import counted, note, print_json, say
from kglink_cli.overlap_words import short

if TYPE_CHECKING:
    from kglink.workspace.overlaps import ComparedList


def print_exported(path: Path, written: int, *, as_json: bool) -> None:
    """Say what was written."""
    if as_json:
        print_json({"path": str(path), "pairs": written})
    note("exported", f"{counted(written, 'pair')} to {path}")


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
