"""`kglink report`: what it says of runs, and that page, plots and tables say the same."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.parsers.expat import ParserCreate

import numpy as np
import pytest
from conftest import Kglink

from browsers import BROWSER, HEADLESS
from kglink.linking.scoring import SCORING_FILE
from kglink.records import EntityId
from kglink.training.job import FinetuneJob
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.report import project, turned_onto
from kglink_cli.report_page.page import page_of
from kglink_cli.report_page.plots import Series, line_chart, plots_of
from kglink_cli.report_page.tables import tables_of
from training_world import SMALL, fill, world_of, write_world_model

Shape = dict[str, Any]
CPU = {"encoder.device": "cpu", "encoder.precision": "fp32", "encoder.threads": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, each in a space of its own, and one that is the model of none."""
    folder = init_workspace(tmp_path_factory.mktemp("report"))
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    base = write_world_model(folder / "tiny", world_of())
    changes = {**SMALL, "model": {**SMALL["model"], "base": str(base)}}
    with Workspace.open(folder, flags=CPU) as workspace:
        for seed in (0, 1):
            job = FinetuneJob(
                ("atlas",), ("saga",), recipe="default", run=f"run-{seed}", space=f"space-{seed}",
                changes={**changes, "seed": seed}, device="cpu", precision="fp32", threads=1,
                curve_steps=2, what="linker",
            )  # fmt: skip
            workspace.finetune(job)
    shutil.copytree(folder / "runs" / "run-1", folder / "runs" / "run-2")
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> Shape:
    with Workspace.open(folder, flags=CPU) as workspace:
        report: Shape = workspace.report(["run-0", "run-1", "run-2"])
    return report


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    for name, value in CPU.items():
        monkeypatch.setenv(f"KGLINK_{name.upper().replace('.', '_')}", str(value))
    return folder


def parse(text: str) -> None:
    """Read XML that must be well-formed."""
    ParserCreate().Parse(text, True)


class Tables(HTMLParser):
    """The rows of a page's tables by their captions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.links: list[str] = []
        self._within: list[str] = []
        self._caption = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._within.append(tag)
        if tag == "caption":
            self._caption = ""
        if tag == "tr":
            self.tables[self._caption].append([])
        if tag in ("td", "th"):
            self.tables[self._caption][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "caption":
            self.tables[self._caption] = []
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "caption" in self._within[-1:]:
            self._caption += data
        elif self._within[-1:] in (["td"], ["th"]):
            self.tables[self._caption][-1][-1] += data


# ---------------------------------------------------------------------------- what it says
def test_a_report_says_what_eval_says(found: Shape, kglink: Kglink, here: Path) -> None:
    assert [run["name"] for run in found["runs"]] == ["run-0", "run-1", "run-2"]
    judged = found["runs"][1]["retrieval"]
    asked = "eval", "--docs", "docs", "--split", found["split"], "--space", "space-1", "--json"
    told = json.loads(kglink(*asked).out)
    assert {name: judged["metrics"]["joint"][name] for name in ("R@1", "R@64", "MRR")} == {
        name: told["metrics"]["joint"][name] for name in ("R@1", "R@64", "MRR")
    }
    whole = json.loads(kglink(*asked, "--end-to-end", "--joint-only", "--errors").out)
    assert found["runs"][1]["end_to_end"]["metrics"]["joint"] == whole["metrics"]["joint"]
    assert found["runs"][1]["errors"] == whole["errors"]
    wrong = whole["errors"]["mentions"] - whole["errors"]["right"]
    assert len(found["runs"][1]["cases"]) == wrong > 0


def test_runs_are_tested_against_the_first(found: Shape, folder: Path) -> None:
    first, second, _ = found["runs"]
    assert first["against_first"] is None
    test = second["against_first"]["joint"]["R@1"]
    shares = [run["retrieval"]["metrics"]["joint"]["R@1"] for run in (first, second)]
    assert (test["right"], test["left"]) == pytest.approx(tuple(shares))
    tables = tables_of(found)
    assert "significance" in tables
    seeds = tables["seeds"]
    joint = next(row for row in seeds.rows if row[2] == "[joint]")
    spread = abs(shares[0] - shares[1]) / 2**0.5  # the standard deviation of two values
    assert joint[3] == f"{sum(shares) / 2:.3f} ± {spread:.3f}"
    # Two runs have a space: one test, at the level that the table names.
    assert "test at .05 / 1" in tables["significance"].title
    assert test["significant"] == (test["p"] <= 0.05)
    other = {**second, "settings": {**second["settings"], "train": {"batch": 99}}}
    assert "seeds" not in tables_of({**found, "runs": [first, other]})


def test_a_run_without_a_space_shows_its_training(found: Shape) -> None:
    lone = found["runs"][2]
    assert (lone["space"], lone["retrieval"], lone["map"]) == (None, None, None)
    assert lone["losses"]
    assert "run-2 is the model of no space now" in page_of(found)
    alone = page_of({**found, "runs": [lone]})
    assert "How it was trained" in alone
    assert "How often a right entity is found" not in alone
    detector = page_of({**found, "runs": [{**lone, "sources": "D"}]})
    assert "run-2 trained a detector of mentions and no model of a space" in detector
    assert "gives it one" not in detector


def test_what_a_stopped_run_began_with_is_not_what_it_learnt(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    run = copy / "runs" / "run-2"
    (run / "report.json").unlink()
    curve = run / "curve.jsonl"
    curve.write_text("".join(curve.read_text().splitlines(keepends=True)[:2]))
    with Workspace.open(copy, flags=CPU) as workspace:
        report = workspace.report("run-2")
        assert report["runs"][0]["before"] == workspace.run("run-2").info.recalls
    assert report["runs"][0]["recalls"] is None
    (kb, *_, joint, judged) = tables_of(report)["training"].rows
    assert [one != "-" for one in kb[3:]] == [True, False] * 3
    assert (joint[1], judged[1]) == ("[joint]", "[judged joint]")


def test_a_report_of_runs_without_a_space_names_no_split(folder: Path) -> None:
    with Workspace.open(folder, flags=CPU) as workspace:
        report = workspace.report("run-2")
    assert (report["docs"], report["split"]) == ([], "")
    text = page_of(report)
    assert "No space was judged: what is shown is of the mentions held back in training." in text
    assert "Judged on" not in text
    assert "There are no annotated documents" not in text


def test_without_documents_there_is_the_training_and_the_map(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with Workspace.open(copy, flags=CPU) as workspace:
        workspace.remove_kb("docs")
        report = workspace.report("run-0")
    run = report["runs"][0]
    assert (report["docs"], run["retrieval"], run["cases"]) == ([], None, [])
    assert run["map"]["shown"] == 80
    text = page_of(report)
    assert "There are no annotated documents to judge on" in text
    assert "The joint space as a map" in text


def test_the_same_runs_give_the_same_report(found: Shape, folder: Path) -> None:
    with Workspace.open(folder, flags=CPU) as workspace:
        again = workspace.report(["run-0", "run-1", "run-2"])
    assert json.dumps(again) == json.dumps(found)


# ----------------------------------------------------------------------------- the page
def test_figures_of_the_page_are_those_of_the_json(found: Shape) -> None:
    page = Tables(page_of(found))
    rows = page.tables["How often a right entity is among the first k, the mentions' places given"]
    shown = {(row[0], row[1]): row[2:] for row in rows[1:]}
    for run in found["runs"][:2]:
        told = run["retrieval"]
        figures, ends = told["metrics"]["kb"]["atlas"], told["intervals"]["kb"]["atlas"]
        cells = [f"{told['mentions']['atlas']:,}"]
        cells += [f"{figures[name]:.3f}" for name in rows[0][3:]]
        assert [re.sub(r"^(\d\.\d{3}).*", r"\1", one) for one in shown[run["name"], "atlas"]] == (
            cells
        )
        assert ends["R@1"][0] <= figures["R@1"] <= ends["R@1"][1]
    assert all(link.startswith("#") for link in page.links)


def test_sections_begin_with_what_they_show(found: Shape) -> None:
    text = page_of({**found, "runs": found["runs"][:1]})
    run = found["runs"][0]
    joint, errors = run["retrieval"]["metrics"]["joint"], run["errors"]
    assert f"{joint['R@1']:.1%} have a right entity first" in text
    wrong = errors["mentions"] - errors["right"]
    assert f"{wrong:,} of {errors['mentions']:,} mentions are answered wrongly" in text
    before, after = (run[side]["mean"]["R@1"] for side in ("before", "recalls"))
    assert f"from {before:.3f} to {after:.3f}" in text


def test_the_page_holds_the_whole_json(found: Shape) -> None:
    text = page_of(found)
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert held is not None
    told = json.loads(held[1])
    assert told.pop("colours").keys() == {"light", "dark"}
    assert told == json.loads(json.dumps(found))
    assert "default-src 'none'" in text
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")


def test_hostile_texts_stay_text(found: Shape) -> None:
    evil = "</script><img src=x onerror=alert(1)>\x1b[31m"
    held = json.loads(json.dumps(found))
    held["kbs"][0]["name"] = evil
    held["runs"][0]["name"] = evil
    held["runs"][0]["notes"] = [evil]
    held["runs"][0]["map"]["titles"][0] = evil
    held["runs"][0]["map"]["kbs"][0] = evil
    held["runs"][0]["cases"][0]["mention"] = evil
    held["runs"][0]["errors"]["confusion"][0]["answer"] = evil
    text = page_of(held)
    assert "<img" not in text
    assert "\x1b" not in text
    assert text.count("</script>") == 2
    for drawing in plots_of(held):
        parse(drawing.svg(alone=True))


@pytest.mark.parametrize(("end", "axis"), [(0.71, 0.6), (0.55, 0.5), (0.41, 0)])
def test_an_axis_begins_below_all_intervals(end: float, axis: float) -> None:
    series = Series("doid", [(1, 0.8)], [(end, 0.9)])
    drawn = line_chart("recall", "Recall", ("k", "share"), [series]).svg(alone=False)
    axes = [float(tick) for tick in re.findall(r'text-anchor="end"[^>]*>([\d.]+)<', drawn)]
    assert min(axes) == axis


def test_what_a_threshold_keeps_is_drawn(found: Shape) -> None:
    held = json.loads(json.dumps({**found, "runs": found["runs"][:1]}))
    joint = held["runs"][0]["end_to_end"]["metrics"]["joint"]
    joint["operating_points"] = [
        {"threshold": 0.25, "links": 900.0, "right": 700.0, "wrong": 200.0},
        {"threshold": 0.9, "links": 400.0, "right": 390.0, "wrong": 10.0},
    ]

    def drawn() -> str:
        (one,) = [one for one in plots_of(held) if one.name == "thresholds"]
        return one.svg(alone=False)

    for told in ("links kept: 900.000 at 0.25", "wrong: 10.000 at 0.9", "right: 390.000 at 0.9"):
        assert f"<title>{told}</title>" in drawn()
    assert drawn() in page_of(held)
    held["runs"] *= 2
    assert "run-0: right links: 700.000 at 0.25" in drawn()
    joint["operating_points"] = []  # annotated in part
    assert "thresholds" not in [one.name for one in plots_of(held)]


# ------------------------------------------------------------------- plots and tables, files
def test_plots_and_tables_are_written(kglink: Kglink, here: Path, tmp_path: Path) -> None:
    plots, tables, page = tmp_path / "plots", tmp_path / "tables", tmp_path / "page.html"
    ran = kglink("report", "run-0", "-o", page, "--plots", plots, "--tables", tables, "--map", "50")
    assert "as SVG and PNG" in ran.err
    assert page.read_text("utf-8").startswith("<!doctype html>")
    names = {path.stem for path in plots.glob("*.svg")}
    assert {"recall", "loss", "epochs", "kbs", "reliability", "map-after-run-0"} <= names
    assert names == {path.stem for path in plots.glob("*.png")}
    for path in plots.glob("*.svg"):
        parse(path.read_text("utf-8"))
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots.glob("*.png"))
    with (tables / "retrieval.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    report = json.loads(kglink("report", "run-0", "--json", "--map", "0").out)
    figures = report["runs"][0]["retrieval"]
    assert report["runs"][0]["map"] is None
    (row,) = [row for row in rows if row["pool"] == "saga"]
    assert float(row["R@1"]) == pytest.approx(figures["metrics"]["kb"]["saga"]["R@1"], abs=1e-6)
    ends = [float(row[name]) for name in ("R@1 from", "R@1 to")]
    assert ends == pytest.approx(figures["intervals"]["kb"]["saga"]["R@1"], abs=1e-6)
    assert (tables / "retrieval.tex").read_text("utf-8").startswith(r"\begin{tabular}{llr")


def test_what_cannot_be_reported_is_refused(kglink: Kglink, here: Path, tmp_path: Path) -> None:
    assert "unknown run 'run-7'" in kglink("report", "run-7", code=2).err
    page = tmp_path / "page.html"
    assert "names a page" in kglink("report", "run-0", "--json", "-o", page, code=2).err
    gone = tmp_path / "no" / "page.html"
    assert "there is no folder" in kglink("report", "run-2", "-o", gone, code=2).err
    assert "unknown split 'north'" in kglink("report", "run-2", "--split", "north", code=2).err
    assert "is annotated" in kglink("report", "run-2", "--docs", "saga", "-o", page, code=2).err
    assert not page.exists()


# ------------------------------------------------------------------------------- the map
def test_the_map_is_the_first_two_components() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(60, 8)) * [9, 5, 1, 1, 1, 1, 1, 1]).astype(np.float32)
    points, shares = project(vectors)
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)  # another way to the same
    for axis in (0, 1):
        expected = left[:, axis] * values[axis]
        signed = expected * np.sign(expected @ points[:, axis])
        assert points[:, axis] == pytest.approx(signed, abs=1e-3)
    assert shares == pytest.approx(tuple(values[:2] ** 2 / (values**2).sum()), abs=1e-5)


def test_a_turned_and_mirrored_map_is_turned_back() -> None:
    points = np.random.default_rng(1).normal(size=(30, 2)).astype(np.float32)
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = (points @ turn * [1, -1]).astype(np.float32)
    assert turned_onto(moved, points) == pytest.approx(points, abs=1e-4)


def test_a_map_says_how_near_counterparts_are(found: Shape, folder: Path) -> None:
    shape = found["runs"][0]["map"]
    assert shape["shown"] == shape["entities"] == len(shape["titles"]) == sum(shape["counts"]) == 80
    pairs = np.frombuffer(base64.b64decode(shape["pairs"]), "<u4").reshape(-1, 2)
    assert len(pairs) == shape["pair_count"] == 16
    ids = [
        EntityId(kb, key)
        for kb, key in zip(np.repeat(shape["kbs"], shape["counts"]), shape["keys"], strict=True)
    ]
    with Workspace.open(folder, flags={**CPU, "space.name": "space-0"}) as workspace:
        left, right = (workspace.vectors([ids[at] for at in pairs[:, side]]) for side in (0, 1))
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    assert shape["after"]["acs"] == pytest.approx(float(((left * right).sum(1) / norms).mean()))
    points = np.frombuffer(base64.b64decode(shape["after"]["points"]), "<i2")
    assert len(points) == 160
    assert np.abs(points).max() > 20000


def test_a_smaller_map_keeps_overlaps_and_a_share_of_each_kb(folder: Path) -> None:
    with Workspace.open(folder, flags=CPU) as workspace:
        shape = workspace.report("run-0", map_entities=20)["runs"][0]["map"]
    assert shape["entities"] == 80
    assert shape["shown"] == sum(shape["counts"]) <= 20
    assert min(shape["counts"]) >= 8
    assert shape["pair_count"] >= 3


# ------------------------------------------------------------------------- in a real browser
EVIL = "<img src=x onerror=\"document.title='owned'\">"
#: Leaves what a script saw in the DOM, where --dump-dom prints it.
PROBE = """
const $ = (selector) => document.querySelector(selector);
const change = (node, value, kind) => {
  if (node.type === "checkbox" || node.type === "radio") node.checked = value;
  else node.value = value;
  node.dispatchEvent(new Event(kind, { bubbles: true }));
};
const result = (() => { %s })();
const seen = document.createElement("pre");
seen.id = "probe";
seen.textContent = JSON.stringify(result);
document.body.append(seen);
"""
in_browser = [
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium in PATH"),
    pytest.mark.slow,
]


def probed(page: Path, script: str) -> Any:
    """What a script returns at the end of a page; the browser may complain of nothing."""
    code = PROBE % script
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    text = page.read_text("utf-8").replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    copy = page.with_name("probe.html")
    copy.write_text(text.replace("</body>", f"<script>{code}</script></body>"), "utf-8")
    assert BROWSER is not None
    command = [
        BROWSER,
        *HEADLESS,
        "--enable-logging=stderr",
        f"--user-data-dir={page.parent / 'profile'}",
        "--dump-dom",
    ]
    done = subprocess.run([*command, copy.as_uri()], capture_output=True, timeout=120, check=True)
    assert b"CONSOLE" not in done.stderr, done.stderr
    seen = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert seen is not None, done.stdout[-2000:]
    return json.loads(html.unescape(seen[1]))


@pytest.fixture
def shown(found: Shape, tmp_path: Path) -> Path:
    """The page of the first two runs, with names that would like to be more than text."""
    held = json.loads(json.dumps({**found, "runs": found["runs"][:2]}))
    held["runs"][0]["map"]["titles"][3] = EVIL
    held["runs"][0]["cases"][0] |= {"mention": EVIL, "context_left": EVIL}
    path = tmp_path / "page.html"
    path.write_text(page_of(held), "utf-8")
    return path


class TestBrowser:
    pytestmark = in_browser

    def test_maps_are_drawn_and_change_sides(self, shown: Path) -> None:
        ready, drawn, told = probed(
            shown,
            'const canvas = $("[data-map] > canvas");'
            'const draw = () => { dispatchEvent(new Event("beforeprint"));'
            " return canvas.toDataURL() };"
            'const after = draw(); const blank = document.createElement("canvas");'
            "[blank.width, blank.height] = [canvas.width, canvas.height];"
            'change($("[data-side=before]"), true, "change");'
            "const sides = document.querySelectorAll(\"[data-map='0'] [data-of-side]\");"
            'return [[...document.querySelectorAll("[data-map]")].map((one) => one.dataset.ready),'
            " new Set([blank.toDataURL(), after, draw()]).size,"
            " [...sides].map((one) => one.hidden)]",
        )
        assert ready == ["yes", "yes"]
        assert drawn == 3  # blank, after, before
        assert told == [False, True]

    def test_entities_are_found_by_name_and_stay_text(self, shown: Path) -> None:
        words, images, tip, title = probed(
            shown,
            'change($("[data-map] input[type=search]"), "<img", "input");'
            'const hit = $(".hits button"); hit.click();'
            'return [hit.textContent, document.images.length, $("#tip b").textContent,'
            " document.title]",
        )
        assert words.startswith(EVIL)
        assert tip == EVIL
        assert (images, title) == (0, "run-0, run-1: fine-tuning compared")

    def test_keys_move_the_map(self, shown: Path) -> None:
        stopped = probed(
            shown,
            'return ["+", "-", "ArrowLeft", "0", "Tab"].map((key) => !$("[data-map] > canvas")'
            '.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true })));',
        )
        assert stopped == [True, True, True, True, False]

    def test_errors_are_filtered_and_hostile_ones_stay_text(
        self, shown: Path, found: Shape
    ) -> None:
        cases = found["runs"][0]["cases"]
        reason = cases[0]["reason"]
        wanted = sum(one["reason"] == reason for one in cases)
        first, marked, images, status, none = probed(
            shown,
            'const items = () => [...document.querySelectorAll(".cases > li")];'
            'const first = [items().length, $("[role=status]").textContent];'
            'const marked = [$(".cases mark").textContent, $(".cases .text").textContent];'
            f'change($("[data-pick=reason]"), {json.dumps(reason)}, "input");'
            'const status = $("[role=status]").textContent;'
            'change($("[data-pick=words]"), "no such word", "input");'
            "return [first, marked, document.images.length, status,"
            ' [items().length, $("[role=status]").textContent.slice(0, 15)]]',
        )
        page = min(20, len(cases))
        assert first == [page, f"1 to {page} of {len(cases)}"]
        assert marked[0] == EVIL
        assert EVIL * 2 in marked[1]
        assert images == 0
        assert status == f"1 to {min(20, wanted)} of {wanted}"
        assert none == [0, "No mention fits"]

    def test_figures_in_the_browser_are_those_of_the_json(self, shown: Path, found: Shape) -> None:
        cells = probed(
            shown,
            'return [...$("#retrieval table").querySelectorAll("tbody tr")].map((row) =>'
            " [...row.cells].map((cell) => cell.firstChild.textContent))",
        )
        expected = [
            [run["name"], pool, f"{run['retrieval']['mentions'][key]:,}"]
            + [f"{figures[name]:.3f}" for name in ("R@1", "R@8", "R@64", "AP@1", "MAP@10", "MRR")]
            for run in found["runs"][:2]
            for key, pool, figures in (
                *((kb, kb, one) for kb, one in run["retrieval"]["metrics"]["kb"].items()),
                ("joint", "[joint]", run["retrieval"]["metrics"]["joint"]),
                ("judged_joint", "[judged joint]", run["retrieval"]["metrics"]["judged_joint"]),
            )
        ]
        assert cells == expected


def test_a_space_that_nobody_fitted_is_fitted_as_a_published_one_is(
    folder: Path, tmp_path: Path, found: Shape
) -> None:
    """The spaces of a reproduced table are not published, and links of raw text want a fit."""
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied, symlinks=True)
    (scoring,) = (copied / "spaces" / "space-0").rglob(SCORING_FILE)
    fitted = scoring.read_bytes()
    scoring.unlink()
    with Workspace.open(copied, flags=CPU) as workspace:
        told = workspace.report(["run-0"], map_entities=0)
    assert scoring.read_bytes() == fitted
    assert told["runs"][0]["end_to_end"] == found["runs"][0]["end_to_end"]
