"""The server's page in a real browser: link, correct, undo, browse, review, upload, by keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import BROWSER, FLAGS
from kglink import Entity, Workspace
from kglink.shown import COLOURS, UNDERLINES
from served import Server, serving

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium in PATH"),
    pytest.mark.slow,
]

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
TEXT = "\U0001f9d1\u200d\U0001f680 Mercury rose over Halley's well; a heron stood still."


@pytest.fixture(scope="module")
def server(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page") / "workspace"
    shutil.copytree(demo_master, folder)
    with Workspace.open(folder) as workspace:
        workspace.add_entity("lanternfall", Entity("evil", HOSTILE, f"</script>{HOSTILE}"))
        workspace.add_entity("lanternfall", Entity("long", "x" * 400, "Long."))
        workspace.build_if_stale()
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page, opened; an error or a warning in its console fails the test."""
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda told: wrong.append(told.text) if told.type != "log" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.set_default_timeout(30_000)
    opened.goto(server.url)
    opened.wait_for_selector("#link-kbs input")
    yield opened
    assert opened.title() == "kglink"
    context.close()
    assert wrong == []


def link(page: Any, text: str) -> None:
    page.evaluate("document.getElementById('status').textContent = ''")
    page.fill("#text", text)
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#status:has-text(' in no KB')")


def test_one_thing_is_told_in_the_singular_and_the_used_space_is_marked(page: Any) -> None:
    link(page, "A heron stood.")
    assert page.inner_text("#status").startswith("1 mention: ")
    page.goto(page.url.partition("#")[0] + "#kbs")
    page.wait_for_selector("#spaces >> text=of 2 KBs, in use")


def answers(page: Any) -> dict[str, str]:
    marks = page.query_selector_all("#linked .m")
    return {mark.inner_text(): mark.get_attribute("title") for mark in marks}


def test_link_correct_see_it_applied_and_undo(page: Any) -> None:
    link(page, TEXT)
    assert page.inner_text("#linked").replace("\u00a0", " ") == TEXT
    before = answers(page)
    assert "Halley" in before
    assert "Juno" not in before["Halley"]
    page.click("#linked .m:has-text('Halley')")
    page.fill("#mention input", "Juno Halley")
    page.click("#mention button:has-text('Find')")
    page.click("#mention button[aria-label^='It means Juno Halley']")
    page.wait_for_selector("#undo")
    assert answers(page)["Halley"] == "Juno Halley, lanternfall"
    assert "as you corrected" in page.inner_text("#status")
    link(page, "Then Halley went home.")
    assert answers(page)["Halley"] == "Juno Halley, lanternfall"
    link(page, TEXT)
    page.click("nav a:has-text('Corrections')")
    page.wait_for_selector("#corrected li")
    assert "Juno" in page.inner_text("#corrected") or "juno_halley" in page.inner_text("#corrected")
    page.click("nav a:has-text('Link')")
    link(page, TEXT)
    page.click("#linked .m:has-text('Halley')")
    page.click("#mention button:has-text('Nothing in any KB')")
    page.wait_for_selector("#undo")
    page.click("#undo")  # brings back what was said before
    page.wait_for_selector("#status:has-text('Taken back')")
    assert answers(page)["Halley"] == "Juno Halley, lanternfall"
    page.click("nav a:has-text('Corrections')")
    page.wait_for_selector("#corrected li")
    page.click("#corrected button")
    page.wait_for_selector("#corrected li", state="detached")
    page.click("nav a:has-text('Link')")
    link(page, TEXT)
    assert answers(page) == before


def test_keyboard_alone(page: Any) -> None:
    page.focus("#text")
    page.keyboard.type("A heron stood by the lighthouse.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#linked .m")
    page.focus("#linked .m")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "lighthouse"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "mention"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Nothing in any KB":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#undo")
    assert answers(page)["heron"] == "no entity"
    assert page.evaluate("document.activeElement.id") == "undo"
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('Taken back')")
    assert answers(page)["heron"] != "no entity"
    page.focus("#linked .m")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "heron"


def test_borders_a_missed_mention_and_no_mention(page: Any) -> None:
    text = "The old heron slept near Orion."
    link(page, text)
    page.click("#linked .m:has-text('heron')")
    page.click("#mention button[aria-label='Move the start left']")
    page.click("#mention button[aria-label='Move the start left']")
    assert page.inner_text("#mention-title") == "old heron"
    page.wait_for_selector("#mention button[aria-label^='It means']")
    page.click("#mention button[aria-label^='It means']")
    page.wait_for_selector("#undo")
    assert "old heron" in answers(page)
    page.fill("#missed", "slept")
    page.press("#missed", "Enter")
    page.wait_for_selector("#mention button[aria-label^='It means']")
    page.click("#mention >> text=Nothing in any KB")
    page.wait_for_selector("#linked .m.nil:has-text('slept')")
    assert answers(page)["slept"] == "no entity"
    page.click("#linked .m:has-text('old heron')")
    page.click("#mention >> text=No mention")
    page.wait_for_selector("#linked .m:has-text('old heron')", state="detached")
    assert "old heron" not in answers(page)
    page.fill("#missed", "nowhere")
    page.press("#missed", "Enter")
    page.wait_for_selector("#status.wrong")


def test_kbs_have_their_colours_and_underlines(page: Any) -> None:
    link(page, TEXT)
    style = "getComputedStyle(document.querySelector('#linked .m'))"
    assert page.evaluate(f"{style}.getPropertyValue('--kb')").strip() in COLOURS
    assert page.evaluate(f"{style}.textDecorationStyle") in UNDERLINES
    assert page.evaluate(f"{style}.textDecorationLine") == "underline"


def test_something_new(page: Any) -> None:
    link(page, "Osric Vane keeps bees.")
    page.fill("#missed", "Osric Vane")
    page.press("#missed", "Enter")
    page.wait_for_selector("#mention summary")
    page.click("#mention summary")
    page.select_option("#mention select", "lanternfall")
    page.fill("#mention details input", "A keeper of bees.")
    page.click("#mention >> text=Add it")
    page.wait_for_selector("#undo")
    link(page, "Everybody greets Osric Vane.")
    assert answers(page)["Osric Vane"] == "Osric Vane, lanternfall"


def test_hostile_titles_and_texts(page: Any) -> None:
    link(page, f"{HOSTILE} met Mercury.")
    page.fill("#missed", HOSTILE)
    page.press("#missed", "Enter")
    page.wait_for_selector("#mention li")
    assert page.query_selector("#result img") is None
    page.click("nav a:has-text('Entities')")
    page.fill("#query", "img onerror")
    page.press("#query", "Enter")
    page.wait_for_selector("#found li")
    page.goto(page.url.partition("#")[0] + "#search=lanternfall:evil")
    page.wait_for_selector("#entity h3")
    assert page.inner_text("#entity h3") == HOSTILE
    assert page.query_selector("#entity img") is None


def test_browse_and_review(page: Any) -> None:
    page.click("nav a:has-text('Entities')")
    page.fill("#query", "wading bird")
    page.press("#query", "Enter")
    page.wait_for_selector("#found li a")
    page.click("#found li a:has-text('heron')")
    page.wait_for_selector("#entity h3")
    assert "In other KBs" in page.inner_text("#entity")
    page.click("nav a:has-text('Review')")
    for number in range(1, 11):
        page.wait_for_selector("#pair .sides")
        page.keyboard.press("y" if number % 2 else "n")
        page.wait_for_selector(f"#status:has-text('{number} answered')")
    page.keyboard.press("z")
    page.wait_for_selector("#status:has-text('Taken back.')")
    press = 'document.dispatchEvent(new KeyboardEvent("keydown", { key }))'
    page.evaluate(f'for (const key of "ynyn") {press}')  # keys at once answer one pair
    page.wait_for_selector("#status:has-text('correct. 10 answered')")
    page.wait_for_timeout(500)
    assert "10 answered" in page.inner_text("#status")


def test_upload_a_kb(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "birds.csv"
    path.write_text("id,name,description\nq,Quetzal,A green bird\n", encoding="utf-8")
    page.click("nav a:has-text('KBs')")
    page.fill("#kb-name", "birds")
    page.set_input_files("#kb-file", path)
    page.click("#upload-form button")
    page.wait_for_selector("#jobs >> text=add-kb birds: done")
    assert "+1 ~0 -0 =0 entities; columns: id is key; name is title" in page.inner_text("#jobs")
    assert "birds" in page.inner_text("#kb-table")
    page.click("nav a:has-text('Link')")
    link(page, "A quetzal sang.")
    assert answers(page)["quetzal"] == "Quetzal, birds"
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"\x00\x01\x02")
    page.click("nav a:has-text('KBs')")
    page.fill("#kb-name", "bad")
    page.set_input_files("#kb-file", bad)
    page.click("#upload-form button")
    page.wait_for_selector("#jobs >> text=add-kb bad: failed")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("id,name\ng,Gr\xe8be\n".encode("cp1252"))
    page.fill("#kb-name", "latin")
    page.set_input_files("#kb-file", latin)
    page.click("#upload-form button")
    page.wait_for_selector("#jobs >> text=&encoding=cp1252")
    page.fill("#kb-more", "&encoding=cp1252")
    page.click("#upload-form button")
    page.wait_for_selector("#jobs >> text=add-kb latin: done")
    assert page.input_value("#kb-more") == ""


def test_a_page_that_outlives_the_server_goes_on(browser: Any, server: Server) -> None:
    job = {"kind": "build", "state": "running", "step": "encoding", "done": 1, "total": 2}
    done = {**job, "state": "done", "answer": {"encoded_rows": 1234}}
    told = [[job], None, [done]]  # None: no answer

    def answer(route: Any) -> None:
        jobs = told.pop(0) if len(told) > 1 else told[0]
        route.abort() if jobs is None else route.fulfill(json=jobs)

    context = browser.new_context()
    page = context.new_page()
    page.route("**/jobs", answer)
    page.goto(f"{server.url}/#kbs")
    page.wait_for_selector("#jobs progress")
    page.wait_for_selector("#status:has-text('The server does not answer.')")
    page.wait_for_selector("#jobs >> text=1,234 vectors encoded")
    assert page.inner_text("#status") == ""
    context.close()


def test_discoveries_wait_before_those_that_were_answered(browser: Any, server: Server) -> None:
    def found(route: Any) -> None:
        route.fulfill(json=[
            {"id": f"new-{at}", "title": f"Thing {at}", "mentions": 2, "examples": [],
             "answer": "accept" if at < 60 else None}
            for at in range(70)
        ])  # fmt: skip

    context = browser.new_context()
    page = context.new_page()
    page.route("**/discoveries", found)
    page.goto(f"{server.url}/#review")
    page.wait_for_selector("#discoveries >> text=Thing 69")
    told = page.inner_text("#discoveries")
    assert told.index("Thing 69") < told.index("Thing 0")
    assert "Take back" in told
    assert told.count("Take back") == 60
    assert "follow" not in told
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1200, "light"), (600, "light")])
def test_nothing_overflows(browser: Any, server: Server, width: int, scheme: str) -> None:
    """A phone, and a desktop at 200% zoom: half as wide."""
    context = browser.new_context(viewport={"width": width, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("#link-kbs input")
    link(page, TEXT)
    page.click("#linked .m")
    page.wait_for_selector("#mention li")
    for view in ("link", "search", "search=lanternfall:long", "review", "corrections", "kbs"):
        page.goto(f"{server.url}/#{view}")
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{server.url}/#link")
    link(page, f"The {'x' * 400} rose.")
    page.fill("#missed", "x" * 400)
    page.press("#missed", "Enter")
    page.wait_for_selector("#mention li")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_a_token_is_asked_for(browser: Any, demo_copy: Path) -> None:
    secret = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of this test
    with serving(demo_copy, "--token-from", "SECRET", env={"SECRET": secret}) as server:
        assert server.ask("GET", "/kbs").status == 401
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", secret)
        page.press("#token", "Enter")
        page.wait_for_selector("#link-kbs input")
        context.close()
