"""`kglink overlap` as its users meet it: finding, listing, lists of pairs, training."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Kglink

from disease_kbs import write_disease_jsonl
from kglink.records import Document, EntityId, Overlap
from kglink.workspace import Workspace, init_workspace
from store_support import entity, job

KNOWN = ROOT / "cli" / "kglink_cli" / "demo_data" / "overlaps.tsv"
FOUND = re.compile(
    r"encyclopedia-lanternfall  (\d+) pairs \((\d+) by name, (\d+) by meaning only\)"
)
SSSOM = "subject_id\tpredicate_id\tobject_id\n"
SHAPE = {"left", "right", "probability", "evidence", "verdict"}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of three KBs, one of them without entities, and four overlaps of the others."""
    made = init_workspace(tmp_path / "workspace")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(made))
    with Workspace.open(made) as workspace:
        store = workspace.store
        for kb in ("wiki", "doid"):
            store.ingest(job(kb), [entity(f"{kb.upper()}:{n}") for n in range(1, 7)])
        store.ingest(job("empty"), [Document("1", "Texts, and no entities.")])
        store.save_overlaps(
            "wiki", "doid", [pair(n, n, 0.5 + n / 10) for n in range(1, 5)] + [pair(1, 2, 0.55)]
        )
        store.set_verdict(*ids(1, 2), "wrong")
        store.set_verdict(*ids(3, 3), "correct")
    return made


def ids(wiki: int, doid: int) -> tuple[EntityId, EntityId]:
    return EntityId("wiki", f"WIKI:{wiki}"), EntityId("doid", f"DOID:{doid}")


def pair(wiki: int, doid: int, probability: float) -> Overlap:
    return Overlap(*ids(wiki, doid), probability, {"name": 1.0, "description": 0.25})


# ---------------------------------------------------------------------------------- finding
def test_finding_says_how_much_by_what_and_what_was_passed_over(
    kglink: Kglink, demo_copy: Path
) -> None:
    first = kglink("overlap", "--fresh")
    found = FOUND.fullmatch(first.out.strip())
    assert found
    kept, by_name, by_meaning = map(int, found.groups())
    assert kept == by_name + by_meaning > 30
    assert "full: all evidence, probability 0.5, model default" in first.err
    again = kglink("overlap")
    assert again.out == f"encyclopedia-lanternfall  {kept} pairs (nothing has changed)\n"
    assert "--fresh compares again" in again.err
    fewer = FOUND.fullmatch(kglink("overlap", "--threshold", "0.9").out.strip())
    assert fewer
    assert 0 < int(fewer[1]) < kept


def test_json_is_a_list_in_a_stable_shape_and_alone(kglink: Kglink, demo_copy: Path) -> None:
    pairs: list[dict[str, Any]] = json.loads(
        kglink("overlap", "lanternfall", "encyclopedia", "--json").out
    )
    assert all(set(one) == SHAPE for one in pairs)
    assert all(one["left"].startswith("lanternfall:") for one in pairs)
    assert all(0.5 <= one["probability"] <= 1 and one["evidence"] for one in pairs)
    assert json.loads(kglink("overlap", "--threshold", "1", "--json").out) == []


def test_the_other_methods(kglink: Kglink, demo_copy: Path) -> None:
    names = kglink("overlap", "--method", "names")
    counts = re.fullmatch(
        r"encyclopedia-lanternfall  (\d+) pairs of (\d+) that share a name\n", names.out
    )
    assert counts
    assert counts[1] == counts[2]
    assert "names: entities that share a name" in names.err
    paper = kglink("overlap", "--method", "paper", "--threshold", "-1", "--json")
    titles = len(json.loads(paper.out))
    assert 0 < titles < int(counts[1])
    fewer = kglink("overlap", "--method", "paper", "--threshold", "0.6")
    assert "encoder minilm, and the paper's is RoBERTa-large" in fewer.err
    assert "threshold 0.6, and the paper's is 0.5" in fewer.err
    fewer = kglink("overlap", "--method", "paper", "--threshold", "0.5")
    assert "threshold" not in fewer.err
    assert "cosine of the descriptions 0.5" in fewer.err
    assert int(fewer.out.split()[1]) < titles


def test_one_to_one(kglink: Kglink, demo_copy: Path) -> None:
    pairs = json.loads(kglink("overlap", "--method", "names", "--one-to-one", "--json").out)
    for side in ("left", "right"):
        assert len({one[side] for one in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wiki"], "two KBs or none"),
        (["wiki", "nothing"], "unknown KB 'nothing'"),
        (["wiki", "wiki"], "no overlap with itself"),
        (["wiki", "doid", "empty"], "'empty' is one name too many"),
        (["rewiev", "wiki", "doid"], "The commands are: review, show, train"),
        (["--", "review", "wiki"], "unknown KB 'review'"),
        (["--threshold", "-1.5"], "overlap.threshold"),
        (["--method", "magic"], "overlap.method"),
        (["--evidence", "tea-leaves"], "tea-leaves"),
        (["--export", "x.tsv", "--import", "y.tsv"], "do not go together"),
        (["--export", "x.tsv", "--fresh"], "--fresh has no effect"),
        (["--import", "x.tsv", "--one-to-one"], "--one-to-one has no effect"),
        (["--verdict", "wrong"], "--verdict goes with --export alone"),
        (["--min-probability", "0.9"], "--min-probability goes with --compare or --export alone"),
        (["--export", "x.tsv", "--min-confidence", "0.9"], "goes with --compare or --import"),
        (["--export", "x.json"], "says no format"),
        (["--export", "x.tsv", "--verdict", "maybe"], "unknown verdict 'maybe'"),
        (["--export", "x.sssom.tsv", "--licence", "CC0"], "is no address"),
        (["wiki", "--export", "x.tsv"], "two KBs or none"),
        (["wiki", "empty", "--export", "x.tsv"], "'empty' has no entities"),
        (["wiki", "wiki", "--compare", "x.tsv"], "no overlap with itself"),
        (["review", "wiki", "nothing"], "unknown KB 'nothing'"),
        (["review", "wiki", "wiki"], "no overlap with itself"),
        (["review", "wiki", "empty"], "'empty' has no entities"),
        (["review", "wiki", "doid", "--order", "best"], "unknown order 'best'"),
        (["show", "--verdict", "maybe"], "unknown verdict 'maybe'"),
        (["show", "wiki", "nothing"], "unknown KB 'nothing'"),
        (["train"], "too few to learn from"),
    ],
)  # fmt: skip
def test_bad_calls(kglink: Kglink, told: Path, arguments: list[str], said: str) -> None:
    ran = kglink("overlap", *arguments, code=2)
    assert said in ran.err
    assert ran.out == ""


def test_a_kb_without_entities_is_told(kglink: Kglink, told: Path) -> None:
    assert "empty" in kglink("overlap", "wiki", "empty", code=2).err


def test_nothing_to_compare_yet(kglink: Kglink, tmp_path: Path) -> None:
    init_workspace(tmp_path / "w")
    ran = kglink("-w", tmp_path / "w", "overlap", "--json", code=2)
    assert not ran.out
    assert "there are no two KBs with entities yet" in ran.err
    assert "kglink add-kb NAME SOURCE" in ran.err
    ran = kglink("-w", tmp_path / "w", "overlap", "wiki", code=2)
    assert "kglink overlap wiki OTHER" in ran.err
    ran = kglink("-w", tmp_path / "w", "link", "-", stdin="A heron.", code=1)
    assert "there is no KB with entities yet" in ran.err
    assert "building it now" not in ran.err
    export = kglink("-w", tmp_path / "w", "overlap", "--export", "x.tsv", code=2)
    assert "no overlaps to export" in export.err


def test_the_help_names_the_commands_and_the_options(kglink: Kglink) -> None:
    shown = kglink("overlap", "--help").out
    for word in ("--threshold", "--export", "review", "show", "train"):
        assert word in shown
    below = kglink("overlap", "review", "--help").out
    assert "--sample" in below
    assert "kglink overlap review [OPTIONS] [left] [right]" in below


# ---------------------------------------------------------------------------------- listing
def test_show_lists_and_filters(kglink: Kglink, told: Path) -> None:
    lines = [line.split("\t") for line in kglink("overlap", "show").out.splitlines()]
    assert lines[0] == ["probability", "left", "title", "right", "title", "verdict", "evidence"]
    assert lines[1] == [
        "0.60", "doid:DOID:1", "Title of DOID:1", "wiki:WIKI:1", "Title of WIKI:1", "",
        "description .25  name 1.00",
    ]  # fmt: skip
    assert len(lines) == 6

    def shown(*arguments: str) -> list[tuple[str, str]]:
        found = json.loads(kglink("overlap", "show", "wiki", "doid", *arguments, "--json").out)
        return [(one["left"][-1], one["right"][-1]) for one in found]

    assert shown("--verdict", "wrong") == [("1", "2")]
    assert shown("--verdict", "correct") == [("3", "3")]
    assert shown("--verdict", "unjudged") == [("1", "1"), ("2", "2"), ("4", "4")]
    assert shown("--min-probability", "0.75") == [("3", "3"), ("4", "4")]
    assert shown("--limit", "1") == [("1", "1")]
    assert shown("--stale") == []
    assert len(shown("--limit", "0")) == 5
    assert "--limit shows more" in kglink("overlap", "show", "--limit", "2").err
    assert "no such overlap" in kglink("overlap", "show", "--stale").err


def test_show_says_what_is_stale(kglink: Kglink, told: Path) -> None:
    with Workspace.open(told) as workspace:
        changed = [entity(f"WIKI:{n}", description="new") for n in range(1, 7)]
        workspace.store.ingest(job("wiki", fingerprint="2"), changed)
    out = kglink("overlap", "show", "--stale").out
    assert "correct (stale)" in out
    assert "wrong (stale)" in out


# ------------------------------------------------------------------------- lists of pairs
def test_exports_by_name_and_verdict(kglink: Kglink, told: Path, tmp_path: Path) -> None:
    def exported(name: str, *arguments: str) -> list[list[str]]:
        ran = kglink("overlap", "--export", tmp_path / name, *arguments)
        assert f"to {tmp_path / name}" in ran.err
        path = tmp_path / name
        raw = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        return [line.split("\t") for line in raw.decode().splitlines() if not line.startswith("#")][
            1:
        ]

    assert [(row[0], row[1]) for row in exported("o.tsv", "wiki", "doid")] == [
        ("wiki:WIKI:1", "doid:DOID:1"), ("wiki:WIKI:2", "doid:DOID:2"),
        ("wiki:WIKI:3", "doid:DOID:3"), ("wiki:WIKI:4", "doid:DOID:4"),
    ]  # fmt: skip
    assert len(exported("o.sssom.tsv")) == 5
    assert len(exported("o.sssom.tsv.gz")) == 5
    assert len(exported("o.tsv", "--min-probability", "0.75")) == 2
    ran = kglink("overlap", "--export", tmp_path / "o.tsv", "--json")
    assert json.loads(ran.out) == {"path": str(tmp_path / "o.tsv"), "pairs": 4}
    (wrong,) = exported("wrong.sssom.tsv", "--verdict", "wrong", "--author", "Ada")
    assert wrong[4] == "Not"
    assert "Ada" in wrong
    assert len(exported("some.tsv", "--verdict", "unjudged,correct")) == 4
    licence = "https://creativecommons.org/publicdomain/zero/1.0/"
    exported("o.sssom.tsv", "--licence", licence)
    assert f'#license: "{licence}"' in (tmp_path / "o.sssom.tsv").read_text()
    assert "cannot write" in kglink("overlap", "--export", tmp_path / "no" / "o.tsv", code=2).err


def test_comparing_stores_nothing_and_importing_does(
    kglink: Kglink, told: Path, tmp_path: Path
) -> None:
    path = tmp_path / "theirs.sssom.tsv"
    path.write_text(
        "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tconfidence\n"
        "DOID:1\tskos:exactMatch\t\tWIKI:1\t0.9\n"
        "DOID:5\tskos:exactMatch\t\tWIKI:6\t\n"
        "DOID:2\tskos:exactMatch\tNot\tWIKI:2\t\n"
        "DOID:4\tskos:exactMatch\t\tWIKI:4\t0.3\n"
        "DOID:3\tskos:broadMatch\t\tWIKI:3\t\n"
        "DOID:999\tskos:exactMatch\t\tWIKI:3\t\n"
    )

    def verdicts() -> dict[str, Any]:
        found = json.loads(kglink("overlap", "show", "doid", "wiki", "--json").out)
        return {one["left"][-1] + one["right"][-1]: one["verdict"] for one in found}

    before = verdicts()
    compared = kglink("overlap", "wiki", "doid", "--compare", path)
    assert compared.out.splitlines() == [
        "wiki-doid  2 pairs and 1 wrong in theirs.sssom.tsv, 5 of ours, 1 in both",
        "precision  .20 of ours; .50 of the 2 that touch an entity of the list",
        "recall     .50",
        "F1         .29; .50 by the second precision",
        "wrong      1 of 1 are among ours",
    ]
    assert "1 rows of the predicate skos:broadMatch" in compared.err
    assert "1 rows less confident than 0.5" in compared.err
    assert "1 id that neither KB holds: DOID:999 (theirs.sssom.tsv, line 7)" in compared.err
    assert verdicts() == before
    sure = kglink("overlap", "--compare", path, "--min-confidence", "0.2", "--json")
    assert json.loads(sure.out)["matched"] == 4
    probable = kglink("overlap", "--compare", path, "--min-probability", "0.75", "--json")
    assert json.loads(probable.out)["figures"]["ours"] == 2
    imported = kglink("overlap", "wiki", "doid", "--import", path, "--json")
    result = json.loads(imported.out)
    assert result["verdicts"] == {"set": 3, "agreed": 0, "conflicts": 0}
    assert result["figures"]["recall"] == 0.5
    assert (result["rows"], result["unmatched"], result["unknown_ids"]) == (4, 1, 1)
    assert verdicts() == before | {
        "11": "correct",
        "22": "wrong",
        "56": "correct",
    }  # DOID:5, WIKI:6


def test_a_review_stands_against_an_import(kglink: Kglink, told: Path, tmp_path: Path) -> None:
    path = tmp_path / "theirs.tsv"
    path.write_text("WIKI:3\tDOID:3\nWIKI:1\tDOID:2\n")
    ran = kglink("overlap", "wiki", "doid", "--import", path)
    assert "0 verdicts set, 1 stood already" in ran.err
    assert "1 verdict of a review here, judged otherwise" in ran.err
    assert "wiki:WIKI:1 doid:DOID:2: wrong here, correct there" in ran.err


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("subject_id\tobject_id\nDOID:1\tWIKI:1\n", "line 1: the header has no column", 1),
        ("DOID:1\tWIKI:1\textra\n", "line 1: 3 columns without a header", 1),
        ("DOID:1\tWIKI:1\textra\n", "with the columns left, right and verdict", 1),
        ("A:1\tB:1\n", "holds no pair of entities of wiki and doid, such as A:1", 2),
        ("DOID:1\tDOID:2\n", "holds no pair of entities", 2),
        (SSSOM + "DOID:1\tskos:broadMatch\tWIKI:1\n",
         "Left out: 1 rows of the predicate skos:broadMatch.", 2),
        (SSSOM, "It has no rows.", 2),
        ("X" * 9999 + "\x1b]0;\tB:1\n", f"such as {'X' * 80}... (x.tsv, line 1)", 2),
        ("left\tright\tverdict\nA:1\tB:1\tno\x1b\n", "line 2: 'no' is no verdict", 1),
    ],
)  # fmt: skip
def test_lists_that_say_nothing(
    kglink: Kglink, told: Path, tmp_path: Path, text: str, said: str, code: int
) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(text)
    for option in ("--import", "--compare"):
        ran = kglink("overlap", "wiki", "doid", option, path, code=code)
        assert said in ran.err
        assert ran.out == ""
    assert "does not exist" in kglink("overlap", "--import", tmp_path / "no.tsv", code=1).err


def test_a_list_that_disagrees_with_itself(kglink: Kglink, told: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    rows = ["left\tright\tverdict", "WIKI:1\tDOID:1\twrong", "WIKI:2\tDOID:2\tcorrect"]
    path.write_text("\n".join([*rows, "DOID:1\tWIKI:1\tcorrect", "WIKI:2\tDOID:2\tcorrect"]))
    ran = kglink("overlap", "wiki", "doid", "--compare", path)
    assert "with itself on 1 pair: the last row of each counts, such as x.tsv, line 4" in ran.err
    assert "wiki-doid  2 pairs in x.tsv" in ran.out


def test_importing_before_anybody_looked(kglink: Kglink, tmp_path: Path) -> None:
    made = init_workspace(tmp_path / "w")
    with Workspace.open(made) as workspace:
        for kb in ("a", "b"):
            workspace.store.ingest(job(kb), [entity("1"), entity("2")])
    path = tmp_path / "x.tsv"
    path.write_text("1\t1\n2\t2\n")
    assert "to compare" in kglink("-w", made, "overlap", "--compare", path, code=2).err
    ran = kglink("-w", made, "overlap", "--import", path)
    assert "nobody has looked for overlaps of a-b yet" in ran.err
    assert "2 verdicts set" in ran.err
    assert json.loads(kglink("-w", made, "overlap", "show", "--json").out)[0]["evidence"] == {}


# --------------------------------------------------------------------------------- training
def test_training_on_an_imported_list(kglink: Kglink, demo_copy: Path) -> None:
    kglink("overlap", "--import", KNOWN)
    trained = json.loads(kglink("overlap", "train", "--json").out)
    assert (trained["correct"], trained["wrong"]) == (40, 0)
    assert trained["kbs"] == [["encyclopedia", "lanternfall"]]
    assert trained["weights"]["name"].keys() == {"weight", "absent"}
    after = kglink("overlap")
    assert "model trained on 40 correct" in after.err
    assert "trained on 40 correct and 0 wrong pairs" in kglink("overlap", "train").out


# ---------------------------------------------------------------------------------- real data
@pytest.mark.realdata
@pytest.mark.slow
def test_a_converted_list_of_curators_prints_precision_and_recall(
    realdata: Path, tmp_path: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_OVERLAP_NAMES", "folded")
    disease = realdata / "disease"
    gold = list(gold_pairs(disease, "DOID", "NCIT"))[:600]
    kept = {one for left, right, _ in gold for one in (left, right)}
    made = init_workspace(tmp_path / "w")
    for side, kb in enumerate(("doid", "ncit")):
        source = write_disease_jsonl(kb, disease, tmp_path / f"{kb}.jsonl")
        lines = source.read_text(encoding="utf-8").splitlines()
        wanted = {pair[side] for pair in gold}
        some = [
            line for at, line in enumerate(lines) if json.loads(line)["id"] in wanted or not at % 20
        ]
        source.write_text("\n".join(some) + "\n", encoding="utf-8")
        kglink("-w", made, "add-kb", kb, source)
    table = tmp_path / "gold.sssom.tsv"
    table.write_text(
        "#curie_map:\n#  NCIT: http://purl.obolibrary.org/obo/NCIT_\n"
        "subject_id\tpredicate_id\tobject_id\tmapping_justification\n"
        + "".join(
            f"{right}\tskos:exactMatch\t{left}\tsemapv:ManualMappingCuration\n"
            for left, right, _ in gold
        )
        + "DOID:0000000\tskos:exactMatch\tNCIT:C2975\tsemapv:ManualMappingCuration\n"
    )
    kglink("-w", made, "overlap", "doid", "ncit", "--method", "names")
    ran = kglink("-w", made, "overlap", "doid", "ncit", "--import", table)
    figures = json.loads(
        kglink("-w", made, "overlap", "doid", "ncit", "--compare", table, "--json").out
    )["figures"]
    assert "DOID:0000000 (gold.sssom.tsv, line 604)" in ran.err
    assert f"{len(gold)} verdicts set" in ran.err
    assert figures["listed"] == len(gold)
    # The flag of the list says by which pairs names can find; the two ways to fold names differ.
    by_name = sum(shared for _, _, shared in gold) / len(gold)
    assert figures["recall"] == pytest.approx(by_name, abs=0.03)
    assert figures["precision_known"] > 0.9
    assert "recall     ." in ran.out
    assert len(kept) > 1000


def gold_pairs(disease: Path, left: str, right: str) -> Iterator[tuple[str, str, int]]:
    """The pairs of two KBs in ``gold_pairs.tsv``, and whether they share a name."""
    lines = (disease / "overlap" / "gold_pairs.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        kb_a, id_a, kb_b, id_b, _, _, shared = line.split("\t")
        if (kb_a, kb_b) == (left, right):
            yield id_a, id_b, int(shared)
