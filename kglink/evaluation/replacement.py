"""Whether one space answers better than another: both are asked the same mentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kglink.evaluation.measures.retrieval import RERANKED, hit
from kglink.evaluation.rankings import JOINT, JUDGED_JOINT, rank_mentions
from kglink.evaluation.significance import RandomizationTest, randomization_test
from kglink.linking.fit import FOLDS, MOST_MENTIONS, fold_of
from kglink.linking.pipeline import Linker
from kglink.records import Document, OnProgress, Progress

#: What links one part of the documents, by its number, without having learnt from it.
LinkerWithout = Callable[[int, Sequence[Document]], Linker]


@dataclass(frozen=True, slots=True)
class Replacement:
    """The share of mentions that the old space and the new one answer right (R@1).

    For each KB, and for all that hold an answer together (``[judged joint]``): the new space
    stands on the left of each test.
    """

    tests: Mapping[str, RandomizationTest]

    @property
    def worse(self) -> tuple[str, ...]:
        """Where the new space is worse by more than chance; none: it may take the old one's place.

        Chance: the paired randomization test says p >= .05.
        """
        return tuple(
            pool
            for pool, test in self.tests.items()
            if test.difference < 0 and test.is_significant()
        )

    @property
    def objection(self) -> str:
        """Why the new space may not take the old one's place; empty where it may.

        It must answer more mentions right. Few mentions show a loss only by chance, so as many
        as before are no proof that nothing is lost.
        """
        if JUDGED_JOINT not in self.tests:
            return "no mentions were held back to judge it by"
        if self.worse or self.tests[JUDGED_JOINT].difference < 0:
            return "it would answer worse than before"
        if self.tests[JUDGED_JOINT].difference == 0:
            return "it would answer no more right than before"
        return ""

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        pools = {
            pool: {"mentions": test.items, "before": test.right, "after": test.left, "p": test.p}
            for pool, test in self.tests.items()
        }
        return {"R@1": pools, "worse": list(self.worse)}


def compare_spaces(
    documents: Sequence[Document],
    kbs: Sequence[str],
    before: LinkerWithout,
    after: LinkerWithout,
    *,
    progress: OnProgress = lambda _: None,
) -> Replacement:
    """Ask two spaces all mentions of some documents that have their answer in these KBs."""
    # All documents, or some from all places alike with no more mentions than are needed.
    mentions = sum(len(one.mentions) for one in documents)
    count = min(len(documents), max(1, len(documents) * MOST_MENTIONS // max(mentions, 1)))
    chosen = [documents[at * len(documents) // count] for at in range(count)]
    found: dict[str, tuple[list[float], list[float]]] = {}
    done = 0
    for fold in range(FOLDS):
        part = [one for one in chosen if fold_of(one) == fold]
        both = zip(
            *(
                rank_mentions(linker_of(fold, part), part, kbs, RERANKED)
                for linker_of in (before, after)
            ),
            strict=True,
        )
        for ranked in both if part else ():
            for pool in ranked[0].ranks:
                if pool != JOINT:
                    for values, mention in zip(
                        found.setdefault(pool, ([], [])), ranked, strict=True
                    ):
                        values.append(hit(mention.reranked[pool], 1))
        done += len(part)
        progress(Progress("comparing with the space before", done, len(chosen)))
    in_order = [pool for pool in (*kbs, *found) if pool in found]
    return Replacement(
        {pool: randomization_test(*reversed(found[pool])) for pool in dict.fromkeys(in_order)}
    )
