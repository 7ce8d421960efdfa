"""Arbitrary bytes, damaged files and arbitrary statements as RDF lead to our own errors alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb_checks import check_any, damaged, fuzz
from kglink_kbs.skos import sniff
from skos_texts import SYNTAXES, TURTLE, adapter, refuse_network


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""
    refuse_network(monkeypatch)


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
