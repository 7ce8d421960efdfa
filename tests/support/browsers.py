"""The browser that tests drive, where one is installed."""

from __future__ import annotations

import shutil

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")

#: How it starts: as root, and asking no network for anything.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: How it starts without a window.
HEADLESS = ("--headless", *FLAGS, "--hide-scrollbars")
