"""`kglink reproduce`: the tables of the papers on data of their layout, small enough for a test."""

from __future__ import annotations

import html
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Kglink

from kglink.models.hardware import choose_hardware
from kglink.models.head_folder import RERANKER, RerankerManifest
from kglink.models.inputs import Inputs, tokenizer_files
from kglink.models.model_folder import BaseInfo, TowerFiles
from kglink.models.opening import resolve_model
from kglink.models.settings import InputSettings
from kglink.models.source import read_config
from kglink.models.towers import load_tower
from kglink.workspace import init_workspace
from kglink_papers import protocols
from kglink_papers.commands import EXAMPLES
from kglink_papers.data import Layout
from kglink_papers.protocols import find_protocol
from kglink_papers.shown import best_of, charts_of, section_of, tables_of
from kglink_papers.table import table_of
from paper_data import (
    write_disease,
    write_fandom,
    write_joint,
    write_medmentions,
    write_wikipedia,
    write_zeshel,
)
from training_world import world_of, write_world_model

ZESHEL = find_protocol("amh/table-2").data
#: What makes every recipe small enough; two layers are all that the tiny model has.
SMALL = (
    "model.inputs.mention_tokens=16", "model.inputs.entity_tokens=16", "train.epochs=1",
    "train.batch=8", "overlap.batch=8", "overlap.epochs=1", "overlap.method=full",
    "reranker.inputs.mention_tokens=16", "reranker.inputs.entity_tokens=16", "reranker.epochs=1",
    "reranker.batch=16", "reranker.candidates=16",
)  # fmt: skip
ALL = [one.name for one in protocols.protocols().values()]


@pytest.fixture(autouse=True)
def _plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_ENCODER_PRECISION", "fp32")
    monkeypatch.setenv("KGLINK_ENCODER_THREADS", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of all papers, and the tiny model."""
    folder = tmp_path_factory.mktemp("papers")
    write_zeshel(folder / "zeshel", ZESHEL)
    write_joint(folder / "joint", find_protocol("joint/table-3").data)
    write_disease(folder / "disease")
    write_wikipedia(folder / "tac")
    (folder / "wikilinksned").symlink_to(folder / "tac")
    write_medmentions(folder / "medmentions")
    write_fandom(folder / "fandom")
    write_world_model(folder / "tiny", world_of())
    write_reader(folder / "reader", folder / "tiny")
    return folder


def write_reader(folder: Path, base: Path) -> None:
    """A cross-encoder as `kglink convert` writes BLINK's: random, with padding and a pooler."""
    source = resolve_model(str(base))
    read = InputSettings(mention_tokens=16, entity_tokens=16, parts=("title", "description"))
    inputs = Inputs(source, read, rows=int(read_config(source.path)["vocab_size"]))
    tower = load_tower(source, choose_hardware("cpu", "fp32", 1), rows=inputs.rows)
    generator = torch.Generator().manual_seed(1)
    dim = source.dim
    sizes = {"weight": (1, dim), "bias": (1,), "pooler.dense.weight": (dim, dim)}
    sizes["pooler.dense.bias"] = (dim,)
    head = {name: torch.randn(size, generator=generator) for name, size in sizes.items()}
    manifest = RerankerManifest(
        base=BaseInfo(name="reader", fingerprint="0" * 16),
        documents=(),
        inputs=read,
        tag_ids=inputs.tag_ids,
        segments=True,
        padded=True,
    )
    files = TowerFiles(tower.config, tower.weights(), tokenizer_files(source))
    RERANKER.write(folder, files, head, manifest)


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One for each layout: what one table trained serves the next."""
    layouts = {one.data.name for one in protocols.protocols().values()}
    return {name: init_workspace(tmp_path_factory.mktemp(name)) for name in layouts}


@pytest.fixture(autouse=True)
def _few_mentions_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper draws thousands of each world's mentions."""

    def few(layout: Layout) -> Layout:
        kbs = [replace(one, split_random=dict.fromkeys(one.split_random, "9,3,6"))
               for one in layout.kbs]  # fmt: skip
        return replace(layout, kbs=tuple(kbs))

    patched = {
        name: replace(one, data=few(one.data)) for name, one in protocols.protocols().items()
    }
    monkeypatch.setattr(protocols, "protocols", lambda: patched)


def settings(data: Path, *more: str) -> list[str]:
    return [
        word
        for one in (
            f"model.base={data / 'tiny'}",
            f"reranker.base={data / 'reader'}",
            *SMALL,
            *more,
        )
        for word in ("--set", one)
    ]


def test_the_list_says_what_each_is(kglink: Kglink) -> None:
    found = json.loads(kglink("reproduce", "--json").out)
    assert [one["name"] for one in found] == [one.name for one in protocols.protocols().values()]
    by_name = {one["name"]: one for one in found}
    assert by_name["amh/table-2"]["rows"] == 14
    assert by_name["joint/table-3-disease"]["adapted"]
    assert "ADAPTED" in kglink("reproduce").out


@pytest.mark.parametrize("name", ALL)
def test_a_dry_run_names_every_run_and_adds_nothing(
    name: str, data: Path, tmp_path: Path, kglink: Kglink
) -> None:
    workspace = init_workspace(tmp_path)
    protocol = find_protocol(name)
    of = ("-w", workspace, "reproduce", name, "--data", data / protocol.data.name)
    told = json.loads(kglink(*of, "--dry-run", "--seeds", "2", "--json").out)
    runs = [one["run"] for one in told]
    assert len(set(runs)) == len(runs)
    recipes = {row.recipe for row in protocol.rows if not row.not_run}
    recipes |= {row.reranker for row in protocol.rows_to_run if row.reranker}
    recipes |= {row.teacher for row in protocol.rows_to_run if row.teacher}
    assert {one["recipe"] for one in told} == recipes
    trained = [one for one in told if one["state"] == "new"]
    seeds = {name.removesuffix("-reranker")[-1] for name in (one["run"] for one in trained)}
    assert seeds == ({"0", "1"} if trained else set())
    assert json.loads(kglink("-w", workspace, "kbs", "--json").out) == []


@pytest.mark.slow
def test_a_row_of_words_alone_needs_no_model(
    data: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(init_workspace(tmp_path)))
    words = ("reproduce", "blink/table-1", "--rows", "BM25", "--seeds", "1", "--json")
    made = json.loads(kglink(*words, "--data", data / "zeshel").out)
    assert "BM25" in json.dumps(made["rows"])
    kept = sorted(tmp_path.glob("reproduced/*/*.jsonl"))[0]
    head, line, *rest = kept.read_text().splitlines()
    for damaged in ('{"document": "d"}', '{"document": 1}', line.replace('"ranks"', '"rank"')):
        kept.write_text("\n".join([head, damaged, *rest]))
        told = kglink(*words, "--data", data / "zeshel", code=2).err
        assert "a line says no ranks" in told
        assert "or delete it" in told


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES["reproduce"])
def test_the_examples_of_its_help(
    example: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kglink: Kglink
) -> None:
    monkeypatch.chdir(init_workspace(tmp_path))
    for name in ("zeshel", "disease"):
        (tmp_path / name).symlink_to(data / name)
    kglink(*shlex.split(example)[1:], *settings(data))


@pytest.mark.slow
def test_a_table_is_made_once_and_then_only_read(
    data: Path, workspaces: dict[str, Path], kglink: Kglink
) -> None:
    of = [
        *("-w", workspaces["zeshel"], "reproduce", "amh/table-2", "--data", data / "zeshel"),
        *("--rows", "Wu et al.", "--seeds", "1", *settings(data)),
    ]
    first = kglink(*of, "--json")
    told = json.loads(first.out)
    assert first.err.count("added") == 16
    row = next(one for one in told["rows"] if one["name"] == "Wu et al.")
    assert [cell["items"] for cell in row["cells"]] == [56] * 4
    assert row["paper"] == [42.79, 89.36, 40.82, 79.13]
    assert row["cells"][1]["mean"] == 100
    assert 0 < row["cells"][0]["mean"] < 100
    assert [len(runs) for runs in told["runs"].values()] == [1]
    differs = "; ".join(told["differs"])
    assert "train.epochs = 1, in place of" in differs
    assert "val R@1: of 56 mentions; the paper's data have 10,000" in differs
    assert "one seed" in differs
    again = kglink(*of, "--json")
    assert json.loads(again.out) == told
    assert "learns" not in again.err
    assert "added" not in again.err
    shown = kglink(*of).out
    assert "Wu et al.\t1\t" in shown
    assert "\t42.79\t" in shown


@pytest.mark.slow
def test_bad_records_that_the_data_are_known_to_have_are_counted(
    data: Path, workspaces: dict[str, Path], kglink: Kglink
) -> None:
    of = ("-w", workspaces["disease"], "reproduce", "joint/table-2-disease")
    more = ("--data", data / "disease", "--rows", "zero-shot", "--seeds", "1", *settings(data))
    told = kglink(*of, *more)
    assert "ncbi_train: 0 records, 11 mentions, 1 bad record left out" in told.err
    assert "st21pv_train: 0 records, 12 mentions\n" in told.err


@pytest.mark.slow
def test_what_is_written_for_papers_and_what_is_left_to_run(
    data: Path, workspaces: dict[str, Path], kglink: Kglink
) -> None:
    of = ["-w", workspaces["zeshel"], "reproduce", "amh/table-2", "--data", data / "zeshel"]
    of += ["--rows", "Wu et al.", "--seeds", "1", *settings(data)]
    lines = kglink(*of, "--format", "csv").out.splitlines()
    assert "mean over seeds from" in next(line for line in lines if line.startswith("row,column"))
    assert kglink(*of, "--format", "latex").out.count("\\begin{tabular}") == 2
    assert kglink(*of, "--dry-run").out.count("done") == 1
    of[of.index("--seeds") + 1] = "2"
    told = json.loads(kglink(*of, "--dry-run", "--json").out)
    assert [one["state"] for one in told] == ["done", "new"]
    assert told[1]["steps"] == 112 // 8
    assert told[1]["seconds"] is not None


@pytest.mark.slow
def test_what_cannot_be_is_refused_before_anything_is_done(
    data: Path, tmp_path: Path, kglink: Kglink
) -> None:
    workspace = init_workspace(tmp_path)
    of = ("-w", workspace, "reproduce")
    assert "unknown protocol" in kglink(*of, "amh/table-9", code=2).err
    assert "--data DIR" in kglink(*of, "amh/table-2", code=2).err
    other = kglink(*of, "amh/table-2", "--data", data / "joint", code=1).err
    assert "lacks documents/american_football.json and" in other
    assert "a folder with documents/WORLD.json" in other
    assert "not a folder" in kglink(*of, "amh/table-2", "--data", data / "none", code=1).err
    row = kglink(*of, "amh/table-2", "--data", data / "zeshel", "--rows", "DUALL", code=2).err
    assert "'DUAL, Hard', 'DUAL, " in " ".join(row.split())
    cited = ("t-biencoder/table-2", "--data", data / "zeshel", "--rows", "DUAL, Random-CD")
    assert "figures of Zhang and Stratos 2021" in kglink(*of, *cited, code=2).err
    bad = kglink(*of, "amh/table-2", "--data", data / "zeshel", "--set", "train.epoch=1", code=2)
    assert "epochs" in bad.err
    assert "which table?" in kglink(*of, "--dry-run", code=2).err
    assert "which table?" in kglink(*of, "--seeds", "2", code=2).err
    untrained = (*of, "joint/table-3-fandom", "--rows", "zero-shot")
    report = ("--report", tmp_path / "page.html")
    assert "no row is trained" in kglink(*untrained, *report, code=2).err
    assert "--report would change nothing" in kglink(*untrained, "--dry-run", *report, code=2).err
    no_reader = ("--set", f"reranker.base={data / 'tiny'}")
    for asked in ((), ("--dry-run",)):
        told = kglink(*untrained, *no_reader, *asked, code=2).err
        assert "is no folder of a reranker" in " ".join(told.split())
    for name, lacks in (
        ("blink/table-5", "tac/entity.jsonl and 2 other files"),
        ("arboel/table-3", "umls/MRCONSO.RRF and 5 other files"),
        ("joint/table-3-fandom", "general/general.jsonl and 3 other files"),
    ):
        told = kglink(*of, name, "--data", data / "joint", *settings(data), code=1).err
        assert lacks in " ".join(told.split())
    none = ("--set", f"model.base={data / 'tiny'}", "--rows", "without fine-tuning")
    released = kglink(*of, "blink/table-4", "--data", data / "tac", *none, code=2).err
    assert "--set reranker.base=FOLDER" in " ".join(released.split())
    (tmp_path / "zeshel").mkdir()
    for part in ("documents", "mentions"):
        (tmp_path / "zeshel" / part).symlink_to(data / "zeshel" / part)
    lists = kglink(*of, "blink/table-3", "--data", tmp_path / "zeshel", code=1).err
    assert "lacks tfidf_candidates/train.json and 2 other files" in " ".join(lists.split())
    assert json.loads(kglink("-w", workspace, "kbs", "--json").out) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_protocol_runs_from_end_to_end(
    name: str, data: Path, workspaces: dict[str, Path], kglink: Kglink
) -> None:
    protocol = find_protocol(name)
    read_anew = any(row.reranked for row in protocol.rows_to_run)
    seeds = 1 if read_anew or len(protocol.rows_to_run) > 5 else 2
    more = ("train.transformation.layer=1",) if name == "t-biencoder/table-6" else ()
    layout = protocol.data.name
    # Of a curve of many points a few are enough.
    rows = [row.name for row in protocol.rows_to_run]
    run = {*protocol.baselines, *(rows[::3] if len(rows) > 14 else rows)}
    told: dict[str, Any] = json.loads(
        kglink(
            *("-w", workspaces[layout], "reproduce", name, "--data", data / layout),
            *(word for one in run for word in ("--rows", one)),
            *("--seeds", str(seeds), "--json", *settings(data, *more)),
        ).out
    )
    columns = {one.name: one for one in protocol.columns}
    for row in told["rows"]:
        assert (row["name"] in run) is all(row["cells"])
        if row["name"] in run:
            known = row["untrained"] and not protocol.row(row["name"]).reranker
            assert row["seeds"] == ([0] if known else list(range(seeds)))
            for cell, column in zip(row["cells"], told["columns"], strict=True):
                alone = columns[column].is_one_value
                tested = row["name"] != protocol.baseline_of(row["name"]) and not alone
                assert (cell["test"] is not None) is tested
                assert (cell["interval"] is None) is alone
                if not columns[column].is_count:
                    # The cosine of a vector with itself may be a rounding above one; ARI of
                    # chance may be below nought.
                    least = -0.5 * protocol.scale if "ARI" in columns[column].metric else 0
                    assert least <= cell["mean"] <= protocol.scale + 1e-5
    compared = len(run) - len(protocol.baselines) if protocol.baselines else 0
    assert told["comparisons"] == max(1, compared * len(told["columns"]))


@pytest.mark.slow
def test_the_report_of_a_table_tells_what_the_command_tells(
    data: Path, workspaces: dict[str, Path], kglink: Kglink, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    of = ["-w", workspaces["joint"], "reproduce", "joint/table-3", "--data", data / "joint"]
    of += ["--rows", "BLINK,TO", "--seeds", "1", *settings(data)]
    told = json.loads(kglink(*of, "--report", page, "--json").out)
    text = page.read_text(encoding="utf-8")
    assert "joint/table-3: ours and the paper's" in html.unescape(text)
    assert '<a href="#reproduced">The table</a>' in text
    for row in told["rows"]:
        for cell in filter(None, row["cells"]):
            assert f"{cell['mean']:.4f}" in text
    assert "0.4227" in text  # the paper's, of a row that is not run
    assert "mentions of the source KB (Wikipedia)" in text
    assert text.count("95% intervals over mentions") >= len(told["columns"])
    assert "no cross-encoder orders" not in text
    refused = kglink(*of, "--rows", "BLINK", "--report", tmp_path / "none" / "x.html", code=2)
    assert "there is no folder" in refused.err


def test_a_page_says_which_row_is_best_and_what_differs() -> None:
    """Two rows by hand: one far above the baseline, one equal to it."""
    protocol = find_protocol("joint/table-3-disease")
    low, high = np.zeros(100), np.r_[np.ones(60), np.zeros(40)]
    values = {"zero-shot, target": low, "T, target": high, "TO, target": low}
    table = table_of(protocol, {(name, "hp AP@1"): {0: [one]} for name, one in values.items()})
    shape = replace(table, differs=["other data"]).as_json()
    (best,) = best_of(shape)
    assert best == (
        "hp AP@1: the best row is T, target with 0.6000, 0.6000 above zero-shot, target "
        "(p = 0.0001). Of 2 other rows 1 are better than zero-shot, target by more than chance, "
        "and 0 worse."
    )
    (chart,) = charts_of({**shape, "columns": shape["columns"][:1]})
    words = re.findall(r">([^<]+)</text>", chart.svg(alone=False))
    assert "T, target *" in words
    assert "0.600 of 100" in words
    assert "TO, target" in words
    page = section_of({**shape, "runs": {"T, target": ["t-0", "t-1"], "T, source": ["t-0"]}})
    assert "<dt>t-0</dt><dd>T, target; T, source</dd><dt>t-1</dt><dd>T, target</dd>" in page
    assert page.index("mentions of the source KB (DOID)") < page.index("<table>")
    assert "<li>other data</li>" in page
    ours, cells, paper = tables_of(shape)
    assert "ADAPTED" in ours.title
    assert ["T, target", 1, "0.6000*", "-"] in ours.rows
    assert "differs: other data" in ours.below
    assert str(cells.rows[0][3]) == "0.0000 [0.0000, 0.0000]"
    assert paper.rows[0][:2] == ["BLINK, target", "0.1747"]
