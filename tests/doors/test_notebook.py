"""What notebooks show, data frames, and the notebook of the docs."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import kglink
from kglink import (
    Alias,
    Candidate,
    Document,
    Entity,
    EntityId,
    KglinkError,
    Link,
    LinkedDocument,
    Mention,
    Progress,
    Workspace,
)
from kglink.shown import COLOURS, NIL_COLOUR, html_of
from kglink.workspace.notebooks import COLUMNS
from notebooks import cells_of, run_cells

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u202e\x01'
TEXT = "𝔸 <script>alert('é')</script> & 😀 heron, a crane\u202e."


class Seen(HTMLParser):
    """The tags, attributes and text of a piece of HTML, whose tags must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.titles: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HARMLESS = {
    "a", "b", "div", "p", "pre", "small", "span", "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip


def seen(value: Any) -> Seen:
    """What a notebook shows of a value; nothing in it can run."""
    page = Seen(value._repr_html_())
    assert page.tags <= HARMLESS
    assert {name for name, _ in page.attributes} <= {"dir", "href", "rel", "style", "title"}
    addresses = [value for name, value in page.attributes if name == "href"]
    assert all(re.match("https?://", one) for one in addresses)
    assert not re.search("[\x01\u202e]", value._repr_html_())
    return page


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """KBs whose entities have hostile titles."""
    flags = {"link.found_by": "names"}
    folder = tmp_path_factory.mktemp("workspace")
    heron = Entity("h", "heron", HOSTILE, HOSTILE, "https://a.example/?a=1&b='", xrefs=(HOSTILE,))
    crane = Entity("c", f"crane {HOSTILE}", url="javascript:alert(3)", aliases=(Alias("crane"),))
    at = TEXT.index("heron")
    gold = Mention(at, at + 5, "heron", (EntityId("birds", "h"),))
    note = Document("1", TEXT, (gold,), split="dev")
    with Workspace.open(folder, create=True, flags=flags) as opened:
        opened.add_kb("birds", [heron])
        opened.add_kb("shop", [crane], licence=HOSTILE)
        opened.add_kb("notes", [note], links_to=["birds"])
        yield opened


def link(start: int, end: int, kb: str, text: str = TEXT) -> Link:
    chosen = Candidate(EntityId(kb, HOSTILE), HOSTILE, 0.5, url="javascript:x") if kb else None
    return Link(start, end, text[start:end], (chosen,) if chosen else (), chosen, 0.875)


def test_a_linked_text_is_shown_with_its_links(workspace: Workspace) -> None:
    (document,) = workspace.link(TEXT)
    page = seen(document)
    assert page.text.startswith(TEXT.replace("\u202e", "\ufffd"))
    assert page.text.endswith("birds 1 · shop 1")
    assert [title.split()[0] for title in page.titles] == ["birds:h", "shop:c"]
    assert "https://a.example/?a=1&b='" in [value for _, value in page.attributes]
    for title, one in zip(page.titles, document.links, strict=True):
        assert f"{one.confidence:.0%} sure" in title


def test_kbs_have_the_colours_of_their_workspace() -> None:
    text = "one two"
    styles = []
    for kb in ("b", "a", "new", ""):
        document = LinkedDocument("", text, (link(0, 3, kb, text),), {"kbs": ["a", "b"]})
        (style,) = {value for name, value in seen(document).attributes if "underline" in value}
        styles.append(style)
    for style, colour in zip(styles, (COLOURS[1], COLOURS[0], COLOURS[2], NIL_COLOUR), strict=True):
        assert colour in style
    assert "background" not in styles[-1]


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_colours_stand_out_from_white_and_from_black(page: str) -> None:
    def luminance(colour: str) -> float:
        channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (((one + 0.055) / 1.055) ** 2.4 for one in channels)
        return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)

    for colour in (*COLOURS, NIL_COLOUR):
        low, high = sorted((luminance(colour), luminance(page)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_links_that_overlap_are_shown_beside_each_other() -> None:
    text = "breast cancer cells"
    places = [(0, 13, "a"), (7, 13, "b"), (7, 19, ""), (14, 19, "a")]
    document = LinkedDocument("", text, tuple(link(*place, text) for place in places))
    assert seen(document).text == "breast cancer cancer cells cancer cellsa 2 · b 1 · NIL 1"


def test_a_long_text_is_cut_and_an_empty_one_is_shown() -> None:
    assert seen(LinkedDocument("", "", ())).text == "no mentions"
    text = "x" * 30_000
    shown = seen(LinkedDocument("", text, (link(5, 9, "a", text), link(25_000, 25_001, "a", text))))
    assert "… 10,000 more characters" in shown.text
    assert len(shown.text) < 20_100


def test_a_link_an_explanation_and_an_entity_are_shown_as_tables(workspace: Workspace) -> None:
    (document,) = workspace.link(TEXT)
    heron, crane = document.links
    assert "birds:h" in seen(heron).text
    assert "<script>alert(1)</script>" in seen(crane).text
    explained = workspace.explain(TEXT, surface="heron")
    assert "answer   birds:h" in seen(explained).text
    assert seen(explained[0]).text == seen(explained).text
    assert "onerror" in seen(workspace.entity("birds:h")).text
    assert seen(link(0, 1, "")).text.startswith("𝔸: no entity (NIL), 88% sure")


def test_lists_are_shown_as_one_table(workspace: Workspace) -> None:
    kbs = workspace.kbs()
    assert isinstance(kbs, list)
    page = seen(kbs)
    assert page.text.startswith("nameadaptersource")
    assert "licence" in page.text
    assert "options" not in page.text  # which no KB has
    assert "birds" in seen(kbs[0]).text
    assert "crane" in seen(workspace.search("crane", k=1)).text
    assert "default" in seen(workspace.spaces()).text
    assert seen(workspace.runs()).text == ""


def test_evaluations_are_shown(workspace: Workspace) -> None:
    assert "R@1" in seen(workspace.evaluate("notes", kbs=["birds"])).text
    assert "calibration" in seen(workspace.evaluate_end_to_end("notes")).text


def test_what_is_nothing_is_left_out_but_a_zero_is_shown() -> None:
    page = Seen(html_of({"none": None, "empty": [], "no": False, "zero": 0, "half": 0.5, "x": "<"}))
    assert page.text == "zero0half0.500x<"
    assert html_of(list(range(14))).endswith("11 and 2 more")
    assert "and 1 more" in html_of([{"a": 1}] * 201)


def test_rows_of_a_document_are_plain_and_in_reading_order(workspace: Workspace) -> None:
    nil = link(0, 1, "")
    (document,) = workspace.link(TEXT)
    document = LinkedDocument("d", TEXT, (*document.links, nil))
    rows: list[Any] = document.rows()
    assert [row["key"] for row in rows] == [None, "h", "c"]
    assert rows[0]["nil"] is True
    assert json.loads(json.dumps(rows)) == rows
    for row in rows:
        assert tuple(row) == COLUMNS
        assert TEXT[row["start"] : row["end"]] == row["text"]


def test_documents_become_a_data_frame(workspace: Workspace) -> None:
    texts = ["A heron.", "Nothing.", "A heron and a crane."]
    frame = kglink.to_dataframe(workspace.link(texts))
    assert list(frame["document"]) == ["1", "3", "3"]
    assert list(frame["kb"]) == ["birds", "birds", "shop"]
    (document,) = workspace.link("A heron.")
    assert len(kglink.to_dataframe(document)) == 1
    assert list(kglink.to_dataframe([]).columns) == list(COLUMNS)


def test_a_missing_pandas_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(KglinkError, match="needs pandas") as caught:
        kglink.to_dataframe([])
    assert "pip install pandas" in caught.value.hint


def test_a_bar_is_shown_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with kglink.progress_bar() as progress:
        progress(Progress("reading [bold]birds", 1))
        progress(Progress("reading [bold]birds", 5))
        progress(Progress("encoding birds", 2, 4))
        progress(Progress("encoding birds", 4, 4))
    shown = capsys.readouterr().err
    assert "reading [bold]birds" in shown
    assert re.search("encoding birds .*100%", shown)


def shape(html: str) -> str:
    """HTML without its numbers, which differ between machines."""
    return re.sub(r"[-+]?\d[\d.:T+-]*", "0", html)


def test_the_notebook_of_the_docs_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run_cells(NOTEBOOK)
    for html, cell in zip(shown, cells_of(NOTEBOOK), strict=True):
        kept = ["".join(output["data"]["text/html"]) for output in cell["outputs"]]
        assert [shape(one) for one in kept] == [shape(html)] * bool(html)
    assert NOTEBOOK.stat().st_size < 20_000
