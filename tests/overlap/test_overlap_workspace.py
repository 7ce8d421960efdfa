"""Overlaps of a workspace: kept vectors, the space that is built on the way, evidence, training."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kglink.errors import ConfigError, ModelError, UnknownNameError, UsageError
from kglink.models import Hardware, Precision, choose_hardware
from kglink.overlap import neighbours
from kglink.overlap.search import OverlapTools
from kglink.plugins import (
    EntityPair,
    PairedKBs,
    PluginModule,
    PluginSettings,
    Provider,
    Register,
    Registry,
    find_modules,
    hookimpl,
)
from kglink.records import EntityId, Progress
from kglink.workspace import Workspace
from kglink.workspace.folder import OVERLAP_MODEL_FILE
from kglink.workspace.overlap_tools import overlap_tools
from tiny_models import write_model

LEFT: list[dict[str, Any]] = [
    {"id": "h", "title": "Heron", "description": "a bird of the river", "aliases": ["amber bird"]},
    {"id": "m", "title": "Mercury", "description": "a planet"},
    {"id": "z", "title": "\U0001d400mber", "description": "the amber"},
    {"id": "é", "title": "Bird", "description": ""},
]
RIGHT: list[dict[str, Any]] = [
    {"id": "1", "title": "Heron", "description": "a bird of a river"},
    {"id": "2", "title": "Mercury (metal)", "description": "a metal"},
    {"id": "3", "title": "Planet", "description": "a planet"},
]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(tmp_path: Path, model: Path) -> Path:
    """A workspace with two KBs and nothing built."""
    root = tmp_path / "workspace"
    with opened(root, model, create=True) as workspace:
        workspace.add_kb("left", write(tmp_path / "left.jsonl", LEFT))
        workspace.add_kb("right", write(tmp_path / "right.jsonl", RIGHT))
    return root


def opened(
    root: Path,
    model: Path,
    registry: Registry | None = None,
    *,
    create: bool = False,
    **flags: object,
) -> Workspace:
    settings = {f"overlap.{name}": value for name, value in flags.items()}
    return Workspace.open(
        root,
        create=create,
        flags={"encoder.model": str(model), "overlap.model": str(model), **settings},
        registry=registry,
    )


def tools_of(workspace: Workspace, most_rows: int = 1000) -> OverlapTools:
    return overlap_tools(workspace.with_settings({"overlap.max_encoded_rows": most_rows}))


CORE = ("names", "description")


def test_a_first_search_finds_what_is_named_alike(folder: Path, model: Path) -> None:
    with opened(folder, model, evidence=CORE) as workspace:
        (report,) = workspace.find_overlaps()
        assert (report.left, report.right, report.method) == ("left", "right", "full")
        assert report.candidates == 2
        found = list(workspace.store.overlaps("left", "right"))
    assert EntityId("left", "h") in {one.left for one in found}
    assert all("description" in one.evidence for one in found)


def test_descriptions_are_encoded_once(folder: Path, model: Path) -> None:
    with opened(folder, model, evidence=CORE) as workspace:
        workspace.find_overlaps()
        before = list(workspace.store.overlaps())
    with opened(folder, model, evidence=CORE) as workspace:
        (report,) = workspace.find_overlaps(fresh=True)
        assert not report.current
        # The model itself was not even loaded.
        assert workspace.encoder.truncated == 0
        assert "_loaded" not in vars(workspace.encoder)
        assert list(workspace.store.overlaps()) == before


def test_a_run_that_is_current_is_passed_over(folder: Path, model: Path) -> None:
    with opened(folder, model, evidence=CORE) as workspace:
        (first,) = workspace.find_overlaps()
        (second,) = workspace.find_overlaps()
        (named,) = workspace.find_overlaps("left", "right")
    assert (first.current, second.current, named.current) == (False, True, False)
    assert (second.candidates, second.kept) == (first.candidates, first.kept)


# ------------------------------------------------------------------------------------ the space
def test_vectors_are_made_for_the_search_and_reused_by_the_build(folder: Path, model: Path) -> None:
    with opened(folder, model) as workspace:
        space = tools_of(workspace).space
        assert space.ready("left")
        texts, aliases = space.get("left", "text"), space.get("left", "alias")
        assert texts is not None
        assert aliases is not None
        assert list(texts.keys) == ["h", "m", "z", "é"]
        assert texts.find(["z", "h", "é", "none", "~", ""]).tolist() == [2, 0, 3, -1, -1, -1]
        assert texts.owners.tolist() == [0, 1, 2, 3]
        assert aliases.owners.tolist() == [0, 0, 1, 2, 3]
        amber = workspace.encoder.encode(["amber bird", "Mercury"])
        products = aliases.rows(np.array([1, 2])) @ amber.T
        assert np.diag(products) == pytest.approx(1, abs=1e-3)
        space.get("right", "text")
        report = workspace.build()
        assert report.encoded_rows == 0
        assert report.reused_rows == 4 + 5 + 3 + 3


def test_a_built_space_is_used_as_it_is(folder: Path, model: Path) -> None:
    with opened(folder, model) as workspace:
        workspace.build()
        tools = tools_of(workspace, most_rows=0)
        assert tools.space.ready("left")
        assert tools.space.get("left", "text") is not None


def test_a_kb_that_is_too_large_to_encode_is_left_to_the_build(folder: Path, model: Path) -> None:
    with opened(folder, model) as workspace:
        tools = tools_of(workspace, most_rows=6)
        assert (tools.space.ready("left"), tools.space.ready("right")) == (False, True)
        assert tools.space.get("left", "text") is None
    with opened(folder, model, evidence=CORE, max_encoded_rows=0) as workspace:
        (report,) = workspace.find_overlaps()
    assert sum("`kglink build` makes them" in note for note in report.notes) == 2


def test_rows_that_the_space_does_not_have(folder: Path, model: Path) -> None:
    flags = {"encoder.model": str(model), "space.rows": ("text",)}
    with Workspace.open(folder, flags=flags) as workspace:
        space = tools_of(workspace).space
        assert space.get("left", "text") is not None
        assert space.get("left", "alias") is None


# --------------------------------------------------------------------------- evidence, settings
class LetterSettings(PluginSettings):
    worth: float = 0.5


class Letter:
    """A third party's evidence: the first letter, worth what its setting says."""

    second_pass = False

    def __init__(self, settings: LetterSettings) -> None:
        self.worth = settings.worth

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        for left in kbs.entities("left"):
            for right in kbs.entities("right"):
                if left.title[0] == right.title[0]:
                    yield left.key, right.key

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"letter": self.worth} for _ in pairs]


@hookimpl
def register_overlap_evidence(register: Register) -> None:
    register("acme/letter", Letter, settings=LetterSettings, summary="The first letter")


@pytest.fixture(scope="module")
def registry() -> Registry:
    """What is installed, and a third party's evidence."""
    acme = ModuleType("acme")
    vars(acme)["register_overlap_evidence"] = register_overlap_evidence
    third_party = PluginModule(Provider("acme", "1", "acme", builtin=False), lambda: acme)
    return Registry([*find_modules(only="builtin"), third_party])


def test_evidence_of_a_third_party_is_weighed_with_its_settings(
    folder: Path, model: Path, registry: Registry
) -> None:
    worth = {"letter.worth": 0.25}
    with opened(
        folder, model, registry, threshold=0.0, evidence=("letter",), evidence_settings=worth
    ) as workspace:
        (report,) = workspace.find_overlaps()
        found = list(workspace.store.overlaps())
    assert report.proposed_by == {"acme/letter": 2}
    assert {one.evidence["letter"] for one in found} == {0.25}
    assert any("no weight for letter" in note for note in report.notes)


def test_unknown_evidence(folder: Path, model: Path) -> None:
    with (
        opened(folder, model, evidence=("nmaes",)) as workspace,
        pytest.raises(UnknownNameError, match="unknown overlap evidence 'nmaes'") as caught,
    ):
        workspace.find_overlaps()
    assert "kglink/names" in caught.value.hint


@pytest.mark.parametrize("setting", ["worth", "description.worth", "letter.colour"])
def test_a_setting_of_no_evidence_in_use(
    folder: Path, model: Path, registry: Registry, setting: str
) -> None:
    with (
        opened(
            folder, model, registry, evidence=("letter",), evidence_settings={setting: 1}
        ) as workspace,
        pytest.raises(UsageError) as caught,
    ):
        workspace.find_overlaps()
    assert setting.rpartition(".")[2] in str(caught.value)


@pytest.mark.parametrize("threshold", [-1.01, 1.5, math.nan, "much"])
def test_a_threshold_outside_its_bounds(folder: Path, model: Path, threshold: object) -> None:
    with pytest.raises(ConfigError, match=r"overlap\.threshold"):
        opened(folder, model, threshold=threshold)


# ------------------------------------------------------------------------------------- training
def judge_all(workspace: Workspace) -> None:
    """The same title is right, all else wrong."""
    for left in LEFT:
        for right in RIGHT:
            ids = EntityId("left", str(left["id"])), EntityId("right", str(right["id"]))
            same = str(right["title"]).startswith(str(left["title"]))
            workspace.store.set_verdict(*ids, "correct" if same else "wrong")


def test_a_trained_model_is_kept_and_used(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kglink.overlap.search.LEAST_VERDICTS", 2)
    with opened(folder, model, evidence=CORE) as workspace:
        judge_all(workspace)
        (before,) = workspace.find_overlaps()
        training = workspace.train_overlap_model()
        assert (training.correct, training.wrong) == (2, 10)
        (after,) = workspace.find_overlaps()
        assert (before.model, after.current) == ("default", False)
        assert after.model == "trained on 2 correct and 10 wrong pairs"
        assert workspace.train_overlap_model().model == training.model
    with opened(folder, model, evidence=("names",)) as workspace:
        (other,) = workspace.find_overlaps()
        assert other.model == "default", "it was trained on other evidence"


def test_a_damaged_model_is_refused(folder: Path, model: Path) -> None:
    (folder / OVERLAP_MODEL_FILE).write_text("{}")
    with (
        opened(folder, model, evidence=CORE) as workspace,
        pytest.raises(ModelError, match=OVERLAP_MODEL_FILE),
    ):
        workspace.find_overlaps()


def test_training_without_verdicts(folder: Path, model: Path) -> None:
    with (
        opened(folder, model, evidence=CORE) as workspace,
        pytest.raises(UsageError, match="too few to learn from"),
    ):
        workspace.train_overlap_model()
    assert not (folder / OVERLAP_MODEL_FILE).exists()


# ------------------------------------------------------------------------------------- progress
def test_a_search_says_what_it_is_at_and_how_much_is_left(folder: Path, model: Path) -> None:
    steps: list[Progress] = []
    with opened(folder, model) as workspace:
        (report,) = workspace.find_overlaps(progress=steps.append)
        aliases = {info.name: info.aliases for info in workspace.store.kbs()}
    ends = {step.step: (step.done, step.total) for step in steps}
    # A text for each entity and every name of each: both are encoded.
    assert ends["encoding left"] == (len(LEFT) + aliases["left"],) * 2
    assert ends["encoding right"] == (len(RIGHT) + aliases["right"],) * 2
    assert ends["left-right: kglink/names looks for pairs"] == (len(RIGHT), len(RIGHT))
    assert ends["left-right: kglink/fuzzy looks for pairs"] == (len(LEFT), len(LEFT))
    rows = max(aliases.values())
    assert ends["left-right: kglink/neighbours looks for pairs"] == (rows, rows)
    assert ends["left-right: weighing"] == (report.candidates, report.candidates)
    assert ends["left-right: weighing again"] == (report.candidates, report.candidates)
    for before, after in pairwise(steps):
        assert after.done >= before.done or after.step != before.step


def test_the_methods_of_names_count_the_entities_of_the_smaller_kb(
    folder: Path, model: Path
) -> None:
    steps: list[Progress] = []
    with opened(folder, model, method="paper") as workspace:
        workspace.find_overlaps(progress=steps.append)
    assert steps[-1] == Progress(
        "left-right: comparing entities that share a name", len(RIGHT), len(RIGHT)
    )


def test_neighbours_are_looked_for_where_the_encoder_is(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def chosen(device: str = "auto", precision: Precision = "auto") -> Hardware:
        asked.append(device)
        return choose_hardware("cpu", precision)

    monkeypatch.setattr(neighbours, "choose_hardware", chosen)
    flags = {"encoder.model": str(model), "encoder.device": "cpu"}
    with Workspace.open(folder, flags=flags) as workspace:
        workspace.find_overlaps()
    assert asked == ["cpu"]
