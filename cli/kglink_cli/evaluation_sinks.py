"""Where `kglink eval` sends each mention or text besides its figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.workspace.outputs import whole_file
from kglink_cli.evaluation_clusters import WantedClusters
from kglink_cli.evaluation_errors import WantedErrors

if TYPE_CHECKING:
    from kglink.evaluation.kept import Comparison
    from kglink.evaluation.rankings import RankedMention
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace


@dataclass
class Sinks:
    """Where every mention goes: a file, a comparison with a file, the reasons, the clusters."""

    keep: Path | None
    against: Path | None
    errors: WantedErrors
    clusters: WantedClusters
    comparison: Comparison | None = None

    def open(
        self, workspace: Workspace, question: Question, stack: ExitStack
    ) -> list[Callable[[RankedMention], None]]:
        """What is to be told of every mention; what cannot be compared is refused now."""
        analysis = self.errors.open(workspace, question, stack, question.seen_in)
        told: list[Callable[[RankedMention], None]] = []
        if analysis is not None:
            told.append(analysis.add_ranked)
        if (together := self.clusters.open(workspace, question)) is not None:
            told.append(together.add_ranked)
        if self.keep is None and self.against is None:
            return told
        from kglink.evaluation.kept import Comparison, KeptWriter
        from kglink.workspace.judging import evaluated

        facts = evaluated(workspace, question)
        if self.against is not None:
            self.comparison = Comparison(self.against, facts, question.ks)
            told.append(self.comparison.add)
        if self.keep is not None:
            told.append(
                KeptWriter(stack.enter_context(whole_file(workspace, self.keep)), facts).add
            )
        return told
