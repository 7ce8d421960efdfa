"""Spaces of trained models: which model a space has, its rows, what is kept and reused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Kglink

from kglink.errors import ConfigError, ModelError, SpaceError, UsageError
from kglink.models import Encoder
from kglink.records import Entity
from kglink.space import segment_vectors
from kglink.space.folder import SpaceFolder, space_names
from kglink.space.manifest import SpaceManifest
from store_support import job
from trained_spaces import add_run, copied, entities_of, make_workspace, opened, plain_of, towers


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of two KBs with one run, nothing built."""
    folder = make_workspace(tmp_path_factory.mktemp("trained") / "workspace")
    add_run(folder, "one", shared=False)
    return folder


@pytest.fixture
def folder(master: Path, tmp_path: Path) -> Path:
    return copied(master, tmp_path / "workspace")


def manifest_of(folder: Path, space: str = "default") -> SpaceManifest:
    manifest = SpaceFolder(folder / "spaces", space).manifest()
    assert manifest
    return manifest


# ---------------------------------------------------------------------- the model of a space
def test_a_space_goes_on_with_the_model_that_it_was_built_with(folder: Path) -> None:
    with opened(folder) as workspace:
        report = workspace.build(model=str(folder / "runs" / "one" / "model"))
        assert report.manifest.model.path == report.manifest.model.name == "runs/one/model"
        assert workspace.encoder.info == report.manifest.model
        first = list(workspace.link(["The Heron"]))
    with opened(folder) as workspace:
        assert workspace.joint_space.is_current()
        assert workspace.encoder.info.path == "runs/one/model"
        assert list(workspace.link(["The Heron"])) == first
        assert workspace.build().encoded_rows == 0


def test_an_open_workspace_follows_a_model_that_another_process_publishes(folder: Path) -> None:
    with opened(folder) as long, opened(folder) as other:
        long.build(model=str(plain_of(folder)))
        assert list(long.link(["The Heron"]))
        other.build(model="runs/one/model")
        assert list(long.link(["The Heron"])) == list(other.link(["The Heron"]))
        assert long.encoder.info.path == "runs/one/model"
        assert long.build().encoded_rows == 0
    assert manifest_of(folder).model.path == "runs/one/model"


def test_links_are_made_with_the_version_before_while_another_process_builds(
    kglink: Kglink, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    with opened(folder) as workspace:
        spaces = SpaceFolder(folder / "spaces", "default")
        with spaces.writing():
            ran = kglink("link", "-", stdin="The Heron", code=1)
        assert "being built by another process" in ran.err
        workspace.build(model="runs/one/model")
        entities = entities_of(workspace, "atlas")
        workspace.store.ingest(job("third", fingerprint="third"), entities[:2])
        with spaces.writing():
            ran = kglink("link", "-", "--format", "json", stdin="The Heron")
        assert "the version before it is used" in ran.err
        assert json.loads(ran.out)
        assert "third" not in manifest_of(folder).segments


def test_advice_names_the_space(kglink: Kglink, folder: Path) -> None:
    with opened(folder, space__name="mine") as workspace:
        with pytest.raises(SpaceError) as refused:
            workspace.space()
        assert refused.value.hint == "Run `kglink build --space mine`."
        workspace.build(model="runs/one/model")
    (folder / "runs" / "one").rename(folder / "runs" / "gone")
    with opened(folder, space__name="mine") as workspace:
        with pytest.raises(ModelError) as missing:
            workspace.space()
        assert "`kglink build --space mine --model NAME`" in missing.value.hint


def test_a_workspace_may_be_moved_with_its_model(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    moved = tmp_path / "elsewhere" / "workspace"
    shutil.move(folder, moved)
    with opened(moved) as workspace:
        assert workspace.joint_space.is_current()
        assert workspace.encoder.source.path == moved / "runs" / "one" / "model"
        assert workspace.search("heron", k=1)


def test_two_spaces_of_two_models_live_side_by_side(folder: Path) -> None:
    plain, second = str(plain_of(folder)), add_run(folder, "two", by=0.1)
    with opened(folder) as workspace:
        workspace.build(model=plain)
    for space, model in (("first", "runs/one/model"), ("second", second)):
        with opened(folder, space__name=space) as workspace:
            workspace.build(model=model)
    assert space_names(folder / "spaces") == ["default", "first", "second"]
    for space, model in (("default", plain), ("first", "runs/one/model"), ("second", second)):
        with opened(folder, space__name=space) as workspace:
            assert workspace.joint_space.is_current()
            assert workspace.space().manifest.model.path == model
            assert (workspace.encoder.trained is None) == (space == "default")


def test_a_model_that_is_set_stands_against_another(folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    with opened(folder, encoder__model=str(plain_of(folder))) as workspace:
        assert not workspace.joint_space.is_current()
        with pytest.raises(SpaceError, match=r"another model \(runs/one/model\) than the settings"):
            workspace.space()
        with pytest.raises(UsageError, match=r"encoder\.model is set to .*-plain' \(flag\)"):
            workspace.build(model="runs/one/model")
        assert workspace.build(model=str(plain_of(folder))).encoded_rows > 0
    assert manifest_of(folder).model.path == str(plain_of(folder))


def test_a_model_that_is_gone_is_told_with_its_space(
    folder: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    assert "BAD" not in kglink("doctor").out
    (folder / "runs" / "one").rename(folder / "runs" / "away")
    with opened(folder) as workspace, pytest.raises(ModelError) as caught:
        workspace.space()
    assert "the model of space 'default' cannot be used: runs/one/model" in caught.value.message
    assert "kglink build --model NAME" in caught.value.hint
    assert "BAD  model" in kglink("doctor", code=1).out
    kglink("build", "--model", str(plain_of(folder)))
    assert manifest_of(folder).model.path == str(plain_of(folder))


def test_a_model_that_changed_in_its_place_makes_the_space_old(folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    add_run(folder, "one", by=0.2, shared=False)
    with opened(folder) as workspace:
        assert not workspace.joint_space.is_current()
        with pytest.raises(SpaceError, match="runs/one/model is not what it was"):
            workspace.space()
        assert workspace.build().reused_rows == 0
        assert workspace.space().manifest.model.path == "runs/one/model"


def test_a_space_of_before_paths_were_kept(folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.build(model=str(plain_of(folder)))
    files = [*folder.glob("spaces/default/versions/*/manifest.json")]
    files += folder.glob("spaces/default/segments/*/segment.json")
    assert len(files) == 3
    for path in files:
        values = json.loads(path.read_text())
        del values["model"]["path"]
        path.write_text(json.dumps(values))
    with opened(folder) as workspace:
        assert workspace.space().manifest.model.path == ""
        assert workspace.encoder.source.path == plain_of(folder).resolve()
        assert workspace.joint_space.is_current()


def test_a_damaged_space_keeps_its_model(folder: Path) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    (folder / "spaces" / "default" / "CURRENT").write_text("")
    with opened(folder) as workspace:
        report = workspace.build()
    assert report.manifest.model.path == "runs/one/model"
    assert report.encoded_rows == 0


def test_a_space_goes_on_with_its_index(folder: Path) -> None:
    exact = {"space__index": "kglink/faiss", "space__index_settings": {"factory": "Flat"}}
    with opened(folder, **exact) as workspace:
        workspace.build(model="runs/one/model")
    with opened(folder) as workspace:
        assert workspace.joint_space.is_current()
        workspace.build()
    made = manifest_of(folder)
    assert (made.index, made.index_settings) == ("kglink/faiss", {"factory": "Flat"})
    with opened(folder, space__index="kglink/flat") as workspace:
        assert not workspace.joint_space.is_current()


# --------------------------------------------------------------------------------- its rows
@pytest.mark.parametrize("settings", [{"shared": False}, {"metric": "dot"}, {"pooling": "cls"}])
def test_rows_are_entities_and_names_through_the_entity_tower(
    folder: Path, settings: dict[str, Any]
) -> None:
    model = add_run(folder, "rows", **settings)
    with opened(folder, space__rows=("text", "alias")) as workspace:
        workspace.build(model=model)
        encoder = towers(workspace)
        for kb, segment in workspace.space().segments.items():
            entities = entities_of(workspace, kb)
            texts = encoder.encode_entities(entities)
            names = encoder.encode(list(segment.surfaces))
            alone = encoder.encode_entities([Entity("", segment.surfaces[3])])
            everything = slice(None)
            np.testing.assert_allclose(
                segment.vectors("text", everything), texts, rtol=2e-3, atol=1e-3
            )
            np.testing.assert_allclose(
                segment.vectors("alias", everything), names, rtol=2e-3, atol=1e-3
            )
            np.testing.assert_allclose(names[3], alone[0], atol=1e-5)


def test_a_trained_model_has_rows_of_texts_and_a_plain_one_of_names_as_well(folder: Path) -> None:
    def kinds_of(**flags: Any) -> set[str]:
        with opened(folder, **flags) as workspace:
            assert workspace.joint_space.is_current()
            assert workspace.search("heron", k=1)
            return {kind for one in workspace.space().segments.values() for kind in one.info.rows}

    with opened(folder) as workspace:
        workspace.build(model=str(plain_of(folder)))
    assert kinds_of() == {"text", "alias"}
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    assert kinds_of() == {"text"}
    with opened(folder, space__rows=("text", "alias")) as workspace:
        assert not workspace.joint_space.is_current()
        report = workspace.build()
        assert 0 < report.reused_rows < report.encoded_rows + report.reused_rows
    assert kinds_of(space__rows=("text", "alias")) == {"text", "alias"}


def test_after_an_update_only_what_the_tower_reads_anew_is_encoded(folder: Path) -> None:
    with opened(folder) as workspace:
        before = workspace.build(model="runs/one/model")
        entities = entities_of(workspace, "atlas")
        unread = replace(entities[0], url="https://example.org/elsewhere")
        changed = replace(entities[1], description="another heron altogether")
        workspace.store.ingest(job("atlas", fingerprint="2"), [unread, changed, *entities[2:]])
        after = workspace.build()
        kept = workspace.space().segments["atlas"].vectors("text", slice(None))
        fresh = workspace.build(fresh=True)
        made = workspace.space().segments["atlas"].vectors("text", slice(None))
    rows = before.manifest.spans[-1].stop
    assert (before.encoded_rows, after.encoded_rows, fresh.encoded_rows) == (rows, 1, rows)
    np.testing.assert_array_equal(kept, made)


def test_an_interrupted_build_of_a_trained_space_ends_in_the_same_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 16)
    with opened(folder, space__name="whole") as workspace:
        workspace.build(model="runs/one/model")
    real = Encoder.encode_entities
    calls: list[int] = []

    def interrupted(self: Encoder, entities: Sequence[Entity]) -> np.ndarray:
        calls.append(len(entities))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, entities)

    monkeypatch.setattr(Encoder, "encode_entities", interrupted)
    with opened(folder) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.build(model="runs/one/model")
        assert workspace.joint_space.folder.current is None
        workspace.build(model="runs/one/model")
    assert sum(calls[:2]) + sum(calls[3:]) == 80
    whole, again = (_vectors(folder / "spaces" / name) for name in ("whole", "default"))
    assert whole == again


def _vectors(space: Path) -> dict[str, bytes]:
    files = [*space.rglob("*.npy"), *space.rglob("index.faiss")]
    return {str(path.relative_to(space)): path.read_bytes() for path in files}


# --------------------------------------------------------------------------------- overlaps
def test_overlaps_have_an_untrained_encoder_and_segments_of_their_own(folder: Path) -> None:
    plain = str(plain_of(folder))
    with opened(folder, overlap__model=plain) as workspace:
        workspace.build(model="runs/one/model")
        (report,) = workspace.find_overlaps()
        assert report.kept
        assert not any("build" in note for note in report.notes)
        first = _own_segments(folder)
        assert [name.rpartition("-")[0] for name in first] == ["atlas", "saga"]
        entities = entities_of(workspace, "atlas")
        workspace.store.ingest(job("atlas", fingerprint="2"), entities[1:])
        workspace.find_overlaps()
        second = _own_segments(folder)
        assert len(second) == 2
        assert second[0] != first[0]
        assert second[1] == first[1]
    assert space_names(folder / "spaces") == ["default"]
    with (
        opened(folder, overlap__model="runs/one/model") as workspace,
        pytest.raises(ConfigError, match="is a trained model"),
    ):
        workspace.find_overlaps()


def _own_segments(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "spaces" / ".overlap" / "segments").iterdir())


def test_a_space_of_the_same_encoder_lends_its_segments(folder: Path) -> None:
    plain = str(plain_of(folder))
    with opened(folder, overlap__model=plain) as workspace:
        workspace.build(model=plain)
        workspace.find_overlaps()
    assert not (folder / "spaces" / ".overlap").exists()


def test_licences_name_the_model_that_training_began_with(
    folder: Path, master: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as workspace:
        workspace.build(model="runs/one/model")
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    rows = json.loads(kglink("doctor", "--licences", "--json").out)
    models = [row["name"] for row in rows if row["what"] == "model"]
    assert models == [f"runs/one/model, from {plain_of(master)}", "minilm"]
