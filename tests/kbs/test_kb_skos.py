from __future__ import annotations

import gzip
import socket
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kb_checks import check_any, claimants, damaged, fuzz, head_of, read_bytes
from kglink.errors import RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.rdf import syntax_of
from kglink_kbs.skos import SkosAdapter, SkosSettings, sniff

EX = "http://x.example/"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def adapter(**settings: object) -> SkosAdapter:
    return SkosAdapter(SkosSettings.model_validate(settings))


def read(
    data: str | bytes, problems: Problems | None = None, /, **settings: object
) -> list[Entity]:
    return read_bytes(adapter(**settings), data, problems, name="thesaurus.rdf")


RDF_XML = (
    '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#">'
)


def rdf_xml(inner: str) -> str:
    """A concept, called one, with ``inner`` in it."""
    label = "<skos:prefLabel>one</skos:prefLabel>"
    return f'{RDF_XML}<skos:Concept rdf:about="{EX}1">{label}{inner}</skos:Concept></rdf:RDF>'


TURTLE = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix x: <http://x.example/> .

x:fruits a skos:ConceptScheme ; skos:prefLabel "Fruits"@en .
x:apple a skos:Concept, x:Pome ;
  skos:prefLabel "apple"@en, "Apfel"@de, "pomme"@fr ;
  skos:altLabel "Malus  fruit"@en-GB, "Gravensteiner"@de, "M. domestica" ;
  skos:hiddenLabel "aple"@en ;
  skos:definition "A \\"pome\\".\\nIt is round."@en, "Ein Kernobst."@de ;
  skos:notation "A1" ;
  skos:exactMatch <http://purl.obolibrary.org/obo/FOODON_00002473> ;
  skos:closeMatch <http://y.example/malus> ;
  skos:broader x:fruit ;
  skos:inScheme x:fruits .
x:fruit a skos:Concept ; skos:prefLabel "fruit"@en ; skos:scopeNote "To eat."@en
  ; skos:notation "A" .
x:old a skos:Concept ; skos:prefLabel "old"@en ; owl:deprecated true .
x:birne a skos:Concept ; skos:prefLabel "Birne"@de .
"""
XML = """\
<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY x "http://x.example/"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    xmlns:skos="http://www.w3.org/2004/02/skos/core#" xmlns:owl="http://www.w3.org/2002/07/owl#"
    xmlns:x="http://x.example/">
  <owl:Ontology rdf:about="&x;"><owl:imports rdf:resource="http://y.example/other.owl"/></owl:Ontology>
  <skos:Concept rdf:about="&x;apple">
    <rdf:type rdf:resource="&x;Pome"/>
    <skos:prefLabel xml:lang="en">apple</skos:prefLabel>
    <skos:prefLabel xml:lang="de">Apfel</skos:prefLabel>
    <skos:altLabel xml:lang="en-GB">Malus  fruit</skos:altLabel>
    <skos:altLabel xml:lang="de">Gravensteiner</skos:altLabel>
    <skos:altLabel>M. domestica</skos:altLabel>
    <skos:hiddenLabel xml:lang="en">aple</skos:hiddenLabel>
    <skos:definition xml:lang="en">A "pome".
It is round.</skos:definition>
    <skos:notation>A1</skos:notation>
    <skos:exactMatch rdf:resource="http://purl.obolibrary.org/obo/FOODON_00002473"/>
    <skos:closeMatch rdf:resource="http://y.example/malus"/>
    <skos:broader rdf:resource="&x;fruit"/>
  </skos:Concept>
  <skos:Concept rdf:about="&x;fruit">
    <skos:prefLabel xml:lang="en">fruit</skos:prefLabel>
    <skos:scopeNote xml:lang="en">To eat.</skos:scopeNote>
    <skos:notation>A</skos:notation>
  </skos:Concept>
  <skos:Concept rdf:about="&x;old">
    <skos:prefLabel xml:lang="en">old</skos:prefLabel>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
  </skos:Concept>
</rdf:RDF>
"""
S = "<http://www.w3.org/2004/02/skos/core#"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NTRIPLES = f"""\
# a comment
<{EX}apple> {A} {S}Concept> .
<{EX}apple> {A} <{EX}Pome> .
<{EX}apple> {S}prefLabel> "apple"@en .
<{EX}apple> {S}prefLabel> "Apfel"@de .
<{EX}apple> {S}altLabel> "Malus  fruit"@en-GB .
<{EX}apple> {S}altLabel> "Gravensteiner"@de .
<{EX}apple> {S}altLabel> "M. domestica" .
<{EX}apple> {S}hiddenLabel> "aple"@en . # misspelt
<{EX}apple> {S}definition> "A \\"pome\\".\\nIt is \\u0072ound."@en .
<{EX}apple> {S}notation> "A1"^^<http://www.w3.org/2001/XMLSchema#string> .
<{EX}apple> {S}exactMatch> <http://purl.obolibrary.org/obo/FOODON_00002473> .
<{EX}apple> {S}closeMatch> <http://y.example/malus> .
<{EX}apple> {S}broader> <{EX}fruit> .

<{EX}fruit> {S}prefLabel> "fruit"@en .
<{EX}fruit> {S}scopeNote> "To eat."@en .
<{EX}fruit> {S}notation> "A" .
<{EX}old> {S}prefLabel> "old"@en .
<{EX}old> <http://www.w3.org/2002/07/owl#deprecated> "true" .
_:b1 {S}prefLabel> "nobody"@en .
"""
JSON_LD = """\
{"@context": {"skos": "http://www.w3.org/2004/02/skos/core#", "x": "http://x.example/",
  "owl": "http://www.w3.org/2002/07/owl#",
  "exactMatch": {"@id": "skos:exactMatch", "@type": "@id"}},
 "@graph": [
  {"@id": "x:apple", "@type": ["skos:Concept", "x:Pome"],
   "skos:prefLabel": [{"@value": "apple", "@language": "en"},
     {"@value": "Apfel", "@language": "de"}],
   "skos:altLabel": [{"@value": "Malus  fruit", "@language": "en-GB"},
     {"@value": "Gravensteiner", "@language": "de"}, "M. domestica"],
   "skos:hiddenLabel": {"@value": "aple", "@language": "en"},
   "skos:definition": {"@value": "A \\"pome\\".\\nIt is round.", "@language": "en"},
   "skos:notation": "A1", "exactMatch": "http://purl.obolibrary.org/obo/FOODON_00002473",
   "skos:closeMatch": {"@id": "http://y.example/malus"}, "skos:broader": {"@id": "x:fruit"}},
  {"@id": "x:fruit", "@type": "skos:Concept", "skos:notation": "A",
   "skos:prefLabel": {"@value": "fruit", "@language": "en"},
   "skos:scopeNote": {"@value": "To eat.", "@language": "en"}},
  {"@id": "x:old", "skos:prefLabel": {"@value": "old", "@language": "en"}, "owl:deprecated": true}]}
"""
SYNTAXES = {"turtle": TURTLE, "xml": XML, "ntriples": NTRIPLES, "json-ld": JSON_LD}
EXPECTED = [
    Entity(
        key=f"{EX}apple",
        title="apple",
        description='A "pome".\nIt is round.',
        type="Pome",
        url=f"{EX}apple",
        language="en",
        aliases=(
            Alias("Malus fruit", "synonym"),
            Alias("M. domestica", "synonym"),
            Alias("aple", "alias"),
        ),
        xrefs=("FOODON:00002473",),
        parents=(f"{EX}fruit",),
    ),
    Entity(f"{EX}fruit", "fruit", "To eat.", url=f"{EX}fruit", language="en"),
]
_BROKEN_TURTLE = TURTLE.replace('"apple"@en', '"apple@en')


class TestContract(KBAdapterContract):
    plugin = "kglink/skos"
    source_text = TURTLE
    source_name = "fruit.ttl"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "@prefix x: <http://x.example/> .\n",
        _BROKEN_TURTLE,
        XML[:-20],
        JSON_LD[:-20],
        NTRIPLES.replace('"apple"@en .', '"apple@en .'),
        NTRIPLES.replace("apple> ", "apple "),
        TURTLE.replace('"apple"@en', '"app\\u0000le"@en'),
    )


# ------------------------------------------------------------------------------ the formats
@pytest.mark.parametrize("syntax", SYNTAXES)
def test_every_syntax_says_the_same(syntax: str) -> None:
    text = SYNTAXES[syntax]
    assert syntax_of(head_of(text)) == syntax
    assert sniff(head_of(text)) == 0.9
    assert claimants(head_of(text)) == ["kglink/skos"]
    assert read(text) == EXPECTED
    assert read(text, syntax=syntax) == EXPECTED
    assert read(b"\xef\xbb\xbf" + text.encode()) == EXPECTED
    assert read(text.replace("\n", "\r\n"))[1] == EXPECTED[1]


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_languages_in_their_order(syntax: str) -> None:
    german = read(SYNTAXES[syntax], languages="de, en")
    assert [(e.title, e.language) for e in german[:2]] == [("Apfel", "de"), ("fruit", "en")]
    assert [alias.surface for alias in german[0].aliases] == [
        *("apple", "Gravensteiner", "Malus fruit", "M. domestica", "aple"),
    ]
    with pytest.raises(SourceError, match="no concept with a label in sv") as caught:
        read(SYNTAXES[syntax], languages="sv")
    assert "en (2), de (" in caught.value.hint


def test_a_definition_follows_the_languages() -> None:
    assert read(TURTLE, languages="de")[0].description == "Ein Kernobst."
    assert [entity.title for entity in read(TURTLE, languages="de")] == ["Apfel", "Birne"]


def test_keys() -> None:
    assert [entity.key for entity in read(TURTLE, key="local")] == ["apple", "fruit"]
    assert [entity.key for entity in read(TURTLE, key="notation")] == ["A1", "A"]
    without = TURTLE.replace('; skos:notation "A" .', ".")
    with pytest.raises(RecordError, match="a concept without a notation key") as caught:
        read(without, key="notation")
    assert caught.value.where == f"thesaurus.rdf, <{EX}fruit>"
    problems = Problems("skip")
    assert [entity.key for entity in read(without, problems, key="notation")] == ["A1"]
    assert problems.total == 1


def test_the_keys_of_parents_are_those_of_concepts() -> None:
    more = TURTLE.replace("broader x:fruit", "broader x:fruit, <http://y.example/food#F7>, x:fruit")
    assert read(more)[0].parents == (f"{EX}fruit", "http://y.example/food#F7")
    assert read(more, key="local")[0].parents == ("fruit", "F7")
    assert read(more, key="notation")[0].parents == ("A",)  # the other's notation is not known


def test_the_superclasses_of_a_class_are_its_parents() -> None:
    text = """\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix obo: <http://purl.obolibrary.org/obo/> .
obo:DOID_1 a owl:Class ; rdfs:label "one" ;
  rdfs:subClassOf obo:DOID_4, owl:Thing, "DOID_5", [ a owl:Restriction ] .
"""
    assert read(text) == [
        Entity("DOID:1", "one", url="http://purl.obolibrary.org/obo/DOID_1", parents=("DOID:4",))
    ]


def test_mappings_and_prefixes() -> None:
    assert read(TURTLE, matches="close")[0].xrefs == ("FOODON:00002473", "http://y.example/malus")
    assert read(TURTLE, matches="none")[0].xrefs == ()
    assert [e.title for e in read(TURTLE, prefix=f"Y:, {EX}fr")] == ["fruit"]
    with pytest.raises(SourceError, match="holds no concept"):
        read(TURTLE, prefix="Y:")


OWL = """\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix obo: <http://purl.obolibrary.org/obo/> .
@prefix oio: <http://www.geneontology.org/formats/oboInOwl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<http://purl.obolibrary.org/obo/x.owl> a owl:Ontology ; rdfs:label "X" .
obo:X_1 a owl:Class ; rdfs:label "one" ; obo:IAO_0000115 "The first." ; rdfs:comment "no" ;
  oio:hasExactSynonym "single" ; oio:hasDbXref "MESH:D1" ; oio:hasAlternativeId "X:0" ;
  rdfs:subClassOf [ a owl:Restriction ; owl:onProperty obo:R_1 ; owl:someValuesFrom obo:X_2 ] .
obo:X_2 a owl:Class ; rdfs:label "two" ; owl:deprecated "true"^^xsd:boolean .
obo:R_1 a owl:ObjectProperty ; rdfs:label "related to" .
"""


def test_an_ontology_in_owl() -> None:
    assert read(OWL) == [
        Entity(
            key="X:1",
            title="one",
            description="The first.",
            url="http://purl.obolibrary.org/obo/X_1",
            aliases=(Alias("single", "synonym"),),
            xrefs=("MESH:D1", "X:0"),
        )
    ]


def test_labels_and_definitions_that_are_resources_of_their_own() -> None:
    text = """\
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
<http://x.example/1> a skos:Concept ; xl:prefLabel <http://x.example/l1> ;
  xl:altLabel [ xl:literalForm "uno"@en ] ; skos:definition [ rdf:value "The first."@en ] .
<http://x.example/l1> a xl:Label ; xl:literalForm "one"@en .
"""
    (entity,) = read(text)
    assert (entity.title, entity.description) == ("one", "The first.")
    assert entity.aliases == (Alias("uno", "synonym"),)


@pytest.mark.parametrize("value", ["", " , ", "en;de"])
def test_languages_that_are_none(value: str) -> None:
    if value == "en;de":
        with pytest.raises(SourceError, match="no concept with a label"):
            read(TURTLE, languages=value)
    else:
        with pytest.raises(ValidationError, match="names no language"):
            SkosSettings(languages=value)


# -------------------------------------------------------------------------------- N-Triples
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f'<{EX}b> {S}prefLabel> "open .', "not a triple"),
        (f'<{EX}b> {S}prefLabel> "no end"@en', "not a triple"),
        (f'<{EX}b {S}prefLabel> "a"@en .', "not a triple"),
        ("gibberish", "not a triple"),
        ("one two three four", "not a triple"),
    ],
)
def test_a_bad_line_is_told_with_its_number(line: str, reason: str) -> None:
    data = f'<{EX}a> {S}prefLabel> "a"@en .\n{line}\n<{EX}c> {S}prefLabel> "c"@en .\n'
    problems = Problems("skip")
    found = read(data, problems, syntax="ntriples")
    assert [entity.title for entity in found] == ["a", "c"]
    assert problems.total == 1
    with pytest.raises(RecordError, match=r"thesaurus\.rdf, line 2: ") as caught:
        read(data, syntax="ntriples")
    assert caught.value.reason == reason


def test_a_long_line_of_labels_is_refused_at_once() -> None:
    """In n^2 ways, as it once was, the match would take longer than a test may."""
    line = "_:a<a>" * 200_000
    with pytest.raises(RecordError, match="not a triple"):
        read(line, syntax="ntriples")
    assert syntax_of(head_of(line)) == "auto"
    found = read(f'<{EX}a>{S}prefLabel>"a"@en.\n_:b{S}broader>_:a.b..c.\n', syntax="ntriples")
    assert [entity.title for entity in found] == ["a"]


def test_a_line_that_is_no_utf8() -> None:
    data = f'<{EX}a> {S}prefLabel> "caf'.encode() + b'\xe9"@en .\n'
    with pytest.raises(RecordError, match="line 1, byte 0xe9 at byte 73"):
        read(data, syntax="ntriples")


def test_grouped_triples_are_read_one_concept_at_a_time(tmp_path: Path) -> None:
    assert read(NTRIPLES, grouped=True) == EXPECTED
    path = tmp_path / "big.nt.gz"
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as out:
        for i in range(4000):
            out.write(f'<{EX}{i}> {S}prefLabel> "concept {i}"@en .\n')
            out.write(f'<{EX}{i}> {S}definition> "{"x" * 1500}"@en .\n')
    peaks = []
    for grouped in (True, False):
        tracemalloc.start()
        with Source.open_path(path) as source:
            assert sum(1 for _ in adapter(grouped=grouped).read(source, Problems())) == 4000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 4_000_000
    assert peaks[1] > 8_000_000


# ------------------------------------------------------------------------------ hostile input
BOMB = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY a "ha"> <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"> %s ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns:skos="http://www.w3.org/2004/02/skos/core#">
  <skos:Concept rdf:about="http://x.example/1"><skos:prefLabel>&b;</skos:prefLabel></skos:Concept>
</rdf:RDF>"""


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


def test_a_literal_that_does_not_fit_its_type_is_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = TURTLE.replace('skos:notation "A1"', 'skos:notation "A1"^^xsd:integer')
    assert read(odd, key="notation")[0].key == "A1"
    assert not caplog.records


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


@pytest.mark.parametrize(
    "data",
    [
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<one> a skos:Concept ; skos:prefLabel "one" ; skos:exactMatch <#two>, </three> .',
        '{"@id": "one", "http://www.w3.org/2004/02/skos/core#prefLabel": "one",'
        ' "http://www.w3.org/2004/02/skos/core#exactMatch": [{"@id": "#two"}, {"@id": "/three"}]}',
        f'{RDF_XML}<skos:Concept rdf:about="one"><skos:prefLabel>one</skos:prefLabel>'
        '<skos:exactMatch rdf:resource="#two"/><skos:exactMatch rdf:resource="/three"/>'
        "</skos:Concept></rdf:RDF>",
    ],
    ids=["turtle", "json-ld", "xml"],
)
def test_relative_addresses_without_a_base_stay_relative(data: str) -> None:
    assert read(data) == [Entity("one", "one", xrefs=("#two", "three"))]


def test_json_that_is_neither_an_object_nor_a_list() -> None:
    with pytest.raises(SourceError, match="found the number 2 where an object or a list is wanted"):
        read("2", syntax="json-ld")


def test_the_very_language_comes_before_its_variants() -> None:
    data = TURTLE.replace('"apple"@en,', '"aeppel"@en-GB, "apple"@en,')
    apple = read(data)[0]
    assert (apple.title, apple.language) == ("apple", "en")
    assert Alias("aeppel", "synonym") in apple.aliases


def test_a_bad_line_among_triples_does_not_hide_the_syntax() -> None:
    label = "<http://www.w3.org/2004/02/skos/core#prefLabel>"
    data = f'<{EX}a> {label} "\\uD83D\\uDE00 a" .\n<{EX}b c> {label} "b" .\n<{EX}d> {label} "d" .\n'
    assert syntax_of(head_of(data)) == "ntriples"
    problems = Problems("skip")
    assert [entity.title for entity in read(data, problems)] == ["\U0001f600 a", "d"]
    assert problems.counts == {"not a triple": 1}


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


# --------------------------------------------------------------------------------- sniffing
def test_sniffing() -> None:
    assert sniff(head_of("PREFIX x: <http://x.example/>\nx:a x:b x:c .\n")) == 0.6
    for other in (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">',
        "<?xml version='1.0'?><html/>",
        '{"id": 1, "title": "a"}',
        "id,title\n<a>,b\n",
        "prefix of a sentence: yes.",
        "[Term]\nid: X:1\n",
    ):
        assert sniff(head_of(other)) == 0


# -------------------------------------------------------------------------------------- fuzz
@fuzz
@given(data=st.binary(max_size=200), syntax=st.sampled_from(list(SYNTAXES)))
@example(b"@prefix", "turtle")
@example(b"@prefix x: <", "turtle")
@example(b'"""', "turtle")
@example(b'{"@graph": {"@id": {}}}', "json-ld")
@example(b'{"@context": 1}', "json-ld")
@example(b"2", "json-ld")
def test_arbitrary_bytes(data: bytes, syntax: str) -> None:
    check_any(lambda: adapter(syntax=syntax), sniff, data)


@fuzz
@given(seed=st.integers(0, 2**32), syntax=st.sampled_from(list(SYNTAXES)))
def test_damaged_files(seed: int, syntax: str) -> None:
    check_any(lambda: adapter(syntax=syntax), sniff, damaged(SYNTAXES[syntax].encode(), seed))


pieces = st.sampled_from(
    [*TURTLE.split(), "[", "]", "(", ")", "{", "}", "=>", "<=", "is", "of", "@"]
)


@fuzz
@given(words=st.lists(pieces, max_size=25))
def test_arbitrary_statements(words: list[str]) -> None:
    header = TURTLE[: TURTLE.index("x:fruits")]
    check_any(lambda: adapter(syntax="turtle"), sniff, (header + " ".join(words)).encode())


def test_long_addresses_that_stand_before_each_name_are_refused() -> None:
    long = "http://x.org/" + "a" * 20_000
    turtle = f'@prefix p: <{long}#> . p:a <http://www.w3.org/2004/02/skos/core#prefLabel> "A" .'
    with pytest.raises(SourceError, match="an IRI of 20,"):
        read(turtle)
    with pytest.raises(SourceError, match="an XML namespace of 20,"):
        read(rdf_xml(f'<p:x xmlns:p="{long}"/>'))


def test_a_triple_without_a_space_behind_its_predicate_is_read() -> None:
    line = "<http://x.org/a> <http://www.w3.org/2004/02/skos/core#broader><http://x.org/b> ."
    label = '<http://x.org/a> <http://www.w3.org/2004/02/skos/core#prefLabel> "A" .'
    (found,) = read(f"{label}\n{line}\n")
    assert isinstance(found, Entity)
    assert found.parents


@pytest.mark.parametrize(
    ("name", "text", "syntax"),
    [
        ("a", f"prefix skos: <{EX}>\nskos:a a skos:b .", "turtle"),
        ("a", f"PREFIX skos: <{EX}>\nskos:a a skos:b .", "turtle"),
        ("a.ttl", f"<{EX}a> a <{EX}b> ; <{EX}c> 1 .", "turtle"),
        ("a.txt", f"<{EX}a> a <{EX}b> ; <{EX}c> 1 .", "auto"),
        ("a", '<RDF xmlns="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>', "xml"),
    ],
)
def test_less_usual_beginnings_are_known(name: str, text: str, syntax: str) -> None:
    with Source.from_bytes(text.encode(), name=name) as source:
        assert syntax_of(source.head) == syntax


def test_concepts_of_two_thesauri_keep_their_addresses() -> None:
    lines = (f'<{EX}{one}/Concept_001> {S}prefLabel> "{one}"@en .' for one in ("fruit", "metal"))
    keys = [one.key for one in read("\n".join(lines), syntax="ntriples")]
    assert keys == [f"{EX}fruit/Concept_001", f"{EX}metal/Concept_001"]


@pytest.mark.parametrize("syntax", ["turtle", "json-ld"])
def test_another_encoding_is_read_where_it_is_named(syntax: str) -> None:
    data = SYNTAXES[syntax].replace("apple", "\u00e4pple").encode("cp1252")
    with pytest.raises(SourceError, match="UTF-8"):
        read(data)
    limits = SourceLimits(encoding="cp1252")
    with Source.from_bytes(data, name="a", limits=limits) as source:
        found = [one for one in adapter().read(source, Problems()) if isinstance(one, Entity)]
    assert "\u00e4pple" in {one.title for one in found}
