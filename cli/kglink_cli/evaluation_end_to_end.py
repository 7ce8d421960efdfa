"""`kglink eval --end-to-end`: raw text in, links out, judged by annotated texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.workspace.outputs import whole_file
from kglink_cli.console import counted, print_table, progress, say

if TYPE_CHECKING:
    from kglink.evaluation.answer_files import AnswerComparison
    from kglink.evaluation.end_to_end import Answer, EndToEndReport, JudgedText
    from kglink.evaluation.scores import Score
    from kglink.workspace import Workspace
    from kglink.workspace.evaluation import EndToEnd


def judge_end_to_end(
    workspace: Workspace, question: EndToEnd, keep: Path | None, against: Path | None
) -> tuple[EndToEndReport, AnswerComparison | None]:
    """The figures, and the comparison with a kept file; what was asked for is kept."""
    from kglink.evaluation.answer_files import AnswerComparison, AnswerWriter
    from kglink.workspace.evaluation import evaluate_end_to_end, evaluated_end_to_end

    comparison = None
    with ExitStack() as stack:
        told = []
        if keep is not None or against is not None:
            facts = evaluated_end_to_end(workspace, question)
            if against is not None:
                comparison = AnswerComparison(against, facts)
                told.append(comparison.add)
            if keep is not None:
                told.append(
                    AnswerWriter(stack.enter_context(whole_file(workspace, keep)), facts).add
                )

        def each(text: JudgedText, answers: Sequence[Answer]) -> None:
            for tell in told:
                tell(text, answers)

        show = stack.enter_context(progress())
        report = evaluate_end_to_end(workspace, question, progress=show, each=each)
        if comparison is not None:
            comparison.finish()
    return report, comparison


def print_end_to_end(report: EndToEndReport) -> None:
    """Detection, links of each KB and of all, NIL, confidence, and what went wrong most."""
    annotation, complete = report.annotation, report.complete
    links = report.joint.links
    known = [f"{links['strict'].gold:,} with an entity of these KBs"]
    if report.nil.gold:
        known.append(f"{report.nil.gold:,} with none (NIL)")
    if report.unknown:
        known.append(f"{report.unknown:,} of unknown meaning")
    say(
        f"Raw text in: {counted(annotation.texts, 'text')}, "
        f"{counted(annotation.mentions, 'mention')}: {', '.join(known)}"
    )
    scores = [("detection", "[joint]", *one) for one in report.joint.detection.items()]
    for kb, alone in report.kb.items():
        scores += [("links", kb, *one) for one in alone.links.items()]
    scores += [("links", "[joint]", *one) for one in links.items()]
    if report.nil.gold:
        scores.append(("NIL", "[joint]", "strict", report.nil))
    rows = [_row(*one, complete=complete) for one in scores]
    figures = ("precision", "recall", "F1", "macro F1") if complete else ("recall", "macro recall")
    columns = ("what", "pool", "match", "mentions", "found", "right", *figures)
    print_table(columns, rows, right=range(3, len(columns)))
    if not complete:
        why = f" ({annotation.partial})" if annotation.partial else ""
        say(
            "",
            f"The texts are taken for annotated in part{why}: what is found beside the",
            "annotations may be right, so there is no precision and no F1. --complete gives them",
            "where all mentions are annotated.",
        )
    _print_confidence(report)
    _print_most("missed most", report.missed())
    if complete:
        _print_most("invented most", report.invented())
    borders = [(f"{gold} > {found}", count) for (gold, found), count in report.borders()]
    _print_most("other ends", borders)


def print_answer_comparison(
    comparison: AnswerComparison, report: EndToEndReport, comparisons: int, seed: int
) -> None:
    """The differences to kept answers, and whether chance alone makes such."""
    figure = "macro F1" if report.complete else "macro recall"
    rows = [
        [
            *(name, figure, test.items, f"{test.right:.3f}", f"{test.left:.3f}"),
            *(f"{test.difference:+.3f}", f"{test.p:.4f}"),
            "yes" if test.is_significant(comparisons=comparisons) else "no",
        ]
        for name, test in comparison.tests(complete=report.complete, seed=seed).items()
    ]
    level = f".05 / {comparisons}" if comparisons > 1 else ".05"
    say(f"Against {comparison.path}, paired randomization test at {level}")
    columns = ("what", "figure", "texts", "there", "here", "difference", "p", "significant")
    print_table(columns, rows, right=range(2, 7))


def _row(what: str, pool: str, match: str, score: Score, *, complete: bool) -> list[object]:
    micro, macro = score.micro, score.macro(complete=complete)
    shares = [*micro, macro.f1] if complete else [micro.recall, macro.recall]
    told = [f"{one:.3f}" for one in shares]
    if what == "NIL":  # Most texts have none: the mean over texts would say nothing.
        told[-1] = "-"
    return [what, pool, match, score.gold, score.found, score.right, *told]


def _print_confidence(report: EndToEndReport) -> None:
    calibration = report.joint.calibration
    if calibration.ece is not None:
        say(
            "",
            f"confidence     {calibration.ece:.3f} from the share of right answers "
            f"(ECE, {counted(calibration.answers, 'answer')})",
        )


def _print_most(label: str, counts: Sequence[tuple[str, int]]) -> None:
    if counts:
        told = ", ".join(f"{_one_line(text)} {count:,}" for text, count in counts)
        say(f"{label:14} {told}")


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)
