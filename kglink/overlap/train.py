"""Training the overlap model on what people said of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from kglink.errors import UsageError
from kglink.overlap.model import OverlapModel, Values, fit
from kglink.overlap.search import OverlapTools, open_search
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


def train(
    tools: OverlapTools, *, prior: OverlapModel, progress: OnProgress = lambda _: None
) -> Training:
    """Fit a model to all verdicts of the store; an unclear one teaches nothing.

    The evidence is weighed anew for every two KBs with verdicts, so that pairs which no search
    had found teach as well. A list of correct pairs alone, such as an imported one, says what is
    wrong by what it does not hold: other pairs of the same entities.
    """
    values: list[Values] = []
    said: list[bool] = []
    rivals: list[Values] = []
    judged = dict.fromkeys(
        (min(one.left.kb, one.right.kb), max(one.left.kb, one.right.kb))
        for one in tools.store.overlaps(judged=True)
        if one.verdict != "unclear"
    )
    for left, right in judged:
        with open_search(tools, left, right, progress) as search:
            verdicts = search.verdicts()
            correct_pairs = [pair for pair, verdict in verdicts.items() if verdict == "correct"]
            lefts, rights = ({pair[side] for pair in correct_pairs} for side in (0, 1))
            for pair in chain.from_iterable(search.weigh(verdicts).scratch.batches(0.0)):
                verdict = verdicts.get((pair.left, pair.right))
                if verdict in ("correct", "wrong"):
                    values.append(pair.evidence)
                    said.append(verdict == "correct")
                elif verdict is None and (pair.left in lefts or pair.right in rights):
                    rivals.append(pair.evidence)
    correct = sum(said)
    wrong = len(said) - correct
    if wrong >= FEW_WRONG:
        rivals = []
    if correct < LEAST_VERDICTS or wrong + len(rivals) < LEAST_VERDICTS:
        raise UsageError(
            f"{correct} pairs are judged correct and {wrong} wrong: too few to learn from",
            hint=f"Judge at least {LEAST_VERDICTS} of each with `kglink overlap review KB KB`, "
            "or import a list.",
        )
    model = fit(
        [*values, *rivals],
        [*said, *(False for _ in rivals)],
        prior,
        evidence=tuple(tools.evidence),
        sample_weights=[*(1.0 for _ in values), *(RIVAL_WEIGHT for _ in rivals)],
    )
    model = model.model_copy(update={"correct": correct, "wrong": wrong})
    return Training(model, prior, correct, wrong, len(rivals), tuple(judged))
