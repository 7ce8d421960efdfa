"""`kglink eval --errors`: each reason in a small workspace in which it happens, and the counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.evaluation.measures.errors import (
    REASONS,
    Case,
    ErrorSummary,
    reason_of,
)
from kglink.evaluation.rankings import JOINT
from kglink.evaluation.retrieval import LearntFrom, LearntMentions
from kglink.records import Candidate, Document, Entity, EntityId, Mention, MentionInText
from kglink.workspace import Workspace, init_workspace

SKY = """\
{"id": "mercury", "title": "Mercury", "type": "planet", "description": "The smallest planet."}
{"id": "venus", "title": "Venus", "type": "planet", "description": "The second planet."}
{"id": "mars", "title": "Mars", "type": "planet", "description": "The fourth planet, red."}
"""
TALES = """\
{"id": "mars", "title": "Mars", "type": "god", "aliases": ["Mavors"]}
{"id": "evening-star", "title": "Evening Star", "type": "light", "description": "Seen in the west."}
{"id": "flower-islands", "title": "Flower Islands", "type": "place", "description": "Isles."}
"""
#: A mention of each reason; the words name what happens.
TEXTS = {
    "right": ("We saw", "Mavors", "and others.", ["tales:mars"]),
    "not detected": ("We saw the", "quirk", "rise.", ["sky:mars"]),
    "other ends": ("We saw", "the Flower Islands", "and others.", ["tales:flower-islands"]),
    "NIL mistaken": ("We saw", "Mavors", "the horse.", []),
    "counterpart": ("We saw", "Venus", "low in the west.", ["tales:evening-star"]),
    "outranked": ("The fourth planet,", "Mars", ", is red.", ["tales:mars"]),
    "not retrieved": ("We saw", "Mercury", "and others.", ["tales:flower-islands"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("errors"))
    records = [
        {
            "id": name, "split": "test", "gold": gold,
            "context_left": left, "mention": mention, "context_right": right,
        }
        for name, (left, mention, right, gold) in TEXTS.items()
    ]  # fmt: skip
    learnt = {**records[0], "id": "learnt", "split": "train", "context_left": "They saw"}
    files = {
        "sky": SKY,
        "tales": TALES,
        "texts": "".join(json.dumps(one) + "\n" for one in [*records, learnt]),
    }
    for name, text in files.items():
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    (folder / "same.tsv").write_text("left\tright\tverdict\nvenus\tevening-star\tcorrect\n")
    with Workspace.open(folder) as workspace:
        for name in files:
            links = ("sky", "tales") if name == "texts" else ()
            workspace.add_kb(name, folder / f"{name}.jsonl", links_to=links)
        workspace.import_overlaps(folder / "same.tsv", "sky", "tales")
        workspace.build()
    return folder


@pytest.fixture
def workspace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.chdir(folder)
    with Workspace.open(folder, flags={"link.found_by": "names"}) as opened:
        yield opened


def reasons(workspace: Workspace, **asked: Any) -> dict[str, str | None]:
    cases: list[Case] = []
    workspace.evaluate_errors("texts", split="test", each=cases.append, **asked)
    return {one.mention.document: one.reason for one in cases}


def test_each_reason_of_raw_text_happens(workspace: Workspace) -> None:
    found = reasons(workspace, end_to_end=True)
    assert found == {name: None if name == "right" else name for name in TEXTS}
    assert set(REASONS) == set(TEXTS) - {"right"}


def test_a_counterpart_is_right_where_that_is_wanted(workspace: Workspace) -> None:
    assert reasons(workspace, end_to_end=True, counterparts=True)["counterpart"] is None


def test_where_places_are_given_nothing_is_undetected(workspace: Workspace) -> None:
    found = reasons(workspace)
    assert "NIL mistaken" not in found  # a ranking says nothing of what no KB has
    assert found["other ends"] is None
    assert found["not detected"] == "not retrieved"
    assert [found[one] for one in ("counterpart", "outranked")] == ["counterpart", "outranked"]


def test_right_mentions_are_those_of_rank_one(workspace: Workspace) -> None:
    report = workspace.evaluate("texts", split="test", ks=(1, 64))
    summary = workspace.evaluate_errors("texts", split="test")
    assert summary.mentions == report.mentions[JOINT]
    assert summary.all[None] / summary.mentions == report.of(JOINT)["R@1"]


def test_a_line_says_what_happened(kglink: Kglink, workspace: Workspace, tmp_path: Path) -> None:
    kept = tmp_path / "errors.jsonl"
    ran = kglink(
        "eval", "--docs", "texts", "--split", "test", "--found-by", "names", "--end-to-end",
        "--partial", "--errors-to", kept, "--json",
    )  # fmt: skip
    lines = {one["document"]: one for one in map(json.loads, kept.read_text("utf-8").splitlines())}
    line = lines["outranked"]
    assert (line["context_left"], line["mention"]) == ("The fourth planet, ", "Mars")
    assert line["answer"] == {"id": "sky:mars", "title": "Mars", "type": "planet"}
    (gold,) = line["gold"]
    assert (gold["id"], gold["type"], gold["rank"]) == ("tales:mars", "god", 2)
    assert gold["score"] == line["candidates"][1]["score"]
    assert line["ranks"] == {"tales": 1, "joint": 2, "judged_joint": 1}
    assert (line["bearers"], line["seen"], line["times_learnt"]) == (2, False, 1)
    assert lines["right"]["seen"] is True
    assert lines["NIL mistaken"]["gold"] == []
    assert lines["not detected"]["found"] is None
    assert lines["other ends"]["found"] == [11, 25]
    errors = json.loads(ran.out)["errors"]
    assert (errors["mentions"], errors["right"]) == (7, 1)
    assert errors["reasons"] == dict.fromkeys(REASONS, 1)
    assert errors["learnt_from"] == ["texts:train"]
    groups = {
        name: {one["group"]: (one["mentions"], one["right"]) for one in rows}
        for name, rows in errors["groups"].items()
    }
    assert groups["kb"] == {"sky": (1, 0), "tales": (5, 1), "[NIL]": (1, 0)}
    assert groups["type"]["tales: god"] == (2, 1)
    assert groups["frequency"] == {"0": (4, 0), "1": (2, 1)}
    assert groups["ambiguity"] == {"0": (2, 0), "1": (4, 1), "2": (1, 0)}
    assert groups["surfaces"] == {"seen": (2, 1), "unseen": (5, 0)}
    counts = Counter((one["gold"], one["answer"]) for one in errors["confusion"])
    assert counts["tales", "sky"] == 1
    assert sum(one["mentions"] for one in errors["confusion"]) == 7
    assert {("[NIL]", "tales"), ("sky", "[nothing]")} <= counts.keys()


def test_a_table_has_the_reasons_that_there_are(kglink: Kglink, workspace: Workspace) -> None:
    out = kglink(
        "eval", "--docs", "texts", "--split", "test", "--found-by", "names", "--errors"
    ).out
    table = out.split("Why mentions are answered wrongly\n")[1].splitlines()
    assert table[0].split("\t") == [
        "by", "group", "mentions", "right", "counterpart", "not retrieved", "outranked"
    ]  # fmt: skip
    assert table[1].split("\t") == ["all", "", "6", "2", "1", "2", "1"]
    assert "outranked      a right entity is among the candidates" in out


def test_what_has_no_candidates_is_refused(
    kglink: Kglink, workspace: Workspace, tmp_path: Path
) -> None:
    answers = tmp_path / "p.jsonl"
    answers.write_text('{"id": "right", "mentions": []}\n', "utf-8")
    asked = ("eval", "--docs", "texts", "--end-to-end", "--predictions", answers, "--errors")
    assert "without a space" in kglink(*asked, code=2).err
    assert "no documents to evaluate on" in kglink("eval", "--overlaps", "--errors", code=2).err


def test_the_first_reason_that_holds_is_told() -> None:
    gold, twin, other = (EntityId("a", name) for name in ("gold", "twin", "other"))

    def why(answer: EntityId | None, *listed: EntityId, nil: bool = False) -> str | None:
        case = Case(
            "docs", MentionInText("word", 0, 4), () if nil else (gold,), answer, (0, 4),
            candidates=tuple(Candidate(one, "", 1.0) for one in listed),
        )  # fmt: skip
        return reason_of(case, {twin}, right=False)

    assert why(gold, gold) is None
    assert why(None, nil=True) is None
    assert why(other, other, nil=True) == "NIL mistaken"
    assert why(None, other, gold) == "NIL mistaken"
    assert why(None, other) == "not retrieved"
    assert why(twin, twin, gold) == "counterpart"
    assert why(other, other, gold) == "outranked"


def test_what_two_sources_hold_is_learnt_once() -> None:
    gold, other = EntityId("a", "gold"), EntityId("a", "other")
    mentions = [Mention(0, 4, "Word", (gold,)), Mention(5, 9, "more", (gold, other))]
    learnt = LearntMentions(("run", "memory"), (lambda: iter(mentions),) * 2)
    evaluated = [Document("d", "word", (Mention(0, 4, "word", (gold,)),))]
    found = LearntFrom(learnt, evaluated)
    assert (found.times([gold]), found.times([other]), found.times([])) == (2, 0, 0)
    assert (found.has_seen("WORD"), found.has_seen("more")) == (True, False)


def test_groups_of_counts_have_their_ends() -> None:
    summary = ErrorSummary(["a"])
    typed, plain = EntityId("a", "x"), EntityId("b", "x")
    right = Case(
        *("docs", MentionInText("x", 0, 1), (typed,), typed, (0, 1)),
        entities={typed: Entity("x", "x", type="t")},
    )
    for count in (0, 1, 2, 9, 10, 99, 100, 5000):
        summary.add(replace(right, bearers=count, times_learnt=count))
    groups = summary.groups()
    assert {name: one.total() for name, one in groups["frequency"].items()} == {
        "0": 1, "1": 1, "2-9": 2, "10-99": 2, "100+": 2
    }  # fmt: skip
    assert list(groups["ambiguity"]) == ["0", "1", "2", "3-9", "10+"]
    assert "surfaces" not in groups
    assert list(groups["type"]) == ["a: t"]
    summary.add(replace(right, gold=(plain,), answer=plain, bearers=1, times_learnt=1))
    assert list(summary.groups()["type"]) == ["a: t"]  # b has no types


def test_kbs_without_types_have_no_rows_of_types(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(init_workspace(tmp_path)))
    heron = {"start": 2, "end": 7, "gold": "birds:heron"}
    files = {
        "birds": {"id": "heron", "title": "Heron"},
        "notes": {"text": "A heron slept.", "entities": [heron]},
    }
    for name, record in files.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record), "utf-8")
        kglink("add-kb", name, tmp_path / f"{name}.jsonl",
               *(("--links-to", "birds") if name == "notes" else ()))  # fmt: skip
    out = kglink("eval", "--docs", "notes", "--errors").out
    assert "KB of the gold\tbirds" in out
    assert "type of the gold" not in out
