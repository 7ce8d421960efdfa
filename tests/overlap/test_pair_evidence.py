"""The built-in evidence of overlaps: values by hand, blocking against a brute-force twin."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from contract_cases import contract_for, failing_checks
from kglink.overlap.model import default_model
from kglink.overlap.names import folded_names
from kglink.plugins import EntityPair, PairedKBs, PairEvidence, Side, load_registry
from kglink.records import Alias, Entity
from kglink.testing import PairEvidenceContract
from kglink.testing.contracts.pair_evidence import ListedKBs
from kglink.text.fold import fold
from kglink.text.name_words import name_words, numbers_of
from kglink_plugins.overlap_evidence.fuzzy import NamePairs
from kglink_plugins.overlap_evidence.names import MOST_BEARERS_OF_A_CODE
from kglink_plugins.overlap_evidence.second_pass import (
    ParentEvidence,
    RivalEvidence,
    ThroughEvidence,
    log_odds,
)
from kglink_plugins.overlap_evidence.word_blocks import LEAST_ALIKE, quotas, similar_names
from kglink_plugins.overlap_evidence.word_space import Equivalents, WordSpace

DEFAULT = ("names", "fuzzy", "neighbours", "description", "type", "parents", "rivals")
ALL = (*DEFAULT, "through", "xrefs")


def make(name: str) -> PairEvidence:
    evidence: PairEvidence = load_registry().create("overlap-evidence", name)
    return evidence


def named(key: str, title: str, *others: str, **fields: object) -> Entity:
    return Entity(key, title, aliases=tuple(Alias(other) for other in others), **fields)  # type: ignore[arg-type]  # whatever an entity has


def weighed(name: str, kbs: PairedKBs, left: Entity, right: Entity) -> Mapping[str, float]:
    evidence = make(name)
    list(evidence.propose(kbs))
    return evidence.weigh(kbs, [EntityPair(left, right)])[0]


@pytest.mark.parametrize("name", ALL)
def test_all_evidence_keeps_the_contract(name: str, tmp_path: Path) -> None:
    contract = contract_for(PairEvidenceContract, lambda: make(name))
    assert failing_checks(contract, tmp_path) == {}


def test_descriptions_in_two_scripts_are_not_compared() -> None:
    russian = named(
        "1",
        "\u041c\u043e\u0441\u043a\u0432\u0430",
        description="\u0421\u0442\u043e\u043b\u0438\u0446\u0430",
    )
    german = named("1", "Moskau", description="Die gr\u00f6\u00dfte Stadt")
    kbs = ListedKBs([russian], [german])
    assert weighed("description", kbs, russian, german) == {}
    assert "description" in weighed("description", kbs, german, german)
    assert "description" in weighed("description", kbs, russian, russian)
    kana = named("1", "Akane", description="\u30a2\u30e1\u30ea\u30ab\u306e\u4ff3\u512a")
    signs = named("1", "Akane", description="\u6771\u4eac\u90fd\u306e\u4ff3\u512a")
    assert "description" in weighed("description", kbs, kana, signs)


def test_the_built_in_models_weigh_what_the_evidence_gives() -> None:
    whole = default_model()
    assert whole.evidence == tuple(f"kglink/{name}" for name in DEFAULT)
    core = default_model(["kglink/names", "kglink/description"])
    assert core.evidence == ("kglink/names", "kglink/description")
    assert default_model([*whole.evidence[1:], "kglink/xrefs"]) == whole
    parents = {"type": "t", "description": "d", "parents": ("p",)}
    left = [named("a", "b", **parents), named("p", "q")]
    kbs = ListedKBs(left, left, first_pass={("a", "a"): 0.5})
    for model in (whole, core):
        values: set[str] = set()
        for name in model.evidence:
            for entity in left:
                values |= weighed(name, kbs, entity, entity).keys()
        assert values == model.weights.keys()


# ------------------------------------------------------------------------------------ words
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tumours of the lung", "lung tumor"),
        ("anaemia, type II", "Anemia type 2"),
        ("oesophageal varices", "varices, esophageal"),
        ("Addison's disease", "Addison disease"),
        ("biopsies", "biopsy"),
        ("Diabetes mellitus 07", "diabetes mellitus VII"),
        ("stage 1A", "Stage I A"),
        ("a story of a girl", "story of the girl"),
        ("organisation", "organization"),
    ],
)
def test_spellings_of_a_name_have_the_same_words(one: str, other: str) -> None:
    assert sorted(name_words(fold(one))) == sorted(name_words(fold(other)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("virus", ["virus"]),
        ("sepsis", ["sepsis"]),
        ("glass", ["glass"]),
        ("vitamin a deficiency", ["vitamin", "a", "deficiency"]),
        ("the of", ["the", "of"]),
        ("i robot", ["i", "robot"]),
        ("", []),
        ("x linked", ["x", "linked"]),
    ],
)
def test_words_that_stay(name: str, words: list[str]) -> None:
    assert name_words(name) == words


def test_numbers_and_single_letters_tell_a_series_apart() -> None:
    assert numbers_of(["type", "2", "b", "12"]) == {"2", "b", "12"}


# ------------------------------------------------------------------------------------ names
def test_names_say_how_many_and_who_else() -> None:
    left = [named("l1", "Mercury", "Hermes", "Quicksilver"), named("l2", "Mercury (planet)")]
    right = [named("r1", "mercury", "hermes"), named("r2", "Mercury"), named("r3", "Venus")]
    kbs = ListedKBs(left, right)
    assert set(make("names").propose(kbs)) == {("l1", "r1"), ("l1", "r2")}
    # Mercury: l1, r1, r2, so one other; Hermes: nobody else. The rarest name counts.
    assert weighed("names", kbs, left[0], right[0]) == {
        "title": 1,
        "name": 1,
        "more_names": 0.25,
        "name_bearers": 0,
    }
    assert weighed("names", kbs, left[0], right[1])["name_bearers"] == pytest.approx(1 / 5)
    assert weighed("names", kbs, left[0], right[2]) == {
        "title": 0,
        "name": 0,
        "more_names": 0,
        "name_bearers": 0,
    }
    without_brackets = weighed("names", kbs, left[1], right[1])
    assert (without_brackets["title"], without_brackets["name"]) == (0, 1)


def test_a_name_that_was_passed_over_counts_as_borne_by_many() -> None:
    left, right = named("l", "Smith"), named("r", "Smith")
    evidence = make("names")
    list(evidence.propose(ListedKBs([named("x", "y")], [named("z", "y")])))
    kbs = ListedKBs([left], [right])
    assert evidence.weigh(kbs, [EntityPair(left, right)])[0]["name_bearers"] == 1


def test_the_names_that_are_compared_begin_with_the_title_and_the_most_frequent() -> None:
    entity = Entity("e", "Ada (writer)", aliases=(Alias("B", count=1), Alias("C", count=5)))
    assert folded_names(entity) == ["ada writer", "ada", "c", "b"]
    assert folded_names(entity, most=3) == ["ada writer", "ada", "c"]


def test_all_pairs_of_names() -> None:
    one, two = named("1", "a", "b"), named("2", "c")
    x, y = named("x", "p"), named("y", "q", "r")
    pairs = [EntityPair(one, y), EntityPair(two, x), EntityPair(one, x)]
    names = NamePairs.of(pairs)
    seen = [
        names.lefts[left] + names.rights[right]
        for left, right in zip(names.rows.left, names.rows.right, strict=True)
    ]
    assert seen == ["aq", "ar", "bq", "br", "cp", "ap", "bp"]
    assert names.rows.best(np.arange(7)).tolist() == [3, 4, 6]


# ------------------------------------------------------------------------------------ fuzzy
def test_words_that_stand_for_each_other_are_learnt() -> None:
    equivalents = Equivalents()
    for organ in ("cancer", "failure"):
        equivalents.learn([f"renal {organ}", f"kidney {organ}"])
    equivalents.learn(["renal stone", "stone"])
    buckets = {"renal": 0, "kidney": 1, "cancer": 2}
    matrix = equivalents.matrix(buckets, 3).toarray()
    # Renal was seen three times, twice kidney stood for it; two more weigh as doubt.
    assert matrix[0, 1] == pytest.approx(math.sqrt(2 / (3 + 2)))
    assert matrix[1, 0] == pytest.approx(math.sqrt(2 / (2 + 2)))
    assert np.count_nonzero(matrix) == 2


def test_names_without_a_common_word_or_too_different_teach_nothing() -> None:
    equivalents = Equivalents()
    equivalents.learn(["heart attack", "myocardial infarction"])
    equivalents.learn(["a1 b1 c1 d1 same", "a2 b2 c2 d2 same"])
    assert equivalents.words() == set()


def _organs() -> ListedKBs:
    parts = ("cancer", "failure", "stone", "cyst")
    left = [named(f"l{i}", f"renal {part}", f"kidney {part}") for i, part in enumerate(parts)]
    right = [
        named("r0", "Cancers of the Kidney"),
        named("r1", "kidneys"),
        named("r2", "renal ulcer 2"),
    ]
    return ListedKBs([*left, named("l9", "renal ulcer")], right)


def test_fuzzy_values() -> None:
    kbs = _organs()
    lefts = {entity.key: entity for entity in kbs.entities("left")}
    rights = {entity.key: entity for entity in kbs.entities("right")}
    same = weighed("fuzzy", kbs, lefts["l0"], rights["r0"])
    assert same["same_words"] == 1
    assert same["words"] == pytest.approx(1)
    assert same["spelling"] == 1
    assert same["other_numbers"] == pytest.approx(0)
    other = weighed("fuzzy", kbs, lefts["l9"], rights["r2"])
    assert other["same_words"] == 0
    # No two names agree in their numbers, so all of the likeness is lost.
    assert other["other_numbers"] == pytest.approx(other["words"])
    assert 0.5 < other["words"] < 1
    # Names of signs alone have no word in common, and no letter.
    signs = weighed("fuzzy", kbs, named("s", "???"), named("t", "!!!"))
    assert set(signs.values()) == {0}
    # Kidney stands for renal in these KBs; by letters they have nothing in common.
    learnt = weighed("fuzzy", kbs, lefts["l9"], rights["r1"])
    assert learnt["words"] > 0.3 > learnt["letters"]


def test_fuzzy_spelling_is_the_edit_similarity_of_sorted_words() -> None:
    left, right = named("l", "abcd xy"), named("r", "XY abce")
    # "abcd xy" and "abce xy": 14 characters, one of each side is not in the other.
    assert weighed("fuzzy", ListedKBs([left], [right]), left, right)["spelling"] == pytest.approx(
        (14 - 2) / 14
    )


def _random_kbs(seed: int, lefts: int, rights: int) -> ListedKBs:
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(60)] + ["common"] * 30

    def entity(key: str) -> Entity:
        names = [
            " ".join(rng.choices(words, k=rng.randint(1, 4))) for _ in range(rng.randint(1, 3))
        ]
        return named(key, *names)

    return ListedKBs(
        [entity(f"l{number:03}") for number in range(lefts)],
        [entity(f"r{number:03}") for number in range(rights)],
    )


@pytest.mark.parametrize(("lefts", "rights"), [(40, 90), (90, 40), (30, 30)])
def test_blocks_find_what_comparing_all_with_all_finds(lefts: int, rights: int) -> None:
    kbs = _random_kbs(7, lefts, rights)
    space = WordSpace(kbs)
    proposed = set(similar_names(kbs, space, k=3, max_block=10**9))
    small: Side = "left" if lefts <= rights else "right"
    large: Side = "right" if small == "left" else "left"
    rows = {one.key: folded_names(one) for one in kbs.entities(small)}
    others = {one.key: folded_names(one) for one in kbs.entities(large)}
    names, other_names = ([*itertools.chain(*side.values())] for side in (rows, others))
    products = (space.words(names) @ space.words(other_names, "plain").T).toarray()
    starts, other_starts = (
        [0, *itertools.accumulate(map(len, side.values()))][:-1] for side in (rows, others)
    )
    best = np.maximum.reduceat(np.maximum.reduceat(products, starts), other_starts, axis=1)
    scores = dict(zip(itertools.product(rows, others), best.ravel().tolist(), strict=True))
    of_small, of_large = quotas(3, min(lefts, rights), max(lefts, rights))
    for side, most in ((0, of_small), (1, of_large)):
        for key in {pair[side] for pair in scores}:
            ranked = sorted((-score, pair) for pair, score in scores.items() if pair[side] == key)
            # The last place may go to any of those with the same score.
            surely = [pair for score, pair in ranked if -score > LEAST_ALIKE][:most]
            clear = [pair for pair in surely if scores[pair] > -ranked[most][0] + 1e-5]
            wanted = {pair if small == "left" else pair[::-1] for pair in clear}
            assert wanted <= proposed
    assert all(scores[pair if small == "left" else pair[::-1]] > LEAST_ALIKE for pair in proposed)
    assert len(proposed) <= 2 * 3 * min(lefts, rights)


def test_a_word_that_too_many_bear_finds_no_pair_by_itself() -> None:
    left = [named(f"l{number}", "common name") for number in range(20)]
    right = [named(f"r{number}", "name, common") for number in range(20)]
    kbs = ListedKBs([*left, named("lx", "rare thing")], [*right, named("rx", "rare item")])
    space = WordSpace(kbs)
    assert len(set(similar_names(kbs, space, k=5, max_block=10**6))) > 20
    assert set(similar_names(kbs, space, k=5, max_block=100)) == {("lx", "rx")}


def test_a_large_kb_proposes_no_more_than_the_small_one() -> None:
    assert quotas(8, 1000, 2000) == (8, 4)
    assert quotas(8, 40_000, 5_900_000) == (8, 0)
    assert quotas(8, 0, 0) == (8, 0)


# ------------------------------------------------------------------------------- neighbours
def test_neighbours_are_cosines_of_rows() -> None:
    left = named("l", "red fox", "vulpes")
    right = named("r", "Red Fox", "renard")
    other = named("s", "grey wolf")
    kbs = ListedKBs([left, named("m", "brown bear")], [right, other])
    found = weighed("neighbours", kbs, left, right)
    vectors = kbs.encode(["red fox", "vulpes", "Red Fox", "renard"])
    means = [vectors[:2].sum(0), vectors[2:].sum(0)]
    cosine = means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1])
    assert found["near_names"] == pytest.approx(1, abs=1e-5)
    assert found["all_names"] == pytest.approx(cosine, abs=1e-5)
    texts = kbs.encode(["red fox; vulpes", "Red Fox; renard"])
    assert found["texts"] == pytest.approx(texts[0] @ texts[1], abs=1e-5)
    in_text = max((vectors[:2] @ texts[1]).max(), (vectors[2:] @ texts[0]).max())
    assert found["name_in_text"] == pytest.approx(in_text, abs=1e-5)
    assert ("l", "r") in set(make("neighbours").propose(kbs))


def test_without_a_space_neighbours_say_nothing() -> None:
    left, right = named("l", "a"), named("r", "a")
    assert weighed("neighbours", ListedKBs([left], [right], space=False), left, right) == {}


# ------------------------------------------------------------------- type, xrefs, description
def test_types_are_compared_where_both_have_one() -> None:
    person, human = named("l", "a", type="Person"), named("r", "a", type="human being")
    kbs = ListedKBs([person], [human])
    assert weighed("type", kbs, person, named("r", "a", type="person")) == {"type": 1}
    vectors = kbs.encode(["person", "human being"])
    assert weighed("type", kbs, person, human)["type"] == pytest.approx(
        float(vectors[0] @ vectors[1]), abs=1e-5
    )
    assert weighed("type", kbs, person, named("r", "a")) == {}


def test_cross_references_in_any_spelling() -> None:
    left = named("DOID:1", "a", xrefs=("MSH:D003920",))
    right = named("X:1", "b", xrefs=("MESH:D003920", "DOID:7"))
    third = named("X:2", "c", xrefs=("DOID:1",))
    kbs = ListedKBs([left], [right, third, named("X:3", "d")])
    assert set(make("xrefs").propose(kbs)) == {("DOID:1", "X:1"), ("DOID:1", "X:2")}
    # A code that a crowd of one KB names proposes nothing, whichever side the crowd is on.
    crowd = [named(f"L{at}", "a", xrefs=("X:9",)) for at in range(MOST_BEARERS_OF_A_CODE + 1)]
    alone = [named("R", "b", xrefs=("X:9",))]
    for sides in ((crowd, alone), (alone, crowd)):
        assert list(make("xrefs").propose(ListedKBs(*sides))) == []
    assert len(list(make("xrefs").propose(ListedKBs(crowd[1:], alone)))) == len(crowd) - 1
    assert weighed("xrefs", kbs, left, right) == {"xref": 1}
    assert weighed("xrefs", kbs, left, named("X:3", "d")) == {"xref": 0}
    assert weighed("xrefs", kbs, named("L", "a"), named("X:3", "d")) == {}


# ------------------------------------------------------------------------------ second pass
def test_log_odds_are_bounded() -> None:
    assert log_odds(0.5) == 0
    assert log_odds(1) == 8
    assert log_odds(0) == -8
    assert log_odds(0.75) == pytest.approx(math.log(3))


def test_rivals_lead() -> None:
    left = [named("l1", "a"), named("l2", "b")]
    right = [named("r1", "a"), named("r2", "b")]
    first = {("l1", "r1"): 0.75, ("l1", "r2"): 0.5, ("l2", "r2"): 0.75}
    kbs = ListedKBs(left, right, first_pass=first)
    evidence = RivalEvidence()
    lead = math.log(3) / 8
    best, rival = evidence.weigh(kbs, [EntityPair(left[0], one) for one in right])
    # Nothing rivals r1, so l1-r1 leads there by all that counts.
    assert best == pytest.approx({"worse_lead": lead, "better_lead": 1})
    assert rival == pytest.approx({"worse_lead": -lead, "better_lead": -lead})
    assert evidence.weigh(kbs, [EntityPair(left[1], right[0])]) == [{}]


def test_parents_and_children() -> None:
    left = [named("l0", "top"), named("l1", "mid", parents=("l0",))]
    left += [named(f"l{n}", "leaf", parents=("l1",)) for n in (2, 3)]
    right = [named("r0", "top"), named("r1", "mid", parents=("r0",))]
    right += [named(f"r{n}", "leaf", parents=("r1",)) for n in (2, 3, 4)]
    first = {
        ("l0", "r0"): 0.9,
        ("l1", "r1"): 0.6,
        ("l1", "r0"): 0.3,
        ("l2", "r2"): 0.8,
        ("l3", "r2"): 0.5,
        ("l3", "r3"): 0.7,
    }
    kbs = ListedKBs(left, right, first_pass=first)
    evidence = ParentEvidence()
    list(evidence.propose(kbs))
    top, mid, leaf = evidence.weigh(kbs, [EntityPair(left[n], right[n]) for n in range(3)])
    assert top == pytest.approx({"children": math.log2(1.6) / 3, "children_share": 0.6})
    # r2 is at best 0.8 and r3 0.7 of a child of l1: 1.5 of two children.
    assert mid == pytest.approx(
        {"parents": 0.9, "level": 0.3, "children": math.log2(2.5) / 3, "children_share": 0.75}
    )
    assert leaf == pytest.approx({"parents": 0.6, "level": 0.0})


def test_a_third_kb_supports_and_contradicts() -> None:
    left, right = [named("l1", "a"), named("l2", "b")], [named("r1", "a"), named("r2", "b")]
    kbs = ListedKBs(
        left,
        right,
        through=[
            ("l1", "r1", "third", 0.8),
            ("l1", "r1", "fourth", 0.9),
            ("l1", "r2", "third", 0.3),
        ],
    )
    evidence = ThroughEvidence()
    assert set(evidence.propose(kbs)) == {("l1", "r1"), ("l1", "r2")}
    pairs = [EntityPair(one, other) for one in left for other in right]
    first, second, third, fourth = evidence.weigh(kbs, pairs)
    assert first == pytest.approx({"through": 0.9, "conflict": 0})
    assert second == pytest.approx({"through": 0.3, "conflict": 0.6})
    assert third == pytest.approx({"through": 0, "conflict": 0.9})
    assert fourth == pytest.approx({"through": 0, "conflict": 0.3})
    alone = named("l9", "z")
    pair = EntityPair(alone, named("r9", "z"))
    assert evidence.weigh(kbs, [pair]) == [{"through": 0, "conflict": 0}]
    assert weighed("through", ListedKBs(left, right), *pair) == {}
