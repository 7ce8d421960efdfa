"""`kglink review`: keys typed or piped, undo, kill -9, and what memory makes of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.records import CORRECTIONS, Span, TextInput
from kglink.text.fold import fold
from kglink.workspace import Workspace
from review_support import Terminal, unstyled

REVIEW = ("review",)
TEXT = "A kite was seen above Halley, and Mercury rose with the kite."


@pytest.fixture
def links(demo_copy: Path) -> Path:
    """The links of one text; names in it have several meanings."""
    path = demo_copy / "links.jsonl"
    with Workspace.open(demo_copy) as workspace:
        (linked,) = workspace.link([TextInput("letter", TEXT)])
    path.write_text(json.dumps(linked.as_json()) + "\n", encoding="utf-8")
    assert [one.surface for one in linked.links] == ["kite", "Halley", "Mercury", "kite"]
    return path


@pytest.fixture
def workspace(demo_copy: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_copy) as opened:
        yield opened


def said(workspace: Workspace) -> list[tuple[str, str | None, bool]]:
    return [
        (one.surface, str(one.entity) if one.entity else None, one.is_mention)
        for one in workspace.corrections()
    ]


def test_a_border_is_typed_as_a_keyboard_gives_it(workspace: Workspace, tmp_path: Path) -> None:
    text = "The Cafe\u0301 Halley is open."
    start = text.index("Halley")
    (linked,) = workspace.link([TextInput("letter", text, (Span(start, start + 6),))])
    path = tmp_path / "links.json"
    path.write_text(json.dumps(linked.as_json()), encoding="utf-8")
    with workspace.review_links(path) as review:
        moved = review.move("Caf\u00e9 Halley")
    assert text[moved.start : moved.end] == "Cafe\u0301 Halley"


@pytest.mark.slow
def test_a_review_in_a_terminal(links: Path, workspace: Workspace) -> None:
    with Terminal(str(links), "--json", command=REVIEW) as terminal:
        shown = unstyled(terminal.expect("[q]uit"))
        assert "1/4  letter" in shown
        assert TEXT in " ".join(shown.split())
        terminal.press("x")
        terminal.expect("no mention")
        terminal.expect("2/4")
        terminal.press("9")
        terminal.expect("there is no candidate '9'")
        terminal.expect("[q]uit")
        terminal.press("f")
        terminal.expect("kb:key:")
        terminal.press("nobody\x7f\x7f\x7f\x7f\x7f\x7flanternfall:juno_halley\r")
        terminal.expect("3/4")
        terminal.expect("[q]uit")
        terminal.press("b")
        terminal.expect("instead of 'Mercury'")
        terminal.press("nothing\r")
        terminal.expect("does not stand in the text where 'Mercury' does")
        terminal.expect("[q]uit")
        terminal.press("b")
        terminal.press("mercury ROSE\r")
        terminal.expect("[q]uit")
        terminal.press("1")
        terminal.expect("4/4")
        terminal.press("ézz")  # the border is taken back, and then the second answer
        terminal.expect("2/4")
        terminal.expect("[q]uit")
        terminal.press("n")
        terminal.expect("3/4")
        terminal.press("sq")
        code, out = terminal.end()
        assert code == 0
        assert terminal.settings() == terminal.before
    result = json.loads(out)
    counted = {name: result[name] for name in ("links", "no_mention", "NIL", "skipped", "open")}
    assert counted == {"links": 4, "no_mention": 1, "NIL": 1, "skipped": 1, "open": 2}
    assert said(workspace)[0] == ("kite", None, False)


def test_keys_may_be_piped_in(links: Path, workspace: Workspace, kglink: Kglink) -> None:
    keys = "a\nflanternfall:juno_halley\nbMercury rose\n1 ePapierdrachen größer\n"
    result = json.loads(kglink("review", links, "--json", stdin=keys).out)
    first = json.loads(links.read_text(encoding="utf-8"))["entities"][0]
    assert {name: result[name] for name in ("accepted", "other_entity", "other_border")} == {
        "accepted": 1, "other_entity": 1, "other_border": 1,
    }  # fmt: skip
    assert (result["new_entity"], result["open"], len(result["corrections"])) == (1, 0, 4)
    assert [one[:2] for one in said(workspace)] == [
        ("kite", f"{first['kb']}:{first['key']}"),
        ("Halley", "lanternfall:juno_halley"),
        ("Mercury rose", result["corrections"][2]["entity"]),
        ("kite", "discovered:papierdrachen_grosser"),
    ]
    assert workspace.store.memory_sources()[CORRECTIONS] >= 3
    (linked,) = workspace.link(TEXT)
    assert [one.surface for one in linked.links] == ["kite", "Halley", "Mercury rose", "kite"]
    assert str(linked.links[1].chosen and linked.links[1].chosen.id) == "lanternfall:juno_halley"
    again = kglink("review", links, stdin="")
    assert "4 links judged before" in again.err
    assert again.out == "0 links judged\n"


def test_undo_restores_everything(links: Path, workspace: Workspace, kglink: Kglink) -> None:
    before = [one.name for one in workspace.kbs()]
    kglink("review", links, stdin="e Drachen\nxnz" + "zzz")
    assert said(workspace) == []
    assert [one.name for one in workspace.kbs()] == before
    kglink("review", links, stdin="x")
    kept = said(workspace)
    kglink("review", links, stdin="bkite was seen above Halley\nnz")  # over what was said first
    assert said(workspace) == kept


def test_the_least_sure_come_first(links: Path, workspace: Workspace) -> None:
    with workspace.review_links(links, order="unsure") as review:
        sure = [one.confidence for one in review.links]
    assert sure == sorted(sure)


@pytest.mark.slow
def test_killed_in_the_middle(links: Path, workspace: Workspace) -> None:
    with Terminal(str(links), command=REVIEW) as terminal:
        terminal.expect("[q]uit")
        terminal.press("x")
        terminal.expect("2/4")
        terminal.press("n")
        terminal.expect("3/4")
        terminal.process.send_signal(signal.SIGKILL)
        assert terminal.end()[0] == -signal.SIGKILL
    assert said(workspace) == [("kite", None, False), ("Halley", None, True)]
    assert CORRECTIONS not in workspace.store.memory_sources()
    with Terminal(str(links), command=REVIEW) as terminal:
        terminal.expect("2 links judged before")
        terminal.expect("3/4")
        terminal.press("q")
        assert terminal.end()[0] == 0
    assert CORRECTIONS in workspace.store.memory_sources()


@pytest.mark.slow
def test_ten_corrections_change_other_texts(
    demo_copy: Path, workspace: Workspace, kglink: Kglink, tmp_path: Path
) -> None:
    """A person's journey: link a folder, correct ten links, link other texts anew.

    Words that nobody corrected are answered otherwise, and more answers are right.
    """
    documents = list(workspace.store.documents("docs"))
    read, others = documents[:60], documents[60:200]
    folder, path = tmp_path / "letters", tmp_path / "links.jsonl"
    folder.mkdir()
    for one in read:
        (folder / f"{one.id}.txt").write_text(one.text, encoding="utf-8")
    kglink("link", folder, "--format", "jsonl", "-o", path)
    golds = {one.id: one for one in read}
    keys, corrected, wrong = "", set(), 0
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        document = golds[Path(record["id"]).stem]
        for one in record["entities"]:
            marked = [
                mention for mention in document.mentions
                if (mention.start, mention.end) == (one["start"], one["end"])
            ]  # fmt: skip
            answer = f"{one['kb']}:{one['key']}"
            right = [str(gold) for mention in marked for gold in mention.gold or ()]
            if wrong == 10 or answer in right:
                keys += "s"
                continue
            wrong += 1
            corrected.add(fold(one["text"]))
            keys += f"f{right[0]}\n" if right else "x"
    assert wrong == 10

    def answers() -> dict[tuple[str, int, int], tuple[str, str]]:
        linked = workspace.link([TextInput(one.id, one.text) for one in others])
        return {
            (text.id, one.start, one.end): (one.surface, str(one.chosen.id))
            for text in linked for one in text.links if one.chosen
        }  # fmt: skip

    before = answers()
    result = json.loads(kglink("review", path, "--json", stdin=keys).out)
    assert len(result["corrections"]) == 10
    after = answers()
    changed = {
        (before.get(place) or after[place])[0]
        for place in before.keys() | after.keys()
        if before.get(place) != after.get(place)
    }
    assert any(fold(words) not in corrected for words in changed), changed
    marked_right = {
        (one.id, mention.start, mention.end, str(gold))
        for one in others for mention in one.mentions for gold in mention.gold or ()
    }  # fmt: skip

    def share(found: dict[tuple[str, int, int], tuple[str, str]]) -> float:
        return sum((*place, entity) in marked_right for place, (_, entity) in found.items()) / len(
            found
        )

    assert share(after) > share(before)


BAD = {
    "empty": ("", "is empty"),
    "cut off": ('{"id": "1", "text": "A ki', "line 1: the line is cut off"),
    "no JSON": ("id,text\n1,kite\n", "line 1: this is no JSON"),
    "a cut list": ("[\n" + json.dumps({"id": "1", "text": "", "entities": []}), "has no end"),
    "other records": ('{"id": "1", "text": "A kite"}', "entities: Field required"),
    "no links": ('{"id": "1", "text": "A kite", "entities": []}', "has no link"),
}


@pytest.mark.parametrize("why", BAD)
def test_a_file_that_holds_no_links(why: str, demo: Path, kglink: Kglink, tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text(BAD[why][0], encoding="utf-8")
    failed = kglink("review", path, code=1 if why == "empty" else 2)
    assert BAD[why][1] in failed.err
    assert "kglink link" in failed.err or why == "empty"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"text": TEXT.replace("seen", "noticed")}, "was changed after it was linked"),
        ({"text": "Short."}, "'kite' does not stand at 2 to 6"),
        ({"kb": "birds"}, "no such KB in this workspace"),
        ({"key": "nobody"}, "no KB has 4 of the entities"),
    ],
)
def test_links_that_do_not_fit(
    change: dict[str, str], told: str, links: Path, kglink: Kglink
) -> None:
    record = json.loads(links.read_text(encoding="utf-8"))
    for at, one in enumerate([record] if "text" in change else record["entities"]):
        one.update(
            {name: f"{told}{at}" if name == "key" else told for name, told in change.items()}
        )
    links.write_text(json.dumps(record), encoding="utf-8")
    assert told in kglink("review", links, code=2).err


def test_a_link_whose_entity_is_gone_is_judged_among_the_others(
    links: Path, workspace: Workspace, kglink: Kglink
) -> None:
    record = json.loads(links.read_text(encoding="utf-8"))
    record["entities"][1]["key"] = "gone"
    links.write_text(json.dumps(record), encoding="utf-8")
    failed = kglink("review", links, stdin="aa", code=2)
    assert "key 2 of standard input, 'a'" in failed.err
    assert ":gone" in failed.err
    assert json.loads(kglink("review", links, "--json", stdin="1aa").out)["open"] == 0


def test_a_gone_entity_is_shown_as_gone(links: Path, workspace: Workspace) -> None:
    record = json.loads(links.read_text(encoding="utf-8"))
    record["entities"][0]["key"] = "gone"
    links.write_text(json.dumps(record), encoding="utf-8")
    with Terminal(str(links), command=REVIEW) as terminal:
        assert "gone  (in no KB any more)" in unstyled(terminal.expect("[q]uit"))
        terminal.press("q")


def test_keys_that_cannot_be_meant(links: Path, workspace: Workspace, kglink: Kglink) -> None:
    failed = kglink("review", links, stdin="x?", code=2)
    assert "key 2 of standard input, '?': it means nothing" in failed.err
    assert len(said(workspace)) == 1
    assert "there is no candidate '9'" in kglink("review", links, stdin="9", code=2).err
    assert "unknown order" in kglink("review", links, "--order", "size", code=2).err
    assert "no entity is found by ''" in kglink("review", links, stdin="f\n", code=2).err


def test_a_list_of_links_is_read_too(demo_copy: Path, kglink: Kglink, tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    kglink("link", "-", "--format", "json", "-o", path, stdin=TEXT)
    assert json.loads(kglink("review", path, "--json", stdin="xxxx").out)["open"] == 0


def test_undo_brings_back_what_another_said_meanwhile(workspace: Workspace, links: Path) -> None:
    with workspace.review_links(links) as review:
        link = review.current
        assert link is not None
        with Workspace.open(workspace.folder) as other:
            own = other.correct(link.text, link.start, link.end, None, learnt=False)
        review.accept()
        assert [one.entity for one in workspace.corrections()] == [link.entity]
        review.undo()
        assert workspace.corrections() == [own]
