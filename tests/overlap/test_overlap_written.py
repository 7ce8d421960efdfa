"""Overlaps as tables: SSSOM with evidence and verdicts, and the table of the paper."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from kglink.errors import UsageError
from kglink.overlap.exchange.write import COLUMNS, DOUBTS, REASONS, justification_of, write_paper
from kglink.overlap.model import default_model
from kglink.records import Entity, Overlap
from overlap_lists import ABOUT, Entities, known, name, pair, written


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
