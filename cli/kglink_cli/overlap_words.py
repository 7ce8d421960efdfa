"""Overlaps, and what was found of them, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink_cli.console import counted

if TYPE_CHECKING:
    from kglink.overlap.review.sample import Share
    from kglink.overlap.search import OverlapReport
    from kglink.records import Overlap


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
