"""`kglink eval` on the demo: ranks as links have them, files kept and compared, tables and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink
from sklearn.metrics import adjusted_rand_score

from kglink.evaluation.measures.clusters import labels_of
from kglink.evaluation.rankings import JOINT, RankedMention
from kglink.records import EntityId, Span, TextInput
from kglink.workspace import Workspace

EVAL = ("eval", "--docs", "docs", "--split", "test")
KBS = ("encyclopedia", "lanternfall")
HERON = "encyclopedia:heron"


@pytest.fixture(scope="module")
def workspace(demo_master: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_master, flags={"link.top_k": 64}) as opened:
        yield opened


def linked_ranks(workspace: Workspace, kbs: tuple[str, ...], pool: str) -> dict[Any, int | None]:
    """Where the first gold stands among the candidates that linking the documents gives.

    Those of one KB stand as all KBs together judge them: counterparts in the others count.
    """
    linker = workspace.linker(KBS, candidates=32)
    found = {}
    for document in workspace.store.documents("docs", "test"):
        golds = {
            (one.start, one.end): {gold for gold in one.gold or () if gold.kb in kbs}
            for one in document.mentions
        }
        spans = tuple(Span(*place) for place, gold in sorted(golds.items()) if gold)
        (linked,) = linker.link([TextInput(document.id, document.text, spans)])
        for link in linked.links:
            ordered = sorted(link.candidates, key=lambda one: (-one.score, -one.popularity))
            # which KB answers is decided afterwards
            ids = [candidate.id for candidate in ordered if candidate.id.kb in kbs][:20]
            right = [ids.index(one) + 1 for one in golds[link.start, link.end] if one in ids]
            found[document.id, link.start, pool] = min(right, default=None)
    return found


@pytest.mark.slow
def test_ranks_are_those_of_the_candidates_that_links_have(workspace: Workspace) -> None:
    mentions: list[RankedMention] = []
    report = workspace.evaluate("docs", split="test", ks=(1, 20), each=mentions.append)
    found = {
        (one.document, one.start, pool): rank
        for one in mentions
        for pool, rank in one.ranks.items()
        if pool in (*KBS, JOINT)
    }
    twin = linked_ranks(workspace, KBS, JOINT)
    for kb in KBS:
        twin |= linked_ranks(workspace, (kb,), kb)
    assert found == twin
    assert len(twin) == report.mentions[JOINT] + sum(report.mentions[kb] for kb in KBS)
    assert {1, 2, 3} <= set(found.values())


@pytest.mark.slow
def test_a_table_and_json_say_the_same(kglink: Kglink, demo: Path) -> None:
    result = json.loads(kglink(*EVAL, "--json").out)
    assert result["kbs"] == list(KBS)
    assert (result["docs"], result["split"], result["depth"]) == ("docs", "test", 64)
    assert (result["found_by"], result["reranker"]) == ("all", "")
    names = ["R@1", "R@4", "R@8", "R@16", "R@32", "R@64", "AP@1", "MAP@10", "MRR"]
    for figures in (*result["metrics"]["kb"].values(), result["metrics"]["joint"]):
        assert list(figures) == [*names, "nDCG@10"]
        assert all(one <= other for one, other in pairwise(list(figures.values())[:6]))
        assert figures["AP@1"] == figures["R@1"] <= figures["MAP@10"] <= figures["MRR"] <= 1
    mean = result["metrics"]["mean"]["MRR"]
    assert mean == pytest.approx(sum(one["MRR"] for one in result["metrics"]["kb"].values()) / 2)
    table, seen = kglink(*EVAL).out.split("\nSurfaces seen in docs:train, and others\n")
    rows = [line.split("\t") for line in table.splitlines()]
    assert rows[0] == ["pool", "mentions", *names]
    assert [row[0] for row in rows[1:]] == [*KBS, "[mean of KBs]", "[joint]", "[judged joint]"]
    joint = result["metrics"]["joint"]
    assert rows[4] == ["[joint]", "164", *(f"{joint[name]:.3f}" for name in names)]
    seen, by_entity = seen.split("\nEntities seen in docs:train, and others\n")
    for part in (seen, by_entity):
        assert {line.split("\t")[0] for line in part.splitlines()[1:]} <= {"seen", "unseen"}
    seen_rows = [line.split("\t") for line in seen.splitlines()]
    assert {row[0] for row in seen_rows[1:]} == {"seen", "unseen"}


@pytest.mark.slow
def test_seen_and_unseen_add_up(kglink: Kglink, demo: Path) -> None:
    result = json.loads(kglink(*EVAL, "--json").out)
    assert result["seen_in"] == ["docs:train"]
    by_entity = [result[f"{name}_entities"]["mentions"] for name in ("seen", "unseen")]
    assert sum(one.get("joint", 0) for one in by_entity) == result["mentions"]["joint"]
    both = [result[name]["mentions"]["joint"] for name in ("seen", "unseen")]
    assert min(both) > 0
    assert sum(both) == result["mentions"]["joint"]
    shares = [result[name]["metrics"]["joint"]["R@1"] for name in ("seen", "unseen")]
    whole = sum(share * count for share, count in zip(shares, both, strict=True)) / sum(both)
    assert result["metrics"]["joint"]["R@1"] == pytest.approx(whole)
    none = json.loads(kglink(*EVAL, "--json", "--seen-in", "").out)
    assert "seen" not in none
    ran = kglink("eval", "--docs", "docs", "--split", "train", "--json")
    assert "no mentions are known that were learnt from" in ran.err


def test_ranks_beyond_all_lists_are_refused(kglink: Kglink, demo: Path) -> None:
    ran = kglink(*EVAL, "--k", "99999999999999999999", code=2)
    assert "ranks are 1 to 1,000,000" in ran.err


def test_normalized_accuracy_is_of_mentions_with_gold_among_the_candidates(
    kglink: Kglink, demo: Path
) -> None:
    result = json.loads(kglink(*EVAL, "--k", "1,2", "--json").out)
    for kb, one in result["accuracy"]["kb"].items():
        assert one["unnormalized"] == result["metrics"]["kb"][kb]["AP@1"]
        assert one["normalized"] == one["right"] / one["with_gold"] >= one["unnormalized"]
    means = [one["normalized"] for one in result["accuracy"]["kb"].values()]
    assert result["accuracy"]["macro"]["normalized"] == pytest.approx(sum(means) / 2)


@pytest.mark.slow
def test_clusters_of_given_mentions(kglink: Kglink, demo: Path, workspace: Workspace) -> None:
    result = json.loads(kglink(*EVAL, "--clusters", "--json").out)
    clusters = result["clusters"]
    mentions: list[RankedMention] = []
    workspace.evaluate("docs", split="test", ks=(1,), each=mentions.append)
    gold = labels_of(one.gold for one in mentions)
    answers = labels_of(one.candidates[0].id for one in mentions)
    assert clusters["ari"] == pytest.approx(adjusted_rand_score(gold, answers))
    assert clusters["mentions"] == clusters["found"] == 164
    assert clusters["gold_clusters"] == len(set(gold.tolist()))
    # Mentions of one name are near each other, whatever they mean.
    assert 0.8 < clusters["mention_recall@64"] <= 1
    assert workspace.evaluate_clusters("docs", split="test").as_json() == clusters
    out = kglink(*EVAL, "--clusters").out
    assert "Mentions put together: 164 mentions of " in out
    assert f"ARI {clusters['ari']:.3f}, NMI {clusters['nmi']:.3f}\n" in out
    assert "(mention recall@64)" in out


@pytest.mark.slow
def test_counterparts_count_where_that_is_wanted(kglink: Kglink, demo: Path) -> None:
    plain = json.loads(kglink(*EVAL, "--json").out)
    found = json.loads(kglink(*EVAL, "--json", "--counterparts").out)
    assert (plain["counterparts"], plain["mentions_with_counterparts"]) == (False, None)
    count = found["mentions_with_counterparts"]
    assert found["counterparts"] is True
    assert 0 < count <= found["mentions"]["joint"]
    assert found["metrics"]["kb"] == plain["metrics"]["kb"]
    assert found["mentions"] == plain["mentions"]
    for name, share in plain["metrics"]["joint"].items():
        assert found["metrics"]["joint"][name] >= share
    assert f"is right as well: {count} mention" in kglink(*EVAL, "--counterparts").out
    assert "right as well" not in kglink(*EVAL).out


@pytest.mark.slow
def test_domains(kglink: Kglink, demo: Path, workspace: Workspace) -> None:
    result = json.loads(kglink(*EVAL, "--json", "--domains").out)
    assert set(result["domains"]) == set(KBS)
    for kb, kinds in result["domains"].items():
        # Here no mention has golds of two types in one KB.
        assert sum(one["mentions"] for one in kinds.values()) == result["mentions"][kb]
        right = sum(one["mentions"] * one["R@1"] for one in kinds.values())
        share = right / result["mentions"][kb]
        assert share == pytest.approx(result["metrics"]["kb"][kb]["R@1"])
        counts = [one["mentions"] for one in kinds.values()]
        assert counts == sorted(counts, reverse=True)
    heron = EntityId("lanternfall", "isolde_heron")
    kind = workspace.store.get_entities([heron])[heron].type
    ran = kglink(*EVAL, "--domains")
    assert f"lanternfall\t{kind}\t" in ran.out
    assert "By the type of the gold" in ran.out
    assert "domains" not in json.loads(kglink(*EVAL, "--json").out)


def test_overlaps(kglink: Kglink, demo: Path) -> None:
    result = json.loads(kglink("eval", "--overlaps", "--json").out)
    assert result.keys() == {"space", "kbs", "overlaps"}
    first, second = result["overlaps"]
    assert (first["queries"], first["answers"]) == ("lanternfall", "encyclopedia")
    assert (second["queries"], second["answers"]) == ("encyclopedia", "lanternfall")
    assert 0 < first["MRR"] < first["MRR_without_self"] <= 1
    assert first["overlaps"] == second["overlaps"] > 20
    out = kglink(*EVAL, "--overlaps").out
    assert f"lanternfall\tencyclopedia\t{first['overlaps']}\t{first['MRR']:.4f}" in out
    none = kglink("eval", "--overlaps", "--kb", "lanternfall")
    assert "there are none between these KBs" in none.out


@pytest.mark.slow
def test_what_was_kept_is_compared(kglink: Kglink, demo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "all.json"
    kglink(*EVAL, "--keep", kept)
    same = json.loads(kglink(*EVAL, "--against", kept, "--json").out)["against"]
    assert (same["file"], same["found_by"], same["comparisons"]) == (str(kept), "all", 1)
    assert set(same["tests"]) == {*KBS, "joint", "judged_joint"}
    assert {one["p"] for tests in same["tests"].values() for one in tests.values()} == {1.0}
    assert {"R@1", "R@64", "MRR"} <= same["tests"]["joint"].keys()
    options = ("--found-by", "names", "--against", kept, "--comparisons", "10")
    result = json.loads(kglink(*EVAL, *options, "--json").out)
    assert result["found_by"] == "names"
    for pool, figures in (("joint", result["metrics"]["joint"]), *result["metrics"]["kb"].items()):
        for name, test in result["against"]["tests"][pool].items():
            assert test["left"] == pytest.approx(figures[name])
            assert test["items"] == result["mentions"][pool]
            assert test["significant"] == (test["p"] < 0.05 / 10)
    ran = kglink(*EVAL, *options)
    assert f"Against {kept}, paired randomization test at .05 / 10" in ran.out
    assert "[joint]\tR@1\t164\t" in ran.out


def test_tables_for_programs_and_for_papers(kglink: Kglink, demo: Path) -> None:
    asked = (*EVAL, "--k", "1,5", "--seen-in", "", "--found-by", "names", "--intervals")
    value = json.loads(kglink(*asked, "--format", "json").out)
    right, (low, high) = (value[one]["joint"]["R@1"] for one in ("metrics", "intervals"))
    assert 0 < low < right < high < 1
    rows = list(csv.DictReader(kglink(*asked, "--format", "csv").out.splitlines()))
    joint = next(row for row in rows if row["pool"] == "[joint]")
    told = [float(joint[name]) for name in ("R@1", "R@1 from", "R@1 to")]
    assert told == pytest.approx([right, low, high], abs=1e-6)
    tsv = kglink(*asked, "--format", "tsv").out
    assert tsv.splitlines()[0].startswith("pool\tmentions\tR@1\tR@1 from\tR@1 to\tR@5")
    shown = f"{right:.3f} [{low:.3f}, {high:.3f}]"
    markdown = kglink(*asked, "--format", "md").out.splitlines()
    assert markdown[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert any(line.startswith(f"| [joint] | 164 | {shown} |") for line in markdown)
    latex = kglink(*asked, "--format", "latex").out
    assert latex.startswith("\\begin{tabular}{lrrrrrr}\n\\toprule\npool & mentions & R@1")
    assert f"{{[}}joint] & 164 & {shown.replace('[', '{[}')} &" in latex
    assert "There is: table, tsv, csv, md, latex, json" in kglink(*EVAL, "-f", "pdf", code=2).err


@pytest.mark.slow
def test_tables_of_whole_answers_keep_words_apart(kglink: Kglink, demo: Path) -> None:
    asked = (*EVAL, "--end-to-end", "--joint-only", "--complete", "--intervals")
    ran = kglink(*asked, "--format", "csv")
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert "Raw text in:" in ran.err
    links = next(row for row in rows if (row["what"], row["match"]) == ("links", "strict"))
    low, f1, high = (float(links[name]) for name in ("F1 from", "F1", "F1 to"))
    assert low <= f1 <= high
    value = json.loads(kglink(*asked, "--json").out)["metrics"]["joint"]["links"]["strict"]
    assert value["intervals"]["f1"] == pytest.approx([low, high], abs=1e-6)


@pytest.mark.slow
def test_names_and_vectors_alone_find_other_things(kglink: Kglink, demo: Path) -> None:
    found = {
        by: json.loads(kglink(*EVAL, "--found-by", by, "--json").out)["metrics"]["mean"]["MRR"]
        for by in ("all", "vectors", "names")
    }
    assert len(set(found.values())) == 3
    assert max(found, key=lambda by: found[by]) == "all"


@pytest.mark.slow
def test_a_file_that_does_not_fit_is_refused_and_nothing_is_kept(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    kept, other = tmp_path / "kept.json", tmp_path / "other.json"
    kglink(*EVAL, "--keep", kept)
    lines = kept.read_text("utf-8").splitlines(keepends=True)
    kept.write_text("".join([*lines[:-1], lines[-1].replace('"start": ', '"start": 1')]), "utf-8")
    ran = kglink(*EVAL, "--against", kept, "--keep", other, code=2)
    assert "other mentions" in ran.err
    assert list(tmp_path.iterdir()) == [kept]
    ran = kglink("eval", "--docs", "docs", "--split", "train", "--against", kept, code=2)
    assert "split: test there, train here" in ran.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "--docs"),
        (["--overlaps", "--keep", "x.json"], "--docs"),
        (["--docs", "nothing"], "nothing"),
        (["--docs", "docs", "--k", "0"], "ranks are 1 to"),
        (["--docs", "docs", "--k", "one"], "list of numbers"),
        (["--docs", "docs", "--split", "north"], "unknown split"),
        (
            ["--docs", "docs,encyclopedia", "--split", ""],
            "no mention of 'encyclopedia' is annotated",
        ),
        (["--docs", "docs", "--found-by", "luck"], "link.found_by"),
        (
            ["--docs", "docs", "--found-by", "names", "--rerank", "8"],
            "would change nothing beside --found-by",
        ),
        (["--docs", "docs", "--seen-in", "docs:other"], "no documents in the split"),
        (["--docs", "docs", "--against", "gone.json"], "gone.json"),
    ],
)
def test_bad_calls_are_told(kglink: Kglink, demo: Path, options: list[str], told: str) -> None:
    code = 1 if "gone.json" in options else 2
    assert told in kglink("eval", *options, code=code).err


@pytest.mark.slow
def test_documents_without_splits_are_all_judged(kglink: Kglink, demo_copy: Path) -> None:
    """As the README has it: notes of one's own say nothing of splits."""
    notes = demo_copy / "notes.jsonl"
    texts = [{"text": "A heron at dusk.", "entities": [{"start": 2, "end": 7, "gold": HERON}]}]
    notes.write_text("".join(json.dumps(one) + "\n" for one in texts), "utf-8")
    kglink("add-kb", "notes", notes, "--links-to", "encyclopedia")
    for options in ((), ("--end-to-end", "--joint-only")):
        ran = kglink("eval", "--docs", "notes", *options, "--json")
        assert json.loads(ran.out)["split"] == ""
        assert "memory" not in ran.err
    assert "unknown KB 'letters'" in kglink("learn", "notes,letters", code=2).err
    assert "unknown KB 'letters'" in kglink("learn", "notes", "letters", code=2).err
    said = kglink("learn", "notes").err
    assert "learnt     what 1 surface means in notes" in said
    ran = kglink("eval", "--docs", "notes")
    assert "learnt from these texts of notes (`kglink learn`), so the figures are too" in ran.err
    kglink("add-kb", "notes", notes, "--links-to", "encyclopedia", "--split", "test")
    ran = kglink("eval", "--docs", "notes", code=2)
    assert "'notes' has no documents in the split 'dev'" in ran.err
    assert 'Splits that it has: test. --split "" takes all documents.' in ran.err
    assert "memory" not in kglink("eval", "--docs", "notes", "--split", "test").err
    texts.append({"text": "Two herons.", "split": "test", "entities": []})
    notes.write_text("".join(json.dumps(one) + "\n" for one in texts), "utf-8")
    kglink("add-kb", "notes", notes, "--links-to", "encyclopedia", "--defaults")
    ran = kglink("eval", "--docs", "notes", code=2)
    assert "Splits that it has: test; 1 of its documents are of none." in ran.err
