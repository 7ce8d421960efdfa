from __future__ import annotations

from collections import Counter
from pathlib import Path

import mwparserfromhell
import pytest

from kglink.sources import Problems, Source
from kglink.testing.contracts.kb import check_record
from kglink_kbs.mediawiki.pages import RawPage, read_pages
from kglink_kbs.mediawiki.site import Titles, read_site
from kglink_kbs.mediawiki.wikitext import find_links, link_pattern, prepared, shown_text
from mediawiki_dumps import (
    documents,
    entities,
    read,
)

ENWIKI = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


# ---------------------------------------------------------------------------- real dumps
@pytest.mark.realdata
def test_the_english_sample(realdata: Path) -> None:
    problems = Problems()
    found = entities(read(realdata / "wiki" / ENWIKI, problems))
    assert len(found) == 106 - 8
    assert problems.passed_over == {"redirect": 99, "disambiguation page": 8}
    assert len(entities(read(realdata / "wiki" / ENWIKI, disambiguation=True))) == 106
    assert all(entity.description for entity in found.values())
    assert sum(bool(entity.type) for entity in found.values()) == 50
    algeria = next(entity for entity in found.values() if entity.title == "Algeria")
    assert algeria.type == "country"
    assert algeria.url == "https://en.wikipedia.org/wiki/Algeria"
    assert algeria.description.startswith("Algeria (")


@pytest.mark.realdata
def test_a_whole_small_wiki(realdata: Path) -> None:
    problems = Problems()
    records = read(realdata / "wiki" / "smallwiki.xml", problems, documents=1000)
    assert len(entities(records)) == 903
    assert problems.passed_over["redirect"] == 147
    assert len(documents(records)) > 400
    for record in records:
        check_record(record)


DEBRIS = ("{{", "}}", "[[", "]]", "{|", "|}", "<ref", "</", "''", "&nbsp;", "|thumb", "__NOTOC")


@pytest.mark.realdata
@pytest.mark.parametrize("name", [ENWIKI, "smallwiki.xml"])
def test_descriptions_are_clean(realdata: Path, name: str) -> None:
    for entity in entities(read(realdata / "wiki" / name)).values():
        assert not [sign for sign in DEBRIS if sign in entity.description], entity


@pytest.mark.realdata
@pytest.mark.parametrize(
    "name", [pytest.param(ENWIKI, marks=pytest.mark.slow), "smallwiki.xml", "tinywiki.xml"]
)
def test_links_are_those_that_mwparserfromhell_finds(realdata: Path, name: str) -> None:
    with Source.open_path(realdata / "wiki" / name) as source, source.open() as stream:
        data = stream.read()
    start = data.index(b"<page>")
    titles = Titles(read_site(data[:start], name))
    no_trail = link_pattern("none of these")
    found = equal = more = 0
    for raw in read_pages(data[start : data.rindex(b"</page>") + 7], start, name):
        assert isinstance(raw, RawPage)
        if raw.model not in ("", "wikitext"):
            continue
        ours = Counter(find_links(_untrailed(prepared(raw.text)), titles, no_trail))
        theirs = Counter(_oracle_links(raw.text, titles))
        found += theirs.total()
        equal += (ours & theirs).total()
        more += (ours - theirs).total()
    assert found > 100
    assert equal / found >= 0.9999
    assert more / found <= 0.012  # the links behind an unclosed tag, at which the oracle stops


def _untrailed(text: str) -> str:
    """``text`` with a sign behind every link that no trail can begin with."""
    return text.replace("]]", "]]\u2060")


def _oracle_links(text: str, titles: Titles) -> list[tuple[str, str]]:
    links = []
    for link in mwparserfromhell.parse(text).filter_wikilinks():
        title = str(link.title)
        target = titles.target(title.strip())
        if target.kind == "article" and "\n" not in title:
            label = "" if link.text is None else "|" + prepared(str(link.text))
            shown = "" if "#" in title.replace("&#", "") else shown_text(title, label, "")
            links.append((target.title, shown))
    return links
