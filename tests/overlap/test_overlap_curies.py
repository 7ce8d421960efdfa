"""Keys as CURIEs: each comes back from its own, and ids of a list are known in many forms."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kglink.overlap.exchange.lists import CurieMaker, kb_of, keys_of, source_of
from kglink.records import EntityId
from overlap_lists import name


@pytest.mark.parametrize(
    ("entity_id", "curie"),
    [
        ("doid:DOID:1485", "DOID:1485"),
        ("wiki:Clara_Oswald", "kb.wiki:Clara_Oswald"),
        ("wiki:Clara Oswald (Immortals)", "kb.wiki:Clara%20Oswald%20%28Immortals%29"),
        ("wiki:Café", "kb.wiki:Caf%C3%A9"),
        ("wiki:a|b\tc", "kb.wiki:a%7Cb%09c"),
        ("wiki:100%", "kb.wiki:100%25"),
        ("wiki:kb.wiki:x", "kb.wiki:kb.wiki%3Ax"),
        ("wiki:skos:exactMatch", "kb.wiki:skos%3AexactMatch"),
        ("3d:x", "kb.3d:x"),
        ("stw:http://zbw.eu/stw/descriptor/10043-5", "kb..1:10043-5"),
        ("stw:http://zbw.eu/stw/", "kb.stw:http%3A%2F%2Fzbw.eu%2Fstw%2F"),
    ],
)
def test_a_key_as_a_curie(entity_id: str, curie: str) -> None:
    maker = CurieMaker()
    assert maker.curie(name(entity_id)) == curie
    kb, key = name(entity_id)
    assert keys_of(curie, kb, maker.prefixes)[0] == key


def test_prefixes_that_differ_in_case_alone_are_one_to_other_tools() -> None:
    maker = CurieMaker()
    assert maker.curie(name("a:HP:1")) == "HP:1"
    assert maker.curie(name("b:hp:1")) == "kb.b:hp%3A1"


def test_a_prefix_stands_for_the_addresses_of_its_entities() -> None:
    obo = "http://purl.obolibrary.org/obo/"
    maker = CurieMaker()
    maker.curie(name("doid:DOID:1"), f"{obo}DOID_1")
    maker.curie(name("doid:DOID:2"), f"{obo}DOID_2")
    maker.curie(name("hp:HP:1"), f"{obo}HP_1")
    maker.curie(name("hp:HP:2"), "https://elsewhere.example/2")
    maker.curie(name("a:x"), "https://wiki.example/x")
    maker.curie(name("b:x"), "https://wiki.example/x")  # one address, one prefix
    maker.curie(name("c:x"), "not an address x")
    assert maker.prefixes == {
        "DOID": f"{obo}DOID_",
        "HP": "urn:kglink:HP:",
        "kb": "urn:kglink:kb:",
        "kb.a": "https://wiki.example/",
        "kb.b": "urn:kglink:kb.b:",
        "kb.c": "urn:kglink:kb.c:",
    }


KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
ODD_KEYS = KEYS | st.sampled_from(
    [
        "DOID:1",
        "doid:1",
        "kb.a:x",
        "kb..1:x",
        "http://x/y#z",
        "http://x/",
        "%41",
        "A",
        "kb:a",
        "x|y",
    ]
)
KBS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,5}", fullmatch=True)


@given(ids=st.lists(st.tuples(KBS, ODD_KEYS), min_size=1, max_size=8, unique=True))
@example(ids=[("a", "A"), ("a", "%41"), ("a", "a:A"), ("a", "kb.a:A")])
@example(ids=[("a", "http://x/y"), ("b", "http://x/y"), ("b", "kb..1:y")])
def test_every_key_comes_back_from_its_curie(ids: list[tuple[str, str]]) -> None:
    maker = CurieMaker()
    curies = [maker.curie(EntityId(*one)) for one in ids]
    prefixes = maker.prefixes
    assert len(set(prefixes.values())) == len(prefixes)
    for (kb, key), curie in zip(ids, curies, strict=True):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*:[A-Za-z0-9_.~%-]+", curie)
        assert curie.partition(":")[0] in prefixes
        assert keys_of(curie, kb, prefixes, kb)[0] == key
        # The same in a workspace that calls the KB otherwise.
        assert keys_of(curie, "other", prefixes, kb)[0] == key
        assert kb_of(source_of(kb)) == kb


def test_an_id_of_a_list_may_be_written_in_many_ways() -> None:
    obo = {"obo": "http://purl.obolibrary.org/obo/"}
    assert "DOID:4" in keys_of("http://purl.obolibrary.org/obo/DOID_4", "doid", {})
    assert "DOID:4" in keys_of("obo:DOID_4", "doid", obo)
    assert "http://purl.obolibrary.org/obo/DOID_4" in keys_of("obo:DOID_4", "doid", obo)
    assert "D003550" in keys_of("MSH:D003550", "mesh", {})
    assert "MESH:D003550" in keys_of("D003550", "mesh", {})
    assert keys_of("wiki:Paris", "wiki", {})[:2] == ["wiki:Paris", "Paris"]
    assert "Paris" not in keys_of("wiki:Paris", "other", {})
