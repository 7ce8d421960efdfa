"""Overlaps as programs and people read them, and the two KBs that a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink_cli.console import counted

if TYPE_CHECKING:
    from kglink.overlap.review.sample import Share
    from kglink.overlap.search import OverlapReport
    from kglink.records import Overlap
    from kglink.workspace import Workspace


def overlap_record(overlap: Overlap) -> dict[str, object]:
    """The stable shape of an overlap in JSON."""
    return {
        "left": str(overlap.left),
        "right": str(overlap.right),
        "probability": overlap.probability,
        "evidence": dict(overlap.evidence),
        "verdict": overlap.verdict,
    }


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


def two_kbs(workspace: Workspace, left: str | None, right: str | None) -> tuple[str, str]:
    """The two KBs that are named, as they are named, or the only two that there are."""
    store = workspace.store
    infos = {info.name: info for info in store.kbs()}
    if left and right:
        names = [store.kb(left).name, store.kb(right).name]
        if left == right:
            raise UsageError(f"{left!r} has no overlap with itself", hint="Name two different KBs.")
    elif left or right:
        raise UsageError("overlap needs two KBs or none", hint=f"It was told {left or right!r}.")
    else:
        names = [name for name, info in infos.items() if info.entities]
    if len(names) != 2:
        raise UsageError(
            "which two KBs?", hint=f"There is: {', '.join(names)}." if names else "There is none."
        )
    for name in names:
        if not infos[name].entities:
            raise UsageError(f"{name!r} has no entities", hint="kglink add-kb adds some.")
    return names[0], names[1]
