"""Every hook changes what the running application does; each has a test named after it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from fake_distributions import FakeEnvironment
from kglink.plugins import HOOKS, HOOKS_OF_GROUP, KINDS, Kind, load_registry
from kglink.workspace import init_workspace
from training_world import fill, world_of, write_world_model

ROOT = Path(__file__).parents[2]

#: A plugin of each kind whose doing shows.
PLUGINS = """
    from collections import Counter
    from dataclasses import replace

    from kglink.records import Entity, Span

    class Lines:
        def __init__(self, settings):
            pass

        def read(self, source, problems):
            for line in source.lines(problems):
                key, title = line.text.split("=>")
                yield Entity(key, title)

    class Whole:
        def __init__(self, settings, names):
            pass

        def detect(self, text):
            return [Span(0, len(text))]

    class Unpopular:
        weights = (1.0, 1.0)

        def __init__(self, settings):
            pass

        def values(self, mentions):
            assert all(one.title and one.type and one.evidence["name"] >= 0
                       for mention in mentions for one in mention.candidates)
            return [[-float(one.id.key == "mercury_planet") for one in mention.candidates]
                    for mention in mentions]

    class Initials:
        second_pass = False

        def __init__(self, settings):
            pass

        def propose(self, kbs):
            for left in kbs.entities("left"):
                for right in kbs.entities("right"):
                    if left.title[0] == right.title[0]:
                        yield left.key, right.key

        def weigh(self, kbs, pairs):
            return [{"initial": 1.0} for _ in pairs]

    class Quarter:
        def __init__(self, settings):
            pass

        def score(self, mentions, entities):
            zero = (mentions.states[:, 0] @ entities.states[:, 0].T) * 0
            return zero + 0.25

    class Two:
        def __init__(self, settings):
            pass

        def sample(self, pool, batch, k, rng):
            import numpy as np

            assert len(batch.surfaces) == len(batch.gold)
            assert all(batch.surfaces) and all(pool.titles)
            drawn = np.full((len(batch.gold), k), -1, np.int64)
            for mention in range(len(batch.gold)):
                allowed = [row for row in range(len(pool)) if row not in batch.forbidden(mention)]
                drawn[mention, :2] = allowed[:2]
            return drawn

    class Temperature(kglink.PluginSettings):
        temperature: float = 1.0

    class Tell:
        def __init__(self, settings):
            pass

        def loss(self, scores, positive):
            import torch

            shown = torch.isfinite(scores)
            columns = shown.sum(1).float().mean()
            return scores[shown].mean() + columns * 10 + 7000

    class Rows:
        exact = True
        oversampling = 1

        def __init__(self, rows):
            self.rows, self.size = rows, len(rows)

        def search(self, queries, k, ranges=None):
            import numpy as np

            allowed = np.zeros(self.size, dtype=bool)
            for start, stop in [(0, self.size)] if ranges is None else ranges:
                allowed[start:stop] = True
            scores = np.where(allowed, queries @ self.rows.T, -np.inf)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            best = np.take_along_axis(scores, order, axis=1)
            missing = ((0, 0), (0, k - order.shape[1]))
            best = np.pad(best, missing, constant_values=-np.inf).astype(np.float32)
            order = np.pad(order, missing, constant_values=-1)
            return best, np.where(np.isinf(best), -1, order)

        def save(self, path):
            import numpy as np

            with path.open("wb") as file:
                np.save(file, self.rows, allow_pickle=False)

    class Numpy:
        def __init__(self, settings):
            pass

        def build(self, batches, dim):
            import numpy as np

            return Rows(np.concatenate([np.zeros((0, dim), np.float32), *batches]))

        def load(self, path):
            import numpy as np

            return Rows(np.load(path, allow_pickle=False))

    def ordered(ranking, score):
        scored = [replace(one, score=score(one)) for one in ranking.candidates]
        best_first = tuple(sorted(scored, key=lambda one: -one.score))
        return replace(ranking, candidates=best_first)

    class Longest:
        def __init__(self, settings):
            pass

        def rank(self, rankings):
            return [ordered(one, lambda candidate: len(candidate.title)) for one in rankings]

    class Common:
        def __init__(self, settings):
            pass

        def rank(self, rankings):
            counts = Counter(one.id for ranking in rankings for one in ranking.candidates)
            return [ordered(one, lambda candidate: counts[candidate.id]) for one in rankings]

    class Shout:
        def __init__(self, settings):
            pass

        def export(self, documents, out):
            for document in documents:
                out.write(f"{document.text.upper()} {len(document.links)}\\n")

    @hookimpl
    def register_kbs(register):
        register("acme/kb", Lines, summary="Lines",
                 sniff=lambda head: 0.9 * (b"=>" in head.head))

    @hookimpl
    def register_detectors(register):
        register("acme/detector", Whole, summary="The whole text")

    @hookimpl
    def register_evidence(register):
        register("acme/evidence", Unpopular, summary="No planets")

    @hookimpl
    def register_overlap_evidence(register):
        register("acme/overlap-evidence", Initials, summary="Initials")

    @hookimpl
    def register_scorers(register):
        register("acme/scorer", Quarter, summary="A quarter")

    @hookimpl
    def register_samplers(register):
        register("acme/sampler", Two, summary="The first two")

    @hookimpl
    def register_objectives(register):
        register("acme/objective", Tell, settings=Temperature, summary="Tells what it gets")

    @hookimpl
    def register_index_backends(register):
        register("acme/index", Numpy, summary="A scan")

    @hookimpl
    def register_rerankers(register):
        register("acme/reranker", Longest, summary="Long titles")

    @hookimpl
    def register_clusterers(register):
        register("acme/clusterer", Common, summary="Common candidates")

    @hookimpl
    def register_exporters(register):
        register("acme/exporter", Shout, summary="Loud")

    @hookimpl
    def register_recipes(register):
        register("acme/quick", {"extends": "small", "train": {"epochs": 1}})
        register("acme/broken", {"train": {"epoch": 1}})

    @hookimpl
    def register_commands(app):
        @app.command("menu")
        def menu(dish: str = "soup"):
            print("today:", dish)

"""


@pytest.fixture(autouse=True)
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with a plugin of each kind is installed beside kglink."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.delenv("KGLINK_PLUGINS", raising=False)
    monkeypatch.syspath_prepend(site)
    for group in HOOKS_OF_GROUP:
        FakeEnvironment(site).install("acme", "1", PLUGINS, group=group)


def linked(kglink: Kglink, text: str) -> dict[str, Any]:
    """What ``kglink link`` says of a text."""
    document: dict[str, Any] = json.loads(kglink("link", "-f", "jsonl", "-", stdin=text).out)
    return document


def test_register_kbs(kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(init_workspace(tmp_path / "workspace")))
    (tmp_path / "lines").write_text("l1=>Old Lantern\nl2=>Bay\n")
    kglink("add-kb", "lanterns", tmp_path / "lines")
    (info,) = json.loads(kglink("kbs", "--json").out)
    assert (info["name"], info["entities"], info["adapter"]) == ("lanterns", 2, "acme/kb")
    found = json.loads(kglink("search", "old lantern", "--json").out)
    assert found[0]["key"] == "l1"


def test_register_detectors(kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Mercury is a planet."
    before = [one["text"] for one in linked(kglink, text)["entities"]]
    monkeypatch.setenv("KGLINK_LINK_DETECTOR", "acme/detector")
    after = [one["text"] for one in linked(kglink, text)["entities"]]
    assert (before, after) == (["Mercury"], [text])


def test_register_overlap_evidence(kglink: Kglink, demo_copy: Path) -> None:
    kbs = ("encyclopedia", "lanternfall")
    kglink("overlap", *kbs, "--fresh", "--evidence", "acme/overlap-evidence", "--threshold", "-1")
    pairs = json.loads(kglink("overlap", "show", "--json").out)
    assert pairs
    assert all(pair["evidence"] == {"initial": 1.0} for pair in pairs)


# ------------------------------------------------------------------------------ fine-tuning
@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The first loss of a short fine-tuning with scorer, sampler and objective of a third party."""
    site = tmp_path_factory.mktemp("site")
    for group in HOOKS_OF_GROUP:
        FakeEnvironment(site).install("acme", "1", PLUGINS, group=group)
    folder = init_workspace(tmp_path_factory.mktemp("world"))
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    changes = {
        "model.base": write_world_model(folder / "tiny", world_of()),
        "model.inputs.mention_tokens": 16,
        "model.inputs.entity_tokens": 16,
        "model.scorer": "acme/scorer",
        "train.sampler": "acme/sampler",
        "train.negatives": 5,
        "train.columns": "own",
        "train.names": 0,
        "train.objective": "acme/objective",
        "train.epochs": 1,
        "train.batch": 2,
        "selection.most_mentions": 8,
    }
    options = [word for pair in changes.items() for word in ("--set", f"{pair[0]}={pair[1]}")]
    kbs = ("--source-kb", "atlas", "--target-kb", "saga", "--sources", "S")
    command = (sys.executable, "-m", "kglink_cli", "finetune", *kbs, "--no-publish")
    subprocess.run(
        [*command, "--run", "try", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site), "KGLINK_ENCODER_DEVICE": "cpu"},
        check=True,
    )
    curve = (folder / "runs" / "try" / "curve.jsonl").read_text().splitlines()
    return float(next(line["loss"] for line in map(json.loads, curve) if "loss" in line))


def test_register_objectives(loss: float) -> None:
    # It adds 7000, and 10 for each score that it is shown.
    assert loss // 1000 == 7


def test_register_samplers(loss: float) -> None:
    # Three scores of each mention: its right answer, and the two negatives that the sampler finds.
    assert loss % 1000 // 10 == 3


def test_register_scorers(loss: float) -> None:
    # The mean of all scores.
    assert loss % 10 == pytest.approx(0.25, abs=1e-3)


# ---------------------------------------------------------------------------------- linking
def test_register_index_backends(kglink: Kglink, demo_copy: Path) -> None:
    before = linked(kglink, "Mercury is a planet.")["entities"]
    kglink("build", "--index", "acme/index")
    manifest = json.loads(
        next((demo_copy / "spaces/default/versions").glob("*2/manifest.json")).read_text()
    )
    assert manifest["index"] == "acme/index"
    assert linked(kglink, "Mercury is a planet.")["entities"] == before


def test_register_evidence(kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (before,) = linked(kglink, "Mercury is a planet.")["entities"]
    monkeypatch.setenv("KGLINK_LINK_MORE_EVIDENCE", "acme/evidence")
    (after,) = linked(kglink, "Mercury is a planet.")["entities"]
    assert before["key"] == "mercury_planet"
    assert after["key"] != "mercury_planet"


def test_register_rerankers(kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_LINK_RERANKER", "acme/reranker")
    (entity,) = linked(kglink, "Mercury is a planet.")["entities"]
    lengths = [len(one["title"]) for one in entity["candidates"]]
    assert len(lengths) > 1
    assert lengths == sorted(lengths, reverse=True)


def test_register_clusterers(kglink: Kglink, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGLINK_LINK_CLUSTERER", "acme/clusterer")
    entities = linked(kglink, "Mercury and Mercury.")["entities"]
    assert {one["score"] for entity in entities for one in entity["candidates"]} == {2.0}


def test_register_exporters(kglink: Kglink, demo: Path) -> None:
    assert kglink("link", "-f", "exporter", "-", stdin="Mercury.").out == "MERCURY. 1\n"


@pytest.mark.filterwarnings("ignore:left out")
def test_register_recipes(kglink: Kglink) -> None:
    assert json.loads(kglink("recipes", "acme/quick", "--json").out)["train"]["batch"] == 16
    assert "epochs" in kglink("recipes", "acme/broken", code=2).err
    listed = kglink("recipes")
    assert "acme\tacme/quick" in listed.out
    assert "acme/broken" not in listed.out


def test_register_commands(kglink: Kglink) -> None:
    assert "menu" in kglink("--help").out
    assert kglink("menu", "--dish", "stew").out == "today: stew\n"


# -------------------------------------------------------------------------------- the table
def test_every_hook_has_a_test_named_after_it() -> None:
    missing = [name for name in HOOKS if f"test_{name}" not in globals()]
    assert not missing


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_under_its_word(kglink: Kglink, kind: Kind) -> None:
    rows = json.loads(kglink("plugins", "--json").out)
    assert f"acme/{kind}" in {row["name"] for row in rows if row["kind"] == kind}
    assert load_registry().get(kind, kind).title == f"{KINDS[kind].word} 'acme/{kind}'"


def test_every_hook_is_documented_with_its_signature() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    for name, hook in HOOKS.items():
        arguments = ", ".join(inspect.signature(hook).parameters)
        assert f"### `{name}({arguments})`" in page
