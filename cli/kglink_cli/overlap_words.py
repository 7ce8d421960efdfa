"""Overlaps, what was found of them, and how lists of them agree, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kglink_cli.console import counted, note, print_json, say

if TYPE_CHECKING:
    from kglink.overlap.review.sample import Share
    from kglink.overlap.search import OverlapReport
    from kglink.records import Overlap
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
