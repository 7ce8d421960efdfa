"""How long the front door takes to open: `kglink --help` against `python -c "import typer"`.

python benchmarks/startup.py
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time

RUNS = 15


def main() -> None:
    kglink = shutil.which("kglink") or "kglink"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import typer": [sys.executable, "-c", "import typer"],
        "import kglink": [sys.executable, "-c", "import kglink"],
        "kglink --version": [kglink, "--version"],
        "kglink --help": [kglink, "--help"],
    }
    medians = {name: median_seconds(command) for name, command in commands.items()}
    for name, seconds in medians.items():
        print(
            f"{name:18} {1000 * seconds:6.0f} ms   {seconds / medians['import typer']:.1f}x typer"
        )
    heavy = subprocess.run(
        [sys.executable, "-c", "import kglink, sys; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    print(f"import kglink loads torch: {heavy.stdout.strip()}")


def median_seconds(command: list[str]) -> float:
    """The median of some runs after a warm-up."""
    subprocess.run(command, capture_output=True, check=True)
    seconds = []
    for _ in range(RUNS):
        began = time.monotonic()
        subprocess.run(command, capture_output=True, check=True)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
