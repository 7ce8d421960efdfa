from __future__ import annotations

import bz2
import random
from collections import Counter
from pathlib import Path
from typing import Any

import mwparserfromhell
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mediawiki_dumps import HEADER, WIKIPEDIA, count_plainly, export, page

from kglink.errors import KglinkError, RecordError, SourceError
from kglink.protocols import KBAdapter
from kglink.records import Alias, Document, Entity, EntityId, Mention, Record
from kglink.sources import Problems, Source, SourceHead, SourceLimits
from kglink.testing import KBAdapterContract
from kglink.testing.contracts.kb import check_record
from kglink.testing.worlds import World, WorldSettings, write_mediawiki_xml
from kglink.workspace import Workspace, init_workspace
from kglink_kbs.mediawiki import adapter as adapter_module
from kglink_kbs.mediawiki.links import find_links, link_pattern, shown_text
from kglink_kbs.mediawiki.lots import Lottery, draw_lot
from kglink_kbs.mediawiki.pages import RawPage, is_wikitext, read_pages
from kglink_kbs.mediawiki.siteinfo import Site, read_site
from kglink_kbs.mediawiki.titles import Titles
from kglink_kbs.mediawiki.wikitext import prepared
from kglink_kbs.wikipedia import WikipediaSettings, make, sniff

ENWIKI = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def adapter(**given_settings: Any) -> KBAdapter:
    return make(WikipediaSettings.model_validate(given_settings))


def read(
    data: str | bytes | Path, problems: Problems | None = None, **given_settings: Any
) -> list[Record]:
    with opened(data) as source:
        return list(adapter(**given_settings).read(source, problems or Problems()))


def opened(data: str | bytes | Path, limits: SourceLimits | None = None) -> Source:
    if isinstance(data, Path):
        return Source.open_path(data, limits=limits)
    raw = data.encode() if isinstance(data, str) else data
    return Source.from_bytes(raw, name="dump.xml", limits=limits)


def entities(records: list[Record]) -> dict[str, Entity]:
    return {record.key: record for record in records if isinstance(record, Entity)}


def documents(records: list[Record]) -> dict[str, Document]:
    return {record.id: record for record in records if isinstance(record, Document)}


LANTERN = """\
{{Short description|Device that gives light}}
{{Infobox lamp
| name = Lantern | part = [[Candle|candles]]
}}
[[File:Lantern.jpg|thumb|A lantern by [[Ada]]]]
A '''lantern''' ({{IPA|x}}) gives [[light]].<ref>[[Candle]]</ref> It holds a [[Candle|flame]].

== History ==
It was made by [[Ada L.|Ada]].
"""
SAMPLE = export(
    page(1, "Lantern", LANTERN),
    page(2, "Lamp (device)", "#REDIRECT [[Lantern]]", redirect="Lantern"),
    page(
        3,
        "Ada",
        "'''Ada''' lit the [[Lamp (device)|lamp]] and the [[lantern]]s; see [[List of lamps]].",
    ),
    page(4, "Ada L.", "#REDIRECT [[Ada (x)]]", redirect="Ada (x)"),
    page(5, "Ada (x)", "#REDIRECT [[Ada]]", redirect="Ada"),
    page(6, "Light (disambiguation)", "* [[Lantern|the light]]\n{{disambiguation}}"),
    page(7, "List of lamps", "* [[Lantern]]"),
    page(8, "Talk:Ada", "[[Ada|her]]", ns=1),
    page(9, "Category:Lamps", "[[Lantern|a lamp]]", ns=14),
    page(10, "Candle", ""),
)
EXPECTED = [
    Entity(
        "1",
        "Lantern",
        "A lantern gives light. It holds a flame.",
        "lamp",
        "https://en.wikipedia.org/wiki/Lantern",
        4.0,
        "en",
        (
            Alias("Lamp (device)", "redirect"),
            Alias("Lantern", "anchor"),
            Alias("lamp", "anchor"),
            Alias("lanterns", "anchor"),
            Alias("the light", "anchor"),
        ),
    ),
    Entity(
        "3",
        "Ada",
        "Ada lit the lamp and the lanterns; see List of lamps.",
        url="https://en.wikipedia.org/wiki/Ada",
        popularity=2.0,
        language="en",
        aliases=(
            Alias("Ada (x)", "redirect"),
            Alias("Ada L.", "redirect"),
            Alias("Ada", "anchor", 2),
        ),
    ),
    Entity(
        "7",
        "List of lamps",
        "Lantern",
        url="https://en.wikipedia.org/wiki/List_of_lamps",
        popularity=1.0,
        language="en",
        aliases=(Alias("List of lamps", "anchor"),),
    ),
    Entity(
        "10",
        "Candle",
        url="https://en.wikipedia.org/wiki/Candle",
        popularity=3.0,
        language="en",
        aliases=tuple(Alias(name, "anchor") for name in ("Candle", "candles", "flame")),
    ),
]  # fmt: skip


class TestWikipediaContract(KBAdapterContract):
    plugin = "kglink/wikipedia"
    source_text = SAMPLE
    source_name = "enwiki.xml"
    expected = EXPECTED
    broken = (
        SAMPLE.replace("<id>3</id>", "<id>x</id>"),
        SAMPLE.replace("<title>Ada</title>", "<title></title>"),
        SAMPLE.replace("lit the", "lit \x02 the"),
        SAMPLE.encode().replace(b"lit the", b"lit \xff the"),
        SAMPLE.replace("</contributor>", "</contributor", 1),
        SAMPLE.replace("</mediawiki>", ""),
        SAMPLE[: len(SAMPLE) // 2],
        "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]>" + SAMPLE,
        "<html><page>x</page></html>",
        b"\x00\xff\xfe nothing",
    )


def test_the_second_product_is_texts_with_their_links_as_gold() -> None:
    found = documents(read(SAMPLE, documents=100))
    lantern, ada = (
        "A lantern gives light. It holds a flame.\nIt was made by Ada.",
        EXPECTED[1].description,
    )
    assert found["1"] == Document(
        "1",
        lantern,
        (
            Mention(34, 39, "flame", (EntityId("", "10"),)),
            Mention(lantern.rindex("Ada"), len(lantern) - 1, "Ada", (EntityId("", "3"),)),
        ),
        "Lantern",
    )
    assert [(m.surface, m.gold) for m in found["3"].mentions] == [
        ("lamp", (EntityId("", "1"),)),
        ("lanterns", (EntityId("", "1"),)),
        ("List of lamps", (EntityId("", "7"),)),
    ]
    assert found["3"].text == ada
    assert set(found) == {"1", "3", "7"}


def test_documents_are_drawn_by_lot_to_the_wished_number() -> None:
    dump = export(*(page(n, f"P{n}", f"see [[P{n % 50 + 1}|it]]") for n in range(1, 51)))
    lots = {str(n): draw_lot(3, str(n)) for n in range(1, 51)}
    smallest = sorted(lots, key=lambda key: lots[key])[:20]
    assert sorted(documents(read(dump, documents=20, seed=3))) == sorted(smallest)
    assert set(documents(read(dump, documents=7, seed=3))) == set(smallest[:7])
    assert len(documents(read(dump, documents=51, seed=3))) == 50


def test_the_lottery_finds_the_smallest_without_keeping_them() -> None:
    chance = random.Random(5)
    lots = [chance.randrange(2**48) for _ in range(1000)]
    for wanted in (1, 10, 999, 1000):
        lottery = Lottery(wanted)
        lottery.add(lots[:600])
        kept = lots[:600] + [lot for lot in lots[600:] if lot < lottery.bound]
        lottery.add(kept[600:])
        largest = lottery.largest(iter(kept))
        assert sum(lot <= largest for lot in lots) == wanted
    assert Lottery(10).largest([]) >= 2**48 - 1


def test_kinds_of_pages_are_left_out_or_kept_by_setting_and_counted() -> None:
    problems = Problems()
    assert set(entities(read(SAMPLE, problems))) == {"1", "3", "7", "10"}
    assert problems.passed_over == {"redirect": 3, "disambiguation page": 1}
    problems = Problems()
    kept = entities(read(SAMPLE, problems, lists=False, disambiguation=True, categories=True))
    assert set(kept) == {"1", "3", "6", "9", "10"}
    assert kept["9"].title == "Category:Lamps"
    assert kept["9"].url == "https://en.wikipedia.org/wiki/Category:Lamps"
    assert kept["1"].popularity == 5.0  # the category's page links to it
    assert problems.passed_over == {"redirect": 3, "list page": 1}


def test_settings_of_names_and_sentences() -> None:
    kept = entities(read(SAMPLE, min_anchor_count=2, sentences=1))
    assert kept["3"].aliases[-1] == Alias("Ada", "anchor", 2)
    assert [alias.kind for alias in kept["1"].aliases] == ["redirect"]
    assert kept["1"].description == "A lantern gives light."
    assert kept["1"].popularity == 4.0
    without = entities(read(SAMPLE, min_anchor_count=0, sentences=0))
    assert [alias.kind for alias in without["3"].aliases] == ["redirect", "redirect"]
    assert without["1"].description == ""


def test_other_namespaces_can_be_entities() -> None:
    kept = entities(read(SAMPLE, namespaces=(1,)))
    assert [entity.title for entity in kept.values()] == ["Talk:Ada"]


def test_the_site_is_read_from_the_dump() -> None:
    header = (
        '<mediawiki xmlns="x" xml:lang="ltg"><siteinfo><base>https://ltg.example/w/index.php?title=M'
        "</base><case>case-sensitive</case><namespaces><namespace key='6' case='first-letter'>Fails"
        "</namespace></namespaces></siteinfo>"
    )
    site = read_site(header.encode(), "x")
    assert (site.language, site.case) == ("ltg", "case-sensitive")
    assert site.namespaces[0] == (6, "Fails", False)
    assert site.url("A b/c?") == "https://ltg.example/w/index.php?title=A_b/c%3F"
    assert Site(base=WIKIPEDIA).url("C# (\u00e9)") == "https://en.wikipedia.org/wiki/C%23_(%C3%A9)"
    assert Site(base="http://x.example/Main").url("A") == "http://x.example/A"
    assert Site().url("A") == ""


def test_the_last_text_of_a_page_with_several_revisions_counts() -> None:
    old = "<revision><id>6</id><text>Old [[Ada]].</text></revision>"
    dump = export(page(1, "Ada", "New.")).replace("<revision>", old + "<revision>", 1)
    assert entities(read(dump))["1"].description == "New."


def test_a_redirect_of_an_old_dump_is_known_by_its_words() -> None:
    dump = export(page(1, "Ada", "x"), page(2, "A.", "#Weiterleitung [[ada#Life]]"))
    assert entities(read(dump))["1"].aliases == (Alias("A.", "redirect"),)


def test_circles_and_chains_of_redirects_end() -> None:
    chain = [page(n, f"R{n}", "", redirect=f"R{n - 1}") for n in range(2, 7)]
    dump = export(
        page(1, "R1", "[[R2|two]] [[R4|four]] [[R6|six]] [[X|x]]"),
        *chain,
        page(8, "X", "", redirect="Y"),
        page(9, "Y", "", redirect="X"),
        page(10, "Z", "", redirect="Z"),
    )
    found = entities(read(dump))["1"]
    assert {alias.surface for alias in found.aliases} == {"R2", "R3", "R4", "two", "four"}


def test_programs_and_style_sheets_are_no_articles() -> None:
    problems = Problems()
    dump = export(page(1, "Ada", "x"), page(2, "Css", "y").replace("wikitext", "css", 1))
    assert set(entities(read(dump, problems))) == {"1"}
    assert problems.passed_over == {"page that is no wikitext": 1}


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
    assert "UTF-16" in told(SAMPLE.encode("utf-16")).message


def test_sniffing() -> None:
    head = SourceHead("x.xml", SAMPLE.encode()[:500], None)
    assert sniff(head) > 0.9
    assert (
        sniff(SourceHead("x.xml", b"\xef\xbb\xbf<?xml version='1.0'?>\n" + head.head, None)) > 0.9
    )
    assert sniff(SourceHead("x.xml", b"<rdf:RDF><mediawiki/>", None)) == 0


# ------------------------------------------------------------------- many pieces, processes
@pytest.fixture(scope="module")
def world_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "world.xml"
    with path.open("w", encoding="utf-8") as out:
        written = write_mediawiki_xml(out, World(WorldSettings(entities=3000)))
    assert (written.articles, written.links) == (3000, 36_000)
    return path


def test_names_and_counts_are_those_of_a_plain_reading(world_dump: Path) -> None:
    plain = count_plainly(world_dump)
    found = entities(read(world_dump))
    assert len(found) == 3000
    assert sum(plain.incoming.values()) > 36_000
    for key, entity in found.items():
        redirects = {alias.surface for alias in entity.aliases if alias.kind == "redirect"}
        anchors = {alias.surface: alias.count for alias in entity.aliases if alias.kind == "anchor"}
        assert redirects == plain.redirects.get(key, set())
        assert anchors == plain.anchors.get(key, Counter())
        assert entity.popularity == plain.incoming[key]
        assert entity.description.count(" is known. ") == 1


def test_neither_processes_nor_parts_nor_pieces_change_anything(
    world_dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(world_dump, documents=100)
    assert len(documents(expected)) == 100
    monkeypatch.setattr(adapter_module, "PART_BYTES", 2**18)
    monkeypatch.setattr(adapter_module, "LEAST_PIECE", 3 * 10**5)
    monkeypatch.setattr(adapter_module, "MOST_GROUPS", 5)
    assert read(world_dump, documents=100, workers=3) == expected
    monkeypatch.setattr(adapter_module, "ALONE_BYTES", 2**30)
    assert read(world_dump, documents=100) == expected


def test_the_parts_of_a_dump_in_a_folder_are_one(world_dump: Path, tmp_path: Path) -> None:
    header, *pages = world_dump.read_text().replace("</mediawiki>\n", "").split("  <page>\n")
    pages = [f"  <page>\n{text}" for text in pages]
    for number, some in enumerate((pages[:900], pages[900:])):
        text = header + "".join(some) + "</mediawiki>\n"
        (tmp_path / f"part{number}.xml.bz2").write_bytes(bz2.compress(text.encode()))
    assert read(tmp_path) == read(world_dump)


def test_multistream_archives_are_read(world_dump: Path, tmp_path: Path) -> None:
    data = world_dump.read_bytes()
    path = tmp_path / "world.xml.bz2"
    path.write_bytes(
        b"".join(bz2.compress(data[at : at + 10**6]) for at in range(0, len(data), 10**6))
    )
    assert read(path) == read(world_dump)


def test_a_truncated_archive_is_told(world_dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.xml.bz2"
    path.write_bytes(bz2.compress(world_dump.read_bytes())[:200_000])
    with pytest.raises(SourceError, match=r"cut short.*near byte"):
        read(path)


def test_what_an_interrupted_run_has_read_is_not_read_again(
    world_dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(world_dump)
    monkeypatch.setattr(adapter_module, "LEAST_PIECE", 10**6)
    monkeypatch.setattr(adapter_module, "ALONE_BYTES", 2**30)
    with opened(world_dump) as source:
        source.scratch_in = tmp_path / "scratch"
        list(adapter().read(source, Problems()))
        chunks = sorted(source.scratch.glob("chunk-*"))
        assert len(chunks) > 3
        joined = [*source.scratch.glob("joined-*"), *source.scratch.glob("a*ed-*")]
        kept = chunks[0].stat().st_mtime_ns
        for path in (chunks[2], *joined):
            path.unlink()
    with opened(world_dump) as source:
        source.scratch_in = tmp_path / "scratch"
        assert list(adapter().read(source, Problems())) == expected
        assert chunks[0].stat().st_mtime_ns == kept
        list(adapter(sentences=1).read(source, Problems()))
        assert chunks[0].stat().st_mtime_ns != kept  # another plan begins anew


def test_the_scratch_folder_goes_when_all_is_done(world_dump: Path, tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "workspace")
    with Workspace.open(folder) as workspace:
        added = workspace.add_kb("atlas", world_dump, adapter="kglink/wikipedia")
        assert added.summary.added == 3000
        assert not (folder / ".scratch").exists()


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
@pytest.mark.parametrize("name", [ENWIKI, "smallwiki.xml", "tinywiki.xml"])
def test_links_are_those_that_mwparserfromhell_finds(realdata: Path, name: str) -> None:
    with Source.open_path(realdata / "wiki" / name) as source, source.open() as stream:
        data = stream.read()
    start = data.index(b"<page>")
    titles = Titles(read_site(data[:start], name))
    no_trail = link_pattern("none of these")
    found = equal = more = 0
    for raw in read_pages(data[start : data.rindex(b"</page>") + 7], start, name):
        assert isinstance(raw, RawPage)
        if not is_wikitext(raw):
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
            links.append((target.title, shown_text(title, label, "")))
    return links


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
