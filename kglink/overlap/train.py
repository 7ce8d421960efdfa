"""Training the overlap model on what people said of pairs."""

from __future__ import annotations

from dataclasses import dataclass

from kglink.errors import UsageError
from kglink.overlap.model import OverlapModel, Values, fit
from kglink.overlap.search import OverlapTools, open_search
from kglink.overlap.weigh import Verdicts, Weighing
from kglink.records import OnProgress

#: Verdicts of each kind, at least, without which nothing can be learnt.
LEAST_VERDICTS = 5
#: Fewer pairs judged wrong than this: the rivals of pairs judged correct stand in for them.
FEW_WRONG = 20
#: How much a rival counts against a pair that somebody judged.
RIVAL_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Training:
    """A model, and what it was trained on."""

    model: OverlapModel
    prior: OverlapModel
    correct: int
    wrong: int
    rivals: int
    """Pairs taken for wrong because one of their entities is in a pair judged correct."""
    kbs: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Lessons:
    """Judged pairs with their values."""

    values: list[Values]
    verdicts: list[bool]
    rivals: list[Values]


def train(
    tools: OverlapTools, *, prior: OverlapModel, progress: OnProgress = lambda _: None
) -> Training:
    """Fit a model to all verdicts of the store; an unclear one teaches nothing.

    The evidence is weighed anew for every two KBs with verdicts, so that pairs which no search
    had found teach as well. A list of correct pairs alone, such as an imported one, says what is
    wrong by what it does not hold: other pairs of the same entities.
    """
    lessons = _Lessons([], [], [])
    # The KBs, two by two, of which pairs were judged correct or wrong.
    found: dict[tuple[str, str], None] = {}
    for overlap in tools.store.overlaps(judged=True):
        if overlap.verdict != "unclear":
            first, second = sorted((overlap.left.kb, overlap.right.kb))
            found[first, second] = None
    judged = list(found)
    for left, right in judged:
        with open_search(tools, left, right, progress) as search:
            verdicts = search.verdicts()
            _learn(lessons, search.weigh(verdicts), verdicts)
    correct = sum(lessons.verdicts)
    wrong = len(lessons.verdicts) - correct
    rivals = lessons.rivals if wrong < FEW_WRONG else []
    if correct < LEAST_VERDICTS or wrong + len(rivals) < LEAST_VERDICTS:
        raise UsageError(
            f"{correct} pairs are judged correct and {wrong} wrong: too few to learn from",
            hint=f"Judge at least {LEAST_VERDICTS} of each with `kglink overlap review KB KB`, "
            "or import a list.",
        )
    model = fit(
        [*lessons.values, *rivals],
        [*lessons.verdicts, *(False for _ in rivals)],
        prior,
        evidence=tuple(tools.evidence),
        sample_weights=[*(1.0 for _ in lessons.values), *(RIVAL_WEIGHT for _ in rivals)],
    )
    model = model.model_copy(update={"correct": correct, "wrong": wrong})
    return Training(model, prior, correct, wrong, len(rivals), tuple(judged))


def _learn(lessons: _Lessons, weighing: Weighing, verdicts: Verdicts) -> None:
    lefts = {left for (left, _), verdict in verdicts.items() if verdict == "correct"}
    rights = {right for (_, right), verdict in verdicts.items() if verdict == "correct"}
    for batch in weighing.scratch.batches(0.0):
        for pair in batch:
            verdict = verdicts.get((pair.left, pair.right))
            if verdict in ("correct", "wrong"):
                lessons.values.append(pair.evidence)
                lessons.verdicts.append(verdict == "correct")
            elif verdict is None and (pair.left in lefts or pair.right in rights):
                lessons.rivals.append(pair.evidence)
