"""The tables of `kglink eval`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kglink.text.printable import printable
from kglink_cli.console import Figure, Table, counted, note

if TYPE_CHECKING:
    from kglink.evaluation.comparison import AnswerComparison, Comparison
    from kglink.evaluation.measures.clusters import ClusterFigures
    from kglink.evaluation.measures.end_to_end import EndToEndReport, Score
    from kglink.evaluation.measures.overlaps import OverlapFigures, OverlapTest
    from kglink.evaluation.measures.retrieval import Figures, RetrievalReport
    from kglink.evaluation.significance import RandomizationTest

#: The types of entities that are shown; --json has all.
MOST_TYPES = 12
#: What the groups of a kind are called.
KINDS = {
    "kb": "KB of the gold",
    "type": "type of the gold",
    "frequency": "gold learnt, times",
    "ambiguity": "entities of the name",
    "surfaces": "surface",
}
#: The row of the mean over KBs; the bracket keeps it apart from a KB of that name.
MEAN = "[mean of KBs]"


def recall_table(result: Figures, *, intervals: bool = False) -> Table:
    """A row for each KB, then all in one list; judged: less the KBs without gold."""
    known = getattr(result, "with_counterparts", None)
    below = "In the joint rankings a counterpart in another KB is right as well: "
    lines = () if known is None else ("", f"{below}{counted(known, 'mention')} with one.")
    columns = ("pool", "mentions", *_names(result))
    return Table(columns, _rows(result, intervals=intervals), 1, below=lines)


def accuracy_table(accuracies: Mapping[str, Any]) -> Table:
    """How often the first candidate is right, of all mentions and of those that it can be."""
    total = accuracies["micro"]
    shares = {**accuracies["kb"], "[all mentions]": total, MEAN: {**total, **accuracies["macro"]}}
    rows = [
        [
            *(pool, one["mentions"], one["with_gold"]),
            *(Figure(one["normalized"]), Figure(one["unnormalized"])),
        ]
        for pool, one in shares.items()
    ]
    columns = ("pool", "mentions", "with gold", "normalized", "unnormalized")
    title = (
        "Accuracy of the first candidate: of mentions with gold among the candidates, and of all"
    )
    return Table(columns, rows, 1, title)


def slices_tables(report: RetrievalReport, *, intervals: bool = False) -> Iterator[Table]:
    """The same by whether surfaces and entities were learnt from, and by quality of annotations."""
    learnt = ", ".join(report.seen_in)
    surfaces = {"seen": report.seen, "unseen": report.unseen}
    entities = {"seen": report.seen_entities, "unseen": report.unseen_entities}
    for column, slices, title in (
        ("surfaces", surfaces, f"Surfaces seen in {learnt}, and others"),
        ("entities", entities, f"Entities seen in {learnt}, and others"),
        ("quality", dict(sorted(report.by_quality.items())), "By the quality of the annotation"),
    ):
        rows = [
            [name, *row]
            for name, figures in slices.items()
            for row in _rows(figures, intervals=intervals)
        ]
        if rows:  # without ``learnt`` nothing is known to be seen or unseen
            yield Table((column, "pool", "mentions", *_names(report)), rows, 2, title)


def domains_table(report: RetrievalReport) -> Table:
    """The largest types of entities, each ranked within its KB."""
    names = _names(report)
    rows = [
        [kb, kind or "[none]", figures["mentions"], *(Figure(figures[name]) for name in names)]
        for kb, kinds in report.domains().items()
        for kind, figures in kinds.items()
    ]
    rows.sort(key=lambda row: -row[2])
    count, rows = len(rows), rows[:MOST_TYPES]
    if count > MOST_TYPES:
        note("more", f"these are the largest {MOST_TYPES} of {count} types; --json has all")
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
    tests: dict[tuple[str, ...], RandomizationTest] = {
        (one.queries, one.answers, one.figure): one.test for one in found
    }
    things = ("from", "to", "figure", "overlaps")
    return _differences(things, tests, f"space {space}", comparisons, digits=4)


def comparison_table(
    comparison: Comparison | AnswerComparison, comparisons: int, seed: int
) -> Table:
    """The differences to a kept evaluation, and whether chance alone makes such."""
    from kglink.evaluation.comparison import Comparison

    if isinstance(comparison, Comparison):
        things = ("pool", "figure", "mentions")
        tests: dict[tuple[str, ...], RandomizationTest] = {
            (pool, name): test
            for pool, figures in comparison.tests(seed=seed).items()
            for name, test in figures.items()
        }
    else:
        things = ("what", "figure", "texts")
        figure = "macro F1" if comparison.complete else "macro recall"
        tests = {(name, figure): test for name, test in comparison.tests(seed=seed).items()}
    return _differences(things, tests, str(comparison.path), comparisons)


def _differences(
    things: tuple[str, ...],
    tests: Mapping[tuple[str, ...], RandomizationTest],
    other: str,
    comparisons: int,
    digits: int = 3,
) -> Table:
    """A row for each paired test, behind the words that say what it is of."""
    rows = [
        [
            *(*words, test.items),
            *(Figure(value, digits=digits) for value in (test.right, test.left)),
            *(f"{test.difference:+.{digits}f}", f"{test.p:.4f}"),
            "yes" if test.is_significant(comparisons=comparisons) else "no",
        ]
        for words, test in tests.items()
    ]
    columns = (*things, "there", "here", "difference", "p", "significant")
    level = f".05 / {comparisons}" if comparisons > 1 else ".05"
    title = f"Against {other}, paired randomization test at {level}"
    return Table(columns, rows, len(things) - 1, title)


def _names(figures: Figures) -> tuple[str, ...]:
    from kglink.evaluation.measures.retrieval import SHOWN

    return (*(f"R@{k}" for k in figures.ks), *SHOWN)


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


# --------------------------------------------------------------------------- whole answers
def end_to_end_table(report: EndToEndReport, *, intervals: bool = False) -> Table:
    """Detection, links of each KB and of all, NIL, confidence, and what went wrong most."""
    annotation, complete = report.annotation, report.complete
    links = report.joint.links
    known = [f"{links['strict'].gold:,} with an entity of these KBs"]
    if report.nil.gold:
        known.append(f"{report.nil.gold:,} with none (NIL)")
    if report.elsewhere:
        known.append(f"{report.elsewhere:,} of other KBs")
    if report.unknown:
        known.append(f"{report.unknown:,} of unknown meaning")
    title = (
        f"Raw text in: {counted(annotation.texts, 'text')}, "
        f"{counted(annotation.mentions, 'mention')}: {', '.join(known)}"
    )
    if report.other_types:
        counts = ", ".join(f"{name} {count:,}" for name, count in report.other_types.items())
        title += f"; of types that these KBs do not hold, passed over: {counts}"
    scores = [("detection", "[joint]", *one) for one in report.joint.detection.items()]
    for kb, alone in report.kb.items():
        scores += [("links", kb, *one) for one in alone.links.items()]
    scores += [("links", "[joint]", *one) for one in links.items()]
    if report.nil.gold:
        scores.append(("NIL", "[joint]", "strict", report.nil))
    rows = [_row(*one, complete=complete, intervals=intervals) for one in scores]
    figures = ("precision", "recall", "F1", "macro F1") if complete else ("recall", "macro recall")
    columns = ("what", "pool", "match", "mentions", "found", "right", *figures)
    below: list[str] = []
    if not complete:
        why = f" ({annotation.partial})" if annotation.partial else ""
        words = (
            f"The texts are taken for annotated in part{why}: what is found beside the "
            "annotations may be right, so there is no precision and no F1. --complete gives them "
            "where all mentions are annotated."
        )
        below += ["", *textwrap.wrap(words, 100)]
    if report.joint.detection["strict"].found and not links["strict"].found:
        below += ["", "No answer names an entity."]
    below += _confidence(report)
    below += _most("missed most", report.missed())
    if complete:
        below += _most("invented most", report.invented())
    borders = [(f"{gold} > {found}", count) for (gold, found), count in report.borders()]
    return Table(columns, rows, 3, title, [*below, *_most("other ends", borders)])


def _row(
    what: str, pool: str, match: str, score: Score, *, complete: bool, intervals: bool
) -> list[object]:
    micro, macro = score.micro, score.macro(complete=complete)
    around = score.intervals() if intervals else (None, None, None)
    shares = [Figure(*one) for one in zip(micro, around, strict=True)]
    words: list[object] = [*shares, Figure(macro.f1)]
    if not complete:
        words = [shares[1], Figure(macro.recall)]
    if not score.gold:
        words = ["-"] * len(words)
    if what == "NIL":  # Most texts have none: the mean over texts would say nothing.
        words[-1] = "-"
    return [what, pool, match, score.gold, score.found, score.right, *words]


def _confidence(report: EndToEndReport) -> Iterator[str]:
    """How sure answers are, and what thresholds keep: of those that keep the same the least."""
    calibration = report.joint.calibration
    if calibration.ece is None:
        return
    yield ""
    yield (
        f"confidence     {calibration.ece:.3f} from the share of right answers "
        f"(ECE, {counted(calibration.answers, 'answer')}); Brier score {calibration.brier:.3f}"
    )
    before = -1.0
    for point in report.joint.operating_points():
        if point.links != before:
            yield (
                f"{f'at least {point.threshold:g}':14} {point.links:,.0f} links in 1,000 texts, "
                f"{point.right:,.0f} right, {point.wrong:,.0f} wrong"
            )
        before = point.links


def _most(label: str, counts: Sequence[tuple[str, int]]) -> list[str]:
    words = ", ".join(f"{printable(text)} {count:,}" for text, count in counts)
    return [f"{label:14} {words}"] if counts else []


# ----------------------------------------------------------------------- errors and clusters
def error_rows(errors: Mapping[str, Any], used: Sequence[str]) -> list[list[object]]:
    """A row for each group: its mentions, how many are right, and the reasons of the others."""
    rows: list[list[Any]] = [["all", "", errors]]
    for kind, groups in errors["groups"].items():
        shown = groups[:MOST_TYPES] if kind == "type" else groups
        rows += [[KINDS[kind], one["group"], one] for one in shown]
    return [
        [*words, one["mentions"], one["right"], *(one["reasons"][reason] for reason in used)]
        for *words, one in rows
    ]


def errors_table(errors: Mapping[str, Any]) -> Table:
    """Why mentions are answered wrongly, from the JSON of it."""
    from kglink.evaluation.measures.errors import REASONS

    used = [reason for reason in REASONS if errors["reasons"][reason]]
    rows = error_rows(errors, used)
    below = ["", *(f"{reason:14} {REASONS[reason]}" for reason in used)]
    if errors["learnt_from"]:
        below.append(f"{'learnt from':14} {', '.join(errors['learnt_from'])}")
    if (more := len(errors["groups"].get("type", ())) - MOST_TYPES) > 0:
        below.append(f"{'more':14} {counted(more, 'smaller type')}; --json has all")
    columns = ("by", "group", "mentions", "right", *used)
    return Table(columns, rows, 2, "Why mentions are answered wrongly", below)


def clusters_table(one: ClusterFigures) -> Table:
    """Whether mentions of one thing are answered alike."""
    from kglink.evaluation.measures.clusters import NEAREST

    each = {"B-cubed": one.b_cubed, "CEAF, mentions": one.ceaf_m, "CEAF, clusters": one.ceaf_e}
    rows = [[name, *map(Figure, figures)] for name, figures in each.items()]
    title = (
        f"Mentions put together: {counted(one.mentions, 'mention')} of "
        f"{counted(one.gold_clusters, 'thing')}, answered as {counted(one.found_clusters, 'thing')}"
    )
    below = ["", f"ARI {one.ari:.3f}, NMI {one.nmi:.3f}"]
    if one.mention_recall is not None:
        below.append(
            f"{one.mention_recall:.3f} of the mentions that mean the same are among the nearest "
            f"{NEAREST} (mention recall@{NEAREST})"
        )
    return Table(("figure", "precision", "recall", "F1"), rows, 1, title, below)
