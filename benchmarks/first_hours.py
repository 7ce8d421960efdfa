"""How long a newcomer waits: for the first linked abstract, and for one sentence.

    python benchmarks/first_hours.py ../shared/data/disease

Every command is a process of its own, as on a terminal. Printed are, from the first `add-kb` of
three ontologies on, the seconds until an abstract is linked by names alone and until it is linked
by all evidence; then seconds, processor time and memory of `kglink link` of one sentence, with the
space of three ontologies by names alone and by all evidence, and with a catalogue of a hundred
things.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

KB_FILES = {
    "doid": "doid.obographs.json.gz",
    "hp": "hp.obo.gz",
    "ncit": "ncit.obographs.json.gz",
}
ABSTRACT = """Ataxia-telangiectasia is a recessive disorder with progressive cerebellar ataxia,
immunodeficiency and a high risk of leukemia and lymphoma. Patients with ataxia-telangiectasia had
seizures and atrial flutter; one of them died of heart failure after chemotherapy.
"""
SENTENCE = "The patient had atrial flutter.\n"
RUNS = 5
KGLINK = shutil.which("kglink", path=str(Path(sys.executable).parent)) or "kglink"


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    processor: float
    megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("disease", type=Path)
    disease = parser.parse_args().disease.resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        began = time.monotonic()
        for kb, file in KB_FILES.items():
            ran(folder, "add-kb", kb, str(disease / "kb" / file))
        print(f"{time.monotonic() - began:6.1f} s   three ontologies added")
        first_answer(folder)
        print(f"{time.monotonic() - began:6.1f} s   the abstract linked by names")
        costs("three ontologies, names", folder, evidence="names")
        began_again = time.monotonic()
        ran(folder, "link", "-", "--wait", text=ABSTRACT)
        print(f"{time.monotonic() - began_again:6.1f} s   more until it is linked by all evidence")
        costs("three ontologies, all", folder)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows = "".join(f"p{at},Lamp {at},A lamp for room {at}\n" for at in range(99))
        (folder / "small.csv").write_text(
            f"id,name,description\n{rows}f,Atrial flutter,A flutter\n"
        )
        ran(folder, "add-kb", "small", "small.csv")
        ran(folder, "build")
        costs("a hundred things, names", folder, evidence="names")
        costs("a hundred things, all", folder)


def ran(folder: Path, *arguments: str, text: str = "", evidence: str = "all") -> Cost:
    """Run a command, and say what it cost."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        child = subprocess.Popen(
            [KGLINK, *arguments],
            cwd=folder,
            env={**os.environ, "KGLINK_LINK_FOUND_BY": evidence},
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"kglink {' '.join(arguments)} ended with {child.returncode}")
    seconds = time.monotonic() - began
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def first_answer(folder: Path) -> None:
    """Wait for the first line of links, and not for the vectors that the command makes then."""
    child = subprocess.Popen(
        [KGLINK, "link", "-", "-f", "jsonl"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - both are pipes
    child.stdin.write(ABSTRACT.encode())
    child.stdin.close()
    child.stdout.readline()
    child.terminate()
    child.wait()


def costs(what: str, folder: Path, *, evidence: str = "all") -> None:
    """Print what one sentence costs: the first time, and the median of some more."""
    first, *more = (
        ran(folder, "link", "-", text=SENTENCE, evidence=evidence) for _ in range(1 + RUNS)
    )
    middle = Cost(*map(statistics.median, zip(*more, strict=True)))
    for name, cost in (("first", first), ("then", middle)):
        print(
            f"{what:26} {name:6} {cost.seconds:5.2f} s  {cost.processor:5.2f} s of a processor  "
            f"{cost.megabytes:4.0f} MB"
        )


if __name__ == "__main__":
    main()
