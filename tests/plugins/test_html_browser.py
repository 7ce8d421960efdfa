"""The HTML page in a real browser (Chromium, headless): what people see and what keys do."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from browsers import BROWSER, HEADLESS
from kglink.records import Candidate, EntityId, Link, LinkedDocument
from kglink_plugins.exporters.html import HtmlExporter, HtmlSettings

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium in PATH"),
    pytest.mark.slow,
]

# Runs in a copy of the page and leaves what it saw in the DOM, where --dump-dom prints it.
PROBE = """
const $ = (selector) => document.querySelector(selector);
const mentions = [...document.querySelectorAll(".text .m")];
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const card = document.getElementById("card");
const at = () => mentions.indexOf(document.activeElement);
const result = (() => { %s })();
const node = document.createElement("pre");
node.id = "probe";
node.textContent = JSON.stringify(result);
document.body.append(node);
"""

TEXT = "  Ada met Bob\r\nand <b>Cyd</b>\tin Ada's\n\n\U0001f9d1\u200d\U0001f680 house.\n"


def entity(kb: str, key: str, score: float = 0.9, **more: Any) -> Candidate:
    return Candidate(EntityId(kb, key), f"{key} of {kb}", score, **more)


ADA = entity("atlas", "Ada", url="https://atlas.example/Ada", also=(EntityId("saga", "Ada"),))
SAGA_ADA = entity("saga", "Ada", 0.6, url="javascript:document.title='owned'")
CYD = entity("saga", "<img src=x onerror=\"document.title='owned'\">", description="</script>")


def link(surface: str, candidates: Iterable[Candidate], *, nil: bool = False, nth: int = 0) -> Link:
    start = [match.start() for match in re.finditer(re.escape(surface), TEXT)][nth]
    listed = tuple(candidates)
    chosen = None if nil else listed[0]
    return Link(start, start + len(surface), surface, listed, chosen, 0.75)


LINKS = (
    link("Ada", [ADA, SAGA_ADA]),
    link("Bob", [SAGA_ADA], nil=True),
    link("<b>Cyd</b>", [CYD]),
    link("Ada's\n\n\U0001f9d1\u200d\U0001f680 house", [ADA, CYD]),
    link("house", [SAGA_ADA]),
)
DOCUMENT = LinkedDocument("house.txt", TEXT, LINKS)

Probe = Callable[..., Any]


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    def run(page: Path, *flags: str) -> str:
        profile = tmp_path_factory.mktemp("profile")
        assert BROWSER is not None
        command = [BROWSER, *HEADLESS, f"--user-data-dir={profile}", *flags, page.as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        return done.stdout.decode("utf-8")

    return run


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_page(tmp_path / "page.html", [DOCUMENT])


@pytest.fixture
def probe(browse: Callable[..., str], page: Path) -> Probe:
    return lambda script, *flags: probed(browse, page, script, *flags)


def write_page(path: Path, documents: Iterable[LinkedDocument]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as out:
        HtmlExporter(HtmlSettings()).export(documents, out)
    return path


def probed(browse: Callable[..., str], page: Path, script: str, *flags: str) -> Any:
    """What ``script`` returns when it runs at the end of a copy of the page."""
    code = PROBE % script
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    text = page.read_bytes().decode("utf-8")
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    copy = page.with_name("probe.html")
    copy.write_bytes(text.replace("</body>", f"<script>{code}</script></body>").encode())
    dump = browse(copy, "--dump-dom", *flags)
    found = re.search(r'<pre id="probe">(.*?)</pre>', dump, re.DOTALL)
    assert found, dump[-2000:]
    return json.loads(html.unescape(found[1]))


def first_pixel(png: bytes) -> bytes:
    """The colour of the corner: PNG's row filters leave the very first pixel as it is."""
    position, data = 8, b""
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        if png[position + 4 : position + 8] == b"IDAT":
            data += png[position + 8 : position + 8 + length]
        position += length + 12
    return zlib.decompress(data)[1:4]


def test_the_text_stays_the_text(probe: Probe) -> None:
    # HTML turns CRLF into LF; nothing else may change, and a mark may add nothing.
    assert probe('return $(".text").textContent') == TEXT.replace("\r\n", "\n")
    assert probe('return getComputedStyle($(".text")).whiteSpace') == "pre-wrap"


def test_marks_differ_by_colour_and_by_underline(probe: Probe) -> None:
    styles = probe(
        "return mentions.map((m) => [getComputedStyle(m).textDecorationColor,"
        " getComputedStyle(m).textDecorationStyle])"
    )
    assert [style for _, style in styles] == ["solid", "dotted", "double", "solid", "double"]
    assert len({colour for colour, _ in styles}) == 3


def test_every_mention_takes_the_focus_in_reading_order(probe: Probe) -> None:
    assert probe("return mentions.map((m) => { m.focus(); return m.tabIndex + at() })") == [
        0,
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("key", ["Enter", " "], ids=["enter", "space"])
def test_a_key_opens_and_escape_closes(probe: Probe, key: str) -> None:
    steps = probe(
        "const seen = () => [card.hidden, mentions[0].ariaExpanded];"
        "mentions[0].focus(); const before = seen();"
        f'press("{key}"); const open = seen(); press("Escape");'
        "return [before, open, seen(), at()]"
    )
    assert steps == [[True, "false"], [False, "true"], [True, "false"], 0]


def test_arrows_move_between_mentions_and_take_the_open_card_along(probe: Probe) -> None:
    steps = probe(
        'const steps = []; mentions[0].focus(); press("ArrowRight"); steps.push(at(), card.hidden);'
        'press("Enter"); press("ArrowRight");'
        'steps.push(at(), card.hidden, $("#card-title").textContent);'
        'press("End"); steps.push(at()); press("ArrowRight"); steps.push(at());'
        'press("Home"); steps.push(at()); press("ArrowLeft"); steps.push(at()); return steps'
    )
    assert steps == [1, True, 2, False, "<b>Cyd</b>", 4, 4, 0, 0]


def test_arrows_walk_through_the_candidates(probe: Probe) -> None:
    steps = probe(
        'const items = () => [...card.querySelectorAll("li")].indexOf(document.activeElement);'
        'const steps = []; mentions[0].focus(); press("ArrowDown"); steps.push(items());'
        'press("ArrowDown"); steps.push(items()); press("ArrowDown"); steps.push(items());'
        'press("ArrowUp"); steps.push(items()); press("ArrowUp"); steps.push(at(), card.hidden);'
        'press("ArrowDown"); press("Escape"); steps.push(at(), card.hidden); return steps'
    )
    assert steps == [0, 1, 1, 0, 0, False, 0, True]


def test_the_card_shows_the_candidates_with_scores_and_links(probe: Probe) -> None:
    shown = probe(
        "mentions[0].click(); return {text: card.innerText.split(/\\n+/),"
        'links: [...card.querySelectorAll("a")].map((a) => [a.href, a.rel, a.textContent]),'
        'bars: [...card.querySelectorAll(".bar > div")].map((bar) => bar.style.width),'
        'role: card.getAttribute("role"), name: card.getAttribute("aria-labelledby")}'
    )
    assert shown["text"][:2] == ["Ada", "atlas:Ada, 75% sure"]
    assert "Ada of saga" in shown["text"]
    assert shown["links"] == [["https://atlas.example/Ada", "noopener noreferrer", "Ada of atlas"]]
    assert shown["bars"] == ["90%", "60%"]
    assert (shown["role"], shown["name"]) == ("dialog", "card-title")


def test_hovering_shows_a_card_and_leaving_hides_it(probe: Probe) -> None:
    seen = probe(
        "const over = (node) => node.dispatchEvent("
        "  new PointerEvent('pointerover', {bubbles: true})); "
        "const seen = []; over(mentions[1]); setTimeout(() => {"
        "  seen.push(card.hidden, card.querySelector('p').textContent); over(card); }, 300);"
        "setTimeout(() => { seen.push(card.hidden); over(document.body); }, 800);"
        "setTimeout(() => { seen.push(card.hidden);"
        "  $('#probe').textContent = JSON.stringify(seen); }, 1400);"
        "return seen",
        "--virtual-time-budget=5000",
    )
    assert seen == [False, "No entity (NIL), 75% sure", False, True]


def test_a_kb_can_be_switched_off_and_on(probe: Probe) -> None:
    steps = probe(
        "const box = $('[data-shows=\"kb0\"]'); const seen = () => mentions.map((m) => m.tabIndex);"
        "box.click(); const off = seen();"
        "mentions[1].focus(); press('ArrowLeft'); const first = at();"
        "mentions[0].click(); const hidden = card.hidden;"
        'const rows = [...document.querySelectorAll("tbody tr")].map((row) => row.hidden);'
        "box.click(); return [off, first, hidden, rows, seen()]"
    )
    off, first, hidden, rows, on = steps
    assert off == [-1, 0, 0, -1, 0]
    assert first == 1
    assert hidden is True
    assert rows == [True, False, False, True, False]
    assert on == [0, 0, 0, 0, 0]


def test_names_can_be_shown_in_the_text_without_being_part_of_it(probe: Probe) -> None:
    names = probe(
        '$("#labels").click(); return mentions.slice(0, 3).map('
        '(m) => getComputedStyle(m, "::after").content).concat($(".text").textContent.length)'
    )
    # textContent counts UTF-16 units: two emoji take one more each; CRLF has become LF.
    assert names == ['"atlas"', '"NIL"', '"saga"', len(TEXT) + 2 - 1]


def test_hostile_data_does_nothing(probe: Probe) -> None:
    seen = probe(
        "mentions[2].click(); return [document.title, document.images.length,"
        ' card.querySelector(".description").textContent, card.querySelectorAll("a").length]'
    )
    assert seen == ["Linked text", 0, "</script>", 0]


def test_a_script_that_is_not_ours_does_not_run(browse: Callable[..., str], page: Path) -> None:
    text = page.read_bytes().decode("utf-8")
    injected = page.with_name("injected.html")
    injected.write_bytes(
        text.replace("</main>", "<script>document.title='owned'</script></main>").encode()
    )
    assert "<title>Linked text</title>" in browse(injected, "--dump-dom")


def test_the_page_follows_the_colours_of_the_system(browse: Callable[..., str], page: Path) -> None:
    corners = []
    for scheme in (1, 0):  # Blink's PreferredColorScheme: 1 is light, 0 is dark
        target = page.with_name(f"{scheme}.png")
        browse(page, f"--screenshot={target}", f"--blink-settings=preferredColorScheme={scheme}")
        corners.append(first_pixel(target.read_bytes()).hex())
    assert corners == ["fcfcfa", "17191d"]


@pytest.mark.parametrize("width", [500, 1200])
def test_nothing_sticks_out_sideways(probe: Probe, width: int) -> None:
    seen = probe(
        "mentions[3].click(); const box = card.getBoundingClientRect();"
        "return [document.documentElement.scrollWidth, innerWidth, box.left >= 0, box.right]",
        f"--window-size={width},800",
    )
    page_width, window_width, card_starts_inside, card_end = seen
    assert window_width == width
    assert page_width <= width
    assert card_starts_inside
    assert card_end <= width


def test_a_thousand_mentions_are_quick(browse: Callable[..., str], tmp_path: Path) -> None:
    text = "Ada and Bob. " * 1000
    links = tuple(
        Link(place * 13, place * 13 + 3, "Ada", (ADA, SAGA_ADA), ADA, 0.9) for place in range(1000)
    )
    page = write_page(tmp_path / "big.html", [LinkedDocument("big", text, links)])
    count, last, took = probed(
        browse,
        page,
        "const start = performance.now(); mentions[0].focus(); press('Enter');"
        "for (let i = 0; i < 50; i++) press('ArrowRight');"
        "return [mentions.length, at(), performance.now() - start]",
    )
    assert (count, last) == (1000, 50)
    assert took < 5000
