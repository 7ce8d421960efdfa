"""Recall by hand-made rankings: pools, ranks, and counterparts that count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from conftest import Kglink

from kglink.evaluation.recall import JOINT, JUDGED_JOINT, RecallReport, evaluate_recall
from kglink.linking.linker import BATCH_MENTIONS, Linker
from kglink.linking.retrieve import Scored
from kglink.records import Document, EntityId, Mention, Span

KBS = ("a", "b", "c")
#: The candidates of each surface in their order over all KBs.
RANKINGS = {
    "one": ("b:1", "c:1", "a:1"),
    "two": ("c:9", "a:2", "b:2"),
    "six": ("a:9", "b:9", "c:6"),
}
SAME = {"a:1": ("b:1",), "a:2": ("b:2", "d:2"), "c:6": ("a:9", "d:6"), "a:7": ("b:1",)}


class HandMade(Linker):
    """Ranks as `RANKINGS` says."""

    def __init__(self) -> None:
        """Nothing is needed."""

    def candidates(
        self, places: Sequence[tuple[str, Span]], *, limit: int
    ) -> list[dict[str, list[Scored]]]:
        """The candidates of each KB."""
        return [ranked(text[span.start : span.end]) for text, span in places]


def ranked(surface: str) -> dict[str, list[Scored]]:
    """The candidates of a surface by KB."""
    by_kb: dict[str, list[Scored]] = {kb: [] for kb in KBS}
    for place, one in enumerate(map(EntityId.parse, RANKINGS[surface])):
        by_kb[one.kb].append(Scored(one, surface, 1 - place / 10, 0.0, {}))
    return by_kb


def same(ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
    """The counterparts in `SAME`."""
    wanted = {str(name): name for name in ids}
    return {
        name: tuple(map(EntityId.parse, SAME[text]))
        for text, name in wanted.items()
        if text in SAME
    }


def document(surface: str, *gold: str, nil: bool = False) -> Document:
    """One mention, which is the whole text."""
    names = tuple(map(EntityId.parse, gold)) if gold or nil else None
    return Document(surface, surface, (Mention(0, len(surface), surface, names),))


DOCUMENTS = [
    document("one", "a:1"),
    document("two", "a:2", "c:2"),
    document("six", "c:6"),
    document("one", "d:1"),  # of a KB that is not ranked: not counted
    document("two", nil=True),
    document("two"),
]


def recalls(report: RecallReport) -> dict[str, tuple[int, list[float]]]:
    """Mentions and recall at 1, 2 and 3 of each pool."""
    return {
        pool: (report.mentions[pool], list(report.recall(pool).values())) for pool in report.pools()
    }


def test_golds_alone_are_right_where_nothing_else_is_said() -> None:
    report = evaluate_recall(HandMade(), DOCUMENTS, KBS, (3, 1, 2))
    assert report.with_counterparts is None
    assert recalls(report) == {
        "a": (2, [1, 1, 1]),
        "c": (2, [1 / 2, 1 / 2, 1 / 2]),  # c:2 is no candidate at all
        JOINT: (3, [0, 1 / 3, 1]),  # at the ranks 3, 2, 3
        JUDGED_JOINT: (3, [2 / 3, 1, 1]),  # in a, in a and c, in c: at 1, 2, 1
    }


def test_counterparts_are_right_in_the_joint_pools_only() -> None:
    plain = recalls(evaluate_recall(HandMade(), DOCUMENTS, KBS, (1, 2, 3)))
    report = evaluate_recall(HandMade(), DOCUMENTS, KBS, (1, 2, 3), same)
    found = recalls(report)
    # b:1 is at rank 1, a:2 at 2 before b:2, a:9 at 1.
    assert found.pop(JOINT) == (3, [2 / 3, 1, 1])
    # The pools are the same as before: b is in none of them, so its entities are not, either.
    assert found.pop(JUDGED_JOINT) == plain.pop(JUDGED_JOINT)
    assert plain.pop(JOINT) == (3, [0, 1 / 3, 1])
    assert found == plain
    assert report.with_counterparts == 3


def test_a_counterpart_in_a_judged_kb_counts_there() -> None:
    documents = [document("one", "a:7", "b:7")]
    plain = recalls(evaluate_recall(HandMade(), documents, KBS, (1, 3)))
    report = evaluate_recall(HandMade(), documents, KBS, (1, 3), same)
    assert plain[JUDGED_JOINT] == plain[JOINT] == (1, [0, 0])
    assert recalls(report)[JUDGED_JOINT] == recalls(report)[JOINT] == (1, [1, 1])
    assert recalls(report)["b"] == (1, [0, 0])  # asked for b alone, b:7 is what is right


def test_counterparts_outside_of_the_ranked_kbs_are_not_counted_as_any() -> None:
    report = evaluate_recall(HandMade(), [document("six", "c:6")], ("b", "c"), (1, 2), same)
    assert report.with_counterparts == 0
    assert recalls(report)[JOINT] == (1, [0, 1])


def test_counterparts_are_asked_for_batch_by_batch() -> None:
    asked: list[int] = []

    def counting(ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
        wanted = list(ids)
        asked.append(len(wanted))
        return same(wanted)

    documents = [document("one", "a:1")] * (BATCH_MENTIONS + 1)
    report = evaluate_recall(HandMade(), documents, KBS, (1,), counting)
    assert asked == [1, 1]
    assert recalls(report)[JOINT] == (BATCH_MENTIONS + 1, [1])


def test_the_command_says_that_counterparts_count(kglink: Kglink, demo: Path) -> None:
    command = ("eval", "--docs", "docs", "--split", "")
    plain = json.loads(kglink(*command, "--json").out)
    found = json.loads(kglink(*command, "--json", "--counterparts").out)
    assert (plain["counterparts"], plain["mentions_with_counterparts"]) == (False, None)
    count = found["mentions_with_counterparts"]
    assert found["counterparts"] is True
    assert 0 < count <= found["mentions"]["joint"]
    assert found["metrics"]["kb"] == plain["metrics"]["kb"]
    assert found["mentions"] == plain["mentions"]
    for rank, share in plain["metrics"]["joint"].items():
        assert found["metrics"]["joint"][rank] >= share
    assert f"is right as well: {count} mention" in kglink(*command, "--counterparts").out
    assert "right as well" not in kglink(*command).out
