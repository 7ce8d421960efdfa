"""Ranks that are kept, compared mention by mention, and refused where they do not fit."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kglink.errors import KglinkError, RecordError, SourceError, UsageError
from kglink.evaluation.comparison import FORMAT, Comparison, Evaluated, KeptWriter
from kglink.evaluation.rankings import JOINT, Rank, RankedMention
from kglink.evaluation.significance import randomization_test

FACTS = Evaluated(("docs",), "dev", ("a", "b"), counterparts=False, space="default", model="m")


def mention(number: int, rank: Rank, reranked: Rank = None) -> RankedMention:
    """A mention of KB a, with the same rank in it and jointly."""
    ranks = {"a": rank, JOINT: rank}
    again = ranks if reranked is None else {"a": reranked, JOINT: reranked}
    return RankedMention("docs", f"d{number}", 3, 8, "Ámber", ranks, again)


def keep(path: Path, mentions: list[RankedMention], facts: Evaluated = FACTS) -> Path:
    out = io.StringIO()
    writer = KeptWriter(out, facts)
    for one in mentions:
        writer.add_ranked(one)
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


def compared(path: Path, mentions: list[RankedMention], facts: Evaluated = FACTS) -> Comparison:
    comparison = Comparison(path, facts)
    for one in mentions:
        comparison.add_ranked(one)
    comparison.finish()
    return comparison


THERE = [mention(at, rank) for at, rank in enumerate([1, 2, None, 5, 20, 1])]
HERE = [mention(at, rank) for at, rank in enumerate([1, 1, 1, 11, 4, None])]


def test_what_is_kept_of_a_mention(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.json", [mention(1, 4), mention(2, 3, 1), mention(3, None)])
    header, *lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert header["format"] == 1
    assert (header["docs"], header["kbs"], header["model"]) == (["docs"], ["a", "b"], "m")
    assert lines[0] == {
        "docs": "docs", "document": "d1", "start": 3, "end": 8, "surface": "Ámber",
        "ranks": {"a": 4, JOINT: 4},
    }  # fmt: skip
    assert lines[1]["reranked"] == {"a": 1, JOINT: 1}
    assert lines[2]["ranks"] == {"a": None, JOINT: None}


def test_the_differences_are_those_of_each_mention(tmp_path: Path) -> None:
    tests = compared(keep(tmp_path / "kept.json", THERE), HERE).tests(rounds=500, seed=4)
    assert list(tests) == ["a", JOINT]
    # Without re-ranking AP@1 is R@1, and not tested again.
    assert list(tests["a"]) == ["R@1", "MAP@10", "MRR"]
    r1 = randomization_test([1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1], rounds=500, seed=4)
    # Ranks beyond 10 are nothing.
    here, there = [1, 1, 1, 0, 1 / 4, 0], [1, 1 / 2, 0, 1 / 5, 0, 1]
    assert tests["a"] == {
        "R@1": r1,
        "MAP@10": randomization_test(here, there, rounds=500, seed=4),
        "MRR": randomization_test(here, there, rounds=500, seed=4),  # 10 deep, where nobody says
    }
    assert r1.difference == pytest.approx(1 / 6)


def test_the_same_evaluation_differs_by_chance(tmp_path: Path) -> None:
    tests = compared(keep(tmp_path / "kept.json", HERE), HERE).tests()
    assert {test.p for found in tests.values() for test in found.values()} == {1.0}


def test_reranked_ranks_are_compared_where_there_are_any(tmp_path: Path) -> None:
    there = [mention(at, 2, 1) for at in range(4)]
    path = keep(tmp_path / "kept.json", there, replace(FACTS, reranker="cross"))
    tests = compared(path, [mention(at, 1) for at in range(4)]).tests(rounds=99)
    found = {name: (test.left, test.right) for name, test in tests["a"].items()}
    assert found == {"R@1": (1, 0), "AP@1": (1, 1), "MAP@10": (1, 1), "MRR": (1, 0.5)}


def test_recall_and_mrr_are_compared_as_deep_as_both_looked(tmp_path: Path) -> None:
    deep, deeper = replace(FACTS, depth=16), replace(FACTS, depth=64)
    path = keep(tmp_path / "kept.json", THERE, deep)
    comparison = Comparison(path, deeper, (4, 16, 64))
    for one in HERE:
        comparison.add_ranked(one)
    tests = comparison.tests(rounds=99)["a"]
    assert list(tests) == ["R@1", "R@4", "R@16", "MAP@10", "MRR"]
    assert (tests["R@4"].left, tests["R@4"].right) == (4 / 6, 3 / 6)
    assert (tests["R@16"].left, tests["R@16"].right) == (5 / 6, 4 / 6)
    # Rank 20 was beyond what both looked at; rank 11 was not.
    assert tests["MRR"].left == pytest.approx((1 + 1 + 1 + 1 / 11 + 1 / 4) / 6)
    assert tests["MRR"].right == pytest.approx((1 + 1 / 2 + 1 / 5 + 1) / 6)


def test_a_packed_file_is_read_as_well(tmp_path: Path) -> None:
    plain = keep(tmp_path / "kept.json", THERE)
    packed = tmp_path / "kept.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert compared(packed, HERE).tests(rounds=9) == compared(plain, HERE).tests(rounds=9)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"docs": ("other",)}, "docs: docs there, other here"),
        ({"split": "test"}, "split: dev there, test here"),
        ({"kbs": ("a",)}, "kbs: a,b there, a here"),
        ({"counterparts": True}, "counterparts: False there, True here"),
    ],
)
def test_another_evaluation_is_refused_before_it_begins(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    path = keep(tmp_path / "kept.json", THERE)
    with pytest.raises(UsageError, match=told) as refused:
        Comparison(path, replace(FACTS, **changes))
    assert "--keep" in refused.value.hint


def test_the_order_of_kbs_is_no_difference(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.json", THERE)
    assert compared(path, HERE, replace(FACTS, kbs=("b", "a"))).kept == FACTS


def test_other_spaces_and_models_are_what_is_compared(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.json", THERE)
    facts = replace(FACTS, space="tuned", model="runs/x", found_by="vectors")
    assert compared(path, HERE, facts).kept == FACTS


def test_other_mentions_are_refused(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.json", THERE)
    moved = replace(HERE[1], start=4)
    for mentions, told in (
        ([HERE[0], moved], "line 3 is not 'Ámber' of document 'd1'"),
        ([replace(HERE[0], surface="Amber")], "line 2 is not 'Amber'"),
        ([replace(HERE[0], docs="more")], "line 2"),
        ([replace(HERE[0], ranks={"b": 1, JOINT: 1}, reranked={"b": 1, JOINT: 1})], "same KBs"),
        (HERE[:-1], "more than the 5 mentions"),
        ([*HERE, mention(6, 1)], "6 mentions, and there are more here"),
    ):
        with pytest.raises(UsageError, match=told):
            compared(path, mentions)


@pytest.mark.parametrize(
    ("text", "told", "kind"),
    [
        ("", "is empty", SourceError),
        ("what\n", "line 1 is not JSON", UsageError),
        ("[" * 200_000 + "\n", "line 1 is not JSON", UsageError),
        ("[1]\n", "no record", UsageError),
        ('{"format": 9}\n', "--keep", UsageError),
        ('{"format": 1, "docs": ["docs"]}\n', "--keep", UsageError),
        (json.dumps({"format": FORMAT, **asdict(FACTS), "docs": 5}) + "\n", "--keep", UsageError),
        (json.dumps({"format": FORMAT, **asdict(FACTS), "kbs": [1]}) + "\n", "--keep", UsageError),
        ("\xff\n", "UTF-8", RecordError),
    ],
)
def test_what_was_not_kept_is_refused(
    tmp_path: Path, text: str, told: str, kind: type[KglinkError]
) -> None:
    path = tmp_path / "kept.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(kind, match=told):
        Comparison(path, FACTS)


@pytest.mark.parametrize("ranks", ['"x"', '{"a": 0, "[joint]": 1}', '{"a": "1", "[joint]": 1}'])
def test_ranks_that_are_none_are_refused(tmp_path: Path, ranks: str) -> None:
    path = keep(tmp_path / "kept.json", THERE)
    header, line = path.read_text("utf-8").splitlines()[:2]
    broken = json.loads(line) | {"ranks": json.loads(ranks)}
    path.write_text(f"{header}\n{json.dumps(broken)}\n", "utf-8")
    with pytest.raises(UsageError, match="line 2 has no ranks"):
        compared(path, HERE)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.json"):
        Comparison(tmp_path / "gone.json", FACTS)
