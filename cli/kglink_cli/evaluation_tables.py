"""The tables of `kglink eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kglink_cli.console import counted, note, print_table, say

if TYPE_CHECKING:
    from kglink.evaluation.kept import Comparison
    from kglink.evaluation.overlaps import OverlapFigures
    from kglink.evaluation.report import Figures, RetrievalReport

#: The row of the mean over KBs; the bracket keeps it apart from a KB of that name.
MEAN = "[mean of KBs]"
#: The types of entities that are shown; --json has all.
MOST_DOMAINS = 12


def print_recall(result: Figures) -> None:
    """A row for each KB, then all in one list; judged: less the KBs without gold."""
    names = _names(result)
    print_table(("pool", "mentions", *names), _rows(result), right=range(1, 2 + len(names)))
    told = getattr(result, "with_counterparts", None)
    if told is not None:
        say(
            "",
            "In the joint rankings a counterpart in another KB is right as well: "
            f"{counted(told, 'mention')} with one.",
        )


def print_seen(report: RetrievalReport) -> None:
    """The same, apart for surfaces that were learnt from and for others."""
    say(f"Surfaces seen in {', '.join(report.seen_in)}, and others")
    names = _names(report)
    rows = [
        [surfaces, *row]
        for surfaces, figures in (("seen", report.seen), ("unseen", report.unseen))
        for row in _rows(figures)
    ]
    columns = ("surfaces", "pool", "mentions", *names)
    print_table(columns, rows, right=range(2, len(columns)))


def print_domains(report: RetrievalReport) -> None:
    """The largest types of entities, each ranked within its KB."""
    domains = [
        (kb, kind, figures)
        for kb, kinds in report.domains().items()
        for kind, figures in kinds.items()
    ]
    domains.sort(key=lambda one: -one[2]["mentions"])
    shown = domains[:MOST_DOMAINS]
    names = _names(report)
    rows = [
        [kb, kind or "[none]", figures["mentions"], *_shares(figures, names)]
        for kb, kind, figures in shown
    ]
    say("By the type of the gold, within its KB")
    columns = ("kb", "type", "mentions", *names)
    print_table(columns, rows, right=range(2, len(columns)))
    if len(domains) > len(shown):
        note("more", f"these are the largest {len(shown)} of {len(domains)} types; --json has all")


def print_overlaps(found: Sequence[OverlapFigures]) -> None:
    """How near the counterparts are to each other."""
    say("Accepted overlaps: where the counterpart of a text vector stands")
    if not found:
        say("there are none between these KBs; `kglink overlap` finds some")
        return
    rows = [
        [
            one.queries,
            one.answers,
            one.overlaps,
            *(f"{value:.4f}" for value in (one.mrr, one.mrr_without_self, one.acs)),
        ]
        for one in found
    ]
    columns = ("from", "to", "overlaps", "MRR", "MRR without self", "ACS")
    print_table(columns, rows, right=range(2, len(columns)))


def print_comparison(comparison: Comparison, comparisons: int, seed: int) -> None:
    """The differences to a kept evaluation, and whether chance alone makes such."""
    rows = [
        [
            *(pool, name, test.items),
            *(f"{test.right:.3f}", f"{test.left:.3f}", f"{test.difference:+.3f}", f"{test.p:.4f}"),
            "yes" if test.is_significant(comparisons=comparisons) else "no",
        ]
        for pool, tests in comparison.tests(seed=seed).items()
        for name, test in tests.items()
    ]
    level = f".05 / {comparisons}" if comparisons > 1 else ".05"
    say(f"Against {comparison.path}, paired randomization test at {level}")
    columns = ("pool", "figure", "mentions", "there", "here", "difference", "p", "significant")
    print_table(columns, rows, right=range(2, 7))


def _names(figures: Figures) -> tuple[str, ...]:
    from kglink.evaluation.metrics import AP_AT_1, MAP_AT_10, MRR

    return (*(f"R@{k}" for k in figures.ks), AP_AT_1, MAP_AT_10, MRR)


def _rows(figures: Figures) -> list[list[object]]:
    """Every pool; the mean stands below the KBs where there are several."""
    names = _names(figures)
    counts, kbs = figures.mentions, figures.kbs()
    rows: list[list[object]] = [
        [pool, counts[pool], *_shares(figures.of(pool), names)] for pool in figures.pools()
    ]
    if len(kbs) > 1:
        mean = [MEAN, sum(counts[kb] for kb in kbs), *_shares(figures.mean_over_kbs(), names)]
        rows.insert(len(kbs), mean)
    return rows


def _shares(figures: Mapping[str, float], names: Sequence[str]) -> list[str]:
    return [f"{figures[name]:.3f}" for name in names]
