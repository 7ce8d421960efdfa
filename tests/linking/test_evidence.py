"""Memory and counterparts as evidence: by hand, and in what `kglink link` answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Kglink

import kglink_cli
from kglink.linking.memory import Weighed, remembered, weighed
from kglink.linking.sameness import Counterparts
from kglink.records import CORRECTIONS, NIL, EntityId, Overlap
from kglink.store.occurrences import Meaning
from kglink.workspace import Workspace

BIRD, PERSON = EntityId("k", "bird"), EntityId("k", "person")


def test_sources_weigh_as_a_text_is_like_them() -> None:
    told = [
        Meaning("heron", "heron", BIRD, 4, "heron", 4, "ponds"),
        Meaning("heron", "heron", PERSON, 2, "Heron", 0, "novels"),
        Meaning("heron", "herons", BIRD, 1, "herons", 1, "novels"),
    ]
    once = Weighed("herons", BIRD, 1.0)
    heron = [Weighed("heron", BIRD, 4.0), Weighed("heron", PERSON, 2.0)]
    assert weighed(told, ()) == [*heron, once]
    assert weighed(told, (("novels", 0.5), ("ponds", 1.0))) == [
        heron[0], Weighed("heron", PERSON, 1.0), Weighed("herons", BIRD, 0.5),
    ]  # fmt: skip
    # What no other source knows counts as it is, however foreign its source is.
    assert weighed(told[1:], (("novels", 0.1), ("ponds", 1.0))) == [heron[1], once]
    assert weighed(told[1:], (("novels", 0.0), ("ponds", 1.0))) == [heron[1], once]
    # So does a source whose words nobody counted, such as corrections.
    assert weighed(told, (("novels", 0.0),)) == heron[:1]
    # In small letters the name of a person means a quarter as often what it meant with a capital.
    small = [heron[0], Weighed("heron", PERSON, 0.5), once]
    assert weighed(told, (), is_small=True) == small
    # What a person corrected counts however it is written.
    corrected = [Meaning("heron", "heron", PERSON, 10, "Heron", 0, CORRECTIONS)]
    assert weighed(corrected, (), is_small=True) == [Weighed("heron", PERSON, 10.0)]


def test_memory_by_hand() -> None:
    # "heron" meant the bird 3 times and nothing once; its plural meant the person once.
    told = [Weighed("heron", BIRD, 3), Weighed("heron", NIL, 1), Weighed("herons", PERSON, 1)]
    sure = remembered(told, "heron", "k")
    # All forms: 5 mentions and one of nothing; this form: 4 and one as all forms say.
    assert sure["bird"] == pytest.approx((3 + 3 / 6) / 5)
    assert sure["person"] == pytest.approx((1 / 6) / 5)
    # A form that was never seen knows what all forms say.
    assert remembered(told, "heron s", "k") == {
        "bird": pytest.approx(3 / 6), "person": pytest.approx(1 / 6), "": pytest.approx(1 / 6),
    }  # fmt: skip
    assert remembered(told, "heron", "another") == {"": pytest.approx((1 + 1 / 2) / 2)}
    assert remembered([Weighed("heron", BIRD, 1)], "heron", "k")["bird"] == pytest.approx(0.75)
    # Twice it meant nothing of this KB, but something of another one.
    elsewhere = [Weighed("heron", BIRD, 1), Weighed("heron", EntityId("k", ""), 2)]
    assert remembered(elsewhere, "heron", "k") == {
        "bird": pytest.approx((1 + 1 / 4) / 4), "": pytest.approx((2 + 2 / 4) / 4),
    }  # fmt: skip


def test_counterparts_are_rows_of_both_sides(demo_master: Path) -> None:
    with Workspace.open(demo_master) as workspace:
        segments = workspace.space().segments
        pairs = [("heron", "grey_heron", 0.9), ("heron", "isolde_heron", 0.6)]
        found = Counterparts.of(
            [
                Overlap(EntityId("encyclopedia", left), EntityId("lanternfall", right), sure)
                for left, right, sure in [*pairs, ("gone", "grey_heron", 1.0)]
            ],
            segments,
        )
        left, right = segments["encyclopedia"], segments["lanternfall"]
        rows = np.array([left.keys.index("amber"), left.keys.index("heron")])
        owner, others, sure = found.of_rows("encyclopedia", rows, "lanternfall")
        assert owner.tolist() == [1, 1]
        told = {right.keys[row]: float(p) for row, p in zip(others, sure, strict=True)}
        assert told == pytest.approx({"grey_heron": 0.9, "isolde_heron": 0.6})
        back = found.of_rows("lanternfall", others, "encyclopedia")
        assert {left.keys[row] for row in back[1]} == {"heron"}
        assert not Counterparts({})
        assert not len(Counterparts({}).of_rows("encyclopedia", rows, "lanternfall")[0])


# ------------------------------------------------------------------------------- journeys
TEXT = "The old [[wader]] stood in the pond."


def notes(folder: Path, count: int, key: str) -> Path:
    path = folder / f"{key}.jsonl"
    lines = [
        {"id": f"{key}{at}", "text": f"{at} wader there", "entities": [
            {"start": len(str(at)) + 1, "end": len(str(at)) + 6, "kb": "lanternfall", "key": key}]}
        for at in range(count)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def answer(kglink: Kglink) -> tuple[str | None, float]:
    ran = kglink("link", "-", "--marked", "--format", "json", stdin=TEXT)
    (link,) = json.loads(ran.out)[0]["entities"]
    return link["key"], link["confidence"]


@pytest.mark.slow
def test_ten_corrected_mentions_change_the_next_answer_and_forgetting_undoes_it(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    before = answer(kglink)
    assert before[0] != "isolde_heron"
    kglink("add-kb", "corrected", notes(tmp_path, 10, "isolde_heron"), "--links-to", "lanternfall")
    assert answer(kglink) == before
    ran = kglink("learn", "corrected", "--json")
    assert json.loads(ran.out) == [{"docs": "corrected", "surfaces": 1}]
    key, confidence = answer(kglink)
    assert key == "isolde_heron"
    assert confidence > 0.7
    assert kglink("learn").out == "corrected\t1 surface\n"
    kglink("forget", "corrected")
    assert answer(kglink) == before
    assert "corrected" in kglink("forget", "corrected", code=2).err
    assert "lanternfall" in kglink("learn", "lanternfall", code=2).err


def test_contradicting_documents_share_what_memory_says(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    for name, count in (("isolde_heron", 2), ("grey_heron", 8)):
        kglink("add-kb", f"of_{name}", notes(tmp_path, count, name), "--links-to", "lanternfall")
        kglink("learn", f"of_{name}")
    ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=TEXT)
    (link,) = json.loads(ran.out)[0]["entities"]
    found = {one["key"]: one["evidence"]["memory"] for one in link["candidates"]}
    assert found["grey_heron"] == pytest.approx((8 + 8 / 11) / 11, abs=1e-4)
    assert found["isolde_heron"] == pytest.approx((2 + 2 / 11) / 11, abs=1e-4)


def test_a_removed_kb_leaves_memory_that_names_nothing(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    kglink("add-kb", "corrected", notes(tmp_path, 3, "isolde_heron"), "--links-to", "lanternfall")
    kglink("learn", "corrected")
    kglink("kbs", "remove", "lanternfall", "--yes")
    key, _ = answer(kglink)
    assert key != "isolde_heron"


@pytest.mark.slow
def test_memory_of_a_kb_holds_under_its_own_name_alone(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    """Removed and added under another name it is not known; under its own it is known again."""
    data = Path(kglink_cli.__file__).parent / "demo_data" / "lanternfall.jsonl"
    kglink("add-kb", "corrected", notes(tmp_path, 10, "isolde_heron"), "--links-to", "lanternfall")
    kglink("learn", "corrected")
    before = answer(kglink)
    assert before[0] == "isolde_heron"
    kglink("kbs", "remove", "lanternfall", "--yes")
    kglink("add-kb", "renamed", data)
    assert answer(kglink)[0] != "isolde_heron"
    kglink("kbs", "remove", "renamed", "--yes")
    kglink("add-kb", "lanternfall", data)
    assert answer(kglink)[0] == "isolde_heron"


def test_words_that_are_like_remembered_ones_profit_from_them(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    """Nobody annotated "shy wader", but "wader" meant Isolde Heron ten times."""
    text = "The old [[shy wader]] stood in the pond."

    def told() -> dict[str, float]:
        ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=text)
        (link,) = json.loads(ran.out)[0]["entities"]
        return {one["key"]: one["evidence"]["like_memory"] for one in link["candidates"]}

    assert not any(told().values())
    kglink("add-kb", "corrected", notes(tmp_path, 10, "isolde_heron"), "--links-to", "lanternfall")
    kglink("learn", "corrected")
    found = told()
    with Workspace.open(demo_copy) as workspace:
        wader, bird = workspace.encoder.encode(["wader", "shy wader"])
        # What is judged does not remember itself.
        (part, *_) = workspace.store.documents("corrected")
        own = list(workspace.store.documents("corrected"))
        assert not workspace.store.memory_without(own).meanings(["wader"])["wader"]
        assert workspace.store.memory_without([part]).meanings(["wader"])["wader"]
    cosine = float(wader @ bird)
    assert found.pop("isolde_heron") == pytest.approx(cosine * (10 + 10 / 11) / 11, abs=2e-3)
    assert not any(found.values())
    kglink("forget", "corrected")
    assert not any(told().values())


def test_small_letters_say_less_of_what_had_a_capital(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    """Unless the text has no capitals at all."""
    text = "They say that Heron knows."
    place = {"start": 14, "end": 19, "gold": ["lanternfall:isolde_heron"]}
    path = tmp_path / "notes.jsonl"
    path.write_text(json.dumps({"id": "1", "text": text, "entities": [place]}), encoding="utf-8")
    kglink("add-kb", "noted", path, "--links-to", "lanternfall")
    kglink("learn", "noted")

    def told(text: str) -> float:
        ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=text)
        (link,) = json.loads(ran.out)[0]["entities"]
        found = {one["key"]: one["evidence"]["memory"] for one in link["candidates"]}
        return float(found["isolde_heron"])

    capital = told("Now [[Heron]] is here.")
    assert told("now [[heron]] is here.") == capital
    assert told("Now [[heron]] is here.") == pytest.approx(capital * (0.36 / 0.75), abs=1e-4)


def test_an_abbreviation_is_read_as_what_it_stands_for(demo_copy: Path, kglink: Kglink) -> None:
    text = "The Skerrow Light (SKL) burns. At night the [[SKL]] is seen from afar."
    ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=text)
    (link,) = json.loads(ran.out)[0]["entities"]
    assert link["candidates"][0]["key"] == "skerrow_light"
    plain = kglink(
        "link", "-", "--marked", "--format", "json", stdin="At night the [[SKL]] is seen from afar."
    )
    (other,) = json.loads(plain.out)[0]["entities"]
    assert other["key"] != "skerrow_light"


def test_a_kb_profits_from_what_is_known_of_its_counterparts(
    demo_copy: Path, kglink: Kglink, tmp_path: Path
) -> None:
    """Memory knows an entity of one KB; the same bird of the other KB is judged by it too."""
    kglink("add-kb", "corrected", notes(tmp_path, 10, "grey_heron"), "--links-to", "lanternfall")
    kglink("learn", "corrected")

    def counterpart() -> float:
        ran = kglink("link", "-", "--marked", "--format", "json", "--explain", stdin=TEXT)
        (link,) = json.loads(ran.out)[0]["entities"]
        found = {one["key"]: one["evidence"]["counterpart"] for one in link["candidates"]}
        assert found["grey_heron"] == 0
        return float(found.get("heron", 0.0))

    assert counterpart() > 0.2
    with Workspace.open(demo_copy) as workspace:
        workspace.store.set_verdict(
            EntityId("encyclopedia", "heron"), EntityId("lanternfall", "grey_heron"), "wrong"
        )
    assert counterpart() == 0
