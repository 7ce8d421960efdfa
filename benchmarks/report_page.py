"""How large a report with a map of many entities is, and how soon a browser shows it.

    python benchmarks/report_page.py REPORT.json [ENTITIES]

REPORT.json is what `kglink report RUN --json` printed; its map is replaced by one of so many
entities (100,000), a tenth of them in overlaps. Chromium opens the page on this machine's
processor, without a GPU.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kglink_cli.report_page.page import page_of

ROUNDS = 5
#: Written into the page when all of its scripts are done, and one whole drawing of the map.
PROBE = """
const ready = performance.now();
dispatchEvent(new Event("beforeprint"));
document.querySelector("[data-map] > canvas").getContext("2d").getImageData(0, 0, 1, 1);
const node = document.createElement("pre");
node.id = "probe";
node.textContent = JSON.stringify([ready, performance.now() - ready]);
document.body.append(node);
"""


def packed(values: Any, kind: str) -> str:
    """Numbers as the page has them."""
    return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def large_map(count: int) -> dict[str, Any]:
    """Two KBs of clusters whose members lie about a few hundred centres."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 2)) * 9000
    half = count // 2
    points = centres[rng.integers(300, size=count)] + rng.normal(size=(count, 2)) * 900
    side = {
        "points": packed(points.clip(-32767, 32767), "<i2"),
        "variance": [0.1, 0.05],
        "acs": 0.7,
    }
    pairs = [(at, half + at) for at in range(count // 20)]
    return {
        "method": "synthetic", "entities": count, "shown": count, "kbs": ["left", "right"],
        "counts": [half, count - half], "keys": [f"DOID:{at:07d}" for at in range(count)],
        "titles": [f"synthetic disorder of kind {at}" for at in range(count)],
        "pairs": packed(pairs, "<u4"), "pair_count": len(pairs), "before": side, "after": side,
    }  # fmt: skip


def opened(browser: str, page: Path, profile: str) -> tuple[float, list[float]]:
    """Seconds until the browser is done, and what the page measured."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    start = time.perf_counter()
    done = subprocess.run(
        [browser, *flags, "--dump-dom", page.as_uri()], capture_output=True, check=True
    )
    seconds = time.perf_counter() - start
    found = re.search(rb'<pre id="probe">(.*?)</pre>', done.stdout)
    if found is None:
        raise SystemExit("the page measured nothing")
    return seconds, json.loads(found[1])


def main() -> None:
    """Print the size of the page and the medians of some openings."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("there is no chromium in PATH")
    report = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    for shown in (0, count):
        report["runs"][0]["map"] = large_map(shown or 100)
        text = page_of(report)
        digest = base64.b64encode(hashlib.sha256(PROBE.encode()).digest()).decode()
        probed = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
        probed = probed.replace("</body>", f"<script>{PROBE}</script></body>")
        with tempfile.TemporaryDirectory() as scratch:
            page = Path(scratch) / "page.html"
            page.write_text(probed, "utf-8")
            runs = [opened(browser, page, scratch) for _ in range(ROUNDS)]
        whole = median(seconds for seconds, _ in runs)
        ready, drawn = (median(told[at] for _, told in runs) for at in (0, 1))
        print(
            f"{shown or 100:,} entities: {len(text.encode()) / 1e6:.1f} MB; read and ready after "
            f"{ready:.0f} ms, the map drawn whole in {drawn:.0f} ms; browser from start to end "
            f"{whole:.2f} s"
        )


if __name__ == "__main__":
    main()
