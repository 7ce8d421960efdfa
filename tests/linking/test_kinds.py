"""What retrieval says for a candidate, each kind of evidence by hand; no kind without a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from kglink.linking.kinds import RETRIEVED
from kglink.linking.names import _written_so
from kglink.linking.scoring import NAME_SCORING
from kglink.records import Alias, Document, Entity, EntityId, Mention, MentionInText
from kglink.workspace import Workspace

TEXT = "A Heron stood in the reeds. The spoonbill (SPB) had left, and one of the egrets too."
WADERS = [
    Entity("bird", "Grey heron", "A grey bird of the reeds.",
           aliases=(Alias("Heron", "anchor", 61), Alias("big heron")), popularity=9),
    Entity("person", "Isolde", "Keeper of a lighthouse.", aliases=(Alias("heron", "anchor", 21),),
           popularity=4),
    Entity("spoonbill", "Spoonbill", "A white bird."),
    Entity("egret", "Egret", "A small white bird."),
]  # fmt: skip
SAME = [Entity("ardea", "Ardea cinerea", "A grey bird of the reeds."), Entity("x", "Xylophone")]
ASKED = "numbers", "document", "broader", "siblings"  # tests/plugins/test_candidate_evidence.py


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder: Path = tmp_path_factory.mktemp("kinds")
    with Workspace.open(folder / "workspace", create=True) as opened:
        opened.add_kb("waders", WADERS)
        opened.add_kb("latin", SAME)
        opened.build()
        opened.store.set_verdict(EntityId("waders", "bird"), EntityId("latin", "ardea"), "correct")
        # "egret" meant the egret in three documents, and nothing of "waders" in one.
        golds = [(EntityId("waders", "egret"),)] * 3 + [()]
        opened.add_kb(
            "notes",
            [Document(str(at), f"{at} egret", (Mention(2, 7, "egret", gold),))
             for at, gold in enumerate(golds)],
            links_to=["waders"],
        )  # fmt: skip
        opened.learn("notes")
        yield opened


def evidence(workspace: Workspace, surface: str) -> Mapping[str, Mapping[str, float]]:
    """For each candidate in both KBs its evidence, by kind."""
    start = TEXT.index(surface)
    mention = MentionInText(TEXT, start, start + len(surface), "d")
    (found,) = workspace.linker()._search.find([mention], ["waders", "latin"])
    return {one.id.key: {**one.evidence, "score": one.score, **_parts(one.parts)}
            for by_kb in found.values() for one in by_kb}  # fmt: skip


def _parts(parts: Mapping[str, float]) -> dict[str, float]:
    return {f"part {kind}": value for kind, value in parts.items()}


def test_name_and_similar(workspace: Workspace) -> None:
    found = evidence(workspace, "egrets")["egret"]
    names = workspace.space().segments["waders"].names
    ((rows, cosines),) = names.similar(["egrets"], 1)
    assert workspace.space().segments["waders"].surfaces[rows[0]] == "Egret"
    assert found["name"] == pytest.approx(cosines[0], abs=1e-4)
    assert 0.3 < found["name"] < 1
    assert found["similar"] == pytest.approx(found["name"] ** 4, abs=1e-4)
    assert evidence(workspace, "spoonbill")["spoonbill"]["name"] == 1


def test_exact_title_and_case(workspace: Workspace) -> None:
    told = {key: [one[kind] for kind in ("exact", "title", "case")]
            for key, one in evidence(workspace, "Heron").items()}  # fmt: skip
    assert told["bird"] == [1, 0, 1]
    assert told["person"] == [1, 0, 0]
    assert told["ardea"] == [0, 0, 0]
    spoonbill = evidence(workspace, "spoonbill")["spoonbill"]
    assert [spoonbill[kind] for kind in ("exact", "title", "case")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("surface", "name"),
    [
        ("Grey\r\n  heron", "Grey heron"),
        ("\u0645\u06cc\u200c\u0634\u0648\u062f", "\u0645\u06cc\u200c\u0634\u0648\u062f"),
        ("GREY\nHERON HERE", "Grey heron here"),
        ("Gra\u0308y\u200e h\xaderon", "\ufeffGr\xe4y\xa0heron"),
        ("O\u2019Hare\u2013Grey", "O'Hare-Grey"),
        ("THE HERON\u2019S REST", "The Heron\u2019s Rest"),
        ("O'Hare-Grey", "O\u02bcHare\u2013Grey"),
    ],
)
def test_a_name_is_written_so_in_any_layout(surface: str, name: str) -> None:
    assert _written_so(surface, [name, "grey  heron", f"{name}³"]).tolist() == [1, 0, 0]


def test_alias_is_the_nearest_name(workspace: Workspace) -> None:
    mention, *names = workspace.encoder.encode(["Heron", "Grey heron", "Heron", "big heron"])
    found = evidence(workspace, "Heron")
    assert found["bird"]["alias"] == pytest.approx(max(names @ mention), abs=0.01)
    (other,) = workspace.encoder.encode(["Ardea cinerea"])
    assert found["ardea"]["alias"] == pytest.approx(other @ mention, abs=0.01)


def test_context_and_named_context(workspace: Workspace) -> None:
    # All of the text is one window; an untrained encoder is asked where a name is borne twice.
    (window,) = workspace.encoder.encode([TEXT])
    segment = workspace.space().segments["waders"]
    found = evidence(workspace, "Heron")
    for key in ("bird", "person"):
        cosine = float(segment.vectors("text", np.array([segment.row(key)]))[0] @ window)
        assert found[key]["context"] == pytest.approx(cosine, abs=0.01)
        assert found[key]["named_context"] == found[key]["context"]
    assert found["egret"]["named_context"] == 0


def test_expanded(workspace: Workspace) -> None:
    told = {key: one["expanded"] for key, one in evidence(workspace, "SPB").items()}
    assert told.pop("spoonbill") == 1
    assert set(told.values()) == {0}


def test_common_is_the_share_of_counted_uses(workspace: Workspace) -> None:
    # A name that nobody counted has the count one: 60 and 20 uses, beside 20 that nobody saw.
    # To be the title is one use.
    found = evidence(workspace, "Heron")
    assert found["bird"]["common"] == pytest.approx(60 / 100)
    assert found["person"]["common"] == pytest.approx(20 / 100)
    assert evidence(workspace, "spoonbill")["spoonbill"]["common"] == pytest.approx(
        1 / 21, abs=1e-4
    )
    assert found["egret"]["common"] == 0


def test_common_says_nothing_between_kbs(tmp_path: Path) -> None:
    # An encyclopedia whose links nobody counted is no less meant than a wiki that counts them.
    nairobi = (Alias("Nairobi", "anchor", 81),)
    flags = {"space.name": "names", "link.found_by": "names"}
    with Workspace.open(tmp_path, create=True, flags=flags) as opened:
        opened.add_kb("series", [Entity("agent", "Agatha", aliases=nairobi)])
        opened.add_kb("atlas", [Entity("city", "Nairobi"), Entity("other", "Nairobi County")])
        (link,) = next(iter(opened.link(["They flew to Nairobi."]))).links
    told = {one.id.key: one.evidence["common"] for one in link.candidates}
    assert told == pytest.approx({"agent": 0.8, "city": 0.8, "other": 0}, abs=1e-3)


def test_rarer_is_how_far_a_thing_lies_behind_another_of_its_name(workspace: Workspace) -> None:
    # Nine and four, each counted once more, so that nothing is divided by zero.
    found = evidence(workspace, "Heron")
    assert found["bird"]["rarer"] == 0
    assert found["person"]["rarer"] == pytest.approx(5 / 10 - 1)
    assert NAME_SCORING.weights["rarer"] > 0
    # What has another name is no rival, and a KB that says nothing of popularity is silent.
    assert {found[key]["rarer"] for key in ("spoonbill", "egret", "ardea")} == {0}


def test_rarer_of_numbers_beyond_all_measure(tmp_path: Path) -> None:
    towns = [Entity("a", "Selwyn", popularity=1e300), Entity("b", "Selwyn", popularity=-3.0),
             Entity("c", "Selwyn")]  # fmt: skip
    flags = {"space.name": "names", "link.found_by": "names"}
    with Workspace.open(tmp_path, create=True, flags=flags) as opened:
        opened.add_kb("towns", towns)
        (link,) = next(iter(opened.link(["They left for Selwyn."]))).links
    assert link.chosen is not None
    assert link.chosen.id.key == "a"
    assert [one.evidence["rarer"] for one in link.candidates] == [0, -1, -1]


def test_memory_and_nil(workspace: Workspace) -> None:
    # Four mentions of "egret", and one that means nothing; the plural was never seen.
    found = evidence(workspace, "egrets")
    assert found["egret"]["memory"] == pytest.approx(3 / 5)
    assert {one["nil"] for key, one in found.items() if key not in {"ardea", "x"}} == {1 / 5}
    assert found["bird"]["memory"] == 0
    assert {one["nil"] for one in evidence(workspace, "Heron").values()} == {0}


@pytest.mark.parametrize("times", [1, 20])
def test_that_a_name_of_a_kb_means_nothing_there_is_doubted(tmp_path: Path, times: int) -> None:
    """Notes speak of another Selwyn: one of them says little, twenty say more."""
    town = (Mention(4, 10, "Selwyn", ()), Mention(15, 18, "Rye", (EntityId("towns", "r"),)))
    notes = [Document(str(at), f"{at:02}: Selwyn and Rye.", town) for at in range(times)]
    with Workspace.open(tmp_path, create=True, flags={"space.name": "names"}) as opened:
        opened.add_kb(
            "towns", [Entity("s", "Selwyn"), Entity("r", "Rye"), Entity("x", "Selwyn Bay")]
        )
        opened.add_kb("notes", notes, links_to=["towns"])
        opened.learn("notes")
        opened.build()
        mention = MentionInText("Off to Selwyn.", 7, 13, "d")
        (found,) = opened.linker()._search.find([mention], ["towns"])
    sure = (times / (times + 1)) ** 2 / times + (times / (times + 1))
    assert found["towns"][0].evidence["nil"] == pytest.approx(
        min(1.0, sure) * times / (times + 20), abs=0.01
    )


def test_like_memory_is_what_like_words_meant(workspace: Workspace) -> None:
    # "egret" meant the bird three times of four; nobody annotated these words.
    found = evidence(workspace, "one of the egrets")
    known, asked = workspace.encoder.encode(["egret", "one of the egrets"])
    cosine = float(known @ asked)
    assert cosine > 0.6
    assert found["egret"]["like_memory"] == pytest.approx(cosine * (3 + 3 / 5) / 5, abs=1e-3)
    assert found["egret"]["memory"] == 0
    # Its own words are memory, and what several things are called is left to the text.
    assert evidence(workspace, "egrets")["egret"]["like_memory"] == 0
    assert {one["like_memory"] for one in evidence(workspace, "Heron").values()} == {0}


def test_counterpart_is_by_how_much_the_other_scores_higher(workspace: Workspace) -> None:
    found = evidence(workspace, "Heron")
    bird, ardea = found["bird"], found["ardea"]
    asked = sum(bird.get(f"part {kind}", 0) for kind in ASKED)
    own = ardea["score"] - ardea["part counterpart"]
    own -= sum(ardea.get(f"part {kind}", 0) for kind in ASKED)
    assert bird["counterpart"] == 0
    assert ardea["counterpart"] == pytest.approx(bird["score"] - asked - own, abs=1e-3)
    assert ardea["counterpart"] > 0.3
    assert found["x"]["counterpart"] == 0


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A series and an atlas that share two names, and a map with the names of the atlas."""
    series = ["Nairobi", "Berlin", "Tokyo Drift", "Helga", "Palermo Kid", "Marsel", "Bogota Man",
              "Raquel", "Arturo", "Gandia", "Alicia"]  # fmt: skip
    atlas = ["Nairobi", "Berlin", "Lagos", "Accra", "Dakar", "Tunis", "Cairo", "Rabat", "Lima",
             "Quito", "La Paz"]  # fmt: skip
    flags = {"space.name": "names", "link.found_by": "names"}
    folder: Path = tmp_path_factory.mktemp("beside")
    with Workspace.open(folder / "workspace", create=True, flags=flags) as opened:
        opened.add_kb("series", [Entity(name, name, popularity=1) for name in series])
        opened.add_kb("atlas", [Entity(name, name, popularity=9) for name in atlas])
        opened.add_kb("map", [Entity(name, name, popularity=5) for name in atlas])
        yield opened


def subjects(workspace: Workspace, text: str, kbs: tuple[str, ...]) -> dict[str, float]:
    """The evidence `subject` of the candidates of "Nairobi" in a text."""
    found = next(iter(workspace.link([text], kbs=kbs))).links
    (own,) = [one for one in found if one.surface == "Nairobi"]
    return {one.id.kb: one.evidence["subject"] for one in own.candidates if one.title == "Nairobi"}


def test_subject_is_the_share_of_names_that_a_kb_alone_has(beside: Workspace) -> None:
    both = "series", "atlas"
    told = subjects(beside, "Helga and Raquel met Nairobi. Helga left Lagos.", both)
    # Two names of the series and one of the atlas, each counted once, and one more of each; how
    # sure a detected name is counts too.
    assert told["series"] == 0
    assert -1 / 2 < told["atlas"] < 0
    told = subjects(beside, "From Lagos and Accra to Nairobi.", both)
    assert told["atlas"] == 0 > told["series"]
    # A text that says nothing, names that both have, one KB alone, and KBs about the same things.
    assert set(subjects(beside, "Nairobi is far.", both).values()) == {0}
    assert set(subjects(beside, "Nairobi and Berlin.", both).values()) == {0}
    assert set(subjects(beside, "From Lagos to Nairobi.", ("atlas",)).values()) == {0}
    assert set(subjects(beside, "From Lagos to Nairobi.", ("atlas", "map")).values()) == {0}
    told = subjects(beside, "From Lagos to Nairobi.", ("series", "atlas", "map"))
    assert told["atlas"] == told["map"] == 0 > told["series"]


def test_subject_decides_between_kbs(beside: Workspace) -> None:
    def meant(text: str) -> str:
        found = next(iter(beside.link([text], kbs=("series", "atlas")))).links
        (own,) = [one for one in found if one.surface == "Nairobi"]
        return own.candidates[0].id.kb

    assert meant("Helga, Raquel and Alicia met Nairobi.") == "series"
    assert meant("Through Lagos, Accra and Tunis to Nairobi.") == "atlas"


def test_each_kind_has_a_test() -> None:
    tests = " ".join(name for name in globals() if name.startswith("test_"))
    assert not [one.name for one in RETRIEVED if one.name not in tests]
