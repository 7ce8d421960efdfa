"""`kglink discover` and `kglink promote` on the demo's world and the letters of the docs."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Kglink

from kglink.errors import KglinkError, UnknownNameError, UsageError
from kglink.linking.discovery import Discovery
from kglink.records import EntityId
from kglink.text.fold import fold
from kglink.workspace import Workspace
from kglink.workspace.discover import Promoted
from kglink.workspace.discoveries import names_of_discoveries
from kglink.workspace.folder import PROMOTED
from review_support import Terminal
from rights import as_a_plain_user

LETTERS = ROOT / "docs" / "examples" / "harbour-letters"
TITLES = {"Alwyn Teague", "Carrick Roads Passage Company", "Dr Ottilie Pemberthy"}


@pytest.fixture(scope="module")
def discovered(tmp_path_factory: pytest.TempPathFactory, demo_master: Path) -> Path:
    folder = tmp_path_factory.mktemp("world") / "demo"
    shutil.copytree(demo_master, folder)
    with Workspace.open(folder) as workspace:
        workspace.discover(workspace.texts(LETTERS))
    return folder


@pytest.fixture
def world(discovered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "world"
    shutil.copytree(discovered, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    return folder


def listed(kglink: Kglink, *options: str) -> dict[str, Any]:
    return {one["title"]: one for one in json.loads(kglink("discover", *options, "--json").out)}


def test_the_page_shows_what_the_letters_speak_of(world: Path, kglink: Kglink) -> None:
    found = json.loads(kglink("discover", "--json").out)
    page = (ROOT / "docs" / "discover.md").read_text("utf-8")
    mentions = sum(one["mentions"] for one in found)
    assert f"found      {len(found)} things in {mentions} mentions" in page
    shown = [line.split("  ")[0] for line in page.splitlines() if line.startswith("new-")]
    assert shown == [one["id"] for one in found]


def test_letters_speak_of_four_things_that_no_kb_has(world: Path, kglink: Kglink) -> None:
    found = listed(kglink, "--mentions", "2")
    assert found.keys() == {*TITLES, "Wenna"}
    teague = found["Alwyn Teague"]
    assert teague["names"] == ["Alwyn Teague", "Teague"]
    assert (teague["mentions"], teague["documents"], teague["answer"]) == (4, 2, None)
    assert "CRPC" in found["Carrick Roads Passage Company"]["names"]
    assert "Ottilie Pemberthy" in found["Dr Ottilie Pemberthy"]["names"]
    for example in teague["examples"]:
        text = (LETTERS / example["document"]).read_text("utf-8")
        assert text[example["start"] : example["end"]] == example["text"]
        assert example["text"] in example["sentence"]
    table = kglink("discover").out
    assert "Alwyn Teague" in table
    assert teague["id"] in table


def test_what_is_accepted_is_linked_by_the_next_command(world: Path, kglink: Kglink) -> None:
    found = listed(kglink)
    said = [f"--answer={found[title]['id']}=accept" for title in sorted(TITLES)]
    said.append(f"--answer={found['Brittany']['id']}=reject")
    assert "Brittany" not in kglink("discover", *said).out
    assert "Brittany" in kglink("discover", "--all").out
    promoted = json.loads(kglink("promote", "--json").out)
    assert {one["title"] for one in promoted["entities"]} == TITLES
    linked = json.loads(kglink("link", LETTERS / "3-pigeons.txt", "--format", "jsonl").out)
    first = next(one for one in linked["entities"] if one["text"] == "Alwyn Teague")
    assert (first["kb"], first["key"]) == ("discovered", found["Alwyn Teague"]["id"])
    again = json.loads(kglink("promote", "--json").out)
    assert again == promoted
    # The texts once more: what is known by now is not found again, and no answer is lost.
    kglink("discover", LETTERS)
    after = listed(kglink)
    assert {title: after[title]["id"] for title in TITLES} == {
        title: found[title]["id"] for title in TITLES
    }
    assert after["Alwyn Teague"]["answer"] == "accept"


def test_what_was_promoted_is_taken_back_wherever_it_went(world: Path) -> None:
    def names(entity: str) -> set[str]:
        return {one.surface for one in workspace.entity(entity).entity.aliases}

    with Workspace.open(world) as workspace:
        ids = {one.discovery.title: one.discovery.id for one in workspace.discovered()}
        teague, heron = ids["Alwyn Teague"], "encyclopedia:heron"
        own = names(heron)
        # A wrong link, corrected to another, and then to none.
        for answer in (heron, "encyclopedia:cornwall"):
            workspace.judge_discovery(teague, "link", answer)
            assert workspace.promote().renamed
            assert "Alwyn Teague" in names(answer)
        assert names(heron) == own
        # Another KB than the one that is named now, and an answer that is taken back.
        workspace.judge_discovery(teague, "accept")
        workspace.promote("people")
        assert "Teague" not in names("encyclopedia:cornwall")
        assert workspace.entity(f"people:{teague}").entity.title == "Alwyn Teague"
        # What is in a KB stays there, whatever KB is named for the rest.
        assert [str(one) for one in workspace.promote().entities] == [f"people:{teague}"]
        assert PROMOTED not in {kb.name for kb in workspace.kbs()}
        workspace.judge_discovery(teague, None)
        assert [str(one) for one in workspace.promote().removed] == [f"people:{teague}"]
        assert "people" not in {kb.name for kb in workspace.kbs()}
        assert workspace.promote() == Promoted((), ())


def test_a_linked_entity_that_goes_and_comes_back_holds_nothing_up(
    world: Path, kglink: Kglink
) -> None:
    found = listed(kglink)
    teague, doctor = found["Alwyn Teague"]["id"], found["Dr Ottilie Pemberthy"]["id"]
    kglink("discover", f"--answer={doctor}=accept", f"--answer={teague}=encyclopedia:heron")
    with Workspace.open(world) as workspace:
        heron = workspace.entity("encyclopedia:heron").entity
        workspace.remove_entity("encyclopedia:heron")
        assert workspace.promote().lost == (teague,)
        assert workspace.entity(f"discovered:{doctor}")
        assert f"--answer {teague}=accept, or {teague}=kb:key" in kglink("promote").err
        workspace.add_entity("encyclopedia", heron)
        more = world / "more.jsonl"
        merged = ("add-kb", "encyclopedia", more, "--merge")
        more.write_text('{"id": "new", "title": "New"}\n', encoding="utf-8")
        lacking = "kglink promote: entities of encyclopedia lack names of discoveries"
        assert lacking in kglink(*merged).err
        assert workspace.promote().renamed == (EntityId("encyclopedia", "heron"),)
        assert lacking not in kglink(*merged).err


def test_what_was_accepted_keeps_its_names_when_other_texts_are_read(world: Path) -> None:
    with Workspace.open(world) as workspace:
        name = "Carrick Roads Passage Company"
        before = {one.discovery.title: one.discovery for one in workspace.discovered()}[name]
        workspace.judge_discovery(before.id, "accept")
        (one,) = workspace.discover("We sailed with CRPC today.")
        assert (one.discovery.id, one.discovery.title) == (before.id, name)
        assert {*before.names} <= {*one.discovery.names}
        assert before.examples[0] in one.discovery.examples
        workspace.promote()
        promoted = workspace.entity(f"discovered:{before.id}").entity
        assert promoted.title == name
        assert "CRPC" in {alias.surface for alias in promoted.aliases}


def test_the_same_texts_twice_are_the_same_discoveries(world: Path) -> None:
    with Workspace.open(world) as workspace:
        before = workspace.discovered()
        assert workspace.discover(workspace.texts(LETTERS)) == before
        assert workspace.discovered() == before


def test_nil_mentions_bear_their_id_in_every_format(world: Path) -> None:
    flags = {"link.detector": ("dictionary", "capitals")}
    with Workspace.open(world, flags=flags) as workspace:
        (id_,) = (
            one.discovery.id
            for one in workspace.discovered()
            if one.discovery.title == "Alwyn Teague"
        )
        linked = list(workspace.link(workspace.texts(LETTERS / "1-ferry.txt")))
        for name in ("csv", "json", "jsonl", "pubtator", "brat", "html", "table"):
            out = io.StringIO()
            workspace.registry.create("exporter", f"kglink/{name}").export(linked, out)
            assert id_ in out.getvalue(), name


def test_merged_and_linked_discoveries_give_their_names(world: Path, kglink: Kglink) -> None:
    found = listed(kglink)
    teague, doctor = found["Alwyn Teague"]["id"], found["Dr Ottilie Pemberthy"]["id"]
    brittany = found["Brittany"]["id"]
    refused = kglink(*("discover", f"--answer={teague}=accept", "--answer=nosuch=accept"), code=2)
    assert "unknown discovery 'nosuch'" in refused.err
    assert listed(kglink)["Alwyn Teague"]["answer"] is None
    kglink(
        "discover", f"--answer={teague}={doctor}", f"--answer={doctor}=accept",
        f"--answer={brittany}=encyclopedia:cornwall",
    )  # fmt: skip
    done = json.loads(kglink("promote", "--kb", "people", "--json").out)
    assert [one["key"] for one in done["entities"]] == [doctor]
    assert [one["key"] for one in done["renamed"]] == ["cornwall"]
    with Workspace.open(world) as workspace:
        made = workspace.entity(f"people:{doctor}").entity
        assert made.title == "Dr Ottilie Pemberthy"
        assert {"Alwyn Teague", "Teague"} <= {one.surface for one in made.aliases}
        names = {one.surface for one in workspace.entity("encyclopedia:cornwall").entity.aliases}
        assert "Brittany" in names
    assert json.loads(kglink("promote", "--kb", "people", "--json").out)["renamed"] == []


def test_another_answer_takes_back_what_was_promoted(world: Path, kglink: Kglink) -> None:
    found = listed(kglink)
    teague, doctor = found["Alwyn Teague"]["id"], found["Dr Ottilie Pemberthy"]["id"]
    kglink("discover", f"--answer={teague}=accept", f"--answer={doctor}=accept")
    assert len(json.loads(kglink("promote", "--json").out)["entities"]) == 2
    kglink("discover", f"--answer={teague}={doctor}")
    done = json.loads(kglink("promote", "--json").out)
    assert [one["key"] for one in done["removed"]] == [teague]
    kglink("discover", f"--answer={doctor}=reject")
    ran = kglink("promote")
    assert f"discovered:{doctor}: it is accepted no longer" in ran.err
    with Workspace.open(world) as workspace:
        assert PROMOTED not in {kb.name for kb in workspace.kbs()}
        assert workspace.promote() == Promoted((), ())


def test_merges_are_followed_to_their_end(world: Path) -> None:
    with Workspace.open(world) as workspace:
        first, second, third = (one.discovery for one in workspace.discovered()[:3])
        workspace.judge_discovery(first.id, "merge", second.id)
        workspace.judge_discovery(second.id, "merge", third.id)
        names = names_of_discoveries(world)
        assert {names[fold(one.title)] for one in (first, second, third)} == {third.id}
        workspace.discover(["Nothing of note is here."])
        kept = {one.discovery.id for one in workspace.discovered()}
        assert kept >= {first.id, second.id, third.id}  # also the one that nobody judged
        workspace.judge_discovery(third.id, "reject")
        assert fold(first.title) not in names_of_discoveries(world)


def test_answers_that_mean_nothing_are_refused(world: Path) -> None:
    with Workspace.open(world) as workspace:
        one, other, *_ = (each.discovery.id for each in workspace.discovered())
        with pytest.raises(UnknownNameError, match="new-none"):
            workspace.judge_discovery("new-none", "accept")
        with pytest.raises(UnknownNameError, match="other discovery"):
            workspace.judge_discovery(one, "merge", one)
        with pytest.raises(UnknownNameError, match="entity"):
            workspace.judge_discovery(one, "link", "encyclopedia:none")
        with pytest.raises(UsageError, match="takes nothing besides"):
            workspace.judge_discovery(one, "accept", other)
        workspace.judge_discovery(one, "merge", other)
        with pytest.raises(UsageError, match="merged with each other"):
            workspace.judge_discovery(other, "merge", one)
        assert workspace.judge_discovery(one, None).judged is None
        assert not any(each.judged for each in workspace.discovered())


def test_bad_input_is_told_in_a_sentence(world: Path, kglink: Kglink) -> None:
    assert "says nothing of a discovery" in kglink("discover", "--answer", "x", code=2).err
    assert "needs a terminal" in kglink("discover", "--review", code=2).err
    assert "which texts?" in kglink("discover", "--kb", "encyclopedia", code=2).err
    (world / "discoveries.json").write_text("{", "utf-8")
    assert "discoveries.json" in kglink("discover", code=1).err
    assert "discover again" in kglink("promote", code=1).err


def test_nothing_is_found_where_nothing_is(tmp_path: Path, world: Path, kglink: Kglink) -> None:
    (tmp_path / "empty.txt").write_text("", "utf-8")
    assert "0 things" in kglink("discover", tmp_path / "empty.txt").err
    assert "was accepted yet" in kglink("promote").err


def test_a_damaged_file_is_an_error_for_programs_too(world: Path) -> None:
    (world / "discoveries.json").write_text('{"format": 9}', "utf-8")
    with Workspace.open(world) as workspace, pytest.raises(KglinkError, match="newer"):
        workspace.discovered()


def test_a_review_in_a_terminal(world: Path) -> None:
    with Terminal("--review", "--json", command=("discover",)) as terminal:
        shown = terminal.expect("[q]uit")
        assert "4 mentions in 2 texts" in shown
        terminal.press("z")
        terminal.expect("nothing to take back")
        terminal.expect("[q]uit")
        terminal.press("a")
        terminal.expect("accepted")
        terminal.expect("[q]uit")
        terminal.press("l")
        terminal.expect("which one?")
        terminal.press("1")
        terminal.expect("is ")
        terminal.expect("[q]uit")
        terminal.press("z")
        terminal.expect("taken back")
        terminal.expect("[q]uit")
        terminal.press("m")
        terminal.expect("which one?")
        terminal.press("x")
        terminal.expect("[q]uit")
        terminal.press("r")
        terminal.expect("rejected")
        terminal.expect("[q]uit")
        terminal.press("q")
        code, out = terminal.end()
    assert code == 0
    answers = [one["answer"] for one in json.loads(out)]
    assert answers[0] == "accept"
    assert answers.count(None) == len(answers) - 1
    with Workspace.open(world) as workspace:
        said = [one.judged.answer for one in workspace.discovered() if one.judged]
    assert said == ["accept", "reject"]


def test_a_discovery_says_itself_as_json(world: Path) -> None:
    with Workspace.open(world) as workspace:
        one = workspace.discovered()[0].discovery
    assert isinstance(one, Discovery)
    assert list(one.as_json()) == [
        "id", "title", "names", "type", "confidence", "mentions", "documents", "examples",
        "nearest",
    ]  # fmt: skip


def test_what_an_earlier_version_found_is_still_read(world: Path) -> None:
    """As kglink 0.1.0 writes it; links bear the ids, so a file unread would end all linking."""
    found = {
        "id": "abc", "title": "Zorbanek", "names": ["Zorbanek"], "type": "", "confidence": 0.9,
        "mentions": 1, "documents": 1, "nearest": [[["encyclopedia", "heron"], "Heron"]],
        "examples": [
            {"document": "1", "start": 0, "end": 8, "surface": "Zorbanek", "sentence": "Zorbanek."}
        ],
    }  # fmt: skip
    (world / "discoveries.json").write_text(
        json.dumps({"format": 1, "found": [found], "answers": {}}), "utf-8"
    )
    with Workspace.open(world) as workspace:
        (one,) = workspace.discovered()
        known = one.discovery
        assert (known.title, known.examples[0].surface) == ("Zorbanek", "Zorbanek")
        (document,) = workspace.link("Zorbanek spoke.")
    assert document.id


def test_a_workspace_that_may_not_be_written_is_told_before_texts_are_read(world: Path) -> None:
    def texts() -> Iterator[str]:
        pytest.fail("a text was read")
        yield ""

    def discover() -> None:
        with Workspace.open(world) as workspace:
            workspace.discover(texts())

    (lock,) = world.glob(".discover*.lock")
    lock.chmod(0o400)
    with pytest.raises(KglinkError, match=f"workspace {world} may not be written: ") as caught:
        as_a_plain_user(discover)
    assert "Check the rights of file and folder" in caught.value.hint
