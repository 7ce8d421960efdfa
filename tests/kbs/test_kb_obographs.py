from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from disease_kbs import KB_FILES, disease_entities
from kb_checks import check_any, claimants, damaged, fuzz, head_of, read_bytes
from kglink.errors import RecordError, SourceError
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.obographs import ObographsAdapter, sniff
from kglink_kbs.ontology import OntologySettings

OBO = "http://purl.obolibrary.org/obo/"
OIO = "http://www.geneontology.org/formats/oboInOwl#"


def adapter(**settings: object) -> ObographsAdapter:
    return ObographsAdapter(OntologySettings.model_validate(settings))


def read(
    data: str | bytes | dict[str, Any], problems: Problems | None = None, /, **settings: object
) -> list[Entity]:
    raw = json.dumps(data) if isinstance(data, dict) else data
    return read_bytes(adapter(**settings), raw, problems, name="ontology.json")


def node(key: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"{OBO}{key}", "type": "CLASS", "lbl": key, **fields}


def graph(*nodes: Any, **fields: Any) -> dict[str, Any]:
    return {"graphs": [{"nodes": list(nodes), "edges": [], **fields}]}


APPLE = node(
    "FRUIT_1",
    lbl="apple",
    meta={
        "definition": {"val": 'A "pome"\nfruit.', "xrefs": ["FRUIT:x"]},
        "synonyms": [
            {"pred": "hasExactSynonym", "val": "Malus  fruit", "xrefs": []},
            {"pred": f"{OIO}hasBroadSynonym", "val": "pome", "synonymType": "x"},
            {"pred": "hasRelatedSynonym", "val": "Malus fruit"},
        ],
        "xrefs": [{"val": " MESH:D000001"}, {"val": f"{OBO}FOODON_00002473"}],
        "basicPropertyValues": [
            {"pred": f"{OIO}hasAlternativeId", "val": "FRUIT:0"},
            {"pred": f"{OIO}hasOBONamespace", "val": "plain"},
            {
                "pred": "http://www.w3.org/2004/02/skos/core#exactMatch",
                "val": "http://identifiers.org/mesh/D000002",
            },
            {"pred": "http://purl.org/dc/terms/creator", "val": "somebody"},
        ],
        "comments": ["none"],
    },
)
SAMPLE_GRAPHS = {
    "graphs": [
        {
            "nodes": [
                APPLE,
                node(
                    "FRUIT_2",
                    lbl="fruit",
                    type="PROPERTY",
                    meta={
                        "subsets": [f"{OBO}fruit#slim", f"{OBO}fruit#slim_b"],
                        "basicPropertyValues": [{"pred": f"{OIO}hasOBONamespace", "val": "kinds"}],
                    },
                ),
                node("FRUIT_3", meta={"deprecated": True}),
                {"id": f"{OBO}FRUIT_4", "type": "CLASS"},
                node("fruit#grows_on"),
                node("COLOUR_1"),
            ],
            "edges": [
                {"sub": f"{OBO}FRUIT_1", "pred": "is_a", "obj": f"{OBO}FRUIT_2"},
                {"sub": f"{OBO}FRUIT_1", "pred": f"{OBO}RO_1", "obj": f"{OBO}FRUIT_3"},
                {"obj": f"{OBO}FRUIT_2", "sub": f"{OBO}FRUIT_1", "pred": "is_a"},
                {"sub": f"{OBO}COLOUR_1", "pred": "is_a", "obj": f"{OBO}COLOUR_2"},
            ],
            "id": f"{OBO}fruit.owl",
            "meta": {"basicPropertyValues": [{"pred": f"{OIO}default-namespace", "val": "plain"}]},
            "logicalDefinitionAxioms": [],
        },
        {
            "id": f"{OBO}colour_import.owl",
            "nodes": [node("COLOUR_2"), {"id": "FRUIT:9", "lbl": "i"}],
            "edges": [{"sub": "FRUIT:9", "pred": "is_a", "obj": f"{OBO}COLOUR_2"}],
        },
    ]
}
EXPECTED = [
    Entity(
        key="FRUIT:1",
        title="apple",
        description='A "pome"\nfruit.',
        url=f"{OBO}FRUIT_1",
        aliases=(Alias("Malus fruit", "synonym"), Alias("pome", "synonym")),
        xrefs=("MESH:D000001", "FOODON:00002473", "mesh:D000002", "FRUIT:0"),
        parents=("FRUIT:2",),
    ),
    Entity("FRUIT:2", "fruit", type="kinds", url=f"{OBO}FRUIT_2"),
    Entity("FRUIT:9", "i", parents=("COLOUR:2",)),
]


class TestContract(KBAdapterContract):
    plugin = "kglink/obographs"
    source_text = json.dumps(SAMPLE_GRAPHS, indent=2)
    source_name = "fruit.json"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "{}",
        "[]",
        '{"graphs": []}',
        '{"graphs": [{"nodes": [{"id": "X:1", "lbl": "a"}]}',
        '{"graphs": [{"nodes": [{"id": "X:1", "lbl": "a"}]}]} more',
        json.dumps(graph({"lbl": "no id"})),
        json.dumps(graph("no object")),
    )


# ------------------------------------------------------------------------------- real files
@pytest.mark.slow
@pytest.mark.parametrize(("kb", "live", "defined"), [("doid", 8906, 5269), ("ncit", 20385, 17241)])
def test_a_real_ontology_against_a_plain_reader(
    kb: str, live: int, defined: int, realdata: Path
) -> None:
    entities = list(read_real(kb, realdata))
    assert len(entities) == live
    assert sum(bool(entity.description) for entity in entities) == defined
    for entity, plain in zip(entities, disease_entities(kb, realdata / "disease"), strict=True):
        assert (entity.key, entity.url) == (plain["id"], plain["url"])
        assert entity.title == " ".join(plain["title"].split())
        assert entity.description == plain["description"].strip()
        surfaces = dict.fromkeys(" ".join(text.split()) for text in plain["aliases"])
        assert [alias.surface for alias in entity.aliases] == list(surfaces)


@pytest.mark.slow
@pytest.mark.parametrize(("kb", "edges", "roots"), [("doid", 10_173, 1), ("ncit", 29_060, 73)])
def test_the_parents_in_a_real_ontology(kb: str, edges: int, roots: int, realdata: Path) -> None:
    by_key = {entity.key: entity for entity in read_real(kb, realdata)}
    with gzip.open(realdata / "disease" / "kb" / KB_FILES[kb], "rt", encoding="utf-8") as file:
        graphs = json.load(file)["graphs"]
    wanted = {
        tuple(edge[end].removeprefix(OBO).replace("_", ":") for end in ("sub", "obj"))
        for graph in graphs
        for edge in graph["edges"]
        if edge["pred"] == "is_a"
    }
    found = {(key, parent) for key, entity in by_key.items() for parent in entity.parents}
    assert found == {(child, parent) for child, parent in wanted if child in by_key}
    assert len(found) == sum(len(entity.parents) for entity in by_key.values()) == edges
    assert sum(not entity.parents for entity in by_key.values()) == roots


def test_a_bad_edge_is_reported_and_passed_over() -> None:
    edges = [1, {"pred": "is_a", "sub": f"{OBO}X_1"}, {"pred": 3}, {"pred": "is_a", "sub": 4}]
    problems = Problems("skip")
    (entity,) = read(graph(node("X_1"), edges=edges), problems)
    assert (entity.parents, problems.total) == ((), 3)
    with pytest.raises(RecordError, match="an edge is the number 1, not an object"):
        read(graph(node("X_1"), edges=edges))
    with pytest.raises(RecordError, match="obj is"):
        read(graph(node("X_1"), edges=edges[1:]))


def test_cross_references_of_the_disease_ontology(realdata: Path) -> None:
    by_key = {entity.key: entity for entity in read_real("doid", realdata)}
    assert by_key["DOID:11997"].xrefs[:4] == (
        "NCI:C3865",
        "SNOMEDCT_US_2018_03_01:49263001",
        "ICD9CM:608.1",
        "MESH:D013088",
    )
    assert {entity.type for entity in by_key.values()} == {""}  # one namespace says nothing
    assert not any(xref != xref.strip() for e in by_key.values() for xref in e.xrefs)


def read_real(kb: str, realdata: Path) -> Iterator[Entity]:
    with Source.open_path(realdata / "disease" / "kb" / KB_FILES[kb]) as source:
        for entity in adapter().read(source, Problems()):
            if isinstance(entity, Entity):  # else it says what took an obsolete term's place
                yield entity


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 2])
def test_memory_does_not_grow_with_the_file(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    nodes = [node(f"X_{i}", meta={"definition": {"val": "x" * 300}}) for i in range(20_000)]
    path.write_text(json.dumps(graph(*nodes), indent=indent), encoding="utf-8")
    tracemalloc.start()
    with Source.open_path(path) as source:
        assert sum(1 for _ in adapter().read(source, Problems())) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 7_000_000
    assert peak < 8_000_000


# ------------------------------------------------------------------------------ the format
def test_a_graph_may_stand_alone_and_name_itself_first() -> None:
    alone = {"id": f"{OBO}b.owl", "nodes": [node("A_1"), node("A_2"), node("B_1")]}
    assert [entity.key for entity in read(alone)] == ["B:1"]


@pytest.mark.parametrize(
    ("ontology", "prefix", "keys"),
    [
        ("", "", ["A:1", "A:2"]),  # the most frequent
        (f"{OBO}b.owl", "", ["B:1"]),  # the ontology's own, in whatever case
        (f"{OBO}b/extensions/b-plus.owl", "", ["B:1"]),
        (f"{OBO}other.owl", "", ["A:1", "A:2"]),
        ("", "B, http://x.example/", ["B:1", "http://x.example/7"]),
        ("", "*", ["A:1", "A:2", "B:1", "http://x.example/7"]),
    ],
)
def test_the_prefix_is_the_ontologys_own_or_what_is_set(
    ontology: str, prefix: str, keys: list[str]
) -> None:
    nodes = [node("A_1"), node("A_2"), node("B_1"), {"id": "http://x.example/7", "lbl": "seven"}]
    data = graph(*nodes, id=ontology)
    assert [entity.key for entity in read(data, prefix=prefix)] == keys


@pytest.mark.parametrize(
    ("address", "key"),
    [
        (f"{OBO}NCIT_C8290", "NCIT:C8290"),
        (f"{OBO}NCBITaxon_Union_0000030", "NCBITaxon:Union_0000030"),
        ("http://www.ebi.ac.uk/efo/EFO_0000400", "EFO:0000400"),
        ("http://www.orpha.net/ORDO/Orphanet_558", "Orphanet:558"),
        ("http://x.example/fruit/Concept_001", "http://x.example/fruit/Concept_001"),
        ("http://x.example/New_York", "http://x.example/New_York"),
        (f"{OBO}doid#results_in", f"{OBO}doid#results_in"),
        ("GO:0008150", "GO:0008150"),
    ],
)
def test_ids_are_shortened_where_that_is_safe(address: str, key: str) -> None:
    (entity,) = read(graph({"id": address, "lbl": "a"}))
    assert (entity.key, entity.url) == (key, address if "://" in address else "")


def test_a_prefix_that_no_id_has_says_which_there_are() -> None:
    with pytest.raises(SourceError, match="no live term with the prefix DOID") as caught:
        read(SAMPLE_GRAPHS, prefix="DOID")
    assert "FRUIT (5), " in caught.value.hint


def test_what_is_read_can_be_chosen() -> None:
    broad = read(SAMPLE_GRAPHS, synonyms="broad", alt_ids=False, type="subset")
    assert [alias.surface for alias in broad[0].aliases] == ["pome"]
    assert broad[0].xrefs == EXPECTED[0].xrefs[:-1]
    assert [entity.type for entity in broad] == ["", "slim, slim_b", ""]


def test_null_stands_for_nothing() -> None:
    (entity,) = read(graph(node("X_1", meta={"definition": None, "synonyms": None, "xrefs": None})))
    assert entity == Entity("X:1", "X_1", url=f"{OBO}X_1")


# -------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("text", "a node is the text 'text', not an object"),
        ({"lbl": "a"}, "a node without an id"),
        ({"id": " ", "lbl": "a"}, "a node without an id"),
        (node("X_2", lbl=5.5) | {"lbl": ["a"]}, "the name is a list, not a text"),
        (node("X_2", lbl="a\x00b"), "the name holds the control character U+0000"),
        (node("X_2", meta=[]), "meta is a list, not an object"),
        (node("X_2", meta={"synonyms": {}}), "synonyms is an object, not a list"),
        (node("X_2", meta={"synonyms": ["a"]}), "an item of synonyms is the text 'a', not an obj"),
        (node("X_2", meta={"xrefs": [{"val": 1}]}), "val is the number 1, not a text"),
        (node("X_2", meta={"definition": {"val": []}}), "the definition is a list, not a text"),
    ],
)
def test_a_bad_node_is_told_with_its_line(bad: object, reason: str) -> None:
    nodes = ",\n".join(json.dumps(item) for item in (node("X_1"), bad, node("X_3")))
    data = f'{{"graphs": [{{"nodes": [\n{nodes}\n]}}]}}'
    problems = Problems("skip")
    assert [entity.key for entity in read(data, problems)] == ["X:1", "X:3"]
    assert problems.total == 1
    with pytest.raises(RecordError, match=r"ontology\.json, line 3: ") as caught:
        read(data)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"graphs": [{"nodes": [{"id": "X:1"', "line 1: not valid JSON: Expecting ',' delimiter"),
        (
            '{"graphs": [{"nodes": [\n{"id": "X:1"}',
            "line 2: not valid JSON: the text ends where ','",
        ),
        ('{"graphs": [{"nodes": [{}] [', "'[' stands where ',' or '}' is wanted"),
        ('{"graphs" 1', "':' is missing"),
        ("{1: 2}", "a name in quotes is missing in an object"),
        ("[1]", "an object is wanted"),
        ('{"a": ' + "[" * 100_000, "recursion"),
        ('{"graphs": ' + '[{"graphs": ' * 50_000, "recursion"),
        ('{"graphs": [{"nodes": ' + '[{"a":' * 50_000, "recursion"),
    ],
)
def test_broken_json_says_where(data: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason.replace("[", r"\[").replace("'", "'")) as caught:
        read(data, Problems("skip"))
    assert "fetch or write the file again" in caught.value.hint


def test_a_node_without_end_is_refused() -> None:
    limits = SourceLimits(max_line_bytes=2**18)
    data = b'{"graphs": [{"nodes": [{"id": "' + b"x" * 2_000_000
    with (
        Source.from_bytes(data, limits=limits) as source,
        pytest.raises(SourceError, match="Unterminated string"),
    ):
        list(adapter().read(source, Problems()))


# --------------------------------------------------------------------------------- sniffing
def test_sniffing() -> None:
    assert sniff(head_of(json.dumps(SAMPLE_GRAPHS))) == 0.95
    assert sniff(head_of(json.dumps(SAMPLE_GRAPHS["graphs"][0]))) == 0.7
    for other in ('{"id": 1, "title": "a"}', '{"nodes": 1}', '{"id": "graphs"}', "graphs", "[]"):
        assert sniff(head_of(other)) == 0
    assert claimants(head_of(json.dumps(SAMPLE_GRAPHS, indent=1))) == ["kglink/obographs"]


# -------------------------------------------------------------------------------------- fuzz
NAMES = (
    "id",
    "lbl",
    "type",
    "meta",
    "definition",
    "val",
    "synonyms",
    "xrefs",
    "pred",
    "deprecated",
)
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.just(f"{OBO}X_1"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=15,
)
nodes_ = st.lists(values | st.dictionaries(st.sampled_from(NAMES), values, max_size=8), max_size=4)


@fuzz
@given(data=st.binary(max_size=200))
@example(b'{"graphs":[{"nodes":[')
@example(b'{"":{')
def test_arbitrary_bytes(data: bytes) -> None:
    check_any(adapter, sniff, data)


@fuzz
@given(nodes=nodes_)
def test_arbitrary_nodes(nodes: list[object]) -> None:
    check_any(lambda: adapter(prefix="*"), sniff, json.dumps(graph(*nodes)).encode())


@fuzz
@given(seed=st.integers(0, 2**32))
def test_damaged_files(seed: int) -> None:
    check_any(adapter, sniff, damaged(json.dumps(SAMPLE_GRAPHS).encode(), seed))


def test_a_blank_label_is_none_and_deprecated_may_be_a_text() -> None:
    nodes = [
        {"id": "X:1", "lbl": "  "},
        {"id": "X:2", "lbl": "two", "meta": {"deprecated": "true"}},
        {"id": "X:3", "lbl": " three "},
    ]
    entities = read(json.dumps({"graphs": [{"nodes": nodes}]}))
    assert [(entity.key, entity.title) for entity in entities] == [("X:3", "three")]


def test_another_encoding_is_read_where_it_is_named() -> None:
    data = json.dumps(graph(node("A_1", lbl="Käse")), ensure_ascii=False).encode("cp1252")
    with pytest.raises(SourceError, match=rf"not valid UTF-8 at byte {data.index(b'K') + 1}\n"):
        read(data)
    source = Source.from_bytes(data, name="a.json", limits=SourceLimits(encoding="cp1252"))
    assert [one.title for one in adapter().read(source, Problems()) if isinstance(one, Entity)] == [
        "Käse"
    ]
