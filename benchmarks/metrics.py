"""How long figures take once the answers are there: a million mentions with 64 candidates each.

    python benchmarks/metrics.py [MENTIONS]

Mentions of two KBs, ten to a text, with candidates in a list of both. Each line is one step of
`kglink eval`, without the search, the store and the files. `numpy` is the least that ranks could
cost: candidates and golds as whole numbers in one table, which nothing of kglink has.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from kglink.evaluation.annotated import AnnotatedText
from kglink.evaluation.measures.clusters import cluster_figures, labels_of
from kglink.evaluation.measures.end_to_end import Answer, evaluate_answers
from kglink.evaluation.measures.retrieval import RetrievalReport, reciprocal
from kglink.evaluation.rankings import JOINT, rank_mentions
from kglink.evaluation.significance import randomization_test
from kglink.linking.stages import Stage
from kglink.records import Candidate, Document, EntityId, Mention, MentionInText, Ranking

KBS = ("left", "right")
DEPTH = 64
PER_TEXT = 10
#: Different lists of candidates; every mention has one of them.
LISTS = 2000
KS = (1, 2, 4, 8, 16, 32, 64)


class Lists:
    """Candidates that are there already, in the place of a search."""

    stages: tuple[Stage, ...] = ()
    stage_depth = 0

    def __init__(self, rng: random.Random) -> None:
        keys = [str(at) for at in range(50_000)]
        self.lists = [
            tuple(Candidate(EntityId(KBS[at % 2], key), key, 1.0) for at, key in enumerate(drawn))
            for drawn in (rng.sample(keys, 2 * DEPTH) for _ in range(LISTS))
        ]
        self._next = 0

    def leaves_out(self, entity: EntityId) -> bool:
        """None is left out."""
        return False

    def joint(self, mentions: Sequence[MentionInText], *, limit: int) -> list[Ranking]:
        """The next lists."""
        self._next += len(mentions)
        first = self._next - len(mentions)
        return [Ranking(one, self.lists[at % LISTS]) for at, one in enumerate(mentions, first)]

    def described(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        """As they are."""
        return list(rankings)

    def gold(self, number: int, rng: random.Random) -> EntityId:
        """Of a mention: one of its first candidates, or, of one in ten, none of them."""
        place = min(int(rng.expovariate(0.3)), 2 * DEPTH - 1)
        one = self.lists[number % LISTS][place].id
        return EntityId(one.kb, "none") if rng.random() < 0.1 else one


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how much processor time something took."""
    start = time.process_time()
    yield
    print(f"{what}\t{time.process_time() - start:.2f} s", flush=True)


def documents(lists: Lists, count: int) -> list[Document]:
    """Texts with their mentions."""
    rng = random.Random(1)  # noqa: S311 - only a benchmark
    text = "Somebody somewhere. " * PER_TEXT
    golds = (lists.gold(number, rng) for number in range(count))
    return [
        Document(str(at), text, tuple(
            Mention(20 * place, 20 * place + 8, "Somebody", (next(golds),))
            for place in range(PER_TEXT)
        ))
        for at in range(count // PER_TEXT)
    ]  # fmt: skip


def retrieval(lists: Lists, texts: Sequence[Document]) -> None:
    """Ranks, figures, the test against other ranks, and mentions put together by their answer."""
    report = RetrievalReport(KS)
    values: list[float] = []
    found: list[EntityId] = []
    with timed("ranks in three pools, counted in slices"):
        for one in rank_mentions(lists, texts, KBS, DEPTH):
            report.add_to_slices(one, is_seen=len(one.document) % 2 == 0)
            values.append(reciprocal(one.ranks[JOINT]))
            found.append(one.candidates[0].id)
    with timed("all figures of retrieval, with their intervals"):
        report.as_json()
        report.intervals_as_json()
    with timed("paired randomization test of MRR, 10,000 rounds"):
        randomization_test(values, np.random.default_rng(0).permutation(values))
    with timed("ARI, NMI, B-cubed, CEAF"):
        golds = (mention.gold for text in texts for mention in text.mentions)
        cluster_figures(labels_of(found), labels_of(golds))


def end_to_end(lists: Lists, texts: Sequence[Document]) -> None:
    """Answers at the right places and at others, right and wrong."""
    rng = random.Random(2)  # noqa: S311 - only a benchmark
    answers = [
        [
            Answer(one.start, one.end - (rng.random() < 0.1), one.gold[0] if rng.random() < 0.7
                   else lists.lists[0][0].id, rng.random())
            for one in text.mentions if one.gold and rng.random() < 0.9
        ]
        for text in texts
    ]  # fmt: skip
    annotated = [AnnotatedText("docs", (one.id,), one.text, one.mentions) for one in texts]

    def given(_: Sequence[str]) -> Iterator[Sequence[Answer]]:
        return iter(answers)

    with timed("detection, links, calibration, end to end"):
        report = evaluate_answers(annotated, KBS, given, per_kb=False)
    with timed("their figures with intervals over texts"):
        report.as_json()


def plain(count: int) -> None:
    """The least that ranks could cost."""
    rng = np.random.default_rng(0)
    candidates = rng.integers(0, 50_000, (count, DEPTH), dtype=np.int32)
    golds = candidates[np.arange(count), rng.integers(0, DEPTH, count)]
    with timed("numpy: ranks and R@k from a table of whole numbers"):
        same = candidates == golds[:, None]
        ranks = np.where(same.any(axis=1), same.argmax(axis=1) + 1, DEPTH + 1)
        [float((ranks <= k).mean()) for k in KS]


def main() -> None:
    """Print a line for each step."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    lists = Lists(random.Random(0))  # noqa: S311 - only a benchmark
    texts = documents(lists, count)
    print(f"{count:,} mentions, {DEPTH} candidates of each KB, {len(texts):,} texts")
    plain(count)
    retrieval(lists, texts)
    end_to_end(lists, texts)


if __name__ == "__main__":
    main()
