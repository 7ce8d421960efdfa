"""Hostile RDF: it fetches nothing, takes no time and no memory, and is refused with its line."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from kglink.errors import SourceError
from kglink.sources import Problems, Source
from skos_texts import EX, RDF_XML, TURTLE, adapter, rdf_xml, read, refuse_network

BOMB = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY a "ha"> <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"> %s ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns:skos="http://www.w3.org/2004/02/skos/core#">
  <skos:Concept rdf:about="http://x.example/1"><skos:prefLabel>&b;</skos:prefLabel></skos:Concept>
</rdf:RDF>"""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""
    refuse_network(monkeypatch)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("", "entity 'b' is long or made of other entities"),
        ('<!ENTITY % p "x">', "made of other entities"),
    ],
)
def test_an_expansion_bomb_is_refused(declared: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason) as caught:
        read(BOMB % declared)
    assert "xmllint --noent" in caught.value.hint


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE rdf:RDF [ <!ENTITY b SYSTEM "file:///etc/passwd"> ]>',
        '<!DOCTYPE rdf:RDF [ <!ENTITY b SYSTEM "http://evil.example/x"> ]>',
        '<!DOCTYPE rdf:RDF [ <!ENTITY b PUBLIC "p" "http://evil.example/x"> ]>',
        '<!DOCTYPE rdf:RDF [ <!ENTITY % b SYSTEM "http://evil.example/x"> %b; ]>',
        '<!DOCTYPE rdf:RDF SYSTEM "http://evil.example/x.dtd">',
    ],
)
def test_another_file_is_not_fetched(doctype: str) -> None:
    start, _, rest = BOMB.partition("<!DOCTYPE")
    data = start + doctype + rest[rest.index("]>") + 2 :]
    with pytest.raises(SourceError, match="XML asks for another file") as caught:
        read(data)
    assert "DOCTYPE" in caught.value.hint


@pytest.mark.parametrize(
    "context",
    [
        '"http://evil.example/context"',
        '["http://evil.example/context", {}]',
        '{"a": {"@id": "x:a", "@context": "http://evil.example/context"}}',
        '{"@version": 1.1, "@import": "http://evil.example/context"}',
    ],
)
def test_a_context_is_not_fetched(context: str) -> None:
    data = f'{{"@context": {context}, "@id": "{EX}1", "a": 1}}'
    with pytest.raises(
        SourceError, match=r"takes its context from 'http://evil\.example"
    ) as caught:
        read(data)
    assert "fetches nothing" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        "@prefix x: <http://x.example/> .\nx:a x:b " + "[ x:c " * 50_000,
        "@prefix x: <http://x.example/> .\nx:a x:b " + "(" * 50_000,
        '{"@id": ' + "[" * 100_000,
        '{"@id": "x", "a": ' + '{"@graph": [' * 50_000,
        '{"@graph": ' + "[" * 900 + "]" * 900 + "}",
    ],
)
def test_nesting_without_end_is_refused(data: str) -> None:
    with pytest.raises(SourceError, match=r"nested too deeply|holds no concept"):
        read(data)


@pytest.mark.timeout(20)
def test_a_context_of_many_prefixes_takes_no_time() -> None:
    """Rdflib's own list of prefixes takes a minute for it."""
    names = ",".join(f'"a{i}": "{EX}{i}#"' for i in range(20_000))
    label = '"http://www.w3.org/2004/02/skos/core#prefLabel": "one"'
    (entity,) = read(f'{{"@context": {{{names}}}, "@id": "a7:1", {label}}}')
    assert entity.key == f"{EX}7#1"


def test_a_file_larger_than_memory_is_refused() -> None:
    data = TURTLE + "# filler\n" * 150_000
    for syntax in ("turtle", "json-ld", "xml"):
        with pytest.raises(SourceError, match="larger than 1,048,576 bytes unpacked") as caught:
            read(data if syntax == "turtle" else f"<!--{data}-->", syntax=syntax, max_mb=1)
        assert "N-Triples" in caught.value.hint


def test_a_fault_in_turtle_says_where() -> None:
    with pytest.raises(SourceError, match="is not valid Turtle: ") as caught:
        read(TURTLE.replace("x:fruit a", "x:fruit is"))
    assert "line 1" in str(caught.value)
    assert "riot" in caught.value.hint


@pytest.mark.timeout(20)
def test_text_in_many_pieces_takes_no_time() -> None:
    """Expat brings each of a million pieces by itself, and rdflib copies the text for each."""
    pieces = "a &amp; &lt;b&gt;<!-- x --> " * 100_000
    (entity,) = read(rdf_xml(f"<skos:definition>{pieces}</skos:definition>"))
    assert entity.description == ("a & <b> " * 100_000).strip()


@pytest.mark.timeout(20)
def test_markup_in_a_literal_takes_no_time_and_is_left_out() -> None:
    literal = "<p>A &amp; <b>B</b></p>" * 50_000
    (entity,) = read(
        rdf_xml(f'<skos:definition rdf:parseType="Literal">{literal}</skos:definition>')
    )
    assert entity.description == ("A & B\n" * 50_000).strip()


@pytest.mark.slow
def test_prefixes_on_many_levels_take_no_memory() -> None:
    levels = 5_000
    opened = "".join(f'<skos:x><skos:y xmlns:a{i}="urn:{i}">' for i in range(levels))
    data = rdf_xml(opened + "</skos:y></skos:x>" * levels)
    tracemalloc.start()
    try:
        assert [entity.title for entity in read(data)] == ["one"]
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_json_that_is_neither_an_object_nor_a_list() -> None:
    with pytest.raises(SourceError, match="found the number 2 where an object or a list is wanted"):
        read("2", syntax="json-ld")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (f"{RDF_XML}\n<a></b>", "line 2: mismatched tag"),
        (f'{RDF_XML}\n<skos:Concept rdf:ID="1 x"/></rdf:RDF>', "line 2: rdf:ID value is not"),
        (TURTLE[: TURTLE.index("apple") + 3], "ends in the middle|line"),
    ],
)
def test_a_fault_is_told_with_its_line(data: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        read(data)


def test_a_folder_is_refused_as_one(tmp_path: Path) -> None:
    with (
        Source.open_path(tmp_path) as source,
        pytest.raises(SourceError, match="is a folder where a file is wanted"),
    ):
        list(adapter().read(source, Problems()))


def test_long_addresses_that_stand_before_each_name_are_refused() -> None:
    long = "http://x.org/" + "a" * 20_000
    turtle = f'@prefix p: <{long}#> . p:a <http://www.w3.org/2004/02/skos/core#prefLabel> "A" .'
    with pytest.raises(SourceError, match="an IRI of 20,"):
        read(turtle)
    with pytest.raises(SourceError, match="an XML namespace of 20,"):
        read(rdf_xml(f'<p:x xmlns:p="{long}"/>'))
