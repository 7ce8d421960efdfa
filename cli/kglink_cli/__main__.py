"""``python -m kglink_cli``: the command where its script is not at hand, as under torchrun."""

from __future__ import annotations

from kglink_cli.main import run

if __name__ == "__main__":
    run()
