"""The first answer of a new KB: by its names, before its vectors are made."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink

from kglink import Workspace
from kglink.errors import KBChangedError, SpaceError
from kglink.files.digest import file_digest
from kglink.files.manifest import CHECKED_FILE
from kglink.models import Encoder
from kglink.records import Entity, Progress
from kglink.space import build as space_build
from kglink.space import segment_vectors
from kglink.space.folder import SpaceFolder
from kglink.space.space import Space

PLANETS = [
    {"key": "m", "title": "Mercury", "description": "A planet.", "aliases": ["Hermes' star"]},
    {"key": "v", "title": "Venus", "description": "Another planet.", "aliases": ["evening star"]},
]
GODS = [{"key": "g", "title": "Hermes", "description": "A god.", "aliases": ["Mercury"]}]


def write(folder: Path, name: str, records: Sequence[Mapping[str, object]]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two KBs that nothing was built of, and for which no vector is taken for quick."""
    monkeypatch.setattr(space_build, "FEW_VECTORS", 0)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(tmp_path / "here"))
    with Workspace.open(tmp_path / "here", create=True) as made:
        made.add_kb("planets", write(tmp_path, "planets", PLANETS))
        made.add_kb("gods", write(tmp_path, "gods", GODS))
    return tmp_path / "here"


def no_vectors(*_: object, **__: object) -> None:
    raise AssertionError("a vector was asked for")


def answers(out: str) -> list[tuple[str, str]]:
    (document,) = json.loads(out)
    return [(one["text"], f"{one['kb']}:{one['key']}") for one in document["entities"]]


def test_link_answers_by_names_before_it_makes_vectors(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stopped:
        stopped.setattr(Encoder, "encode", interrupt)
        ran = kglink("link", "-", "-f", "json", stdin="The evening star and Hermes.", code=130)
    assert "planets, gods: answered by names alone, 0% of 9 vectors are made" in ran.err
    assert ran.err.index("answered by names alone") < ran.err.index("making the other vectors")
    stopped_with = "error  stopped: what was done stays; run the same command to go on"
    assert ran.err.splitlines()[-1] == stopped_with
    (document,) = json.loads(ran.out)
    assert document["meta"]["names_alone"] == {"kbs": ["planets", "gods"], "vectors": 0, "of": 9}
    assert answers(ran.out) == [("evening star", "planets:v"), ("Hermes", "gods:g")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EROFS, "Read-only file system"), 0),
        (OSError("40 requested and 7 written"), 0),  # a full disk, as numpy says it
        (KBChangedError("planets has changed"), 0),
        (OSError(errno.EIO, "broken"), 1),
    ],
)
def test_answers_are_no_failure_where_vectors_cannot_be_written(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        if isinstance(error, OSError):
            raise SpaceError("not written") from error
        raise error

    monkeypatch.setattr(space_build.SpaceBuild, "build", refuse)
    ran = kglink("link", "-", "-f", "json", stdin="The evening star.", code=code)
    assert answers(ran.out) == [("evening star", "planets:v")]
    assert ("the answers above are whole" in ran.err) == (not code)


def test_what_was_stopped_is_told_whatever_command_it_was(kglink: Kglink, workspace: Path) -> None:
    def stopped() -> Iterator[Entity]:  # as of `kglink promote`
        yield Entity("1", "One")
        raise KeyboardInterrupt

    flags = {"ingest.batch_size": 1}
    with Workspace.open(workspace, flags=flags) as opened, pytest.raises(KeyboardInterrupt):
        opened.add_kb("people", stopped())
    told = kglink("search", "Venus").err
    assert "an update of people is not done, nothing of it is used: run it again" in told


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_the_build_goes_on_after_the_answers(kglink: Kglink, workspace: Path) -> None:
    ran = kglink("link", "-", "-f", "json", stdin="The evening star.")
    assert answers(ran.out) == [("evening star", "planets:v")]
    assert "9 vectors encoded" in ran.err
    again = kglink("link", "-", "-f", "json", stdin="The evening star.")
    assert "names_alone" not in json.loads(again.out)[0]["meta"]
    assert "names alone" not in again.err


def named_twice(kglink: Kglink, workspace: Path) -> tuple[Path, Path]:
    """The titles of a segment of names, and of the build that waits: links to one file."""
    kglink("link", "-", stdin="The evening star.")
    segments = workspace / "spaces/default/segments"
    (titles,) = segments.glob("planets-*/titles.utf8")
    (waiting,) = segments.glob(".draft-planets-*/titles.utf8")
    assert waiting.samefile(titles)
    return titles, waiting


@pytest.mark.parametrize("is_noticed", [True, False])
def test_damaged_names_are_written_anew_though_the_build_that_waits_has_the_same_files(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "names")
    titles, waiting = named_twice(kglink, workspace)
    titles.write_bytes(b"mERCURYvENUS")
    if not is_noticed:  # as after a fault of the disk: nobody has written to the file
        noted = json.loads((titles.parent / CHECKED_FILE).read_text())
        noted[titles.name] = [titles.stat().st_mtime_ns, titles.stat().st_ctime_ns]
        for folder in (titles.parent, waiting.parent):
            (folder / CHECKED_FILE).write_text(json.dumps(noted))
        assert "titles.utf8" in kglink("doctor", code=1).out
    assert "titles.utf8" in kglink("link", "-", stdin="The evening star.", code=1).err
    kglink("build")
    ran = kglink("link", "-", "-f", "json", stdin="The evening star.")
    assert json.loads(ran.out)[0]["entities"][0]["title"] == "Venus"


def stop_after(count: int, kglink: Kglink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a build when so many blocks are encoded."""
    encode, blocks = Encoder.encode, iter(range(count))

    def stopping(self: Encoder, texts: list[str]) -> np.ndarray:
        if next(blocks, None) is None:
            raise KeyboardInterrupt
        return encode(self, texts)

    with monkeypatch.context() as stopped:
        stopped.setattr(Encoder, "encode", stopping)
        kglink("build", code=130)


@pytest.mark.parametrize("name", ["titles.utf8", "alias.npy"])
def test_damage_in_an_unfinished_build_costs_few_vectors(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stop_after(3, kglink, monkeypatch)  # the last of four blocks is left
    segments = workspace / "spaces/default/segments"
    (draft,) = segments.glob(".draft-*")
    if name == "alias.npy":
        (draft / name).unlink()  # as after kill -9 while it was removed
    else:
        (draft / name).write_bytes((draft / name).read_bytes().swapcase())
    told = kglink("build").err
    assert "9 vectors encoded" not in told
    assert "vectors encoded" in told
    assert not list(segments.glob(".draft-*"))
    assert kglink("doctor").out


def test_a_build_never_writes_into_published_names(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as only_names:
        only_names.setenv("KGLINK_LINK_FOUND_BY", "names")
        titles, waiting = named_twice(kglink, workspace)
    (waiting.parent / "names.json").unlink()  # as after kill -9 while it was removed
    (waiting.parent / "text.npy").write_bytes(b"of another build")
    with monkeypatch.context() as stopped:
        stopped.setattr(Encoder, "encode", interrupt)
        kglink("build", code=130)
    assert not waiting.samefile(titles)
    assert titles.read_bytes() == waiting.read_bytes()
    assert "9 vectors encoded" in kglink("build").err


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("", b""),
        ("text.state", b"no more"),
        ("text.state", b"{}"),
        ("text.npy", b"no more"),
        ("names.json", b"no more"),
        ("names.json", b'{"format": 999}'),
    ],
)
def test_vectors_of_an_unfinished_build_are_kept_though_the_kb_changes(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: bytes
) -> None:
    monkeypatch.setattr(segment_vectors, "CHUNK_ROWS", 4)
    with Workspace.open(workspace) as opened:
        for kb in ("planets", "gods"):
            opened.remove_kb(kb)
        opened.add_kb("towns", [Entity(str(at), f"Town {at}") for at in range(10)])
    stop_after(2, kglink, monkeypatch)
    (left,) = (workspace / "spaces/default/segments").glob(".draft-towns-*")
    assert json.loads((left / "text.state").read_text())[0] == 8
    with monkeypatch.context() as only_names:
        only_names.setenv("KGLINK_LINK_FOUND_BY", "names")
        kglink(
            "add-kb", "towns", write(workspace, "more", [{"key": "e", "title": "Earth"}]), "--merge"
        )
        kglink("link", "-", stdin="The Earth.")
    assert left.is_dir()
    if damage:
        (left / name).write_bytes(damage)
    told = kglink("build").err
    assert ("22 vectors encoded" if damage else "14 vectors encoded") in told
    assert not left.exists()


def test_names_are_not_read_again_when_the_build_that_waited_for_them_is_gone(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "names")
    with Workspace.open(workspace) as opened:
        opened.add_kb("towns", [Entity(str(at), f"Town {at}") for at in range(20)])
    kglink("link", "-", stdin="The evening star.")
    segments = workspace / "spaces/default/segments"
    (waiting,), (towns,) = segments.glob(".draft-towns-*"), segments.glob("towns-*")
    read: list[Path] = []

    def digest(path: Path) -> str:
        read.append(path.parent)
        return file_digest(path)

    monkeypatch.setattr("kglink.files.manifest.file_digest", digest)
    monkeypatch.setattr(space_build, "LEAST_IN_LAYERS", 0)
    with Workspace.open(workspace) as opened:
        opened.add_entity("towns", Entity("e", "Earth"))
        list(opened.link("The evening star."))
    assert not waiting.exists()
    ran = kglink("link", "-", "-f", "json", stdin="From Earth to Town 7.")
    assert answers(ran.out) == [("Earth", "towns:e"), ("Town 7", "towns:7")]
    assert read
    assert towns not in read


def test_wait_makes_all_vectors_first(kglink: Kglink, workspace: Path) -> None:
    ran = kglink("link", "-", "--wait", "-f", "json", stdin="The evening star.")
    assert "names_alone" not in json.loads(ran.out)[0]["meta"]
    assert "names alone" not in ran.err
    assert ran.err.index("9 vectors encoded") < ran.err.index("linked")


def test_evidence_of_names_never_needs_a_vector(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "names")
    monkeypatch.setattr(Encoder, "encode", no_vectors)
    ran = kglink("link", "-", "-f", "json", stdin="The evening star.")
    assert answers(ran.out) == [("evening star", "planets:v")]
    assert "making" not in ran.err


def test_evidence_of_names_makes_none_in_python_either(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "encode", no_vectors)
    with Workspace.open(workspace, flags={"link.found_by": "names"}) as opened:
        (text,) = opened.link("The evening star.")
        assert [link.chosen is not None for link in text.links] == [True]


def test_evidence_of_vectors_waits(
    kglink: Kglink, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGLINK_LINK_FOUND_BY", "vectors")
    ran = kglink("link", "-", "-f", "json", stdin="The evening star.")
    assert answers(ran.out) == [("evening star", "planets:v")]
    assert ran.err.index("vectors encoded") < ran.err.index("linked")


def test_the_space_is_the_same_whichever_way_it_was_built(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(workspace) as opened:
        assert list(opened.link("Mercury", wait=False))
        first = opened.joint_space.folder.published_manifest()
        assert (first.rows, first.index_file) == (0, None)
        assert list(opened.link("Mercury", wait=False))
        assert opened.joint_space.folder.published_manifest() == first
        opened.build()
        by_steps = opened.joint_space.folder
        whole = opened.with_settings({"space.name": "whole"})
        monkeypatch.setattr(space_build, "FEW_VECTORS", 1000)
        whole.build()
        at_once = whole.joint_space.folder
    assert published(by_steps) == published(at_once)
    assert sorted(path.name for path in by_steps.segments.iterdir()) == sorted(
        path.name for path in at_once.segments.iterdir()
    )


def published(folder: SpaceFolder) -> dict[str, bytes]:
    """Every file of the published version that says nothing of when and where it was made."""
    assert folder.current is not None
    roots = [folder.current, *folder.segments.iterdir()]
    return {
        f"{path.parent.name.replace(folder.current.name, 'version')}/{path.name}": path.read_bytes()
        for root in roots
        for path in root.iterdir()
        if path.name not in ("manifest.json", "checked.json")
    }


def test_each_kb_is_published_when_its_vectors_are_made(workspace: Path) -> None:
    seen: list[tuple[str, ...]] = []
    with Workspace.open(workspace) as opened:
        folder = opened.joint_space.folder

        def look(told: Progress) -> None:
            if told.step.startswith("encoding"):
                seen.append(folder.published_manifest().names_alone)

        opened.build(progress=look)
        assert folder.published_manifest().names_alone == ()
    assert list(dict.fromkeys(seen)) == [("planets", "gods"), ("gods",)]


def test_a_new_kb_answers_by_names_beside_others_with_vectors(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [{"key": "s", "title": "Sirius", "description": "A star.", "aliases": ["Dog Star"]}]
    with Workspace.open(workspace) as opened:
        opened.build()
        held = opened.space().segments["planets"].fingerprint
        opened.add_kb("stars", write(tmp_path, "stars", more))
        (text,) = opened.link("The Dog Star and the evening star.", wait=False)
        chosen = {one.surface: str(one.chosen.id) for one in text.links if one.chosen}
        assert chosen == {"Dog Star": "stars:s", "evening star": "planets:v"}
        assert text.meta["names_alone"] == {"kbs": ["stars"], "vectors": 9, "of": 12}
        by_kb = {one.chosen.id.kb: one for one in text.links if one.chosen}
        assert by_kb["stars"].chosen is not None
        assert by_kb["stars"].chosen.evidence["alias"] == 0
        assert by_kb["planets"].chosen is not None
        assert by_kb["planets"].chosen.evidence["alias"] > 0.99
        assert opened.space().segments["planets"].fingerprint == held
        assert opened.build().encoded_rows == 3


def test_a_kb_that_the_space_holds_is_brought_up_to_date_before_it_answers(
    workspace: Path, tmp_path: Path
) -> None:
    with Workspace.open(workspace) as opened:
        opened.build()
        newer = [*PLANETS, {"key": "n", "title": "Neptune", "description": "", "aliases": []}]
        opened.add_kb("planets", write(tmp_path, "planets", newer))
        (text,) = opened.link("Neptune", wait=False)
        assert [str(one.chosen.id) for one in text.links if one.chosen] == ["planets:n"]
        assert "names_alone" not in text.meta
        assert opened.space().manifest.names_alone == ()


def test_a_killed_build_answers_by_names_and_goes_on(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(workspace) as opened:
        with monkeypatch.context() as stopped:
            stopped.setattr(Encoder, "encode", interrupt)
            with pytest.raises(KeyboardInterrupt):
                opened.build()
        (text,) = opened.link("Mercury", wait=False)
        assert text.meta["names_alone"] == {"kbs": ["planets", "gods"], "vectors": 0, "of": 9}
        assert opened.build().encoded_rows == 9


@pytest.mark.slow
def test_what_needs_vectors_says_so_where_there_are_none(workspace: Path) -> None:
    with Workspace.open(workspace) as opened:
        list(opened.link("Mercury", wait=False))
        for refused in (opened.measure_index, lambda: opened.change_index(preset="sq8")):
            with pytest.raises(SpaceError) as error:
                refused()
            assert error.value.message == "space 'default' has no vectors yet"
            assert error.value.hint == "Run `kglink build`."
        summary = opened.space_summary("default")
        assert (summary.rows, summary.index_bytes, summary.current) == (0, 0, False)
        assert np.allclose(np.linalg.norm(opened.vectors(["planets:m"]), axis=1), 1, atol=1e-3)
        assert opened.space().manifest.rows == 9


def test_the_same_thing_in_two_kbs_is_known_by_a_name_in_common(
    workspace: Path, tmp_path: Path
) -> None:
    same = [{"key": "x", "title": "Venus", "description": "", "aliases": ["evening star"]}]
    with Workspace.open(workspace) as opened:
        opened.add_kb("more", write(tmp_path, "more", same))
        (text,) = opened.link("The evening star.", wait=False)
        (link,) = text.links
        assert [str(one.id) for one in link.candidates[:2]] == ["planets:v", "more:x"]
        assert link.chosen is not None
        assert link.confidence > 0.9  # the one takes nothing from the other


def test_a_search_is_of_one_published_space(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kbs = Space.kbs

    def another_is_published(space: Space, wanted: Sequence[str] = ()) -> tuple[str, ...]:
        once.undo()
        with Workspace.open(workspace) as other:
            other.remove_kb("gods")
            other.build()
        return kbs(space, wanted)

    with Workspace.open(workspace) as opened, monkeypatch.context() as once:
        opened.build()
        once.setattr(Space, "kbs", another_is_published)
        assert {one.id.kb for one in opened.search("Mercury")} == {"planets", "gods"}
        assert {one.id.kb for one in opened.search("Mercury")} == {"planets"}


def test_who_links_uses_the_version_before_while_a_kb_is_changed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_changed(*_: object, **__: object) -> None:
        raise KBChangedError("KB 'planets' was changed just before it was read")

    with Workspace.open(workspace) as opened, monkeypatch.context() as meanwhile:
        meanwhile.setattr("kglink.workspace.spaces.build", is_changed)
        with pytest.raises(KBChangedError):
            list(opened.link("Venus"))
        meanwhile.undo()
        opened.build()
        opened.add_entity("planets", Entity("e", "Earth"))
        meanwhile.setattr("kglink.workspace.spaces.build", is_changed)
        (text,) = opened.link("Venus")
        assert [str(one.chosen.id) for one in text.links if one.chosen] == ["planets:v"]


def test_a_search_says_that_names_alone_answer_while_another_process_builds(
    kglink: Kglink, workspace: Path
) -> None:
    with Workspace.open(workspace) as opened:
        assert list(opened.link("Mercury", wait=False))
        with opened.joint_space.folder.writing():
            ran = kglink("search", "evening star", "--json")
            one = kglink("search", "evening star", "--kb", "gods")
    assert json.loads(ran.out)[0]["key"] == "v"
    assert "planets, gods: answered by names alone, 0% of 9 vectors are made\n" in ran.err
    assert "gods: answered by names alone" in one.err
    assert "names alone" not in kglink("search", "evening star").err


def test_a_thread_that_makes_vectors_holds_up_no_other(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one thread encodes, others link with the version before, and open what they need."""
    begun, go_on = threading.Event(), threading.Event()
    encode = Encoder.encode

    def slow(encoder: Encoder, texts: list[str]) -> object:
        begun.set()
        assert go_on.wait(60)
        return encode(encoder, texts)

    with Workspace.open(workspace) as opened:
        assert list(opened.link("Mercury", wait=False))
        with monkeypatch.context() as slowly, ThreadPoolExecutor(1) as other:
            slowly.setattr(Encoder, "encode", slow)
            building = other.submit(opened.build_if_stale)
            assert begun.wait(60)
            try:
                assert opened.lock.acquire(timeout=1)
                opened.lock.release()
                (text,) = opened.link("Venus", wait=False)
                assert [str(one.chosen.id) for one in text.links if one.chosen] == ["planets:v"]
            finally:
                go_on.set()
            assert building.result(60) is not None
