"""`kglink eval --clusters`: whether mentions of one thing are answered alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kglink_cli.console import counted
from kglink_cli.tables import Figure, Table

if TYPE_CHECKING:
    from kglink.evaluation.clusters import ClusterFigures, Coreference
    from kglink.evaluation.retrieval import Question
    from kglink.workspace import Workspace
    from kglink.workspace.judging import EndToEnd


@dataclass
class WantedClusters:
    """Whether the figures of clusters are wanted, and what they are."""

    wanted: bool
    figures: ClusterFigures | None = None
    _found: Coreference | None = None

    def open(self, workspace: Workspace, question: Question | EndToEnd) -> Coreference | None:
        """What is to be told of the evaluation; None where nothing is wanted."""
        from kglink.workspace.clusters import coreference

        if self.wanted:
            self._found = coreference(workspace, question)
        return self._found

    def finish(self, workspace: Workspace, *, vectors: bool) -> None:
        """Say that all mentions were told; ``vectors``: there is a space that has theirs."""
        from kglink.workspace.clusters import figures_of

        if self._found is not None:
            self.figures = figures_of(workspace, self._found, vectors=vectors)

    def put_into(self, record: dict[str, object]) -> None:
        """Add to the JSON of an evaluation what was found."""
        if self.figures is not None:
            record["clusters"] = self.figures.as_json()

    def tables(self) -> list[Table]:
        """What was found, for people."""
        return [] if self.figures is None else [_clusters_table(self.figures)]


def _clusters_table(one: ClusterFigures) -> Table:
    from kglink.evaluation.clusters import NEAREST

    rows = [
        [name, *map(Figure, figures)]
        for name, figures in (
            ("B-cubed", one.b_cubed),
            ("CEAF, mentions", one.ceaf_m),
            ("CEAF, clusters", one.ceaf_e),
        )
    ]
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
