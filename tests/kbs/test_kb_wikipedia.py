from __future__ import annotations

import random

from kglink.records import Alias, Document, Entity, EntityId, Mention
from kglink.sources import Problems
from kglink.testing import KBAdapterContract
from kglink_kbs.mediawiki.chunk import Lottery, draw_lot
from kglink_kbs.mediawiki.site import Site, read_site
from mediawiki_dumps import (
    SAMPLE,
    WIKIPEDIA,
    documents,
    entities,
    export,
    page,
    read,
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


def test_of_several_scripts_the_first_is_read() -> None:
    text = "A是-{zh-hans:计算机; zh-hant:電腦}-。[[B|-{zh-hans:乙; zh-hant:亿}-]]。"
    found = read(export(page(1, "A", text), page(2, "B", "b")), documents=10, language="zh")
    assert entities(found)["1"].description == documents(found)["1"].text == "A是计算机。乙。"
    assert Alias("乙", "anchor") in entities(found)["2"].aliases


def test_what_a_link_to_a_section_says_is_no_name_of_the_page() -> None:
    text = "Do [[Quests#B82|the saury hunt]] with [[Jun&#39;you|Junyo]]."
    pages = page(1, "A", text), page(2, "Quests", "b"), page(3, "Jun'you", "c")
    found = read(export(*pages), documents=10)
    assert [one.surface for one in documents(found)["1"].mentions] == ["Junyo"]
    assert entities(found)["2"].aliases == ()
    assert entities(found)["2"].popularity == 1
    assert entities(found)["3"].aliases == (Alias("Junyo", "anchor"),)


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


def test_the_lottery_finds_the_smallest() -> None:
    chance = random.Random(5)
    lots = [chance.randrange(2**48) for _ in range(1000)]
    for wanted in (1, 10, 999, 1000):
        lottery = Lottery(wanted)
        lottery.add(lots[:600])
        lottery.add(lot for lot in lots[600:] if lot < lottery.bound)
        assert sum(lot <= lottery.largest for lot in lots) == wanted
    assert Lottery(10).bound == 2**48


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
