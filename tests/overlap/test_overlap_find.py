"""Searches for overlaps: the paper's counts, all evidence, verdicts, runs and bad input."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kglink.config import OverlapSection
from kglink.errors import PluginError, UnknownNameError, UsageError
from kglink.overlap import scratch
from kglink.overlap.model import OverlapModel, Weight
from kglink.overlap.search import OverlapTools, find_all_overlaps, find_overlaps, train
from kglink.overlap.weigh import differences
from kglink.plugins import EntityPair, EntityVectors, PairedKBs, PairEvidence
from kglink.records import Alias, Document, Entity, EntityId, Overlap
from kglink.store import Store
from kglink_plugins.overlap_evidence.names import NameEvidence
from kglink_plugins.overlap_evidence.neighbours import DescriptionEvidence
from store_support import job

if TYPE_CHECKING:
    from kglink.plugins import FloatArray

MODEL = OverlapModel(
    name="default",
    evidence=("names", "description"),
    bias=-3.0,
    weights={
        "title": Weight(weight=1.0),
        "name": Weight(weight=3.0),
        "description": Weight(weight=4.0, absent=0.5),
        "descriptions_differ": Weight(weight=0.0),
    },
)


def angles(texts: Sequence[str]) -> FloatArray:
    """A text that ends in a number as the direction of so many degrees."""
    degrees = [float(text.split()[-1]) if text[-1:].isdigit() else 90.0 for text in texts]
    radians = np.deg2rad(np.array(degrees, np.float32))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


class NoSpace:
    """A workspace whose space is not built."""

    def __init__(self, *ready: str) -> None:
        self._ready = ready

    def at(self, store: Store) -> NoSpace:
        return self

    def ready(self, kb: str) -> bool:
        return kb in self._ready

    def get(self, kb: str, rows: str) -> EntityVectors | None:
        return None


class TitleAndName(NameEvidence):
    """The two values that `MODEL` has weights for."""

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        found = super().weigh(kbs, pairs)
        return [{name: values[name] for name in ("title", "name")} for values in found]


EVIDENCE: dict[str, Callable[[], PairEvidence]] = {
    "names": TitleAndName,
    "description": DescriptionEvidence,
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with both KBs, to be copied."""
    path = tmp_path_factory.mktemp("store") / "kglink.db"
    with Store.open(f"sqlite:///{path}") as store:
        add(store, "wiki", WIKI)
        add(store, "world", WORLD)
    return path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copytree(filled.parent, tmp_path, dirs_exist_ok=True)
    with Store.open(f"sqlite:///{tmp_path / filled.name}") as store:
        yield store


def add(store: Store, kb: str, records: Sequence[Entity | Document], fingerprint: str = "") -> None:
    store.ingest(job(kb, fingerprint=fingerprint or kb), records)


def tools(
    store: Store,
    evidence: Mapping[str, Callable[[], PairEvidence]] = EVIDENCE,
    model: OverlapModel = MODEL,
    **settings: object,
) -> OverlapTools:
    section = OverlapSection.model_validate(settings)
    space = NoSpace("wiki", "world")
    return OverlapTools(store, section, angles, "angles", space, evidence, model)


def kept(store: Store) -> dict[tuple[str, str], Overlap]:
    pairs = store.overlaps("wiki", "world")
    return {(pair.left.key, pair.right.key): pair for pair in pairs}


WIKI = [
    Entity("W1", "Dalek", "turned by 0"),
    Entity("W2", "Clara Oswald", "turned by 0"),
    Entity("W3", "Skaro", "turned by 0"),
    Entity("W4", "Nightmare", ""),
    Entity("W5", "Nobody else", "turned by 0"),
]
WORLD = [
    Entity("1", "Dalek", "turned by 30"),
    Entity("2", "Clara Oswald (Immortals)", "turned by 59"),
    Entity("3", "Skaro", "turned by 61"),
    Entity("4", "Nightmare", "turned by 0"),
    Entity("5", "dalek", "turned by 0"),
    Entity("6", "Robot", "turned by 10", aliases=(Alias("Dalek"),)),
]


# ------------------------------------------------------------------------- the paper's method
ALL_NAMES = ("title", "alias", "synonym", "redirect", "anchor")


def test_the_paper_compares_titles(store: Store) -> None:
    report = find_overlaps(tools(store, method="paper"), "wiki", "world")
    assert report.candidates == 4
    assert set(kept(store)) == {("W1", "1"), ("W2", "2")}


def test_a_search_says_how_it_differs_from_the_paper() -> None:
    default = OverlapSection(method="paper")
    assert differences(default) == [
        "encoder minilm, and the paper's is RoBERTa-large (Sentence-BERT): overlap.model"
    ]
    other = OverlapSection(
        threshold=0.6, names="folded", name_kinds=("title", "alias"), one_to_one=True
    )
    assert [text.split()[0] for text in differences(other)] == [
        *("encoder", "threshold", "names", "names", "one")
    ]


def test_the_paper_keeps_same_names_with_alike_descriptions(store: Store) -> None:
    """By hand: five pairs share a name; cos 30 and cos 59 are above .5, cos 61 is not.

    W4 has no description: the texts of both are compared, which the encoder puts at 90 and 0.
    """
    report = find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "wiki", "world")
    assert (report.candidates, report.kept) == (5, 3)
    assert (report.by_name, report.by_meaning_only) == (3, 0)
    assert list(kept(store)) == [("W1", "1"), ("W1", "6"), ("W2", "2")]
    dalek = kept(store)["W1", "1"]
    assert dalek.evidence == {"shared_names": 1, "description": round(math.cos(math.pi / 6), 4)}
    assert report.notes == (
        "1 of 5 pairs lack a description: their titles, types and other names were compared "
        "instead",
    )


@pytest.mark.parametrize(
    ("settings", "candidates", "pairs"),
    [
        ({"threshold": 0.48}, 5, {("W1", "1"), ("W1", "6"), ("W2", "2"), ("W3", "3")}),
        ({"threshold": 0.98}, 5, {("W1", "6")}),
        ({"threshold": 1.0}, 5, set()),
        ({"strip_disambiguator": False}, 4, {("W1", "1"), ("W1", "6")}),
        ({"name_kinds": ("title",)}, 4, {("W1", "1"), ("W2", "2")}),
        ({"names": "caseless"}, 6, {("W1", "1"), ("W1", "5"), ("W1", "6"), ("W2", "2")}),
    ],
)
def test_the_settings_of_the_paper(
    store: Store, settings: dict[str, Any], candidates: int, pairs: set[tuple[str, str]]
) -> None:
    report = find_overlaps(
        tools(store, method="paper", **{"name_kinds": ALL_NAMES, **settings}), "wiki", "world"
    )
    assert (report.candidates, set(kept(store))) == (candidates, pairs)


def test_either_order_of_the_kbs_finds_the_same(store: Store) -> None:
    find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "wiki", "world")
    before = kept(store)
    report = find_overlaps(tools(store, method="paper", name_kinds=ALL_NAMES), "world", "wiki")
    assert (report.left, report.right) == ("world", "wiki")
    assert kept(store) == before


def test_names_alone_read_no_description(store: Store) -> None:
    report = find_overlaps(tools(store, method="names", threshold=0.99), "wiki", "world")
    assert (report.candidates, report.kept, report.notes) == (5, 5, ())
    assert kept(store)["W3", "3"].evidence == {"shared_names": 1}


def test_one_to_one_keeps_no_entity_twice(store: Store) -> None:
    report = find_overlaps(
        tools(store, method="paper", name_kinds=ALL_NAMES, one_to_one=True), "wiki", "world"
    )
    assert report.kept == 2
    assert list(kept(store)) == [("W1", "6"), ("W2", "2")]


def test_a_name_that_too_many_bear_is_reported(store: Store) -> None:
    report = find_overlaps(tools(store, method="names", max_name_pairs=1), "wiki", "world")
    assert report.candidates == 3
    assert "'dalek'" in report.notes[0]


# -------------------------------------------------------------------------------- all evidence
class Neighbour:
    """Proposes Skaro's neighbour and weighs nothing but that."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from [("W5", "4"), ("W5", "4"), ("W1", "1")]

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"near": 1.0} if pair.left.key == "W5" else {} for pair in pairs]


WITH_NEAR = MODEL.model_copy(
    update={"weights": {**MODEL.weights, "near": Weight(weight=2.0), "rival": Weight(weight=-4.0)}}
)


def probability(odds: float) -> float:
    return round(1 / (1 + math.exp(-odds)), 4)


def meant(cosine: float) -> dict[str, float]:
    """The values of two descriptions that are alike."""
    return {"description": cosine, "descriptions_differ": 0}


@pytest.mark.parametrize("batch", [2, 4096])
def test_all_evidence_becomes_one_probability(
    store: Store, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "BATCH", batch)
    evidence = {**EVIDENCE, "near": Neighbour}
    report = find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    assert (report.candidates, report.kept) == (7, 7)
    found = kept(store)
    assert found["W1", "5"].probability == probability(-3 + 1 + 3 + 4)
    assert found["W1", "6"].evidence == {"title": 0, "name": 1, **meant(0.9848)}
    assert found["W5", "4"].evidence == {"title": 0, "name": 0, **meant(1), "near": 1}
    assert found["W5", "4"].probability == probability(-3 + 4 + 2)
    assert found["W4", "4"].probability == probability(-3 + 1 + 3 + 0.5)
    # A title without its bracket is a name to the folded join and to the evidence.
    assert (found["W2", "2"].evidence["title"], found["W2", "2"].evidence["name"]) == (0, 1)
    assert (report.by_name, report.by_meaning_only) == (6, 1)
    assert report.proposed_by == {"names": 6, "near": 2}
    assert report.model == "default"


def test_the_threshold_is_a_probability(store: Store) -> None:
    find_overlaps(tools(store, threshold=0.985), "wiki", "world")
    assert set(kept(store)) == {("W1", "1"), ("W1", "5")}


class Rival:
    """Of the second pass: the best probability of another pair of the left entity."""

    second_pass = True

    def __init__(self) -> None:
        self.seen_while_proposing: list[object] = []

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        self.seen_while_proposing = [kbs.probability("W1", "1"), *kbs.partners("left", "W1")]
        return iter(())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        assert self.seen_while_proposing == [None]
        return [self.rival(kbs, pair) for pair in pairs]

    def rival(self, kbs: PairedKBs, pair: EntityPair) -> Mapping[str, float]:
        mine = kbs.partners("left", pair.left.key)
        assert kbs.probability(pair.left.key, pair.right.key) == mine[pair.right.key]
        assert pair.left.key in kbs.partners("right", pair.right.key)
        others = [value for key, value in mine.items() if key != pair.right.key]
        return {"rival": max(others)} if others else {}


@pytest.mark.parametrize("batch", [1, 4096])
def test_the_second_pass_sees_what_the_first_one_found(
    store: Store, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "BATCH", batch)
    find_overlaps(tools(store, model=WITH_NEAR, threshold=0.0), "wiki", "world")
    first = kept(store)
    evidence = {**EVIDENCE, "rival": Rival}
    find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    second = kept(store)
    best = first["W1", "5"].probability
    assert second["W1", "1"].evidence["rival"] == best
    odds = WITH_NEAR.log_odds({**first["W1", "1"].evidence, "rival": best})
    assert second["W1", "1"].probability == probability(odds)
    assert second["W3", "3"] == first["W3", "3"]


class Through:
    """Proposes what a third KB says."""

    second_pass = False

    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from ((left, right) for left, right, _, _ in kbs.overlaps_through())

    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        said = {(left, right): p for left, right, _, p in kbs.overlaps_through()}
        return [{"near": said.get((pair.left.key, pair.right.key), 0.0)} for pair in pairs]


def test_a_third_kb_joins_two(store: Store) -> None:
    add(store, "a_third", [Entity("t", "Something"), Entity("u", "Else")])
    t, u = EntityId("a_third", "t"), EntityId("a_third", "u")
    w5, w3 = EntityId("wiki", "W5"), EntityId("wiki", "W3")
    store.save_overlaps("a_third", "wiki", [Overlap(t, w5, 0.9), Overlap(u, w3, 0.8)])
    to_world = [Overlap(t, EntityId("world", "6"), 0.5), Overlap(u, EntityId("world", "5"), 0.7)]
    store.save_overlaps("a_third", "world", to_world)
    store.set_verdict(u, EntityId("world", "5"), "wrong")
    evidence = {"through": Through}
    report = find_overlaps(tools(store, evidence, WITH_NEAR, threshold=0.0), "wiki", "world")
    assert report.candidates == 2
    assert {pair: one.evidence["near"] for pair, one in kept(store).items()} == {
        ("W5", "6"): 0.45,
        ("W3", "5"): 0.0,
    }


# ------------------------------------------------------------------------------------ verdicts
def judge(store: Store, left: str, right: str, verdict: str) -> None:
    pair = EntityId("wiki", left), EntityId("world", right)
    store.set_verdict(*pair, verdict)  # type: ignore[arg-type] # a text that is one


def test_verdicts_live_through_the_next_search(store: Store) -> None:
    judge(store, "W1", "5", "wrong")
    judge(store, "W4", "6", "correct")
    find_overlaps(tools(store), "wiki", "world")
    found = kept(store)
    assert found["W1", "5"].verdict == "wrong"
    assert found["W4", "6"].verdict == "correct"
    assert found["W1", "1"].verdict is None


def test_a_one_to_one_assignment_heeds_verdicts(store: Store) -> None:
    judge(store, "W1", "5", "wrong")
    judge(store, "W1", "6", "correct")
    find_overlaps(tools(store, one_to_one=True), "wiki", "world")
    fresh = {pair for pair, one in kept(store).items() if one.verdict is None}
    assert fresh == {("W2", "2"), ("W3", "3"), ("W4", "4")}


def test_a_pair_that_is_only_judged_is_not_found(store: Store) -> None:
    judge(store, "W4", "1", "correct")
    report = find_overlaps(tools(store, threshold=-1), "wiki", "world")
    assert kept(store)["W4", "1"].evidence == {}
    assert report.kept == len(kept(store)) - 1


def test_training_learns_from_judged_pairs_that_no_search_found(store: Store) -> None:
    """Everything with a close description is wrong here, everything else right."""
    for number in range(1, 6):
        for other in range(1, 7):
            close = number not in (4,) and other in (1, 4, 5, 6)
            judge(store, f"W{number}", str(other), "wrong" if close else "correct")
    trained = train(tools(store), prior=MODEL)
    assert (trained.correct, trained.wrong, trained.rivals) == (14, 16, 0)
    model = trained.model
    assert model.evidence == ("names", "description")
    assert model.weights["description"].weight < MODEL.weights["description"].weight
    assert model.weights["description"].absent > MODEL.weights["description"].absent
    assert "14 correct and 16 wrong" in model.title


def test_a_list_of_correct_pairs_teaches_by_what_it_does_not_hold(store: Store) -> None:
    more = [Entity(f"x{at}", f"Same {at}", "turned by 0") for at in range(8)]
    add(store, "wiki", [*WIKI, *more], fingerprint="2")
    add(store, "world", [*WORLD, *more, *(entity_like(one) for one in more)], fingerprint="2")
    for at in range(8):
        judge(store, f"x{at}", f"x{at}", "correct")
    trained = train(tools(store), prior=MODEL)
    assert (trained.correct, trained.wrong, trained.rivals) == (8, 0, 8)
    assert trained.model.weights["description"].weight > MODEL.weights["description"].weight


def entity_like(one: Entity) -> Entity:
    return Entity(f"{one.key}'", one.title, "turned by 90")


def test_too_few_verdicts_teach_nothing(store: Store) -> None:
    judge(store, "W1", "1", "correct")
    with pytest.raises(UsageError, match="1 pairs are judged correct and 0 wrong: too few"):
        train(tools(store), prior=MODEL)


# ---------------------------------------------------------------------------------------- runs
def test_what_did_not_change_is_not_sought_again(store: Store) -> None:
    add(store, "zoo", [Entity("z", "Dalek")])
    first = list(find_all_overlaps(tools(store)))
    assert [(one.left, one.right, one.current) for one in first] == [
        ("wiki", "world", False),
        ("wiki", "zoo", False),
        ("world", "zoo", False),
    ]
    again = list(find_all_overlaps(tools(store)))
    assert all(one.current for one in again)
    assert [one.kept for one in again] == [one.kept for one in first]
    assert [one.candidates for one in again] == [one.candidates for one in first]
    assert not any(one.current for one in find_all_overlaps(tools(store), fresh=True))


def test_only_the_changed_kb_is_compared_again(store: Store) -> None:
    add(store, "zoo", [Entity("z", "Dalek")])
    list(find_all_overlaps(tools(store)))
    add(store, "zoo", [Entity("z", "Dalek"), Entity("y", "Skaro")], fingerprint="2")
    again = list(find_all_overlaps(tools(store)))
    assert [one.left + one.right for one in again if one.current] == ["wikiworld"]


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "paper"},
        {"threshold": 0.7},
        {"one_to_one": True},
        {"max_name_pairs": 5},
        {"strip_disambiguator": False},
    ],
)
def test_other_settings_make_a_run_stale(store: Store, changed: dict[str, Any]) -> None:
    list(find_all_overlaps(tools(store)))
    assert not any(one.current for one in find_all_overlaps(tools(store, **changed)))


def test_another_model_and_other_evidence_make_a_run_stale(store: Store) -> None:
    list(find_all_overlaps(tools(store)))
    assert not any(one.current for one in find_all_overlaps(tools(store, model=WITH_NEAR)))
    list(find_all_overlaps(tools(store)))
    fewer = {"names": EVIDENCE["names"]}
    assert not any(one.current for one in find_all_overlaps(tools(store, fewer)))


def test_settings_that_a_method_does_not_read_change_nothing(store: Store) -> None:
    list(find_all_overlaps(tools(store, method="names")))
    again = find_all_overlaps(tools(store, method="names", threshold=0.9))
    assert all(one.current for one in again)


# ----------------------------------------------------------------------------------- bad input
def test_a_kb_that_is_replaced_while_it_is_searched_is_searched_again(store: Store) -> None:
    """Its new revision is none that it ever had."""
    find_overlaps(tools(store), "wiki", "world")

    class Replacing(TitleAndName):
        def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
            yield from super().propose(kbs)
            store.remove_kb("world")
            add(store, "world", WORLD[:2])

    evidence = EVIDENCE | {"names": Replacing}
    report = find_overlaps(tools(store, evidence), "wiki", "world")
    assert store.kb("world").revision == 2
    assert any(note.startswith("world has changed while it was searched") for note in report.notes)
    assert store.overlap_runs() == []
    (again,) = find_all_overlaps(tools(store))
    assert not again.current
    (again,) = find_all_overlaps(tools(store))
    assert again.current


def test_a_kb_with_itself(store: Store) -> None:
    with pytest.raises(UsageError, match="no overlap with itself"):
        find_overlaps(tools(store), "wiki", "wiki")


def test_an_unknown_kb(store: Store) -> None:
    with pytest.raises(UnknownNameError, match="wikki"):
        find_overlaps(tools(store), "wikki", "world")


def test_a_kb_without_entities(store: Store) -> None:
    add(store, "docs", [Document("d", "Dalek")])
    with pytest.raises(UsageError, match="'docs' has no entities"):
        find_overlaps(tools(store), "wiki", "docs")
    assert [one.left + one.right for one in find_all_overlaps(tools(store))] == ["wikiworld"]


def test_entities_without_descriptions_say_what_is_left(store: Store) -> None:
    add(store, "bare", [Entity("b", "Dalek")])
    report = find_overlaps(tools(store), "bare", "wiki")
    assert "no entity of bare has a description" in report.notes
    assert "1 of 1 pairs lack a description: what was left is names" in report.notes
    assert any("vectors of bare are not built" in note for note in report.notes)
    assert report.kept == 1


def test_evidence_that_proposes_nothing_is_told(store: Store) -> None:
    only = {"kglink/description": EVIDENCE["description"]}
    report = find_overlaps(tools(store, only), "wiki", "world")
    assert (report.candidates, report.kept) == (0, 0)
    assert "none of the evidence in use proposed a pair: description" in report.notes


def test_a_value_without_a_weight_is_told(store: Store) -> None:
    report = find_overlaps(tools(store, {**EVIDENCE, "near": Neighbour}), "wiki", "world")
    assert any("no weight for near" in note for note in report.notes)


class Short(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{}]


class NotANumber(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"near": math.nan} for _ in pairs]


class Twice(Neighbour):
    def weigh(self, kbs: PairedKBs, pairs: Sequence[EntityPair]) -> list[Mapping[str, float]]:
        return [{"name": 1.0} for _ in pairs]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Short, "'bad' weighs 7 pairs and answers for 1"),
        (NotANumber, "'bad' gives 'near' the value nan"),
        (Twice, "'bad' gives a value 'name', which other evidence gives as well"),
    ],
)
def test_wrong_evidence_is_blamed_and_changes_nothing(
    store: Store, wrong: Callable[[], PairEvidence], message: str
) -> None:
    find_overlaps(tools(store), "wiki", "world")
    before = kept(store)
    with pytest.raises(PluginError, match=message):
        find_overlaps(tools(store, {**EVIDENCE, "bad": wrong}), "wiki", "world")
    assert kept(store) == before


class Strangers(Neighbour):
    def propose(self, kbs: PairedKBs) -> Iterator[tuple[str, str]]:
        yield from [("W1", "1"), ("nobody", "1"), ("W1", "nobody")]


def test_pairs_of_entities_that_are_not_there_are_told(store: Store) -> None:
    report = find_overlaps(tools(store, {"strangers": Strangers}, WITH_NEAR), "wiki", "world")
    assert any(note.startswith("2 pairs name entities that are not in") for note in report.notes)
