"""The adapter ``kglink/sssom``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_checks import fuzz, head_of
from kglink.errors import KglinkError, SourceError
from kglink.records import CodeMapping, Record
from kglink.sources import OnError, Problems, Source
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.kb import check_record
from kglink_kbs.sssom import SssomAdapter, SssomSettings, sniff

HEADER = "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\tconfidence\n"
HEAD = (
    "#curie_map:\n#  DOID: http://purl.obolibrary.org/obo/DOID_\n#mapping_set_id: https://x\n"
    + HEADER
)


def read(
    data: str | bytes, *, on_error: OnError = "stop", problems: Problems | None = None, **given: Any
) -> list[Record]:
    """The mappings of ``data``."""
    raw = data.encode() if isinstance(data, str) else data
    with Source.from_bytes(raw, name="x.sssom.tsv") as source:
        adapter = SssomAdapter(SssomSettings(**given))
        return list(adapter.read(source, problems or Problems(on_error)))


def row(
    subject: str = "DOID:1",
    predicate: str = "skos:exactMatch",
    modifier: str = "",
    target: str = "HP:1",
    confidence: str = "",
) -> str:
    """One row under `HEADER`."""
    return "\t".join([subject, "a label", predicate, modifier, target, confidence]) + "\n"


class TestSssom(KBAdapterContract):
    plugin = "kglink/sssom"
    source_name = "x.sssom.tsv"
    source_text = (
        HEAD
        + row("DOID:1485", confidence="0.75", target="MESH:D003550")
        + row("http://purl.obolibrary.org/obo/DOID_4", target='"HP:2"')
        + "\n"
        + row(predicate="skos:broadMatch")
        + row(modifier="Not")
        + row(target="sssom:NoTermFound")
        + row(predicate="http://www.w3.org/2002/07/owl#equivalentClass", target="D003550")
    )
    expected = (
        CodeMapping("DOID:1485", "MESH:D003550", confidence=0.75),
        CodeMapping("http://purl.obolibrary.org/obo/DOID_4", "HP:2"),
        CodeMapping("DOID:1", "D003550", "owl:equivalentClass"),
    )
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "#only: comments\n",
        "subject_id\tobject_id\nDOID:1\tHP:1\n",
        HEAD + row(target="no code"),
        HEAD + row(confidence="high"),
        HEAD + row(confidence="1.5"),
        HEAD + "DOID:1\tHP:1\n",
    )


def test_prefixes_of_the_table_itself_lead_to_codes() -> None:
    d, m = "http://purl.obolibrary.org/obo/DOID_", "http://id.nlm.nih.gov/mesh/"
    head = f"#curie_map:\n#  d: {d}\n#  MSH: {m}\n#  x: http://x.example/\n{HEADER}"
    (first, second) = read(head + row("d:1485", target="MSH:D003550") + row("x:1", target="HP:2"))
    assert first == CodeMapping(f"{d}1485", "MSH:D003550")
    assert second == CodeMapping("x:1", "HP:2")


def test_overlaps_carry_a_verdict() -> None:
    data = HEAD + row() + row(modifier="Not", target="HP:2") + row(predicate="skos:closeMatch")
    assert read(data, use="overlaps") == [
        CodeMapping("DOID:1", "HP:1", verdict="correct"),
        CodeMapping("DOID:1", "HP:2", verdict="wrong"),
    ]


def test_predicates_and_confidence_choose_rows() -> None:
    data = HEAD + row(confidence="0.4") + row(target="HP:2", predicate="skos:closeMatch")
    assert read(data, min_confidence=0.5) == []
    assert [
        (found.predicate, found.object)
        for found in read(data, predicates="skos:exactMatch, skos:closeMatch")
        if isinstance(found, CodeMapping)
    ] == [("skos:exactMatch", "HP:1"), ("skos:closeMatch", "HP:2")]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(target="nothing"), "x.sssom.tsv, line 5: 'nothing' is no code"),
        (row(confidence="2"), "x.sssom.tsv, line 5: confidence is '2', which does not lie"),
        ("DOID:1\tHP:1\n", "x.sssom.tsv, line 5: a row of 2 cells under a header of 6"),
    ],
)
def test_bad_rows_are_told_and_skipped(bad: str, message: str) -> None:
    problems = Problems("skip")
    assert read(HEAD + bad + row(), problems=problems) == [CodeMapping("DOID:1", "HP:1")]
    (told,) = problems.examples
    assert told.startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("#c\nsubject_id\tobject_id\n", r"line 2: the header has no column predicate_id"),
        ("subject_id\tobject_id\tpredicate_id\tobject_id\n", "names a column twice"),
        ("# nothing\n", "has no header row"),
    ],
)
def test_a_header_is_needed(data: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(data)


@given(data=st.binary(max_size=200) | st.text("DOIDHP:1\t\n\"#'", max_size=200).map(str.encode))
@fuzz
def test_only_our_own_errors_come_out(data: bytes) -> None:
    for text in (data, HEAD.encode() + data, HEAD.encode() + b"DOID:1\t" + data):
        assert 0 <= sniff(head_of(text)) <= 1
        for problems in (Problems("stop"), Problems("skip")):
            try:
                for record in read(text, problems=problems):
                    check_record(record)
            except KglinkError as error:
                str(error).encode()
