"""Overlaps as lists: CURIEs, SSSOM, the paper's table, figures against a list, verdicts."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kglink.errors import KglinkError, RecordError, SourceError, UsageError
from kglink.overlap.exchange.lists import (
    CurieMaker,
    ListedPair,
    PairList,
    kb_of,
    keys_of,
    source_of,
)
from kglink.overlap.exchange.matching import (
    ListFigures,
    MatchedList,
    compare_overlaps,
    import_verdicts,
    match_list,
)
from kglink.overlap.exchange.write import (
    COLUMNS,
    DOUBTS,
    REASONS,
    SetInfo,
    justification_of,
    write_paper,
    write_sssom,
)
from kglink.overlap.model import default_model
from kglink.records import Entity, EntityId, Overlap, Verdict
from kglink.sources import Source
from kglink.store import Store
from store_support import entity, job

ABOUT = SetInfo(("doid", "wiki"), "2026-11-21", "0.1.0", author="Ada | Lovelace")
HEAD = "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\tconfidence"


class Entities:
    """Entities in memory as a store gives them."""

    def __init__(self, entities: Mapping[EntityId, Entity]) -> None:
        self._entities = entities

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        return {name: self._entities[name] for name in ids if name in self._entities}


def name(text: str) -> EntityId:
    return EntityId.parse(text)


def known(*ids: str) -> Entities:
    return Entities({name(one): Entity(name(one).key, f"Title of {one}") for one in ids})


def pair(left: str, right: str, probability: float = 0.9, **evidence: float) -> Overlap:
    return Overlap(name(left), name(right), probability, evidence or {"name": 1.0})


def listed(text: str, file: str = "list.tsv", least: float = 0.0) -> PairList:
    return PairList(Source.from_bytes(text.encode(), name=file), least)


def sssom(*rows: str, head: str = "") -> str:
    return head + HEAD + "\n" + "".join(row + "\n" for row in rows)


def row(
    left: str,
    right: str,
    predicate: str = "skos:exactMatch",
    modifier: str = "",
    justification: str = "",
    confidence: str = "",
) -> str:
    return "\t".join((left, predicate, modifier, right, justification, confidence))


# ----------------------------------------------------------------------------------- CURIEs
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


# ---------------------------------------------------------------------------------- writing
def written(overlaps: list[Overlap], store: Entities, about: SetInfo = ABOUT) -> str:
    out = io.StringIO()
    assert write_sssom(overlaps, store.get_entities, out, about) == len(overlaps)
    return out.getvalue()


def rows_of(table: str) -> list[dict[str, str]]:
    lines = [line for line in table.splitlines() if not line.startswith("#")]
    assert lines[0] == "\t".join(COLUMNS)
    return [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines[1:]]


def test_an_sssom_table_in_full() -> None:
    store = Entities(
        {
            name("doid:DOID:1"): Entity(
                "DOID:1", 'A "quoted"\ttitle ', type="disease", url="http://x.example/DOID_1"
            ),
            name("wiki:Über Eck"): Entity("Über Eck", "Über Eck"),
        }
    )
    overlaps = [pair("doid:DOID:1", "wiki:Über Eck", 0.87654, name=1.0, description=0.5)]
    head, _, body = written(overlaps, store).partition("subject_id")
    assert head.splitlines() == [
        "#curie_map:",
        '#  "DOID": "http://x.example/DOID_"',
        '#  "kb": "urn:kglink:kb:"',
        '#  "kb.wiki": "urn:kglink:kb.wiki:"',
        '#  "orcid": "https://orcid.org/"',
        '#  "semapv": "https://w3id.org/semapv/vocab/"',
        '#  "skos": "http://www.w3.org/2004/02/skos/core#"',
        '#mapping_set_id: "https://w3id.org/sssom/mappings/acb28399-8fbf-5ca3-a188-71eb9fda0666"',
        '#mapping_set_title: "Overlaps of doid, wiki"',
        '#mapping_date: "2026-11-21"',
        '#license: "https://w3id.org/sssom/license/unspecified"',
    ]
    (found,) = rows_of("subject_id" + body)
    assert {column: value for column, value in found.items() if value} == {
        "subject_id": "DOID:1",
        "subject_label": '"A ""quoted"" title"',
        "subject_category": "disease",
        "predicate_id": "skos:exactMatch",
        "object_id": "kb.wiki:%C3%9Cber%20Eck",
        "object_label": "Über Eck",
        "mapping_justification": "semapv:CompositeMatching",
        "subject_source": "kb:doid",
        "object_source": "kb:wiki",
        "mapping_tool": "kglink",
        "mapping_tool_version": "0.1.0",
        "confidence": "0.8765",
        "similarity_score": "0.5",
        "similarity_measure": "cosine of sentence embeddings",
        "other": "description=0.5; name=1",
    }


@pytest.mark.parametrize(
    "title",
    [
        '=HYPERLINK("http://x.example";"a")',
        "\x80=1+1",
        "\x01 \t@SUM(A1)",
        "a\n=1\r\n\t-2",
        "\u2028+1",
        "\u202e=1",
        "x\u2066\u202ey",
        "<script>alert(1)</script>\x1b[2J",
    ],
)
def test_no_title_is_a_formula_or_another_row(title: str) -> None:
    store = Entities({name(one): Entity("1", title, type=title) for one in ("doid:1", "wiki:1")})
    paper = io.StringIO()
    assert write_paper([pair("doid:1", "wiki:1")], store.get_entities, paper) == 1
    _, _, body = written([pair("doid:1", "wiki:1")], store).partition("subject_id")
    for table in ("subject_id" + body, paper.getvalue()):
        head, *rows = csv.reader(io.StringIO(table, newline=""), delimiter="\t")
        (row,) = rows
        assert len(row) == len(head)
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@"))]
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", "".join(row))


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (
            pair("a:1", "b:1", name=1.0, title=0.0),
            {"mapping_justification": "semapv:LexicalMatching"},
        ),
        (
            pair("a:1", "b:1", description=0.7, title=0.0),
            {"mapping_justification": "semapv:SemanticSimilarityThresholdMatching"},
        ),
        (
            pair("a:1", "b:1", name=1.0, type=1.0),
            {"mapping_justification": "semapv:CompositeMatching"},
        ),
        (
            replace(pair("a:1", "b:1"), verdict="unclear", source="review"),
            {"mapping_tool": "kglink", "comment": "judged unclear", "confidence": "0.9"},
        ),
        (
            replace(pair("a:1", "b:1"), verdict="correct", source="review"),
            {
                "mapping_justification": "semapv:ManualMappingCuration", "confidence": "1",
                "author_label": "Ada Lovelace", "mapping_tool": "", "predicate_modifier": "",
            },
        ),
        (
            replace(pair("a:1", "b:1"), verdict="wrong", source="review", stale=True),
            {
                "mapping_justification": "semapv:ManualMappingCuration", "confidence": "1",
                "predicate_modifier": "Not",
                "comment": "judged before a title or description changed",
            },
        ),
        (
            replace(pair("a:1", "b:1"), verdict="correct", source="import"),
            {
                "mapping_justification": "semapv:UnspecifiedMatching", "author_label": "",
                "comment": "verdict of an imported list",
            },
        ),
        (
            replace(pair("a:1", "b:1"), verdict="correct", source="kb:mondo"),
            {"comment": "verdict of the mappings of mondo"},
        ),
    ],
)  # fmt: skip
def test_what_a_row_says_of_evidence_and_verdict(
    overlap: Overlap, expected: dict[str, str]
) -> None:
    (found,) = rows_of(written([overlap], known("a:1", "b:1")))
    assert {column: found[column] for column in expected} == expected


@pytest.mark.parametrize(
    ("evidence", "term"),
    [
        ({"shared_names": 2.0}, "LexicalMatching"),
        ({"title": 1.0, "name": 1.0, "more_names": 0.25, "name_bearers": 0.6}, "LexicalMatching"),
        ({"same_words": 0.0, "words": 0.8, "letters": 0.7, "spelling": 0.9, "other_numbers": 0.2},
         "LexicalSimilarityThresholdMatching"),
        ({"same_words": 1.0, "words": 1.0, "letters": 0.9, "spelling": 1.0}, "LexicalMatching"),
        ({"near_names": 0.8, "all_names": 0.7, "texts": 0.6, "name_in_text": 0.5, "name": 0.0},
         "SemanticSimilarityThresholdMatching"),
        ({"description": 0.6, "near_names": 0.6}, "SemanticSimilarityThresholdMatching"),
        ({"shared_names": 1.0, "text": 0.6}, "CompositeMatching"),
        ({"words": 0.8, "near_names": 0.9}, "CompositeMatching"),
        ({"type": 1.0, "parents": 0.9, "children": 0.5, "children_share": 0.3, "level": 0.1},
         "StructuralMatching"),
        ({"through": 0.9, "conflict": 0.05}, "MappingChaining"),
        ({"xref": 1.0}, "BackgroundKnowledgeBasedMatching"),
        ({"name": 1.0, "worse_lead": 0.4, "better_lead": 0.9}, "LexicalMatching"),
        ({"tea_leaves": 1.0}, "UnspecifiedMatching"),
        ({"tea_leaves": 1.0, "name": 1.0}, "CompositeMatching"),
        ({"description": -0.2}, "UnspecifiedMatching"),
        ({"mapping": 0.9}, "UnspecifiedMatching"),
    ],
)  # fmt: skip
def test_each_kind_of_evidence_has_its_term(evidence: dict[str, float], term: str) -> None:
    assert justification_of(pair("a:1", "b:1", **evidence)) == f"semapv:{term}"


def test_every_value_of_our_evidence_is_a_reason_or_a_doubt() -> None:
    assert not REASONS.keys() & DOUBTS
    assert default_model().weights.keys() <= REASONS.keys() | DOUBTS


def test_an_orcid_is_an_author_s_id() -> None:
    judged = replace(pair("a:1", "b:1"), verdict="correct", source="review")
    about = replace(ABOUT, author="orcid:0000-0002-7356-1779")
    (found,) = rows_of(written([judged], known("a:1", "b:1"), about))
    assert (found["author_id"], found["author_label"]) == ("orcid:0000-0002-7356-1779", "")


def test_the_paper_s_table() -> None:
    out = io.StringIO()
    overlaps = [
        pair("a:1", "b:x y", description=0.51239),
        pair("a:2", "b:x y", text=0.75),
        pair("a:2", "b:gone"),
        pair("a:3", "b:x y"),
    ]
    assert write_paper(overlaps, known("a:1", "a:2", "a:3", "b:x y").get_entities, out) == 3
    assert out.getvalue().splitlines() == [
        "kg1_id\tkg2_id\ttitle1\ttitle2\tcosine",
        "a:1\tb:x y\tTitle of a:1\tTitle of b:x y\t0.5124",
        "a:2\tb:x y\tTitle of a:2\tTitle of b:x y\t0.7500",
        "a:3\tb:x y\tTitle of a:3\tTitle of b:x y\t",
    ]
    with pytest.raises(UsageError, match="cannot stand in a plain table"):
        write_paper([pair("a:1", "b:x\ty")], known("a:1", "b:x\ty").get_entities, io.StringIO())
    for key in ("x  y", "x\xa0y", "x\u3000y"):  # they would come back as x y
        with pytest.raises(UsageError, match="cannot stand in a plain table"):
            write_paper(
                [pair("a:1", f"b:{key}")], known("a:1", f"b:{key}").get_entities, io.StringIO()
            )


# ---------------------------------------------------------------------------------- reading
def test_what_a_row_of_sssom_says() -> None:
    pairs = listed(
        sssom(
            row("DOID:1", "HP:1"),
            row("DOID:2", "HP:2", modifier="Not"),
            row("DOID:3", "HP:3", "http://www.w3.org/2002/07/owl#equivalentClass"),
            row("DOID:4", "HP:4", "skos:broadMatch"),
            row("DOID:5", "HP:5", confidence="0.4"),
            row("DOID:6", "sssom:NoTermFound"),
            row("DOID:7", "HP:7", "skos:broadMatch"),
            head="#curie_map:\n#  DOID: http://x/DOID_\n",
        ),
        least=0.5,
    )
    assert list(pairs) == [
        ListedPair("list.tsv, line 4", "DOID:1", "HP:1"),
        ListedPair("list.tsv, line 5", "DOID:2", "HP:2", "wrong"),
        ListedPair("list.tsv, line 6", "DOID:3", "HP:3"),
    ]
    assert pairs.prefixes == {"DOID": "http://x/DOID_"}
    assert pairs.left_out == {
        "rows of the predicate skos:broadMatch": 2,
        "rows less confident than 0.5": 1,
        "terms without a counterpart": 1,
    }


def test_our_own_proposals_are_no_verdicts_of_anybody() -> None:
    overlaps = [
        pair("a:1", "b:1"),
        replace(pair("a:2", "b:2"), verdict="correct", source="review"),
        replace(pair("a:3", "b:3"), verdict="wrong", source="import"),
    ]
    ids = [f"{kb}:{number}" for kb in "ab" for number in (1, 2, 3)]
    pairs = listed(written(overlaps, known(*ids)))
    assert [(one.left, one.verdict, one.left_kb, one.right_kb) for one in pairs] == [
        ("kb.a:2", "correct", "a", "b"),
        ("kb.a:3", "wrong", "a", "b"),
    ]
    assert pairs.left_out == {"proposals of kglink that nobody judged": 1}


def test_what_all_rows_share_may_stand_in_the_head() -> None:
    head = "# mapping_tool: 'kglink'\n# subject_source: kb:a\n# object_source: kb:b\n"
    pairs = listed(
        sssom(
            row("kb.a:1", "kb.b:1", justification="semapv:LexicalMatching"),
            row("kb.a:2", "kb.b:2", justification="semapv:ManualMappingCuration"),
            head=head,
        )
    )
    assert [(one.left, one.left_kb, one.right_kb) for one in pairs] == [("kb.a:2", "a", "b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kg1_id\tkg2_id\ttitle1\ttitle2\tcosine\n1\tx y\tOne\tX\t0.5\n",
            [("1", "x y", "correct")],
        ),
        ("1\tx\n2\ty\n", [("1", "x", "correct"), ("2", "y", "correct")]),
        ("# ours\n\n1\tx\r\n", [("1", "x", "correct")]),
        ("left\tright\n1\tx\n", [("1", "x", "correct")]),
        (
            "kb_a\tid_a\tkb_b\tid_b\tone_to_one\nDOID\tDOID:1\tHP\tHP:2\t1\n",
            [("DOID:1", "HP:2", "correct")],
        ),
        (
            "Left\tRight\tVerdict\n1\tx\twrong\n2\ty\tunclear\n3\tz\t\n",
            [("1", "x", "wrong"), ("2", "y", "unclear"), ("3", "z", "correct")],
        ),
        ('"a ""b"""\tx\n', [('a "b"', "x", "correct")]),
        (
            "left\tright\tverdict\n#1\tx\twrong\n# a remark\n2\ty\t\n",
            [("#1", "x", "wrong"), ("2", "y", "correct")],
        ),
    ],
)  # fmt: skip
def test_plain_lists(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.left, one.right, one.verdict) for one in listed(text)] == expected


def test_a_long_head_of_sssom_is_a_head() -> None:
    head = "".join(f'#  P{number}: "http://example.org/{number}/"\n' for number in range(4_000))
    assert len(head) > 2**16
    (one,) = listed(sssom(row("a:1", "b:2"), head=f"#curie_map:\n{head}"))
    assert (one.left, one.right) == ("a:1", "b:2")


def test_no_hint_names_an_option_that_overlap_lacks() -> None:
    with pytest.raises(RecordError, match="confidence is '2'") as refused:
        list(listed(sssom(row("a", "b", confidence="2"))))
    assert "--on-error" not in refused.value.hint


@pytest.mark.parametrize(
    ("text", "file", "error", "message"),
    [
        ("subject_id\tobject_id\na\tb\n", "x.tsv", SourceError, "line 1: the header has no col"),
        ("#x\nDOID:1\tHP:1\n", "x.sssom.tsv", SourceError, "line 2: the header has no"),
        ("#only: a head\n", "x.sssom.tsv", SourceError, "has no header row"),
        (sssom("DOID:1\tHP:1"), "x.tsv", RecordError, "line 2: a row of 2 cells under a he"),
        (sssom(row("a", "b", confidence="2")), "x.tsv", RecordError, "line 2: confidence is '2'"),
        ("", "x.tsv", SourceError, "is empty"),
        ("# nothing\n", "x.tsv", SourceError, "holds no pairs"),
        ("a\tb\tc\n", "x.tsv", RecordError, "line 1: 3 columns without a header"),
        ("a\tb\nc\n", "x.tsv", RecordError, "line 2: 1 columns without a header"),
        ("left\tright\na\n", "x.tsv", RecordError, "line 2: a row of 1 cells under a header of 2"),
        ("left\tright\na\t\n", "x.tsv", RecordError, "line 2: an empty id"),
        ("left\tright\tverdict\na\tb\tyes\n", "x.tsv", RecordError, "line 2: 'yes' is no verdict"),
        ("a\t\x00b\n", "x.tsv", SourceError, "is binary"),
    ],
)  # fmt: skip
def test_a_list_that_is_none(text: str, file: str, error: type[KglinkError], message: str) -> None:
    with pytest.raises(error, match=message):
        list(listed(text, file))


@given(data=st.text('leftrigh_idsubjcpa:1\t\n#" ', max_size=120))
def test_only_our_own_errors_come_out(data: str) -> None:
    for file in ("x.tsv", "x.sssom.tsv"):
        for text in (data, sssom(data), "left\tright\n" + data):
            with contextlib.suppress(KglinkError):
                assert all(one.left and one.right for one in listed(text, file))


# --------------------------------------------------------------------------------- matching
def test_ids_are_looked_up_in_both_kbs_and_both_directions() -> None:
    store = known(
        "doid:DOID:1", "doid:DOID:2", "mesh:D000001", "mesh:x:y", "doid:same", "mesh:same"
    )
    found = match_list(
        listed(
            "DOID:1\tMESH:D000001\n"
            "x:y\tDOID:2\n"
            "same\tsame\n"
            "DOID:1\tDOID:2\n"
            "DOID:9\tD000009\n"
            "DOID:9\tx:y\n"
        ),
        store.get_entities,
        "doid",
        "mesh",
    )
    assert set(found.verdicts) == {
        (name("doid:DOID:1"), name("mesh:D000001")),
        (name("doid:DOID:2"), name("mesh:x:y")),
        (name("doid:same"), name("mesh:same")),
    }
    assert (found.rows, found.unmatched, found.one_kb, found.unknown) == (6, 3, 1, 2)
    assert found.examples == ["DOID:9 (list.tsv, line 5)", "D000009 (list.tsv, line 5)"]


def test_a_list_in_many_batches(tmp_path: Path) -> None:
    numbers = range(1300)
    store = known(*(f"a:{number}" for number in numbers), *(f"b:{number}" for number in numbers))
    text = "".join(f"b:{number}\ta:{number}\n" for number in numbers)
    found = match_list(listed(text), store.get_entities, "a", "b")
    assert set(found.verdicts) == {(name(f"a:{n}"), name(f"b:{n}")) for n in numbers}


def test_an_overlap_with_itself() -> None:
    with pytest.raises(UsageError, match="no overlap with itself"):
        match_list(listed("a\tb\n"), known().get_entities, "a", "a")


# ---------------------------------------------------------------------------------- figures
def matched(
    correct: Iterable[tuple[str, str]], wrong: Iterable[tuple[str, str]] = ()
) -> MatchedList:
    verdicts: dict[tuple[EntityId, EntityId], Verdict] = {}
    for said, pairs in (("correct", correct), ("wrong", wrong)):
        for left, right in pairs:
            verdicts[name(f"a:{left}"), name(f"b:{right}")] = said  # type: ignore[assignment]  # one of two
    return MatchedList("a", "b", verdicts)


def test_figures_by_hand() -> None:
    ours = [
        pair("a:1", "b:1"),  # in the list
        pair("a:2", "b:2"),  # in the list
        pair("a:1", "b:9"),  # of an entity that the list pairs with another
        pair("a:7", "b:7"),  # of entities that the list does not speak of
        pair("a:8", "b:8"),  # that the list calls wrong
        Overlap(name("a:3"), name("b:3"), 1.0, {}, "correct"),  # told, not found
    ]
    figures = compare_overlaps(
        ours, matched([("1", "1"), ("2", "2"), ("3", "3"), ("4", "4")], [("8", "8"), ("9", "9")])
    )
    assert figures == ListFigures(listed=4, ours=5, both=2, ours_known=3, denied=2, denied_found=1)
    assert (figures.precision, figures.recall) == (2 / 5, 2 / 4)
    assert figures.precision_known == 2 / 3
    assert figures.f1 == pytest.approx(2 * 0.4 * 0.5 / 0.9)
    assert figures.f1_known == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    nothing = compare_overlaps([], matched([("1", "1")]))
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, 0.0, 0.0)


PAIRS = st.sets(st.tuples(st.sampled_from("123"), st.sampled_from("xyz")))


@given(ours=PAIRS, theirs=PAIRS)
def test_figures_as_sets_say_them(ours: set[tuple[str, str]], theirs: set[tuple[str, str]]) -> None:
    figures = compare_overlaps(
        [pair(f"a:{left}", f"b:{right}") for left, right in ours], matched(theirs)
    )
    both = ours & theirs
    assert figures.precision == (len(both) / len(ours) if ours else None)
    assert figures.recall == (len(both) / len(theirs) if theirs else None)
    touching = {
        one for one in ours if any(one[0] == left or one[1] == right for left, right in theirs)
    }
    assert figures.precision_known == (len(both) / len(touching) if touching else None)


# ---------------------------------------------------------------------- taking lists in
@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'kglink.db'}") as opened:
        for kb in ("a", "b"):
            opened.ingest(job(kb), [entity(str(number)) for number in range(1, 8)])
        opened.save_overlaps("a", "b", [pair(f"a:{n}", f"b:{n}") for n in range(1, 6)])
        yield opened


def said(store: Store) -> dict[str, tuple[Verdict, str]]:
    return {
        f"{one.left.key} {one.right.key}": (one.verdict, one.source)
        for one in store.overlaps("a", "b")
        if one.verdict
    }


def test_a_review_stands_against_a_list_and_a_list_does_not_against_the_next(store: Store) -> None:
    store.set_verdict(name("a:1"), name("b:1"), "wrong")
    store.set_verdict(name("a:2"), name("b:2"), "correct")
    store.set_verdict(name("a:3"), name("b:3"), "wrong", "import")
    given_ = matched([("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("6", "7")], [("5", "5")])
    report = import_verdicts(given_, store)
    assert (report.set, report.agreed, report.conflicts) == (4, 1, 1)
    assert report.examples == ("a:1 b:1: wrong here, correct there",)
    assert said(store) == {
        "1 1": ("wrong", "review"),
        "2 2": ("correct", "review"),
        "3 3": ("correct", "import"),
        "4 4": ("correct", "import"),
        "5 5": ("wrong", "import"),
        "6 7": ("correct", "import"),
    }
    again = import_verdicts(given_, store)
    assert (again.set, again.agreed, again.conflicts) == (0, 5, 1)


def test_importing_does_not_change_what_was_found(store: Store) -> None:
    given_ = matched([("1", "1"), ("6", "6")], [("2", "2")])
    before = compare_overlaps(store.overlaps("a", "b"), given_)
    import_verdicts(given_, store)
    assert compare_overlaps(store.overlaps("a", "b"), given_) == before


def test_verdicts_go_from_one_workspace_to_another(store: Store, tmp_path: Path) -> None:
    store.set_verdicts(
        [
            (name("a:1"), name("b:1"), "correct"),
            (name("a:2"), name("b:2"), "wrong"),
            (name("a:3"), name("b:3"), "unclear"),
            (name("a:6"), name("b:7"), "correct"),
        ]
    )
    out = io.StringIO()
    write_sssom(store.overlaps(), store.get_entities, out, ABOUT)
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for kb in ("x", "y"):  # the same KBs under other names
            other.ingest(job(kb), [entity(str(number)) for number in range(1, 8)])
        found = match_list(listed(out.getvalue()), other.get_entities, "x", "y")
        import_verdicts(found, other)
        verdicts = {(one.left.key, one.right.key): one.verdict for one in other.overlaps("x", "y")}
    assert verdicts == {("1", "1"): "correct", ("2", "2"): "wrong", ("6", "7"): "correct"}
    assert found.left_out == Counter({"proposals of kglink that nobody judged": 3})
