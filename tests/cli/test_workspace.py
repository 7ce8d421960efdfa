"""The workspace as programs use it: every command is a method, and what was opened stays open."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typer
from conftest import Kglink
from typer.core import TyperGroup

from kglink.errors import (
    ConfigError,
    DamagedSpaceError,
    SourceError,
    SpaceError,
    UnknownNameError,
    UsageError,
)
from kglink.records import Alias, CodeMapping, Document, Entity, EntityId, Mention, Span, TextInput
from kglink.space.build import SpaceBuild
from kglink.training.job import FinetuneJob
from kglink.workspace import Workspace, init_workspace
from kglink_cli.main import build_app
from rights import as_a_plain_user

#: The methods behind each command.
METHODS = {
    "init": ("open",),
    "trust": ("open",),
    "plan": ("plan",),
    "add-kb": ("add_kb",),
    "kbs": ("kbs",),
    "kbs show": ("kb", "entities"),
    "kbs remove": ("remove_kb",),
    "show": ("entity",),
    "export": ("export",),
    "overlap": ("find_overlaps", "export_overlaps", "import_overlaps", "compare_overlaps"),
    "overlap review": ("review_overlaps", "reviewed_overlaps"),
    "overlap show": ("overlaps",),
    "overlap train": ("train_overlap_model",),
    "finetune": ("finetune",),
    "recipes": ("recipes", "recipe"),
    "runs": ("runs", "run", "delete_run"),
    "review": ("review_links",),
    "learn": ("learn",),
    "forget": ("forget",),
    "fit": ("fit",),
    "build": ("build",),
    "spaces": ("spaces", "space_summary", "compare_spaces", "compare_recalls", "delete_space"),
    "index": ("index_presets", "change_index", "measure_index"),
    "distill": ("distill",),
    "model": ("export_model",),
    "model export": ("export_model",),
    "link": ("link",),
    "resolve": ("resolve",),
    "discover": ("discover", "discovered", "judge_discovery"),
    "promote": ("promote",),
    "explain": ("explain",),
    "search": ("search",),
    "candidates": ("write_candidates",),
    "eval": (
        *("evaluate", "evaluate_end_to_end", "evaluate_errors", "evaluate_overlaps"),
        "overlap_significance",
    ),
    "report": ("report",),
    "settings": ("resolved",),
    "doctor": ("doctor", "licences"),
    "plugins": ("plugins",),
}
#: Commands that work on no workspace: a demonstration, the beginning of a plugin.
OTHERS = {"demo", "plugins new"}


def commands() -> Iterator[str]:
    group = typer.main.get_command(build_app())
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        yield name
        if isinstance(command, TyperGroup):
            yield from (f"{name} {inner}" for inner in command.commands)


def test_every_command_has_its_methods(demo: Path) -> None:
    assert set(commands()) == METHODS.keys() | OTHERS
    with Workspace.open(demo) as workspace:
        for methods in METHODS.values():
            for method in methods:
                assert hasattr(workspace, method), method


def test_methods_and_commands_say_the_same(kglink: Kglink, demo: Path) -> None:
    with Workspace.open(demo) as workspace:
        text = TextInput("-", "Rose saw a heron.\n")
        linked = [one.as_json() for one in workspace.link(text)]
        said = {
            ("kbs",): [info.as_json() for info in workspace.kbs()],
            ("spaces",): [space.as_json() for space in workspace.spaces()],
            ("runs",): [run.as_json() for run in workspace.runs()],
            ("doctor", "--licences"): [row._asdict() for row in workspace.licences()],
            ("recipes",): [recipe.as_json() for recipe in workspace.recipes()],
        }
    for words, value in said.items():
        assert json.loads(kglink(*words, "--json").out) == json.loads(json.dumps(value))
    ran = kglink("link", "-", "--format", "json", stdin="Rose saw a heron.\n")
    assert json.loads(ran.out) == json.loads(json.dumps(linked))


# -------------------------------------------------------------------------------------- link
def test_a_bare_string_is_one_text(demo: Path) -> None:
    with Workspace.open(demo) as workspace:
        (document,) = workspace.link("Rose saw a heron.")
        assert (document.id, document.text) == ("1", "Rose saw a heron.")
        several = [one.text for one in workspace.link(["Rose", TextInput("x", "heron")])]
        assert several == ["Rose", "heron"]
        assert [one.text for one in workspace.link(Series())] == [*Series.values]
        for wrong in (b"Rose", [b"Rose"]):
            with pytest.raises(UsageError, match="text 1 is of the type bytes"):
                list(workspace.link(wrong))  # type: ignore[arg-type]  # wrong


ENTITY: Any = Entity
DOCUMENT: Any = Document


class Frame:
    """A table as pandas and polars have it: iterating over it gives the names of its columns."""

    columns = ("id", "mail")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Series:
    """A column as pandas and polars have it."""

    name, values = "mail", ("Rose saw a heron.", "Mercury.")

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


FRAME: Any = Frame()

#: What people give by mistake, and what they are told.
WRONG_TYPES: list[tuple[Callable[[Any], object], str]] = [
    (lambda w: [*w.link(None)], "text 1 is of the type NoneType"),
    (lambda w: [*w.link(Path("notes.txt"))], "text 1 is of the type PosixPath"),
    (lambda w: w.link({"text": ["Rose"]}), "a dict with the columns text is a table"),
    (lambda w: w.link(FRAME), "a Frame with the columns id, mail is a table, not a list of texts"),
    (lambda w: w.discover(FRAME), "a Frame with the columns id, mail is a table"),
    (lambda w: [*w.link([["Rose"]])], "text 1 is of the type list"),
    (lambda w: [*w.link(["Rose", float("nan")])], "text 2 is of the type float"),
    (lambda w: [*w.link("Rose", 3)], "names are given by the type int"),
    (lambda w: [*w.link([TextInput("a", b"Rose")])], "the text of TextInput 'a' is of the type by"),  # type: ignore[arg-type]  # wrong
    (lambda w: [*w.link([TextInput("a", "Rose", ((0, 4),))])], r"\(0, 4\) is no Span of two"),  # type: ignore[arg-type]  # wrong
    (lambda w: [*w.link([TextInput("a", "Rose", (Span(0, 4.0),))])], "is no Span of two"),  # type: ignore[arg-type]  # wrong
    (lambda w: [*w.link([TextInput("a", "Rose", (Span(None, 4),))])], "is no Span of two"),  # type: ignore[arg-type]  # wrong
    (lambda w: w.entities("encyclopedia", limit=-1), "limit = -1: there is"),
    (lambda w: w.with_settings([("link.top_k", 3)]), "settings are given by the type list"),
    (lambda w: w.search(b"Rose"), "a search needs a text"),
    (lambda w: w.search(" \n"), "a search needs a text"),
    (lambda w: w.search("Rose", k="3"), "k = '3': there is"),
    (lambda w: w.search("Rose", k=True), "k = True: there is"),
    (lambda w: w.link("Rose", threshold=True), "the threshold True is no probability"),
    (lambda w: w.explain(b"Rose"), "a text and its surface are str"),
    (lambda w: w.explain("Rose", surface=7), "a text and its surface are str"),
    (lambda w: w.explain("Rose", span=(1,)), r"\(1,\) is no place of a text"),
    (lambda w: w.entities(None), "unknown KB None"),
    (lambda w: w.export(None, None), "unknown KB None"),
    (lambda w: w.export("encyclopedia", None), "the output is of the type NoneType"),
    (lambda w: w.export("encyclopedia", io.BytesIO()), "the output is of the type BytesIO"),
    (lambda w: w.correct("A heron.", 2.0, 7.0, None), "2.0 to 7.0 is no place in a text"),
    (lambda w: w.finetune({"recipe": "small"}), "a fine-tuning is given by the type dict"),
    (lambda w: w.open(3), "the folder is of the type int"),
    (lambda w: w.add_entity("encyclopaedia", ENTITY("1", "T")), "unknown KB 'encyclopaedia'"),
    (lambda w: w.entity(None), "an entity is named by the type NoneType"),
    (lambda w: w.vectors([7]), "an entity is named by the type int"),
    (lambda w: w.vectors(None), "an entity is named by the type NoneType"),
    (lambda w: w.add_entity(ENTITY("1", "T"), "x"), "a KB's name is of the type Entity"),
    (lambda w: w.add_kb("x", None), "a KB is not read from the type NoneType"),
    (lambda w: w.add_kb("x", [ENTITY(1, "T")]), "record 1: the key is of the type int"),
    (lambda w: w.add_kb("x", [ENTITY("1", "T", None)]), "the description is of the type None"),
    (lambda w: w.add_kb("x", [DOCUMENT(7, "T")]), "record 1: the id is of the type int"),
    (lambda w: w.add_kb("x", [ENTITY("1", "T", parents="2")]), "the parents of entity '1'"),
]


def test_what_is_of_a_wrong_type_is_told(demo_copy: Path) -> None:
    with Workspace.open(demo_copy) as workspace:
        for call, said in WRONG_TYPES:
            with pytest.raises(UsageError, match=said) as refused:
                call(workspace)
            assert refused.value.hint
        assert "encyclopaedia" not in [info.name for info in workspace.kbs()]
        assert "x" not in [info.name for info in workspace.kbs()]


def test_the_files_of_many_kbs_may_be_open(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = min(before[1], 4096) if before[1] != resource.RLIM_INFINITY else 4096
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, least), before[1]))
        with Workspace.open(tmp_path / "many", create=True):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= least
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_linking_builds_what_is_not_built(tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "new")
    source = tmp_path / "birds.jsonl"
    source.write_text('{"id": "h", "title": "heron", "description": "A wading bird."}\n')
    with Workspace.open(folder) as workspace:
        workspace.add_kb("birds", source)
        (document,) = workspace.link("A heron stood there.")
        assert [str(link.candidates[0].id) for link in document.links] == ["birds:h"]
        source.write_text('{"id": "c", "title": "crane", "description": "Another bird."}\n')
        workspace.add_kb("birds", source)
        (found,) = workspace.search("crane", k=1)
        assert found.id.key == "c"


def test_a_folder_whose_name_is_no_utf8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    init_workspace(folder)
    with Workspace.open(folder) as workspace, pytest.raises(UsageError, match="workspace is no UT"):
        workspace.kbs()
    url = {"store.url": f"sqlite:///{folder / 'kglink.db'}"}
    elsewhere = init_workspace(tmp_path / "plain")
    with (
        Workspace.open(elsewhere, flags=url, trust=True) as workspace,
        pytest.raises(UsageError, match="path of the store is no UTF-8"),
    ):
        workspace.kbs()


def test_a_bare_string_is_one_name(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        for kb in ("birds", "zoo"):
            workspace.add_kb(kb, [Entity("h", "heron", type="bird")])
        note = Document(
            "1", "A heron.", (Mention(2, 7, "heron", (EntityId("zoo", "h"),)),), split="dev"
        )
        workspace.add_kb("notes", [note], links_to="zoo")
        assert workspace.kb("notes").links_to == ("zoo",)
        (document,) = workspace.link("A heron.", "zoo", types="bird")
        assert [str(one.id) for one in document.links[0].candidates] == ["zoo:h"]
        assert [str(one.id) for one in workspace.search("heron", kbs="birds")] == ["birds:h"]
        assert workspace.evaluate("notes", kbs="zoo").recall("zoo")["R@1"] == 1
        (why,) = workspace.explain("A heron.", surface="heron", kbs="zoo")
        assert why.link.candidates[0].id == EntityId("zoo", "h")
        assert list(workspace.overlaps(verdicts="correct")) == []
        with pytest.raises(UnknownNameError, match="unknown KB 'owls'"):
            workspace.finetune(FinetuneJob(target_kbs="owls", docs="notes"))


# ------------------------------------------------------------------------- entities in memory
def test_a_kb_grows_one_entity_at_a_time(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        heron = Entity("h", "heron", "A wading bird.")
        added = workspace.add_kb("birds", (one for one in [heron, Entity("o", "osprey")]))
        assert (added.adapter, str(added.summary)) == ("memory", "+2 ~0 -0 =0")
        text = "A heron, a crane and an osprey."
        assert chosen(workspace, text) == ["birds:h", "birds:o"]
        workspace.add_entity("birds", Entity("c", "crane", "Another bird."))
        assert chosen(workspace, text) == ["birds:h", "birds:c", "birds:o"]
        assert workspace.remove_entity("birds:o") == EntityId("birds", "o")
        assert chosen(workspace, text) == ["birds:h", "birds:c"]
        assert workspace.entity("c").entity.description == "Another bird."
        both = workspace.vectors(["birds:c", EntityId("birds", "h")])
        assert both.shape == (2, workspace.space().manifest.model.dim)
        assert both.dtype == np.float32
        np.testing.assert_array_equal(both[1], workspace.vector("h"))
        assert np.abs(np.linalg.norm(both, axis=1) - 1).max() < 1e-2
        assert workspace.vectors([]).shape == (0, both.shape[1])
        for alone in ("birds:c", EntityId("birds", "c")):
            np.testing.assert_array_equal(workspace.vectors(alone), both[:1])
        with pytest.raises(UnknownNameError):
            workspace.vector("o")


def chosen(workspace: Workspace, text: str) -> list[str]:
    (document,) = workspace.link(text)
    return [str(link.chosen.id) for link in document.links if link.chosen]


def test_records_in_memory_are_checked(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        with pytest.raises(UsageError, match="record 2: it is of the type dict"):
            workspace.add_kb("x", [Entity("1", "T"), {"id": 2}])  # type: ignore[list-item]  # wrong
        with pytest.raises(UsageError, match="no adapter"):
            workspace.add_kb("x", [Entity("1", "T")], adapter="csv")
        with pytest.raises(UsageError, match="not of one Entity"):
            workspace.add_kb("x", Entity("1", "T"))  # type: ignore[arg-type]  # wrong
        with pytest.raises(UsageError, match="an alias of entity '1' is of the type str"):
            workspace.add_kb("x", [Entity("1", "T", aliases=("U",))])  # type: ignore[arg-type]  # wrong
        with pytest.raises(UsageError, match="the parents of entity '1' are of the type None"):
            workspace.add_kb("x", [Entity("1", "T", parents=None)])  # type: ignore[arg-type]  # wrong
        with pytest.raises(UsageError, match="are of the type str") as caught:
            workspace.add_kb("x", [Entity("1", "T", aliases="U")])  # type: ignore[arg-type]  # wrong
        assert "Write it as (Alias('U'),)." in caught.value.hint
        odd: Any = ("x:1",)
        some: Any = (one for one in [Alias("U")])
        none: Any = None
        word: Any = "a lot"
        for wrong, said in (
            (Entity("2", "T", xrefs=(7,)), "the xrefs of entity '2' are (7,)"),  # type: ignore[arg-type]  # wrong
            (Entity("2", "T", aliases=some), "the aliases of entity '2' are of the type generator"),
            (Entity("2", "T", aliases=(Alias("U", word),)), "has no such kind or count"),
            (Entity("2", "T", aliases=(Alias("U", count=word),)), "has no such kind or count"),
            (Document("2", "T", odd), "a mention is of the type str"),
            (Document("2", "T", none), "a mention is of the type NoneType"),
            (Document("2", "T", (Mention(0, 1, "T", gold=odd),)), "the gold of mention 'T' is ("),
            (Document("2", "T", (Mention(0, 1, "T", gold=word),)), "the gold of mention 'T' is 'a"),
            (Document("2", "T", (Mention(0, 1, "T", type=none),)), "is no str"),
            (Document("2", "T", (Mention(0, word, "T"),)), "are no whole numbers"),
            (Document("2", "T", split=word), "the split is 'a lot'"),
            (CodeMapping("a:1", "b:1", confidence=word), "the confidence is 'a lot'"),
            (CodeMapping("a:1", "b:1", verdict=word), "the verdict is 'a lot'"),
        ):
            with pytest.raises(UsageError, match=f"record 2: .*{re.escape(said)}"):
                workspace.add_kb("x", [Entity("1", "T"), wrong])
        with pytest.raises(SourceError, match="record 2 holds a value of a wrong type: "):
            workspace.add_kb("x", [Entity("1", "T"), Entity("2", "T", popularity=10**400)])
        with pytest.raises(UsageError, match="no record was given") as refused:
            workspace.add_kb("x", [])
        assert "file" not in refused.value.hint
        assert workspace.kbs() == []


def test_numbers_of_arrays_are_numbers(tmp_path: Path) -> None:
    count, popularity = cast("int", np.int64(3)), cast("float", np.float32(2))
    entity = Entity("1", "T", popularity=popularity, aliases=(Alias("U", count=count),))
    note = Document("1", "A T.", (Mention(cast("int", np.int32(2)), count, "T"),))
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("x", [entity])
        workspace.add_kb("notes", [note])
        assert workspace.entities("x")[0].popularity == 2
        assert workspace.kb("notes").mentions == 1
        few = workspace.with_settings({"link.top_k": np.int64(1), "encoder.model": Path("minilm")})
        place = Span(cast("int", np.int64(2)), count)
        (document,) = few.link(
            [TextInput("a", "A T.", (place,))], threshold=cast("float", np.float32(0.3))
        )
        assert json.dumps(document.as_json()["entities"]).startswith('[{"start": 2, "end": 3,')
        assert [one.id.key for one in few.search("T", k=cast("int", np.int64(1)))] == ["1"]


def test_evaluating_builds_what_is_not_built(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("h", "heron")])
        gold = (EntityId("birds", "h"),)
        note = Document("1", "A heron.", (Mention(2, 7, "heron", gold),), split="dev")
        workspace.add_kb("notes", [note], links_to=["birds"])
        workspace.evaluate_end_to_end("notes")
        assert workspace.joint_space.is_current()
        workspace.add_entity("birds", Entity("c", "crane"))
        workspace.evaluate("notes")
        assert workspace.joint_space.is_current()
        workspace.add_entity("birds", Entity("o", "osprey"))
        workspace.evaluate_overlaps()
        assert workspace.joint_space.is_current()


def test_two_threads_link_with_one_workspace(demo: Path) -> None:
    texts = ["Rose saw a heron.", "Mercury is near the Sun.", "The lighthouse at Skerrow."] * 4
    with Workspace.open(demo) as workspace:
        alone = [next(iter(workspace.link(text))) for text in texts]
    with Workspace.open(demo) as workspace, ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda text: next(iter(workspace.link(text))), texts))
    assert [one.links for one in together] == [one.links for one in alone]


def test_threads_that_find_no_space_build_it_once(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace, ThreadPoolExecutor(3) as threads:
        workspace.add_kb("birds", [Entity("h", "heron")])
        found = list(threads.map(lambda _: chosen(workspace, "A heron."), range(3)))
        assert found == [["birds:h"]] * 3
        assert workspace.space().version == "000001"


# ---------------------------------------------------------------------------------- kept open
def test_what_was_opened_is_kept_between_calls(demo: Path) -> None:
    with Workspace.open(demo) as workspace:
        space, linker, encoder = workspace.space(), workspace.linker(), workspace.encoder
        list(workspace.link("Rose saw a heron."))
        workspace.search("heron")
        assert workspace.space() is space
        assert workspace.linker() is linker
        assert workspace.encoder is encoder
        other = workspace.linker(["encyclopedia"])
        assert other is not linker
        assert workspace.linker(["encyclopedia"]) is other
        assert workspace.linker() is linker


def test_a_space_that_may_not_be_written_answers_as_it_is(demo_copy: Path) -> None:
    def found(*, wait: bool) -> list[str]:
        (document,) = workspace.link("Juno Halley met Zedekiah Pell.", wait=wait)
        return [str(link.chosen.id) for link in document.links if link.chosen]

    space = demo_copy / "spaces" / "default"
    with Workspace.open(demo_copy) as workspace:
        workspace.add_entity("lanternfall", Entity("pell", "Zedekiah Pell"))
        space.chmod(0o500)
        (space / "lock").chmod(0o400)
        assert as_a_plain_user(lambda: found(wait=False)) == ["lanternfall:juno_halley"]
        with pytest.raises(SpaceError, match="may not be written"):
            as_a_plain_user(lambda: found(wait=True))
        space.chmod(0o700)
        (space / "lock").chmod(0o600)
        assert len(found(wait=False)) == 1  # it is not tried again at once
        assert "may not be written" in workspace.no_build_why
        workspace.no_build_before = 0
        assert found(wait=False) == ["lanternfall:juno_halley", "lanternfall:pell"]


@pytest.mark.parametrize(
    ("kind", "number", "is_hidden"),
    [
        (SpaceError, errno.EDQUOT, True),
        (SpaceError, None, True),  # numpy's
        (SpaceError, errno.EIO, False),
        (DamagedSpaceError, errno.EACCES, False),
    ],
)
def test_only_what_cannot_be_written_is_passed_over(
    kind: type[SpaceError],
    number: int | None,
    is_hidden: bool,
    demo_copy: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("refused") from (
            OSError(number, "why") if number else OSError("9 requested and 0 written")
        )

    with Workspace.open(demo_copy) as workspace:
        workspace.add_entity("lanternfall", Entity("pell", "Zedekiah Pell"))
        monkeypatch.setattr(SpaceBuild, "publish_names", fail)
        with contextlib.nullcontext() if is_hidden else pytest.raises(kind):
            assert workspace.build_if_stale(wait=False) is None


def test_another_published_version_is_opened(demo_copy: Path) -> None:
    with Workspace.open(demo_copy) as workspace, Workspace.open(demo_copy) as other:
        space, linker, encoder = workspace.space(), workspace.linker(), workspace.encoder
        other.remove_kb("lanternfall")
        assert workspace.space() is space
        other.build()
        assert workspace.space() is not space
        assert workspace.space().kbs() == ("encyclopedia",)
        assert workspace.linker() is not linker
        assert workspace.encoder is encoder


def test_a_space_that_was_deleted_and_built_anew_is_opened(demo_copy: Path) -> None:
    with Workspace.open(demo_copy) as workspace:
        space = workspace.space()
        with Workspace.open(demo_copy) as other:
            other.delete_space("default")
            other.remove_kb("encyclopedia")
            other.build()
        assert workspace.space().version == space.version
        assert workspace.space() is not space
        assert workspace.space().kbs() == ("lanternfall",)


def test_a_space_is_deleted_where_a_process_of_the_same_number_was_killed(demo_copy: Path) -> None:
    """In a container every command has the number 1."""
    left = demo_copy / "spaces" / ".trash" / f"default-{os.getpid()}"
    left.mkdir(parents=True)
    (left / "CURRENT").touch()
    with Workspace.open(demo_copy) as workspace:
        workspace.delete_space("default")
    assert not (demo_copy / "spaces" / ".trash").exists()


def test_other_settings_share_the_store(demo: Path) -> None:
    with Workspace.open(demo, flags={"link.top_k": 3}) as workspace:
        with workspace.with_settings({"link.found_by": "names"}) as other:
            assert other.store is workspace.store
            assert (other.settings.link.top_k, other.settings.link.found_by) == (3, "names")
            assert other.resolved.origins == {
                **workspace.resolved.origins, "link.found_by": "flag",
            }  # fmt: skip
            assert other.linker() is not workspace.linker()
        assert workspace.kbs()  # the store is still open
        with pytest.raises(ConfigError, match=r"link\.top_k"):
            workspace.with_settings({"link.top_k": 0})
        with pytest.raises(UsageError, match=r"link\.tpo_k"):
            workspace.with_settings({"link.tpo_k": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--detector", "dictionery"], "unknown detector 'dictionery'"),
        (["--set", "least=3"], "has no setting 'least'"),
        (["--kb", "birdz"], "unknown KB 'birdz'"),
    ],
)
def test_a_mistake_is_told_before_a_long_build(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [Entity("h", "heron")])
        for setting in ("detector", "reranker", "clusterer", "more_evidence"):
            wrong = workspace.with_settings({f"link.{setting}": "no-such"})
            with pytest.raises(UsageError, match=r"unknown .* 'no-such'"):
                list(wrong.link("A heron."))
    monkeypatch.chdir(tmp_path)
    assert said in kglink("link", "-", *options, stdin="A heron.", code=2).err
    assert not (tmp_path / "spaces" / "default" / "CURRENT").exists()
