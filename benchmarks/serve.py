"""How fast `kglink serve` answers, against the library, on the demo's KBs and texts.

python benchmarks/serve.py [--clients 32] [--requests 640] [--minutes 0]

Prints seconds until it is ready, median and 99th percentile of one text alone and under all
clients, mentions a second against `Workspace.link`, memory, and the bytes of the page.
`--minutes` goes on with a quarter of the clients for so long, and prints how memory went.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from kglink.workspace import Workspace

ROOT = Path(__file__).parents[1]
DATA = ROOT / "cli" / "kglink_cli" / "demo_data"
sys.path.insert(0, str(ROOT / "tests" / "support"))

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


def under_load(server: Server, texts: Sequence[str], clients: int) -> tuple[list[float], float]:
    """Each text's seconds, and mentions a second of all."""
    began = time.perf_counter()

    def work(part: Sequence[str]) -> list[tuple[float, int]]:
        client = Client(server.url)
        return [client.link(text) for text in part]

    with ThreadPoolExecutor(clients) as pool:
        done = [
            one
            for part in pool.map(work, [texts[at::clients] for at in range(clients)])
            for one in part
        ]
    whole = time.perf_counter() - began
    return [seconds for seconds, _ in done], sum(mentions for _, mentions in done) / whole


def megabytes(server: Server) -> float:
    """The memory that the server holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--minutes", type=float, default=0)
    asked = parser.parse_args()
    lines = (DATA / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    texts = list(islice(cycle([json.loads(line)["text"] for line in lines]), asked.requests))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Workspace.open(folder, create=True) as workspace:
            for kb in ("encyclopedia", "lanternfall"):
                workspace.add_kb(kb, DATA / f"{kb}.jsonl")
            list(workspace.link(texts[:20]))
            began = time.perf_counter()
            mentions = sum(len(one.links) for one in workspace.link(texts))
            library = mentions / (time.perf_counter() - began)
        began = time.perf_counter()
        with serving(folder) as server:
            client = Client(server.url)
            client.link(texts[0])
            print(f"{'first answer after':24} {time.perf_counter() - began:.1f} s")
            shown("one client", [client.link(text)[0] for text in texts[:100]])
            seconds, served = under_load(server, texts, asked.clients)
            shown(f"{asked.clients} clients", seconds)
            ratio = f"{served:,.0f} of the library's {library:,.0f}: {served / library:.2f}"
            print(f"{'mentions a second':24} {ratio}")
            print(f"{'memory':24} {megabytes(server):,.0f} MB")
            page = [
                len(server.ask("GET", path).body.encode())
                for path in ("/", "/page.css", "/page.js")
            ]
            print(f"{'page':24} {sum(page):,} bytes in {len(page)} requests")
            began = time.monotonic()
            while (spent := (time.monotonic() - began) / 60) < asked.minutes:
                under_load(server, texts, max(1, asked.clients // 4))
                print(f"after {spent:5.1f} minutes      {megabytes(server):,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
