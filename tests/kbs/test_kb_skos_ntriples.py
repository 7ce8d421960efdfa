"""N-Triples: bad lines are told with their number, and grouped ones take little memory."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from kb_checks import head_of
from kglink.errors import RecordError
from kglink.records import Entity
from kglink.sources import Problems, Source
from kglink_kbs.rdf import syntax_of
from skos_texts import EX, EXPECTED, NTRIPLES, S, adapter, read, refuse_network


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read, nothing is fetched."""
    refuse_network(monkeypatch)


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


def test_a_bad_line_among_triples_does_not_hide_the_syntax() -> None:
    label = "<http://www.w3.org/2004/02/skos/core#prefLabel>"
    data = f'<{EX}a> {label} "\\uD83D\\uDE00 a" .\n<{EX}b c> {label} "b" .\n<{EX}d> {label} "d" .\n'
    assert syntax_of(head_of(data)) == "ntriples"
    problems = Problems("skip")
    assert [entity.title for entity in read(data, problems)] == ["\U0001f600 a", "d"]
    assert problems.counts == {"not a triple": 1}


def test_a_triple_without_a_space_behind_its_predicate_is_read() -> None:
    line = "<http://x.org/a> <http://www.w3.org/2004/02/skos/core#broader><http://x.org/b> ."
    label = '<http://x.org/a> <http://www.w3.org/2004/02/skos/core#prefLabel> "A" .'
    (found,) = read(f"{label}\n{line}\n")
    assert isinstance(found, Entity)
    assert found.parents
