"""Two spaces of a workspace beside each other: what differs, and which of them finds more."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kglink.errors import UsageError
from kglink.evaluation.kept import Comparison, KeptWriter
from kglink.evaluation.report import RetrievalReport
from kglink.evaluation.retrieval import Question
from kglink.evaluation.significance import RandomizationTest
from kglink.records import OnProgress
from kglink.workspace.evaluation import evaluate, evaluated
from kglink.workspace.spaces import SpaceSummary, read_space

if TYPE_CHECKING:
    from kglink.workspace.workspace import Workspace


class Difference(NamedTuple):
    """One thing that two spaces do not have in common."""

    what: str
    left: object
    right: object


@dataclass(frozen=True, slots=True)
class RecallComparison:
    """The same evaluation of two spaces; the tests have the right space on their left side."""

    kbs: tuple[str, ...]
    left: RetrievalReport
    right: RetrievalReport
    tests: Mapping[str, Mapping[str, RandomizationTest]]


def compare_spaces(workspace: Workspace, left: str, right: str) -> list[Difference]:
    """In what two spaces differ."""
    if left == right:
        raise UsageError(f"space {left!r} compared with itself", hint="Name two spaces.")
    sides = read_space(workspace, left), read_space(workspace, right)
    for side in sides:
        if not side.created:
            raise UsageError(f"space {side.name!r} cannot be compared: {side.problem}")
    ours, theirs = (_facts(side) for side in sides)
    return [
        Difference(what, ours.get(what), theirs.get(what))
        for what in dict.fromkeys([*ours, *theirs])
        if ours.get(what) != theirs.get(what)
    ]


def compare_recalls(
    workspace: Workspace,
    left: str,
    right: str,
    question: Question,
    *,
    progress: OnProgress = lambda _: None,
) -> RecallComparison:
    """Evaluate both spaces on the same documents and KBs, and test the differences."""
    theirs = {share.kb for share in read_space(workspace, right).kbs}
    common = [share.kb for share in read_space(workspace, left).kbs if share.kb in theirs]
    kbs = tuple(kb for kb in common if not question.kbs or kb in question.kbs)
    if not kbs:
        raise UsageError(f"spaces {left!r} and {right!r} have no KB in common to evaluate")
    asked = Question(question.docs, question.split, kbs, question.ks, question.counterparts)
    with tempfile.TemporaryDirectory(prefix="kglink-compare-") as scratch:
        kept = Path(scratch) / "ranks.jsonl"
        with kept.open("w", encoding="utf-8") as out, _opened(workspace, left) as one:
            writer = KeptWriter(out, evaluated(one, asked))
            first = evaluate(one, asked, progress=progress, each=writer.add)
        with _opened(workspace, right) as one:
            comparison = Comparison(kept, evaluated(one, asked))
            second = evaluate(one, asked, progress=progress, each=comparison.add)
            comparison.finish()
    return RecallComparison(kbs, first, second, comparison.tests())


def _opened(workspace: Workspace, space: str) -> Workspace:
    return type(workspace).open(
        workspace.folder, flags={"space.name": space}, registry=workspace.registry
    )


def _facts(space: SpaceSummary) -> dict[str, object]:
    return dict(_named_facts(space))


def _named_facts(space: SpaceSummary) -> Iterator[tuple[str, object]]:
    yield "model", space.model
    yield "fingerprint", space.fingerprint
    yield "dimension", space.dim
    yield "kinds of rows", ", ".join(space.kinds)
    for share in space.kbs:
        yield f"{share.kb}: revision", share.revision
        yield f"{share.kb}: entities", share.entities
        yield f"{share.kb}: rows", share.rows
    yield "entities", space.entities
    yield "rows", space.rows
    yield "index", space.index
    for name, value in (space.index_settings or {}).items():
        yield f"index: {name}", value
    yield "index bytes", space.index_bytes
    yield "bytes", space.bytes
    yield "current", space.current
