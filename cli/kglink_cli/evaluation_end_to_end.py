"""`kglink eval --end-to-end`: raw text in, links out, judged by annotated texts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kglink.workspace.outputs import whole_file
from kglink_cli.console import counted, progress
from kglink_cli.evaluation_tables import DIFFERENCE, against, differences
from kglink_cli.tables import Figure, Table

if TYPE_CHECKING:
    from kglink.evaluation.end_to_end import Answer, EndToEndReport, JudgedText
    from kglink.evaluation.kept import AnswerComparison
    from kglink.evaluation.scores import Score
    from kglink.workspace import Workspace
    from kglink.workspace.judging import EndToEnd
    from kglink_cli.evaluation_sinks import Sinks


def judge_end_to_end(
    workspace: Workspace, question: EndToEnd, sinks: Sinks
) -> tuple[EndToEndReport, AnswerComparison | None]:
    """The figures, and the comparison with a kept file; what was asked for is kept."""
    from kglink.evaluation.kept import AnswerComparison, KeptWriter
    from kglink.evaluation.seen import AUTO
    from kglink.workspace.judging import evaluate_end_to_end, evaluated_end_to_end

    comparison = None
    with ExitStack() as stack:
        analysis = sinks.errors.open(workspace, question, stack, AUTO)
        told = [] if analysis is None else [analysis.add_answers]
        if (together := sinks.clusters.open(workspace, question)) is not None:
            told.append(together.add_answers)
        if sinks.keep is not None or sinks.against is not None:
            facts = evaluated_end_to_end(workspace, question)
            if sinks.against is not None:
                comparison = AnswerComparison(sinks.against, facts)
                told.append(comparison.add)
            if sinks.keep is not None:
                out = stack.enter_context(whole_file(workspace, sinks.keep))
                told.append(KeptWriter(out, facts).add_answers)

        def each(text: JudgedText, answers: Sequence[Answer]) -> None:
            for tell in told:
                tell(text, answers)

        show = stack.enter_context(progress())
        report = evaluate_end_to_end(workspace, question, progress=show, each=each)
        if comparison is not None:
            comparison.finish()
        sinks.errors.finish()
        sinks.clusters.finish(workspace, vectors=False)
    return report, comparison


def end_to_end_table(report: EndToEndReport, *, intervals: bool = False) -> Table:
    """Detection, links of each KB and of all, NIL, confidence, and what went wrong most."""
    annotation, complete = report.annotation, report.complete
    links = report.joint.links
    known = [f"{links['strict'].gold:,} with an entity of these KBs"]
    if report.nil.gold:
        known.append(f"{report.nil.gold:,} with none (NIL)")
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
        told = (
            f"The texts are taken for annotated in part{why}: what is found beside the "
            "annotations may be right, so there is no precision and no F1. --complete gives them "
            "where all mentions are annotated."
        )
        below += ["", *textwrap.wrap(told, 100)]
    below += _confidence(report)
    below += _most("missed most", report.missed())
    if complete:
        below += _most("invented most", report.invented())
    borders = [(f"{gold} > {found}", count) for (gold, found), count in report.borders()]
    return Table(columns, rows, 3, title, [*below, *_most("other ends", borders)])


def answer_comparison_table(
    comparison: AnswerComparison, report: EndToEndReport, comparisons: int, seed: int
) -> Table:
    """The differences to kept answers, and whether chance alone makes such."""
    figure = "macro F1" if report.complete else "macro recall"
    found = comparison.tests(complete=report.complete, seed=seed)
    rows = differences({(name, figure): test for name, test in found.items()}, comparisons)
    columns = ("what", "figure", "texts", *DIFFERENCE)
    return Table(columns, rows, 2, against(comparison.path, comparisons))


def _row(
    what: str, pool: str, match: str, score: Score, *, complete: bool, intervals: bool
) -> list[object]:
    micro, macro = score.micro, score.macro(complete=complete)
    around = score.intervals() if intervals else (None, None, None)
    shares = [Figure(*one) for one in zip(micro, around, strict=True)]
    told: list[object] = [*shares, Figure(macro.f1)]
    if not complete:
        told = [shares[1], Figure(macro.recall)]
    if not score.gold:
        told = ["-"] * len(told)
    if what == "NIL":  # Most texts have none: the mean over texts would say nothing.
        told[-1] = "-"
    return [what, pool, match, score.gold, score.found, score.right, *told]


def _confidence(report: EndToEndReport) -> list[str]:
    calibration = report.joint.calibration
    if calibration.ece is None:
        return []
    return [
        "",
        f"confidence     {calibration.ece:.3f} from the share of right answers "
        f"(ECE, {counted(calibration.answers, 'answer')}); Brier score {calibration.brier:.3f}",
    ]


def _most(label: str, counts: Sequence[tuple[str, int]]) -> list[str]:
    if not counts:
        return []
    told = ", ".join(f"{_one_line(text)} {count:,}" for text, count in counts)
    return [f"{label:14} {told}"]


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)
