"""The tables of `kglink eval`: retrieval, overlaps, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kglink_cli.console import counted, note
from kglink_cli.tables import Figure, Table

if TYPE_CHECKING:
    from pathlib import Path

    from kglink.evaluation.kept import Comparison
    from kglink.evaluation.overlaps import OverlapFigures, OverlapTest
    from kglink.evaluation.report import Figures, RetrievalReport
    from kglink.evaluation.significance import RandomizationTest

#: The row of the mean over KBs; the bracket keeps it apart from a KB of that name.
MEAN = "[mean of KBs]"
#: The types of entities that are shown; --json has all.
MOST_DOMAINS = 12


def recall_table(result: Figures, *, intervals: bool = False) -> Table:
    """A row for each KB, then all in one list; judged: less the KBs without gold."""
    told = getattr(result, "with_counterparts", None)
    below = (
        ()
        if told is None
        else (
            "",
            "In the joint rankings a counterpart in another KB is right as well: "
            f"{counted(told, 'mention')} with one.",
        )
    )
    columns = ("pool", "mentions", *_names(result))
    return Table(columns, _rows(result, intervals=intervals), 1, below=below)


def accuracy_table(result: Figures) -> Table:
    """How often the first candidate is right: of all mentions, and of those that it can be."""
    from kglink.evaluation.report import macro, micro

    each = {kb: result.accuracy(kb) for kb in result.kbs()}
    rows: list[list[object]] = [
        [kb, one.mentions, one.with_gold, Figure(one.normalized), Figure(one.unnormalized)]
        for kb, one in {**each, "[all mentions]": micro(each.values())}.items()
    ]
    means = macro(each.values())
    total = rows[-1][1:3]
    rows.append([MEAN, *total, Figure(means["normalized"]), Figure(means["unnormalized"])])
    columns = ("pool", "mentions", "with gold", "normalized", "unnormalized")
    title = (
        "Accuracy of the first candidate: of mentions with gold among the candidates, and of all"
    )
    return Table(columns, rows, 1, title)


def seen_table(report: RetrievalReport, *, intervals: bool = False) -> Table:
    """The same, apart for surfaces that were learnt from and for others."""
    rows = [
        [surfaces, *row]
        for surfaces, figures in (("seen", report.seen), ("unseen", report.unseen))
        for row in _rows(figures, intervals=intervals)
    ]
    title = f"Surfaces seen in {', '.join(report.seen_in)}, and others"
    return Table(("surfaces", "pool", "mentions", *_names(report)), rows, 2, title)


def slices_tables(report: RetrievalReport, *, intervals: bool = False) -> Iterator[Table]:
    """The same by whether the entities were learnt from, and by the quality of annotations."""
    of_entities = {"seen": report.seen_entities, "unseen": report.unseen_entities}
    title = f"Entities seen in {', '.join(report.seen_in)}, and others"
    for column, slices, above in (
        ("entities", of_entities if report.seen_in else {}, title),
        ("quality", dict(sorted(report.by_quality.items())), "By the quality of the annotation"),
    ):
        rows = [
            [name, *row]
            for name, figures in slices.items()
            for row in _rows(figures, intervals=intervals)
        ]
        if rows:
            yield Table((column, "pool", "mentions", *_names(report)), rows, 2, above)


def domains_table(report: RetrievalReport) -> Table:
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
        [kb, kind or "[none]", figures["mentions"], *(Figure(figures[name]) for name in names)]
        for kb, kind, figures in shown
    ]
    if len(domains) > len(shown):
        note("more", f"these are the largest {len(shown)} of {len(domains)} types; --json has all")
    title = "By the type of the gold, within its KB"
    return Table(("kb", "type", "mentions", *names), rows, 2, title)


def overlaps_table(found: Sequence[OverlapFigures]) -> Table:
    """How near the counterparts are to each other."""
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
    title = "Accepted overlaps: where the counterpart of a text vector stands"
    none = () if found else ("there are none between these KBs; `kglink overlap` finds some",)
    return Table(columns, rows, 2, title, none)


def overlap_tests_table(found: Sequence[OverlapTest], space: str, comparisons: int) -> Table:
    """The differences of MRR and ACS to another space, and whether chance alone makes such."""
    rows = [
        [
            *(one.queries, one.answers, one.figure, one.test.items),
            *(f"{value:.4f}" for value in (one.test.right, one.test.left)),
            *(f"{one.test.difference:+.4f}", f"{one.test.p:.4f}"),
            "yes" if one.test.is_significant(comparisons=comparisons) else "no",
        ]
        for one in found
    ]
    columns = ("from", "to", "figure", "overlaps", *DIFFERENCE)
    return Table(columns, rows, 3, against(f"space {space}", comparisons))


def comparison_table(comparison: Comparison, comparisons: int, seed: int) -> Table:
    """The differences to a kept evaluation, and whether chance alone makes such."""
    tests = {
        (pool, name): test
        for pool, figures in comparison.tests(seed=seed).items()
        for name, test in figures.items()
    }
    columns = ("pool", "figure", "mentions", *DIFFERENCE)
    return Table(columns, differences(tests, comparisons), 2, against(comparison.path, comparisons))


#: The columns of a paired test.
DIFFERENCE = ("there", "here", "difference", "p", "significant")


def differences(
    tests: Mapping[tuple[str, str], RandomizationTest], comparisons: int
) -> list[list[object]]:
    """A row for each paired test."""
    return [
        [
            *(*words, test.items, Figure(test.right), Figure(test.left)),
            *(f"{test.difference:+.3f}", f"{test.p:.4f}"),
            "yes" if test.is_significant(comparisons=comparisons) else "no",
        ]
        for words, test in tests.items()
    ]


def against(path: Path | str, comparisons: int) -> str:
    """What a table of differences is of."""
    level = f".05 / {comparisons}" if comparisons > 1 else ".05"
    return f"Against {path}, paired randomization test at {level}"


def _names(figures: Figures) -> tuple[str, ...]:
    from kglink.evaluation.metrics import AP_AT_1, MAP_AT_10, MRR

    return (*(f"R@{k}" for k in figures.ks), AP_AT_1, MAP_AT_10, MRR)


def _rows(figures: Figures, *, intervals: bool) -> list[list[object]]:
    """Every pool; the mean stands below the KBs where there are several."""
    names = _names(figures)
    counts, kbs = figures.mentions, figures.kbs()
    rows: list[list[object]] = []
    for pool in figures.pools():
        values, around = figures.of(pool), figures.intervals(pool) if intervals else {}
        rows.append([pool, counts[pool], *(Figure(values[one], around.get(one)) for one in names)])
    if len(kbs) > 1:
        values = figures.mean_over_kbs()
        mean = [MEAN, sum(counts[kb] for kb in kbs), *(Figure(values[one]) for one in names)]
        rows.insert(len(kbs), mean)
    return rows
