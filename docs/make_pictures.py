"""Make the pictures of the server's page, spaCy and MCP anew, from real runs on the demo's KBs.

    python docs/make_pictures.py

It needs chromium, Playwright, spaCy and the package mcp. The others are screenshots of the pages
themselves.
"""

from __future__ import annotations

import asyncio
import html
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import spacy
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent
from playwright.sync_api import sync_playwright
from spacy import displacy

from kglink import Workspace

HERE = Path(__file__).resolve().parent / "pictures"
ROOT = HERE.parents[1]
KBS = ROOT / "cli" / "kglink_cli" / "demo_data"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browsers import BROWSER, FLAGS  # noqa: E402 - found by the line above
from served import serving  # noqa: E402 - found by the line above

TEXTS = (
    "Alexandria lost its Pharos to one earthquake after another, until a sultan built a fort of "
    "the rubble.",
    "She leaks, and still I would sign on with the Mercury tomorrow. Give me Basil's galley, "
    "Captain Turner's jokes and a bunk by the ninth cell.",
)
ON_THE_PAGE = (
    "Heron counts the lamps of Skerrow Light and finds one too many. Mercury rises over Gloam "
    "Harbour, where a grey heron stands; Osric Vane has left for Cornwall."
)
STYLE = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 18px 22px; background: #fff; color: #1d2733; font: 16px/1.5 sans-serif }
pre { margin: 0; font: 13.5px/1.45 monospace; white-space: pre-wrap }
h1 { font: 600 13px sans-serif; color: #5b6775; margin: 14px 0 6px }
h1:first-child { margin-top: 0 }
mark { white-space: nowrap } .entities { margin: 6px 0 }
a { color: #0b57a4; text-decoration: none; font-weight: 600 }
.asked, .got { border-left: 4px solid #2a78d6; background: #f2f6fb; padding: 10px 14px }
.got { border-color: #1a936f; background: #f1f8f5 }
</style>"""


def shot(page: str, name: str, width: int, height: int) -> None:
    """Draw a page into a picture of the docs."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "page.html"
        drawn.write_text(STYLE + page, encoding="utf-8")
        subprocess.run(  # noqa: S603 our own page
            [
                shutil.which("chromium") or "chromium", "--headless", "--no-sandbox",
                "--hide-scrollbars",
                "--force-device-scale-factor=1.5", f"--window-size={width},{height}",
                f"--screenshot={HERE / name}", drawn.as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip


def spacy_page(folder: Path) -> str:
    """A linked document as displaCy draws it: each entity with its KB and id."""
    nlp = spacy.blank("en")
    nlp.add_pipe("kglink", config={"workspace": str(folder)})
    drawn = [displacy.parse_ents(doc, {"kb_url_template": "#{}"}) for doc in nlp.pipe(TEXTS)]
    colors = {"encyclopedia": "#cfe3fa", "lanternfall": "#cdeee0"}
    return displacy.render(
        drawn, style="ent", manual=True, jupyter=False, options={"colors": colors}
    )


async def asked(folder: Path, text: str) -> str:
    """What the server answers an agent, in the lines for its model."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kglink_cli", "--workspace", str(folder), "mcp"]
    )
    async with Client(stdio_client(server)) as client:
        result = await client.call_tool("link_text", {"text": text})
    (content,) = result.content
    assert isinstance(content, TextContent)  # noqa: S101 the server answers in text
    return content.text


def mcp_page(folder: Path) -> str:
    """A question for each text, and its answer."""
    parts = []
    for text in TEXTS:
        call = json.dumps({"text": text}, indent=2)
        answer = asyncio.run(asked(folder, text))
        parts.append(
            f"<h1>the agent calls link_text</h1><pre class=asked>{html.escape(call)}</pre>"
        )
        parts.append(f"<h1>kglink answers</h1><pre class=got>{html.escape(answer)}</pre>")
    return "".join(parts)


def picture_of_page(folder: Path) -> None:
    """The server's page, one mention open with its candidates."""
    with serving(folder) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 880, "height": 930})
        page.goto(server.url)
        page.wait_for_selector("#link-kbs input")
        page.fill("#text", ON_THE_PAGE)
        page.press("#text", "Control+Enter")
        page.click("#linked .m:has-text('Mercury')")
        page.wait_for_selector("#mention li")
        page.screenshot(path=HERE / "page.png")
        browser.close()


def main() -> None:
    """Make them all."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "work"
        with Workspace.open(folder, create=True) as workspace:
            for kb in ("encyclopedia", "lanternfall"):
                workspace.add_kb(kb, KBS / f"{kb}.jsonl")
            workspace.add_kb("docs", KBS / "documents.jsonl")
            workspace.build()
            workspace.learn("docs")
        picture_of_page(folder)
        shot(spacy_page(folder), "spacy.png", 1000, 190)
        shot(mcp_page(folder), "mcp.png", 860, 560)


if __name__ == "__main__":
    main()
