"""How fast `kglink serve` answers, against the library, on the demo's KBs and texts.

python benchmarks/serve.py [--clients 32] [--requests 640] [--rounds 3] [--minutes 0]

Prints seconds until it is ready; median and 99th percentile of one text alone, and under all
clients; mentions a second in turns with `Workspace.link`, by the clock and of processor time: the
library links all texts in one call, or as many in a call as there are clients, which is what a
server can have at once; memory; bytes and first paint of the page (with Chromium and Playwright).
`--minutes` goes on at 80 % of the load that was reached, and prints memory and how many requests
failed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from kglink.workspace import Workspace

ROOT = Path(__file__).parents[1]
DATA = ROOT / "cli" / "kglink_cli" / "demo_data"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browsers import BROWSER, FLAGS  # noqa: E402 - found by the line above
from served import Server, serving  # noqa: E402 - found by the line above


class Client:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"))

    def link(self, text: str) -> tuple[float, int]:
        """The seconds that a text took, and its mentions."""
        began = time.perf_counter()
        body = json.dumps({"text": text})
        self._connection.request("POST", "/link", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        told = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(told)
        return time.perf_counter() - began, len(told["entities"])


def shown(name: str, seconds: Sequence[float]) -> None:
    """Median and 99th percentile."""
    ordered = sorted(seconds)
    worst = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{name:24} median {statistics.median(ordered) * 1000:8.1f} ms   99% {worst * 1000:8.1f} ms"
    )


class Load(NamedTuple):
    """What was linked in some time."""

    seconds: list[float]
    """Of each request or call."""
    mentions: float
    """A second of the clock."""
    texts: float
    """A second of the clock."""
    processor: float
    """Seconds of it for 1,000 mentions."""


def by_library(workspace: Workspace, texts: Sequence[str], size: int) -> Load:
    """Link all texts with the library, ``size`` in a call."""
    began, clock, mentions, seconds = time.perf_counter(), time.process_time(), 0, []
    for first in range(0, len(texts), size):
        before = time.perf_counter()
        linked = workspace.link(texts[first : first + size])
        mentions += sum(len(one.links) for one in linked)
        seconds.append(time.perf_counter() - before)
    whole, clock = time.perf_counter() - began, time.process_time() - clock
    return Load(seconds, mentions / whole, len(texts) / whole, 1000 * clock / mentions)


def under_load(server: Server, texts: Sequence[str], clients: int) -> Load:
    """Ask for all texts with so many clients, each as fast as it is answered."""
    began, clock = time.perf_counter(), processor_seconds(server)

    def work(part: Sequence[str]) -> list[tuple[float, int]]:
        client = Client(server.url)
        return [client.link(text) for text in part]

    with ThreadPoolExecutor(clients) as pool:
        parts = list(pool.map(work, [texts[at::clients] for at in range(clients)]))
    whole, clock = time.perf_counter() - began, processor_seconds(server) - clock
    done = [one for part in parts for one in part]
    mentions = sum(found for _, found in done)
    return Load(
        [seconds for seconds, _ in done],
        mentions / whole,
        len(done) / whole,
        1000 * clock / mentions,
    )


def for_long(server: Server, texts: Sequence[str], clients: int, rate: float, hours: float) -> None:
    """Ask at a steady rate (texts a second), and print how memory goes and what fails."""
    began = time.monotonic()
    until = began + 3600 * hours

    def work(part: Sequence[str]) -> tuple[int, int, float]:
        client, failed, slowest = Client(server.url), 0, 0.0
        next_at = time.monotonic()
        for done, text in enumerate(cycle(part)):
            if time.monotonic() > until:
                return done, failed, slowest
            next_at += clients / rate
            time.sleep(max(0.0, next_at - time.monotonic()))
            try:
                slowest = max(slowest, client.link(text)[0])
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failed += 1
                print(f"failed: {error}", flush=True)
                client = Client(server.url)
        raise AssertionError("a cycle has no end")

    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work, texts[at::clients]) for at in range(clients)]
        while (spent := time.monotonic() - began) < 3600 * hours:
            print(f"after {spent / 60:5.1f} minutes      {megabytes(server):,.0f} MB", flush=True)
            time.sleep(min(60.0, 3600 * hours - spent))
    told = [one.result() for one in working]
    done, failed = sum(one[0] for one in told), sum(one[1] for one in told)
    print(
        f"{'at 80 % load':24} {done:,} texts in {60 * hours:g} minutes, {failed} failed, "
        f"the slowest {max(one[2] for one in told):.1f} s, {megabytes(server):,.0f} MB"
    )


def processor_seconds(server: Server) -> float:
    """The processor time that the server has used."""
    told = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8")
    user, system = told.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def megabytes(server: Server) -> float:
    """The memory that the server holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def tell_page(server: Server) -> None:
    """The bytes of the page, and when a browser paints it first and can be asked to link."""
    files = ("/", "/page.css", "/page.js")
    sizes = [len(server.ask("GET", path).body.encode()) for path in files]
    print(f"{'page':24} {sum(sizes):,} bytes in {len(sizes)} requests")
    if BROWSER is None:
        return
    from playwright.sync_api import sync_playwright

    paints, ready = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        for _ in range(6):
            page = browser.new_context().new_page()
            page.goto(server.url)
            page.wait_for_selector("#link-kbs input")
            ready.append(page.evaluate("performance.now()"))
            paints.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
            page.context.close()
        browser.close()
    # The first opening starts the browser's own processes.
    print(
        f"{'first paint':24} {statistics.median(paints[1:]):.0f} ms, "
        f"with its KBs {statistics.median(ready[1:]):.0f} ms"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0)
    asked = parser.parse_args()
    lines = (DATA / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    texts = list(islice(cycle([json.loads(line)["text"] for line in lines]), asked.requests))
    with (
        tempfile.TemporaryDirectory() as name,
        Workspace.open(Path(name), create=True) as workspace,
    ):
        for kb in ("encyclopedia", "lanternfall"):
            workspace.add_kb(kb, DATA / f"{kb}.jsonl")
        list(workspace.link(texts[:40]))
        began = time.perf_counter()
        with serving(Path(name)) as server:
            Client(server.url).link(texts[0])
            print(f"{'first answer after':24} {time.perf_counter() - began:.1f} s")
            tell_page(server)
            alone = texts[:100]
            for _ in range(asked.rounds):
                client = Client(server.url)
                shown("one text, server", [client.link(text)[0] for text in alone])
                shown("one text, library", by_library(workspace, alone, 1).seconds)
            loads: list[Load] = []
            ratios: dict[int, list[tuple[float, float]]] = {len(texts): [], asked.clients: []}
            for _ in range(asked.rounds):
                loads.append(load := under_load(server, texts, asked.clients))
                for size, told in ratios.items():
                    own = by_library(workspace, texts, size)
                    told.append((load.mentions / own.mentions, own.processor / load.processor))
                    print(
                        f"{'mentions a second':24} {load.mentions:,.0f}, the library's, {size} in "
                        f"a call, {own.mentions:,.0f}; processor seconds for 1,000: "
                        f"{load.processor:.2f} and {own.processor:.2f}"
                    )
            shown(f"{asked.clients} clients", [one for load in loads for one in load.seconds])
            for size, told in ratios.items():
                clock, processor = (statistics.median(one) for one in zip(*told, strict=True))
                print(
                    f"{'median of the rounds':24} {clock:.2f} by the clock, {processor:.2f} of "
                    f"processor time, of the library's with {size} in a call"
                )
            print(f"{'memory':24} {megabytes(server):,.0f} MB")
            if asked.minutes:
                rate = 0.8 * statistics.median(load.texts for load in loads)
                for_long(server, texts, asked.clients, rate, asked.minutes / 60)


if __name__ == "__main__":
    main()
