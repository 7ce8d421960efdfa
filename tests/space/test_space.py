"""Segments and spaces: what is written, reused, resumed, published, refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kglink.config import SpaceSection
from kglink.errors import SpaceError, UnknownNameError
from kglink.files import atomic
from kglink.models.source import ModelInfo
from kglink.plugins import IndexBackend, load_registry
from kglink.records import Alias, Entity
from kglink.space import segment_vectors
from kglink.space.build import BuildReport, SpaceBuild
from kglink.space.folder import SpaceFolder, space_names
from kglink.space.segment import Segment
from kglink.space.segment_plan import SpaceSource
from kglink.space.segment_vectors import Block, Encoded
from kglink.space.space import Space, SpaceNames
from kglink.store.entity_reader import FoldedEntity
from kglink.text.entity_text import entity_text
from kglink.text.fold import fold
from kglink.workspace import Workspace, init_workspace

MODEL = ModelInfo(name="toy", fingerprint="f1", dim=8)
MERCURY = Entity("m1", "Mercury", "The planet.", "planet", popularity=5)
AMBER = Entity(
    "a1", "Amber", "", "resin", aliases=(Alias("amber", count=3), Alias("Succinite", count=2))
)
HERON = Entity("h1", "Héron", "A bird.", aliases=(Alias("Heron"), Alias("†")))


@dataclass
class HashEncoder:
    """Unit vectors from a hash of the text, and a note of every text that was encoded."""

    seen: list[str] = field(default_factory=list)
    truncated: int = 0
    trained: None = None
    fail_after: int | None = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if self.fail_after is not None and len(self.seen) >= self.fail_after:
            raise KeyboardInterrupt
        self.seen += texts
        return np.stack([vector_of(text) for text in texts])


def vector_of(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")
    vector = np.random.default_rng(seed).standard_normal(MODEL.dim).astype(np.float32)
    return vector / np.linalg.norm(vector)


def folded(entities: Iterable[Entity]) -> list[FoldedEntity]:
    """Entities as the store gives them to a build."""
    return [
        FoldedEntity(entity, tuple(fold(alias.surface) for alias in entity.aliases))
        for entity in entities
    ]


def source(kb: str, *entities: Entity, content: str = "1") -> SpaceSource:
    def read() -> list[FoldedEntity]:
        return folded(sorted(entities, key=lambda entity: entity.key))

    return SpaceSource(kb, 1, content, "CC0", read)


def backend_of(name: str, settings: Mapping[str, str | int | float | bool]) -> IndexBackend:
    return load_registry(only="builtin").create("index", name, settings)


def build(
    folder: SpaceFolder,
    *sources: SpaceSource,
    encoder: HashEncoder | None = None,
    model: ModelInfo = MODEL,
    settings: SpaceSection | None = None,
) -> BuildReport:
    return job(folder, sources, encoder, model, settings).build()


def job(
    folder: SpaceFolder,
    sources: Sequence[SpaceSource],
    encoder: HashEncoder | None = None,
    model: ModelInfo = MODEL,
    settings: SpaceSection | None = None,
    **how: Any,
) -> SpaceBuild:
    parts = folder, sources, model, encoder or HashEncoder(), settings or SpaceSection()
    return SpaceBuild(*parts, backend_of, **how)


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    return SpaceFolder(tmp_path, "default")


def opened(folder: SpaceFolder) -> Space:
    return Space(folder, backend_of)


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


def thirty() -> list[Entity]:
    return [Entity(f"e{at:02}", f"Name {at}", f"Text {at}.") for at in range(30)]


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpaceFolder:
    """A space of thirty entities that nothing interrupted, made four rows at a time."""
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
    made = SpaceFolder(tmp_path / "whole", "default")
    build(made, source("kb", *thirty()))
    return made


def test_an_interrupted_build_goes_on_and_ends_in_the_same_bytes(
    whole: SpaceFolder, folder: SpaceFolder
) -> None:
    entities, broken = thirty(), folder
    first = HashEncoder(fail_after=16)
    with pytest.raises(KeyboardInterrupt):
        build(broken, source("kb", *entities), encoder=first)
    assert broken.current is None
    second = HashEncoder()
    build(broken, source("kb", *entities), encoder=second)
    assert len(first.seen) + len(second.seen) == 60
    assert _contents(whole) == _contents(broken)


def test_blocks_that_come_back_in_any_order_are_kept(
    whole: SpaceFolder, folder: SpaceFolder
) -> None:
    entities, broken = thirty(), folder
    encoder = HashEncoder()

    def backwards(lost: int) -> segment_vectors.EncodeBlocks:
        def encode(blocks: Iterator[Block]) -> Iterator[tuple[Block, Encoded]]:
            for block in reversed(list(blocks)):
                if block.first != lost:
                    yield block, segment_vectors.encode_block(encoder, block)
            if lost >= 0:
                raise SpaceError("a block is lost")

        return encode

    with pytest.raises(SpaceError, match="a block is lost"):
        job(broken, [source("kb", *entities)], encode_blocks=backwards(8)).build()
    assert len(encoder.seen) == 26
    told: list[int] = []
    job(
        broken,
        [source("kb", *entities)],
        encode_blocks=backwards(-1),
        progress=lambda one: told.append(one.done) if one.total else None,
    ).build()
    assert len(encoder.seen) == 60, "each once"
    assert told[0] == 8
    assert told[-1] == 60
    assert _contents(whole) == _contents(broken)


def test_what_is_encoded_is_safe_after_some_seconds(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities = thirty()

    def safe_rows(commit_every: float) -> list[int]:
        """How many rows of texts a kill would have left each time that the encoder was called."""
        monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
        monkeypatch.setattr(segment_vectors, "COMMIT_EVERY", commit_every)
        found = []

        class Watching(HashEncoder):
            def encode(self, texts: Sequence[str]) -> np.ndarray:
                states = list(folder.segments.glob(".draft-*/text.state"))
                found.append(json.loads(states[0].read_text())[0] if states else 0)
                return super().encode(texts)

        made = source("kb", *entities, content=str(commit_every))
        build(folder, made, encoder=Watching(), model=MODEL.model_copy(
            update={"fingerprint": str(commit_every)}))  # fmt: skip
        return found[:8]

    assert safe_rows(0.0) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert safe_rows(3600.0) == [0] * 8


@pytest.mark.parametrize(("texts", "there"), [(16, 16), (44, 46)])
def test_progress_counts_the_rows_of_an_interrupted_build(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch, texts: int, there: int
) -> None:
    """All of them at once, before the first new one: they must not count as quick work."""
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
    entities = thirty()
    with pytest.raises(KeyboardInterrupt):
        build(folder, source("kb", *entities), encoder=HashEncoder(fail_after=texts))
    told: list[tuple[int, int]] = []
    job(
        folder,
        [source("kb", *entities)],
        HashEncoder(),
        progress=lambda one: told.append((one.done, one.total)) if one.total else None,
    ).build()
    assert told[0] == (there, 60)
    assert told[-1] == (60, 60)
    assert told == sorted(told)


def _contents(folder: SpaceFolder) -> dict[str, bytes]:
    files = [path for path in folder.path.rglob("*") if path.suffix in (".npy", ".utf8", ".faiss")]
    return {str(path.relative_to(folder.path)): path.read_bytes() for path in files}


def test_the_old_version_stays_until_the_new_one_is_whole(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY))
    before = folder.current
    with pytest.raises(KeyboardInterrupt):
        build(folder, source("kb", HERON, content="2"), encoder=HashEncoder(fail_after=0))
    assert folder.current == before
    assert list(opened(folder).segments["kb"].titles) == ["Mercury"]


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


def test_damage_is_found_and_named(folder: SpaceFolder) -> None:
    build(folder, source("kb", MERCURY))
    assert folder.damage() == []
    titles = opened(folder).segments["kb"].folder / "titles.utf8"
    titles.write_bytes(b"Nercury")
    assert folder.damage() == [str(titles)]
    titles.write_bytes(b"short")
    with pytest.raises(SpaceError, match=r"titles\.utf8.*wrong size"):
        opened(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw | {"format": 99}, "newer kglink"),
        (lambda raw: raw | {"surprise": 1}, "surprise"),
        (lambda raw: {key: raw[key] for key in raw if key != "spans"}, "spans"),
        (lambda raw: raw | {"revisions": {}}, "revisions are not those"),
        (lambda raw: raw | {"segments": {}, "revisions": {}}, "rows of 'kb'"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused(
    folder: SpaceFolder, change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    build(folder, source("kb", MERCURY))
    assert folder.current
    path = folder.current / "manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(SpaceError, match=said):
        opened(folder)


def test_nothing_built_yet_and_unknown_kbs(folder: SpaceFolder) -> None:
    with pytest.raises(SpaceError, match="not built yet"):
        opened(folder)
    with pytest.raises(SpaceError, match="no KB with entities"):
        build(folder)
    build(folder, source("kb", MERCURY))
    with pytest.raises(UnknownNameError, match="Did you mean 'kb'"):
        opened(folder).kbs(["kbs"])


def test_two_builds_at_once(folder: SpaceFolder) -> None:
    def entities() -> list[FoldedEntity]:
        with pytest.raises(SpaceError, match="being built by another process"):
            build(folder, source("kb", MERCURY))
        return folded([MERCURY])

    build(folder, SpaceSource("kb", 1, "1", "", entities))
    assert Segment(folder.segments / next(folder.segments.iterdir()).name).kb == "kb"


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


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_kill_while_a_segment_is_replaced_leaves_a_whole_one(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    def build_fresh() -> None:
        job(
            folder,
            [source("kb", MERCURY)],
            HashEncoder(),
            fresh=True,
        ).build()

    exchanged = atomic.exchanged

    def kill(left: Path, right: Path) -> None:
        if killed == "after":
            exchanged(left, right)
        raise KeyboardInterrupt

    build(folder, source("kb", MERCURY))
    with monkeypatch.context() as patched:
        patched.setattr(atomic, "exchanged", kill)
        with pytest.raises(KeyboardInterrupt):
            build_fresh()
    assert list(opened(folder).segments["kb"].titles) == ["Mercury"]
    assert folder.damage() == []
    build_fresh()
    assert folder.damage() == []
    assert len(list(folder.segments.iterdir())) == 1


def test_a_disk_that_fills_up_leaves_the_old_version(demo_copy: Path) -> None:
    before = (demo_copy / "spaces" / "default" / "CURRENT").read_text()
    code = (
        "import resource, sys; from kglink_cli.main import run; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
        "sys.argv = ['kglink', 'build', '--space', 'default']; run()"
    )
    environment = {**os.environ, "KGLINK_SPACE_DESCRIPTION_CHARS": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "cannot write space 'default'" in ran.stderr
    assert "run the same command again" in ran.stderr
    assert (demo_copy / "spaces" / "default" / "CURRENT").read_text() == before
    with Workspace.open(demo_copy) as workspace:
        assert workspace.space().segments.keys() == {"encyclopedia", "lanternfall"}


def test_vectors_without_a_place_on_the_disk_are_an_error_and_no_crash(
    folder: SpaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    build(folder, source("kb", AMBER))
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(SpaceError, match="No space left on device"):
            build(folder, source("kb", AMBER, MERCURY, content="2"))
    assert len(opened(folder).segments["kb"].keys) == 1
    build(folder, source("kb", AMBER, MERCURY, content="2"))
    assert len(opened(folder).segments["kb"].keys) == 2


def test_a_damaged_space_is_built_again(folder: SpaceFolder) -> None:
    for damage in ("segment", "pointer", "version"):
        build(folder, source("kb", MERCURY))
        if damage == "segment":
            (opened(folder).segments["kb"].folder / "titles.utf8").write_bytes(b"?")
        elif damage == "pointer":
            (folder.path / "CURRENT").write_text("")
        else:
            assert folder.current
            (folder.current / "manifest.json").unlink()
        assert not job(folder, [source("kb", HERON, content="2")]).is_current()
        build(folder, source("kb", MERCURY))
        assert list(opened(folder).segments["kb"].titles) == ["Mercury"]


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
