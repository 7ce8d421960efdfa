from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.sources import Problems, Source, SourceHead, SourceLimits
from kglink.testing.contracts.kb import check_record
from kglink_kbs.mediawiki.wikis import sniff_wikipedia as sniff
from mediawiki_dumps import (
    HEADER,
    SAMPLE,
    adapter,
    entities,
    export,
    opened,
    page,
    read,
)


# ------------------------------------------------------------------------------ bad input
def told(data: str | bytes, **given_settings: Any) -> KglinkError:
    with pytest.raises(KglinkError) as error:
        read(data, **given_settings)
    return error.value


def test_entity_bombs_are_refused() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + SAMPLE
    assert "declares a document type or entities (line 1)" in told(bomb).message


def test_a_decompression_bomb_is_refused() -> None:
    bomb = bz2.compress(SAMPLE.encode() + b" " * 10**8)
    limits = SourceLimits(max_expansion=100, free_expansion=2**20)
    with opened(bomb, limits) as source, pytest.raises(SourceError, match="grows to more than"):
        list(adapter().read(source, Problems()))


def test_a_bad_page_is_named_and_the_others_are_read() -> None:
    damaged = SAMPLE.encode().replace(b"lit the", b"lit \xff the")
    error = told(damaged)
    assert isinstance(error, RecordError)
    place = damaged.index(b"\xff")
    assert error.where == f"dump.xml, page 'Ada', byte {place:,} of the unpacked file"
    problems = Problems("skip")
    assert set(entities(read(damaged, problems))) == {"1", "7", "10"}
    assert problems.total == 1


def test_something_between_the_pages_is_told() -> None:
    damaged = SAMPLE.replace("  <page>\n    <title>Candle", "junk <x>\n  <page>\n    <title>Candle")
    problems = Problems("skip")
    assert set(entities(read(damaged, problems))) == {"1", "3", "7", "10"}
    assert problems.counts == {"something that is no page": 1}


@pytest.mark.parametrize("size", [3 * 2**20, 9 * 2**20])
def test_a_page_that_is_too_large_is_told_by_its_title(size: int) -> None:
    dump = export(page(1, "Ada", "x"), page(2, "Huge", "y " * (size // 2)), page(3, "B", "z"))
    error = told(dump, max_page_mb=2)
    assert error.message == "dump.xml, page 'Huge': the page is larger than 2 MB"
    problems = Problems("skip")
    assert set(entities(read(dump, problems, max_page_mb=2))) == {"1", "3"}
    assert problems.counts == {"the page is larger than 2 MB": 1}


def test_an_export_that_is_cut_short_is_told_with_page_and_byte() -> None:
    data = SAMPLE[: SAMPLE.index("lit the")]
    error = told(data)
    assert f"it ends in page 'Ada', at byte {len(data):,}" in error.message
    assert "between two pages" in told(SAMPLE.replace("</mediawiki>", "")).message


def test_what_is_no_export_is_told() -> None:
    assert "its root element is <html>" in told("<html><page></page></html>").message
    assert "no well-formed XML" in told("<mediawiki><a></b><page></mediawiki>").message
    assert "that is no page" in told("<mediawiki><page>x</mediawiki>").message
    assert "UTF-16" in told(SAMPLE.encode("utf-16-le")).message


def test_sniffing() -> None:
    head = SourceHead("x.xml", SAMPLE.encode()[:500], None)
    assert sniff(head) > 0.9
    assert (
        sniff(SourceHead("x.xml", b"\xef\xbb\xbf<?xml version='1.0'?>\n" + head.head, None)) > 0.9
    )
    assert sniff(SourceHead("x.xml", b"<rdf:RDF><mediawiki/>", None)) == 0


# --------------------------------------------------------------------------------- fuzz
marks = st.sampled_from(
    [
        *("<page>", "</page>", "<title>A</title>", "<ns>0</ns>", "<id>1</id>", "<id>", "<text>"),
        *("</text>", "<revision>", "</revision>", '<redirect title="A"/>', "[[A|b]]", "{{x}}"),
        *(
            "</mediawiki>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&amp;",
            "&x;",
            "<",
            "#REDIRECT [[A]]",
        ),
        *(page(1, "A", "[[B]]"), page(2, "B", "x"), page(3, "C", "", redirect="A"), HEADER),
    ]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(st.lists(marks | st.text(max_size=5), max_size=12), st.booleans())
def test_nothing_but_our_errors_comes_out(parts: list[str], whole: bool) -> None:
    text = "".join(parts)
    data = (export(text) if whole else text).encode("utf-8", "surrogatepass")
    for problems in (Problems(), Problems("skip")):
        try:
            for record in read(data or b" ", problems, documents=3):
                check_record(record)
        except RecordError:
            assert problems.on_error == "stop"
        except KglinkError:
            pass


# ------------------------------------------------------------------------- files of a dump
def test_an_export_without_pages_is_whole() -> None:
    assert read(HEADER + "</mediawiki>\n") == []


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(KglinkError, match="holds no file"):
        list(adapter().read(Source.open_path(tmp_path), Problems()))


def test_a_bad_page_in_a_folder_of_parts_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_text(SAMPLE, encoding="utf-8")
    (tmp_path / "two.xml").write_bytes(SAMPLE.encode().replace(b"lit the", b"lit \xff the"))
    with pytest.raises(RecordError) as error:
        list(adapter().read(Source.open_path(tmp_path), Problems()))
    assert error.value.where.startswith("two.xml, page 'Ada'")


def test_what_a_site_says_of_itself_is_short() -> None:
    long = "x" * 2000
    assert (
        "the longest of 2,0"
        in told(SAMPLE.replace("<sitename>", f"<base>{long}</base><sitename>")).message
    )
    address = "http://www.mediawiki.org/xml/export-0.11/"
    assert "an XML namespace of 2,0" in told(SAMPLE.replace(address, address + long)).message
    many = '<namespace key="14" case="first-letter">C</namespace>' * 3000
    assert (
        "elements before its first page" in told(SAMPLE.replace("<case>", many + "<case>")).message
    )


@pytest.mark.parametrize("number", ["--5", "5" * 5000, "²"])
def test_a_number_of_a_namespace_that_is_none_is_that_of_the_title(number: str) -> None:
    strange = export(page("1", "Ada", "Ada was a writer.")).replace(
        "<ns>0</ns>", f"<ns>{number}</ns>"
    )
    assert list(entities(read(strange))) == ["1"]


def test_a_name_of_a_namespace_stands_on_one_line() -> None:
    wiki = export(
        page("1", "Cat egory:Writers", "All.", ns=14), page("2", "Ada", "Ada was a writer.")
    )
    broken = wiki.replace(">Category<", ">Cat&#9;egory<")
    assert "2" in entities(read(broken, categories=True))


def test_texts_of_links_that_are_no_names_are_not_kept() -> None:
    wiki = export(
        page("1", "Ada", "A."), page("2", "B", f"See [[Ada|{'x' * 5000}]] and [[Ada|her]].")
    )
    surfaces = {one.surface for one in entities(read(wiki))["1"].aliases}
    assert surfaces == {"her"}
