"""The HTML page: what stands in it (in a browser: test_html_browser.py)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink.shown import web_address
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings
from linked_texts import EPISODE, written


class Page(HTMLParser):
    """The parts of a page that the tests look at."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.contents: dict[str, list[str]] = {"style": [], "script": []}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag
        if tag in self.contents:
            self.contents[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.contents:
            self.contents[self._inside][-1] += data

    def having(self, attribute: str) -> list[str]:
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


def page_of(*documents: LinkedDocument, settings: HtmlSettings | None = None) -> Page:
    return Page(written(HtmlExporter(settings or HtmlSettings()), *documents))


def test_html_needs_nothing_but_itself() -> None:
    page = page_of(EPISODE)
    assert not page.having("src")
    assert {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "base"} == set()
    assert "url(" not in page.contents["style"][0]
    assert "@import" not in page.contents["style"][0]


def test_html_reads_each_line_of_a_text_in_its_own_direction() -> None:
    page = page_of(EPISODE)
    assert ("div", {"class": "text", "dir": "auto"}) in page.tags
    assert "unicode-bidi: plaintext" in page.contents["style"][0]


def test_html_policy_allows_exactly_its_own_style_and_script() -> None:
    page = page_of(EPISODE)
    policy = next(item["content"] for _, item in page.tags if "http-equiv" in item)

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    directives = dict(item.strip().split(" ", 1) for item in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["base-uri"] == directives["form-action"] == "'none'"
    assert directives["style-src"] == allowed(page.contents["style"][0])
    assert directives["script-src"] == allowed(page.contents["script"][-1])
    inline = [
        name for _, attrs in page.tags for name in attrs if name[:2] == "on" or name == "style"
    ]
    assert inline == []


def test_html_marks_every_mention_for_pointer_keyboard_and_screen_reader() -> None:
    page = page_of(EPISODE)
    found = [item for tag, item in page.tags if tag == "span" and item.get("role") == "button"]
    assert [item["aria-label"] for item in found] == [
        "Clara Oswald: doctor_who:Clara_Oswald, 97% sure",
        "the Tower of London: wikipedia:Tower_of_London, 93% sure",
        "the Zygon commander: no entity (NIL), 81% sure",
    ]
    assert [item["class"] for item in found] == ["m kb0 c0 u0", "m kb1 c1 u1", "m nil"]
    assert {item["tabindex"] for item in found} == {"0"}
    assert len({item["id"] for item in found}) == 3


def test_html_keeps_hostile_data_as_text() -> None:
    hostile = "</script><script>alert(1)</script><!--\"'&amp;"
    evil = Candidate(
        EntityId(hostile, hostile),
        hostile,
        0.5,
        url="javascript:alert(1)",
        description=hostile,
        type=hostile,
        evidence={hostile: 1.0},
        also=(EntityId(hostile, hostile),),
    )
    text = f"{hostile} end"
    item = Link(0, len(hostile), hostile, (evil,), evil, 0.5)
    document = LinkedDocument(hostile, text, (item,), {hostile: hostile, "notes": hostile})
    page = page_of(document, settings=HtmlSettings(title=hostile, explain=True))
    harmless = page_of(EPISODE)
    assert [tag for tag, _ in page.tags if tag in {"script", "style"}] == [
        tag for tag, _ in harmless.tags if tag in {"script", "style"}
    ]
    assert page.contents["script"][-1] == harmless.contents["script"][-1]
    assert not [url for url in page.having("href") if "javascript" in url]
    entity = json.loads(page.contents["script"][-2])["entities"][0]
    assert entity["title"] == hostile
    assert entity["url"] is None


def test_html_data_holds_the_answers() -> None:
    page = page_of(EPISODE, settings=HtmlSettings(description_limit=9))
    answers, shared = (json.loads(text) for text in page.contents["script"][:2])
    assert shared["kbs"] == ["doctor_who", "wikipedia"]
    assert [item["id"] for item in shared["entities"]] == [
        "doctor_who:Clara_Oswald",
        "wikipedia:Tower_of_London",
        "doctor_who:Zygon",
    ]
    assert shared["entities"][0]["description"] == "A teacher …"
    assert answers[0]["candidates"][0]["also"] == [[1, "wikipedia:Clara_Oswald"]]
    assert [item["chosen"] for item in answers] == [0, 1, None]
    assert "evidence" not in answers[0]["candidates"][0]


def test_html_lists_documents_kbs_and_notes() -> None:
    note = LinkedDocument("two", "x", (), {"cut": "2 windows"})
    page = written(HtmlExporter(HtmlSettings()), EPISODE, note)
    assert "3 mentions, 2 linked, 1 NIL in 2 documents" in page
    assert '<p class="note">cut: 2 windows</p>' in page
    shows = Page(page).having("data-shows")
    assert shows == ["kb0", "kb1", "nil"]
    assert '<a href="#d2">two</a>' in page


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://a.example/b?c=1&d", True),
        ("HTTP://a.example", True),
        ("javascript:alert(1)", False),
        (" https://a.example", False),
        ("https://a.example/\nx", False),
        ("data:text/html,x", False),
        ("//a.example", False),
        ("", False),
    ],
)
def test_only_web_addresses_become_links(url: str, *, allowed: bool) -> None:
    assert web_address(url) == (url if allowed else None)


def test_html_colours_stand_out_from_the_page_and_from_each_other() -> None:
    style = page_of(EPISODE).contents["style"][0]
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for block in (light, dark):
        values = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", block))
        marks_of = [values[f"c{number}"] for number in range(7)]
        assert len(set(marks_of)) == 7
        assert min(contrast(colour, values["page"]) for colour in (*marks_of, values["nil"])) >= 3
        for ink in ("ink", "soft", "link"):
            assert contrast(values[ink], values["page"]) >= 4.5
            assert contrast(values[ink], values["card"]) >= 4.5


def contrast(one_colour: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""

    def luminance(colour: str) -> float:
        channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one_colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)
