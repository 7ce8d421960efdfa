"""`kglink candidates` and `kglink eval --candidates`: the round trip, oracles, ZESHEL's lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.errors import UsageError
from kglink.evaluation.candidate_files import Listed, united
from kglink.linking import pipeline
from kglink.records import Document, EntityId
from kglink.workspace import Workspace

EVAL = ("eval", "--docs", "docs", "--split", "test", "--seen-in", "", "--json")
A, B, C, D = (EntityId("kb", key) for key in "abcd")
OTHER = EntityId("other", "x")


@pytest.fixture(scope="module")
def written(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("candidates") / "test.jsonl"
    with Workspace.open(demo_master) as workspace:
        mentions = workspace.write_candidates("docs", path, split="test")
    assert mentions == len(path.read_text().splitlines()) > 20
    return path


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def changed(path: Path, target: Path, line: int, **changes: object) -> Path:
    """A copy with other values in one of its lines."""
    records = records_of(path)
    records[line] |= changes
    target.write_text("".join(json.dumps(one) + "\n" for one in records))
    return target


def test_a_list_of_no_candidates_is_refused(demo_copy: Path, tmp_path: Path) -> None:
    with (
        Workspace.open(demo_copy) as workspace,
        pytest.raises(UsageError, match="k = 0: there is at least one answer"),
    ):
        workspace.write_candidates("docs", tmp_path / "out.jsonl", k=0)


def test_a_batch_ends_with_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mentions of one text speak for each other."""
    monkeypatch.setattr(pipeline, "BATCH_MENTIONS", 2)
    places = [
        (Document(name, "text"), list(own)) for name, own in (("a", "1"), ("b", "234"), ("c", "5"))
    ]
    mentions = ((text, one) for text, own in places for one in own)
    batches = pipeline.whole_documents(mentions, lambda place: id(place[0]))
    assert [[one for _, one in batch] for batch in batches] == [list("1234"), ["5"]]


@pytest.mark.slow
def test_a_file_that_is_read_back_is_judged_as_what_was_found(
    kglink: Kglink, demo: Path, written: Path
) -> None:
    found = json.loads(kglink(*EVAL).out)
    read = json.loads(kglink(*EVAL, "--candidates", written).out)
    assert read["metrics"] == found["metrics"]
    assert read["mentions"] == found["mentions"]
    assert (read["space"], read["found_by"]) == (None, None)
    assert found["space"] == "default"


def test_whole_lists_are_judged_whichever_ranks_are_asked_for(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    kglink("candidates", "docs", "--split", "test", "--k", "64", "-o", tmp_path / "all.jsonl")
    turned = tmp_path / "turned.jsonl"
    lines = [one | {"candidates": one["candidates"][::-1], "scores": None}
             for one in records_of(tmp_path / "all.jsonl")]  # fmt: skip
    turned.write_text("".join(json.dumps(one) + "\n" for one in lines))
    one, many = (
        json.loads(kglink(*EVAL, "--k", ks, "--candidates", turned).out) for ks in ("1", "1,64")
    )
    assert one["accuracy"] == many["accuracy"]
    assert one["accuracy"]["micro"]["with_gold"] > 0.9 * one["accuracy"]["micro"]["mentions"]


def test_documents_that_are_named_twice_are_written_once(
    kglink: Kglink, demo: Path, written: Path
) -> None:
    twice = kglink("candidates", "docs,docs", "--split", "test")
    assert twice.out == written.read_text("utf-8")


def test_lists_are_written_best_first_with_their_scores(written: Path) -> None:
    for one in records_of(written):
        assert one["scores"] == sorted(one["scores"], reverse=True)
        assert len(one["scores"]) == len(one["candidates"]) == len(set(one["candidates"])) > 64
        assert {"docs", "document", "start", "end", "mention", "gold"} <= one.keys()


def test_the_order_of_a_file_rules_whatever_its_scores(
    kglink: Kglink, demo: Path, written: Path, tmp_path: Path
) -> None:
    turned = tmp_path / "turned.jsonl"
    with turned.open("w") as out:
        for one in records_of(written):
            del one["scores"]
            out.write(json.dumps(one | {"candidates": one["candidates"][::-1]}) + "\n")
    before, after = (
        json.loads(kglink(*EVAL, "--k", "1,500", "--candidates", path).out)["metrics"]["joint"]
        for path in (written, turned)
    )
    assert after["R@500"] == before["R@500"]
    assert after["R@1"] < before["R@1"] / 4


def test_accuracies_are_those_that_a_hand_counts(
    kglink: Kglink, demo: Path, written: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.jsonl"
    with few.open("w") as out:
        for one in records_of(written):
            cut = [one["candidates"][:3], one["scores"][:3]]
            out.write(
                json.dumps(one | dict(zip(("candidates", "scores"), cut, strict=True))) + "\n"
            )
    told = json.loads(kglink(*EVAL, "--candidates", few).out)["accuracy"]
    counts = {kb: [0, 0, 0] for kb in told["kb"]}
    for one in records_of(few):
        for kb, count in counts.items():
            gold = {name for name in one["gold"] or () if name.startswith(f"{kb}:")}
            if gold:
                own = [name for name in one["candidates"] if name.startswith(f"{kb}:")]
                right = [name in gold for name in own]
                for at, value in enumerate((True, any(right), right[:1] == [True])):
                    count[at] += value
    names = ("mentions", "with_gold", "right")
    for kb, count in counts.items():
        assert [told["kb"][kb][name] for name in names] == count
        assert told["kb"][kb]["normalized"] == pytest.approx(count[2] / count[1])
        assert told["kb"][kb]["unnormalized"] == pytest.approx(count[2] / count[0])
    assert [told["micro"][name] for name in names] == [
        sum(one) for one in zip(*counts.values(), strict=True)
    ]
    for name in ("normalized", "unnormalized"):
        mean = sum(told["kb"][kb][name] for kb in counts) / len(counts)
        assert told["macro"][name] == pytest.approx(mean)
    table = kglink(*EVAL[:-1], "--candidates", few).out
    assert "with gold\tnormalized\tunnormalized" in table


def test_oracle_self_puts_the_gold_in_the_place_of_the_last() -> None:
    listed = Listed((A, OTHER, B), (3, 2, 1))
    assert listed.with_gold([C], ["kb"], in_place=True) == Listed((A, OTHER, C), (3, 2, 1))
    assert listed.with_gold([B], ["kb"], in_place=True).ids == listed.ids
    assert listed.with_gold([C], ["other"], in_place=True).ids == listed.ids
    assert listed.with_gold([], ["kb"], in_place=True).ids == listed.ids
    assert Listed(()).with_gold([C], ["kb"], in_place=True).ids == (C,)


def test_oracle_union_orders_by_the_best_rank_then_by_the_list() -> None:
    lists = [Listed((A, B, C), (3, 2, 1)), Listed((D, A)), Listed(())]
    assert united(lists) == Listed((A, D, B, C))
    appended = united(lists).with_gold([OTHER], ["kb", "other"], in_place=False)
    assert appended.ids == (A, D, B, C, OTHER)


def test_oracles_by_the_command_line(
    kglink: Kglink, demo: Path, written: Path, tmp_path: Path
) -> None:
    names, whole, oracle = (tmp_path / f"{one}.jsonl" for one in ("names", "union", "oracle"))
    options = ("candidates", "docs", "--split", "test", "--k", "4")
    kglink(*options, "--found-by", "names", "-o", names)
    kglink(*options[:-2], "--union", names, "--union", written, "--with-gold", "-o", whole)
    assert "--k would change nothing" in kglink(*options, "--union", names, code=2).err
    kglink(*options, "--found-by", "names", "--with-gold", "-o", oracle)
    for one, other in zip(records_of(names), records_of(oracle), strict=True):
        assert len(one["candidates"]) <= len(other["candidates"]) <= 10
    recall = {
        path: json.loads(kglink(*EVAL, "--k", "1000", "--candidates", path).out)["metrics"]["mean"]
        for path in (names, whole, oracle)
    }
    assert recall[names]["R@1000"] < recall[whole]["R@1000"] == recall[oracle]["R@1000"] == 1


def test_a_mention_may_have_no_candidates(
    kglink: Kglink, demo: Path, written: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.jsonl"
    with empty.open("w") as out:
        for one in records_of(written):
            out.write(json.dumps(one | {"candidates": [], "scores": []}) + "\n")
    told = json.loads(kglink(*EVAL, "--candidates", empty).out)
    assert told["accuracy"]["micro"]["normalized"] == told["metrics"]["joint"]["R@1"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": ["gone:1"], "scores": []}, "line 3: 'gone:1' is of 'gone'"),
        ({"candidates": ["lighthouse"]}, "line 3: 'lighthouse' is no entity"),
        ({"candidates": "docs:1"}, "line 3 has no list of candidates"),
        (
            {"candidates": ["encyclopedia:a"] * 2, "scores": []},
            "the candidate 'encyclopedia:a' twice",
        ),
        ({"scores": [1.0]}, "candidates and 1 scores"),
        (
            {"candidates": ["encyclopedia:a", "encyclopedia:b"], "scores": [1.0, 2.0]},
            "line 3: candidates stand best first, and their scores rise",
        ),
        ({"scores": [10**400] * 3}, "line 3 has scores that are no numbers"),
        ({"mention": "elsewhere"}, "line 3: the mention is 'elsewhere', and "),
        ({"start": "four"}, "line 3 has no start"),
        ({"document": None}, "line 3 has no document"),
    ],
)
def test_bad_lines_are_told_with_their_numbers(
    kglink: Kglink,
    demo: Path,
    written: Path,
    tmp_path: Path,
    changes: dict[str, object],
    message: str,
) -> None:
    bad = changed(written, tmp_path / "bad.jsonl", 2, **changes)
    told = " ".join(kglink(*EVAL, "--candidates", bad, code=2).err.split())
    assert message in told
    assert "kglink candidates" in told


def test_lines_that_are_no_json_and_files_that_are_not_there(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{\n")
    assert "it holds no rankings" in kglink(*EVAL, "--candidates", broken, code=2).err
    kglink(*EVAL, "--candidates", tmp_path / "nothing.jsonl", code=1)
    ran = kglink("candidates", "docs", "--found-by", "names", "--rerank", "8", code=2)
    assert "--rerank would change nothing beside --found-by names" in ran.err


def test_mentions_without_a_line_are_named(
    kglink: Kglink, demo: Path, written: Path, tmp_path: Path
) -> None:
    records = records_of(written)
    at = next(at for at, one in enumerate(records) if one["gold"])
    less = tmp_path / "less.jsonl"
    rest = [*records[:at], *records[at + 1 :], records[0] | {"docs": "of another file"}]
    less.write_text("".join(json.dumps(one) + "\n" for one in rest))
    told = " ".join(kglink(*EVAL, "--candidates", less, code=2).err.split())
    gone = records[at]
    assert f"1 of {sum(bool(one['gold']) for one in records)} mentions have no line" in told
    assert f"docs '{gone['document']}' {gone['start']}-{gone['end']}" in told
    moved = changed(written, tmp_path / "moved.jsonl", 0, start=1_000_000)
    told = kglink(*EVAL, "--candidates", moved, code=2).err
    assert "line 1: 'docs' has no mention at 1000000-" in " ".join(told.split())
    twice = tmp_path / "twice.jsonl"
    twice.write_text("".join(json.dumps(one) + "\n" for one in [*records, records[0]]))
    assert "stands there twice" in kglink(*EVAL, "--candidates", twice, code=2).err


def test_lists_of_zeshel_are_read_with_their_mentions(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(tmp_path / "workspace"))
    release = tmp_path / "zeshel"
    for name, lines in ZESHEL.items():
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_text("".join(json.dumps(one) + "\n" for one in lines))
    kglink("init", tmp_path / "workspace")
    kglink("add-kb", "heaven", release, "--set", "world=sky")
    lists = release / "tfidf_candidates" / "test.json"
    options = ("eval", "--docs", "heaven", "--split", "test", "--seen-in", "", "--json")
    told = json.loads(kglink(*options, "--candidates", lists).out)["accuracy"]
    # Mars stands second, the Sun first, and Venus is not among the candidates.
    assert told["micro"] == {
        "mentions": 3,
        "with_gold": 2,
        "right": 1,
        "normalized": 1 / 2,
        "unnormalized": 1 / 3,
    }
    alone = tmp_path / "test.json"
    alone.write_text(lists.read_text())
    assert "which says what mentions" in kglink(*options, "--candidates", alone, code=2).err


def _mention(number: int, word: int, text: str, gold: str, world: str = "sky") -> dict[str, object]:
    return {
        "mention_id": f"M{number}",
        "corpus": world,
        "context_document_id": "A1",
        "start_index": word,
        "end_index": word,
        "text": text,
        "label_document_id": gold,
        "category": "LOW_OVERLAP",
    }


ZESHEL: dict[str, list[dict[str, object]]] = {
    "documents/sky.json": [
        {"document_id": "A1", "title": "Sun", "text": "Sun The Sun warms Mars and Venus ."},
        {"document_id": "B2", "title": "Mars", "text": "Mars A red world ."},
        {"document_id": "C3", "title": "Venus", "text": "Venus A hot world ."},
    ],
    "mentions/test.json": [
        _mention(1, 2, "Sun", "A1"),
        _mention(2, 4, "Mars", "B2"),
        _mention(3, 6, "Venus", "C3"),
        {**_mention(4, 2, "Cod", "D4", world="sea"), "context_document_id": "D4"},
    ],
    "tfidf_candidates/test.json": [
        {"mention_id": "M4", "tfidf_candidates": ["D4"]},
        {"mention_id": "M3", "tfidf_candidates": ["A1", "B2"]},
        {"mention_id": "M1", "tfidf_candidates": ["A1", "B2", "C3"]},
        {"mention_id": "M2", "tfidf_candidates": ["A1", "B2"]},
    ],
}
