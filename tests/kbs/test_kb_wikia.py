from __future__ import annotations

from typing import Any

import pytest

from kglink.plugins import load_registry
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.wikis import make, sniff_wikia, sniff_wikipedia
from mediawiki_dumps import export, page

BASE = "https://lanternfall.fandom.com/wiki/Lanternfall_Wiki"
WILD = """\
{{Character infobox
|name=Ada
|image=<gallery>
File:Ada1.png|Young
File:Ada2.png|Old
</gallery>
|home={{Icon|[[Harbour]]}}
}}
{{Quote|We [[Lamp|light]] the way!|Ada}}
<tabber>
Books=The '''Ada''' of the books.
</tabber>
'''Ada''' is a <span style="color:red">keeper</span>
of the [[Harbour|Old Harbour]].
[[File:Ada.jpg|thumb|left|200px|Ada {{c|at}} [[Harbour]]|link=]]
She met [[w:c:starwars:Leia|Leia]] and [[wikipedia:Ada Lovelace|her namesake]] once.
<center>
{| class="article-table"
! open
| never closed
== Biography ==
She was born in the [[harbour]]s.
[[de:Ada]][[Category:Characters]]
"""
SAMPLE = export(
    page(2001, "Ada", WILD),
    page(2002, "Harbour", "The '''Harbour''' is a place.<br />\n[[Ada|Keeper]] lives there."),
    page(2003, "Old Harbour", "#REDIRECT [[Harbour]]", redirect="Harbour"),
    page(2004, "Harbour (disambiguation)", "{{Disambig}}\n* [[Harbour]]"),
    page(2005, "Thread:12", "[[Ada|spam]]", ns=1201),
    base=BASE,
).replace(
    '<namespace key="1"',
    '<namespace key="1201" case="first-letter">Thread</namespace><namespace key="1"',
)


class TestWikiaContract(KBAdapterContract):
    plugin = "kglink/wikia"
    source_text = SAMPLE
    source_name = "lanternfall_pages_current.xml"
    expected = (
        Entity(
            "2001",
            "Ada",
            "Books=The Ada of the books. Ada is a keeper of the Old Harbour. She met Leia and her "
            "namesake once.",
            "character",
            "https://lanternfall.fandom.com/wiki/Ada",
            1.0,
            "en",
            (Alias("Keeper", "anchor"),),
        ),
        Entity(
            "2002",
            "Harbour",
            "The Harbour is a place. Keeper lives there.",
            url="https://lanternfall.fandom.com/wiki/Harbour",
            popularity=5.0,
            language="en",
            aliases=(
                Alias("Old Harbour", "redirect"),
                Alias("Harbour", "anchor", 3),
                Alias("Old Harbour", "anchor"),
                Alias("harbours", "anchor"),
            ),
        ),
    )
    broken = (SAMPLE.replace("</mediawiki>", ""), SAMPLE.replace("<id>2002</id>", ""))


def read(**given_settings: Any) -> list[Entity]:
    with Source.from_bytes(SAMPLE.encode()) as source:
        records = make(MediaWikiSettings.model_validate(given_settings)).read(source, Problems())
        return [record for record in records if isinstance(record, Entity)]


def test_prefixes_of_other_wikis_can_be_named() -> None:
    links = "[[Mirror:Ada|x]] [[mirror: Bo|y]]"
    dump = export(page(1, "Mirror:Ada", links), page(2, "Mirror:Bo", "z"), base=BASE)
    for prefixes, popularity in (((), 1.0), (("mirror",), 0.0)):
        with Source.from_bytes(dump.encode()) as source:
            made = make(MediaWikiSettings(interwiki=prefixes))
            first = next(iter(made.read(source, Problems())))
        assert isinstance(first, Entity)
        assert first.popularity == popularity


def test_pages_of_other_namespaces_are_left_alone() -> None:
    assert [entity.title for entity in read()] == ["Ada", "Harbour"]
    assert [entity.title for entity in read(namespaces=(1201,))] == ["Thread:12"]


@pytest.mark.parametrize(
    ("base", "fandom"),
    [
        (BASE, True),
        ("http://muppet.wikia.com/wiki/Muppet_Wiki", True),
        ("https://en.wikipedia.org/wiki/Main_Page", False),
        ("https://wiki.example/notfandom.com.example/Main", False),
    ],
)
def test_the_siteinfo_tells_fandom_from_the_rest(base: str, fandom: bool) -> None:
    head = SourceHead("dump.xml", export(base=base).encode(), None)
    assert (sniff_wikia(head) > 0.5) == fandom
    assert (sniff_wikipedia(head) > 0.5) != fandom
    guess = load_registry().guess_kb(head)
    assert guess.name == ("kglink/wikia" if fandom else "kglink/wikipedia")
