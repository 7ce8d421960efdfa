"""Spaces that are damaged, not ours, not built or being built are refused, or built again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hash_spaces import HERON, MERCURY, build, folded, job, opened, source
from kglink.errors import SpaceError, UnknownNameError
from kglink.space.folder import SpaceFolder
from kglink.space.segment import Segment
from kglink.space.segment_plan import SpaceSource
from kglink.store.entity_reader import FoldedEntity
from rights import as_a_plain_user


@pytest.fixture
def folder(tmp_path: Path) -> SpaceFolder:
    return SpaceFolder(tmp_path, "default")


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


@pytest.mark.parametrize("of", ["lock", "folder"])
def test_a_space_that_may_not_be_written_is_told(folder: SpaceFolder, of: str) -> None:
    build(folder, source("kb", MERCURY))
    path = folder.path / "lock" if of == "lock" else folder.versions
    path.chmod(0o500)
    with pytest.raises(SpaceError, match="space 'default' may not be written: ") as caught:
        as_a_plain_user(lambda: build(folder, source("kb", HERON, content="2")))
    path.chmod(0o700)
    assert "Check the rights of file and folder" in caught.value.hint
    assert list(opened(folder).segments["kb"].titles) == ["Mercury"]


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
