"""`kglink eval --end-to-end` on the demo: figures, files, tables, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Kglink

from kglink.evaluation.measures.end_to_end import EndToEndReport
from kglink.records import EntityId, TextInput
from kglink.workspace import Workspace

EVAL = ("eval", "--docs", "docs", "--split", "test", "--end-to-end")
KBS = ("encyclopedia", "lanternfall")
DATA = ROOT / "cli" / "kglink_cli" / "demo_data" / "documents.jsonl"

Place = tuple[str, int, int]


@pytest.fixture(scope="module")
def workspace(demo_master: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_master) as opened:
        yield opened


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """The texts of the test documents without their mentions."""
    records = map(json.loads, DATA.read_text("utf-8").splitlines())
    lines = [
        json.dumps({"id": one["id"], "text": one["text"]})
        for one in records
        if one["split"] == "test"
    ]
    path = tmp_path / "raw.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def linked(workspace: Workspace, kbs: tuple[str, ...]) -> dict[Place, EntityId | None]:
    """What `kglink link` gives for the texts."""
    documents = workspace.store.documents("docs", "test")
    return {
        (answer.id, link.start, link.end): link.chosen.id if link.chosen else None
        for answer in workspace.linker(kbs).link(TextInput(one.id, one.text) for one in documents)
        for link in answer.links
    }


@pytest.fixture(scope="module")
def report(workspace: Workspace) -> EndToEndReport:
    return workspace.evaluate_end_to_end("docs", split="test")


@pytest.mark.parametrize("pool", [KBS, KBS[:1], KBS[1:]])
def test_figures_are_those_of_links_counted_plainly(
    workspace: Workspace, report: EndToEndReport, pool: tuple[str, ...]
) -> None:
    mentions = {
        (document.id, one.start, one.end): {gold for gold in one.gold or () if gold.kb in pool}
        for document in workspace.store.documents("docs", "test")
        for one in document.mentions
    }
    found = linked(workspace, pool)
    golds = {place for place, right in mentions.items() if right}
    answered = {place for place, entity in found.items() if entity}
    right = {place for place in golds & answered if found[place] in mentions[place]}
    scores = report.joint if pool == KBS else report.kb[pool[0]]
    strict = scores.links["strict"]
    assert (strict.gold, strict.found, strict.right) == (len(golds), len(answered), len(right))
    assert strict.micro.precision == len(right) / len(answered)
    assert strict.micro.recall == len(right) / len(golds)
    if pool == KBS:
        places = scores.detection["strict"]
        assert (places.gold, places.found) == (len(mentions), len(found))
        assert places.right == len(mentions.keys() & found.keys())


@pytest.mark.slow
def test_a_file_of_links_has_the_same_figures(
    kglink: Kglink, demo: Path, raw: Path, tmp_path: Path
) -> None:
    answers = tmp_path / "answers.jsonl"
    kglink("link", raw, "-o", answers)
    ours = json.loads(kglink(*EVAL, "--json").out)
    theirs = json.loads(kglink(*EVAL, "--predictions", answers, "--json").out)
    assert (ours["space"], ours["predictions"], ours["protocol"]) == ("default", None, "end to end")
    assert (theirs["space"], theirs["predictions"]) == (None, str(answers))
    assert list(ours["metrics"]["kb"]) == list(KBS)
    assert theirs["metrics"]["kb"] == {}
    for name in ("detection", "links"):
        assert theirs["metrics"]["joint"][name] == ours["metrics"]["joint"][name]
    for name in ("kbs", "complete", "annotation", "missed", "invented", "borders"):
        assert theirs[name] == ours[name]
    # A file has confidences of six digits.
    ece = [one["metrics"]["joint"]["calibration"]["ece"] for one in (ours, theirs)]
    assert ece[0] == pytest.approx(ece[1], abs=1e-5)
    assert ours["annotation"]["texts"] == 126
    assert ours["complete"] is True


@pytest.mark.slow
def test_records_of_one_mention_are_judged_as_one_text(demo_copy: Path, tmp_path: Path) -> None:
    lines = []
    for record in map(json.loads, DATA.read_text("utf-8").splitlines()):
        for number, mention in enumerate(record["entities"]):
            line = {"id": f"{record['id']}-{number}", "context": record["text"]}
            line |= {"split": record["split"], "mention": mention["text"]}
            lines.append(
                json.dumps(line | {name: mention[name] for name in ("start", "end", "gold")})
            )
    path = tmp_path / "single.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    with Workspace.open(demo_copy) as workspace:
        workspace.add_kb("single", path, links_to=KBS)
        whole = workspace.evaluate_end_to_end("docs", split="test", per_kb=False)
        single = workspace.evaluate_end_to_end("single", split="test", per_kb=False)
    assert single.annotation.records == single.annotation.mentions == 170
    assert single.annotation.texts == 126
    assert single.as_json()["metrics"] == whole.as_json()["metrics"]


@pytest.mark.slow
def test_what_was_kept_is_compared(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    first = kglink(*EVAL, "--joint-only", "--keep", kept, "--json").out
    records = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    assert (records[0]["protocol"], records[0]["space"]) == ("end to end", "default")
    assert len(records) == 127
    predicted = records[1]["predicted"][0]
    assert records[1]["text"][predicted["start"] : predicted["end"]] == predicted["text"]
    options = ("--joint-only", "--found-by", "names", "--against", kept)
    result = json.loads(kglink(*EVAL, *options, "--json").out)
    tests = result["against"]["tests"]
    assert set(tests) == {"detection", "links"}
    for name in tests:
        assert tests[name]["items"] == 126
        here = result["metrics"]["joint"][name]["strict"]["macro"]["f1"]
        there = json.loads(first)["metrics"]["joint"][name]["strict"]["macro"]["f1"]
        assert (tests[name]["left"], tests[name]["right"]) == pytest.approx((here, there))
    ran = kglink(*EVAL, *options)
    assert f"Against {kept}, paired randomization test at .05\n" in ran.out
    assert "links\tmacro F1\t126\t" in ran.out


@pytest.mark.slow
def test_clusters_of_raw_texts(kglink: Kglink, demo: Path, workspace: Workspace) -> None:
    result = json.loads(kglink(*EVAL, "--joint-only", "--clusters", "--json").out)
    clusters = result["clusters"]
    assert clusters["found"] >= result["metrics"]["joint"]["links"]["strict"]["right"]
    assert clusters["mentions"] >= result["annotation"]["in_kbs"]
    assert 0 < clusters["b_cubed"]["f1"] <= 1
    assert clusters["mention_recall@64"] is None
    again = workspace.evaluate_clusters("docs", split="test", end_to_end=True)
    assert again.as_json() == clusters
    assert "B-cubed\t" in kglink(*EVAL, "--joint-only", "--clusters").out


@pytest.mark.slow
def test_the_tables(kglink: Kglink, demo: Path) -> None:
    result = json.loads(kglink(*EVAL, "--json").out)
    out = kglink(*EVAL).out
    rows = [line.split("\t") for line in out.splitlines() if "\t" in line]
    assert rows[0] == [
        "what", "pool", "match", "mentions", "found", "right",
        "precision", "recall", "F1", "macro F1",
    ]  # fmt: skip
    assert [row[:3] for row in rows[1:]] == [
        ["detection", "[joint]", "strict"],
        ["detection", "[joint]", "overlap"],
        *(["links", kb, match] for kb in (*KBS, "[joint]") for match in ("strict", "weak")),
        ["NIL", "[joint]", "strict"],
    ]
    strict = result["metrics"]["joint"]["links"]["strict"]
    figures = [f"{value:.3f}" for value in (*strict["micro"].values(), strict["macro"]["f1"])]
    assert rows[7] == [
        "links", "[joint]", "strict", *(str(strict[name]) for name in ("gold", "found", "right")),
        *figures,
    ]  # fmt: skip
    assert out.startswith(
        "Raw text in: 126 texts, 170 mentions: 164 with an entity of these KBs, 6 with none (NIL)\n"
    )
    ece = result["metrics"]["joint"]["calibration"]["ece"]
    assert f"confidence     {ece:.3f} from the share of right answers (ECE, " in out


@pytest.mark.slow
def test_texts_annotated_in_part_have_no_precision(kglink: Kglink, demo: Path) -> None:
    out = kglink(*EVAL, "--joint-only", "--partial").out
    assert "right\trecall\tmacro recall\n" in out
    assert "there is no precision and no F1" in out
    assert "invented" not in out
    found = json.loads(kglink(*EVAL, "--joint-only", "--partial", "--json").out)
    assert (found["complete"], found["partial_because"], found["invented"]) == (False, None, None)


def test_a_kb_that_no_mention_means_has_no_figures(
    kglink: Kglink, demo_copy: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.jsonl"
    heron = {"start": 2, "end": 7, "gold": "encyclopedia:heron"}
    notes.write_text(json.dumps({"text": "A heron slept.", "entities": [heron]}), "utf-8")
    kglink("add-kb", "notes", notes, "--links-to", ",".join(KBS))
    asked = ("eval", "--docs", "notes", "--end-to-end")
    rows = [line.split(",") for line in kglink(*asked, "--format", "csv").out.splitlines()]
    (alone,) = (row for row in rows if row[:3] == ["links", KBS[1], "strict"])
    assert (alone[3], alone[6:]) == ("0", ["-"] * 4)
    metrics = json.loads(kglink(*asked, "--json").out)["metrics"]
    strict = metrics["kb"][KBS[1]]["links"]["strict"]
    nothing = dict.fromkeys(("precision", "recall", "f1"))
    assert (strict["micro"], strict["intervals"], strict["macro"]) == (nothing,) * 3
    assert metrics["joint"]["links"]["strict"]["micro"]["recall"] is not None


@pytest.mark.slow
def test_counterparts_count_together_only(workspace: Workspace) -> None:
    plain = workspace.evaluate_end_to_end("docs", split="dev")
    found = workspace.evaluate_end_to_end("docs", split="dev", counterparts=True)
    assert found.joint.links["strict"].right >= plain.joint.links["strict"].right
    assert found.as_json()["metrics"]["kb"] == plain.as_json()["metrics"]["kb"]  # type: ignore[index]  # a JSON shape


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--docs", "docs", "--joint-only"], "Add --end-to-end"),
        (["--docs", "docs", "--partial"], "Add --end-to-end"),
        (["--docs", "docs", "--end-to-end", "--domains"], "are of rankings"),
        (["--docs", "docs", "--end-to-end", "--overlaps"], "are of rankings"),
        (["--docs", "docs", "--end-to-end", "--k", "1,2"], "are of rankings"),
        (["--docs", "docs", "--end-to-end", "--seen-in", ""], "are of rankings"),
        (["--end-to-end"], "--docs"),
        (["--docs", "nothing", "--end-to-end"], "nothing"),
        (["--docs", "encyclopedia", "--end-to-end"], "no mention of 'encyclopedia' is annotated"),
        (["--docs", "docs", "--end-to-end", "--split", "north"], "unknown split"),
        (["--docs", "docs", "--end-to-end", "--kb", "none"], "none"),
        (["--docs", "docs", "--end-to-end", "--predictions", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_bad_calls_are_told(kglink: Kglink, demo: Path, options: list[str], told: str) -> None:
    code = 1 if "gone.jsonl" in options else 2
    assert told in kglink("eval", *options, code=code).err


def test_what_cannot_be_judged_leaves_no_file(
    kglink: Kglink, demo: Path, raw: Path, tmp_path: Path
) -> None:
    lines = raw.read_text("utf-8").splitlines()
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join(f'{line[:-1]}, "entities": []}}' for line in lines[1:]), "utf-8")
    kept = tmp_path / "kept.jsonl"
    ran = kglink(*EVAL, "--predictions", answers, "--keep", kept, code=2)
    assert "1 of 126 texts are not in it: 'doc-071'" in ran.err
    assert not kept.exists()
    bad = tmp_path / "bad.jsonl"
    for text in ("[1, 2]", '{"id": "a", "entities": [{"start": 0, "end": 9000, "gold": []}]}'):
        bad.write_text(text + "\n", "utf-8")
        ran = kglink(*EVAL, "--predictions", bad, code=1)
        assert "offsets count characters of the text" in ran.err
        assert "--on-error" not in ran.err
        assert "--adapter" not in ran.err
    answers.write_text("\n".join(f'{line[:-1]}, "entities": []}}' for line in lines), "utf-8")
    found = json.loads(kglink(*EVAL, "--predictions", answers, "--kb", KBS[0], "--json").out)
    assert found["kbs"] == [KBS[0]]
    assert found["metrics"]["joint"]["links"]["strict"]["micro"]["recall"] == 0
    assert found["metrics"]["joint"]["calibration"]["ece"] is None
