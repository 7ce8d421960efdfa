from __future__ import annotations

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kglink.text.sentences import first_sentences
from kglink_kbs.mediawiki.kinds import infobox_type, is_disambiguation, is_list, redirect_target
from kglink_kbs.mediawiki.site import Namespace, Site, Titles
from kglink_kbs.mediawiki.wikitext import (
    CleanText,
    KeptLink,
    clean_prepared,
    find_links,
    is_name,
    link_pattern,
    pipe_trick,
    prepared,
    prose,
)

ENGLISH = Site(
    language="en",
    namespaces=(Namespace(0, ""), Namespace(6, "File"), Namespace(14, "Category")),
)
GERMAN = Site(
    language="de",
    namespaces=(Namespace(0, ""), Namespace(6, "Datei"), Namespace(14, "Kategorie")),
)


def cleaned(wikitext: str, site: Site = ENGLISH) -> CleanText:
    return clean_prepared(prepared(wikitext), Titles(site), site.language)


def test_titles_and_namespaces_are_those_of_the_language() -> None:
    turkish, japanese = (Site("https://x.org/wiki/X", language=code) for code in ("tr", "ja"))
    assert Titles(turkish).target("istanbul").title == "\u0130stanbul"
    assert Titles(turkish).page("iznik") == (0, "\u0130znik")
    assert Titles(ENGLISH).target("istanbul").title == "Istanbul"
    category = "\u30ab\u30c6\u30b4\u30ea"
    assert cleaned(f"\u6771\u4eac[[{category}:\u90fd\u5e02]]", japanese).text == "\u6771\u4eac"


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("'''Bold''' and ''italic'' and '''''both'''''", "Bold and italic and both"),
        ("L'''amour'''", "Lamour"),
        ("four '''' quotes", "four ' quotes"),
        ("a {{template|with=[[link]] and {{another}}}} b", "a b"),
        ("a {{{parameter|default}}} b", "a b"),
        ("{{a|{{{b}}}}}x", "x"),
        ("{{{{{1}}}|x}}y", "y"),
        ("unclosed {{template|a\n|b\n\nNext paragraph", "unclosed\nNext paragraph"),
        ("stray }} braces", "stray }} braces"),
        ("a\n{| class=x\n! h\n|-\n| {| \n| b\n|}\n|}\nz", "a\nz"),
        ("a\n{|\n| cell {{t|{|}} \n|}\nz", "a\nz"),
        ("a\n{|\n| never closed\n== Heading ==\nz", "a\nz"),
        ("a <table><tr><td>x<table>y</table></td></tr></table> b", "a b"),
        ("a<ref>cite</ref> b<ref name=x /> c<ref name='y'>{{cite}}</ref>.", "a b c."),
        ("a<ref>never closed, to the line's end\nb", "a\nb"),
        ("a<!-- comment --> b<!-- never closed", "a b"),
        ("x <math>\\frac{a}{b}</math> y", "x y"),
        ("x <gallery>\nFile:a.jpg|b\n</gallery> y", "x y"),
        ("x <syntaxhighlight lang='c'>[[no]]</syntaxhighlight> y", "x y"),
        ("<nowiki>[[no]] {{no}} ''no''</nowiki>", "[[no]] {{no}} ''no''"),
        ("<nowiki>&lt;b&gt; &amp;amp;</nowiki>", "<b> &amp;"),
        ("a <b class='x'>b</b><br/>c <span>d</span>", "a b\nc d"),
        ("5 < 6 and 7 > 3", "5 < 6 and 7 > 3"),
        ("[http://x.example a] or [//x.example] or [mailto:a@b.example c]", "a or or c"),
        ("see http://x.example/a_b for more", "see http://x.example/a_b for more"),
        ("[[File:a.jpg|thumb|A [[caption]] with [[File:b.png]]]]Text", "Text"),
        ("[[Image:a.jpg]]Text [[:Image:a.jpg|an image]]", "Text an image"),
        ("[[File:a.jpg|thumb|never closed\nText", "Text"),
        ("Text[[Category:Things]]", "Text"),
        ("Text [[:Category:Things]]", "Text Category:Things"),
        ("[[de:Ding]]Text [[:de:Ding|Ding]] [[wikt:thing|word]]", "Text Ding word"),
        ("== Heading ==\nText\n=== Next ===\n", "Text"),
        ("* one\n** two\n# three\n: four\n; five", "one\ntwo\nthree\nfour\nfive"),
        ("a\n----\nb", "a\nb"),
        ("__NOTOC__Text__FORCETOC__ of __init__", "Text of __init__"),
        ("a&nbsp;b &#x41;&#66; &lt;i&gt; &unknown;", "a b AB <i> &unknown;"),
        ("a \u00a0\u2009 b\u200b\u00ad c", "a b c"),
        ("Toronto ({{IPAc-en|x}}, {{lang-xx}}) is", "Toronto is"),
        ("Toronto ({{IPAc-en|x}}; born 1834) is", "Toronto (born 1834) is"),
        ("call main() or f( ) now", "call main() or f now"),
        ("a {{convert|5|km|mi}} walk, {{lang|fr|mot}}", "a 5 km walk, mot"),
        ("{{nowrap|10 ''m''}}", "10 m"),
        ("{{convert|5|to|10|km}}", "5 to 10 km"),
        ("a {{citation needed}}, b {{x}}.", "a, b."),
        ("a {{x}}\n\n\n\n b", "a\nb"),
        ("\u65e5\u672c\uff08{{x}}\u3001\uff09\u306f", "\u65e5\u672c\u306f"),
        ("[[- b_]] c", "- b_ c"),
        ("<nowiki>_a-</nowiki>\n<nowiki>-b_</nowiki>", "_a-\n-b_"),
        ("-{zh-hans:计算机;zh-hant:電腦}-是", "计算机是"),
        ("-{R|原}- -{A|zh-cn:一; zh-tw:二}- -{H|zh-cn:三;zh-tw:四}-五", "原 一 五"),
        ("x^-{2}, {{x|-{a}-}} -{sr-ec: ћ; sr-el: ć}-", "x^-{2}, ћ"),
        ("", ""),
    ],
)  # fmt: skip
def test_clean_text(wikitext: str, text: str) -> None:
    assert cleaned(wikitext).text == text
    assert prose(prepared(wikitext), Titles(ENGLISH), "en") == text


@pytest.mark.parametrize(
    ("wikitext", "links"),
    [
        ("[[cat]]s and [[Dog|dogs]]", [("cats", "Cat"), ("dogs", "Dog")]),
        ("[[Paris (France)|]]", [("Paris", "Paris (France)")]),
        ("[[Austin, Texas|]]", [("Austin", "Austin, Texas")]),
        ("[[A#B|c]] [[#Here]] [[A_b  c]]", [("A_b c", "A b c")]),
        ("[[A|b''c'' &amp; <b>d</b>]]", [("bc & d", "A")]),
        ("[[A|&lt;b&gt;]] [[A|&#91;&#91;x]]", [("<b>", "A"), ("[[x", "A")]),
        ("[[A|b [c] d]]", [("b [c] d", "A")]),
        ("[[A|b<br />c]] [[D|the<br>E]]", [("b c", "A"), ("the E", "D")]),
        ("[[A|b [[C]] d]]", [("C", "C")]),
        ("[[A|{{nowrap|B C}}]]", [("B C", "A")]),
        ("[[A|{{gone}}]] x", [("A", "A")]),
        ("[[A|''  b  '']] c", [("b", "A")]),
        ("<nowiki>[[A]]</nowiki><!-- [[B]] --><ref>[[C]]</ref>{{t|[[D]]}}", []),
        ("[[A|\u2003b\u2028]] [[A|\u200b]]", [("b", "A")]),
        ("[[Talk:A]] [[User:B|b]] [[w:C]]", []),
        ("[[ été ]] [[ß]]", [("été", "Été"), ("ß", "ß")]),
        ("[[A%20b|x]] [[A&nbsp;c|y]] [[100%|z]]", [("x", "A b"), ("y", "A c"), ("z", "100%")]),
        ("[[A\nb]] [[<x>]] [[A{b}]]", []),
        ("'''[[A]]''' is ([[B|b]])", [("A", "A"), ("b", "B")]),
    ],
)  # fmt: skip
def test_links_and_their_places(wikitext: str, links: list[tuple[str, str]]) -> None:
    found = cleaned(wikitext)
    assert [(found.text[link.start : link.end], link.title) for link in found.links] == links


def test_namespaces_and_trails_are_those_of_the_language() -> None:
    german = cleaned(
        "[[Datei:x.jpg|mini|[[y]]]][[Bild:z.png]][[Haus]]t\u00fcren [[Kategorie:A]]", GERMAN
    )
    assert german == CleanText("Haust\u00fcren", (KeptLink(0, 9, "Haus"),))
    assert cleaned("[[Haus]]t\u00fcren").links[0][:2] == (0, 5)


def test_a_wiki_may_keep_small_initials() -> None:
    site = Site(case="case-sensitive", language="en")
    assert [link.title for link in cleaned("[[iPod]] [[IPod]]", site).links] == ["iPod", "IPod"]


def test_the_places_are_exact_among_odd_signs() -> None:
    wikitext = (
        "\U0001f98a ''[[A|e\u0301x]]''\u00a0\u00a0([[B|\u6771\u4eac]]{{x}})\r\n"
        "\t[[C]]&nbsp;\U0001f3f4."
    )
    found = cleaned(wikitext)
    shown = [(found.text[link.start : link.end], link.title) for link in found.links]
    assert shown == [("e\u0301x", "A"), ("\u6771\u4eac", "B"), ("C", "C")]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Paris (France)", "Paris"),
        ("Help:Paris", "Paris"),
        (":Help:Paris (x)", "Paris"),
        ("Austin, Texas", "Austin"),
        ("(x)", "(x)"),
        ("Plain", "Plain"),
    ],
)
def test_pipe_trick(raw: str, shown: str) -> None:
    assert pipe_trick(raw) == shown


@pytest.mark.parametrize(
    ("text", "count", "cut"),
    [
        ("One. Two. Three.", 2, "One. Two."),
        ("Dr. A. B. Cole, born ca. 1900, wrote. He", 1, "Dr. A. B. Cole, born ca. 1900, wrote."),
        ("It is 3.5 m long. Then", 1, "It is 3.5 m long."),
        ("He said: \"No.\" She left.", 1, "He said: \"No.\""),
        ("\u4e00\u3002\u4e8c\u3002\u4e09\u3002", 2, "\u4e00\u3002\u4e8c\u3002"),
        ("One\nTwo. Three", 2, "One\nTwo."),
        ("Really?! Yes.", 1, "Really?!"),
        ("the U.S. and so. On", 1, "the U.S. and so."),
        ("One.", 0, ""),
        ("No end", 3, "No end"),
    ],
)  # fmt: skip
def test_first_sentences(text: str, count: int, cut: str) -> None:
    assert first_sentences(text, count) == cut


def test_what_a_page_is() -> None:
    assert is_disambiguation("Ada (disambiguation)", [])
    assert is_disambiguation("Ada", ["Geodis"])
    assert is_disambiguation("Ada", ["Disambiguation "])
    assert is_disambiguation("Ada", ["Disambiguation cleanup"])
    of_a_link = [
        "Disambiguation needed",
        "disambig needed",
        "Disambiguation link",
        "Disambig-inline",
    ]
    assert not is_disambiguation("Ada", of_a_link)
    assert not is_disambiguation("Ada", ["Infobox person", "Redirect"])
    assert is_disambiguation("Ada (Begriffskl\u00e4rung)", [])
    assert is_list("List of anthropologists")
    assert is_list("Liste der Berge")
    assert not is_list("Listening")
    assert not is_list("Lists")
    assert redirect_target("#REDIRECT [[A b#c]]") == "A b#c"
    assert redirect_target("  #WEITERLEITUNG: [[X]]") == "X"
    assert (
        redirect_target(
            "#\u092a\u0941\u0928\u0930\u094d\u092a\u094d\u0930\u0947\u0937\u093f\u0924 [[X]]"
        )
        == "X"
    )
    assert redirect_target("# [[X]]") == ""
    assert redirect_target("#item [[X]]") == ""


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("Infobox settlement", "settlement"),
        ("infobox_person", "person"),
        ("Character infobox", "character"),
        ("Taxobox", "taxon"),
        ("Ficha de pel\u00edcula", "pel\u00edcula"),
        ("Карточка планета", "планета"),
        ("Infobox", ""),
        ("Cite book", ""),
    ],
)  # fmt: skip
def test_types_by_infobox(template: str, said: str) -> None:
    assert infobox_type(template) == said


def test_an_alias_is_a_name() -> None:
    assert all(map(is_name, ["Ada Lovelace", "C#", "#MeToo"]))
    assert not any(map(is_name, ["", "A#B", "x" * 201, "a {{b", "[[c"]))


# ------------------------------------------------------------------------- hostile wikitext
NASTY = (
    *("{{", "}}", "{{{", "[[", "]]", "[[a|", "[[File:a|", "[", "<ref>", "</ref>", "<nowiki>"),
    *("<!--", "\n{|", "\n|}", "'''", "<table>", "[http://", "[http://a ", "&", "__A__", "\n=="),
    *("\n= =", "(", "( ,", " ", "\n ", "<math>", "<div ", "{{nowrap|a|", "[[a[[b", "[[a|[b"),
    *("A. ", "{{Short description|", "&#x", "[[a|b [[c]] d]]", "\n*", "<", "|", "{{a}}", "#"),
)


def seconds(wikitext: str) -> float:
    started = time.process_time()
    cleaned(wikitext)
    list(find_links(prepared(wikitext), Titles(ENGLISH), link_pattern("en")))
    return time.process_time() - started


@pytest.mark.parametrize("sign", NASTY)
def test_ten_to_the_fifth_of_a_sign_take_linear_time(sign: str) -> None:
    # Quadratic time would take minutes for one of these, linear time takes a fraction of a second.
    assert seconds(sign * 100_000) < 10


def test_nesting_of_any_depth_goes() -> None:
    depth = 100_000
    assert cleaned("a" + "{{x|" * depth + "}}" * depth + "b").text == "ab"
    assert cleaned("a\n" + "{|\n" * depth + "|}\n" * depth + "b").text == "a\nb"
    assert cleaned("<div>" * depth + "b" + "</div>" * depth).text == "b"
    assert "[[" not in cleaned("[[a|" * depth + "b" + "]]" * depth).text


pieces = st.lists(
    st.sampled_from([*NASTY, "]]", "}}", "</nowiki>", "-->", "text ", "[[A]]", "{{b|c}}", "''"])
    | st.text(max_size=6),
    max_size=30,
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(pieces)
def test_whatever_comes_the_places_are_exact(parts: list[str]) -> None:
    # Expat refuses what XML cannot hold before a page comes here.
    found = cleaned(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "", "".join(parts)))
    assert found.text == found.text.strip()
    assert not any(sign < " " and sign != "\n" for sign in found.text)
    at = 0
    for link in found.links:
        assert at <= link.start < link.end <= len(found.text)
        shown = found.text[link.start : link.end]
        assert shown == shown.strip()
        at = link.end
