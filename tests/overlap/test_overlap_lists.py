"""Lists of pairs are read from SSSOM and plain tables, or refused with the line at fault."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.overlap.exchange.lists import ListedPair
from overlap_lists import known, listed, pair, row, sssom, written


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
            [("1", "x", "wrong"), ("2", "y", "unclear")],
        ),
        ('"a ""b"""\tx\n', [('a "b"', "x", "correct")]),
        (
            "left\tright\tverdict\n#1\tx\twrong\n# a remark\n2\ty\tcorrect\n",
            [("#1", "x", "wrong"), ("2", "y", "correct")],
        ),
        (
            'sep=;\r\nverdict;title;left;right\r\nWRONG;"a; b";1;x\r\n;c;2;y\r\n;;;\r\n',
            [("1", "x", "wrong")],
        ),
        ('left,title,right\n1,"a, ""b""",x\n', [("1", "x", "correct")]),
        ('"# made, by us"\nleft,right\n# in May, by hand\n# b,\n1,x\n', [("1", "x", "correct")]),
        ("sep=1\tx\n", [("sep=1", "x", "correct")]),
    ],
)  # fmt: skip
def test_plain_lists(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.left, one.right, one.verdict) for one in listed(text)] == expected


def test_a_head_as_sssom_py_writes_it_has_prefixes_and_values() -> None:
    head = (
        "curie_map:\n  a: http://x/a_\n  b: http://x/b_\nobject_source: kb:y\nsubject_source: kb:x"
    )
    pairs = listed(sssom(row("a:1", "b:2"), head="".join(f"# {one}\n" for one in head.split("\n"))))
    assert [(one.left_kb, one.right_kb) for one in pairs] == [("x", "y")]
    assert pairs.prefixes == {"a": "http://x/a_", "b": "http://x/b_"}


def test_a_head_that_a_spreadsheet_has_quoted_is_a_head() -> None:
    table = sssom(row("a:1", "b:2"), head='#curie_map:\t\t\n"#  ""a"": ""http://x/a_"""\t\t\n')
    pairs = listed(table, "pairs.tsv")
    assert [(one.left, one.right) for one in pairs] == [("a:1", "b:2")]
    assert pairs.prefixes == {"a": "http://x/a_"}


@pytest.mark.parametrize("space", ["", " "])
def test_a_long_head_of_sssom_is_a_head(space: str) -> None:
    head = "".join(
        f'#{space}  P{number}: "http://example.org/{number}/"\n' for number in range(4_000)
    )
    assert len(head) > 2**16
    (one,) = listed(sssom(row("a:1", "b:2"), head=f"#{space}curie_map:\n{head}"))
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


@given(data=st.text('leftrigh_idsubjcpa:1\t\n\r;,#" ', max_size=120))
def test_only_our_own_errors_come_out(data: str) -> None:
    for file in ("x.tsv", "x.sssom.tsv"):
        for text in (data, sssom(data), "left\tright\n" + data):
            with contextlib.suppress(KglinkError):
                assert all(one.left and one.right for one in listed(text, file))
