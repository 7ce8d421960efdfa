"""Synthetic worlds: the promised numbers, counted by brute force on what comes out."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kglink.errors import ConfigError, UnknownNameError
from kglink.records import Entity, EntityId
from kglink.sources import Problems, Source
from kglink_kbs.jsonl import (
    DocumentsAdapter,
    JsonlAdapter,
    JsonSettings,
)
from worlds import (
    DocumentSettings,
    World,
    WorldSettings,
    write_documents_jsonl,
    write_entities_jsonl,
)
from worlds.chance import (
    Draws,
    Permutation,
    Zipf,
    long_word,
    scramble,
    short_word,
)


def names(entity: Entity) -> set[str]:
    return {entity.title, *(alias.surface for alias in entity.aliases)}


def carriers(world: World, kb: str) -> dict[str, set[str]]:
    """For each name, folded, the keys of the entities of a KB that carry it."""
    found: dict[str, set[str]] = defaultdict(set)
    for entity in world.entities(kb):
        for name in names(entity):
            found[name.casefold()].add(entity.key)
    return found


def counted(world: World, left: str, right: str) -> dict[str, int]:
    """What `World.counts` promises, counted on the entities themselves."""
    mine, other = carriers(world, left), carriers(world, right)
    same = {pair.left.key: pair.right.key for pair in world.overlaps(left, right)}
    ambiguous = false_friends = nameless = 0
    for entity in world.entities(left):
        folded = {name.casefold() for name in names(entity)}
        here = set().union(*(mine[name] for name in folded))
        there = set().union(*(other.get(name, set()) for name in folded))
        ambiguous += here != {entity.key}
        false_friends += bool(there - {same.get(entity.key)})
        nameless += entity.key in same and same[entity.key] not in there
    return {
        "shared": len(same),
        "nameless": nameless,
        "ambiguous": ambiguous,
        "false_friends": false_friends,
    }


# --------------------------------------------------------------------------- exact numbers
def test_counts_of_a_world_that_a_person_can_follow() -> None:
    # 100 slots: 30 shared (6 without a common name), 5 names of two things, 10 copies.
    # The copies take the names of slots 0, 9, 18, ..., 81 of the first 90: those of 9, 18 and 27
    # are shared names, so three shared entities and three copies have a false friend more each.
    world = World(
        WorldSettings(entities=100, overlap=0.3, nameless=0.2, ambiguity=0.2, false_friends=0.05)
    )
    assert world.counts == (100, 30, 6, 20, 5 + 3 + 3)
    assert counted(world, "atlas", "saga") == {
        "shared": 30,
        "nameless": 6,
        "ambiguous": 20,
        "false_friends": 11,
    }


share = st.floats(0, 1, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**70),
    entities=st.integers(1, 60),
    shares=st.tuples(share, share, share, share),
    unicode=share,
    kbs=st.sampled_from([("a", "b"), ("a", "b", "c")]),
)
def test_counts_are_what_a_count_finds(
    seed: int,
    entities: int,
    shares: tuple[float, float, float, float],
    unicode: float,
    kbs: tuple[str, ...],
) -> None:
    overlap, nameless = shares[:2]
    false_friends = shares[2] * (1 - overlap)
    ambiguity = min(1, 2 * shares[3] * (1 - overlap - false_friends))
    world = World(
        WorldSettings(
            seed=seed,
            kbs=kbs,
            entities=entities,
            overlap=overlap,
            nameless=nameless,
            ambiguity=ambiguity,
            false_friends=false_friends,
            unicode=unicode,
        )
    )
    promised = world.counts._asdict()
    assert promised.pop("entities") == len(list(world.entities(kbs[0])))
    assert promised == counted(world, kbs[0], kbs[-1]) == counted(world, kbs[-1], kbs[0])


def test_overlaps_are_right_for_every_two_of_three_kbs() -> None:
    world = World(WorldSettings(kbs=("a", "b", "c"), entities=50, overlap=0.4, paraphrase=0))
    told = {
        EntityId(kb, entity.key): entity.description
        for kb in ("a", "b", "c")
        for entity in world.entities(kb)
    }
    pairs = list(world.overlaps())
    assert Counter((pair.left.kb, pair.right.kb) for pair in pairs) == {
        ("a", "b"): 20,
        ("a", "c"): 20,
        ("b", "c"): 20,
    }
    assert all(told[pair.left] == told[pair.right] for pair in pairs)
    assert {pair.verdict for pair in pairs} == {"correct"}
    back = [(pair.right, pair.left) for pair in world.overlaps("c", "a")]
    assert back == [(pair.left, pair.right) for pair in world.overlaps("a", "c")]


def test_keys_do_not_tell_which_entities_are_the_same() -> None:
    world = World(WorldSettings(entities=1000, overlap=1, ambiguity=0, false_friends=0))
    same_place = sum(pair.left.key[1:] == pair.right.key[1:] for pair in world.overlaps())
    assert same_place <= 5
    assert {entity.key for entity in world.entities("saga")} == {f"S{i}" for i in range(1, 1001)}


# ------------------------------------------------------------------------------ the wording
@pytest.mark.parametrize(("paraphrase", "equal"), [(0.0, 300), (1.0, 0)], ids=["none", "all"])
def test_paraphrase_decides_how_often_descriptions_agree(paraphrase: float, equal: int) -> None:
    world = World(WorldSettings(paraphrase=paraphrase))
    left = {entity.key: entity.description for entity in world.entities("atlas")}
    right = {entity.key: entity.description for entity in world.entities("saga")}
    agree = [left[pair.left.key] == right[pair.right.key] for pair in world.overlaps()]
    assert sum(agree) == equal


def test_chances_are_met_within_three_deviations() -> None:
    n = 5000
    world = World(
        WorldSettings(
            entities=n,
            overlap=1,
            ambiguity=0,
            false_friends=0,
            renaming=0.2,
            described=0.75,
            unicode=0.25,
            xrefs=0.5,
        )
    )
    entities = list(world.entities("atlas"))
    usual = {
        world.id_of(0, slot).key: world.facts.names(world.name(0, slot))[0] for slot in range(n)
    }
    measured = {
        0.2: sum(entity.title != usual[entity.key] for entity in entities),
        0.75: sum(bool(entity.description) for entity in entities),
        0.25: sum(not entity.title.isascii() for entity in entities),
        0.5: sum(bool(entity.xrefs) for entity in entities),
    }
    for chance, count in measured.items():
        assert abs(count - n * chance) < 3 * (n * chance * (1 - chance)) ** 0.5, chance


def test_cross_references_name_the_counterparts() -> None:
    world = World(WorldSettings(kbs=("a", "b", "c"), entities=40, xrefs=1))
    gold = {str(pair.left): str(pair.right) for pair in world.overlaps("a", "c")}
    found = {f"a:{entity.key}": entity.xrefs for entity in world.entities("a") if entity.xrefs}
    assert {key: xrefs[1] for key, xrefs in found.items()} == gold
    assert all(len(xrefs) == 2 for xrefs in found.values())


def test_every_kind_of_entity_comes() -> None:
    kinds = Counter(entity.type for entity in World().entities("atlas"))
    assert set(kinds) == {"person", "place", "object", "event", "organisation"}
    assert min(kinds.values()) > 150


# ------------------------------------------------------------------------------- repeatable
def test_the_same_seed_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    world = World(WorldSettings(seed=7, entities=200, unicode=0.3, xrefs=0.5))
    digest = hashlib.sha256()
    for kb in world.settings.kbs:
        write_entities_jsonl(tmp_path / kb, world.entities(kb))
        digest.update((tmp_path / kb).read_bytes())
    write_documents_jsonl(tmp_path / "documents", world.documents(50))
    digest.update((tmp_path / "documents").read_bytes())
    assert digest.hexdigest()[:16] == "a552e6f3dc5415c0"


def test_another_seed_gives_another_world() -> None:
    first, second = (
        {entity.title for entity in World(WorldSettings(seed=seed)).entities("atlas")}
        for seed in (1, 2)
    )
    assert len(first & second) < 5


def test_an_entity_does_not_depend_on_those_before_it() -> None:
    world = World()
    streamed = list(world.entities("saga"))
    assert [world.entity(1, number) for number in (999, 0, 500)] == [
        streamed[999],
        streamed[0],
        streamed[500],
    ]


def test_documents_can_go_on_where_others_ended() -> None:
    world = World()
    whole = list(world.documents(20))
    later = list(world.documents(10, DocumentSettings(first=10)))
    assert later == whole[10:]


# -------------------------------------------------------------------------------- documents
def test_documents_have_exact_offsets_gold_and_shares() -> None:
    world = World(WorldSettings(unicode=0.5, nameless=0.2))
    known = {
        EntityId(kb, entity.key): entity
        for kb in ("atlas", "saga")
        for entity in world.entities(kb)
    }
    same = {pair.left: pair.right for pair in world.overlaps()}
    all_names = {name.casefold() for entity in known.values() for name in names(entity)}
    found = list(world.documents(200, DocumentSettings(nil=0.25)))
    assert Counter(document.split for document in found) == {"train": 160, "dev": 20, "test": 20}
    mentions = [(document, mention) for document in found for mention in document.mentions]
    assert len(mentions) == 1000
    unknown = [mention.surface for _, mention in mentions if mention.gold == ()]
    assert len(unknown) == 250
    assert len(set(unknown)) > 200
    for document, mention in mentions:
        assert document.text[mention.start : mention.end] == mention.surface
        assert mention.gold is not None
        if mention.gold:
            assert any(mention.surface in names(known[entity]) for entity in mention.gold)
            assert {known[entity].type for entity in mention.gold} == {mention.type}
            assert len(mention.gold) == 1 or same[mention.gold[0]] == mention.gold[1]
            assert len(mention.gold) == 2 or mention.gold[0] not in {*same, *same.values()}
        else:
            assert mention.surface.casefold() not in all_names
    spans = [(mention.start, mention.end) for mention in found[0].mentions]
    assert spans == sorted(spans)
    assert any("\r\n" in document.text for document in found)


def test_documents_of_one_kb_have_its_gold_alone() -> None:
    found = World().documents(50, DocumentSettings(kbs=("saga",), nil=0))
    gold = [mention.gold for document in found for mention in document.mentions]
    assert {entity.kb for item in gold if item for entity in item} == {"saga"}
    assert all(item is not None and len(item) == 1 for item in gold)


def test_popular_entities_are_mentioned_more() -> None:
    world = World(WorldSettings(entities=200))
    popular = {
        EntityId("saga", entity.key)
        for entity in sorted(world.entities("saga"), key=lambda item: -item.popularity)[:20]
    }
    settings_ = DocumentSettings(kbs=("saga",), nil=0)
    gold = [
        mention.gold[0]
        for document in world.documents(400, settings_)
        for mention in document.mentions
        if mention.gold
    ]
    # The harmonic sums of 20 and 200 are 3.598 and 5.878: a share of .61.
    assert 0.55 < sum(entity in popular for entity in gold) / len(gold) < 0.67


# -------------------------------------------------------------------------------- the parts
def test_zipf_values_and_draws() -> None:
    zipf = Zipf(1000, 1.0)
    assert [zipf.popularity(rank) for rank in (1, 2, 3, 4, 8)] == [1e9, 5e8, 3.75e8, 2.5e8, 1.25e8]
    assert len({zipf.popularity(rank) for rank in range(1, 1001)}) == 1000
    flat = Zipf(10, 0.0)
    draws = Draws(1)
    seen = Counter(flat.rank(draws) for _ in range(10_000))
    assert sorted(seen) == list(range(1, 11))
    assert min(seen.values()) > 850


@pytest.mark.parametrize("n", [1, 2, 12, 97, 1000])
def test_a_permutation_has_an_inverse(n: int) -> None:
    order = Permutation.of(n, 0xDEADBEEF1234567)
    assert sorted(map(order, range(n))) == list(range(n))
    assert all(order.inverse(order(number)) == number for number in range(n))


def test_numbers_and_words_match_one_to_one() -> None:
    sample = [number << shift for shift in (0, 9, 18) for number in range(1, 512)]
    assert len({scramble(number, 5) for number in sample}) == len(set(sample))
    assert len({long_word(number).casefold() for number in sample}) == len(set(sample))
    assert not {long_word(number) for number in range(50_000)} & {
        short_word(number) for number in range(50_000)
    }


# --------------------------------------------------------------------------------- any size
@pytest.mark.slow
def test_memory_stays_flat_while_a_hundred_thousand_entities_are_made() -> None:
    world = World(WorldSettings(entities=100_000))
    entities = world.entities("saga")
    count = sum(1 for _ in islice(entities, 45_000))
    # Tracing slows the work tenfold, so it looks at a stretch: 20 bytes kept of each entity, or
    # any table of 100,000 places, would break the limit.
    tracemalloc.start()
    try:
        count += sum(1 for _ in islice(entities, 10_000))
        count += sum(1 for _ in islice(world.overlaps(), 1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    count += sum(1 for _ in entities)
    assert count == 101_000
    assert peak < 200_000


def test_ten_million_entities_are_there_at_once() -> None:
    world = World(WorldSettings(entities=10_000_000))
    assert world.counts.shared == 3_000_000
    assert world.entity(1, 9_999_999).key == "S10000000"
    pair = next(islice(world.overlaps(), 12_345, None))
    left, right = (
        world.entity(kb, int(entity.key[1:]) - 1)
        for kb, entity in enumerate((pair.left, pair.right))
    )
    assert names(left) & names(right)
    assert left.type == right.type


# ------------------------------------------------------------------------------------ files
def test_files_hold_the_documented_fields(tmp_path: Path) -> None:
    world = World(WorldSettings(entities=3, overlap=1, ambiguity=0, xrefs=1))
    write_entities_jsonl(tmp_path / "entities", world.entities("atlas"))
    write_documents_jsonl(tmp_path / "documents", world.documents(1))
    entity, document = (
        json.loads((tmp_path / name).read_text(encoding="utf-8").split("\n")[0])
        for name in ("entities", "documents")
    )
    assert list(entity) == [
        *("id", "title", "description", "type", "url", "popularity", "language"),
        *("aliases", "xrefs"),
    ]
    assert list(document) == ["id", "text", "split", "entities"]
    assert list(document["entities"][0]) == ["start", "end", "text", "type", "gold"]
    assert document["entities"][0]["gold"][0].startswith("atlas:A")


def test_the_adapters_read_back_what_was_written(tmp_path: Path) -> None:
    world = World(WorldSettings(entities=100, unicode=0.5, xrefs=1, described=0.5))
    entities, documents = tmp_path / "entities.jsonl", tmp_path / "documents.jsonl"
    assert write_entities_jsonl(entities, world.entities("atlas")) == 100
    assert write_documents_jsonl(documents, world.documents(30)) == 30
    with Source.open_path(entities) as source:
        read = JsonlAdapter(JsonSettings()).read(source, Problems())
        assert list(read) == list(world.entities("atlas"))
    with Source.open_path(documents) as source:
        read = DocumentsAdapter(JsonSettings()).read(source, Problems())
        assert list(read) == list(world.documents(30))


# ----------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entities": 0}, "entities is 0"),
        ({"entities": 10**9}, "entities is"),
        ({"overlap": 1.5}, "overlap is 1.5"),
        ({"skew": -1.0}, "skew is -1.0"),
        ({"kbs": ()}, "kbs is ()"),
        ({"kbs": ("a", "a")}, "kbs is ('a', 'a')"),
        ({"kbs": ("A b",)}, "kbs is 'A b'"),
        ({"overlap": 0.9, "ambiguity": 0.4}, "are more than 1"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WorldSettings(**change)  # type: ignore[arg-type]  # wrong on purpose
    assert message in caught.value.message
    assert caught.value.hint


def test_document_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="nil is no share"):
        DocumentSettings(nil=2)
    with pytest.raises(ConfigError, match="cannot be negative"):
        DocumentSettings(splits=(0, 0, 0))


def test_an_unknown_kb_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'atlas'"):
        World().entities("atlass")
    with pytest.raises(UnknownNameError):
        list(World().overlaps("atlas", "nowhere"))
