"""Segments and spaces: what is written, read, reused and published."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hash_spaces import (
    AMBER,
    HERON,
    MERCURY,
    MODEL,
    HashEncoder,
    build,
    folded,
    job,
    opened,
    source,
    vector_of,
)
from kglink.config import SpaceSection
from kglink.space.folder import SpaceFolder, space_names
from kglink.space.segment_plan import SpaceSource
from kglink.space.space import SpaceNames
from kglink.store.entity_reader import FoldedEntity
from kglink.text.entity_text import entity_text
from kglink.workspace import Workspace, init_workspace


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    return SpaceFolder(tmp_path, "default")


def test_entity_text_by_hand() -> None:
    assert entity_text(MERCURY) == "Mercury (planet). The planet."
    assert entity_text(AMBER) == "Amber (resin); amber; Succinite"
    assert entity_text(replace(HERON, description="x" * 20), description_chars=5) == (
        "Héron; Heron; †. xxxxx"
    )


def test_a_segment_holds_names_in_entity_order_with_the_title_first(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY, AMBER, HERON))
    segment = opened(folder).segments["kb"]
    assert list(segment.keys) == ["a1", "h1", "m1"]
    assert list(segment.titles) == ["Amber", "Héron", "Mercury"]
    # "amber" folds to the title's form and adds its count; a name of signs alone stays.
    assert list(segment.surfaces) == ["Amber", "Succinite", "Héron", "†", "Mercury"]
    assert list(segment.names.folded) == ["amber", "succinite", "heron", "†", "mercury"]
    assert np.asarray(segment.alias_counts).tolist() == [4, 2, 2, 1, 1]
    assert np.asarray(segment.alias_starts).tolist() == [0, 2, 4, 5]
    assert np.asarray(segment.popularity).tolist() == [0, 0, 5]
    assert segment.entity_of(np.array([0, 1, 2, 3, 4])).tolist() == [0, 0, 1, 1, 2]
    rows, owner = segment.aliases_of(np.array([0, 2]))
    assert rows.tolist() == [0, 1, 4]
    assert owner.tolist() == [0, 0, 1]


def test_vectors_stand_in_the_rows_that_the_manifest_names(folder: SpaceFolder) -> None:
    report = build(folder, source("kb", MERCURY, AMBER), source("two", HERON))
    space = opened(folder)
    spans = [(span.kb, span.kind, span.start, span.stop) for span in report.manifest.spans]
    assert spans == [
        ("kb", "text", 0, 2), ("kb", "alias", 2, 5), ("two", "text", 5, 6), ("two", "alias", 6, 8),
    ]  # fmt: skip
    assert report.encoded_rows == 8
    for kb, entity in (("kb", AMBER), ("two", HERON)):
        scores, rows = space.nearest(vector_of(entity_text(entity))[None], kb, "text", 1)
        assert rows.tolist() == [[0]]
        assert scores[0, 0] == pytest.approx(1, abs=2e-3)
    _, rows = space.nearest(vector_of("Succinite")[None], "kb", "alias", 1)
    assert rows.tolist() == [[1]]
    assert space.nearest(vector_of("†")[None], "two", "alias", 5)[1].tolist()[0][2:] == [-1] * 3


def test_only_what_changed_is_encoded_again(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY, AMBER), source("two", HERON))
    encoder = HashEncoder()
    changed = replace(MERCURY, description="The nearest planet.")
    report = build(
        folder, source("kb", changed, AMBER, content="2"), source("two", HERON), encoder=encoder
    )
    assert encoder.seen == [entity_text(changed)]
    assert report.manifest.segments["two"].startswith("two-")
    _, rows = opened(folder).nearest(vector_of(entity_text(changed))[None], "kb", "text", 1)
    assert rows.tolist() == [[1]]


def test_another_model_reuses_nothing(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY))
    encoder = HashEncoder()
    other = MODEL.model_copy(update={"fingerprint": "f2"})
    build(folder, source("kb", MERCURY), encoder=encoder, model=other)
    assert encoder.seen == [entity_text(MERCURY), "Mercury"]


def test_stale_versions_and_segments_are_removed(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY), source("two", HERON))
    build(folder, source("kb", AMBER, content="2"))
    assert [path.name for path in folder.versions.iterdir()] == ["000002"]
    assert len(list(folder.segments.iterdir())) == 1
    assert space_names(folder.path.parent) == ["default"]


def test_current_means_same_content_model_rows_and_index(folder: SpaceFolder) -> None:
    sources = [source("kb", MERCURY)]
    assert not job(folder, sources).is_current()
    build(folder, *sources)
    assert job(folder, sources).is_current()
    assert not job(folder, [source("kb", MERCURY, content="2")]).is_current()
    assert not job(folder, [*sources, source("two", HERON)]).is_current()
    assert not job(folder, sources, settings=SpaceSection(rows=("text",))).is_current()
    assert not job(folder, sources, settings=SpaceSection(index="kglink/faiss")).is_current()


def test_a_space_without_alias_rows(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY, AMBER), settings=SpaceSection(rows=("text",)))
    space = opened(folder)
    assert space.has_rows("text")
    assert not space.has_rows("alias")
    assert space.index.size == 2


def test_names_for_detectors(folder: SpaceFolder) -> None:
    build(folder, source("kb", AMBER), source("two", HERON))
    names = SpaceNames(opened(folder), ["two", "kb"])
    rows = [(row.surface, row.folded, row.kb, row.count) for row in names]
    assert rows == [
        ("Héron", "heron", "two", 2), ("†", "†", "two", 1),
        ("Amber", "amber", "kb", 4), ("Succinite", "succinite", "kb", 2),
    ]  # fmt: skip
    assert len(names) == 4
    assert names.fingerprint != SpaceNames(opened(folder), ["kb"]).fingerprint


def test_a_kb_is_read_once_for_a_build(folder: SpaceFolder) -> None:
    passes = []

    def entities() -> list[FoldedEntity]:
        passes.append(1)
        return folded([AMBER, HERON])

    build(folder, SpaceSource("kb", 1, "1", "", entities))
    assert passes == [1]
    (segment,) = folder.segments.iterdir()
    assert not [path.name for path in segment.iterdir() if path.is_dir()]


def test_a_reader_has_the_manifest_of_the_version_whose_index_it_opens(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(folder, source("kb", MERCURY, HERON))
    as_it_is = SpaceFolder.__dict__["current"]

    def slow(self: SpaceFolder) -> Path | None:
        """CURRENT is read, and then another process publishes."""
        found: Path | None = as_it_is.fget(self)
        monkeypatch.setattr(SpaceFolder, "current", as_it_is)
        with monkeypatch.context() as kept:
            kept.setattr(SpaceFolder, "drop_segments", lambda *_: None)
            kept.setattr("kglink.space.folder.shutil.rmtree", lambda *_, **__: None)
            build(folder, source("kb", AMBER, HERON, content="2"))
        return found

    monkeypatch.setattr(SpaceFolder, "current", property(slow))
    space = opened(folder)
    titles = list(space.segments["kb"].titles)
    for title in titles:
        _, rows = space.nearest(vector_of(title)[None], "kb", "alias", 1)
        assert space.segments["kb"].alias_starts[titles.index(title)] == rows[0, 0]


def test_fresh_encodes_everything_and_keeps_readers(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY))
    reader = opened(folder)
    encoder = HashEncoder()
    job(
        folder,
        [source("kb", MERCURY)],
        encoder,
        fresh=True,
    ).build()
    assert len(encoder.seen) == 2
    assert list(reader.segments["kb"].titles) == ["Mercury"]
    _, rows = reader.nearest(vector_of("Mercury")[None], "kb", "alias", 1)
    assert rows.tolist() == [[0]]
    assert job(folder, [source("kb", MERCURY)]).is_current()


def test_a_kb_that_is_replaced_within_a_second_is_not_answered_from_its_old_segment(
    tmp_path: Path,
) -> None:
    init_workspace(tmp_path)
    for title in ("Heron", "Amber", "Comet"):
        path = tmp_path / "source.jsonl"
        path.write_text(json.dumps({"key": "k", "title": title}) + "\n", encoding="utf-8")
        with Workspace.open(tmp_path, flags={"space.rows": ("alias",)}) as workspace:
            workspace.add_kb("kb", path)
            # The times of two ingests may be equal: they are told in whole seconds.
            with closing(sqlite3.connect(tmp_path / "kglink.db")) as store, store:
                store.execute("UPDATE kbs SET updated_at = '2026-01-01T00:00:00+00:00'")
            workspace.build()
            assert list(workspace.space().segments["kb"].titles) == [title]
            workspace.remove_kb("kb")
