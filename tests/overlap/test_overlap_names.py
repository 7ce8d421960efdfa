"""Names are joined as the settings say, from either side, and never without bound."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kglink.overlap import names
from kglink.overlap.names import Match, NameJoin, NameRules, paper_name, without_disambiguator
from kglink.records import Alias, Document, Entity
from kglink.store import Store
from store_support import entity, job

pytest_plugins = ["store_fixtures"]


def fill(store: Store, left: Iterable[Entity], right: Iterable[Entity]) -> None:
    store.ingest(job("left", fingerprint="l"), left)
    store.ingest(job("right", fingerprint="r"), right)


def joined(store: Store, rules: NameRules) -> dict[tuple[str, str], tuple[str, ...]]:
    pairs = list(NameJoin(store, "left", "right", rules))
    assert len({pair[:2] for pair in pairs}) == len(pairs), "a pair comes once"
    return {(pair.left, pair.right): pair.names for pair in pairs}


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("Clara_Oswald", "Clara Oswald"),
        ("Clara Oswald ( Immortals )", "Clara Oswald(Immortals)"),
        ("Clara Oswald (Immortals)", "Clara Oswald(Immortals)"),
        ("Queen 's Gambit , The", "Queen's Gambit,The"),
        ("A . J . Green", "A.J.Green"),
        ("A.J. Green", "A.J.Green"),
        ("St . Louis", "St.Louis"),
        ("St. Louis", "St.Louis"),
        ("X - 01", "X-01"),
        ("AT & T", "AT&T"),
        ("Queen's Gambit, The", "Queen's Gambit,The"),
        ("e\u0301clair", "\u00e9clair"),
        ("  two   spaces ", "two spaces"),
        ("Upper Case", "Upper Case"),
    ],
)
def test_the_paper_compares_titles_without_the_traces_of_their_source(
    title: str, form: str
) -> None:
    assert paper_name(title) == form


@pytest.mark.parametrize(
    ("title", "short"),
    [
        ("Clara Oswald (Immortals)", "Clara Oswald"),
        ("Clara_Oswald_(Immortals)", "Clara Oswald"),
        ("Clara Oswald ( Immortals )", "Clara Oswald"),
        ("A (b) (c)", "A (b)"),
        ("(Immortals)", ""),
        ("Clara Oswald", ""),
        ("A (b) c", ""),
    ],
)
def test_a_disambiguator_is_a_last_bracket(title: str, short: str) -> None:
    assert without_disambiguator(title) == short


LEFT = [
    entity("l1", "Clara Oswald"),
    entity("l2", "DALEK", "Metal_man"),
    entity("l3", "Caf\u00e9 (shop)"),
    entity("l4", "River Song (singer)"),
]
RIGHT = [
    entity("r1", "Clara Oswald (Immortals)", "Clara"),
    entity("r2", "Dalek", "Metal man"),
    entity("r3", "Cafe"),
    entity("r4", "River Song (doctor)"),
]
STRICT = {("l1", "r1"), ("l2", "r2"), ("l4", "r4")}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        (NameRules(), STRICT),
        (NameRules(strip_disambiguator=False), {("l2", "r2")}),
        (NameRules(kinds=("title",)), {("l1", "r1"), ("l4", "r4")}),
        (NameRules(match="caseless", kinds=("title",)), STRICT),
        (NameRules(match="folded"), STRICT | {("l3", "r3")}),
    ],
)
def test_the_settings_decide_which_names_are_the_same(
    store: Store, rules: NameRules, wanted: set[tuple[str, str]], *, turned: bool
) -> None:
    more = [entity(f"x{number}", f"Nobody {number}") for number in range(9)]
    fill(store, LEFT + more if turned else LEFT, RIGHT if turned else RIGHT + more)
    assert set(joined(store, rules)) == wanted


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("match", ["strict", "caseless", "folded"])
def test_titles_of_tokenised_texts_are_found(store: Store, match: Match, *, turned: bool) -> None:
    plain = ["A.J. Green", "St. Louis", "X-01", "AT&T", "C++", "10% (film)", "Who?", "A/B", "$5"]
    apart = [
        *("A . J . Green", "St . Louis", "X - 01", "AT & T", "C + +", "10 %", "Who ?", "A / B"),
        "$ 5",
    ]
    left = [entity(f"l{at}", title) for at, title in enumerate(plain)]
    right = [entity(f"r{at}", title) for at, title in enumerate(apart)]
    fill(store, *((right, left) if turned else (left, right)))
    wanted = [(f"l{at}", f"r{at}") for at in range(len(plain))]
    found = set(joined(store, NameRules(match=match, strip_both=False)))
    assert found == {(pair[1], pair[0]) if turned else pair for pair in wanted}


@pytest.mark.parametrize("turned", [False, True])
def test_the_paper_takes_the_brackets_off_one_side_alone(store: Store, *, turned: bool) -> None:
    more = [entity(f"x{number}", f"Nobody {number}") for number in range(9)]
    fill(store, LEFT + more if turned else LEFT, RIGHT if turned else RIGHT + more)
    rules = NameRules(kinds=("title",), strip_both=False)
    assert set(joined(store, rules)) == {("l1", "r1")}


def test_all_names_that_a_pair_shares_are_told(store: Store) -> None:
    fill(store, LEFT, RIGHT)
    assert joined(store, NameRules(match="folded"))["l2", "r2"] == ("dalek", "metal man")
    assert joined(store, NameRules())["l2", "r2"] == ("Metal man",)


def test_the_join_equals_comparing_all_names(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "PAGE", 3)
    words = ["ada", "Bob", "Cleo (a)", "Cleo (b)", "cleo", "dan_o", "dan o"]
    left = [entity(f"l{at}", words[at % 7], words[at * 3 % 5], f"own {at}") for at in range(20)]
    right = [entity(f"r{at}", words[at * 5 % 7], words[at % 4]) for at in range(15)]
    fill(store, left, right)
    for rules in (NameRules(), NameRules(match="caseless"), NameRules(match="folded")):

        def forms(one: Entity, rules: NameRules = rules) -> set[str]:
            all_names = [one.title, *(alias.surface for alias in one.aliases)]
            short = without_disambiguator(one.title)
            return {rules.form(name) for name in [*all_names, short] if name}

        wanted = {
            (one.key, other.key): tuple(sorted(forms(one) & forms(other)))
            for one in left
            for other in right
            if forms(one) & forms(other)
        }
        assert joined(store, rules) == wanted


def test_a_name_that_too_many_bear_is_passed_over_and_told(store: Store) -> None:
    left = [entity(f"l{at}", f"Left {at}", "John Smith") for at in range(30)]
    right = [entity(f"r{at}", f"Right {at}", "John Smith", "Ann") for at in range(40)]
    fill(store, [*left, entity("l30", "Ann")], right)
    join = NameJoin(store, "left", "right", NameRules(max_pairs=1199))
    assert {pair.left for pair in join} == {"l30"}
    assert list(join.passed_over.values()) == [1200]
    assert "'john smith'" in join.note()
    everything = NameJoin(store, "left", "right", NameRules(max_pairs=1200))
    assert len(list(everything)) == 1240
    assert everything.note() == ""


def test_brackets_of_the_larger_kb_count_towards_the_bound(store: Store) -> None:
    right = [entity(f"r{at}", f"Ann ({at})") for at in range(12)]
    fill(store, [entity("l1", "Ann")], right)
    assert len(joined(store, NameRules(max_pairs=12))) == 12
    assert joined(store, NameRules(max_pairs=11)) == {}


def test_a_name_of_an_alias_kind_that_is_not_compared(store: Store) -> None:
    left = [Entity("l1", "One", aliases=(Alias("Uno", "redirect"),))]
    fill(store, left, [entity("r1", "Uno")])
    assert joined(store, NameRules(kinds=("title", "redirect"))) == {("l1", "r1"): ("Uno",)}
    assert joined(store, NameRules(kinds=("title", "synonym"))) == {}


def test_nothing_is_shared_with_a_kb_of_documents(store: Store) -> None:
    store.ingest(job("left", fingerprint="l"), LEFT)
    store.ingest(job("right", fingerprint="r"), [Document("d", "Dalek")])
    assert joined(store, NameRules()) == {}
