"""`kglink eval --errors`: why mentions are answered wrongly."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.errors import UsageError
from kglink.workspace.outputs import whole_file
from kglink_cli.console import counted
from kglink_cli.tables import Table

if TYPE_CHECKING:
    from kglink.evaluation.error_groups import ErrorSummary
    from kglink.evaluation.errors import Case, ErrorAnalysis
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace
    from kglink.workspace.judging import EndToEnd

#: The types that are shown; --json has all.
MOST_TYPES = 12
#: What the groups of a kind are called.
KINDS = {
    "kb": "KB of the gold",
    "type": "type of the gold",
    "frequency": "gold learnt, times",
    "ambiguity": "entities of the name",
    "surfaces": "surface",
}


@dataclass
class WantedErrors:
    """Whether the reasons of wrong answers are wanted, and where each mention is written to."""

    wanted: bool
    to: Path | None
    summary: ErrorSummary | None = None
    _analysis: ErrorAnalysis | None = None

    def open(
        self, workspace: Workspace, question: Question | EndToEnd, stack: ExitStack, seen_in: str
    ) -> ErrorAnalysis | None:
        """What is to be told of the evaluation; None where nothing is wanted."""
        from kglink.workspace.errors import error_analysis

        if not self.wanted:
            return None
        out = None if self.to is None else stack.enter_context(whole_file(workspace, self.to))

        def each(case: Case) -> None:
            if out is not None:
                out.write(json.dumps(case.as_json(), ensure_ascii=False) + "\n")

        self._analysis = error_analysis(workspace, question, seen_in=seen_in, each=each)
        return self._analysis

    def finish(self) -> None:
        """Say that all mentions were told."""
        if self._analysis is not None:
            self.summary = self._analysis.finish()

    def check(self, predictions: Path | None) -> None:
        """Refuse what has no candidates."""
        if self.wanted and predictions is not None:
            raise UsageError(
                "--errors asks the space for the candidates of each mention, and a file of "
                "--predictions is judged without a space",
                hint="Leave one of the two out.",
            )

    def put_into(self, record: dict[str, object]) -> None:
        """Add to the JSON of an evaluation what was found."""
        if self.summary is not None:
            record["errors"] = self.summary.as_json()

    def tables(self) -> list[Table]:
        """What was found, for people."""
        return [] if self.summary is None else [errors_table(self.summary)]


def errors_table(summary: ErrorSummary) -> Table:
    """A row for each group: its mentions, how many are right, and the reasons of the others."""
    from kglink.evaluation.error_groups import REASONS

    used = [reason for reason in REASONS if summary.all[reason]]
    rows: list[list[object]] = []

    def add(kind: str, group: str, counts: Any) -> None:
        told = (counts[reason] for reason in (None, *used))
        rows.append([kind, group, counts.total(), *told])

    add("all", "", summary.all)
    more = 0
    for kind, groups in summary.groups().items():
        shown = list(groups.items())
        if kind == "type":
            more = max(0, len(shown) - MOST_TYPES)
            shown = shown[:MOST_TYPES]
        for group, counts in shown:
            add(KINDS[kind], group, counts)
    below = [""]
    below += [f"{reason:14} {REASONS[reason]}" for reason in used]
    if summary.learnt_from:
        below.append(f"{'learnt from':14} {', '.join(summary.learnt_from)}")
    if more:
        below.append(f"{'more':14} {counted(more, 'smaller type')}; --json has all")
    columns = ("by", "group", "mentions", "right", *used)
    return Table(columns, rows, 2, "Why mentions are answered wrongly", below)
