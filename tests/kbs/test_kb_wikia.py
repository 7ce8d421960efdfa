from __future__ import annotations

import time
from typing import Any

import pytest

from kglink.errors import SourceError
from kglink.plugins import load_registry
from kglink.records import Alias, Document, Entity
from kglink.sources import Problems, Source, SourceHead
from kglink.testing import KBAdapterContract
from kglink_kbs.mediawiki.settings import MediaWikiSettings
from kglink_kbs.mediawiki.wikis import make, make_wikia, sniff_wikia, sniff_wikipedia
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


def titles_of(*pages: str, problems: Problems | None = None, **given: Any) -> dict[str, Entity]:
    """The entities of an export of Fandom by their titles."""
    settings = MediaWikiSettings.model_validate(given)
    with Source.from_bytes(export(*pages, base=BASE).encode()) as source:
        records = list(make_wikia(settings).read(source, problems or Problems()))
    return {record.title: record for record in records if isinstance(record, Entity)}


PARTS = (
    page(1, "Ada", "{{Keeper}}"),
    page(2, "Ada/Notes", "She keeps the light of the [[Harbour]] and its bell."),
    page(3, "Ada/Notes/Old", "[[Ada/Notes|more]]"),
    page(4, "Harbour", "The harbour of [[Ada]] is a [[The bell|place]] of ships."),
    page(5, "The bell", "", redirect="Ada/Notes"),
    page(6, "A.", "", redirect="Ada"),
    page(7, "A./Notes", "A lamp that was lit by her every night."),
    page(8, "Left/Right", "A house with two doors and no keeper at all."),
    page(9, "Harbour/notes", "[[Ada]]"),
)


def test_subpages_are_parts_of_their_pages() -> None:
    problems = Problems()
    found = titles_of(*PARTS, problems=problems)
    assert set(found) == {"Ada", "Harbour", "A./Notes", "Left/Right"}
    assert problems.passed_over == {"redirect": 2, "subpage": 3}
    assert found["Ada"].description == "She keeps the light of the Harbour and its bell."
    assert {alias.surface for alias in found["Ada"].aliases} == {"A.", "Ada"}
    assert found["Harbour"].popularity == 1


def test_all_subpages_may_be_parts() -> None:
    pages = [page(1, "Fate", SAID), page(2, "Fate/Zero", SAID), page(3, "Fate/Zero/A", SAID)]
    assert set(titles_of(*pages, page(4, "A/B", SAID), subpages="part")) == {"Fate", "A/B"}


def test_subpages_may_stay_entities() -> None:
    own = titles_of(*PARTS, subpages="own")
    assert len(own) == 7
    assert {alias.surface for alias in own["Ada/Notes"].aliases} == {"The bell", "place", "more"}
    with Source.from_bytes(export(*PARTS).encode()) as source:
        elsewhere = list(make(MediaWikiSettings()).read(source, Problems()))
    assert len(elsewhere) == 7


def documents_of(*pages: str, wanted: int = 9) -> dict[str, list[str]]:
    """The golds of the documents of an export of Fandom, by the keys of their pages."""
    with Source.from_bytes(export(*pages, base=BASE).encode()) as source:
        records = list(make_wikia(MediaWikiSettings(documents=wanted)).read(source, Problems()))
    return {
        record.id: [gold.key for mention in record.mentions for gold in mention.gold or ()]
        for record in records
        if isinstance(record, Document)
    }


def test_links_to_subpages_are_no_mentions_and_no_subpage_is_drawn() -> None:
    assert documents_of(*PARTS) == {"4": ["1"]}
    parts = [page(n, f"Ada/{n}/Notes", "[[Harbour]]") for n in range(20, 60)]
    assert documents_of(*PARTS, *parts, wanted=2) == {"4": ["1"]}


def test_links_of_a_page_to_itself_are_no_mentions() -> None:
    bell = page(2, "The bell", "", redirect="Ada")
    pages = [page(1, "Ada", "[[The bell|It]] rings by the [[harbour]]."), bell]
    assert documents_of(*pages, page(3, "Harbour", "[[Harbour]]")) == {"1": ["3"]}


SAID = "is a thing of this world that all people know."


def test_titles_with_a_slash_are_things_of_their_own_where_their_tails_do_not_repeat() -> None:
    fate = ("Fate", "Fate/Zero", "Fate/stay night", "Fate/Zero/Gallery", "Fate/Gallery/1")
    titles = (*fate, "AC", "AC/DC", "9/11", ".hack", ".hack//Sign", "Ada/Gallery", "Bo/Gallery")
    pages = [page(n, title, f"'''{title}''' {SAID}") for n, title in enumerate(titles, 1)]
    redirects = {"9": "AC", "Acca": "AC/DC", "Emiya": "Fate/Zero/Gallery"}
    told = [page(n, one, "", redirect=to) for n, (one, to) in enumerate(redirects.items(), 90)]
    found = titles_of(*pages, *told)
    assert set(titles) - set(found) == {"Fate/Zero/Gallery"} | {"Fate/Gallery/1"}
    names = {title: [alias.surface for alias in one.aliases] for title, one in found.items()}
    assert {title: given for title, given in names.items() if given} == {
        "AC": ["9"],
        "AC/DC": ["Acca"],
    }


def test_a_page_with_a_slash_is_read_whole() -> None:
    text = f"'''X''' {SAID} {'It is long. ' * 900}\n[[Category:Systems]]"
    found = titles_of(*(page(n, title, text) for n, title in enumerate(("A/B", "C", "D", "E"), 1)))
    assert {one.type for one in found.values()} == {"systems"}
    late = "{{Stub}}" + "<!-- -->" * 900 + f"It {SAID}"
    assert titles_of(page(1, "A/B", late))["A/B"].description == f"It {SAID}"


def test_many_calls_on_top_of_a_page_are_read_at_once() -> None:
    text = "{{A}}\n" * 20_000 + "word"
    before = time.process_time()
    assert titles_of(page(1, "Gate", text))["Gate"].type == ""
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("pages", "titles"),
    [
        pytest.param(
            [page(1, "A/B", "x"), page(2, "A/C", "y"), page(3, "A/C/D", "z")],
            {"A/B", "A/C", "A/C/D"},
            id="nothing but subpages",
        ),
        pytest.param(
            [
                page(1, "A", "", redirect="C/D"),
                page(2, "C", "", redirect="A/B"),
                page(3, "A/B", "x"),
                page(4, "C/D", "y"),
                page(5, "E", "", redirect="E"),
            ],
            {"A/B", "C/D"},
            id="subpages of each other by redirects",
        ),
        pytest.param(
            [page(n, title, "x") for n, title in enumerate(("A/N", "A/N/N", "B/N", "C/N"), 1)],
            {"A/N", "B/N", "C/N"},
            id="a subpage of what might be one",
        ),
        pytest.param([page(1, "/", "x"), page(2, "A//B/", "y")], {"/", "A//B/"}, id="bare slashes"),
    ],
)
def test_pages_do_not_vanish_into_each_other(pages: list[str], titles: set[str]) -> None:
    assert set(titles_of(*pages)) == titles


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ([page(n, f"Template:T{n}", "{{{1}}}", ns=10) for n in (1, 2)], "2 x page of other"),
        ([page(1, "A", "", redirect="B"), page(2, "B", "", redirect="A")], "2 x redirect"),
        ([page(1, "A", "{{disambig}}")], "1 x disambiguation page"),
    ],
)
def test_an_export_without_articles_says_what_it_holds(pages: list[str], said: str) -> None:
    with pytest.raises(SourceError, match=said) as refused:
        titles_of(*pages)
    assert ("disambiguation=true" in str(refused.value.hint)) == ("disambiguation" in said)


PROSE = "A gun that was carried by the ships of the [[North]] and by few others, late in the war."
BOX = f"""\
{{{{Gun
|image = [[File:Gun.png|A gun that was carried by the ships of all the seas|thumb]]
|range = Long
|text = {PROSE}
|notes =
* Found by those who look for it in the west of the map.
}}}}
[[Category:Guns of the North]]"""


def test_prose_in_a_template_is_the_description_and_its_name_the_type() -> None:
    pages = [page(n, f"Gun {n}", BOX) for n in range(1, 6)]
    found = titles_of(*pages, page(9, "Sea", "The sea is wide and it is blue."))
    assert found["Gun 1"].description == PROSE.replace("[[North]]", "North")
    assert {one.type for title, one in found.items() if title != "Sea"} == {"gun"}
    assert not found["Sea"].type


def test_a_category_of_many_pages_is_a_type_where_no_box_is() -> None:
    text = "A thing of the [[harbour]] that is seen by all.\n[[Category:{}]]"
    named = [page(n, f"P{n}", text.format("Harbour lights")) for n in range(1, 5)]
    rest = [page(n, f"P{n}", text.format("Article stubs")) for n in range(5, 10)]
    found = titles_of(*named, *rest)
    assert {found[f"P{n}"].type for n in range(1, 5)} == {"harbour lights"}
    assert {found[f"P{n}"].type for n in range(5, 10)} == {""}


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("'''Voice''': Ai\n\nShe guards the old gate.", "She guards the old gate."),
        ("She guards the gate.\n* Red\n* Blue", "She guards the gate."),
        ("== Notes ==\n* She was seen at the gate.\n* Red", "She was seen at the gate."),
        ("<gallery>\nFile:A.png|A gate of the old town at night.\n</gallery>", ""),
        ("Basic\n\nBasic II\n\nDamaged", ""),
        ("Ada (Ada King, Lady of Selwyn; née Sel; York)",) * 2,
        ("{{Quote|門を守る者は誰もが眠らない。|Ada}}\nBrave.", "Brave."),
    ],
)  # fmt: skip
def test_labels_lists_and_galleries_are_no_description(text: str, description: str) -> None:
    assert titles_of(page(1, "Gate", text))["Gate"].description == description
